"""The bets of a phase: what they are laid on, their cells on either side, and sums over many agents by products.

Many agents: the logarithm of a payoff is a power series in stake times weight over draws, and sum_n w^p g[k, n] over
the agents is a matrix product. What is cut off is bounded and taken off, so that a payoff is never above its exact
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri_exp

from parley.checks import BoolArray, FloatArray, IntArray
from parley.rewards.payoffs import LARGEST_STAKE, LEAST_SHARE, MOST_SHARE, log_bet, log_boost, log_conditional_error
from parley.totals import Totals

# A bet is a posterior of the gap from pooled data: three-point Gauss-Hermite, so that a wrong estimate costs little.
POINTS = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
LOG_SHARES = np.log(np.array([1.0, 4.0, 1.0]) / 6) - 1e-15  # shares that add up to no more than 1
# A capped payoff rewards crossing the line, not wealth: where what a phase should bring comes so near to the line, in
# standard deviations, stake a little more than log-optimal. Elsewhere that would cost (BOLDNESS - 1)^2 of the growth.
BOLDNESS, WITHIN_REACH = 1.2, 1.0
NEAR_TIE = 1.5  # tolerances: a pair whose estimated gap, raised by the tolerance, is smaller may be a tie
BEYOND = 0.1  # standard deviations by which a horizon lies beyond the information that a tie needs

SIGNS = np.array([1.0, -1.0])[:, None]
PART = 2**17  # cells looked at together: arrays that fit a cache

MANY_AGENTS = 64  # from here on products are faster than cells
TERMS = 9
REACH = 0.5  # largest stake times weight over draws: the series is cut off where it is small
NORM = 16  # the largest of many numbers is at most the sixteenth root of the sum of their sixteenth powers
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Bets:
    """The bets of one phase, one entry each: "the opponent beats the arm", and the fresh draws that settle them.

    What a bet stakes may depend on everything here but the fresh sums and squares (and what is computed from them:
    `contrast`).
    """

    estimate: FloatArray  # of the gap, opponent minus arm, from all data so far
    error: FloatArray  # its standard error
    missing: FloatArray  # log wealth between the bet's slot and the line
    contrast: FloatArray  # Y: opponent minus arm, mixed, from the fresh draws, raised by `shift`
    shift: float = 0.0  # the null is "opponent minus arm is at most -shift"; `estimate` is raised by it too
    variance: FloatArray  # V of that contrast, by the cell variances that the past gives
    replication: tuple[IntArray, ...]  # index into the leading axes of `past` and `fresh`
    opponent: IntArray  # arm indices
    arm: IntArray
    agent: IntArray
    weights: FloatArray  # (agent n, agent m)
    past: Totals  # (..., arm, agent)
    fresh: Totals  # (..., arm, agent): the phase's own

    def take(self, some: BoolArray) -> Bets:
        """Some of the bets, `(bet,)`."""
        names = ("estimate", "error", "missing", "contrast", "variance", "opponent", "arm", "agent")
        parts = {name: getattr(self, name)[some] for name in names}
        return replace(self, **parts, replication=tuple(axis[some] for axis in self.replication))


def staked_gaps(bets: Bets) -> FloatArray:
    """`(bet, mixture)`: the gaps that a bet is laid on; 0 abstains."""
    return np.asarray(np.maximum(bets.estimate[:, None] + bets.error[:, None] * POINTS, 0.0))


def boldness(expected: FloatArray, missing: FloatArray) -> FloatArray:
    """What stakes of boosted bets are multiplied by, from the scores that are `expected` and what is missing."""
    return np.where(expected + WITHIN_REACH >= np.sqrt(2 * missing), BOLDNESS, 1.0)


def boosted_stakes(bets: Bets) -> FloatArray:
    """`(bet, mixture)`: the stakes of boosted bets, over the standard deviations of their contrasts."""
    plain = staked_gaps(bets) / np.sqrt(bets.variance)[:, None]
    return np.minimum(boldness(plain[:, 1], bets.missing)[:, None] * plain, LARGEST_STAKE)


def faster_growing(
    logs: FloatArray, expected: FloatArray, contrast: FloatArray, gaps: FloatArray, variance: FloatArray
) -> FloatArray:
    """`(bet, mixture)`: `logs`, or the sub-Gaussian payoff of this variance where, before the data, it should grow
    more.
    """
    stakes = gaps / variance[:, None]
    plain = stakes * contrast[:, None] - np.square(stakes) * variance[:, None] / 2
    return np.where((np.square(gaps[:, 1]) / (2 * variance) > expected)[:, None], plain, logs)


def contrast_payoff(bets: Bets, *, boosted: bool) -> FloatArray:
    """The payoff of a contrast that is sub-Gaussian with known variance; boosted only where it is exactly Gaussian."""
    root = np.sqrt(bets.variance)
    if boosted:
        return gaussian_payoff(bets, bets.contrast / root)
    return log_bet(bets.contrast / root, staked_gaps(bets) / root[:, None], LOG_SHARES)


def gaussian_payoff(bets: Bets, scores: FloatArray) -> FloatArray:
    """The payoff of contrasts whose `scores (bet,)`, over their standard deviations, are Gaussian.

    A boosted bet; or, where a tolerance says how much information a near-tie can need, the conditional error of a test
    that ends there. Which of the two, and its horizon, rests on the past and on the counts of the phase.
    """
    near = bets.estimate < NEAR_TIE * bets.shift if bets.shift else np.zeros(len(scores), dtype=np.bool_)
    paid = np.empty(len(scores))
    if not near.all():
        far = bets.take(~near)
        stakes = boosted_stakes(far)
        paid[~near] = log_bet(scores[~near], stakes, LOG_SHARES) + log_boost(stakes, LOG_SHARES, far.missing)
    if near.any():
        tied = bets.take(near)
        # The information 1 / V at which a pair that ties just reaches the line: shift / sqrt(V) is the quantile.
        quantile = np.maximum(-ndtri_exp(-tied.missing), 0.0) + BEYOND
        share = np.square(tied.shift / quantile) / tied.variance
        paid[near] = log_conditional_error(scores[near], tied.missing, np.clip(share, LEAST_SHARE, MOST_SHARE))
    return paid


@dataclass(frozen=True, kw_only=True, eq=False)
class Sides:
    """Some bets, `(bet, side, agent)`: the opponent first."""

    chosen: slice  # which of the bets
    shares: FloatArray  # signed: +w / d for the opponent, -w / d for the arm; 0 without weight
    counts: FloatArray  # fresh draws; 0 without weight
    _place: tuple[IntArray, ...]

    def of(self, values: FloatArray) -> FloatArray:
        """`(..., arm, agent)` values as those of the bets' cells."""
        return np.asarray(values[self._place])


