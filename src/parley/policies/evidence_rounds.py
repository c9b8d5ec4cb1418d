"""How many rounds evidence racing should take, where the study says how many days a round costs beside its draws."""

from __future__ import annotations

import math

import numpy as np

from parley.currency import Currency, round_overhead, stated_rates
from parley.harmonic.pace import days_needed
from parley.policies.evidence_plan import FIRST_MARGIN, TEMPERS, first_draws
from parley.problem import Problem

__all__ = ["USUAL", "affordable_rounds"]

USUAL = 5
# What the option `rounds` stands for: draws over those of 5, and the rounds it took (docs/savings.md, delta 0.1).
TRADE = {3: (2.57, 2.7), 4: (1.43, 3.3), 5: (1.0, 4.9), 6: (0.936, 5.7), 7: (0.907, 6.4), 8: (0.891, 7.2)}


def affordable_rounds(problem: Problem, line: float, gap_scale: float) -> int:
    """The `rounds` with which draws and rounds together should cost least, for gaps of `gap_scale * largest_gap`.

    The first phase gives contrasts a variance that is known beforehand; the draws after it must bring it to gap^2 /
    stake^2, and cost accordingly. It is a guess at the size of the study, and only decides how to trade.

    >>> weekly = Problem(arms=4, weights=np.eye(2), rate=10, round_days=7)
    >>> affordable_rounds(weekly, 3.0, 0.2), affordable_rounds(weekly.with_(round_days=200), 3.0, 0.2)
    (7, 4)
    """
    overhead = round_overhead(problem)
    if overhead == 0:
        return USUAL
    precision = TEMPERS[USUAL][0]
    first = np.broadcast_to(first_draws(problem, precision, line), problem.shape)
    currency = Currency.of(problem)
    if currency.pace is None:  # a day has no price of its own: then days are what is compared
        spent, a_round = float(days_needed(first, stated_rates(problem))), overhead
    else:
        spent, a_round = float(currency.spent(first)), currency.pace.day_cost * overhead
    stake = float(problem.noise.stake(np.array([line]), np.array([FIRST_MARGIN]))[0])
    variance = 2 * precision**2 * math.sqrt(math.log(30) / line)  # of a contrast after that, over largest^2
    study = spent * (1 + variance * stake**2 / gap_scale**2)
    return min(TRADE, key=lambda rounds: study * TRADE[rounds][0] + a_round * TRADE[rounds][1])
