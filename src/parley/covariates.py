"""Covariates: what is known about a person before an arm is assigned. Pairs (y, x) go in, ordinary totals come out.

In every phase a site reports y' = y - theta (x - x0) instead of the outcome y; x is the covariate. Theta and x0 are
fixed before the phase's first outcome: from the site's own earlier phases, or from past data. Arms are assigned at
random, independently of x, so the means of all arms of a site shift equally, by -theta (E x - x0). Evidence compares
arms within a phase, where an equal shift cancels (docs/covariates.md). So no policy and no test needs to know about
covariates, and any theta is valid: a bad one only adds variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.totals import Totals
from parley.validation.checks import BoolArray, FloatArray, IntArray

LARGEST_X = 1e15  # largest absolute value of a covariate; beyond it, differences between people lose precision
FEWEST_DEGREES = 3.0  # degrees of freedom; with fewer, a slope cannot be distinguished from chance
CONSTANT = 1e-12  # scatter of x relative to its sum of squares; anything below is rounding error
LEFT = 0.01, 100.0  # limits on `Totals.left`: the scatter expected in the next phase, relative to this phase's


@dataclass(frozen=True, kw_only=True, eq=False)
class Covariate:
    """A study's covariate, and how outcomes are adjusted for it.

    >>> age = Covariate(name="age", range=(20.0, 80.0), largest=0.01)
    >>> age.clipped(95.0), age.moves
    (80.0, 0.6)
    """

    name: str
    center: float | None = None  # x0, if the study states it
    range: tuple[float, float] | None = None  # (low, high), to which x is clipped; None: x is not clipped
    theta: FloatArray | None = None  # (agent,): slopes stated from past data; None: each site learns its own
    largest: float = math.inf  # limit on the size of a learned theta

    @property
    def learns(self) -> bool:
        """Whether sites learn theta from their earlier phases."""
        return self.theta is None

    @property
    def first_x0(self) -> float | None:
        """x0 before any x is known: `center`, else the middle of `range` if theta is stated, else None."""
        if self.center is not None or self.range is None or self.learns:
            return self.center
        return (self.range[0] + self.range[1]) / 2

    def clipped(self, x: float) -> float:
        """x clipped to the range. Outcomes are never clipped: clipping them could reverse the order of two arms."""
        return x if self.range is None else min(max(x, self.range[0]), self.range[1])

    @property
    def moves(self) -> float:
        """The largest amount by which an adjustment can shift an outcome; infinite if there is no limit."""
        if self.range is None:
            return math.inf
        low, high = self.range
        far = high - low if self.first_x0 is None else max(high - self.first_x0, self.first_x0 - low)
        return float((self.largest if self.theta is None else np.abs(self.theta).max()) * far)

    def fixed(self, slopes: Slopes) -> tuple[FloatArray, FloatArray]:
        """Theta and x0 of the next phase, `(..., agent)` each; before any x is known, 0 and NaN unless stated."""
        x0 = slopes.x0 if self.first_x0 is None else np.full(slopes.x0.shape, self.first_x0)
        if self.theta is not None:
            return np.broadcast_to(self.theta, x0.shape), x0
        learned = np.clip(slopes.theta, -self.largest, self.largest)
        return np.where(np.isnan(x0), 0.0, learned), x0

    def reported(self, slopes: Slopes, pairs: Pairs, then: Slopes | None = None) -> tuple[Totals, Slopes]:
        """The totals that sites report for a phase, `(..., arm, agent)`, and the sites' updated slopes.

        `then` holds the slopes from before the previous phase. They adjust the people who were assigned to this phase
        while the previous phase still waited for outcomes (`pairs.between`): theta must be fixed before any outcome of
        these people is known, and some may be known before the previous phase ends.
        """
        theta, x0 = self.fixed(slopes)
        totals, after = pairs.adjusted(theta, x0), slopes.added(pairs)
        if pairs.between is not None:
            assert then is not None
            totals = replace(totals, between=pairs.between.adjusted(*self.fixed(then)))
        if not self.learns:
            return totals, after
        left = pairs.left(theta, self.fixed(after)[0])[..., None, :]
        return replace(totals, left=np.broadcast_to(left, totals.counts.shape)), after


def fixed_for(rule: Covariate, earlier: Sequence[Pairs]) -> tuple[float, float | None]:
    """Theta and x0 of one site's next phase, from the pairs `(arm,)` of its earlier phases; x0 is None if unknown."""
    slopes = Slopes.none((1,))
    for pairs in earlier:
        slopes = slopes.added(pairs.column)
    theta, x0 = rule.fixed(slopes)
    return float(theta[0]), None if math.isnan(x0[0]) else float(x0[0])


