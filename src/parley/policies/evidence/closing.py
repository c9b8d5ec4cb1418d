"""The size of a last look that gives a study with a tolerance an answer, whatever its rewards turn out to be.

A pair (l, j) of arms has the wealth W of bets on "j is not better than l by the tolerance or more" (`tolerance`). Its
*level* a = W delta / M, with M questions, is what remains of the pair's error probability, and u is the normal quantile
of 1 - (1 - kept) a. Let x be the arms' mixed means in the last look, and V the variance of x_l - x_j. In that look
every open pair stakes all but the part `kept` of its level and wins if x_l - x_j >= t[l, j] = u sqrt(V) - tolerance.

Suppose that no cycle of arms in a set has a positive sum of t: the largest mean of u sqrt(V) over its cycles is at most
the tolerance. Then potentials h with t[l, j] <= h_j - h_l exist, and the arm with the largest x + h wins against all
other arms of the set, whatever x is. docs/tolerance.md has the proof.

Every agent has such a set, the *contenders*: its best-ranked arms, as many as make the study cheapest. All other arms
must lose by their gaps. A single contender means that the plan expects no tie: every other arm must lose by its gap.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri_exp

from parley.problem import BoolArray, FloatArray, IntArray, Problem

# Share of its level that a pair keeps in a last look, in case the study goes on. If the scale of rewards is known, such
# a look is sure to give an answer.
KEPT, KEPT_IN_DOUBT = 0.005, 0.02
# Gaps are assumed to be this many standard errors smaller than estimated, but not below 0: the best of many estimates
# is too high, and a study that mistakes a tie for a gap loses its bets.
DOUBT = 2.0
# `Manner.sure` of studies that state their last round, which no round can follow, and of those that state `rounds`:
# their looks are large, so few draws of the arms that do not contend suffice. With 1.2, a pair wins seven times out of
# eight.
SURE_AT_LAST, SURE_IN_ROUNDS = 2.0, 0.2
LEAST_NEED = 0.1  # smallest planned score; without it, levels near 1 would have negative scores
LEADERS = (0.25, 0.4, 0.55)  # variances to try for the leader's mean, as shares of its hardest contrast's variance
APART = 0.5  # smallest variance of another arm, relative to a contender's: below it, a contender costs no more
MOST_CONTENDERS = 16  # with more arms, the largest quantile replaces the largest mean of a cycle, as a bound
NEVER = 1e6  # value of u sqrt(V) for a pair that was not drawn and has not won
LEAST_QUANTILE = 0.3  # smallest quantile to plan with: levels of about 0.4 and more need next to no draws


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a closed study is planned, by its number of arms; found by measurement, and no guarantee depends on it.

    `odds`: those of arms without any spread before any data (`spread`); they are high, since mistaking a tie for a gap
    costs error probability for good. `kept`: the part of its wealth that a pair keeps if it loses the first phase.
    `near`: pairs whose estimated gap plus tolerance is below this many tolerances are near-ties. `sure`: how
    far beyond its quantile the score of a pair with an arm that does not contend is planned to lie, in standard
    deviations. `steps`: after a look that is followed by n more, the total spent is at most steps^-n of the closing
    size. `finer`: a factor on the option `optimism`, which makes phases smaller. `early`: as long as closing costs more
    than this many times what was spent, half of a phase is planned for a leader alone. `seen` and `dearer`: once the
    past has the share `seen` of the information that closing still needs, a leader alone counts `dearer` times its
    cost. `swift`: if the arms seem alike, phases grow up to this factor. `learns`: whether shares and near-ties depend
    on the arms' spread; of few arms, one that is far off would hide that the others tie.
    """

    odds: float
    kept: float
    near: float
    sure: float
    steps: float
    finer: float
    early: float
    seen: float
    dearer: float
    swift: float
    learns: bool


FEW_ARMS = 4
FEW = Manner(
    odds=50.0,
    kept=0.33,
    near=1.2,
    sure=1.05,
    steps=1.3,
    finer=1.5,
    early=2.5,
    seen=0.6,
    dearer=1.25,
    swift=2.0,
    learns=False,
)
THREE = replace(FEW, steps=1.36, dearer=1.3)
MANY = replace(FEW, kept=0.5, near=1.5, sure=1.2, finer=1.15, early=8.0, seen=0.3, dearer=1.7, swift=4.6, learns=True)


def manner(problem: Problem) -> Manner:
    """The manner for this number of arms: many arms tell soon whether they are alike (`spread`), few do not."""
    if problem.arm_count > FEW_ARMS:
        return MANY
    return FEW if problem.arm_count == FEW_ARMS else THREE


