"""Plausibility checks of reports: totals that are possible, means that the model allows, scatter that fits the scale.

**Totals.** For n rewards with sum S, the sum of squares is smallest if all rewards are equal (S^2 / n) and, within
[low, high], largest if all but one reward lie at an end (it is convex, so its maximum is at a corner). Every value in
between is possible. The checks allow for rounding errors in the reported totals, and refuse rewards so large that
sums would overflow.

**Means, scatter, skew.** docs/rewards.md has the rules and why they hold: "Reports that cannot be" and "What is assumed
is watched".
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from parley.totals import Totals
from parley.validation.checks import BoolArray, FloatArray

Flaw = tuple[str, str]  # which of "sums" and "squares" is impossible, and what is allowed instead

LARGEST_REWARD = 1e70  # scales go up to 1e60; fourth powers and their sums over a study stay finite
ROUNDING = 1e-9  # allowed rounding error, relative to the sum of absolute values
EPSILON = 2.3e-16  # rounding error of one addition; for ranges far from 0, ROUNDING would exceed the whole range
OWN = 1e-15  # rounding error of the few operations in these checks
NOISE = 10.0  # noise of a private sum beyond this many standard deviations counts as impossible
UNDERFLOW = 1e-300  # a square smaller than this may have been rounded to 0

LEVEL = 1e-6  # probability that a check holds back any report of a whole study although the model is right
FAR = 100.0  # largest difference between arms of one agent, in scales or largest gaps
GUESSED = 1e6  # replaces FAR while no scale is known, in guessed scales or largest gaps
DRIFT = 0.25  # in scales: how far a single arm may move from phase to phase
LEAST_COMPARED = 20  # smallest number of draws of a cell, both in a phase and before it, to check for skew
LARGEST_MOVE = 3.0  # a mean that moves by more standard errors has drifted, and drift says nothing about skew
SKEWS = np.array([-0.8, -0.4, -0.2, 0.2, 0.4, 0.8])  # stakes on `skew_product`
SKEW_LEVEL = 0.001  # probability of a false warning about skew, over all arms
SKEW_OF_MEANS = 0.1  # with less skewness of a phase's mean, Student's t is accurate to a third of delta

# Factors by which a variance or mean may be smaller than a bound; the evidence for each factor is a martingale.
SMALLER = np.array([0.9, 0.75, 0.5, 0.25, 0.1, 0.01])
FACTORS = np.array([1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e4, 1e8])  # of the variance, with equal weights


def flaw(count: int, total: float, square: float, low: float | None, high: float | None) -> Flaw | None:
    """Check the totals of `count` rewards.

    Returns what is impossible ("sums" or "squares") and what is allowed, or None if the totals are possible.

    >>> flaw(10, 1.0, 1.0, 0.0, 1.0)
    >>> flaw(10, 1.0, 10.0, 0.0, 1.0)
    ('squares', 'at most 1, with the sum 1 of 10 rewards between 0 and 1')
    >>> flaw(1, 2.0, 1e6, None, None)
    ('squares', 'at most 4, with the sum 2 of 1')
    """
    if count == 0:
        return _nothing_drawn(total, square)
    if square > count * LARGEST_REWARD**2:
        return "squares", f"those of {count} rewards, none beyond {LARGEST_REWARD:g}"
    rounding = ROUNDING if low is None or high is None else min(ROUNDING, (count + 64) * EPSILON)
    if square < 0 or abs(total) > math.sqrt(count) * _root(square, count) * (1 + rounding):
        return "squares", f"at least sum^2 / count, with the sum {total:.9g} of {count}"
    if low is None or high is None:
        if count == 1 and _root(square, 0) > abs(total) * (1 + ROUNDING) + math.sqrt(UNDERFLOW):
            return "squares", f"at most {total * total:.9g}, with the sum {total:.9g} of 1"
        return None
    rewards = f"{count} rewards between {low:g} and {high:g}"
    largest = max(abs(low), abs(high))
    added = min(count * largest, math.sqrt(count) * _root(square, 0))  # upper bound on the sum of absolute rewards
    slack = rounding * added + OWN * count * largest
    if not count * low - slack <= total <= count * high + slack:
        return "sums", rewards
    most = _most_square(count, total, low, high)
    if square > most + 2 * largest * slack + rounding * square:
        return "squares", f"at most {most:.9g}, with the sum {total:.9g} of {rewards}"
    return None


def noisy_flaw(count: int, total: float, low: float, high: float, grid: float, variance: float) -> Flaw | None:
    """Check a private sum: it must be a multiple of `grid`, and outside the range only as far as noise can explain.

    Returns "sums" and what is allowed, or None if the sum is possible. Noise of this variance exceeds t with
    probability at most 2 exp(-t^2 / (2 variance)), so it exceeds NOISE standard deviations in one of 2e21 cells. In a
    study of a billion cells, an honest report is refused with probability below 1e-12.

    >>> noisy_flaw(10, -4.0, 0.0, 1.0, 1.0, 10.0), noisy_flaw(10, 2.5, 0.0, 1.0, 1.0, 10.0)
    (None, ('sums', 'a multiple of 1, the grid of this private study'))
    >>> noisy_flaw(10, -34.0, 0.0, 1.0, 1.0, 10.0)
    ('sums', 'from -32.62 to 42.62: 10 rewards between 0 and 1, with noise')
    """
    if count == 0:
        return _nothing_drawn(total, 0.0)
    if abs(total) > count * LARGEST_REWARD or not (total / grid).is_integer():
        return "sums", f"a multiple of {grid:.9g}, the grid of this private study"
    reach = NOISE * math.sqrt(variance) + grid  # plus rounding to the grid
    if not count * low - reach <= total <= count * high + reach:
        rewards = f"{count} rewards between {low:g} and {high:g}"
        return "sums", f"from {count * low - reach:.4g} to {count * high + reach:.4g}: {rewards}, with noise"
    return None


def _nothing_drawn(total: float, square: float) -> Flaw | None:
    wrong = "sums" if total != 0 else "squares" if square != 0 else None
    return (wrong, "0 where nothing was drawn") if wrong else None


def _root(square: float, count: int) -> float:
    """Square root of a sum of squares, raised by as much as `count` terms may have lost to underflow."""
    return math.hypot(math.sqrt(square), math.sqrt(count * UNDERFLOW))


def _most_square(count: int, total: float, low: float, high: float) -> float:
    """The largest possible sum of squares: as many rewards as fit are `high`, one is in between, the others are `low`.

    >>> _most_square(4, 2.5, 0.0, 1.0), _most_square(2, 0.0, -1.0, 1.0)
    (2.25, 2.0)
    """
    width = high - low
    above = min(max(total - count * low, 0.0), count * width)  # the sum in excess of `count` times `low`
    whole = min(math.floor(above / width), count)
    rest = min(max(above - whole * width, 0.0), width)
    return count * low * low + 2 * low * above + whole * width * width + rest * rest


@dataclass(frozen=True, kw_only=True)
class ImplausibleMean:
    """An implausible mean in a report: the mean of `arm`, and the mean from which it is too far."""

    arm: int
    mean: float
    against: float  # the mean with which it was compared
    other: int | None  # arm of `against` in the same report; None if `against` is the arm's own mean one phase before
    allowed: float  # the largest allowed distance

    def sentence(self, arms: tuple[str, ...]) -> str:
        """Describe the implausible mean in one sentence.

        >>> ImplausibleMean(arm=0, mean=1e11, against=0.5, other=1, allowed=100.0).sentence(("A", "B"))
        'the mean 1e+11 of A differs from the mean of B, 0.5, by more than 100, the most that the stated model allows'
        """
        whose = "that it had before" if self.other is None else f"of {arms[self.other]}"
        moved = ", with what the others moved" if self.other is None else ""
        return (
            f"the mean {self.mean:.6g} of {arms[self.arm]} differs from the mean {whose}, {self.against:.6g}{moved}, "
            f"by more than {self.allowed:.3g}, the most that the stated model allows"
        )


def largest_variance(scatter: FloatArray, degrees: FloatArray, level: float) -> FloatArray:
    """Upper bound on a variance from its scatter, which is chi-squared with `degrees`; inf if degrees are too few.

    The bound holds for all phases at once, with probability 1 - `level`. Let nu be the degrees of freedom, and q the
    scatter divided by the true variance. For f < 1, the log likelihood ratio of a variance f times as large,
    `nu/2 log(1/f) - (1/f - 1) q/2`, is the logarithm of a martingale. So q is never below
    `(nu log(1/f) - 2 line) / (1/f - 1)`, where `line` is log(1 / level), plus the log of the number of factors f tried.

    >>> [round(float(v), 2) for v in largest_variance(np.array([5.0, 1000.0]), np.array([5.0, 1000.0]), 1e-6)]
    [inf, 1.3]
    """
    line = math.log(len(SMALLER) / level)
    least = (degrees[..., None] * np.log(1 / SMALLER) - 2 * line) / (1 / SMALLER - 1)
    best = least.max(axis=-1)
    return np.where(best > 0, scatter / np.where(best > 0, best, 1.0), np.inf)


@dataclass(frozen=True, kw_only=True, eq=False)
class Past:
    """Statistics of the decided phases for every cell; computed once per phase and used for every report."""

    latest: Totals  # (arm, agent): totals of the last decided phase
    ceiling: FloatArray  # (arm, agent): upper bounds on variances, inf if unknown
    phases: int  # number of decided phases

    def cells(self, agent: int) -> Iterator[tuple[int, float, float]]:
        """Yield for each arm the agent's draws and mean in the last phase, and an upper bound on the scale."""
        counts, sums = self.latest.counts[:, agent].tolist(), self.latest.sums[:, agent].tolist()
        for count, total, most in zip(counts, sums, self.ceiling[:, agent].tolist(), strict=True):
            yield count, total / max(count, 1), math.sqrt(most)


