"""Rewards that are 0 or 1, such as clicks or cures. The rate determines the variance, so a study states no scale.

docs/rewards.md proves that the payoff f = exp(lam theta_r) prod_i (1 + lam a_i (x_i - r_i)) is fair. Here lam is the
stake, x_i are the rewards, and a_i are their coefficients in the contrast, called `shares` in the code. The references
r_i are the estimated rates, moved so that their contrast theta_r is 0. Arrays are `(bet, side, agent)`, the opponent
first, with signed `shares`; a mixture of stakes is the last axis.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from parley.rewards import bets as betting
from parley.rewards import intervals, sampling
from parley.rewards.base import KnownVariance
from parley.rewards.bets import REACH, TERMS, Bets, Sides, at_bets, staked_gaps
from parley.rewards.divergences import BERNOULLI, Divergence
from parley.rewards.intervals import Bound, ContrastSummary, Interval, PhaseContrasts
from parley.rewards.plausibility import Flaw
from parley.rewards.sampling import Sampler
from parley.rewards.scales import Scale, no_scale
from parley.settings import NUMBER, Key
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import BETWEEN, FloatArray, within

RARE = 14.0  # the first phase is sized for a gap of at most RARE * rate; a cell then has about half a success
ONES = 1.0  # prior successes in an estimated rate; they replace PRIOR if successes are rarer than 1 in PRIOR draws
LIFTS = (0.4, 0.2, 0.1)  # lifts that a plan tries
HORIZON = 32.0  # information of a usual study over that of its first phase, to choose stakes for narrow intervals
PRIOR = 2.0  # least prior draws in an estimated rate, at the overall rate

UNRESOLVED = 0.5  # estimated rates stay this many standard deviations of the privacy noise away from 0 and 1

NEWTON_STEPS = 2  # for the projection, which need not be exact, since any reference is fair
LIMIT = 0.9  # largest stake, relative to the stake at which a factor could become 0
SMALLEST_RATE = 1e-9
ROUNDING = 4e-16  # subtracted per draw: logarithms of factors near 1 are rounded in the last digit


@dataclass(frozen=True, kw_only=True)
class Binary(KnownVariance):
    """0/1 rewards; `rate` is roughly how often a reward is 1, or None if that is unknown.

    The rate sizes the first phase and is the base rate of the truths in a plan; the guarantee does not depend on it.

    >>> Binary(rate=0.04).document(), Binary().largest_scale
    ({'kind': 'binary', 'rate': 0.04}, 0.5)
    """

    kind: ClassVar[str] = "binary"
    description: ClassVar[str] = "0 or 1"
    label: ClassVar[str] = "yes or no"
    observed: ClassVar[str] = "yes or no (1 or 0)"
    keys: ClassVar[Mapping[str, Key]] = {
        "rate": Key(
            kinds=NUMBER,
            meaning="about how often a reward is 1; sizes the first phase, and is the base rate of the truths that "
            "`parley plan` tries",
        ),
        "inference": Key(
            kinds=(str,),
            meaning='`"exact"`, or `"normal"`: the approximation of textbooks, needs fewer draws; the guarantee then '
            'says "approximately"',
            default='`"exact"`',
        ),
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"inference": ("exact", "normal")}
    bound_note: ClassVar[str] = (
        "exact for 0/1 rewards; relaxed, and beyond 300 arms x agents, for Gaussian rewards of the same variances"
    )
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    values: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    means_are_rates: ClassVar[bool] = True
    divergence: ClassVar[Divergence] = BERNOULLI
    private_form: ClassVar[str] = 'kind "binary"'
    adjusted_form: ClassVar[str] = "range"
    optimism: ClassVar[float] = 1.25
    caution: ClassVar[float] = 0.35
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is None:
            return
        object.__setattr__(self, "rate", within("noise.rate", self.rate, 1e-9, 1 - 1e-9, BETWEEN))

    @property
    def variance(self) -> float:
        """1/4, the largest variance at any rate; for policies that need a known scale."""
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

    def first_sizes(self, largest_gap: float, gap: float) -> tuple[float, float]:
        """The variance at the rate, and the gap, limited so that the first phase is large enough for rare successes.

        The gap is at most two standard deviations of a reward. If a rate is stated, the gap is also at most RARE times
        the rate; a stricter limit would make stating a rate cost draws. If no rate is stated, the largest gap (at most
        1/2) replaces the rate.
        """
        rate = min(largest_gap, 0.5) if self.rate is None else min(self.rate, 1 - self.rate)
        variance = rate * (1 - rate)
        return variance, min(gap, 2 * math.sqrt(variance), gap if self.rate is None else RARE * rate)

    def usual_gaps(self, largest_gap: float) -> list[float]:
        """Gaps of 40 %, 20 % and 10 % of the stated rate; shares of the largest gap if no rate is stated."""
        if self.rate is None:
            return super().usual_gaps(largest_gap)
        return [min(lift * min(self.rate, 1 - self.rate), largest_gap) for lift in LIFTS]

    def usual_spread(self, largest_gap: float) -> float:
        """The stated rate, so that means lie between 0.5 and 1.5 times the rate; `largest_gap` if no rate is stated."""
        return largest_gap if self.rate is None else min(largest_gap, self.rate, 1 - self.rate)

    def scenario(self, gap: float) -> tuple[str, float]:
        """A truth described by its base rate, its best rate and the lift between them."""
        level = self._usual_rate - gap / 2 if self.rate is None else self.rate
        shares = 100 * level, 100 * (level + gap), 100 * gap / level
        return Translatable("{0:.4g} % against {1:.4g} %, a lift of {2:.3g} %", *shares), level

    @property
    def usual_mean(self) -> float:
        return self._usual_rate

    def expecting(self, mean: float) -> Self:
        return replace(self, rate=mean) if self.rate is None else self

    def other_guesses(self) -> list[tuple[str, str, Self]]:
        if self.rate is None:
            return []
        return [
            (
                Translatable("guess of the rate"),
                Translatable("{0:g} times", factor),
                replace(self, rate=min(factor * self.rate, 0.99)),
            )
            for factor in (0.5, 1.5)
        ]

    def flaw(self, count: int, total: float, square: float) -> Flaw | None:
        return two_valued_flaw(count, total, square)

    def rates(self, past: Totals) -> FloatArray:
        """`(..., arm, agent)`: estimated rates, never 0 or 1."""
        axes = (-2, -1)
        known = 0.5 / min(self._usual_rate, 1 - self._usual_rate)  # prior draws at the usual rate
        overall = (past.sums.sum(axis=axes, keepdims=True) + known * self._usual_rate) / (
            past.counts.sum(axis=axes, keepdims=True) + known
        )
        if self.rho is not None:
            return self._noisy_rates(past, overall)
        prior = np.maximum(PRIOR, ONES / np.minimum(overall, 1 - overall))
        return np.asarray(
            np.clip((past.sums + prior * overall) / (past.counts + prior), SMALLEST_RATE, 1 - SMALLEST_RATE)
        )

    def _noisy_rates(self, past: Totals, overall: FloatArray) -> FloatArray:
        """`(..., arm, agent)`: rates estimated from private sums.

        Every cell is weighted like the number of exact draws with the same information. Estimates stay as far from 0
        and 1 as the privacy noise can resolve.
        """
        spread, cells = math.sqrt(self.noise_variance), past.counts.shape[-2] * past.counts.shape[-1]
        unseen = UNRESOLVED * spread * math.sqrt(cells) / np.maximum(past.counts.sum(axis=(-2, -1), keepdims=True), 1)
        edge = np.clip(unseen, SMALLEST_RATE, 0.5)
        overall = np.clip(overall, edge, 1 - edge)
        draws = past.counts / (1 + self.noise_variance / (overall * (1 - overall) * np.maximum(past.counts, 1)))
        found = (past.means * draws + PRIOR * overall) / (draws + PRIOR)
        edge = np.minimum(UNRESOLVED * spread / np.maximum(past.counts, 1), np.minimum(overall, 1 - overall))
        return np.asarray(np.clip(found, np.maximum(edge, SMALLEST_RATE), 1 - np.maximum(edge, SMALLEST_RATE)))

    def cell_variances(self, past: Totals) -> FloatArray:
        rates = self.rates(past)
        return rates * (1 - rates)

    def payoff(self, bets: Bets) -> FloatArray:
        """`(bet,)`: the log of the projected likelihood ratio, or of a sub-Gaussian payoff if it should grow faster."""
        rates, gaps = self.rates(bets.past), staked_gaps(bets)

        def of_all() -> FloatArray:
            extra = betting.contrast_variance(bets, self.noise_variance * bets.fresh.per_draw) if self.rho else None
            wide = self.variance * betting.contrast_variance(bets, 1.0) + (0.0 if extra is None else extra)
            logs, expected = log_rate_products(bets, rates, gaps, bets.variance, extra)
            return betting.faster_growing(logs, expected[:, 1], bets.contrast, gaps, wide)

        def of_part(part: Sides) -> FloatArray:
            return self._logs(part, part.of(rates), part.of(bets.fresh.sums), gaps[part.chosen], bets.shift)

        return betting.mixture_payoff(bets, of_all, of_part)

    def _logs(self, part: Sides, rates: FloatArray, ones: FloatArray, gaps: FloatArray, shift: float) -> FloatArray:
        """`(bet, mixture)`: log likelihood ratios, or sub-Gaussian log payoffs where these should grow faster."""
        shares, counts = part.shares, part.counts
        reference, multiplier = null_reference(shares, counts, rates, shift)
        variance = (counts * np.square(shares) * rates * (1 - rates)).sum(axis=(1, 2))
        middle = gaps[:, 1]
        ahead = (multiplier > 0) & (middle > 0)
        per_gap = np.divide(multiplier, middle, out=1 / variance, where=ahead)
        extra, noise = np.zeros(len(middle)), self.noise_variance
        if noise:  # stakes for the variance with noise
            extra = noise * np.square(shares).sum(axis=(1, 2))
            per_gap *= variance / (variance + extra)
        stakes = np.minimum(gaps * per_gap[:, None], stake_limit(shares, reference)[:, None])
        ones = ones * (counts > 0)
        ratios, expected = log_ratios(shares, counts, ones, counts * rates, reference, stakes, shift, noise)
        wide = self.variance * (counts * np.square(shares)).sum(axis=(1, 2)) + extra
        contrast = (shares * ones).sum(axis=(1, 2)) + shift
        return betting.faster_growing(ratios, expected[:, 1], contrast, gaps, wide)

    def _around(self, past: Totals, fresh: Totals) -> FloatArray:
        """`(..., arm, agent)`: the sum of (x - r)^2 around past rates r, computed with x^2 = x."""
        rates = self.rates(past)
        return np.asarray(fresh.sums * (1 - 2 * rates) + fresh.counts * np.square(rates))

    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        around = self._around(phase.past, phase.fresh)
        return intervals.betting_bound(phase, signal, information, around=around, width=1.0, noise=self.noise_variance)

    def summary(self, past: Totals, fresh: Totals, weights: FloatArray) -> ContrastSummary:
        known, rates, counts = super().summary(past, fresh, weights), self.rates(past), fresh.counts
        # The toll for privacy noise is bounded by a cell's share times the full width, whichever side the bet is on.
        below, above = (np.ones(rates.shape), np.ones(rates.shape)) if self.rho else (rates, 1 - rates)
        known = intervals.in_range(known, fresh, self._around(past, fresh), below, above, weights, self.variance)
        ones, zeros, shares = fresh.sums, counts - fresh.sums, fresh.per_draw
        third = ((ones * (1 - rates) ** 3 - zeros * rates**3) * shares**3) @ weights**3
        fourth = ((ones * (1 - rates) ** 4 + zeros * rates**4) * shares**4) @ weights**4
        return replace(known, third_up=third, third_down=-third, fourth_up=fourth, fourth_down=fourth)

    def interval(self, summary: ContrastSummary, line: float) -> Interval:
        return intervals.range_interval(summary, line, HORIZON)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray:  # noqa: ARG002
        return np.asarray(np.maximum(means * (1 - means), SMALLEST_RATE))

    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:  # noqa: ARG002
        return sampling.two_valued(means, 0.0, 1.0)

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        no_scale(self.kind, scale)
        return {"bernoulli": lambda: sampling.two_valued(means, 0.0, 1.0)}


def two_valued_flaw(count: int, total: float, square: float) -> Flaw | None:
    """Check a cell of 0/1 rewards: the sum must be a whole number and equal the sum of squares.

    Returns what is impossible ("sums" or "squares") and what is allowed, or None if the cell is possible.

    >>> two_valued_flaw(10, 3.0, 3.0), two_valued_flaw(10, 2.5, 2.5)
    (None, ('sums', 'a whole number from 0 to 10'))
    >>> two_valued_flaw(10, 3.0, 2.0)
    ('squares', '3, the sum: 0 and 1 are their own squares')
    """
    if not 0 <= total <= count or total != math.floor(total):
        return "sums", f"a whole number from 0 to {count}"
    if square != total:
        return "squares", f"{total:.9g}, the sum: 0 and 1 are their own squares"
    return None


def null_reference(
    shares: FloatArray, counts: FloatArray, rates: FloatArray, shift: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """The reference rates `(bet, side, agent)`, which are close to `rates` but have no gap, and the multiplier kappa.

    For rates q and shares a, the reference r solves (q - r) / (r (1 - r)) = kappa a with theta_r + shift = 0. If q has
    no gap, the reference is q itself. With a `shift` the bet is on "the gap is more than -shift".

    >>> shares = np.array([[[0.1], [-0.1]]])
    >>> rates, multiplier = null_reference(shares, np.full((1, 2, 1), 10.0), np.array([[[0.5], [0.3]]]))
    >>> rates.round(3).ravel().tolist(), multiplier.round(2).tolist()
    ([0.4, 0.4], [4.17])
    """
    weighed = counts * shares
    gap = (weighed * rates).sum(axis=(1, 2)) + shift
    variance = (weighed * shares * rates * (1 - rates)).sum(axis=(1, 2))
    # With a multiplier beyond the largest stake, the reference would move far past the null, and the bet would lose.
    most = np.where(gap > 0, stake_limit(shares, rates), 0.0)
    multiplier = np.clip(gap / variance, 0.0, most)
    for _ in range(NEWTON_STEPS):
        reference, root = _moved(shares, rates, multiplier)
        left = (weighed * reference).sum(axis=(1, 2)) + shift
        slope = (weighed * shares * reference * (1 - reference) / root).sum(axis=(1, 2))
        multiplier = np.clip(multiplier + left / np.maximum(slope, 1e-300), 0.0, most)
    reference, _ = _moved(shares, rates, multiplier)
    return np.clip(reference, SMALLEST_RATE, 1 - SMALLEST_RATE), multiplier


def _moved(shares: FloatArray, rates: FloatArray, multiplier: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The root r in [0, 1] of q - r = c r (1 - r), for rates q and c = kappa a, and the root of the discriminant."""
    step = multiplier[:, None, None] * shares
    root = np.sqrt(np.maximum(np.square(1 + step) - 4 * step * rates, 1e-12))
    return 2 * rates / np.maximum(1 + step + root, 1e-12), root


