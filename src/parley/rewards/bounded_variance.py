"""Rewards in a range whose variance is learned from counts, sums and sums of squares.

Rewards x_i are scaled to [0, 1] here. Let lam be the stake, Y the contrast, and a the coefficient of a cell's rewards
in Y. Let psi(y) = -log(1 - y) - y, and let c be how far a reward can fall on the losing side of its reference r.
docs/rewards.md proves that this payoff is fair:

    log f = lam Y - sum_cells psi(lam |a| c) / c^2 * sum_i (x_i - r)^2

Arrays are `(bet, side, agent)`, with signed `shares`; a mixture of stakes is the last axis.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from parley.rewards import bets as betting
from parley.rewards import intervals, sampling
from parley.rewards.bets import REACH, Bets, Sides, at_bets, staked_gaps
from parley.rewards.bounded import Bounded
from parley.rewards.intervals import Bound, ContrastSummary, Interval, PhaseContrasts
from parley.rewards.sampling import Sampler
from parley.totals import Totals
from parley.validation.checks import FloatArray, positive

HORIZON = 64.0  # information of a usual study over that of its first phase, to choose stakes for narrow intervals
PRIOR = 3.0  # prior draws in a cell's variance, at the overall variance
SMALLEST_SHARE = 1e-8  # least variance assumed, relative to the squared range

LIMIT = 0.95  # largest stake, relative to the stake beyond which payoffs are not fair
SMALLEST_REACH = 1e-6
ROUNDING = 1e-13  # relative to the summed terms
SERIES_BELOW = 1e-3  # psi(y) of smaller y is computed by its series


@dataclass(frozen=True, kw_only=True)
class BoundedVariance(Bounded):
    """Rewards in [low, high]; each bet uses the observed variance or half the range, whichever is better.

    `guess` is roughly the standard deviation of rewards; it only sizes the first phase.

    >>> BoundedVariance(low=0, high=10).document()
    {'kind': 'bounded', 'low': 0.0, 'high': 10.0, 'method': 'variance'}
    """

    chosen: ClassVar[Mapping[str, str]] = {"method": "variance"}
    needs_squares: ClassVar[bool] = True
    private_form: ClassVar[str] = ""
    adjusted_form: ClassVar[str] = "range"
    optimism: ClassVar[float] = 1.25
    caution: ClassVar[float] = 0.35
    guess: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guess is not None:
            object.__setattr__(self, "guess", positive("noise.guess", self.guess))

    @property
    def first_variance(self) -> float:
        """The square of a quarter of the range, or of the stated guess if that is smaller.

        Larger guesses are ignored, because stating a correct guess must not cost draws.
        """
        return min(self.width / 4, self.width if self.guess is None else self.guess) ** 2

    @property
    def width(self) -> float:
        """The width of the range."""
        return self.high - self.low

    def references(self, past: Totals) -> FloatArray:
        """`(..., arm, agent)`: the references r of bets: past means, shrunk towards the middle of the range."""
        return np.asarray((past.sums + (self.low + self.high) / 2) / (past.counts + 1.0))

    def cell_variances(self, past: Totals) -> FloatArray:
        """Each cell's variance, shrunk towards the overall variance; a quarter of the squared range before any data.

        Possible rounding errors count as scatter. If the range is far from 0, they dominate, and bets that use only the
        range are better.
        """
        scatter = np.minimum(past.scatter + past.rounding, past.counts * self.variance)
        degrees = np.maximum(past.counts - 1, 0).astype(np.float64)
        axes = (-2, -1)
        overall = (scatter.sum(axis=axes, keepdims=True) + self.variance) / (degrees.sum(axis=axes, keepdims=True) + 1)
        return np.asarray(np.maximum((scatter + PRIOR * overall) / (degrees + PRIOR), SMALLEST_SHARE * self.width**2))

    def payoff(self, bets: Bets) -> FloatArray:
        """`(bet,)`: the log payoff from the observed variance, or a sub-Gaussian one if it should grow faster."""
        gaps = staked_gaps(bets) / self.width
        references = (self.references(bets.past) - self.low) / self.width
        variances = self.cell_variances(bets.past) / self.width**2
        around = self._around(bets.fresh, self.references(bets.past)) / self.width**2
        lost = bets.fresh.mixed_rounding(bets.weights)
        scaled = replace(bets, contrast=(bets.contrast - sum(at_bets(bets, lost, lost))) / self.width)

        def of_all() -> FloatArray:
            variance, expected = betting.contrast_variance(bets, variances), bets.fresh.counts * variances
            logs, hoped = log_spread_products(scaled, references, around, expected, gaps, variance)
            return betting.faster_growing(
                logs, hoped[:, 1], scaled.contrast, gaps, betting.contrast_variance(bets, 0.25)
            )

        def of_part(part: Sides) -> FloatArray:
            contrast, staked = scaled.contrast[part.chosen], gaps[part.chosen]
            return self._logs(part, part.of(references), part.of(variances), part.of(around), contrast, staked)

        return betting.mixture_payoff(bets, of_all, of_part)

    def _around(self, fresh: Totals, references: FloatArray) -> FloatArray:
        """`(..., arm, agent)`: the sum of (x - r)^2, from sums and squares, plus a bound on its rounding error."""
        squares, counts = fresh.require_squares(), fresh.counts
        around = squares - 2 * references * fresh.sums + counts * np.square(references)
        lost = fresh.loss * np.square(np.sqrt(squares) + np.abs(references) * np.sqrt(counts))
        return np.asarray(np.maximum(around, 0.0) + lost)

    def _logs(
        self,
        part: Sides,
        reference: FloatArray,
        variances: FloatArray,
        around: FloatArray,
        contrast: FloatArray,
        gaps: FloatArray,
    ) -> FloatArray:
        """`(bet, mixture)`: log payoffs from data in units of the range.

        The expected growth, not the fresh data, decides between the payoff by variance and the sub-Gaussian payoff.
        """
        shares, counts = part.shares, part.counts
        wide = (counts * np.square(shares)).sum(axis=(1, 2)) / 4
        variance = (counts * np.square(shares) * variances).sum(axis=(1, 2))
        stakes = spread_stakes(shares, reference, gaps, variance)
        paid = log_spread_bet(shares, contrast, around * (counts > 0), reference, stakes)
        expected = log_spread_bet(shares, gaps[:, 1], counts * variances, reference, stakes)[:, 1]
        return betting.faster_growing(paid, expected, contrast, gaps, wide)

    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        around = self._around(phase.fresh, self.references(phase.past))
        return intervals.betting_bound(self.rounded_down(phase), signal, information, around=around, width=self.width)

    def summary(self, past: Totals, fresh: Totals, weights: FloatArray) -> ContrastSummary:
        references = self.references(past)
        known, around = super().summary(past, fresh, weights), self._around(fresh, references)
        below, above = references - self.low, self.high - references
        return intervals.in_range(known, fresh, around, below, above, weights, self.variance)

    def interval(self, summary: ContrastSummary, line: float) -> Interval:
        return intervals.range_interval(summary, line, HORIZON)

    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        """The sampler for a forecast: Gaussian rewards with the guessed scale, and means clipped to the range."""
        return sampling.gaussian(np.clip(means, self.low, self.high), scale)


def _psi(y: FloatArray) -> FloatArray:
    """-log(1 - y) - y, rounded up. Small y use the power series, because the difference would lose precision."""
    small = np.square(y) * (0.5 + y * (1 / 3 + y * (1 / 4 + y * (1 / 5 + y))))  # 1 instead of 1/6: an upper bound
    large = -np.log1p(-np.minimum(y, LIMIT)) - y
    return np.asarray(np.where(y < SERIES_BELOW, small, large) * (1 + ROUNDING))


def _reach(shares: FloatArray, reference: FloatArray) -> FloatArray:
    """The reach c: how far a reward can fall on the losing side of its reference, in units of the range."""
    return np.maximum(np.where(shares > 0, reference, 1 - reference), SMALLEST_REACH)


def spread_stakes(shares: FloatArray, reference: FloatArray, gaps: FloatArray, variance: FloatArray) -> FloatArray:
    """Stakes `(bet, mixture)` for the given `gaps`: about gap / variance, within the limit.

    With one cell, gap / (variance + gap |a| c) maximises the expected log payoff; with several cells, this stake is a
    little too small.
    """
    farthest = (np.abs(shares) * _reach(shares, reference)).max(axis=(1, 2))[:, None]
    wished = gaps / np.maximum(variance[:, None] + gaps * farthest, 1e-300)
    return np.asarray(np.minimum(wished, LIMIT / np.maximum(farthest, 1e-300)))


def log_spread_bet(
    shares: FloatArray, contrast: FloatArray, around: FloatArray, reference: FloatArray, stakes: FloatArray
) -> FloatArray:
    """Log payoffs log f `(bet, mixture)` for the contrast Y and, in every cell, `around` = sum (x - r)^2.

    >>> shares, around = np.array([[[0.01], [-0.01]]]), np.full((1, 2, 1), 1.0)
    >>> pays = log_spread_bet(shares, np.array([0.1]), around, np.full((1, 2, 1), 0.5), np.array([[50.0]]))
    >>> pays.round(2).tolist()  # the variance is 1e-4 on either side: a little below 50 * 0.1 - 50^2 * 2e-4 / 2
    [[4.7]]
    """
    reach = _reach(shares, reference)
    pulls = np.abs(shares) * reach
    penalty = np.einsum("bsn,bsni->bi", around / np.square(reach), _psi(stakes[:, None, None, :] * pulls[..., None]))
    won = stakes * contrast[:, None]
    return np.asarray(won - penalty - ROUNDING * (np.abs(won) + penalty))


def log_spread_products(
    bets: Bets, references: FloatArray, around: FloatArray, expected: FloatArray, gaps: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`log_spread_bet` by matrix products, in units of the range: psi(y) = sum_p y^p / p, p >= 2.

    Returns the log payoffs and their expectation before the data.
    """
    each = bets.fresh.per_draw
    falls = np.maximum(references, 1e-6), np.maximum(1 - references, 1e-6)  # for the opponent, for the arm
    reach = betting.farthest(bets, each * falls[0], each * falls[1])[:, None]
    stakes = np.minimum(gaps / np.maximum(variance[:, None] + gaps * reach, 1e-300), REACH / np.maximum(reach, 1e-300))
    contrast = bets.contrast[:, None]
    paid, hoped = stakes * contrast, stakes * gaps[:, 1:2]
    for p, weights in betting.powers(bets.weights):
        scale = stakes**p / p
        for logs, scatter in ((paid, around), (hoped, expected)):
            sides = [(scatter * each**p * fall ** (p - 2)) @ weights for fall in falls]
            size = sum(at_bets(bets, *sides))
            logs -= scale * np.asarray(size)[:, None]  # noqa: PLW2901
            if logs is paid:
                last = size
    return paid - betting.series_tail(stakes, reach, last) - betting.ROUNDING * (1 + np.abs(stakes * contrast)), hoped
