"""Why the published tables do not follow from the published algorithms: two mistakes, repeated on purpose.

Both mistakes are in the code that the authors released. The policies and the search here demonstrate the mistakes.
They are in no registry, and not all of them keep the guarantees of the algorithms.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import Bounds, NonlinearConstraint, minimize

from parley.policies.base import NO_GUARANTEE, State, nth_largest
from parley.policies.pf_ucb_bai import PfUcbBai
from parley.policies.wcpe import Halvings, Wcpe
from parley.problem import BoolArray, FloatArray, Instance, IntArray
from parley.simulation import phases
from parley.text.translation import Translatable

ITERATIONS = 1_000  # SciPy's default limit for trust-constr, at which the authors' search stopped


@dataclass(frozen=True, kw_only=True)
class LocalMeansPfUcb(PfUcbBai):
    """PF-UCB-BAI that compares an arm's *local* mean with the best *mixed* mean when it eliminates.

    An arm stays a candidate while the best mixed mean of the remaining arms is at most two radii above its local mean.
    Even the best arm can be eliminated this way. An agent that would lose its last arm stops with the arm that has
    the best mixed mean.
    """

    name: ClassVar[str] = "pf-ucb-bai, local means"

    @property
    def guarantee(self) -> str:
        why = "compares two different quantities, to show where a published figure comes from"
        return Translatable(NO_GUARANTEE, why)

    @property
    def bounds_errors(self) -> bool:
        return False

    def keep(self, before: State, after: State) -> BoolArray:
        mixed, half, _ = self._intervals(after, before.active)
        best = nth_largest(mixed, 1, before.active)
        near = before.active & (best - after.means <= 2 * half)
        ended = ~near.any(axis=-2, keepdims=True) | (before.active.sum(axis=-2, keepdims=True) <= 1)
        return np.asarray(np.where(ended, mixed >= best, near))


@dataclass(frozen=True, kw_only=True)
class CappedWcpe(Wcpe):
    """W-CPE with at most `cap` draws of an arm by an agent in a phase, as if a search for the counts stopped too early.

    The intervals use the counts that were drawn, so the guarantee holds, but they may be wider than the phase's target.
    """

    name: ClassVar[str] = "wcpe, capped counts"
    cap: int = 4_966

    def wanted(self, state: State) -> IntArray:
        return np.minimum(super().wanted(state), self.cap)


@dataclass(frozen=True, kw_only=True)
class SearchedWcpe(Wcpe):
    """W-CPE that can also search for its counts as the authors' code does; its plans still use the exact counts."""

    name: ClassVar[str] = "wcpe, searched counts"

    def search(self, state: Halvings, *, iterations: int = ITERATIONS) -> tuple[FloatArray, int, bool]:
        """Search for the fewest draws with SciPy's `trust-constr`, starting from ones.

        Minimises the sum of the new draws d >= 0 subject to `n + d >= t * beta(n + d)`, over the arms that are
        candidates of any agent; n are the draws so far, t is the allocation, and beta is the threshold of W-CPE.
        Returns the draws d `(arm, agent)`, the number of iterations, and whether the iteration limit ended the search.
        """
        live = state.active.any(axis=-1)
        shape = (int(live.sum()), self.problem.agent_count)
        totals = np.maximum(state.counts[live], 1)
        allocation = self._allocation(state)[live]

        def slack(values: FloatArray) -> FloatArray:
            return self._slack(totals + values.reshape(shape), allocation).ravel()

        slopes: Any = {"jac": np.ones_like, "hess": lambda values: np.zeros((values.size, values.size))}
        with warnings.catch_warnings():
            # SciPy warns about finite differences; `shortfall` judges the result instead.
            warnings.simplefilter("ignore")
            result = minimize(
                np.sum,
                np.ones(shape).ravel(),
                method="trust-constr",
                **slopes,
                bounds=Bounds(0, np.inf),
                constraints=[NonlinearConstraint(slack, 0, np.inf)],
                options={"maxiter": iterations},
            )
        draws = np.zeros(state.counts.shape)
        draws[live] = totals + result.x.reshape(shape) - state.counts[live]
        return draws, int(result.nit), bool(result.status == 0)

    def shortfall(self, state: Halvings, draws: FloatArray | IntArray) -> float:
        """The largest amount by which these draws violate the constraint in `search`; 0 if they satisfy it."""
        live = state.active.any(axis=-1)
        return max(0.0, -float(self._slack((state.counts + draws)[live], self._allocation(state)[live]).min()))

    def _slack(self, totals: FloatArray | IntArray, allocation: FloatArray) -> FloatArray:
        beta: Callable[[FloatArray], FloatArray] = self._beta  # type: ignore[assignment]  # also accepts fractions
        return np.asarray(totals - allocation * beta(np.maximum(totals, 1.0)))


@dataclass(frozen=True, kw_only=True)
class Search:
    """The counts of one phase: the result of the iterative search, and the exact smallest counts."""

    phase: int
    exact: IntArray  # (arm, agent): new draws of the phase
    found: FloatArray  # (arm, agent): the draws that the search returned
    violation: float  # by how much the draws of the search violate the constraint
    exact_violation: float  # by how much the exact counts violate the constraint
    iterations: int
    stopped: bool  # whether the iteration limit ended the search, without an answer
    search_seconds: float
    exact_seconds: float


def searches(instance: Instance, *, seed: int, iterations: int = ITERATIONS) -> list[Search]:
    """Compute the counts of every phase of a run of W-CPE, exactly and by the search; the run uses the exact counts."""
    policy = SearchedWcpe(problem=instance.problem)
    found = []
    for phase in phases(policy, instance, seed=seed):
        assert isinstance(phase.before, Halvings)
        begun = perf_counter()
        draws, steps, stopped = policy.search(phase.before, iterations=iterations)
        middle = perf_counter()
        exact = policy.plan(phase.before)
        ended = perf_counter()
        found.append(
            Search(
                phase=phase.number,
                exact=exact,
                found=draws,
                violation=policy.shortfall(phase.before, draws),
                exact_violation=policy.shortfall(phase.before, exact),
                iterations=steps,
                stopped=stopped,
                search_seconds=middle - begun,
                exact_seconds=ended - middle,
            )
        )
    return found
