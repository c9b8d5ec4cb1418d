"""How far apart an agent's arms are, learned from all of its arms together.

If the estimates of many arms scatter no more than their errors explain, the arms are probably alike, and an arm that
leads after few draws owes it to luck. If they scatter more, the leader is probably better. One arm's estimate cannot
tell these cases apart; all arms together can.

The model is hierarchical: an agent's means are normal with an unknown spread, one of `SPREADS`. It chooses shares, bets
and the size of phases of closed studies. All of these may depend on the past in any way, so no guarantee rests on it.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from parley.problem import BoolArray, FloatArray

SPREADS = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])  # standard deviations of an agent's means, in tolerances
ODDS_OF_GROWTH = 0.3  # of spread 0 where the size of phases is chosen: low, since a large phase wastes a clear gap
ALIKE = 2  # so many of the smallest spreads count as alike
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
TINY = 1e-300
LEAST_LEFT = 1e-3  # smallest standard deviation of a later estimate, relative to that of its sampling error


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """What the estimates of an agent's arms say of their spread and, given each spread, of their means."""

    known: BoolArray  # (..., arm, agent): open arms with draws; the others are ignored
    fit: FloatArray  # (..., spread, agent): log likelihood
    means: FloatArray  # (..., spread, arm, agent): posterior means
    variances: FloatArray  # (..., spread, arm, agent): posterior variances

    @staticmethod
    def of(estimates: FloatArray, variances: FloatArray, known: BoolArray, tolerance: float) -> "Spread":
        """Fit the model to `estimates (..., arm, agent)` with these `variances`.

        >>> error, known = np.full((4, 1), 0.01), np.ones((4, 1), dtype=np.bool_)
        >>> chance = lambda x: float(Spread.of(np.array([x]).T, error, known, 0.1).alike(1.0)[0])
        >>> [round(chance(x), 2) for x in ([0.1, 0.0, -0.1, 0.05], [0.6, 0.0, 0.0, 0.0])]
        [0.68, 0.0]
        """
        inside = np.broadcast_to(known, estimates.shape)
        seen = inside[..., None, :, :]
        x, v = np.where(seen, estimates[..., None, :, :], 0.0), variances[..., None, :, :]
        prior = np.square(SPREADS * tolerance)[:, None, None]
        precision = np.where(seen, 1 / (prior + v), 0.0)
        total = np.maximum(precision.sum(axis=-2, keepdims=True), TINY)
        center = (x * precision).sum(axis=-2, keepdims=True) / total
        each = np.log(np.where(seen, precision, 1.0)) - np.square(x - center) * precision
        share = prior / (prior + v)
        return Spread(
            known=inside,
            fit=(each.sum(axis=-2) - np.log(total[..., 0, :])) / 2,
            means=center + share * (x - center),
            variances=share * v + np.square(1 - share) / total,
        )

    def _chances(self, odds: float) -> FloatArray:
        """`(..., spread, agent)`: the probability of each spread, if spread 0 has these `odds` before any data."""
        logs = self.fit + np.where(SPREADS == 0, math.log(odds), 0.0)[:, None]
        chances = np.exp(logs - logs.max(axis=-2, keepdims=True))
        return np.asarray(chances / chances.sum(axis=-2, keepdims=True))

    def alike(self, odds: float) -> FloatArray:
        """`(..., agent)`: the probability that an agent's arms are alike."""
        return np.asarray(self._chances(odds)[..., :ALIKE, :].sum(axis=-2))

    def expected(self, odds: float) -> FloatArray:
        """`(..., arm, agent)`: the expected mixed means, closer together than the estimates."""
        return np.asarray((self._chances(odds)[..., None, :] * self.means).sum(axis=-3))

    def leads(self, estimates: FloatArray, variances: FloatArray, closing: float, odds: float) -> FloatArray:
        """`(..., arm, agent)`: about the probability that an arm has the best estimate when the study closes.

        `closing` is the variance of a mixed mean then. Arms that are alike have equal chances. Otherwise an arm's last
        estimate is normal: a mean of today's estimate and of draws around what its mean is expected to be.
        """
        chances = self._chances(odds)
        alike = chances[..., :ALIKE, :].sum(axis=-2)[..., None, :]
        apart = chances[..., ALIKE:, :] / np.maximum(chances[..., ALIKE:, :].sum(axis=-2, keepdims=True), TINY)
        apart, means = apart[..., None, :], self.means[..., ALIKE:, :, :]
        mean = (apart * means).sum(axis=-3)
        variance = (apart * (self.variances[..., ALIKE:, :, :] + np.square(means - mean[..., None, :, :]))).sum(axis=-3)
        seen = np.minimum(closing / variances, 1.0)  # share of the draws of the last estimate
        last = np.where(self.known, seen * estimates + (1 - seen) * mean, -np.inf)
        error = np.sqrt(np.square(1 - seen) * variance + (1 - seen) * closing + LEAST_LEFT**2 * closing)
        best = np.zeros(last.shape)
        itself = np.eye(last.shape[-2], dtype=np.bool_)[..., None]
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            at = np.where(self.known, last + error * node, 0.0)
            below = ndtr((at[..., :, None, :] - last[..., None, :, :]) / error[..., None, :, :])
            best += weight * np.where(itself, 1.0, below).prod(axis=-2)
        even = 1 / np.maximum(self.known.sum(axis=-2, keepdims=True), 1)
        return np.where(self.known, alike * even + (1 - alike) * best, 0.0)
