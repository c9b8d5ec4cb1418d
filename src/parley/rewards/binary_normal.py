"""Rewards that are 0 or 1, with the normal approximation of textbook designs: `inference = "normal"`.

The exact bets of `binary` cannot be boosted, and pay for it. Here a contrast counts as Gaussian with the variance of
the pooled rates (of the past and of the phase), and its payoff is boosted and capped. So error rates are approximate:
`docs/delta-correctness.md` measures them. Whether a bet takes the approximation is decided by the past and by the
counts of the phase, never by its rewards: either side of the contrast must be no more skewed than a single cell of
LEAST_DRAWS draws with LEAST_EXPECTED ones and zeros expected, or more where very little error is left, and every cell
must have half as many. Other bets stay exact, and so do intervals and bounds on gaps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.checks import BoolArray, FloatArray
from parley.rewards.bets import (
    Bets,
    at_bets,
    contrast_variance,
    gaussian_payoff,
    least_weighed,
    reciprocals,
)
from parley.rewards.binary import INFERENCES, Binary
from parley.rewards.payoffs import log_final_payoff

LEAST_DRAWS = 30  # of a side in the phase, as if it were one cell
LEAST_EXPECTED = 5  # ones, and zeros, of a side in the phase, as if it were one cell
OF_A_CELL = 0.5  # of these, every single cell of the side: its variance is estimated from them
PLANNED_DRAWS = 40  # a few more than the approximation needs at rates around a quarter
ROUNDING = 1e-9  # relative: sums of powers of one cell give back its count up to this
TAIL = 0.25  # more are needed far out in the tail: at least this times the square of the log of what is missing


@dataclass(frozen=True, kw_only=True)
class BinaryNormal(Binary):
    """Yes or no, by the normal approximation wherever the sides of a bet are large enough.

    >>> BinaryNormal(rate=0.25).document()
    {'kind': 'binary', 'rate': 0.25, 'inference': 'normal'}
    """

    boosted: ClassVar[bool] = True
    optimism: ClassVar[float] = 1.0
    caution: ClassVar[float] = 1.0
    guarantee_note: ClassVar[str] = "approximately (normal approximation of rates)"

    @classmethod
    def describes(cls, keys: Mapping[str, Any]) -> bool:
        return bool(keys.get("inference") == INFERENCES[1])

    def document(self) -> dict[str, Any]:
        return super().document() | {"inference": INFERENCES[1]}

    def bet_draws(self, weights: FloatArray) -> int:
        """What equal cells need for PLANNED_DRAWS of either side, for the agent whose weights are the least even.

        >>> BinaryNormal().bet_draws(np.eye(4)), BinaryNormal().bet_draws(np.full((4, 4), 0.25))
        (40, 20)
        """
        pooled = as_one_cell(np.square(weights).sum(axis=0), (weights**3).sum(axis=0))
        return math.ceil(PLANNED_DRAWS * max(1 / float(pooled.min()) * (1 - ROUNDING), OF_A_CELL))

    def payoff(self, bets: Bets) -> FloatArray:
        """As of a Gaussian contrast where the sides are large enough, exact elsewhere; stakes come from the past."""
        normal = self.approximates(bets)
        if not normal.any():
            return super().payoff(bets)
        paid, large = np.empty(len(bets.arm)), bets.take(normal)
        paid[normal] = gaussian_payoff(large, self._scores(large))
        if not normal.all():
            paid[~normal] = super().payoff(bets.take(~normal))
        return paid

    def final_payoff(self, bets: Bets) -> FloatArray:
        """By the normal quantile where the sides are large enough; elsewhere the exact bet, which stays as it is."""
        normal = self.approximates(bets)
        paid = np.empty(len(bets.arm))
        large = bets.take(normal)
        paid[normal] = log_final_payoff(self._scores(large), large.missing)
        paid[~normal] = super().payoff(bets.take(~normal))
        return paid

    def approximates(self, bets: Bets) -> BoolArray:
        """`(bet,)`: whether both sides of a bet are large enough, by their counts and the rates of the past."""
        rates, counts = self.rates(bets.past), bets.fresh.counts.astype(np.float64)
        wanted = np.maximum(LEAST_EXPECTED, TAIL * np.square(bets.missing))
        large = np.ones(len(bets.arm), dtype=np.bool_)
        for values, least in ((counts, LEAST_DRAWS), (counts * np.minimum(rates, 1 - rates), wanted)):
            cells, pooled = least_weighed(values, bets.weights), _pooled(bets, values)
            large &= np.minimum(*at_bets(bets, cells, cells)) >= OF_A_CELL * least
            large &= np.minimum(*at_bets(bets, pooled, pooled)) >= least * (1 - ROUNDING)
        return np.asarray(large)

    def _scores(self, bets: Bets) -> FloatArray:
        """`(bet,)`: the contrast over its standard deviation, by rates pooled over the past and the phase.

        The variance of an estimated rate is too small by one part in its draws, on average: that is made good.
        """
        pooled = bets.past + bets.fresh
        unbiased = pooled.counts / np.maximum(pooled.counts - 1, 1)
        return bets.contrast / np.sqrt(contrast_variance(bets, unbiased * self.cell_variances(pooled)))


def as_one_cell(squares: FloatArray, cubes: FloatArray) -> FloatArray:
    """The draws of one cell whose mean is as skewed as a weighted sum, of sum a^2 n and sum a^3 n over its cells.

    Ones that are rare come as a Poisson number n. A sum a n has the skewness sum a^3 n / (sum a^2 n)^1.5, and a single
    number has 1 / sqrt(n). By Hölder's inequality this is never more than the draws in all.

    >>> counts, even, uneven = np.full(4, 10.0), np.full(4, 0.25), np.array([0.7, 0.1, 0.1, 0.1])
    >>> [float(as_one_cell(a**2 @ counts, a**3 @ counts).round(1)) for a in (even, uneven)]
    [40.0, 11.7]
    """
    return np.divide(squares**3, cubes**2, out=np.zeros(squares.shape), where=cubes > 0)


def _pooled(bets: Bets, values: FloatArray) -> FloatArray:
    """`(..., arm, agent m)`: draws, or ones expected, of all the cells that m weighs, as if they were one."""
    each = reciprocals(bets)
    return as_one_cell((values * each**2) @ bets.weights**2, (values * each**3) @ bets.weights**3)