def in_parts(bets: Bets) -> Iterator[Sides]:
    """All bets, a part at a time."""
    size = max(1, PART // (2 * len(bets.weights)))
    for start in range(0, len(bets.arm), size):
        chosen = slice(start, start + size)
        arms = np.stack([bets.opponent[chosen], bets.arm[chosen]], axis=1)
        place = (*(axis[chosen, None] for axis in bets.replication), arms)
        weights = bets.weights.T[bets.agent[chosen]][:, None, :]
        counts = np.where(weights > 0, bets.fresh.counts[place], 0).astype(np.float64)
        shares = SIGNS * np.divide(weights, counts, out=np.zeros_like(counts), where=counts > 0)
        yield Sides(chosen=chosen, shares=shares, counts=counts, _place=place)


def mixture_payoff(bets: Bets, of_all: Callable[[], FloatArray], of_part: Callable[[Sides], FloatArray]) -> FloatArray:
    """`(bet,)`: the log of a mixture over stakes, from logs `(bet, mixture)`: of all bets by products where agents are
    many, else of a part of the bets at a time by their cells.
    """
    if len(bets.weights) >= MANY_AGENTS:
        return np.asarray(np.logaddexp.reduce(of_all() + LOG_SHARES, axis=-1))
    paid = np.empty(len(bets.arm))
    for part in in_parts(bets):
        paid[part.chosen] = np.logaddexp.reduce(of_part(part) + LOG_SHARES, axis=-1)
    return paid


def at_bets(bets: Bets, opponents: FloatArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`(..., arm, agent)` values at every bet's opponent, and at its arm."""
    return (
        np.asarray(opponents[(*bets.replication, bets.opponent, bets.agent)]),
        np.asarray(arms[(*bets.replication, bets.arm, bets.agent)]),
    )


def least_weighed(values: FloatArray, weights: FloatArray) -> FloatArray:
    """`(..., arm, agent m)`: the smallest of the values among the agents that m weighs."""
    least, weighed = np.empty(values.shape), weights > 0
    for arm in range(values.shape[-2]):  # one at a time: agent by agent is large enough
        least[..., arm, :] = np.where(weighed, values[..., arm, :, None], np.inf).min(axis=-2)
    return least


def contrast_variance(bets: Bets, variances: FloatArray | float) -> FloatArray:
    """`(bet,)`: of the contrast, were these the variances of single rewards."""
    mixed = (variances * bets.fresh.per_draw) @ np.square(bets.weights)
    opponent, arm = at_bets(bets, mixed, mixed)
    return opponent + arm


def powers(weights: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """p and weights^p for every term of the series."""
    power = weights
    for p in range(2, TERMS + 1):
        power = power * weights
        yield p, power


def farthest(bets: Bets, opponents: FloatArray, arms: FloatArray) -> FloatArray:
    """`(bet,)`: at least the largest of weight times these values over the agents of either side."""
    weights = bets.weights**NORM
    pair = at_bets(bets, opponents**NORM @ weights, arms**NORM @ weights)
    return np.asarray(np.maximum(*pair) ** (1 / NORM))


def series_tail(stakes: FloatArray, reach: FloatArray, size: FloatArray | int) -> FloatArray:
    """At least what the terms after the last would add: each is at most stake times reach of the one before."""
    ratio = stakes * reach
    return np.asarray(stakes**TERMS * np.asarray(size)[:, None] / (TERMS + 1) * ratio / (1 - ratio))
