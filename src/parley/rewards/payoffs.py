"""Evidence as wealth: bets against "arm k is among agent m's top N", and what a bet may be multiplied by.

Write z = Y / sqrt(V) for the standardised contrast "opponent minus arm k" of one phase's fresh draws. A *bet* is a
mixture over stakes u >= 0, f(z) = sum_i p_i exp(u_i z - u_i^2 / 2). Wealth beyond the line is of no use, so for exactly
Gaussian z the payoff may be capped at what is missing and multiplied beforehand by the largest b >= 1 with E min(b f,
cap) <= 1 (sequential boosting: Fischer and Ramdas, arXiv 2410.16076). All in logs; the mixture is the last axis.
docs/evidence-racing.md has the proof.
"""

import math

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from parley.checks import FloatArray

LARGEST_STAKE = 40.0  # keeps the rounding error of log E below 1e-12
SAFETY = 1e-10  # a multiplier is only accepted with log E <= -SAFETY, far above that rounding error
AIM = 1e-9  # and Newton's method aims a little further inside
ROUNDING = 1e-12  # taken off the multiplier for the rounding of its own last line
BOOST_STEPS, STAKE_STEPS, HORIZON_STEPS = 16, 14, 6
# Of what there is until the horizon, a phase: more would leave a loser nothing to go on with, less is not worth it.
LEAST_SHARE, MOST_SHARE = 1e-3, 0.6
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)
POINTS, POINT_WEIGHTS = (1 + NODES) / 2, NODE_WEIGHTS / 2  # of an integral from 0 to 1
NEGLIGIBLE = 36.0  # beyond exp of minus this nothing is added up
LOG_TWO_PI = math.log(2 * math.pi)
NOTHING = -700.0  # the log of what a lost bet leaves: JSON has no minus infinity, and the quantile's safety covers it


def _log_sum_exp(values: FloatArray) -> FloatArray:
    """Over the last axis, which is short: column by column is faster, in the same order and so to the same bit."""
    top = values[..., 0]
    for place in range(1, values.shape[-1]):
        top = np.maximum(top, values[..., place])
    summed = np.exp(values[..., 0] - top)
    for place in range(1, values.shape[-1]):
        summed = summed + np.exp(values[..., place] - top)
    return np.asarray(top + np.log(summed))


def log_bet(z: FloatArray, stakes: FloatArray, log_shares: FloatArray) -> FloatArray:
    """log f(z) for `stakes (..., mixture)`.

    >>> log_bet(np.array(1.0), np.array([0.0, 2.0]), np.log([0.5, 0.5])).round(6).tolist()
    0.0
    """
    return _log_sum_exp(log_shares + stakes * z[..., None] - 0.5 * stakes**2)


def log_boost(stakes: FloatArray, log_shares: FloatArray, log_cap: FloatArray) -> FloatArray:
    """log b: a multiplier never above the largest b >= 1 with E min(b f(z), cap) <= 1 for z ~ N(0, 1).

    With y the point where b f crosses the cap, b = cap / f(y) and E = b sum_i p_i Phi(y - u_i) + cap Phi(-y), which
    falls in y: Newton's method between a y where E >= 1 and one where b <= 1. Only points whose expectation was
    computed to be below 1, with room to spare, are accepted; b = 1 always is.
    """
    boost = np.zeros(log_cap.shape)
    betting = (stakes.max(axis=-1) > 1e-9) & (log_cap > 1e-12)
    if not betting.any():
        return boost
    u, cap = stakes[betting], log_cap[betting]
    low = -ndtri_exp(-cap)
    high = np.maximum(((cap[:, None] - log_shares + 0.5 * u**2) / np.maximum(u, 1e-9)).min(axis=-1), low)
    accepted = high.copy()
    y = low + 0.15 * np.minimum(high - low, 1.0)
    open_ = np.arange(len(cap))  # a bet that has settled is left alone: what others need changes none of its bits
    for _ in range(BOOST_STEPS):
        at = y[open_]
        value, slope = _log_expectation(at, u[open_], log_shares, cap[open_])
        safe = value <= -SAFETY
        best = np.where(safe, np.minimum(accepted[open_], at), accepted[open_])
        least = np.where(safe, low[open_], np.maximum(low[open_], at))
        newton = at - (value + AIM) / np.minimum(slope, -1e-12)
        astray = ~((newton > least) & (newton <= best))
        accepted[open_], low[open_], y[open_] = best, least, np.where(astray, (least + best) / 2, newton)
        open_ = open_[np.abs(value + AIM) >= AIM / 2]
        if not open_.size:
            break
    boost[betting] = np.maximum(cap - log_bet(accepted, u, log_shares) - ROUNDING, 0.0)
    return boost


