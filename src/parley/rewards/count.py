"""Counts of events that can recur, such as exacerbations or purchases. The variance is the mean (Poisson).

If a draw of a cell has the mean q, the total S of d draws is Poisson with mean d q. So E (1 + lam a)^S is exactly
exp(lam a d q) for a stake lam. With the shares a = +- w / d of a contrast theta and a null "theta is at most -shift",

    f = exp(lam shift) prod over the cells of (1 + lam a)^S,     E f = exp(lam (theta + shift)),

is fair for every lam that keeps the factors positive; no reference is needed. docs/rewards.md has the proofs. A draw is
one unit of exposure: counts of independent units add up, so two months of a person are two draws of one month each.

Arrays are `(bet, side, agent)`, the opponent first, with signed `shares`; a mixture of stakes is the last axis.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from parley.rewards import bets as betting
from parley.rewards import intervals, sampling
from parley.rewards.base import RewardModel
from parley.rewards.bets import REACH, Bets, Sides, at_bets, staked_gaps
from parley.rewards.divergences import POISSON, Divergence
from parley.rewards.intervals import Bound, ContrastSummary, Interval, PhaseContrasts
from parley.rewards.plausibility import LEVEL, SMALLER, Flaw
from parley.rewards.sampling import Sampler, TiltedLaw, least_squares
from parley.rewards.scales import Scale, no_scale
from parley.settings import NUMBER, Key
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import FloatArray, IntArray, positive

HORIZON = 32.0  # information of a usual study over that of its first phase, to choose stakes for narrow intervals
PRIOR = 2.0  # prior draws in an estimated mean, at the overall mean
RARE = 4.0  # the first phase is sized for a gap of at most RARE * mean
LIFTS = (0.4, 0.2, 0.1)  # lifts that a plan tries, relative to the mean
SMALLEST_MEAN = 1e-9
LARGEST_TOTAL = 2.0**53  # float64 cannot represent all larger integers
DISPERSION = 0.5  # for the sampler that breaks the assumption: variance = mean + DISPERSION * mean^2

NEWTON_STEPS = 4  # for the best stake, which need not be exact, since any stake is fair
LIMIT = 0.9  # largest stake, relative to the stake at which a factor would become 0
ROUNDING = 1e-14  # relative to the summed terms


@dataclass(frozen=True, kw_only=True)
class Count(RewardModel):
    """Counts of events; `mean` is roughly the expected count, or None if that is unknown.

    The mean sizes the first phase and is the base mean of the truths in a plan; the guarantee does not depend on it.

    >>> Count(mean=0.4).document(), Count().in_range
    ({'kind': 'count', 'mean': 0.4}, False)
    """

    kind: ClassVar[str] = "count"
    description: ClassVar[str] = "0, 1, 2, ...: how often something happened (Poisson)"
    label: ClassVar[str] = "a count of events"
    observed: ClassVar[str] = "how often an event happened (0, 1, 2, ...)"
    keys: ClassVar[Mapping[str, Key]] = {
        "mean": Key(
            kinds=NUMBER,
            meaning="about how many events a draw has; sizes the first phase, and is the base of the truths that "
            "`parley plan` tries",
            default="1.0",
        ),
    }
    bound_note: ClassVar[str] = (
        "exact for Poisson counts; relaxed, and beyond 300 arms x agents, for Gaussian rewards of the same variances"
    )
    low: ClassVar[float] = 0.0
    whole: ClassVar[bool] = True
    divergence: ClassVar[Divergence] = POISSON
    variance_is_mean: ClassVar[bool] = True
    optimism: ClassVar[float] = 1.25
    caution: ClassVar[float] = 0.35
    mean: float | None = None

    def __post_init__(self) -> None:
        if self.mean is not None:
            object.__setattr__(self, "mean", positive("noise.mean", self.mean))

    @property
    def free_scale(self) -> bool:
        return False

    # ---- expectations before a study

    @property
    def usual_mean(self) -> float:
        return 1.0 if self.mean is None else self.mean

    def expecting(self, mean: float) -> Self:
        return replace(self, mean=mean) if self.mean is None else self

    @property
    def first_variance(self) -> float:
        return self.usual_mean

    @property
    def usual_gap(self) -> float:
        return self.usual_mean

    def first_sizes(self, largest_gap: float, gap: float) -> tuple[float, float]:
        """The variance at the mean, and the gap, limited so that the first phase is large enough for rare events.

        The gap is at most two standard deviations of a reward and, if a mean is stated, at most RARE times the mean. If
        no mean is stated, the largest gap (at most 1) replaces the mean.
        """
        mean = min(largest_gap, 1.0) if self.mean is None else self.mean
        return mean, min(gap, 2 * math.sqrt(mean), gap if self.mean is None else RARE * mean)

    def usual_gaps(self, largest_gap: float) -> list[float]:
        """Gaps of 40 %, 20 % and 10 % of the mean, at most `largest_gap`."""
        return [min(lift * self.usual_mean, largest_gap) for lift in LIFTS]

    def usual_spread(self, largest_gap: float) -> float:
        """The expected mean, so that means lie between 0.5 and 1.5 times this value; at most `largest_gap`."""
        return min(largest_gap, self.usual_mean)

    def scenario(self, gap: float) -> tuple[str, float]:
        """A truth described by its base mean, its best mean and the lift between them."""
        level = self.usual_mean
        means = level, level + gap, 100 * gap / level
        return Translatable("{0:.4g} against {1:.4g} events, a lift of {2:.3g} %", *means), level

    def other_guesses(self) -> list[tuple[str, str, Self]]:
        if self.mean is None:
            return []
        factors = (0.5, 1.5)
        return [
            (
                Translatable("guess of the mean"),
                Translatable("{0:g} times", factor),
                replace(self, mean=factor * self.mean),
            )
            for factor in factors
        ]

    # ---- checks of reports

    def flaw(self, count: int, total: float, square: float) -> Flaw | None:
        return count_flaw(count, total, square)

    def variance_ceiling(self, past: Totals, phases: int) -> FloatArray:
        """`(arm, agent)`: upper bounds on variances, the same for all arms of an agent; inf without draws.

        The largest bound of an agent's arms serves all of them, since their means move together. It is raised until the
        tails of a normal distribution with this variance cover the Poisson tails.
        """
        share = LEVEL / 4 / past.counts.size
        most, line = largest_mean(past.sums, past.counts, share), 2 * math.log(math.pi * (phases + 1)) - math.log(share)
        known = np.isfinite(most)
        largest = np.where(known, most, 0.0).max(axis=-2, keepdims=True)
        # Bernstein: a count exceeds its mean by more than sqrt(2 q L) + L / 3 with probability at most exp(-L).
        spread = np.square(np.sqrt(largest) + math.sqrt(line / 18))
        return np.broadcast_to(np.where(known.any(axis=-2, keepdims=True), spread, np.inf), past.counts.shape)

    # ---- evidence

    def rates(self, past: Totals) -> FloatArray:
        """`(..., arm, agent)`: estimated means that are never 0."""
        axes = (-2, -1)
        overall = (past.sums.sum(axis=axes, keepdims=True) + self.usual_mean) / (
            past.counts.sum(axis=axes, keepdims=True) + 1.0
        )
        return np.asarray(np.maximum((past.sums + PRIOR * overall) / (past.counts + PRIOR), SMALLEST_MEAN))

    def cell_variances(self, past: Totals) -> FloatArray:
        return self.rates(past)

    def payoff(self, bets: Bets) -> FloatArray:
        rates, gaps = self.rates(bets.past), staked_gaps(bets)

        def of_part(part: Sides) -> FloatArray:
            stakes = growing_stakes(part.shares, part.counts, part.of(rates), gaps[part.chosen], bets.shift)
            return log_powers(part.shares, part.of(bets.fresh.sums) * (part.counts > 0), stakes, bets.shift)

        return betting.mixture_payoff(bets, lambda: log_power_products(bets, gaps), of_part)

    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        """The bound for rewards in a range, with sums of events instead of sums of squares.

        The bound holds because log(1 + y) >= y - y^2 / (2 (1 - b)) for y >= -b.
        """
        return intervals.betting_bound(phase, signal, information, around=phase.fresh.sums, width=1.0)

    # ---- estimates

    def summary(self, past: Totals, fresh: Totals, weights: FloatArray) -> ContrastSummary:
        """The summary in which every event counts as a reward of 1 with reference 0.

        The p-th powers are then sums of events times the p-th powers of shares.
        """
        known, each, events = super().summary(past, fresh, weights), fresh.per_draw, fresh.sums
        third, fourth = (events * each**3) @ weights**3, (events * each**4) @ weights**4
        farthest = np.zeros(each.shape)
        for agent, row in enumerate(weights):
            np.maximum(farthest, each[..., agent, None] * row, out=farthest)
        return replace(
            known,
            second=(events * np.square(each)) @ np.square(weights),
            third_up=third,
            third_down=-third,
            fourth_up=fourth,
            fourth_down=fourth,
            reach_down=farthest,
            estimated=np.full(third.shape, np.inf),  # counts are unbounded: there is no bound by a range alone
        )

    def interval(self, summary: ContrastSummary, line: float) -> Interval:
        return intervals.range_interval(summary, line, HORIZON)

    # ---- truths and simulated rewards

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray:  # noqa: ARG002
        return np.asarray(np.maximum(means, SMALLEST_MEAN))

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        """Samplers of Poisson counts, and of overdispersed counts, which violate the model's assumption."""
        no_scale(self.kind, scale)
        return {
            "poisson": lambda: sampling.poisson(means),
            "negative-binomial": lambda: sampling.negative_binomial(means, DISPERSION),
        }

    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:  # noqa: ARG002
        return sampling.poisson(means)

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:  # noqa: ARG002
        return sampling.tilted_poisson(means)