@dataclass(frozen=True, kw_only=True, eq=False)
class Closing:
    """The draws needed to close all agents' questions, estimated from the past."""

    contenders: BoolArray  # (..., arm, agent): the arms among which an answer is sought
    quantile: FloatArray  # (..., agent): the largest mean of u over cycles of contenders
    horizon: FloatArray  # (..., agent): the same, but over all open arms where there is a single contender
    outside: FloatArray  # (..., arm, agent): twice the variance at which an arm's mean loses to all contenders, or inf
    information: FloatArray  # (..., agent): sum over arms of 1 / variance of the mean that should close the question
    looks: IntArray | None = None  # (...): remaining looks; None if no phase is being planned
    cost: FloatArray | None = None  # (...): rough cost of closing all questions; None if no phase is planned
    alike: FloatArray | None = None  # (...): the chance that arms are alike; None where it makes no difference

    @property
    def between(self) -> BoolArray:
        """`(..., arm, arm, agent)`: whether both arms of a pair are contenders."""
        return np.asarray(self.contenders[..., :, None, :] & self.contenders[..., None, :, :])

    def closed_by(self, problem: Problem, log_levels: FloatArray, variances: FloatArray) -> BoolArray:
        """`(..., 1, 1, agent)`: whether a look is certain to give an answer, whatever its rewards.

        `variances (..., arm, arm, agent)` are those of the pairs' contrasts in this look; inf if a pair was not drawn.
        """
        u = quantiles(problem, log_levels)
        drawn = np.isfinite(variances)
        heights = np.where(drawn | (log_levels >= 0), u * np.sqrt(np.where(drawn, variances, 1.0)), NEVER)
        closed = largest_mean(heights, self.contenders) <= problem.tolerance
        return np.asarray(closed)[..., None, None, :]


def of_all(problem: Problem, log_levels: FloatArray, among: BoolArray) -> Closing:
    """Close all questions among the arms `among (..., arm, agent)`, whichever of them wins."""
    quantile = np.maximum(largest_mean(quantiles(problem, log_levels), among), LEAST_QUANTILE)
    return Closing(
        contenders=among,
        quantile=quantile,
        horizon=quantile,
        outside=np.full(among.shape, np.inf),
        information=2 * among.sum(axis=-2) * np.square(quantile / problem.tolerance),
    )


def closing(
    problem: Problem,
    log_levels: FloatArray,
    active: BoolArray,
    mixed: FloatArray,
    variances: FloatArray,
    standing: FloatArray,
    sure: float,
) -> Closing:
    """Find the cheapest way to close all questions, from the pairs' levels, the estimates and the ranking of arms.

    `log_levels` are `(..., arm, arm, agent)`. The estimates of mixed means, their variances and `standing`, by which
    arms are ranked, are `(..., arm, agent)`. `sure` is how many standard deviations beyond its quantile the score of a
    pair with an arm that does not contend is planned to lie.

    The contenders are chosen by trying every set of the best-ranked arms, from one arm up. The cost of a set assumes
    that each contender's mean has the variance that closes the set, and each other arm's mean the variance at which
    every contender should win against it.
    """
    arms, tolerance = problem.arm_count, problem.tolerance
    order = np.argsort(np.where(active, -standing, np.inf), axis=-2, kind="stable")
    rank = np.argsort(order, axis=-2, kind="stable")
    open_ = np.take_along_axis(active, order, axis=-2)
    x, variance = (np.take_along_axis(values, order, axis=-2) for values in (mixed, variances))
    usual = quantiles(problem, log_levels)
    u = np.take_along_axis(np.take_along_axis(usual, order[..., :, None, :], axis=-3), order[..., None, :, :], axis=-2)
    missing = (
        np.isfinite(u) & open_[..., :, None, :] & open_[..., None, :, :] & ~np.eye(arms, dtype=np.bool_)[..., None]
    )
    u = np.where(missing, u, -np.inf)
    gap = x[..., :, None, :] - x[..., None, :, :] + tolerance
    error = np.sqrt(variance[..., :, None, :] + variance[..., None, :, :])
    firm = problem.max_rounds is not None
    need = np.maximum(u + sure, LEAST_NEED)
    # The number of contenders is chosen by `safe`, so that no arm is left out because of a gap that may be
    # luck. The draws of other arms are planned by `likely`, the gaps as estimated, unless no further round could make
    # up for too few draws.
    safe = np.where(missing, np.square(np.maximum(gap - DOUBT * error, tolerance) / need), np.inf)
    likely = safe if firm else np.where(missing, np.square(np.maximum(gap, tolerance) / need), np.inf)
    # A single contender has no cycle to close: the leader must beat every other arm by its gap.
    cheapest = _leader_alone(safe[..., 0, :, :], missing[..., 0, :, :])
    # A study that has seen most of what closing still needs is in its last looks. A leader that fails costs one more.
    of_every = largest_mean(u, open_)[..., None, :]
    whole = np.maximum(of_every, LEAST_QUANTILE)
    seen = np.where(missing[..., 0, :, :], 1 / np.square(error[..., 0, :, :]), np.inf).min(axis=-2, keepdims=True)
    late, dearer = manner(problem).seen, manner(problem).dearer
    cheapest = np.where(seen >= late * np.square(whole / tolerance), dearer * cheapest, cheapest)
    size = np.ones(cheapest.shape, dtype=np.int64)
    outside = np.full(mixed.shape, np.inf)
    found = np.full(cheapest.shape, LEAST_QUANTILE)
    for count in range(2, arms + 1):
        quantile = of_every
        if count < arms:
            quantile = largest_mean(u[..., :count, :count, :], open_[..., :count, :])[..., None, :]
        # A pair's variance is the sum of two contenders' variances, so each may have half of what closes the set.
        own = np.square(tolerance / np.maximum(quantile, LEAST_QUANTILE)) / 2
        others = missing[..., :count, count:, :].any(axis=-3)
        room = safe[..., :count, count:, :].min(axis=-3) - own
        covers = ((room >= APART * own) | ~others).all(axis=-2, keepdims=True)
        rest = np.where(others, 1 / np.where(room > 0, room, np.inf), 0.0).sum(axis=-2, keepdims=True)
        cost = count / own + rest
        better = covers & (cost < cheapest) & open_[..., count - 1 : count, :]
        wide = np.maximum(likely[..., :count, count:, :].min(axis=-3) - own, APART * own)
        cheapest, size = np.where(better, cost, cheapest), np.where(better, count, size)
        found = np.where(better, np.maximum(quantile, LEAST_QUANTILE), found)
        outside[..., :count, :] = np.where(better, np.inf, outside[..., :count, :])
        outside[..., count:, :] = np.where(better, np.where(others, 2 * wide, np.inf), outside[..., count:, :])
    contenders = active & (active.sum(axis=-2, keepdims=True) > problem.top) & (rank < size)
    return Closing(
        contenders=contenders,
        quantile=found[..., 0, :],
        horizon=np.where(size > 1, found, whole)[..., 0, :],
        outside=np.take_along_axis(outside, rank, axis=-2),
        information=cheapest[..., 0, :],
    )