def _log_expectation(
    y: FloatArray, stakes: FloatArray, log_shares: FloatArray, log_cap: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """log E min(b f, cap) where b f crosses the cap at y, and its derivative in y."""
    terms = log_shares + stakes * y[..., None] - 0.5 * stakes**2
    log_f = _log_sum_exp(terms)
    growth = (np.exp(terms - log_f[..., None]) * stakes).sum(axis=-1)  # f' / f
    below = _log_sum_exp(log_shares + log_ndtr(y[..., None] - stakes)) - log_f
    total = np.logaddexp(below, log_ndtr(-y))
    return np.asarray(log_cap + total), np.asarray(-growth * np.exp(below - total))


def log_final_payoff(z: FloatArray, log_cap: FloatArray) -> FloatArray:
    """All or nothing at the last look: the cap where z reaches the normal quantile of the level 1 / cap, else nothing.

    P(z >= quantile) is at most the level where z is at most N(0, 1), so the expectation is at most 1. No payoff capped
    there reaches the cap more often, and after the last look nothing else counts.

    >>> log_final_payoff(np.array([1.7, 1.6]), np.log(20.0) * np.ones(2)).round(2).tolist()
    [3.0, -700.0]
    """
    quantile = -ndtri_exp(-np.maximum(log_cap, SAFETY))
    return np.where(z >= quantile + SAFETY * (1 + np.abs(quantile)), log_cap, NOTHING)


def log_conditional_error(z: FloatArray, log_cap: FloatArray, share: FloatArray) -> FloatArray:
    """The log of the conditional error of a test that ends at a horizon, over its level a = 1 / cap.

    `share` is the information of this phase over what there is until the horizon: tau, from LEAST_SHARE to MOST_SHARE.
    The test rejects now if z >= c1, with Phi(-c1) = a tau, and at the horizon if sqrt(tau) z + sqrt(1 - tau) z2 >= c2,
    with level a in all. So the payoff is 1 / a for z >= c1 and Phi((sqrt(tau) z - c2) / sqrt(1 - tau)) / a below. Its
    expectation for z ~ N(0, 1) is 1, a martingale of Doob's, and it does not fall in z; the next phase plans anew from
    the level that is left (Mueller and Schaefer 2001).

    >>> log_conditional_error(np.array([4.0, 1.0]), np.log([20.0, 20.0]), np.array([0.5, 0.5])).round(2).tolist()
    [3.0, 0.18]
    """
    now = -ndtri_exp(np.log(share) - log_cap)
    later = log_cap + log_ndtr((np.sqrt(share) * z - _horizon_quantile(log_cap, share, now)) / np.sqrt(1 - share))
    return np.where(z >= now + SAFETY * (1 + np.abs(now)), log_cap, np.clip(later, NOTHING, log_cap))


def _horizon_quantile(log_cap: FloatArray, share: FloatArray, now: FloatArray) -> FloatArray:
    """c2 of `log_conditional_error`, from above.

    It solves log P(z < c1, S >= c2) = log(a (1 - tau)) for the score S at the horizon. The quantile of a (1 - tau)
    itself is too large, and the left side falls and is concave in c2 (Prekopa: the density is log-concave): so Newton's
    method never leaves the safe side.
    """
    goal = np.log1p(-share) - log_cap - SAFETY
    end = -ndtri_exp(goal)
    for _ in range(HORIZON_STEPS):
        # P = phi(c2) * integral over x >= 0 of exp(-c2 x - x^2 / 2) Phi((c1 - sqrt(tau) (c2 + x)) / sqrt(1 - tau))
        reach = 2 * NEGLIGIBLE / (end + np.sqrt(np.square(end) + 2 * NEGLIGIBLE))
        x = reach[:, None] * POINTS
        open_ = ndtr((now[:, None] - np.sqrt(share)[:, None] * (end[:, None] + x)) / np.sqrt(1 - share)[:, None])
        inside = np.exp(-x * (end[:, None] + x / 2)) * open_
        rejected = reach * (inside * POINT_WEIGHTS).sum(axis=-1)  # row by row: other bets change none of its bits
        first = ndtr((now - np.sqrt(share) * end) / np.sqrt(1 - share))
        value = np.log(rejected) - 0.5 * (np.square(end) + LOG_TWO_PI) - goal
        end = end + np.minimum(value, 0.0) * rejected / first
    return end


def stake_that_crosses(missing: FloatArray, margin: FloatArray, *, boosted: bool) -> FloatArray:
    """The stake u at which a single bet wins all that is `missing` already at z = u - margin; only to plan by.

    A contrast with true gap D and variance V has z around D / sqrt(V): draw until that is u, and it crosses the line
    unless z falls short by more than `margin` standard deviations.

    >>> stake_that_crosses(np.array(2.0), np.array(0.0), boosted=False).tolist()
    2.0
    """
    plain = margin + np.sqrt(margin**2 + 2 * missing)
    if not boosted:
        return np.asarray(plain)
    low, high = np.maximum(margin - ndtri_exp(-missing), 0.0), plain
    below = log_ndtr(-margin)
    for _ in range(STAKE_STEPS):
        middle = (low + high) / 2
        log_expectation = missing + np.logaddexp(margin * middle - 0.5 * middle**2 + below, log_ndtr(margin - middle))
        low, high = np.where(log_expectation > 0, middle, low), np.where(log_expectation > 0, high, middle)
    return np.asarray(high)