def count_flaw(count: int, total: float, square: float) -> Flaw | None:
    """Check a cell of counts, which are whole numbers of at least 0.

    Returns what is impossible ("sums" or "squares") and what is allowed, or None if the cell is possible. The sum of
    squares is smallest if counts differ by at most 1 and largest if one draw has all events. It is odd if and only if
    the sum is odd.

    >>> count_flaw(4, 6.0, 12.0), count_flaw(4, 2.5, 6.25), count_flaw(4, -1.0, 1.0)
    (None, ('sums', 'a whole number of at least 0'), ('sums', 'a whole number of at least 0'))
    >>> count_flaw(4, 6.0, 8.0)
    ('squares', 'from 10 to 36 and even, with the sum 6 of 4 counts')
    """
    if count == 0 and total != 0:
        return "sums", "0 where nothing was drawn"
    if not 0 <= total <= LARGEST_TOTAL or total != math.floor(total):
        return "sums", "a whole number of at least 0"
    least = float(least_squares(np.array(max(count, 1)), np.array(total)))
    most = total * total
    exact = most <= LARGEST_TOTAL
    slack = 0.0 if exact else 1e-9 * most
    if not least - slack <= square <= most + slack or (exact and (square - total) % 2 != 0):
        odd = f" and {'odd' if total % 2 else 'even'}" if exact else ""
        return "squares", f"from {least:.9g} to {most:.9g}{odd}, with the sum {total:.9g} of {count} counts"
    return None


