"""Simulated outcomes y with a covariate x: the sums that a site keeps for a phase, `(..., arm, agent)`.

x has the mean that the study states (or the middle of its range), and a standard deviation of 1 (or a sixth of the
range). Between phases a site's mean of x moves, and the outcomes of all arms of the site move with it, by their average
slope, so that tied arms stay tied even if their slopes differ. Gaussian outcomes with an unclipped Gaussian x are drawn
as one Wishart matrix per cell, which is exact; with any other x they are drawn person by person. For yes-or-no
outcomes, x has 16 levels, and the sums of a cell come from one multinomial draw.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from parley.covariates import Covariate, CovariateTruth, Pairs
from parley.errors import InvalidInput
from parley.problem import FloatArray, Instance, IntArray
from parley.rewards import RewardModel
from parley.rewards.history import History
from parley.totals import Totals

SPREAD = 6.0  # width of the range of x, in standard deviations
LOG_SCALE = 1.0  # standard deviation of log x for a lognormal x, whose skewness is then 6.2
PEOPLE = 2**22  # number of people simulated at once
CLOSEST = 0.999  # largest correlation of the normal scores behind x and a 0/1 outcome
EDGES = np.concatenate([[-6.0], np.linspace(-2.8, 2.8, 15), [6.0]])  # borders between the levels of x, as normal scores
NODES = 5  # quadrature nodes within a level


def drifted_x(instance: Instance, count: int, *, seed: int, block: int, phase: int) -> FloatArray:
    """`(count, 1, agent)`: how far each site's mean of x has moved before `phase`, in standard deviations of x."""
    truth, shape = instance.covariate, (count, instance.problem.agent_count)
    moved = np.zeros(shape)
    if truth is not None and truth.drift:
        for step in range(phase):
            steps = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, step, 4)))
            moved = moved + truth.drift * steps.standard_normal(shape)
    return moved[:, None, :]


def draw_pairs(
    instance: Instance, generator: np.random.Generator, counts: IntArray, means: FloatArray, moved: FloatArray
) -> Pairs:
    """Draw `counts` people in every cell; `means` are the means of y before the mean of x moved by `moved`."""
    rule, truth, model = instance.problem.adjustment, instance.covariate, instance.problem.noise
    assert rule is not None
    assert truth is not None
    if instance.history is not None and instance.history.covariates is not None:
        return _rows(instance.history, generator, counts, means, model.outcome or model)
    means = means + _common(instance, means, moved)
    if not model.free_scale:
        return _yes_or_no(generator, counts, _chances(instance, means), _level_values(rule, truth, moved), model)
    scale, centre = _units(rule)
    if truth.law == "gaussian" and rule.range is None:
        pairs = _gaussian(generator, counts, means, *_slopes(instance))
        return _in_units(pairs, scale, centre + scale * moved)
    return _one_by_one(generator, counts, _linear(instance, means), rule, truth, centre, scale, moved)


@dataclass(frozen=True, kw_only=True, eq=False)
class TiltedPairs:
    """The distribution of y and x under a tilt: the density is multiplied by exp(tilt y') and normalized.

    y' is the adjusted outcome.
    """

    draw: Callable[[np.random.Generator, IntArray, FloatArray], Pairs]  # from counts and tilts, (run, arm, agent)
    cumulant: Callable[[IntArray, FloatArray], FloatArray]  # (run,): log E exp(sum of tilt y') over all draws
    variances: FloatArray  # (run, arm, agent): of y' under the truth
    width: float = 0.0  # largest distance between values of y', which limits tilts; 0 for no limit


