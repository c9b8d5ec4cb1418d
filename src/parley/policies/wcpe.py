"""W-CPE-BAI and W-CPE-TopN (Algorithms 1 and 2 of the paper) in one class: with N = 1 the two are the same.

Every phase halves the *proxy gap* of the remaining arms, asks the oracle for the cheapest allocation that makes every
confidence interval as narrow as its proxy gap, and draws until counts just reach this allocation.

The paper's beta sets the width of intervals: `radius = scale * sqrt(beta(n_k) * sum_n w_nm^2 / n_kn)`, where `n_kn` is
the number of draws of arm k by agent n. In the appendix, the proof of the paper's confidence lemma has another factor
of 2 under the root, which `beta` already includes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from parley.bounds import oracle
from parley.bounds.paper import mixture_constant
from parley.errors import InvalidInput, UnknownName
from parley.policies.base import (
    NO_GUARANTEE,
    Elimination,
    Explanation,
    State,
    best_estimates,
    nth_largest,
    raise_cells,
    whole_counts,
)
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.system.once import once
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import share

Threshold = Callable[[IntArray], FloatArray]  # counts (..., arm, agent) to beta (..., arm, 1)
THRESHOLDS = {
    "paper": "time-uniform, delta-correct (Lemma 2 of the paper)",
    "heuristic": Translatable("the authors' experimental threshold: NO GUARANTEE on the error"),
}
ABOUT = 1.5  # an interval with a half-width of up to this many proxy gaps counts as narrow enough
ENDLESS = 2**53  # a count so large that a mean counts as known
OTHERS = 0.1  # the other sites are assumed to draw until their variance is this share of the lost sites' variance


@dataclass(frozen=True, kw_only=True, eq=False)
class Halvings(State):
    """The state of W-CPE: the fields of every policy's state, and how often each proxy gap was halved."""

    halvings: IntArray  # (..., arm, agent): the proxy gap is largest_gap / 2**halvings


