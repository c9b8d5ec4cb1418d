"""Simulated outcomes with their covariate: the sums that a site keeps of a phase, `(..., arm, agent)`.

x has the mean that the study states (or the middle of its range), and a standard deviation of 1 (or a sixth of the
range). Between phases a site's mean of x moves, and with it the outcomes of all its arms, by their average slope: a tie
of two arms whose slopes differ stays a tie. Gaussian outcomes with a Gaussian x that nobody clips come from one Wishart
matrix a cell, exactly in law; all others are drawn person by person.
"""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import ndtri

from parley.covariates import Covariate, CovariateTruth, Pairs
from parley.problem import FloatArray, Instance, IntArray
from parley.rewards import RewardModel
from parley.rewards.history import History
from parley.totals import Totals

SPREAD = 6.0  # standard deviations of x in its range
LOG_SCALE = 1.0  # of a lognormal x: skewness 6.2
PEOPLE = 2**22  # drawn at once
CLOSEST = 0.999  # correlation of the normal scores behind x and a yes or no


def drifted_x(instance: Instance, count: int, *, seed: int, block: int, phase: int) -> FloatArray:
    """`(count, 1, agent)`: how far each site's mean of x has moved before a phase (from 0), in standard deviations."""
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
    """What `counts` people of every cell give; `means` are those of outcomes before x moved, and x has `moved`."""
    rule, truth, model = instance.problem.adjustment, instance.covariate, instance.problem.noise
    assert rule is not None
    assert truth is not None
    if instance.history is not None and instance.history.covariates is not None:
        return _rows(instance.history, generator, counts, means, model.outcome or model)
    scale, centre = _units(rule)
    deviation = np.sqrt(model.true_variances(instance.means, instance.scale))
    slopes = truth.correlation * deviation  # per standard deviation of x
    low, high = (model.outcome or model).ends
    room = low - means.min(axis=-2, keepdims=True), high - means.max(axis=-2, keepdims=True)
    common = np.clip(slopes.mean(axis=-2, keepdims=True) * moved, *room)  # means stay where rewards can be
    if model.free_scale and truth.law == "gaussian" and rule.range is None:
        pairs = _gaussian(generator, counts, means + common, slopes, deviation, truth.correlation)
        return _in_units(pairs, scale, centre + scale * moved)
    draw = _linear if model.free_scale else _two_valued
    return _one_by_one(generator, counts, draw(instance, means + common, deviation), rule, truth, centre, scale, moved)


def _rows(
    history: History, generator: np.random.Generator, counts: IntArray, means: FloatArray, outcomes: RewardModel
) -> Pairs:
    """Rows of a table, outcome and covariate together; outcomes are moved to the means."""
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
    """The standard deviation and the mean of x."""
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
    """x standard normal, y linear in it with normal errors: means, and a Wishart matrix by Bartlett's decomposition.

    Every array has a generator of its own: a replication's numbers do not depend on how many follow it.
    """
    one, two, three, four, five = generator.spawn(5)
    rest, roots = deviation * np.sqrt(1 - np.square(correlation)), np.sqrt(counts)
    x_sums = roots * one.standard_normal(counts.shape)
    sums = counts * means + slopes * x_sums + rest * roots * two.standard_normal(counts.shape)
    xx = 2.0 * three.standard_gamma(np.maximum(counts - 1, 0) / 2)
    across = np.where(counts > 1, four.standard_normal(counts.shape), 0.0)
    xy = slopes * xx + rest * np.sqrt(xx) * across
    left = 2.0 * five.standard_gamma(np.maximum(counts - 2, 0) / 2)
    # The scatter of y is that along x, (b sqrt(xx) + t across)^2, and what is left.
    yy = np.square(slopes * np.sqrt(xx) + rest * across) + np.square(rest) * left
    squares = np.square(sums) / np.maximum(counts, 1) + yy
    return Pairs(
        totals=Totals(counts=counts, sums=sums, squares=squares), known=counts, x_sums=x_sums, xx=xx, xy=xy, yy=yy
    )


