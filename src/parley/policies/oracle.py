"""The oracle policy, which knows the true gaps and draws once, in the proportions of the lower bound.

If prices or rates are stated, these proportions minimise the cost of time and money together.

No policy that has to learn the gaps can be expected to do better; what other policies spend beyond the oracle is the
price of not knowing the gaps.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from parley.bounds import identification
from parley.costs import CostModel
from parley.errors import InvalidInput, UnknownName
from parley.harmonic import solve
from parley.policies.base import (
    NO_GUARANTEE,
    Elimination,
    Explanation,
    State,
    best_estimates,
    nth_largest,
    whole_counts,
)
from parley.problem import BoolArray, Instance, IntArray, Problem
from parley.system.once import once
from parley.text.translation import Translatable

SIZES = {
    "guaranteed": "enough for the chosen error, by a union bound over the comparisons",
    "paper": "ceil(T* log(1 / (2.4 delta))), as in the paper's experiment: NO GUARANTEE on the error",
}


def require_truth(problem: Problem, instance: Instance) -> None:
    """Raise unless an oracle can use this instance as the truth: it must have the problem's shape and no top-N tie."""
    if instance.problem.shape != problem.shape:
        raise InvalidInput("instance", found=instance.problem.shape, allowed=str(problem.shape))
    instance.require_distinct()


@dataclass(frozen=True, kw_only=True)
class Oracle(Elimination):
    """The policy that knows the true gaps.

    `size`: "guaranteed" draws enough to err with probability at most delta; "paper" draws only as many as the paper's
    lower bound.
    """

    name: ClassVar[str] = "oracle"
    proven: ClassVar[bool] = True
    plans_by_price: ClassVar[bool] = True
    instance: Instance
    size: str = "guaranteed"
    accuracy: float = 1e-6

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise UnknownName("size", self.size, SIZES)
        require_truth(self.problem, self.instance)

    def claim(self, probability: float) -> str:
        if self.size != "guaranteed":
            return Translatable(NO_GUARANTEE, SIZES[self.size])
        premise = "knowing the true gaps, which no real study does"
        if self.problem.noise.divergence is not None:  # sized as for Gaussian rewards with the same variances
            premise += "; approximately, as if rewards were Gaussian"
        return super().claim(probability) + f" ({premise})"

    @property
    def bounds_errors(self) -> bool:
        return self.claims and self.size == "guaranteed"

    @once
    def _counts(self) -> IntArray:
        cost_model, accuracy = CostModel.of(self.problem), self.accuracy
        programs = identification(self.instance, cost_model.prices)
        allocation = solve(programs, accuracy=accuracy, pace=cost_model.pace).allocation[0]
        counts = np.where(self.problem.draws, np.maximum(whole_counts(allocation * self._information()), 1), 0)
        return counts if self.problem.rate is None else np.where(self.problem.rate > 0, counts, 0)

    def _information(self) -> float:
        """The factor on the allocation of T*, which by itself gives every contrast a variance of at most gap^2 / 2."""
        problem = self.problem
        if self.size == "paper":
            return max(math.log(1 / (2.4 * problem.delta)), 0.0)
        # An answer is wrong only if one of these contrasts has the wrong sign, that is, errs by gap / sd standard
        # deviations. So each may have an equal share of delta.
        comparisons = problem.agent_count * problem.top * (problem.arm_count - problem.top)
        share = problem.delta / comparisons
        if problem.noise.boosted:
            return float(ndtri(share)) ** 2 / 2
        return math.log(1 / share)

    def wanted(self, state: State) -> IntArray:
        """The draws still missing from fixed counts; a minimum cell only adds draws, so variances only shrink."""
        return np.where(state.finished[..., None, None], 0, np.maximum(self._counts - state.counts, 0))

    def explain(self, state: State) -> Explanation:
        mixed = self.problem.mixed(state.means)
        return Explanation(
            mixed_means=mixed,
            score=nth_largest(mixed, self.problem.top, state.active) - mixed,
            line=0.0,
            words="distance of the estimate below the N-th best estimate",
        )

    def keep(self, before: State, after: State) -> BoolArray:
        enough = np.all(after.counts >= self._counts, axis=(-2, -1), keepdims=True)
        mixed = self.problem.mixed(after.means)
        return np.asarray(~enough | best_estimates(mixed, before.active, self.problem.top))