def largest_mean(sums: FloatArray, counts: FloatArray | IntArray, level: float) -> FloatArray:
    """Upper bound on a Poisson mean from the total `sums` of `counts` draws; inf without draws.

    The bound holds at all times at once, with probability 1 - `level`. Let S be the total of d draws with mean q. For
    f < 1, the log likelihood ratio of a mean f times as large, `S log f + (1 - f) q d`, is the logarithm of a
    martingale. So q d never exceeds `(line + S log(1 / f)) / (1 - f)`, where `line` is log(1 / level), plus the log of
    the number of factors f that are tried.

    >>> largest_mean(np.array([0.0, 1000.0]), np.array([100.0, 100.0]), 1e-6).round(2).tolist()
    [0.16, 12.1]
    """
    line = math.log(len(SMALLER) / level)
    most = ((line + sums[..., None] * np.log(1 / SMALLER)) / (1 - SMALLER)).min(axis=-1)
    return np.asarray(np.divide(most, counts, out=np.full(most.shape, np.inf), where=counts > 0))


def growing_stakes(
    shares: FloatArray, counts: FloatArray, rates: FloatArray, gaps: FloatArray, shift: float
) -> FloatArray:
    """Stakes `(bet, mixture)`; the stake for the middle gap has the largest expected log payoff at these rates.

    Stakes for the other gaps are in proportion. If the rates have no gap, stakes are gap / variance. The expected log
    payoff lam shift + sum d q log(1 + lam a) is concave, so Newton's method finds the root of its slope.
    """
    expected = counts * rates
    pull = np.where(shares < 0, -shares, 0.0).max(axis=(1, 2))
    most = LIMIT / np.maximum(pull, 1e-300)
    variance = np.maximum((expected * np.square(shares)).sum(axis=(1, 2)), 1e-300)
    seen = (expected * shares).sum(axis=(1, 2)) + shift
    stake = np.clip(seen / variance, 0.0, most)
    for _ in range(NEWTON_STEPS):
        factors = 1 + stake[:, None, None] * shares
        slope = (expected * shares / factors).sum(axis=(1, 2)) + shift
        steep = (expected * np.square(shares / factors)).sum(axis=(1, 2))
        stake = np.clip(stake + slope / np.maximum(steep, 1e-300), 0.0, most)
    middle = gaps[:, 1]
    ahead = (stake > 0) & (middle > 0)
    per_gap = np.divide(stake, middle, out=1 / variance, where=ahead)
    return np.asarray(np.minimum(gaps * per_gap[:, None], most[:, None]))


