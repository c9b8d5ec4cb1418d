"""Rewards in a range that learn the variance there is: from counts, sums and sums of squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from parley.checks import FloatArray, positive
from parley.confidence.spread import log_spread_bet, spread_stakes
from parley.rewards import sampling
from parley.rewards.base import Sampler
from parley.rewards.bets import LOG_SHARES, Bets, better, wagers
from parley.rewards.bounded import Bounded
from parley.rewards.gap_bounds import Bound, Look, betting_bound
from parley.rewards.intervals import Interval, Seen, in_range
from parley.rewards.products import MANY_AGENTS, contrast_variance, log_spread_products
from parley.rewards.range_intervals import range_interval
from parley.rewards.sides import Sides, in_parts
from parley.totals import Totals

__all__ = ["BoundedSpread"]

PRIOR = 3.0  # draws that a cell's variance borrows from that over all
SMALLEST_SHARE = 1e-8  # of the range, squared: no variance is taken to be smaller


@dataclass(frozen=True, kw_only=True)
class BoundedSpread(Bounded):
    """Rewards in [low, high], weighed by their own scatter; per bet the better of that and half the range.

    `guess` is about their standard deviation; it sizes the first phase and nothing else.

    >>> BoundedSpread(low=0, high=10).document()
    {'kind': 'bounded', 'low': 0.0, 'high': 10.0, 'method': 'variance'}
    """

    method: ClassVar[str] = "variance"
    needs_squares: ClassVar[bool] = True
    optimism: ClassVar[float] = 1.25
    caution: ClassVar[float] = 0.35
    guess: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guess is not None:
            object.__setattr__(self, "guess", positive("noise.guess", self.guess))

    def document(self) -> dict[str, Any]:
        keys = super().document() | {"method": self.method}
        return {key: value for key, value in keys.items() if value is not None}

    @property
    def first_variance(self) -> float:
        """A quarter of the range for a standard deviation, unless told: halfway between hardly any and the most."""
        return (self.width / 4 if self.guess is None else self.guess) ** 2

    @property
    def width(self) -> float:
        """Of the range."""
        return self.high - self.low

    def references(self, past: Totals) -> FloatArray:
        """`(..., arm, agent)`: past means, drawn a little to the middle of the range."""
        return np.asarray((past.sums + (self.low + self.high) / 2) / (past.counts + 1.0))

    def cell_variances(self, past: Totals) -> FloatArray:
        """Each cell's own, drawn towards that over all; a quarter of the squared range before there is any."""
        scatter, degrees = past.scatter, np.maximum(past.counts - 1, 0).astype(np.float64)
        axes = (-2, -1)
        overall = (scatter.sum(axis=axes, keepdims=True) + self.variance) / (degrees.sum(axis=axes, keepdims=True) + 1)
        return np.asarray(np.maximum((scatter + PRIOR * overall) / (degrees + PRIOR), SMALLEST_SHARE * self.width**2))

    def payoff(self, bets: Bets) -> FloatArray:
        """The empirical-variance bet, or the sub-Gaussian one where that should grow faster."""
        paid, gaps = np.empty(len(bets.arm)), wagers(bets) / self.width
        references = (self.references(bets.past) - self.low) / self.width
        variances = self.cell_variances(bets.past) / self.width**2
        around = self._around(bets.fresh, self.references(bets.past)) / self.width**2
        if len(bets.weights) >= MANY_AGENTS:
            scaled = replace(bets, contrast=bets.contrast / self.width)
            variance, wide = contrast_variance(bets, variances), contrast_variance(bets, 0.25)
            expected = bets.fresh.counts * variances
            logs, hoped = log_spread_products(scaled, references, around, expected, gaps, variance)
            chosen_logs = better(logs, hoped[:, 1], scaled.contrast, gaps, wide)
            return np.asarray(np.logaddexp.reduce(chosen_logs + LOG_SHARES, axis=-1))
        for part in in_parts(bets):
            chosen, reference = part.chosen, part.of(references)
            contrast = bets.contrast[chosen] / self.width
            logs = self._logs(part, reference, part.of(variances), part.of(around), contrast, gaps[chosen])
            paid[chosen] = np.logaddexp.reduce(logs + LOG_SHARES, axis=-1)
        return paid

    def _around(self, fresh: Totals, references: FloatArray) -> FloatArray:
        """`(..., arm, agent)`: the sum of (x - r)^2, from sums and squares."""
        squares = fresh.require_squares()
        around = squares - 2 * references * fresh.sums + fresh.counts * np.square(references)
        rounding = 1e-15 * (squares + np.abs(references * fresh.sums))  # what cancellation may have lost
        return np.asarray(np.maximum(around, 0.0) + rounding)

    def _logs(
        self,
        part: Sides,
        reference: FloatArray,
        variances: FloatArray,
        around: FloatArray,
        contrast: FloatArray,
        gaps: FloatArray,
    ) -> FloatArray:
        """`(bet, mixture)` in units of the range: chosen by the expected growth at the estimates, before the data."""
        shares, counts = part.shares, part.counts
        wide = (counts * np.square(shares)).sum(axis=(1, 2)) / 4
        variance = (counts * np.square(shares) * variances).sum(axis=(1, 2))
        stakes = spread_stakes(shares, reference, gaps, variance)
        paid = log_spread_bet(shares, contrast, around * (counts > 0), reference, stakes)
        expected = log_spread_bet(shares, gaps[:, 1], counts * variances, reference, stakes)[:, 1]
        return better(paid, expected, contrast, gaps, wide)

    def gap_bound(self, look: Look, signal: FloatArray, information: FloatArray) -> Bound:
        around = self._around(look.fresh, self.references(look.past))
        return betting_bound(look, signal, information, around=around, width=self.width)

    def seen(self, past: Totals, fresh: Totals, weights: FloatArray) -> Seen:
        references = self.references(past)
        depth = np.maximum(references - self.low, self.high - references)
        known = super().seen(past, fresh, weights)
        return in_range(known, self._around(fresh, references), depth, fresh.counts, weights, self.variance)

    def interval(self, seen: Seen, line: float) -> Interval:
        return range_interval(seen, line)

    def imagined(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        """A forecast draws what scatters as the past did, kept in the range on average."""
        return sampling.gaussian(np.clip(means, self.low, self.high), scale)
