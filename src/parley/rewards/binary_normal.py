"""Rewards that are 0 or 1, with the normal approximation of textbook designs: `inference = "normal"`.

A contrast counts as Gaussian, and its payoff is boosted and capped, so error rates are approximate. docs/rewards.md has
the variance that serves cells of any size, docs/delta-correctness.md the errors. Intervals and bounds on gaps stay
exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri_exp

from parley.rewards.bets import Bets, at_bets, gaussian_payoff, in_parts, log_final_payoff
from parley.rewards.binary import Binary, null_reference
from parley.validation.checks import BoolArray, FloatArray

PLANNED_DRAWS = 10  # of every cell that bets: with fewer, estimates of variances scatter much
TO_THE_NULL = 0.5  # of the way from the variance at the estimates to that at the nearest rates without the gap
HEAVIER = 0.2  # log of how much heavier a tail may be because its variance is estimated; else the bet is exact
LEAST_SKEWNESS = 1e-6  # keeps the digits of the cube root


@dataclass(frozen=True, kw_only=True)
class BinaryNormal(Binary):
    """Yes or no, by the normal approximation.

    >>> BinaryNormal(rate=0.25).document()
    {'kind': 'binary', 'rate': 0.25, 'inference': 'normal'}
    """

    chosen: ClassVar[Mapping[str, str]] = {"inference": "normal"}
    boosted: ClassVar[bool] = True
    bet_draws: ClassVar[int] = PLANNED_DRAWS
    optimism: ClassVar[float] = 1.4
    caution: ClassVar[float] = 1.0
    guarantee_note: ClassVar[str] = "approximately (normal approximation of rates)"

    def payoff(self, bets: Bets) -> FloatArray:
        """As of a Gaussian contrast where its variance is known well enough, else exact; stakes come from the past."""
        return self._paid(bets, lambda large: gaussian_payoff(large, self.scores(large)))

    def final_payoff(self, bets: Bets) -> FloatArray:
        return self._paid(bets, lambda large: log_final_payoff(self.scores(large), large.missing))

    def _paid(self, bets: Bets, payoff: Callable[[Bets], FloatArray]) -> FloatArray:
        normal = self.approximates(bets)
        if normal.all():
            return payoff(bets)
        paid = np.empty(len(bets.arm))
        paid[normal] = payoff(bets.take(normal))
        paid[~normal] = super().payoff(bets.take(~normal))
        return paid

    def approximates(self, bets: Bets) -> BoolArray:
        """`(bet,)`: whether the variance will be known well enough for what is missing, whatever the rewards."""
        rates, draws = self.rates(bets.past), np.maximum(bets.past.counts + bets.fresh.counts, 1)
        variances = rates * (1 - rates) / draws
        if self.rho:  # of the two sums, about: the past's and the phase's
            variances = variances + 2 * self.noise_variance / np.square(draws)
        noise = np.square(bets.fresh.per_draw * (1 - 2 * rates)) * variances @ bets.weights**4
        error = sum(at_bets(bets, noise, noise)) / np.square(bets.variance)
        return np.asarray(np.maximum(-ndtri_exp(-bets.missing), 0.0) ** 4 * error / 8 <= HEAVIER)

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
            variances += TO_THE_NULL * nearest * (1 - nearest) * draws / np.maximum(draws - 1, 1)
            variance = (part.counts * np.square(part.shares) * variances).sum(axis=(1, 2))
            if self.rho:
                variance += self.noise_variance * np.square(part.shares).sum(axis=(1, 2))
            third = (part.counts * part.shares**3 * variances * (1 - 2 * estimated)).sum(axis=(1, 2))
            scores[part.chosen] = unskewed(bets.contrast[part.chosen] / np.sqrt(variance), third / variance**1.5)
        return scores


def unskewed(scores: FloatArray, skewness: FloatArray) -> FloatArray:
    """Lower scores where the tail is heavier than normal, by the cube root of Wilson and Hilferty (1931).

    The mean of rare ones from few draws is skewed upwards. Scores are never raised.

    >>> unskewed(np.array([3.0, 3.0, 3.0, -1.0]), np.array([0.0, 0.3, -0.3, 0.3])).round(2).tolist()
    [3.0, 2.69, 3.0, -1.0]
    """
    skew = np.maximum(skewness, LEAST_SKEWNESS)
    symmetric = 6 / skew * (np.cbrt(1 + skew * np.maximum(scores, 0.0) / 2) - 1) + skew / 6
    return np.where((scores > 0) & (skewness > LEAST_SKEWNESS), np.minimum(scores, symmetric), scores)