def log_powers(shares: FloatArray, events: FloatArray, stakes: FloatArray, shift: float = 0.0) -> FloatArray:
    """Log payoffs log f `(bet, mixture)` for the observed `events`, rounded down.

    >>> from scipy.stats import poisson
    >>> shares, stakes, many = np.array([[[0.5], [-0.5]]]), np.array([[1.0]]), np.arange(60)
    >>> pays = lambda j, k: np.exp(log_powers(shares, np.array([[[j], [k]]]), stakes))[0, 0]
    >>> law = poisson.pmf(many, 2 * 0.7)  # two draws of either arm, a tie at 0.7: f is fair
    >>> float(round(sum(p * q * pays(j, k) for j, p in zip(many, law) for k, q in zip(many, law)), 9))
    1.0
    """
    logs = np.log1p(stakes[:, None, None, :] * shares[..., None])
    won, size = np.einsum("bsn,bsni->bi", events, logs), np.einsum("bsn,bsni->bi", events, np.abs(logs))
    level = stakes * shift
    return np.asarray(level + won - ROUNDING * (np.abs(level) + size))


def log_power_products(bets: Bets, gaps: FloatArray) -> FloatArray:
    """`log_powers` with stakes gap / variance, computed by matrix products, for many agents.

    The products are terms of the power series of log(1 + y); a bound on the truncated terms is subtracted.
    """
    each, events = bets.fresh.per_draw, bets.fresh.sums
    reach = betting.farthest(bets, each, each)[:, None]
    stakes = np.minimum(gaps / bets.variance[:, None], REACH / np.maximum(reach, 1e-300))
    paid = stakes * bets.contrast[:, None]
    size = np.zeros(len(bets.arm))
    for p, weights in betting.powers(bets.weights):
        moment = (events * each**p) @ weights
        opponent, arm = at_bets(bets, moment, moment)
        paid += stakes**p / p * ((-1) ** (p + 1) * opponent - arm)[:, None]
        size = opponent + arm
    rounding = betting.ROUNDING * (1 + np.abs(stakes * bets.contrast[:, None]))
    return paid - betting.series_tail(stakes, reach, size) - rounding
