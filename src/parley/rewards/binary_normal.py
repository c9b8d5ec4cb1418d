"""Rewards that are 0 or 1, with the normal approximation of textbook designs: `inference = "normal"`.

The exact bets of `binary` cannot be boosted, and pay for it. Here a contrast counts as Gaussian with the variance of
the pooled rates (of the past and of the phase), and its payoff is boosted and capped. So error rates are approximate:
`docs/delta-correctness.md` measures them. Whether a bet takes the approximation is decided by the past and by the
counts of the phase, never by its rewards: every cell of the contrast needs LEAST_DRAWS draws, and LEAST_EXPECTED ones
and zeros expected, or more where very little error is left. Other bets stay exact, and so do intervals and bounds on
gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.checks import BoolArray, FloatArray
from parley.rewards.bets import BOLDNESS, LOG_SHARES, Bets, at_bets, contrast_variance, least_weighed, staked_gaps
from parley.rewards.binary import INFERENCES, Binary
from parley.rewards.payoffs import LARGEST_STAKE, log_bet, log_boost, log_final_payoff

__all__ = ["LEAST_DRAWS", "LEAST_EXPECTED", "BinaryNormal"]

LEAST_DRAWS = 30  # of a cell in the phase
LEAST_EXPECTED = 5  # ones, and zeros, of a cell in the phase
TAIL = 0.25  # more are needed far out in the tail: at least this times the square of the log of what is missing


@dataclass(frozen=True, kw_only=True)
class BinaryNormal(Binary):
    """Yes or no, by the normal approximation wherever the cells of a bet are large enough.

    >>> BinaryNormal(rate=0.25).document()
    {'kind': 'binary', 'rate': 0.25, 'inference': 'normal'}
    """

    boosted: ClassVar[bool] = True
    optimism: ClassVar[float] = 1.0
    caution: ClassVar[float] = 1.0
    bet_draws: ClassVar[int] = 40  # a few more than the approximation needs at rates around a quarter
    guarantee_note: ClassVar[str] = "approximately (normal approximation of rates)"

    @classmethod
    def describes(cls, keys: Mapping[str, Any]) -> bool:
        return bool(keys.get("inference") == INFERENCES[1])

    def document(self) -> dict[str, Any]:
        return super().document() | {"inference": INFERENCES[1]}

    def payoff(self, bets: Bets) -> FloatArray:
        """As of a Gaussian contrast where the cells are large enough, exact elsewhere; stakes come from the past."""
        normal = self.approximates(bets)
        if not normal.any():
            return super().payoff(bets)
        paid, large = np.empty(len(bets.arm)), bets.take(normal)
        stakes = np.minimum(BOLDNESS * staked_gaps(large) / np.sqrt(large.variance)[:, None], LARGEST_STAKE)
        boost = log_boost(stakes, LOG_SHARES, large.missing)
        paid[normal] = log_bet(self._scores(large), stakes, LOG_SHARES) + boost
        if not normal.all():
            paid[~normal] = super().payoff(bets.take(~normal))
        return paid

    def final_payoff(self, bets: Bets) -> FloatArray:
        """By the normal quantile where the cells are large enough; elsewhere the exact bet, which stays as it is."""
        normal = self.approximates(bets)
        paid = np.empty(len(bets.arm))
        large = bets.take(normal)
        paid[normal] = log_final_payoff(self._scores(large), large.missing)
        paid[~normal] = super().payoff(bets.take(~normal))
        return paid

    def approximates(self, bets: Bets) -> BoolArray:
        """`(bet,)`: whether every cell that a bet needs is large enough, by its count and the rates of the past."""
        rates, counts = self.rates(bets.past), bets.fresh.counts
        expected = np.where(counts < LEAST_DRAWS, 0.0, counts * np.minimum(rates, 1 - rates))
        least = least_weighed(expected, bets.weights)
        wanted = np.maximum(LEAST_EXPECTED, TAIL * np.square(bets.missing))
        return np.asarray(np.minimum(*at_bets(bets, least, least)) >= wanted)

    def _scores(self, bets: Bets) -> FloatArray:
        """`(bet,)`: the contrast over its standard deviation, by rates pooled over the past and the phase."""
        return bets.contrast / np.sqrt(contrast_variance(bets, self.cell_variances(bets.past + bets.fresh)))