def left_after(rule: Covariate, earlier: Sequence[Pairs], pairs: Pairs, theta: float) -> float | None:
    """The scatter that one site expects in its next phase, relative to the scatter now; None if theta is stated."""
    if not rule.learns:
        return None
    following, _ = fixed_for(rule, [*earlier, pairs])
    return float(pairs.column.left(np.array([theta]), np.array([following]))[0])


def checked_x(name: str, value: Any) -> float:
    """Check that a covariate's value is a finite number, and return it as a float.

    >>> checked_x("age", "old")
    Traceback (most recent call last):
    parley.errors.InvalidInput: age: found 'old'; allowed: a finite number
    """
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not abs(value) <= LARGEST_X:
        raise InvalidInput(name, found=repr(value)[:60], allowed="a finite number")
    return float(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Sums of outcomes y and covariates x, `(..., arm, agent)`.

    A scatter is a sum of products of deviations from the means of the cell, over the draws whose x is known.

    >>> pairs = Pairs.of([[1.0, 2.0, 9.0]], [[10.0, 20.0, None]])
    >>> pairs.known.tolist(), pairs.xx.tolist(), pairs.xy.tolist(), pairs.yy.tolist()
    ([2], [50.0], [5.0], [0.5])
    """

    totals: Totals  # of y
    known: IntArray  # draws whose x is known
    x_sums: FloatArray  # sums of the known x
    xx: FloatArray  # scatter of x
    xy: FloatArray  # scatter of x with y
    yy: FloatArray  # scatter of y
    between: Pairs | None = None  # people assigned before the phase began but counted in it: a separate stratum

    @classmethod
    def of(cls, rewards: Sequence[Sequence[float]], xs: Sequence[Sequence[float | None]]) -> Pairs:
        """`(arm,)`: the sums of one site's pairs, from each arm's rewards and each person's x (None if unknown)."""
        cells = [_cell(y, x) for y, x in zip(rewards, xs, strict=True)]
        counts, *scatters = (np.array(column) for column in zip(*cells, strict=True))
        x_sums, xx, xy, yy = scatters
        return cls(totals=Totals.of(rewards), known=counts.astype(np.int64), x_sums=x_sums, xx=xx, xy=xy, yy=yy)

    def __getitem__(self, index: Any) -> Pairs:
        """Index every array in the same way, by NumPy's rules."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        some: dict[str, Any] = {name: None if part is None else part[index] for name, part in parts.items()}
        return Pairs(**some)

    @property
    def column(self) -> Pairs:
        """The pairs of one agent, `(arm,)`, reshaped to `(arm, 1)`."""
        return self[:, None]

    def adjusted(self, theta: FloatArray, x0: FloatArray) -> Totals:
        """The totals of y' = y - theta (x - x0), if every x is known; `theta` and `x0` are `(..., agent)`."""
        counts = self.totals.counts
        slope, centre = theta[..., None, :], np.where(np.isnan(x0), 0.0, x0)[..., None, :]
        sums = self.totals.sums - slope * (self.x_sums - counts * centre)
        scatter = np.maximum(self.totals.scatter - slope * (2 * self.xy - slope * self.xx), 0.0)
        return Totals(counts=counts, sums=sums, squares=np.square(sums) / np.maximum(counts, 1) + scatter)

    def left(self, theta: FloatArray, following: FloatArray) -> FloatArray:
        """`(..., agent)`: the scatter under `following`, the next phase's theta, over the scatter under `theta`.

        Policies use this ratio to size the next phase. Without it, the second phase of a site that learns its slope
        would be sized for unadjusted outcomes. Draws without an x keep their scatter.
        """
        now, then = (
            _over_arms(self.yy - by * (2 * self.xy - by * self.xx))
            for by in (theta[..., None, :], following[..., None, :])
        )
        ratio = np.divide(np.maximum(then, 0.0), now, out=np.ones(now.shape), where=now > 0)
        known, people = (_over_arms(part.astype(np.float64)) for part in (self.known, self.totals.counts))
        return np.asarray(np.clip(1 + known / np.maximum(people, 1) * (ratio - 1), *LEFT))


def _cell(rewards: Sequence[float], xs: Sequence[float | None]) -> tuple[float, ...]:
    """Statistics of one cell: the number of known x, their sum, and the scatters of x, of x with y, and of y."""
    some = [(y, x) for y, x in zip(rewards, xs, strict=True) if x is not None]
    n = max(len(some), 1)
    total = math.fsum(x for _, x in some)
    mean_x, mean_y = total / n, math.fsum(y for y, _ in some) / n
    return (
        float(len(some)),
        total,
        math.fsum((x - mean_x) ** 2 for _, x in some),
        math.fsum((x - mean_x) * (y - mean_y) for y, x in some),
        math.fsum((y - mean_y) ** 2 for y, _ in some),
    )


def adjusted_rewards(
    rewards: Sequence[Sequence[float]], xs: Sequence[Sequence[float | None]], theta: float, x0: float | None
) -> list[list[float]]:
    """The adjusted outcome y' of every person, in the order of `rewards`. If x is unknown, y' is y.

    >>> adjusted_rewards([[1.0, 2.0]], [[3.0, None]], 0.5, 1.0)
    [[0.0, 2.0]]
    """
    centre = 0.0 if x0 is None else x0
    return [
        [y if x is None else y - theta * (x - centre) for y, x in zip(own, known, strict=True)]
        for own, known in zip(rewards, xs, strict=True)
    ]


def _over_arms(values: FloatArray) -> FloatArray:
    """`(..., agent)`: sums over arms, added one by one so that a site and a batch of studies agree to the last bit."""
    return np.asarray(np.add.accumulate(values, axis=-2)[..., -1, :])


@dataclass(frozen=True, kw_only=True, eq=False)
class Slopes:
    """`(..., agent)`: scatters within cells, summed over phases; from them each site estimates the slope of y on x."""

    degrees: FloatArray  # degrees of freedom of the scatters
    xx: FloatArray  # pooled scatters, as in `Pairs`
    xy: FloatArray
    yy: FloatArray
    size: FloatArray  # sum of squares of x, to tell scatter from rounding error
    x0: FloatArray  # mean x of the first phase in which any x is known; NaN before

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Slopes:
        """Slopes without any data, as they are before the first phase."""
        zero = np.zeros(shape)
        return cls(degrees=zero, xx=zero, xy=zero, yy=zero, size=zero, x0=np.full(shape, np.nan))

    def added(self, pairs: Pairs) -> Slopes:
        """The slopes after adding another phase's `pairs (..., arm, agent)`; every stratum has its own scatters."""
        if pairs.between is not None:
            return self.added(pairs.between).added(replace(pairs, between=None))
        known, x_sums = _over_arms(pairs.known.astype(np.float64)), _over_arms(pairs.x_sums)
        mean = np.divide(x_sums, known, out=np.full(known.shape, np.nan), where=known > 0)
        large = pairs.xx + np.square(pairs.x_sums) / np.maximum(pairs.known, 1)
        return Slopes(
            degrees=self.degrees + _over_arms(np.maximum(pairs.known - 1, 0).astype(np.float64)),
            xx=self.xx + _over_arms(pairs.xx),
            xy=self.xy + _over_arms(pairs.xy),
            yy=self.yy + _over_arms(pairs.yy),
            size=self.size + _over_arms(large),
            x0=np.where(np.isnan(self.x0), mean, self.x0),
        )

    def take(self, some: BoolArray | IntArray) -> Slopes:
        """The slopes of a subset of a batch of studies."""
        return Slopes(**{field.name: getattr(self, field.name)[some] for field in fields(self)})

    def put(self, places: IntArray, count: int) -> Slopes:
        """A batch of `count` studies with these slopes at the indices `places` and no data for the other studies."""
        found = Slopes.none((count, *self.x0.shape[1:]))
        for field in fields(self):
            values = getattr(found, field.name).copy()
            values[places] = getattr(self, field.name)
            object.__setattr__(found, field.name, values)
        return found

    @classmethod
    def concatenated(cls, parts: Sequence[Slopes]) -> Slopes:
        """Join batches of studies along the first axis."""
        return cls(
            **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)}
        )

    @property
    def constant(self) -> BoolArray:
        """`(..., agent)`: whether x was constant within every cell, as far as float64 can tell."""
        return np.asarray((self.degrees > 0) & (self.xx <= CONSTANT * self.size))

    @property
    def theta(self) -> FloatArray:
        """`(..., agent)`: the least-squares slope, shrunk towards 0 by its standard error; 0 if there are too few data.

        The factor max(0, 1 - error^2 / slope^2) is James-Stein shrinkage: a useless covariate costs next to nothing.
        """
        tells = (self.degrees >= FEWEST_DEGREES) & (self.xx > CONSTANT * self.size)
        xx = np.where(tells, self.xx, 1.0)
        slope = self.xy / xx
        # The slope itself takes one more degree of freedom from the residuals.
        error = np.maximum(self.yy - slope * self.xy, 0.0) / np.maximum(self.degrees - 1, 1.0) / xx
        square = np.square(slope)
        kept = np.maximum(1 - np.divide(error, square, out=np.ones(xx.shape), where=square > 0), 0.0)
        return np.where(tells, slope * kept, 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class CovariateTruth:
    """The true relation between a covariate x and the outcome, for simulations.

    x is Gaussian or lognormal; `correlation` is between x and the outcome, within an arm of a site.
    """

    correlation: FloatArray  # broadcasts to (arm, agent)
    drift: float = 0.0  # size of the random step of a site's mean x before every phase, in standard deviations of x
    law: str = "gaussian"  # distribution of x: one of `LAWS`


LAWS = ("gaussian", "lognormal")