def tilted_pairs(
    instance: Instance, means: FloatArray, moved: FloatArray, theta: FloatArray, x0: FloatArray
) -> TiltedPairs:
    """The tilted distribution of a phase whose reports are adjusted by `theta` and `x0`, `(run, agent)` each.

    The other arguments are as in `draw_pairs`. If outcomes have no range, x is not clipped here, because clipping has
    no tilted form.
    """
    rule, truth, model = instance.problem.adjustment, instance.covariate, instance.problem.noise
    assert rule is not None
    assert truth is not None
    means = means + _common(instance, means, moved)
    slope, middle = theta[:, None, :], np.where(np.isnan(x0), 0.0, x0)[:, None, :]
    if model.free_scale:
        if truth.law != "gaussian":
            allowed = '"gaussian", with rewards that are in no range: others have no tilted form'
            raise InvalidInput("truth.covariate.law", found=repr(truth.law), allowed=allowed)
        return _tilted_gaussian(instance, means, moved, slope, middle)
    chances, x = _chances(instance, means), _level_values(rule, truth, moved)
    outcomes = np.array((model.outcome or model).ends)[:, None]
    adjusted = outcomes - slope[..., None, None] * (x[..., None, :] - middle[..., None, None])
    adjusted = np.broadcast_to(adjusted, chances.shape)
    centre = (chances * adjusted).sum(axis=(-2, -1))
    logs = np.log(np.maximum(chances, 1e-300))

    def tilted(tilt: FloatArray) -> tuple[FloatArray, FloatArray]:
        each = logs + tilt[..., None, None] * adjusted
        total = logsumexp(each, axis=(-2, -1))
        return np.exp(each - total[..., None, None]), total

    return TiltedPairs(
        draw=lambda generator, counts, tilt: _yes_or_no(generator, counts, tilted(tilt)[0], x, model),
        cumulant=lambda counts, tilt: np.asarray((counts * tilted(tilt)[1]).sum(axis=(-2, -1))),
        variances=(chances * np.square(adjusted - centre[..., None, None])).sum(axis=(-2, -1)),
        width=float((adjusted.max(axis=(-2, -1)) - adjusted.min(axis=(-2, -1))).max()),
    )


def _tilted_gaussian(
    instance: Instance, means: FloatArray, moved: FloatArray, theta: FloatArray, x0: FloatArray
) -> TiltedPairs:
    """`tilted_pairs` for jointly Gaussian x and y.

    A tilt shifts the means of x and y by their covariances with y', and changes no scatter.
    """
    assert instance.problem.adjustment is not None
    scale, centre = _units(instance.problem.adjustment)
    slopes, deviation, correlation = _slopes(instance)
    rest = np.square(deviation) * (1 - np.square(correlation))
    along = slopes - theta * scale  # the slope of y' in standard deviations of x
    variances, middle = np.square(along) + rest, means - theta * (centre + scale * moved - x0)

    def draw(generator: np.random.Generator, counts: IntArray, tilt: FloatArray) -> Pairs:
        pairs = _gaussian(generator, counts, means + tilt * (rest + slopes * along), slopes, deviation, correlation)
        return _in_units(pairs, scale, centre + scale * (moved + tilt * along))

    def cumulant(counts: IntArray, tilt: FloatArray) -> FloatArray:
        return np.asarray((counts * (tilt * middle + np.square(tilt) * variances / 2)).sum(axis=(-2, -1)))

    return TiltedPairs(draw=draw, cumulant=cumulant, variances=variances)


def _slopes(instance: Instance) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The slope of y per standard deviation of x, the standard deviation of y, and the correlation.

    Each is an array or a number that broadcasts to `(arm, agent)`.
    """
    assert instance.covariate is not None
    deviation = np.sqrt(instance.problem.noise.true_variances(instance.means, instance.scale))
    return instance.covariate.correlation * deviation, deviation, instance.covariate.correlation


def _common(instance: Instance, means: FloatArray, moved: FloatArray) -> FloatArray:
    """The shift of all outcomes of a site due to the drift of x, limited so that means stay in the range of rewards."""
    model = instance.problem.noise
    low, high = (model.outcome or model).ends
    room = low - means.min(axis=-2, keepdims=True), high - means.max(axis=-2, keepdims=True)
    return np.asarray(np.clip(_slopes(instance)[0].mean(axis=-2, keepdims=True) * moved, *room))


def _rows(
    history: History, generator: np.random.Generator, counts: IntArray, means: FloatArray, outcomes: RewardModel
) -> Pairs:
    """Draw rows of a table of past draws, with outcome and covariate; outcomes are shifted to the given means."""
    y, yy, x, xx, xy = history.deviations(generator, counts, means, outcomes)
    number = np.maximum(counts, 1)
    sums, scatter = counts * means + y, np.maximum(yy - np.square(y) / number, 0.0)
    squares = np.square(sums) / number + scatter
    if outcomes.values or outcomes.whole:
        sums, squares = np.rint(sums), np.rint(squares)
    return Pairs(
        totals=Totals(counts=counts, sums=sums, squares=squares),
        known=counts,
        x_sums=counts * history.covariate_means + x,
        xx=np.maximum(xx - np.square(x) / number, 0.0),
        xy=xy - x * y / number,
        yy=scatter,
    )


def _units(rule: Covariate) -> tuple[float, float]:
    """The standard deviation and the mean of x, in the study's units."""
    if rule.range is None:
        return 1.0, rule.center or 0.0
    low, high = rule.range
    return (high - low) / SPREAD, (low + high) / 2 if rule.center is None else rule.center


