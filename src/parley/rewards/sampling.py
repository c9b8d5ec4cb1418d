"""Simulated rewards: a sampler draws the totals of n rewards at once, rather than reward by reward.

Totals have their exact distribution, except that totals of large counts of events and of many uniform rewards are close
approximations.

A sampler is a pure function of a random generator and the counts to draw, `(..., arm, agent)`. Sums of squares have
their own generator, so that replication i gets the same numbers however many replications follow it. The ends
of a range are numbers, or arrays that broadcast with the means: `uniform(means, means - 1, means + 1)`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import gammaln, xlogy

from parley.totals import Totals
from parley.validation.checks import FloatArray, IntArray

# Takes a generator and the counts to draw, (..., arm, agent); returns the totals of the fresh draws.
Sampler: TypeAlias = Callable[[np.random.Generator, IntArray], Totals]

ONE_BY_ONE = 512  # up to this many uniform rewards are drawn one by one; more are drawn by bins
BINS = 64  # the leading six bits of a uniform number
SLICE = 2**14  # cells processed together, to limit memory
REACH = 9.0  # counts of events above mean + REACH * (standard deviation + REACH) are never drawn
MOST_COUNTS = 2_000  # largest count of events to enumerate; beyond it, sums are drawn from a rounded normal
LEAST_MEAN = 1e-300  # keeps logarithms finite


def gaussian(means: FloatArray, scale: FloatArray | float) -> Sampler:
    """Sampler of Gaussian rewards; the scatter of n draws is chi-squared with n - 1 degrees of freedom."""

    def draw(generator: np.random.Generator, counts: IntArray) -> Totals:
        # Gamma variates use a varying number of random bits, so scatters must not share the generator of the sums.
        (other,) = generator.spawn(1)
        noise = generator.standard_normal(counts.shape)
        sums = np.asarray(counts * means + scale * np.sqrt(counts) * noise)
        scatter = np.square(scale) * 2.0 * other.standard_gamma(np.maximum(counts - 1, 0) / 2)
        return Totals(counts=counts, sums=sums, squares=np.square(sums) / np.maximum(counts, 1) + scatter)

    return draw


def two_valued(means: FloatArray, low: FloatArray | float, high: FloatArray | float) -> Sampler:
    """Sampler of rewards that are `low` or `high`: a single binomial gives the total of n draws."""
    chances = np.clip((means - low) / (high - low), 0, 1)

    def draw(generator: np.random.Generator, counts: IntArray) -> Totals:
        hits = generator.binomial(counts, chances)
        squares = hits * high**2 + (counts - hits) * low**2
        return Totals(counts=counts, sums=np.asarray(counts * low + hits * (high - low)), squares=np.asarray(squares))

    return draw


def poisson(means: FloatArray) -> Sampler:
    """Sampler of Poisson counts: one multinomial per cell gives the number of draws with each count of events."""
    return _whole_numbers(
        means, means, lambda counts, mean: xlogy(counts, np.maximum(mean, LEAST_MEAN)) - mean - gammaln(counts + 1)
    )


def negative_binomial(means: FloatArray, dispersion: float) -> Sampler:
    """Sampler of overdispersed counts, as if people had different rates; the variance is mean + dispersion * mean^2."""
    size = 1 / dispersion

    def log_chances(counts: FloatArray, mean: FloatArray) -> FloatArray:
        mean = np.maximum(mean, LEAST_MEAN)
        ways = gammaln(counts + size) - gammaln(size) - gammaln(counts + 1)
        return np.asarray(ways + size * np.log(size / (size + mean)) + counts * np.log(mean / (size + mean)))

    return _whole_numbers(means, means + dispersion * np.square(means), log_chances)


def _whole_numbers(
    means: FloatArray, variances: FloatArray, log_chances: Callable[[FloatArray, FloatArray], FloatArray]
) -> Sampler:
    """A sampler of whole numbers of at least 0; `log_chances(counts, mean)` are the logs of their probabilities.

    If there are too many possible counts to enumerate, sums are normal, rounded to whole numbers, and scatters are
    chi-squared.
    """
    spread = np.sqrt(variances)

    def draw(generator: np.random.Generator, counts: IntArray) -> Totals:
        flat = counts.ravel()
        mean = np.broadcast_to(means, counts.shape).ravel()
        most = np.broadcast_to(means + REACH * (spread + REACH), counts.shape).ravel()
        total, square = np.zeros(flat.size), np.zeros(flat.size)
        exactly, about = generator.spawn(2)
        # Every cell has a row of up to MOST_COUNTS probabilities, so slices are smaller than elsewhere.
        for part in _slices(np.flatnonzero((flat > 0) & (most <= MOST_COUNTS)), SLICE // 16):
            values = np.arange(np.ceil(most[part].max()) + 1)
            # Most replications share their means: the probabilities of each distinct mean are computed once.
            unlike, which = np.unique(mean[part], return_inverse=True)
            chances = np.exp(log_chances(values, unlike[:, None]))
            found = exactly.multinomial(flat[part], (chances / chances.sum(axis=-1, keepdims=True))[which])
            # Columns beyond the largest count drawn are all 0; without them the products below are faster.
            seen = int(np.flatnonzero(found.sum(axis=0))[-1]) + 1
            found, values = found[:, :seen], values[:seen]
            total[part], square[part] = found @ values, found @ np.square(values)
        large = np.flatnonzero((flat > 0) & (most > MOST_COUNTS))
        if large.size:
            deviation = np.broadcast_to(spread, counts.shape).ravel()[large]
            drawn = flat[large].astype(np.float64)
            noise, scatter = about.standard_normal(large.size), 2.0 * about.standard_gamma(np.maximum(drawn - 1, 0) / 2)
            total[large] = np.maximum(np.rint(drawn * mean[large] + deviation * np.sqrt(drawn) * noise), 0.0)
            least = least_squares(flat[large], total[large])
            # A sum of squares of whole numbers has the parity of their sum.
            wished = np.square(total[large]) / drawn + np.square(deviation) * scatter
            square[large] = least + 2 * np.rint(np.maximum(wished - least, 0.0) / 2)
        shape = counts.shape
        return Totals(counts=counts, sums=total.reshape(shape), squares=square.reshape(shape))

    return draw


def least_squares(counts: IntArray, sums: FloatArray) -> FloatArray:
    """The smallest sum of squares that `counts` whole numbers with the sum `sums` can have.

    It is reached when the numbers differ by at most 1.

    >>> least_squares(np.array([4]), np.array([6.0]))
    array([10.])
    """
    each = np.floor(sums / counts)
    more = sums - each * counts
    return np.asarray(more * np.square(each + 1) + (counts - more) * np.square(each))


@dataclass(frozen=True, kw_only=True, eq=False)
class TiltedLaw:
    """The distribution of rewards under a tilt: the density at x is multiplied by exp(tilt x) and normalized."""

    draw: Callable[[np.random.Generator, IntArray, FloatArray], Totals]  # from counts and tilts, (run, arm, agent)
    cumulant: Callable[[IntArray, FloatArray], FloatArray]  # (run,): log E exp(sum of tilt x) over all draws
    width: float = 0.0  # distance between the two rewards, which limits tilts; 0 for no limit


def tilted_gaussian(means: FloatArray, variances: FloatArray) -> TiltedLaw:
    """Tilted Gaussian rewards: a tilt moves the mean by the variance times the tilt."""
    scale = np.sqrt(variances)
    return TiltedLaw(
        draw=lambda generator, counts, tilt: gaussian(means + variances * tilt, scale)(generator, counts),
        cumulant=lambda counts, tilt: np.asarray(
            (counts * (tilt * means + np.square(tilt) * variances / 2)).sum(axis=(-2, -1))
        ),
    )


def tilted_two_valued(means: FloatArray, low: FloatArray | float, high: FloatArray | float) -> TiltedLaw:
    """Tilted rewards that are `low` or `high`: a tilt multiplies the odds of `high` by exp(tilt * (high - low))."""
    width = high - low
    rates = (means - low) / width

    def draw(generator: np.random.Generator, counts: IntArray, tilt: FloatArray) -> Totals:
        odds = np.exp(tilt * width)
        tilted = rates * odds / (1 - rates + rates * odds)
        return two_valued(low + width * tilted, low, high)(generator, counts)

    def cumulant(counts: IntArray, tilt: FloatArray) -> FloatArray:
        each = tilt * low + np.log1p(rates * np.expm1(tilt * width))
        return np.asarray((counts * each).sum(axis=(-2, -1)))

    return TiltedLaw(draw=draw, cumulant=cumulant, width=float(np.max(width)))


def tilted_poisson(means: FloatArray) -> TiltedLaw:
    """Tilted Poisson counts: a tilt multiplies the mean by exp(tilt)."""
    return TiltedLaw(
        draw=lambda generator, counts, tilt: poisson(means * np.exp(tilt))(generator, counts),
        cumulant=lambda counts, tilt: np.asarray((counts * means * np.expm1(tilt)).sum(axis=(-2, -1))),
        width=1.0,
    )


def uniform(means: FloatArray, low: FloatArray | float, high: FloatArray | float) -> Sampler:
    """Sampler of rewards that are uniform around their mean, as widely as [low, high] allows."""
    half = np.minimum(means - low, high - means)

    def draw(generator: np.random.Generator, counts: IntArray) -> Totals:
        flat = counts.ravel()
        total, square = np.zeros(flat.size), np.zeros(flat.size)
        singly, binned, inside = generator.spawn(3)
        few, many = np.flatnonzero((flat > 0) & (flat <= ONE_BY_ONE)), np.flatnonzero(flat > ONE_BY_ONE)
        for part in _slices(few, SLICE // 16):
            total[part], square[part] = _one_by_one(singly, flat[part])
        for part in _slices(many, SLICE):
            total[part], square[part] = _by_bins(binned, inside, flat[part])
        first, second = total.reshape(counts.shape), square.reshape(counts.shape)
        left, width = means - half, 2 * half
        return Totals(
            counts=counts,
            sums=np.asarray(counts * left + width * first),
            squares=np.asarray(counts * left**2 + 2 * left * width * first + width**2 * second),
        )

    return draw


def _slices(places: IntArray, size: int) -> Iterator[IntArray]:
    return (places[start : start + size] for start in range(0, len(places), size))


def _one_by_one(generator: np.random.Generator, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Sums and sums of squares of `counts` uniform numbers in [0, 1], drawn one by one."""
    values = generator.random(int(counts.sum()))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.add.reduceat(values, starts), np.add.reduceat(np.square(values), starts)


def _by_bins(
    binned: np.random.Generator, inside: np.random.Generator, counts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Like `_one_by_one`, but fast for many numbers: a multinomial over 64 bins gives their leading six bits exactly.

    The remaining bits contribute Gaussians with the exact mean and covariance. A Gaussian is accurate enough: these
    contributions are sums of hundreds of terms, and less than a sixty-fourth of either sum.
    """
    bins = binned.multinomial(counts, np.full(BINS, 1 / BINS))
    normal = inside.standard_normal((len(counts), BINS + 1))
    sums = bins / 2 + np.sqrt(bins / 12) * normal[:, :BINS]
    rest = sums.sum(axis=-1)
    # Given their sum, the squares of n uniform numbers have mean n / 3 + (sum - n / 2) and variance n / 180.
    squared = rest - counts / 6 + np.sqrt(counts / 180) * normal[:, BINS]
    edges = np.arange(BINS, dtype=np.float64)
    return (bins @ edges + rest) / BINS, (bins @ edges**2 + 2 * (sums @ edges) + squared) / BINS**2