class _Arm(NamedTuple):
    """An arm of a report: its means in this and the previous phase, and how far the true means may be from them."""

    place: int  # index of the arm
    mean: float
    scale: float  # upper bound; inf if unknown
    radius: float  # how far the true mean may be from `mean`
    drawn: int  # draws in the previous phase
    was: float  # the mean in the previous phase
    earlier: float  # how far the true mean may have been from `was`


def implausible_mean(
    counts: Sequence[int], sums: Sequence[float], past: Past, agent: int, *, guess: float, largest_gap: float
) -> ImplausibleMean | None:
    """Find an implausible mean in an agent's report, given the `past`; None if all means are plausible.

    `guess` is the scale to assume where the past gives no bound. The code uses plain floats instead of arrays, since a
    report has few arms and this is a hot path.
    """
    wide, before = _radius(past, past.phases + 1), _radius(past, past.phases)
    arms = [
        _Arm(
            place,
            total / count,
            scale,
            scale * wide / math.sqrt(count),
            drawn,
            was,
            scale * before / math.sqrt(max(drawn, 1)),
        )
        for place, (count, total, (drawn, was, scale)) in enumerate(zip(counts, sums, past.cells(agent), strict=True))
        if count
    ]
    known = [arm for arm in arms if arm.scale < math.inf]
    largest = max((arm.scale for arm in known), default=0.0)
    reach = FAR * max(largest, largest_gap)
    return (
        _moved(known, reach)  # checked first: a comparison with the arm's own past tells people more
        or _apart(known, reach)
        or _apart(
            [arm._replace(radius=0.0) for arm in arms if arm.scale == math.inf], GUESSED * max(guess, largest_gap)
        )
    )


