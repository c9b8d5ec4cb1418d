"""How large a last look must be so that a study with a tolerance has an answer, whatever the rewards are.

The *level* a = W delta / M is what remains of a pair's error probability, and u is the normal quantile of 1 - a. In a
last look every open pair (l, j) stakes its level and wins if x_l - x_j >= t[l, j] = u sqrt(V) - tolerance. Some arm of
a set wins against all others of the set, whatever the x, if no cycle of its arms has a positive sum of t: that is, if
the largest mean of u sqrt(V) over its cycles is at most the tolerance. docs/tolerance.md has the proof.

Every agent has such a set, the *contenders*: its best-ranked arms, as many as make the study cheapest. All other arms
must lose by their gaps. With a single contender, all others do, and there is no tie.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri_exp

from parley.problem import BoolArray, FloatArray, IntArray, Problem

KEPT = 0.05  # share of its level that a pair keeps in a last look, in case the study goes on
# Gaps are assumed to be this many standard errors smaller than estimated, but not below 0: the best of many estimates
# is too high, and a study that takes a tie for a gap loses its bets.
DOUBT = 2.0
# Standard deviations beyond the quantile: with 1, a pair wins five times out of six. The second is for a stated last
# round, after which no further round is possible.
SURE, SURE_AT_LAST = 1.0, 5.0
LEAST_NEED = 0.1
LEADERS = (0.25, 0.4, 0.55)  # variances tried for the leader's mean, relative to what the hardest contrast allows
APART = 0.5  # least variance of an outside arm, relative to a contender's; below it, the arm is as cheap inside
MOST_CONTENDERS = 16  # with more, the largest quantile is used as a bound on the largest mean of a cycle
NEVER = 1e6  # stands for u sqrt(V) of a pair that was not drawn and has not won
LEAST_QUANTILE = 0.3  # for levels of about 0.4 and more, which need next to no draws


@dataclass(frozen=True, kw_only=True, eq=False)
class Closing:
    """What it takes to close all agents' questions, estimated from the past."""

    contenders: BoolArray  # (..., arm, agent): the arms among which an answer is sought
    quantile: FloatArray  # (..., agent): the largest mean of u over cycles of contenders
    outside: FloatArray  # (..., arm, agent): twice the variance of its mean at which another arm loses; or inf
    information: FloatArray  # (..., agent): sum of 1 / variance over the arms' means that should close the question
    looks: IntArray | None = None  # (...): looks left, if a phase is planned
    cost: FloatArray | None = None  # (...): rough cost of closing all questions

    @property
    def between(self) -> BoolArray:
        """`(..., arm, arm, agent)`: pairs of contenders."""
        return np.asarray(self.contenders[..., :, None, :] & self.contenders[..., None, :, :])

    def closed_by(self, problem: Problem, log_levels: FloatArray, variances: FloatArray) -> BoolArray:
        """`(..., 1, 1, agent)`: whether a look with these variances of pairs gives an answer, whatever the rewards."""
        u = quantiles(log_levels)
        drawn = np.isfinite(variances)
        heights = np.where(drawn | (log_levels >= 0), u * np.sqrt(np.where(drawn, variances, 1.0)), NEVER)
        closed = largest_mean(heights, self.contenders) <= problem.tolerance
        return np.asarray(closed)[..., None, None, :]


