"""Rewards that are 0 or 1, with the normal approximation of textbook designs: `inference = "normal"`.

Contrasts are treated as Gaussian, and payoffs are boosted and capped, so error rates are approximate. docs/rewards.md
derives a variance for cells of any size, and docs/appendix has the measured error rates. Intervals and bounds on gaps
stay exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri_exp

from parley.rewards.bets import Bets, at_bets, gaussian_payoff, in_parts, log_final_payoff
from parley.rewards.binary import Binary
from parley.text.translation import Translatable
from parley.validation.checks import BoolArray, FloatArray

PLANNED_DRAWS = 10  # draws of every betting cell in a plan: with fewer, variance estimates are poor
CLEAR_OF_0 = 1e-3  # starting points of the search stay this far from 0 and 1
RESTRICTING_STEPS, RESTRICTED = 40, 1e-10  # the search for restricted rates: largest number of steps, and tolerance
LEAST_VARIANCE = 1e-100  # replaces 0, the variance of a contrast without any successes
# If one side has only failures and the other only successes, the estimated variance is 0. A bet that loses in this way
# gets this score instead of minus infinity, so that later phases can still win the loss back.
LEAST_SCORE = -40.0
HEAVIER = 0.2  # log of the largest factor by which an estimated variance may enlarge a tail; above it, bets are exact
LEAST_SKEWNESS = 1e-6  # below it, the cube root would lose its precision


@dataclass(frozen=True, kw_only=True)
class BinaryNormal(Binary):
    """0/1 rewards with the normal approximation.

    >>> BinaryNormal(rate=0.25).document()
    {'kind': 'binary', 'rate': 0.25, 'inference': 'normal'}
    """

    chosen: ClassVar[Mapping[str, str]] = {"inference": "normal"}
    boosted: ClassVar[bool] = True
    adjusted_form: ClassVar[str] = "normal"
    bet_draws: ClassVar[int] = PLANNED_DRAWS
    optimism: ClassVar[float] = 1.4
    caution: ClassVar[float] = 1.0
    guarantee_note: ClassVar[str] = Translatable("approximately (normal approximation of rates)")

    def payoff(self, bets: Bets) -> FloatArray:
        """The Gaussian log payoff where the phase determines the variance well enough, else the exact log payoff."""
        return self._paid(bets, lambda large: gaussian_payoff(large, self.scores(large)))

    def final_payoff(self, bets: Bets) -> FloatArray:
        return self._paid(bets, lambda large: log_final_payoff(self.scores(large), large.missing, large.kept))

    def _paid(self, bets: Bets, payoff: Callable[[Bets], FloatArray]) -> FloatArray:
        normal = self.approximates(bets)
        if normal.all():
            return payoff(bets)
        paid = np.empty(len(bets.arm))
        paid[normal] = payoff(bets.take(normal))
        paid[~normal] = self._exact(bets.take(~normal))
        return paid

    def _exact(self, bets: Bets) -> FloatArray:
        """The exact log payoff of the part of a pair's wealth that it does not keep."""
        won = super().payoff(bets)
        if bets.least is None:
            return won
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(bets.least), np.log1p(-bets.least) + won))

    def approximates(self, bets: Bets) -> BoolArray:
        """`(bet,)`: whether the phase's draws should determine the variance well enough, judged by past rates.

        The fresh sums are not used, so that rewards cannot influence the choice between the two payoffs.
        """
        rates, draws = self.rates(bets.past), np.maximum(bets.fresh.counts, 1)
        variances = rates * (1 - rates) / draws
        if self.rho:
            variances = variances + self.noise_variance / np.square(draws)
        noise = np.square(bets.fresh.per_draw * (1 - 2 * rates)) * variances @ bets.weights**4
        error = sum(at_bets(bets, noise, noise)) / np.square(bets.variance)
        return np.asarray(np.maximum(-ndtri_exp(-bets.missing), 0.0) ** 4 * error / 8 <= HEAVIER)

    def scores(self, bets: Bets) -> FloatArray:
        """`(bet,)`: the contrast divided by its standard deviation, computed from this phase's rates under the null.

        Earlier phases are not used, since rates may have been different. With n draws, an estimated variance is too
        small by the factor 1 - 1 / n on average, which is corrected.
        """
        scores, fresh = np.empty(len(bets.arm)), bets.fresh
        found = self.rates(fresh) if self.rho else fresh.sums * fresh.per_draw
        for part in in_parts(bets):
            nearest = restricted_rates(part.shares, part.counts, part.of(found), bets.shift)
            variances = nearest * (1 - nearest) * part.counts / np.maximum(part.counts - 1, 1)
            variance = (part.counts * np.square(part.shares) * variances).sum(axis=(1, 2))
            if self.rho:
                variance += self.noise_variance * np.square(part.shares).sum(axis=(1, 2))
            variance = np.maximum(variance, LEAST_VARIANCE)
            third = (part.counts * part.shares**3 * variances * (1 - 2 * nearest)).sum(axis=(1, 2))
            scores[part.chosen] = unskewed(bets.contrast[part.chosen] / np.sqrt(variance), third / variance**1.5)
        return np.maximum(scores, LEAST_SCORE)


