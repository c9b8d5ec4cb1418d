"""Rewards that are 0 or 1, with the normal approximation of textbook designs: `inference = "normal"`.

The exact bets of `binary` cannot be boosted, and pay for it. Here a contrast counts as Gaussian, and its payoff is
boosted and capped. So error rates are approximate: `docs/delta-correctness.md` measures them.

What decides between a good and a bad approximation is the variance. At the estimated rates (Wald's) it is too small
just when a contrast is large by chance, and small cells err too often. At the nearest rates without the gap (Farrington
and Manning, Statistics in Medicine 9, 1990) it is too large, and small cells say too little. Their mean serves cells of
any size. Intervals and bounds on gaps stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.checks import FloatArray
from parley.rewards.bets import Bets, gaussian_payoff, in_parts
from parley.rewards.binary import INFERENCES, Binary, null_reference
from parley.rewards.payoffs import log_final_payoff

PLANNED_DRAWS = 10  # of every cell that bets: with fewer, estimates of variances scatter much
TO_THE_NULL = 0.5  # of the way from the variance at the estimates to that at the nearest rates without the gap


@dataclass(frozen=True, kw_only=True)
class BinaryNormal(Binary):
    """Yes or no, by the normal approximation.

    >>> BinaryNormal(rate=0.25).document()
    {'kind': 'binary', 'rate': 0.25, 'inference': 'normal'}
    """

    boosted: ClassVar[bool] = True
    bet_draws: ClassVar[int] = PLANNED_DRAWS
    optimism: ClassVar[float] = 1.4
    caution: ClassVar[float] = 1.0
    guarantee_note: ClassVar[str] = "approximately (normal approximation of rates)"

    @classmethod
    def describes(cls, keys: Mapping[str, Any]) -> bool:
        return bool(keys.get("inference") == INFERENCES[1])

    def document(self) -> dict[str, Any]:
        return super().document() | {"inference": INFERENCES[1]}

    def payoff(self, bets: Bets) -> FloatArray:
        """As of a Gaussian contrast; stakes come from the past."""
        return gaussian_payoff(bets, self.scores(bets))

    def final_payoff(self, bets: Bets) -> FloatArray:
        return log_final_payoff(self.scores(bets), bets.missing)

    def scores(self, bets: Bets) -> FloatArray:
        """`(bet,)`: the contrast over its standard deviation, by rates pooled over the past and the phase.

        The variance of an estimated rate is too small by one part in its draws, on average: that is made good.
        """
        scores, pooled = np.empty(len(bets.arm)), bets.past + bets.fresh
        rates = self.rates(pooled)
        for part in in_parts(bets):
            draws = np.where(part.counts > 0, part.of(pooled.counts.astype(np.float64)), 0.0)
            shares = np.divide(part.shares * part.counts, draws, out=np.zeros(draws.shape), where=draws > 0)
            estimated = part.of(rates)
            nearest, _ = null_reference(shares, draws, estimated, bets.shift)
            variances = (1 - TO_THE_NULL) * estimated * (1 - estimated) * draws / np.maximum(draws - 1, 1)
            variances += TO_THE_NULL * nearest * (1 - nearest)
            variance = (part.counts * np.square(part.shares) * variances).sum(axis=(1, 2))
            scores[part.chosen] = bets.contrast[part.chosen] / np.sqrt(variance)
        return scores