def _apart(arms: list[_Arm], reach: float) -> ImplausibleMean | None:
    """Find two arms of one report whose means are too far apart; None if no two are.

    Of the two, the arm to blame is the one farther from the median or, if there are only two arms, farther from 0.
    """
    if len(arms) < 2:
        return None
    high, low = max(arms, key=lambda arm: arm.mean - arm.radius), min(arms, key=lambda arm: arm.mean + arm.radius)
    allowed = reach + high.radius + low.radius + ROUNDING * (abs(high.mean) + abs(low.mean))
    if high.mean - low.mean <= allowed:
        return None
    means = sorted(arm.mean for arm in arms)
    middle = means[len(means) // 2] / 2 + means[(len(means) - 1) // 2] / 2 if len(means) > 2 else 0.0
    off, other = sorted((high, low), key=lambda arm: (abs(arm.mean - middle), abs(arm.mean)), reverse=True)
    return ImplausibleMean(arm=off.place, mean=off.mean, against=other.mean, other=other.place, allowed=allowed)


def _radius(past: Past, phase: int) -> float:
    """How far a single draw may be from the true mean in a phase, in scales.

    Phases share the level in proportion to 1 / phase^2, so that the level suffices for any number of phases.
    """
    share = LEVEL / 2 / past.ceiling.size * 6 / (math.pi * max(phase, 1)) ** 2
    return math.sqrt(2 * math.log(2 / share))


def _moved(arms: list[_Arm], reach: float) -> ImplausibleMean | None:
    """Find an arm whose mean moved more than a common shift of the agent's arms can explain; None if no arm did."""
    both = [arm for arm in arms if arm.drawn]
    if not both:
        return None
    moves = [arm.mean - arm.was for arm in both]
    allowed = [arm.radius + arm.earlier + DRIFT * arm.scale + ROUNDING * (abs(arm.mean) + abs(arm.was)) for arm in both]
    # The common shifts that explain the moves of all arms are those from `low` to `high`; none if `low` exceeds `high`.
    low = max(-reach, *(move - slack for move, slack in zip(moves, allowed, strict=True)))
    high = min(reach, *(move + slack for move, slack in zip(moves, allowed, strict=True)))
    if low <= high:
        return None
    common = min(max(sorted(moves)[len(moves) // 2], -reach), reach) if len(moves) > 2 else 0.0
    off = max(range(len(both)), key=lambda place: abs(moves[place] - common) - allowed[place])
    arm = both[off]
    return ImplausibleMean(arm=arm.place, mean=arm.mean, against=arm.was + common, other=None, allowed=allowed[off])


def log_evidence_of_scale(scatter: FloatArray, degrees: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log e-values of "the stated scale is too small" and "the stated scale is too large".

    `scatter` is in units of the stated variance.

    >>> few, many = (log_evidence_of_scale(np.array(4.0 * nu), np.array(nu))[0] for nu in (3.0, 300.0))
    >>> bool(few < np.log(100)), bool(many > np.log(100))
    (True, True)
    """

    def mixed(factors: FloatArray) -> FloatArray:
        logs = (1 - 1 / factors) * scatter[..., None] / 2 - degrees[..., None] / 2 * np.log(factors)
        return np.asarray(np.logaddexp.reduce(logs, axis=-1) - np.log(len(factors)))

    return mixed(FACTORS), mixed(1 / FACTORS)


def log_evidence_of_ratio(scatter: FloatArray, degrees: FloatArray, rest: FloatArray, others: FloatArray) -> FloatArray:
    """Log e-value of "these rewards vary differently from the others", if the study assumes one unknown scale for all.

    `rest` is the scatter of the other rewards, and `others` its degrees of freedom. The e-value is the likelihood ratio
    of the rewards' share of all scatter, which has a Beta distribution whatever the scale is. It is exact for counts
    fixed in advance, and nearly exact if counts depend on the data. No decision depends on it.

    >>> log_evidence_of_ratio(np.array([20.0, 80.0]), np.full(2, 20.0), np.full(2, 100.0), np.full(2, 100.0)).round(1)
    array([-1.6,  7.9])
    """
    factors = np.concatenate([FACTORS, 1 / FACTORS])
    whole = np.maximum(scatter + rest, 1e-300)
    share = (scatter / whole)[..., None] / factors + (rest / whole)[..., None]
    logs = -(degrees[..., None] * np.log(factors) + (degrees + others)[..., None] * np.log(share)) / 2
    return np.asarray(np.logaddexp.reduce(logs, axis=-1) - np.log(len(factors)))


def shared_draws(fresh: Totals) -> tuple[FloatArray, FloatArray]:
    """Pairs of events that share a draw, in excess of what Poisson counts would have, and the spread of that excess.

    Both are `(..., arm, agent)`. Given their total S, Poisson events fall on the d draws uniformly. So, on average,
    S (S - 1) / (2 d) pairs share a draw. The variance is smaller than this mean, since pairs share draws pairwise
    independently, and the third cumulant is about 1 + 2 S / d times the variance. These are the moments of 1 + 2 S / d
    times a Poisson variable; the spread is the mean of that variable, and the excess is in units of 1 + 2 S / d.
    """
    draws, events = np.maximum(fresh.counts, 1), np.abs(fresh.sums)
    pairs, expected = (fresh.require_squares() - fresh.sums) / 2, events * np.maximum(events - 1, 0.0) / (2 * draws)
    step = 1 + 2 * events / draws
    return np.asarray((pairs - expected) / step), np.asarray(expected / np.square(step))


def log_evidence_of_overdispersion(excess: FloatArray, spread: FloatArray) -> FloatArray:
    """Log e-value of "these counts are overdispersed", from sums of `shared_draws`; not part of the guarantee.

    >>> log_evidence_of_overdispersion(np.array([0.0, 30.0]), np.array([50.0, 50.0])).round(1)
    array([-2.5,  5.5])
    """
    logs = excess[..., None] * np.log(FACTORS) - spread[..., None] * (FACTORS - 1 - np.log(FACTORS))
    return np.asarray(np.logaddexp.reduce(logs, axis=-1) - np.log(len(FACTORS)))


def skew_product(
    fresh: Totals, draws: FloatArray, sums: FloatArray, degrees: FloatArray, scatter: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The skew statistic of every cell, its weight, and 1 where a cell has enough draws (else 0); `(..., arm, agent)`.

    The change of a cell's mean since the earlier phases and the change of its variance are converted to normal scores.
    The statistic is the product of the two scores, and its weight is the square of the first.

    For Gaussian rewards the statistic has mean 0, however means move. If all arms of an agent move together by more
    than `LARGEST_MOVE` standard errors, that common move is drift and is subtracted; an arm's own move is clipped at
    the same limit.
    """
    known = (fresh.counts >= LEAST_COMPARED) & (degrees >= LEAST_COMPARED) & (scatter > fresh.rounding)
    count, before, nu = (np.where(known, part, LEAST_COMPARED) for part in (fresh.counts, draws, degrees))
    variance = np.where(known, scatter, 1.0) / nu
    moved, error = fresh.means - sums / before, np.sqrt(variance * (1 / count + 1 / before))
    weight = known / np.square(error)
    information = np.maximum(weight.sum(axis=-2, keepdims=True), 1e-300)
    together = (weight * moved).sum(axis=-2, keepdims=True) / information
    drift = np.where(np.abs(together) * np.sqrt(information) > LARGEST_MOVE, together, 0.0)
    score = np.where(known, np.clip((moved - drift) / error, -LARGEST_MOVE, LARGEST_MOVE), 0.0)
    root, own, other = np.cbrt(fresh.scatter / (count - 1) / variance), 2 / (9 * (count - 1)), 2 / (9 * nu)
    grown = ((1 - other) * root - (1 - own)) / np.sqrt(own + root**2 * other)  # F ratio's score (Wilson and Hilferty)
    return score * grown, np.square(score), known.astype(np.float64)


def skewed(
    leans: FloatArray, squares: FloatArray, turns: FloatArray, draws: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """The skewness of rewards, and whether to warn about it, from sums of `skew_product` over `turns` comparisons.

    A warning requires skewness that chance does not explain and that is large enough to skew the mean of a phase with
    `draws` draws. Warnings are not part of the guarantee.
    """
    logs = SKEWS * leans[..., None] - np.square(SKEWS) / 2 * squares[..., None]
    evidence = np.logaddexp.reduce(logs, axis=-1) - np.log(len(SKEWS))
    each = np.sqrt(2) * leans / np.maximum(squares, 1.0)
    of_means = np.abs(each) * np.sqrt(turns / np.maximum(draws, 1.0))
    return each, (evidence >= -np.log(SKEW_LEVEL)) & (of_means >= SKEW_OF_MEANS)
