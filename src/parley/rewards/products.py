"""Many agents: what a bet pays by products with powers of the weights, instead of a logarithm for every cell.

The logarithm of a payoff is a power series in stake times weight over draws, and sum_n w^p g[k, n] over the agents is a
matrix product. What is cut off is bounded and taken off, so that a payoff is never above its exact value.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parley.checks import FloatArray
from parley.rewards.bets import Bets

__all__ = [
    "MANY_AGENTS",
    "at_bets",
    "contrast_variance",
    "farthest",
    "log_rate_products",
    "log_spread_products",
    "reciprocals",
]

MANY_AGENTS = 64  # from here on products are faster than cells
TERMS = 9
REACH = 0.5  # largest stake times weight over draws: the series is cut off where it is small
NORM = 16  # the largest of many numbers is at most the sixteenth root of the sum of their sixteenth powers
ROUNDING = 1e-12


def reciprocals(bets: Bets) -> FloatArray:
    """`(..., arm, agent)`: one over the fresh draws, 0 where there are none."""
    counts = bets.fresh.counts
    return np.divide(1.0, counts, out=np.zeros(counts.shape), where=counts > 0)


def at_bets(bets: Bets, opponents: FloatArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`(..., arm, agent)` values at every bet's opponent, and at its arm."""
    return (
        np.asarray(opponents[(*bets.replication, bets.opponent, bets.agent)]),
        np.asarray(arms[(*bets.replication, bets.arm, bets.agent)]),
    )


def contrast_variance(bets: Bets, variances: FloatArray | float) -> FloatArray:
    """`(bet,)`: of the contrast, were these the variances of single rewards."""
    mixed = (variances * reciprocals(bets)) @ np.square(bets.weights)
    opponent, arm = at_bets(bets, mixed, mixed)
    return opponent + arm


def _powers(weights: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    power = weights
    for p in range(2, TERMS + 1):
        power = power * weights
        yield p, power


def farthest(bets: Bets, opponents: FloatArray, arms: FloatArray) -> FloatArray:
    """`(bet,)`: at least the largest of weight times these values over the agents of either side."""
    weights = bets.weights**NORM
    pair = at_bets(bets, opponents**NORM @ weights, arms**NORM @ weights)
    return np.asarray(np.maximum(*pair) ** (1 / NORM))


def log_rate_products(
    bets: Bets, rates: FloatArray, gaps: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """As `parley.confidence.rates.log_ratios` with the rates for references: log f, and the one expected before.

    With the estimate as reference log f = lam Y + sum_p (-1)^(p + 1) lam^p / p sum_i a_i^p (x_i - q_i)^p, p >= 2.
    """
    each, counts, ones = reciprocals(bets), bets.fresh.counts, bets.fresh.sums
    reach = farthest(bets, each * np.maximum(rates, 1 - rates), each * np.maximum(rates, 1 - rates))[:, None]
    stakes = np.minimum(gaps / variance[:, None], REACH / np.maximum(reach, 1e-300))
    paid, hoped = stakes * bets.contrast[:, None], stakes * bets.estimate[:, None]
    for p, weights in _powers(bets.weights):
        up, down = (each * (1 - rates)) ** p, (-each * rates) ** p
        scale = stakes**p / p
        for logs, yes in ((paid, ones), (hoped, counts * rates)):
            moment = (yes * up + (counts - yes) * down) @ weights
            opponent, arm = at_bets(bets, moment, moment)
            logs += scale * ((-1) ** (p + 1) * opponent - arm)[:, None]  # noqa: PLW2901
    size = (ones * up + (counts - ones) * np.abs(down)) @ weights
    tail = _tail(stakes, reach, sum(at_bets(bets, size, size)))
    return paid - tail - ROUNDING * (1 + np.abs(stakes * bets.contrast[:, None])), hoped


def log_spread_products(
    bets: Bets, references: FloatArray, around: FloatArray, expected: FloatArray, gaps: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """As `parley.confidence.spread.log_spread_bet`, in units of the range: psi(y) = sum_p y^p / p, p >= 2."""
    each = reciprocals(bets)
    falls = np.maximum(references, 1e-6), np.maximum(1 - references, 1e-6)  # of the opponent, of the arm
    reach = farthest(bets, each * falls[0], each * falls[1])[:, None]
    stakes = np.minimum(gaps / np.maximum(variance[:, None] + gaps * reach, 1e-300), REACH / np.maximum(reach, 1e-300))
    contrast = bets.contrast[:, None]
    paid, hoped = stakes * contrast, stakes * gaps[:, 1:2]
    for p, weights in _powers(bets.weights):
        scale = stakes**p / p
        for logs, scatter in ((paid, around), (hoped, expected)):
            sides = [(scatter * each**p * fall ** (p - 2)) @ weights for fall in falls]
            size = sum(at_bets(bets, *sides))
            logs -= scale * np.asarray(size)[:, None]  # noqa: PLW2901
            if logs is paid:
                last = size
    return paid - _tail(stakes, reach, last) - ROUNDING * (1 + np.abs(stakes * contrast)), hoped


def _tail(stakes: FloatArray, reach: FloatArray, size: FloatArray | int) -> FloatArray:
    """At least what the terms after the last would add: each is at most stake times reach of the one before."""
    ratio = stakes * reach
    return np.asarray(stakes**TERMS * np.asarray(size)[:, None] / (TERMS + 1) * ratio / (1 - ratio))
