"""What the paper guarantees for W-CPE: at most so many rounds and samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from parley.bounds.paper import Bound, bai
from parley.errors import InvalidInput
from parley.problem import Instance
from parley.rewards import Gaussian
from parley.thresholds import mixture_constant

__all__ = ["Guarantee"]


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What the paper proves for W-CPE with probability at least 1 - delta (Theorem 2; Theorem 5 for the top N).

    The paper's ceil(log2(8 / gap_min)) counts one phase too few where the logarithm is whole (phases are 0 to r_max):
    we take floor(.) + 1, which is the same everywhere else.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> parley.Guarantee.of(instance).rounds
    4
    """

    rounds: int  # at most this many
    samples: float  # at most this many: the largest n with n <= 32 T rounds beta*(n) + K M minimum_cell
    samples_explicit: float  # the paper's closed form (Appendix B), which is looser

    @classmethod
    def of(cls, instance: Instance, bound: Bound | None = None) -> Guarantee:
        """For one instance, whose T* may be handed in; the proxy gaps start at `largest_gap` in place of 1.

        T* is that of Gaussian rewards of the scale that W-CPE's intervals have: with bounded and 0/1 rewards that is
        half the range, whatever their variance. An unknown scale is refused, as W-CPE does.
        """
        problem = instance.problem
        problem.noise.require_scale("the guarantee of W-CPE")
        arms, agents = problem.shape
        if instance.gaps.max() > problem.largest_gap:
            raise InvalidInput(
                "largest_gap",
                found=f"{problem.largest_gap:g} with a gap of {instance.gaps.max():g}",
                allowed="no gap above it: the guarantee of W-CPE rests on that",
            )
        rounds = math.floor(math.log2(8 * problem.largest_gap / instance.smallest_gap)) + 1
        supposed = _as_intervals_suppose(instance)
        factor = 32 * (bound if bound and supposed is instance else bai(supposed)).value * rounds
        constant = mixture_constant(problem.delta, arms, agents)
        cells = arms * agents * problem.minimum_cell  # a count passes what its constraint asks by less than a cell

        def most(samples: float) -> float:
            beta = 2 * (constant + 2 * agents * math.log(4 + math.log(samples)))
            return factor * beta + cells

        # `most` is increasing and concave: iterating it leads to its largest fixed point from either side.
        a, b = cells + 2 * constant, 4 * agents
        inner = 4 + factor**2 / math.e * (a + b * (2 + math.sqrt(math.e))) ** 2
        explicit = factor * (a + b * math.log(inner))
        samples = max(explicit, float(cells))
        while abs((closer := most(samples)) - samples) > 1e-12 * samples:
            samples = closer
        return cls(rounds=rounds, samples=closer, samples_explicit=max(explicit, closer))


def _as_intervals_suppose(instance: Instance) -> Instance:
    """The instance with Gaussian rewards of the stated scale; itself, if that is what it has."""
    model = instance.problem.noise
    if not model.two_valued and np.all(model.bound_variances(instance.means, instance.scale) == model.variance):
        return instance
    noise = Gaussian(scale=np.sqrt(model.variance).tolist())
    return Instance(problem=instance.problem.with_(noise=noise), means=instance.means)