def _gaussian(
    generator: np.random.Generator,
    counts: IntArray,
    means: FloatArray,
    slopes: FloatArray,
    deviation: FloatArray,
    correlation: FloatArray,
) -> Pairs:
    """Draw sums for standard normal x and for y linear in x with normal errors.

    The scatter of x and y is one Wishart matrix per cell, drawn by Bartlett's decomposition.
    Every array has its own generator, so that a replication's numbers do not depend on how many replications follow it.
    """
    one, two, three, four, five = generator.spawn(5)
    rest, roots = deviation * np.sqrt(1 - np.square(correlation)), np.sqrt(counts)
    x_sums = roots * one.standard_normal(counts.shape)
    sums = counts * means + slopes * x_sums + rest * roots * two.standard_normal(counts.shape)
    xx = 2.0 * three.standard_gamma(np.maximum(counts - 1, 0) / 2)
    across = np.where(counts > 1, four.standard_normal(counts.shape), 0.0)
    xy = slopes * xx + rest * np.sqrt(xx) * across
    left = 2.0 * five.standard_gamma(np.maximum(counts - 2, 0) / 2)
    # The scatter of y has a part along x, (b sqrt(xx) + t across)^2, and a part independent of x.
    yy = np.square(slopes * np.sqrt(xx) + rest * across) + np.square(rest) * left
    squares = np.square(sums) / np.maximum(counts, 1) + yy
    return Pairs(
        totals=Totals(counts=counts, sums=sums, squares=squares), known=counts, x_sums=x_sums, xx=xx, xy=xy, yy=yy
    )


def _in_units(pairs: Pairs, scale: float, centre: FloatArray) -> Pairs:
    """The pairs with x converted from standard deviations around 0 to the study's units."""
    return Pairs(
        totals=pairs.totals,
        known=pairs.known,
        x_sums=pairs.known * centre + scale * pairs.x_sums,
        xx=scale**2 * pairs.xx,
        xy=scale * pairs.xy,
        yy=pairs.yy,
    )


# Draws the outcomes of people, given a generator, their cells, and their x in standard deviations.
Outcomes = Callable[[np.random.Generator, IntArray, FloatArray], FloatArray]


def _linear(instance: Instance, means: FloatArray) -> Outcomes:
    """A function that draws outcomes linear in x, with normal errors."""
    slopes, deviation, correlation = _slopes(instance)
    rest = deviation * np.sqrt(1 - np.square(correlation))

    def draw(generator: np.random.Generator, cells: IntArray, x: FloatArray) -> FloatArray:
        mean, slope, error = (np.broadcast_to(part, means.shape).ravel()[cells] for part in (means, slopes, rest))
        return np.asarray(mean + slope * x + error * generator.standard_normal(len(cells)))

    return draw


