"""How evidence racing plans a phase: the cheapest draws that should carry every losing arm across the line.

Nothing here touches the guarantee: any counts that depend on the past alone keep the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.confidence.evidence import stake_that_crosses
from parley.harmonic import ContrastPrograms, solve
from parley.problem import BoolArray, FloatArray, IntArray, Problem

__all__ = ["Contrasts", "Temper", "further_draws"]

ACCURACIES = (0.02, 0.01, 0.01)  # of the solves, each started from the one before
STEPS = 500
FIRST_MARGIN, LEAST_MARGIN, MOST_MARGIN = 0.5, 0.25, 2.0  # standard deviations of safety per contrast
LEAST_STAKE = 0.1
LARGEST_QUOTA = 2.0**53  # beyond this float64 no longer tells whole numbers apart; a later phase draws the rest


@dataclass(frozen=True, kw_only=True)
class Temper:
    """What the options of evidence racing come to."""

    precision: float
    growth: float
    smallest_growth: float
    optimism: float
    caution: float


@dataclass(frozen=True, kw_only=True)
class Contrasts:
    """What the past says before a phase, all `(..., opponent, arm, agent)`."""

    opponents: IntArray
    gap: FloatArray  # estimated from all data so far: opponent minus arm
    error: FloatArray  # its standard error
    wealth: FloatArray  # log, carried over from the last phase
    missing: FloatArray  # log wealth still needed
    live: BoolArray  # bets are placed
    losing: BoolArray  # live, and the arm looks like a loser: worth drawing for


def further_draws(problem: Problem, contrasts: Contrasts, counts: IntArray, temper: Temper, boosted: bool) -> IntArray:
    """`(batch, arm, agent)`: fresh draws of the next phase, with one batch axis.

    A contrast with gap D crosses the line when D / sqrt(V) is the stake that wins what is missing. Gaps are taken as
    sqrt(estimate^2 + (optimism * error)^2): a chance near-tie then asks for a moderate phase, not a huge one.

    Each contrast has a safety margin, in standard deviations. Raising it costs more draws in proportion to the
    contrast's share q of the total (its multiplier) and makes a further round less likely; balancing the two gives
    margin = sqrt(2 log(caution / q)). So cheap contrasts are made nearly sure to end, and only dear ones gamble. Shares
    and margins depend on each other: three solves, each from the last one's multipliers.
    """
    gaps = np.square(np.maximum(contrasts.gap, 0.0)) + np.square(temper.optimism * contrasts.error)
    margin, dual = np.full(gaps.shape, FIRST_MARGIN), None
    for accuracy in ACCURACIES:
        stakes = np.maximum(stake_that_crosses(contrasts.missing, margin, boosted=boosted), LEAST_STAKE)
        variances = gaps / np.square(stakes)
        rows = np.where(contrasts.losing, variances / problem.noise.variance, np.inf)
        programs = ContrastPrograms.of(problem.squared_weights, contrasts.opponents, rows)
        # Not strict: a plan a little dearer than the cheapest is still a plan, and a live study must go on.
        solution = solve(programs, accuracy=accuracy, max_steps=STEPS, strict=False, start=dual)
        dual = solution.dual
        share = np.where(contrasts.losing, np.maximum(dual * np.where(contrasts.losing, rows, 1.0), 1e-9), 1.0)
        safety = np.sqrt(2 * np.maximum(np.log(temper.caution / share), 0.0))
        margin = np.clip(safety, LEAST_MARGIN, MOST_MARGIN)
    spent, wanted = counts.sum(axis=(-2, -1)), solution.allocation.sum(axis=(-2, -1))
    total = np.clip(wanted, (temper.smallest_growth - 1) * spent, (temper.growth - 1) * spent)
    scaled = solution.allocation * (total / wanted)[:, None, None]
    quotas = np.clip(np.ceil(scaled), 1, LARGEST_QUOTA)
    return np.where(programs.touched(), quotas, 0).astype(np.int64)