def restricted_rates(shares: FloatArray, counts: FloatArray, rates: FloatArray, shift: float = 0.0) -> FloatArray:
    """The most likely rates `(bet, side, agent)` without a gap; the observed `rates` themselves if they have no gap.

    For observed rates q and shares a, they solve (q - r) / (r (1 - r)) = kappa a with theta_r + shift = 0, where
    theta_r is the contrast of the rates r (Farrington and Manning 1990). theta_r decreases in kappa, so Newton's method
    within a bracket finds the root.

    >>> shares = np.array([[[0.1], [-0.1]]])
    >>> restricted_rates(shares, np.full((1, 2, 1), 10.0), np.array([[[0.5], [0.0]]])).round(3).ravel().tolist()
    [0.25, 0.25]
    """
    weighed = counts * shares
    gap = (weighed * rates).sum(axis=(1, 2)) + shift
    middle = np.clip(rates, CLEAR_OF_0, 1 - CLEAR_OF_0)
    kappa = np.maximum(gap, 0.0) / (weighed * shares * middle * (1 - middle)).sum(axis=(1, 2))
    low, high = np.zeros(len(gap)), np.full(len(gap), np.inf)
    found = np.array(rates)
    open_ = np.flatnonzero(gap > 0)
    for _ in range(RESTRICTING_STEPS):
        if not open_.size:
            break
        step = kappa[open_, None, None] * shares[open_]
        nearest, root = _root(step, rates[open_])
        left = (weighed[open_] * nearest).sum(axis=(1, 2)) + shift
        slope = (weighed[open_] * shares[open_] * nearest * (1 - nearest) / root).sum(axis=(1, 2))
        found[open_] = nearest
        low[open_] = np.where(left > 0, kappa[open_], low[open_])
        high[open_] = np.where(left > 0, high[open_], kappa[open_])
        newton = kappa[open_] + left / np.maximum(slope, 1e-300)
        # Without any successes the slope is 0 at first, and Newton's step would leave every bracket for good.
        farthest = np.where(np.isfinite(high[open_]), high[open_], 4 * kappa[open_])
        between = np.where(np.isfinite(high[open_]), (low[open_] + high[open_]) / 2, farthest)
        inside = (newton > low[open_]) & (newton < farthest)
        kappa[open_] = np.where(inside, newton, between)
        open_ = open_[np.abs(left) > RESTRICTED]
    return found


def _root(step: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The root r in [0, 1] of q - r = c r (1 - r), for rates q and `step` c, and the root of the discriminant."""
    plus = 1 + step
    root = np.sqrt(np.maximum(np.square(plus) - 4 * step * rates, 1e-24))
    inner = (plus + np.where(plus >= 0, root, -root)) / 2
    direct = rates / np.maximum(inner, 1e-300)
    other = np.divide(inner, step, out=np.zeros(step.shape), where=step < -1)
    return np.clip(np.where(plus >= 0, direct, other), 0.0, 1.0), root


def unskewed(scores: FloatArray, skewness: FloatArray) -> FloatArray:
    """Lower the scores of positively skewed contrasts, by the cube-root transformation of Wilson and Hilferty (1931).

    The mean of a few rare successes is skewed upwards, so its upper tail is heavier than normal. No score is raised.

    >>> unskewed(np.array([3.0, 3.0, 3.0, -1.0]), np.array([0.0, 0.3, -0.3, 0.3])).round(2).tolist()
    [3.0, 2.69, 3.0, -1.0]
    """
    skew = np.maximum(skewness, LEAST_SKEWNESS)
    symmetric = 6 / skew * (np.cbrt(1 + skew * np.maximum(scores, 0.0) / 2) - 1) + skew / 6
    return np.where((scores > 0) & (skewness > LEAST_SKEWNESS), np.minimum(scores, symmetric), scores)