def _leader_alone(variances: FloatArray, missing: BoolArray) -> FloatArray:
    """`(..., 1, agent)`: the least information, summed over arms, with which the leader should beat all other arms.

    `variances (..., arm, agent)` are those at which the leader should win its contrast with each arm. Only the arms in
    `missing` have not yet lost to the leader.
    """
    hardest = np.where(missing, variances, np.inf).min(axis=-2, keepdims=True)
    hardest = np.where(np.isfinite(hardest), hardest, 1.0)
    costs = []
    for share in LEADERS:
        others = np.where(missing, 1 / np.where(missing, variances - share * hardest, 1.0), 0.0)
        costs.append(1 / (share * hardest) + others.sum(axis=-2, keepdims=True))
    return np.asarray(np.min(costs, axis=0))


def kept(problem: Problem) -> float:
    """The share of its level that a pair keeps in a last look."""
    return KEPT if problem.noise.knows_scale else KEPT_IN_DOUBT


def quantiles(problem: Problem, log_levels: FloatArray) -> FloatArray:
    """The normal quantile u of the level that each pair stakes in a last look; -inf for pairs that have won."""
    won = log_levels >= 0
    staked = math.log1p(-kept(problem)) + np.where(won, -1.0, log_levels)
    return np.where(won, -np.inf, -ndtri_exp(staked))


def largest_mean(weights: FloatArray, among: BoolArray) -> FloatArray:
    """`(..., agent)`: the largest mean weight of a cycle through the arms `among` (Karp 1978); -inf without a cycle.

    `weights (..., arm, arm, agent)` belong to edges from the first arm to the second; -inf means no edge.
    With more than `MOST_CONTENDERS` arms, the result is the largest weight, an upper bound on the mean.

    >>> w = np.array([[-np.inf, 3.0, 0.0], [1.0, -np.inf, 2.0], [2.5, 0.0, -np.inf]])[..., None]
    >>> largest_mean(w, np.ones((3, 1), dtype=bool)).tolist()  # 0 -> 1 -> 2 -> 0
    [2.5]
    """
    arms = weights.shape[-2]
    itself = np.eye(arms, dtype=np.bool_)[..., None]
    inside = among[..., :, None, :] & among[..., None, :, :] & ~itself
    edges = np.where(inside, weights, -np.inf)
    if arms > MOST_CONTENDERS:
        return np.asarray(edges.max(axis=(-3, -2)))
    # Let F_s(v) be the largest weight of a walk of s edges that ends at the arm v. Karp's theorem: with K arms, the
    # answer is the largest value over v of the minimum over s < K of (F_K(v) - F_s(v)) / (K - s).
    walks = [np.where(among, 0.0, -np.inf)]
    for _ in range(arms):
        walks.append((walks[-1][..., :, None, :] + edges).max(axis=-3))
    last = walks[-1]
    reached = np.isfinite(last)
    least = np.full(last.shape, np.inf)
    for steps, walk in enumerate(walks[:-1]):
        mean = np.where(np.isfinite(walk), (np.where(reached, last, 0.0) - walk) / (arms - steps), np.inf)
        least = np.minimum(least, mean)
    return np.asarray(np.where(reached, least, -np.inf).max(axis=-2))