@dataclass(frozen=True, kw_only=True)
class Wcpe(Elimination):
    """The policy W-CPE-BAI, or W-CPE-TopN if N is above 1.

    `threshold`: "paper" keeps the error below delta; "heuristic", from the authors' code, guarantees nothing.

    `accuracy`: how close the oracle's allocation must provably be to the cheapest one.
    """

    name: ClassVar[str] = "wcpe"
    proven: ClassVar[bool] = True
    # Its intervals hold for all counts at once, so sites may report other counts than planned.
    supports: ClassVar[frozenset[str]] = Elimination.supports | {"tolerance", "site_counts"}
    needs_scale: ClassVar[bool] = True
    draws_everything: ClassVar[bool] = True
    threshold: str = "paper"
    accuracy: float = 1e-6

    def __post_init__(self) -> None:
        if self.threshold not in THRESHOLDS:
            raise UnknownName("threshold", self.threshold, THRESHOLDS)
        share("accuracy", self.accuracy)

    def claim(self, probability: float) -> str:
        if self.threshold != "paper":
            return Translatable(NO_GUARANTEE, THRESHOLDS[self.threshold])
        return super().claim(probability)

    @property
    def bounds_errors(self) -> bool:
        return self.claims and self.threshold == "paper"

    @once
    def _beta(self) -> Threshold:
        return make_threshold(self.threshold, self.problem)

    def start(self, batch: tuple[int, ...] = ()) -> Halvings:
        return Halvings(**self.blank(batch), halvings=np.zeros((*batch, *self.problem.shape), dtype=np.int64))

    def wanted(self, state: State) -> IntArray:
        """The fewest further draws with which the counts reach the oracle's allocation.

        Intervals hold for all counts at once, so a minimum cell does not change the error probability. The counts meet
        the constraint *with* the minimum cell, so intervals are as narrow as the bound on rounds assumes.
        """
        assert isinstance(state, Halvings)
        # If the intervals are already narrower than the proxy gaps (little noise or large cells), no draws are wanted
        # and the phase would decide nothing. So halve the gaps until some draws are wanted.
        contested = state.active.any(axis=-1, keepdims=True) & ~state.finished[..., None, None]
        undecided = state.active & (state.active.sum(axis=-2, keepdims=True) > self.problem.top)
        undecided &= self.open_questions(state)[..., None, :]
        while True:
            # The paper draws every arm once before the first phase. No decision depends on these draws alone, so here
            # they are part of the first phase.
            counts = smallest_counts(state.counts, self._allocation(state), self._beta, self.problem.minimum_cell)
            wanted = np.where(contested, counts - state.counts, 0)
            wanted[..., self.undrawn] = 0
            idle = ~state.finished & ~wanted.any(axis=(-2, -1)) & undecided.any(axis=(-2, -1))
            if not idle.any():
                return wanted
            state = replace(state, halvings=state.halvings + (undecided & idle[..., None, None]))

    def blocked(self, state: State) -> BoolArray:
        """`(..., agent)`: whether the agent could rule out no candidate even after many draws by the other sites.

        "Many" means until the other sites' part of the variance is a tenth of the lost sites' part. Ruling out an arm
        that needs even more draws would cost the other sites an almost unlimited number of draws.
        """
        waiting = super().blocked(state)
        if not waiting.any():
            return waiting
        gone = np.zeros(self.problem.agent_count, dtype=np.bool_)
        gone[list(self.idle)] = True
        endless = np.where(gone, state.counts, ENDLESS)
        variances = self.problem.mixed_variances(endless) * (1.0 + OTHERS)
        floor = np.sqrt(self._beta(np.maximum(state.counts, 1)) * variances)
        mixed = self.problem.mixed(state.means)
        lowest = nth_largest(mixed - floor, self.problem.top, state.active)
        apart = (state.active & (mixed + floor < lowest)).any(axis=-2)
        if self.problem.tolerance:
            leaders, settled = self._settled(state, mixed, floor)
            apart |= (settled | leaders | ~state.active).all(axis=-2)
        return np.asarray(waiting & ~apart)

    def explain(self, state: State) -> Explanation:
        mixed, half, bar = self._intervals(state, state.active)
        return Explanation(
            mixed_means=mixed,
            score=np.where(state.phase[..., None, None] > 0, (bar - mixed) / half, 0.0),
            line=1.0,
            words=Translatable(
                "distance below the N-th best lower confidence bound, in half-widths of the arm's own interval"
            ),
        )

    def update(self, state: State, totals: Totals) -> State:
        after = super().update(state, totals)
        assert isinstance(after, Halvings)
        halved = after.active & self.open_questions(after)[..., None, :] & ~state.finished[..., None, None]
        halved &= self._reached(after)
        return replace(after, halvings=after.halvings + halved)

    def _reached(self, state: Halvings) -> BoolArray:
        """`(..., arm, agent)`: whether the phase made the interval about as narrow as its proxy gap.

        The variance of idle agents, which nobody can reduce, is left out. Normally a phase reaches the gaps. If it did
        not, because it was cut short or was planned for other weights, the next phase asks for the missing draws
        instead of halving the gaps.
        """
        counts = state.counts.copy()
        counts[..., list(self.idle)] = ENDLESS
        widths = self._beta(np.maximum(state.counts, 1)) * self.problem.mixed_variances(counts)
        return np.asarray(np.sqrt(widths) <= ABOUT * self.problem.largest_gap * np.exp2(-state.halvings.astype(float)))

    def decide(self, before: State, after: State) -> State:
        """Rule arms out, and accept an agent's leaders once they are within the tolerance of all other candidates.

        Leaders are accepted when no interval extends above their lowest lower end by more than the tolerance.
        """
        decided = super().decide(before, after)
        if not self.problem.tolerance:
            return decided
        mixed, half, _ = self._intervals(decided, decided.active)
        return _accept(before, decided, *self._settled(decided, mixed, half), self.problem.top)

    def _settled(self, state: State, mixed: FloatArray, half: FloatArray) -> tuple[BoolArray, BoolArray]:
        """The leaders, and the arms whose upper ends exceed the leaders' lowest lower end by at most the tolerance."""
        leaders = best_estimates(mixed, state.active, self.problem.top)
        lowest = np.where(leaders, mixed - half, np.inf).min(axis=-2, keepdims=True)
        return leaders, np.asarray(mixed + half <= lowest + self.problem.tolerance)

    def keep(self, before: State, after: State) -> BoolArray:
        mixed, half, bar = self._intervals(after, before.active)
        return np.asarray(mixed + half >= bar)

    def _intervals(self, state: State, among: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mixed means, the half-widths of their intervals, and the N-th best lower end of the arms `among`."""
        mixed = self.problem.mixed(state.means)
        half = radius(self.problem, state.counts, self._beta)
        return mixed, half, nth_largest(mixed - half, self.problem.top, among)

    def _allocation(self, state: Halvings) -> FloatArray:
        """The allocation t(r) of Algorithm 1: the oracle's allocation for sqrt(2) times the proxy gaps.

        Proxy gaps differ only by powers of two, so even a large batch has few distinct programs; each is solved once.
        """
        if self._by_arm:
            return self.allocation_for(self.problem.largest_gap * np.exp2(-state.halvings.astype(np.float64)))
        rows = state.halvings.reshape(-1, self.problem.agent_count)
        distinct, which = np.unique(rows, axis=0, return_inverse=True)
        proxies = self.problem.largest_gap * np.exp2(-distinct.astype(np.float64))
        return self.allocation_for(proxies)[which.ravel()].reshape(state.halvings.shape)

    @property
    def _by_arm(self) -> bool:
        """Whether arms may differ in variance, so that each arm needs a program of its own."""
        return np.ndim(self.problem.noise.variance) == 2

    def allocation_for(self, proxies: FloatArray) -> FloatArray:
        """`(arms, agent)`: the allocation that, multiplied by beta, makes intervals as narrow as the proxy gaps."""
        return oracle(self.problem, np.sqrt(2) * proxies, accuracy=self.accuracy)


def _accept(before: State, after: State, leaders: BoolArray, settled: BoolArray, top: int) -> State:
    """Let every agent accept its leaders if all of its other remaining arms are `settled`, and drop those arms.

    `after` is the state after the phase's eliminations. `leaders` and `settled` are `(..., arm, agent)`. An arm that
    was ruled out need not be settled, and cannot lead.
    """
    assert before.accepted is not None
    outside = after.active & ~leaders
    whole = (after.active & leaders).sum(axis=-2) == top
    now = whole & (settled | ~outside).all(axis=-2) & outside.any(axis=-2) & ~before.finished[..., None]
    active = np.where(now[..., None, :], after.active & leaders, after.active)
    return replace(
        after,
        active=active,
        dropped_in=np.where(after.active & ~active, after.phase[..., None, None], after.dropped_in),
        accepted=before.accepted | now,
    )


@dataclass(frozen=True, kw_only=True)
class Uniform(Wcpe):
    """W-CPE without its oracle: all agents draw an arm equally often. Comparing the two shows what the oracle saves.

    It takes the options of `wcpe`, but ignores `accuracy`, since equal counts have a closed form.
    """

    name: ClassVar[str] = "uniform"
    proven: ClassVar[bool] = True

    def allocation_for(self, proxies: FloatArray) -> FloatArray:
        # With equal counts x, every agent m needs sum_n w_nm^2 / x <= proxy^2, so the least x is the largest ratio.
        variance = self.problem.noise.variance
        if isinstance(variance, float):
            variances = variance * self.problem.squared_weights.sum(axis=0)
        else:
            arms = self.problem.arm_count if self._by_arm else 1
            variances = self.problem.mixed_variances(np.ones((arms, self.problem.agent_count), dtype=np.int64))
        needed = (variances / np.square(proxies)).max(axis=-1, keepdims=True)
        weighed = self.problem.squared_weights.any(axis=1)  # no draws for agents without weight in any mix
        return np.asarray(needed * weighed)


def smallest_counts(counts: IntArray, allocation: FloatArray, threshold: Threshold, minimum_cell: int = 1) -> IntArray:
    """The smallest integers `n >= max(counts, 1)` with `n >= allocation * threshold(n)`, all `(..., arm, agent)`.

    W-CPE asks for the fewest further draws that meet this constraint (Algorithm 1). `threshold` is `(..., arm, 1)` and
    does not decrease in any count, so the points that meet the constraint form a lattice. Its least element is the
    limit of `n <- max(counts, ceil(allocation * threshold(n)))` from below, and minimises every count at once. The
    points where each `n - counts` is also 0 or at least `minimum_cell` form a lattice too. Raising cells afterwards
    would be wrong: more draws by one agent raise the threshold, and with it the draws that the others need.

    >>> n = np.array([[1, 1]])
    >>> beta = lambda n: np.log(4.0 + n.sum(axis=-1, keepdims=True))
    >>> smallest_counts(n, np.array([[2.0, 0.5]]), beta).tolist()
    [[5, 2]]
    >>> smallest_counts(n, np.array([[2.0, 0.5]]), beta, minimum_cell=20).tolist()
    [[21, 21]]
    """
    if (allocation < 0).any() or not np.isfinite(allocation).all():
        raise InvalidInput("allocation", found=allocation.min(), allowed="finite numbers of at least 0")
    first = np.maximum(counts, 1)
    least = counts + raise_cells(first - counts, minimum_cell)
    while True:
        needed = np.maximum(first, whole_counts(allocation * threshold(least)))
        following = counts + raise_cells(needed - counts, minimum_cell)
        if (following == least).all():
            return following
        least = following


def make_threshold(name: str, problem: Problem) -> Threshold:
    """Make the threshold beta of this name, as a function of each arm's counts.

    >>> beta = make_threshold("paper", Problem(arms=6, weights=np.eye(3), delta=0.1))
    >>> beta(np.ones((6, 3), dtype=np.int64)).shape
    (6, 1)
    """
    if name not in THRESHOLDS:
        raise UnknownName("threshold", name, THRESHOLDS)
    if name == "heuristic":
        return lambda counts: 2 * np.log((1 + np.log(counts.sum(axis=-1, keepdims=True))) / problem.delta)
    constant = mixture_constant(problem.delta, *problem.shape)

    def paper(counts: IntArray) -> FloatArray:
        iterated = np.log(4 + np.log(counts)).sum(axis=-1, keepdims=True)
        return np.asarray(2 * (constant + 2 * iterated))

    return paper


def radius(problem: Problem, counts: IntArray, threshold: Threshold) -> FloatArray:
    """Omega of Definition 2, `(..., arm, agent)`: half the width of a mixed mean's interval; huge without data."""
    return np.asarray(np.sqrt(threshold(np.maximum(counts, 1)) * problem.mixed_variances(counts)))
