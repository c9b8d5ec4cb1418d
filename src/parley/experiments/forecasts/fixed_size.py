"""The design to compare with: the same number of draws everywhere, fixed in advance, one test at the end (Bonferroni).

Every agent names the N best estimates if each of them beats every other arm by the normal quantile that a union over
all such pairs and all questions leaves, less the tolerance. An agent names a bad arm only if that arm beats one of its
true best by as much, so the error is at most delta; scales are taken to be known. It is sized for a gap that nobody
knows before the study: a generous comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from parley.problem import BoolArray, FloatArray, Instance, IntArray

__all__ = ["FixedSize", "fixed_size"]

MOST = 2**40  # draws of a cell
CELLS = 4_000_000  # arms x agents x runs: what fits
RUNS = 2000


@dataclass(frozen=True, kw_only=True)
class FixedSize:
    """The smallest design that has the power wanted."""

    per_cell: int  # draws of every arm by every agent
    samples: int
    power: float  # how often every agent's answer is named and good, by simulation


def fixed_size(instances: Sequence[Instance], power: float, *, seed: int) -> FixedSize | None:
    """Sized for this very truth, or for some on average; None where no number of draws has that power.

    >>> from parley.problem import Problem
    >>> truth = Instance(problem=Problem(arms=2, weights=[[1.0]], delta=0.05), means=[[0.5], [0.0]])
    >>> found = fixed_size([truth], 0.9, seed=0)
    >>> 60 < found.per_cell < 80, found.samples == 2 * found.per_cell  # by the formula 68.5
    (True, True)
    """
    trials = [_Trial.of(instance, seed + place, len(instances)) for place, instance in enumerate(instances)]

    def reached(draws: int) -> float:
        return float(np.mean([trial.power(draws) for trial in trials]))

    low, high = 1, 2
    while reached(high) < power:
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > max(1, low // 500):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= power else (middle, high)
    return FixedSize(per_cell=high, samples=high * instances[0].means.size, power=reached(high))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """Many runs at once; the same errors for every size, so that more draws never look worse by chance."""

    instance: Instance
    errors: FloatArray  # (run, arm, agent): of mixed means from one draw a cell
    variances: FloatArray  # (arm, agent): theirs
    quantile: float

    @classmethod
    def of(cls, instance: Instance, seed: int, many: int) -> _Trial:
        problem, cells = instance.problem, np.broadcast_to(instance.cell_variances, instance.means.shape)
        runs = max(min(RUNS, CELLS // cells.size) // many, 100)
        drawn = np.random.default_rng(seed).standard_normal((runs, *cells.shape)) * np.sqrt(cells)
        tests = problem.question_count * problem.top * (problem.arm_count - problem.top)
        return cls(
            instance=instance,
            errors=problem.mixed(drawn),
            variances=cells @ problem.squared_weights,
            quantile=float(-ndtri(problem.delta / tests)),
        )

    def power(self, draws: int) -> float:
        """With so many draws of every cell."""
        leaders, named = self.answers(draws)
        good = np.take_along_axis(np.broadcast_to(self.instance.good, self.errors.shape), leaders, axis=-2)
        return float((named & good.all(axis=-2)).all(axis=-1).mean())

    def answers(self, draws: int) -> tuple[IntArray, BoolArray]:
        """`(run, N, agent)`: the best estimates; and `(run, agent)`: whether the agent names them."""
        problem = self.instance.problem
        found = self.instance.mixed_means + self.errors / np.sqrt(draws)
        order = np.argsort(-found, axis=-2, kind="stable")
        leaders, others = order[:, : problem.top], order[:, problem.top :]
        named = np.ones((len(found), problem.agent_count), dtype=np.bool_)
        spread = np.broadcast_to(self.variances, found.shape)
        behind, wide = (np.take_along_axis(values, others, axis=-2) for values in (found, spread))
        for rank in range(problem.top):
            ahead, own = (np.take_along_axis(values, leaders[:, [rank]], axis=-2) for values in (found, spread))
            needed = self.quantile * np.sqrt((own + wide) / draws) - problem.tolerance
            named &= (ahead - behind >= needed).all(axis=-2)
        return leaders, named