def closing(
    problem: Problem,
    log_levels: FloatArray,
    active: BoolArray,
    mixed: FloatArray,
    variances: FloatArray,
    standing: FloatArray,
) -> Closing:
    """The cheapest way to close all questions, from the pairs' levels, the estimates and the ranking of arms.

    `log_levels` are `(..., arm, arm, agent)`. The estimates of mixed means, their variances and `standing`, by which
    arms are ranked, are `(..., arm, agent)`.

    The sets tried are the best-ranked arms, one or more. For the cost of a set, contenders get the variance that closes
    it, and each other arm gets the variance at which every contender should win against it.
    """
    arms, tolerance = problem.arm_count, problem.tolerance
    order = np.argsort(np.where(active, -standing, np.inf), axis=-2, kind="stable")
    rank = np.argsort(order, axis=-2, kind="stable")
    open_ = np.take_along_axis(active, order, axis=-2)
    x, variance = (np.take_along_axis(values, order, axis=-2) for values in (mixed, variances))
    u = quantiles(log_levels)
    u = np.take_along_axis(np.take_along_axis(u, order[..., :, None, :], axis=-3), order[..., None, :, :], axis=-2)
    missing = (
        np.isfinite(u) & open_[..., :, None, :] & open_[..., None, :, :] & ~np.eye(arms, dtype=np.bool_)[..., None]
    )
    u = np.where(missing, u, -np.inf)
    gap = x[..., :, None, :] - x[..., None, :, :] + tolerance
    error = np.sqrt(variance[..., :, None, :] + variance[..., None, :, :])
    firm = problem.max_rounds is not None
    need = np.maximum(u + (SURE_AT_LAST if firm else SURE), LEAST_NEED)
    safe = np.where(missing, np.square(np.maximum(gap - DOUBT * error, tolerance) / need), np.inf)
    likely = safe if firm else np.where(missing, np.square(np.maximum(gap, tolerance) / need), np.inf)
    cheapest = _leader_alone(safe[..., 0, :, :], missing[..., 0, :, :])
    size = np.ones(cheapest.shape, dtype=np.int64)
    outside = np.full(mixed.shape, np.inf)
    for count in range(2, arms + 1):
        quantile = largest_mean(u[..., :count, :count, :], open_[..., :count, :])[..., None, :]
        own = np.square(tolerance / np.maximum(quantile, LEAST_QUANTILE)) / 2
        others = missing[..., :count, count:, :].any(axis=-3)
        room = safe[..., :count, count:, :].min(axis=-3) - own
        covers = ((room >= APART * own) | ~others).all(axis=-2, keepdims=True)
        rest = np.where(others, 1 / np.where(room > 0, room, np.inf), 0.0).sum(axis=-2, keepdims=True)
        cost = count / own + rest
        better = covers & (cost < cheapest) & open_[..., count - 1 : count, :]
        wide = np.maximum(likely[..., :count, count:, :].min(axis=-3) - own, APART * own)
        cheapest, size = np.where(better, cost, cheapest), np.where(better, count, size)
        outside[..., :count, :] = np.where(better, np.inf, outside[..., :count, :])
        outside[..., count:, :] = np.where(better, np.where(others, 2 * wide, np.inf), outside[..., count:, :])
    contenders = active & (active.sum(axis=-2, keepdims=True) > problem.top) & (rank < size)
    return Closing(
        contenders=contenders,
        quantile=np.maximum(largest_mean(quantiles(log_levels), contenders), LEAST_QUANTILE),
        outside=np.take_along_axis(outside, rank, axis=-2),
        information=cheapest[..., 0, :],
    )


def _leader_alone(variances: FloatArray, missing: BoolArray) -> FloatArray:
    """`(..., 1, agent)`: least information, summed over arms, for these `variances (..., arm, agent)` to the leader."""
    hardest = np.where(missing, variances, np.inf).min(axis=-2, keepdims=True)
    hardest = np.where(np.isfinite(hardest), hardest, 1.0)
    costs = []
    for share in LEADERS:
        others = np.where(missing, 1 / np.where(missing, variances - share * hardest, 1.0), 0.0)
        costs.append(1 / (share * hardest) + others.sum(axis=-2, keepdims=True))
    return np.asarray(np.min(costs, axis=0))


def quantiles(log_levels: FloatArray) -> FloatArray:
    """The normal quantile u of the level that each pair stakes; -inf for pairs that have won."""
    won = log_levels >= 0
    staked = np.log1p(-KEPT) + np.where(won, -1.0, log_levels)
    return np.where(won, -np.inf, -ndtri_exp(staked))


def largest_mean(weights: FloatArray, among: BoolArray) -> FloatArray:
    """`(..., agent)`: the largest mean weight of a cycle through the arms `among`; -inf if there is none (Karp 1978).

    `weights (..., arm, arm, agent)` are those of edges from the first arm to the second; -inf means no edge.

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