def _in_units(pairs: Pairs, scale: float, centre: FloatArray) -> Pairs:
    """x as the study measures it, from x in standard deviations around 0."""
    return Pairs(
        totals=pairs.totals,
        known=pairs.known,
        x_sums=pairs.known * centre + scale * pairs.x_sums,
        xx=scale**2 * pairs.xx,
        xy=scale * pairs.xy,
        yy=pairs.yy,
    )


Outcomes = Callable[[np.random.Generator, IntArray, FloatArray, FloatArray], FloatArray]
# From a generator, the people's cells, their x in standard deviations, and the normal scores of x.


def _linear(instance: Instance, means: FloatArray, deviation: FloatArray) -> Outcomes:
    """Linear in x with normal errors."""
    assert instance.covariate is not None
    slopes = instance.covariate.correlation * deviation
    rest = deviation * np.sqrt(1 - np.square(instance.covariate.correlation))

    def draw(generator: np.random.Generator, cells: IntArray, x: FloatArray, _: FloatArray) -> FloatArray:
        mean, slope, error = (np.broadcast_to(part, means.shape).ravel()[cells] for part in (means, slopes, rest))
        return np.asarray(mean + slope * x + error * generator.standard_normal(len(cells)))

    return draw


def _two_valued(instance: Instance, means: FloatArray, _: FloatArray) -> Outcomes:
    """`low` or `high`: a normal score that goes with that of x is above its quantile, so means are exact."""
    model, truth = instance.problem.noise.outcome, instance.covariate
    assert model is not None
    assert truth is not None
    low, high = model.ends
    rates = np.clip((means - low) / (high - low), 1e-12, 1 - 1e-12)
    quantile = ndtri(rates)
    density = np.exp(-np.square(quantile) / 2) / np.sqrt(2 * np.pi)
    with_scores = np.clip(truth.correlation * np.sqrt(rates * (1 - rates)) / density, -CLOSEST, CLOSEST)

    def draw(generator: np.random.Generator, cells: IntArray, _: FloatArray, scores: FloatArray) -> FloatArray:
        limit, share = quantile.ravel()[cells], with_scores.ravel()[cells]
        hidden = -share * scores + np.sqrt(1 - np.square(share)) * generator.standard_normal(len(cells))
        return np.where(hidden < limit, high, low)

    return draw


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
    """Person by person, some cells at a time."""
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
        y = outcomes(of_y, cells, spread, scores)
        n = np.maximum(flat[some], 1)

        def summed(values: FloatArray, first: int = some.start, most: int = len(n), at: IntArray = cells) -> FloatArray:
            return np.asarray(np.bincount(at - first, weights=values, minlength=most), dtype=np.float64)

        x_sums, y_sums = summed(x), summed(y)
        dx, dy = x - (x_sums / n)[cells - some.start], y - (y_sums / n)[cells - some.start]
        found[:, some] = y_sums, summed(y * y), x_sums, summed(dx * dx), summed(dx * dy), summed(dy * dy)
    sums, squares, x_sums, xx, xy, yy = found.reshape(6, *counts.shape)
    return Pairs(
        totals=Totals(counts=counts, sums=sums, squares=squares), known=counts, x_sums=x_sums, xx=xx, xy=xy, yy=yy
    )


def _lognormal(scores: FloatArray) -> FloatArray:
    """With mean 0 and standard deviation 1."""
    square = LOG_SCALE**2
    raw, mean = np.exp(LOG_SCALE * scores), np.exp(square / 2)
    return np.asarray((raw - mean) / (mean * np.sqrt(np.expm1(square))))


def _parts(counts: IntArray) -> Iterator[slice]:
    """Slices of cells of about PEOPLE people each."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + PEOPLE, side="right")), start + 1)
        yield slice(start, stop)
        start = stop
