"""Rewards that are 0 or 1: clicks, cures, conversions. No scale to state: a rate knows its own variance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from parley.checks import FloatArray, number
from parley.confidence.rates import SMALLEST_RATE, log_ratios, null_reference, stake_limit
from parley.errors import InvalidInput
from parley.keys import NUMBER, Key
from parley.rewards import sampling
from parley.rewards.base import RewardModel, Sampler
from parley.rewards.bets import LOG_SHARES, Bets, better, wagers
from parley.rewards.cells import Flaw, two_valued_flaw
from parley.rewards.gap_bounds import Bound, Look, betting_bound
from parley.rewards.intervals import Interval, Seen, in_range
from parley.rewards.products import MANY_AGENTS, contrast_variance, log_rate_products
from parley.rewards.range_intervals import range_interval
from parley.rewards.scales import Scale, no_scale
from parley.rewards.sides import Sides, in_parts
from parley.totals import Totals

__all__ = ["Binary"]

LIFT = 0.5  # of the rate: a large difference between rare events
LIFTS = (0.4, 0.2, 0.1)  # tried before a study
PRIOR = 2.0  # draws that an estimated rate borrows from the rate over all


@dataclass(frozen=True, kw_only=True)
class Binary(RewardModel):
    """Yes or no. `rate` is about how often it is yes, if that is known; it sizes the first phase and nothing else.

    >>> Binary(rate=0.04).document(), Binary().largest_scale
    ({'kind': 'binary', 'rate': 0.04}, 0.5)
    """

    kind: ClassVar[str] = "binary"
    words: ClassVar[str] = "0 or 1"
    keys: ClassVar[Mapping[str, Key]] = {
        "rate": Key(kinds=NUMBER, meaning="about how often a reward is 1; sizes the first phase only")
    }
    two_valued: ClassVar[bool] = True
    bound_words: ClassVar[str] = (
        "exact for 0/1 rewards; relaxed, and beyond 300 arms x agents, for Gaussian rewards of the same variances"
    )
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    optimism: ClassVar[float] = 1.25
    caution: ClassVar[float] = 0.35
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is None:
            return
        rate = number("noise.rate", self.rate)
        if not 1e-9 <= rate <= 1 - 1e-9:
            raise InvalidInput("noise.rate", found=rate, allowed="a number strictly between 0 and 1")
        object.__setattr__(self, "rate", rate)

    def document(self) -> dict[str, Any]:
        return {key: value for key, value in super().document().items() if value is not None}

    @property
    def variance(self) -> float:
        """A quarter: what holds whatever the rates, for policies that need a known scale."""
        return 0.25

    @property
    def largest_scale(self) -> float:
        return 0.5

    @property
    def first_variance(self) -> float:
        return self._usual_rate * (1 - self._usual_rate)

    @property
    def _usual_rate(self) -> float:
        return 0.5 if self.rate is None else self.rate

    def first_gap(self, largest_gap: float) -> float:
        """Who expects rates of 4 % looks for differences of a fraction of that, not of 1."""
        return largest_gap if self.rate is None else min(largest_gap, LIFT * min(self.rate, 1 - self.rate))

    def usual_gaps(self, largest_gap: float) -> list[float]:
        """Lifts of two fifths, a fifth and a tenth of the rate, where one is stated."""
        if self.rate is None:
            return super().usual_gaps(largest_gap)
        return [min(lift * min(self.rate, 1 - self.rate), largest_gap) for lift in LIFTS]

    def usual_spread(self, largest_gap: float) -> float:
        """Half the rate up and down, where one is stated."""
        return largest_gap if self.rate is None else min(largest_gap, self.rate, 1 - self.rate)

    def scenario(self, gap: float) -> tuple[str, float]:
        """In the words of rates: a base rate, and the lift over it."""
        level = self._usual_rate - gap / 2 if self.rate is None else self.rate
        return f"{100 * level:.4g} % against {100 * (level + gap):.4g} %, a lift of {100 * gap / level:.3g} %", level

    @property
    def usual_mean(self) -> float:
        return self._usual_rate

    def flaw(self, count: int, total: float, square: float) -> Flaw | None:
        return two_valued_flaw(count, total, square)

    def rates(self, past: Totals) -> FloatArray:
        """`(..., arm, agent)`: estimates that are never 0 or 1."""
        axes = (-2, -1)
        overall = (past.sums.sum(axis=axes, keepdims=True) + self._usual_rate) / (
            past.counts.sum(axis=axes, keepdims=True) + 1.0
        )
        return np.asarray(
            np.clip((past.sums + PRIOR * overall) / (past.counts + PRIOR), SMALLEST_RATE, 1 - SMALLEST_RATE)
        )

    def cell_variances(self, past: Totals) -> FloatArray:
        rates = self.rates(past)
        return rates * (1 - rates)

    def payoff(self, bets: Bets) -> FloatArray:
        """The projected likelihood ratio, or the sub-Gaussian payoff where that should grow faster."""
        paid, rates, gaps = np.empty(len(bets.arm)), self.rates(bets.past), wagers(bets)
        if len(bets.weights) >= MANY_AGENTS:
            variance, wide = bets.variance, self.variance * contrast_variance(bets, 1.0)
            logs, expected = log_rate_products(bets, rates, gaps, variance)
            chosen = better(logs, expected[:, 1], bets.contrast, gaps, wide)
            return np.asarray(np.logaddexp.reduce(chosen + LOG_SHARES, axis=-1))
        for part in in_parts(bets):
            logs = self._logs(part, part.of(rates), part.of(bets.fresh.sums), gaps[part.chosen], bets.shift)
            paid[part.chosen] = np.logaddexp.reduce(logs + LOG_SHARES, axis=-1)
        return paid

    def _logs(self, part: Sides, rates: FloatArray, ones: FloatArray, gaps: FloatArray, shift: float) -> FloatArray:
        """`(bet, mixture)`: chosen by the expected growth at the estimates, before the data."""
        shares, counts = part.shares, part.counts
        reference, multiplier = null_reference(shares, counts, rates, shift)
        variance = (counts * np.square(shares) * rates * (1 - rates)).sum(axis=(1, 2))
        middle = gaps[:, 1]
        ahead = (multiplier > 0) & (middle > 0)
        per_gap = np.divide(multiplier, middle, out=1 / variance, where=ahead)
        stakes = np.minimum(gaps * per_gap[:, None], stake_limit(shares, reference)[:, None])
        ratios, expected = log_ratios(shares, counts, ones * (counts > 0), counts * rates, reference, stakes, shift)
        wide = self.variance * (counts * np.square(shares)).sum(axis=(1, 2))
        contrast = (shares * ones).sum(axis=(1, 2)) + shift
        return better(ratios, expected[:, 1], contrast, gaps, wide)

    def _around(self, past: Totals, fresh: Totals) -> FloatArray:
        """`(..., arm, agent)`: the sum of (x - r)^2, where x^2 = x."""
        rates = self.rates(past)
        return np.asarray(fresh.sums * (1 - 2 * rates) + fresh.counts * np.square(rates))

    def gap_bound(self, look: Look, signal: FloatArray, information: FloatArray) -> Bound:
        return betting_bound(look, signal, information, around=self._around(look.past, look.fresh), width=1.0)

    def seen(self, past: Totals, fresh: Totals, weights: FloatArray) -> Seen:
        known, rates, counts = super().seen(past, fresh, weights), self.rates(past), fresh.counts
        known = in_range(known, self._around(past, fresh), np.maximum(rates, 1 - rates), counts, weights, self.variance)
        shares = np.divide(1.0, counts, out=np.zeros(counts.shape), where=counts > 0)
        ones, zeros = fresh.sums, counts - fresh.sums
        third = (ones * (1 - rates) ** 3 - zeros * rates**3) * shares**3
        fourth = (ones * (1 - rates) ** 4 + zeros * rates**4) * shares**4
        return replace(known, third=third @ weights**3, fourth=fourth @ weights**4)

    def interval(self, seen: Seen, line: float) -> Interval:
        return range_interval(seen, line, cubes=True)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray:  # noqa: ARG002
        return np.asarray(np.maximum(means * (1 - means), SMALLEST_RATE))

    def imagined(self, means: FloatArray, scale: FloatArray | float) -> Sampler:  # noqa: ARG002
        return sampling.two_valued(means, 0.0, 1.0)

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        no_scale(self.kind, scale)
        return {"bernoulli": lambda: sampling.two_valued(means, 0.0, 1.0)}
