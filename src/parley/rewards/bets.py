"""The bets of a phase: what they are laid on, and what one pays whose contrast has a known variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.checks import FloatArray, IntArray
from parley.confidence.evidence import LARGEST_STAKE, log_bet, log_boost
from parley.totals import Totals

__all__ = ["Bets", "better", "contrast_payoff", "wagers"]

# A bet is a posterior of the gap from pooled data: three-point Gauss-Hermite, so that a wrong estimate costs little.
POINTS = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
LOG_SHARES = np.log(np.array([1.0, 4.0, 1.0]) / 6) - 1e-15  # shares that add up to no more than 1
BOLDNESS = 1.2  # a capped payoff rewards crossing the line, not wealth: stake a little more than log-optimal


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


def wagers(bets: Bets) -> FloatArray:
    """`(bet, mixture)`: the gaps that a bet is laid on; 0 abstains."""
    return np.asarray(np.maximum(bets.estimate[:, None] + bets.error[:, None] * POINTS, 0.0))


def better(
    logs: FloatArray, expected: FloatArray, contrast: FloatArray, gaps: FloatArray, variance: FloatArray
) -> FloatArray:
    """`(bet, mixture)`: `logs`, or the sub-Gaussian payoff of this variance where that should grow by more.

    The choice rests on what was `expected` before the data, so it is fair.
    """
    stakes = gaps / variance[:, None]
    plain = stakes * contrast[:, None] - np.square(stakes) * variance[:, None] / 2
    return np.where((np.square(gaps[:, 1]) / (2 * variance) > expected)[:, None], plain, logs)


def contrast_payoff(bets: Bets, *, boosted: bool) -> FloatArray:
    """The payoff of a contrast that is sub-Gaussian with known variance; boosted only where it is exactly Gaussian."""
    root = np.sqrt(bets.variance)
    boldness = BOLDNESS if boosted else 1.0
    stakes = np.minimum(boldness * wagers(bets) / root[:, None], LARGEST_STAKE)
    paid = log_bet(bets.contrast / root, stakes, LOG_SHARES)
    return paid + log_boost(stakes, LOG_SHARES, bets.missing) if boosted else paid