def stake_limit(shares: FloatArray, reference: FloatArray) -> FloatArray:
    """`(bet,)`: the largest stake with which every factor is at least 1 - LIMIT, whatever the rewards."""
    worst = np.where(shares > 0, shares * reference, -shares * (1 - reference)).max(axis=(1, 2))
    return np.asarray(LIMIT / np.maximum(worst, 1e-300))


def log_ratios(
    shares: FloatArray,
    counts: FloatArray,
    ones: FloatArray,
    expected: FloatArray,
    reference: FloatArray,
    stakes: FloatArray,
    shift: float = 0.0,
    noise: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Log payoffs log f `(bet, mixture)`, for the observed numbers of `ones` and for the `expected` numbers.

    Callers choose between payoffs by the log payoffs for the `expected` numbers. With a `shift`, f has the factor
    exp(lam shift), which is fair if theta is at most -shift. Private reports add noise xi of variance `noise` to the
    ones of a cell. log f is linear in the ones, with a coefficient c, and E exp(c xi) is at most exp(c^2 noise / 2), so
    c^2 noise / 2 is subtracted (docs/privacy.md).

    >>> shares, counts = np.array([[[0.5], [-0.5]]]), np.full((1, 2, 1), 2.0)
    >>> rates, stakes = np.full((1, 2, 1), 0.5), np.array([[1.0]])
    >>> chances = {0.0: 0.25, 1.0: 0.5, 2.0: 0.25}  # at a tie: f is fair, to the last outcome
    >>> pays = lambda j, k: log_ratios(shares, counts, np.array([[[j], [k]]]), counts, rates, stakes)[0]
    >>> float(sum(p * q * np.exp(pays(j, k))[0, 0] for j, p in chances.items() for k, q in chances.items()).round(12))
    1.0
    """
    scaled = stakes[:, None, None, :] * shares[..., None]
    up, down = np.log(1 + scaled * (1 - reference[..., None])), np.log(1 - scaled * reference[..., None])
    level = stakes * ((counts * shares * reference).sum(axis=(1, 2)) + shift)[:, None]
    base = level + np.einsum("bsn,bsni->bi", counts, down) - ROUNDING * counts.sum(axis=(1, 2))[:, None]
    up -= down
    if noise:
        base -= noise / 2 * np.einsum("bsni,bsni->bi", up, up) + ROUNDING * np.abs(ones).sum(axis=(1, 2))[:, None]
    return (
        np.asarray(base + np.einsum("bsn,bsni->bi", ones, up)),
        np.asarray(base + np.einsum("bsn,bsni->bi", expected, up)),
    )


def log_rate_products(
    bets: Bets, rates: FloatArray, gaps: FloatArray, variance: FloatArray, extra: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """`log_ratios` by matrix products, with the rates as references. Returns log f and its expectation before the data.

    With the estimates q as references, log f = lam Y + sum_p (-1)^(p + 1) lam^p / p sum_i a_i^p (x_i - q_i)^p, p >= 2.
    `extra` is the part of the variance due to the noise of private reports, for which `intervals.noise_toll` is
    subtracted. In this series, the coefficient of a sum has terms of at most y^p / p max(q, 1 - q)^(p - 1) with
    y = lam a; a factor 1 + (lam reach)^9 covers the truncated terms.
    """
    each, counts, ones = bets.fresh.per_draw, bets.fresh.counts, bets.fresh.sums
    reach = betting.farthest(bets, each * np.maximum(rates, 1 - rates), each * np.maximum(rates, 1 - rates))[:, None]
    stakes = np.minimum(gaps / variance[:, None], REACH / np.maximum(reach, 1e-300))
    paid, hoped = stakes * bets.contrast[:, None], stakes * bets.estimate[:, None]
    for p, weights in betting.powers(bets.weights):
        up, down = (each * (1 - rates)) ** p, (-each * rates) ** p
        scale = stakes**p / p
        for logs, yes in ((paid, ones), (hoped, counts * rates)):
            moment = (yes * up + (counts - yes) * down) @ weights
            opponent, arm = at_bets(bets, moment, moment)
            logs += scale * ((-1) ** (p + 1) * opponent - arm)[:, None]  # noqa: PLW2901
    size = (ones * up + (counts - ones) * np.abs(down)) @ weights
    tail = betting.series_tail(stakes, reach, sum(at_bets(bets, size, size)))
    if extra is not None:
        toll = intervals.noise_toll(stakes, extra[:, None], stakes * reach) * np.square(1 + (stakes * reach) ** TERMS)
        tail, hoped = tail + toll, hoped - toll
    return paid - tail - betting.ROUNDING * (1 + np.abs(stakes * bets.contrast[:, None])), hoped