@cache
def _levels(law: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The levels of x: their values `(level,)`, and the normal scores and probabilities of their nodes `(level, node)`.

    The values have mean 0 and standard deviation 1.
    """
    points, weights = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(EDGES) / 2
    scores = (EDGES[:-1] + half)[:, None] + half[:, None] * points
    chances = half[:, None] * weights * np.exp(-np.square(scores) / 2) / math.sqrt(2 * math.pi)
    chances /= chances.sum()
    each = chances.sum(axis=-1)
    values = ((scores if law == "gaussian" else _lognormal(scores)) * chances).sum(axis=-1) / each
    values -= (values * each).sum()
    return values / math.sqrt((np.square(values) * each).sum()), scores, chances


def _level_values(rule: Covariate, truth: CovariateTruth, moved: FloatArray) -> FloatArray:
    """`(..., 1, agent, level)`: the value of x at each level, in the study's units and clipped to its range."""
    scale, centre = _units(rule)
    return np.clip(centre + scale * (_levels(truth.law)[0] + moved[..., None]), *(rule.range or (-np.inf, np.inf)))


def _chances(instance: Instance, means: FloatArray) -> FloatArray:
    """`(..., arm, agent, outcome, level)`: joint probabilities of each outcome (`low`, `high`) and each level of x.

    An outcome is `high` if a normal score that is correlated with the score of x is below a quantile, which is
    chosen so that means are exact.
    """
    model, truth = instance.problem.noise.outcome, instance.covariate
    assert model is not None
    assert truth is not None
    low, high = model.ends
    rates = np.clip((means - low) / (high - low), 1e-12, 1 - 1e-12)
    quantile = ndtri(rates)
    density = np.exp(-np.square(quantile) / 2) / math.sqrt(2 * math.pi)
    share = np.clip(truth.correlation * np.sqrt(rates * (1 - rates)) / density, -CLOSEST, CLOSEST)[..., None]
    _, scores, chances = _levels(truth.law)
    rest, above = np.sqrt(1 - np.square(share)), np.zeros((*means.shape, len(scores)))
    for score, chance in zip(scores.T, chances.T, strict=True):
        above += chance * ndtr((quantile[..., None] + share * score) / rest)
    above *= (rates / above.sum(axis=-1))[..., None]  # corrects the quadrature error
    return np.stack([np.maximum(chances.sum(axis=-1) - above, 0.0), above], axis=-2)


def _yes_or_no(
    generator: np.random.Generator, counts: IntArray, chances: FloatArray, x: FloatArray, model: RewardModel
) -> Pairs:
    """Draw sums for yes-or-no outcomes: one multinomial per cell counts the people by outcome and level of x."""
    low, high = (model.outcome or model).ends
    found = generator.multinomial(
        counts, (chances / chances.sum(axis=(-2, -1), keepdims=True)).reshape(*counts.shape, -1)
    )
    both = found.reshape(chances.shape)
    levels, hits = both.sum(axis=-2), both[..., 1, :]
    yes, number, width = hits.sum(axis=-1), np.maximum(counts, 1), high - low
    x_sums = (levels * x).sum(axis=-1)
    away = x - (x_sums / number)[..., None]
    return Pairs(
        totals=Totals(
            counts=counts, sums=counts * low + width * yes, squares=counts * low**2 + yes * (high**2 - low**2)
        ),
        known=counts,
        x_sums=x_sums,
        xx=(levels * np.square(away)).sum(axis=-1),
        xy=width * (hits * away).sum(axis=-1),
        yy=width**2 * yes * (counts - yes) / number,
    )


def _one_by_one(
    generator: np.random.Generator,
    counts: IntArray,
    outcomes: Outcomes,
    rule: Covariate,
    truth: CovariateTruth,
    centre: float,
    scale: float,
    moved: FloatArray,
) -> Pairs:
    """Draw every person individually, for a batch of cells at a time."""
    of_x, of_y = generator.spawn(2)
    flat, found = counts.ravel(), np.zeros((6, counts.size))
    shift = np.broadcast_to(moved, counts.shape).ravel()
    low, high = rule.range or (-np.inf, np.inf)
    for some in _parts(flat):
        cells = np.repeat(np.arange(some.start, some.stop), flat[some])
        if not cells.size:
            continue
        scores = of_x.standard_normal(len(cells))
        spread = scores if truth.law == "gaussian" else _lognormal(scores)
        x = np.clip(centre + scale * (spread + shift[cells]), low, high)
        y = outcomes(of_y, cells, spread)
        n = np.maximum(flat[some], 1)

        def summed(values: FloatArray, first: int = some.start, most: int = len(n), at: IntArray = cells) -> FloatArray:
            return np.asarray(np.bincount(at - first, weights=values, minlength=most), dtype=np.float64)

        x_sums, y_sums = summed(x), summed(y)
        # Squares around the means of a cell lose less precision than raw squares.
        dx, dy = x - (x_sums / n)[cells - some.start], y - (y_sums / n)[cells - some.start]
        found[:, some] = y_sums, summed(y * y), x_sums, summed(dx * dx), summed(dx * dy), summed(dy * dy)
    sums, squares, x_sums, xx, xy, yy = found.reshape(6, *counts.shape)
    return Pairs(
        totals=Totals(counts=counts, sums=sums, squares=squares), known=counts, x_sums=x_sums, xx=xx, xy=xy, yy=yy
    )


def _lognormal(scores: FloatArray) -> FloatArray:
    """Convert normal scores to lognormal values, shifted and scaled to mean 0 and standard deviation 1."""
    square = LOG_SCALE**2
    raw, mean = np.exp(LOG_SCALE * scores), np.exp(square / 2)
    return np.asarray((raw - mean) / (mean * np.sqrt(np.expm1(square))))


def _parts(counts: IntArray) -> Iterator[slice]:
    """Yield slices of cells that have at most PEOPLE people together, or a single cell with more."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + PEOPLE, side="right")), start + 1)
        yield slice(start, stop)
        start = stop
