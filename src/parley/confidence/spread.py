"""Rewards in [0, 1]: what a bet pays that learns the variance there is, from counts, sums and sums of squares.

With psi(y) = -log(1 - y) - y, log(1 + y xi) >= y xi - psi(y) xi^2 for xi >= -1 and 0 <= y < 1 (Fan, Grama and Liu).
Reward i of a contrast has the coefficient a_i (+w / d for the opponent, -w / d for the arm); a_i (x_i - r_i) is never
below -|a_i| c, with c = r for the opponent and 1 - r for the arm. So, for references r fixed by the past,

    log f = lam Y - sum_cells psi(lam |a| c) / c^2 * sum_i (x_i - r)^2

is at most the logarithm of exp(lam theta_r) prod (1 + lam a_i (x_i - r_i)), whose expectation is at most 1 where the
opponent is no better (`parley.confidence.rates`). Arrays are `(bet, side, agent)`, `shares` signed, stakes last.
"""

from __future__ import annotations

import numpy as np

from parley.checks import FloatArray

__all__ = ["log_spread_bet", "spread_stakes"]

LIMIT = 0.95  # of the stake beyond which nothing is fair
SMALLEST_REACH = 1e-6
ROUNDING = 1e-13  # relative to the terms that are added up
SERIES_BELOW = 1e-3


def _psi(y: FloatArray) -> FloatArray:
    """-log(1 - y) - y, rounded up: by its series where y is small, for the difference would lose its digits."""
    small = np.square(y) * (0.5 + y * (1 / 3 + y * (1 / 4 + y * (1 / 5 + y))))  # 1 instead of 1/6: an upper bound
    large = -np.log1p(-np.minimum(y, LIMIT)) - y
    return np.asarray(np.where(y < SERIES_BELOW, small, large) * (1 + ROUNDING))


def _reach(shares: FloatArray, reference: FloatArray) -> FloatArray:
    """c: how far a reward can fall on the wrong side of its reference."""
    return np.maximum(np.where(shares > 0, reference, 1 - reference), SMALLEST_REACH)


def spread_stakes(shares: FloatArray, reference: FloatArray, gaps: FloatArray, variance: FloatArray) -> FloatArray:
    """Stakes `(bet, mixture)` for gaps of this size: about gap / variance, and never beyond the limit.

    With one cell, gap / (variance + gap |a| c) maximises the expected logarithm; with more it is a little below.
    """
    farthest = (np.abs(shares) * _reach(shares, reference)).max(axis=(1, 2))[:, None]
    wished = gaps / np.maximum(variance[:, None] + gaps * farthest, 1e-300)
    return np.asarray(np.minimum(wished, LIMIT / np.maximum(farthest, 1e-300)))


def log_spread_bet(
    shares: FloatArray, contrast: FloatArray, around: FloatArray, reference: FloatArray, stakes: FloatArray
) -> FloatArray:
    """log f `(bet, mixture)` for the contrast Y and, in every cell, `around` = sum (x - r)^2.

    >>> shares, around = np.array([[[0.01], [-0.01]]]), np.full((1, 2, 1), 1.0)
    >>> pays = log_spread_bet(shares, np.array([0.1]), around, np.full((1, 2, 1), 0.5), np.array([[50.0]]))
    >>> pays.round(2).tolist()  # the variance is 1e-4 on either side: a little below 50 * 0.1 - 50^2 * 2e-4 / 2
    [[4.7]]
    """
    reach = _reach(shares, reference)
    pulls = np.abs(shares) * reach
    toll = np.einsum("bsn,bsni->bi", around / np.square(reach), _psi(stakes[:, None, None, :] * pulls[..., None]))
    won = stakes * contrast[:, None]
    return np.asarray(won - toll - ROUNDING * (np.abs(won) + toll))
