"""When a study with a tolerance must end: the size of a last look that has an answer, whatever it draws.

Write a = W delta / M for what is left of a pair's error probability, its *level*, and u for the normal quantile of 1 -
a. In a last look every open pair (l, j) stakes its level and wins if x_l - x_j >= t[l, j] = u sqrt(V) - tolerance. Some
arm of a set wins against all others of it, whatever the x, if no cycle of arms in the set has a positive sum of t: if
the largest mean of u sqrt(V) over its cycles is at most the tolerance. docs/tolerance.md has the proof.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri_exp

from parley.policies.base import nth_largest
from parley.policies.evidence.wealth import LOWEST
from parley.problem import BoolArray, FloatArray, IntArray, Problem

KEPT = 0.05  # of its level a pair keeps in a last look, for a study that must go on
# Standard errors, beyond the tolerance, by which an arm may look worse than an answer and be a contender; and where a
# last round is stated.
NEARBY, NEARBY_AT_LAST = 1.0, 2.0
MOST_CONTENDERS = 16  # with more, the largest quantile stands for the largest mean of a cycle, which is no larger
NEVER = 1e6  # the height of a pair that was not drawn, and has not won
TRIMMED = 3  # times that contenders without an open pair are left out
LEAST_QUANTILE = 0.3  # levels of 0.4 and more ask for next to nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Closing:
    """What closes the questions of all agents, by the past."""

    contenders: BoolArray  # (..., arm, agent): between these arms an answer is to be found
    quantile: FloatArray  # (..., agent): the largest mean of u over cycles of contenders
    looks: IntArray | None = None  # (...): that are left, where a phase is planned
    cost: FloatArray | None = None  # (...): about what closes them all

    @property
    def between(self) -> BoolArray:
        """`(..., arm, arm, agent)`: pairs of contenders."""
        return np.asarray(self.contenders[..., :, None, :] & self.contenders[..., None, :, :])

    def closed_by(self, problem: Problem, log_levels: FloatArray, variances: FloatArray) -> BoolArray:
        """`(..., 1, 1, agent)`: whether a look with these variances of pairs has an answer, whatever it draws."""
        u = quantiles(log_levels)
        drawn = np.isfinite(variances)
        heights = np.where(drawn | (log_levels >= 0), u * np.sqrt(np.where(drawn, variances, 1.0)), NEVER)
        closed = largest_mean(heights, self.contenders) <= problem.tolerance
        return np.asarray(closed)[..., None, None, :]


def closing(
    problem: Problem, log_levels: FloatArray, active: BoolArray, mixed: FloatArray, variances: FloatArray
) -> Closing:
    """By the levels of pairs `(..., arm, arm, agent)`, estimates of mixed means and their variances."""
    near = contenders(problem, active, mixed, variances)
    for _ in range(TRIMMED):  # an arm that all others have covered is in no cycle
        met = near[..., :, None, :] & (log_levels < 0) & ~np.eye(problem.arm_count, dtype=np.bool_)[..., None]
        reached: BoolArray = np.asarray(met.any(axis=-3))
        near = near & (reached | ~np.asarray(reached.any(axis=-2, keepdims=True)))
    quantile = largest_mean(quantiles(log_levels), near)
    return Closing(contenders=near, quantile=np.maximum(quantile, LEAST_QUANTILE))


def contenders(problem: Problem, active: BoolArray, mixed: FloatArray, variances: FloatArray) -> BoolArray:
    """`(..., arm, agent)`: arms near the edge of the N best: what is far off is settled by its gap."""
    top = problem.top
    known = np.where(active, mixed, LOWEST)
    last, next_ = nth_largest(known, top, active), nth_largest(known, top + 1, active)
    inside = known >= last
    rival = np.where(inside, next_, last)
    error = np.sqrt(variances + np.where(inside, _at(variances, known, next_), _at(variances, known, last)))
    errors = NEARBY if problem.max_rounds is None else NEARBY_AT_LAST
    return np.asarray(active & (np.abs(known - rival) <= problem.tolerance + errors * error))


def _at(values: FloatArray, known: FloatArray, of: FloatArray) -> FloatArray:
    """`(..., 1, agent)`: the value of the first arm whose estimate is `of`."""
    return np.take_along_axis(values, np.argmax(known == of, axis=-2)[..., None, :], axis=-2)


def quantiles(log_levels: FloatArray) -> FloatArray:
    """u of what is staked, -inf for pairs that have won."""
    won = log_levels >= 0
    staked = np.log1p(-KEPT) + np.where(won, -1.0, log_levels)
    return np.where(won, -np.inf, -ndtri_exp(staked))


def largest_mean(weights: FloatArray, among: BoolArray) -> FloatArray:
    """`(..., agent)`: the largest mean weight of a cycle of the marked arms; -inf where there is none (Karp 1978).

    `weights (..., arm, arm, agent)` are those of edges from the first arm to the second, -inf where there is none.

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
