"""A truth from a table of past draws: rows are resampled with replacement, which keeps skew, tails and zeros.

Every arm of every agent has a *pool* of rows: its own, or all rows of the agent if the table has no arms. A truth
states means, and the rows of a pool are shifted so that they have the stated mean:

- If rewards have no range, all rows of a pool shift by the same amount.
- In a range, each row moves towards one end by the same share of its distance, so that no row leaves the range.
- 0/1 rewards stay 0 or 1: a share of the zeros becomes 1, or a share of the ones becomes 0.
- Counts of events stay whole numbers: Poisson events are added, or events are removed at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.rewards.base import RewardModel
from parley.rewards.sampling import Sampler, two_valued
from parley.system.once import once
from parley.totals import Totals
from parley.validation.checks import BoolArray, FloatArray, IntArray
from parley.validation.tables import OUTCOME, Draws

REPEATS = 4  # with more draws per row, only the number of times that each row occurs is drawn at random
PIECE = 2**18  # draws in memory at once
SKEWED, VERY_SKEWED = 0.5, 1.0  # absolute skewness from which a shape is called moderately, or strongly, skewed
HEAVY = 3.0  # excess kurtosis from which tails are called heavy: that of a double exponential
MANY_ZEROS = 0.2  # share of zeros from which a shape mentions them
CLOSEST = 0.999  # largest correlation that a truth may state
LARGEST_SHARE = 0.01  # share of outermost rows whose part of the variance is reported


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Summary statistics of a pool: its mean, spread, skewness, tails and zeros."""

    rows: int
    mean: float
    deviation: float
    skewness: float
    kurtosis: float  # excess: 0 for a Gaussian
    zeros: float  # share of rows that are 0
    tail: float  # share of the variance due to the outermost hundredth of the rows

    @classmethod
    def of(cls, values: FloatArray) -> Shape:
        """The shape of a sample of `values`.

        >>> Shape.of(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0])).words
        'strongly skewed to the right, heavy tails, 90 % zeros'
        """
        around = values - values.mean()
        variance = float(np.square(around).mean())
        standard = around / np.sqrt(variance) if variance > 0 else np.zeros(len(values))
        furthest = np.sort(np.square(standard))[::-1][: max(1, round(LARGEST_SHARE * len(values)))]
        return cls(
            rows=len(values),
            mean=float(values.mean()),
            deviation=float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
            skewness=float(np.power(standard, 3).mean()),
            kurtosis=float(np.power(standard, 4).mean()) - 3.0 if variance > 0 else 0.0,
            zeros=float((values == 0).mean()),
            tail=float(furthest.sum()) / len(values),
        )

    @property
    def words(self) -> str:
        """A short description of skewness, tails and zeros."""
        found = []
        if abs(self.skewness) > SKEWED:
            how = "strongly" if abs(self.skewness) > VERY_SKEWED else "moderately"
            found.append(f"{how} skewed to the {'right' if self.skewness > 0 else 'left'}")
        if self.kurtosis > HEAVY:
            found.append("heavy tails")
        if self.zeros >= MANY_ZEROS:
            found.append(f"{100 * self.zeros:.0f} % zeros")
        return ", ".join(found) or "about symmetric, no heavy tails"

    def document(self) -> dict[str, Any]:
        """The shape as a dictionary that is ready for JSON."""
        return vars(self) | {"words": self.words}


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """The pools of a table: one array of all rows, with the start and size of every pool in it.

    >>> from parley.validation.tables import columns_of, draws_of, read_table
    >>> table = read_table(b"site,y,age\\nP,1,50\\nP,3,60\\nQ,5,40\\n", "past.csv", needed=())
    >>> history = History.of(draws_of(table, columns_of(table, {"covariate": "age"}, optional=("arm",))), arms=2)
    >>> history.means.tolist(), history.pool(0, 0).tolist()
    ([[2.0, 5.0], [2.0, 5.0]], [1.0, 3.0])
    """

    source: str
    outcomes: FloatArray  # (row,)
    covariates: FloatArray | None  # (row,): covariate of the same person
    starts: IntArray  # (arm, agent)
    sizes: IntArray  # (arm, agent)

    @classmethod
    def of(cls, draws: Draws, arms: int, weighed: BoolArray | None = None) -> History:
        """Sort a table into one pool per arm and agent, or one per agent if the table has no arms.

        `weighed (agent,)` says which agents have weight; the others draw nothing and need no rows. Raise if an agent
        with weight has an empty pool.
        """
        agents = len(draws.agents)
        own = draws.arm is not None
        cell = draws.agent + (agents * draws.arm if draws.arm is not None else 0)
        order = np.argsort(cell, kind="stable")
        sizes = np.bincount(cell, minlength=(arms if own else 1) * agents).reshape(-1, agents)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).reshape(-1, agents)
        empty = (sizes == 0) & (True if weighed is None else weighed)
        if empty.any():
            arm, agent = np.argwhere(empty)[0]
            of_arm = f" of {draws.arms[arm]}" if own else ""
            raise InvalidInput(draws.source, found=f"no row{of_arm} at {draws.agents[agent]}", allowed="at least one")
        return cls(
            source=draws.source,
            outcomes=draws.outcome[order],
            covariates=None if draws.covariate is None else draws.covariate[order],
            starts=np.broadcast_to(starts, (arms, agents)),
            sizes=np.broadcast_to(sizes, (arms, agents)),
        )

    def pool(self, arm: int, agent: int) -> FloatArray:
        """`(row,)`: the outcomes of an arm at an agent."""
        start = self.starts[arm, agent]
        return self.outcomes[start : start + self.sizes[arm, agent]]

    @once
    def means(self) -> FloatArray:
        """`(arm, agent)`: every pool's mean; 0 for a pool without rows."""
        return self._of_cells(lambda rows: self.outcomes[rows].mean())

    @once
    def scales(self) -> FloatArray:
        """`(arm, agent)`: the standard deviation of a random row of each pool; 1 for a pool without rows."""
        return self._of_cells(lambda rows: self.outcomes[rows].std(), 1.0)

    @once
    def covariate_means(self) -> FloatArray:
        """`(arm, agent)`: every pool's mean covariate."""
        assert self.covariates is not None
        x = self.covariates
        return self._of_cells(lambda rows: x[rows].mean())

    @once
    def correlations(self) -> FloatArray:
        """`(arm, agent)`: the correlation of outcome and covariate in every pool; 0 if either of them is constant."""
        assert self._covariates_around is not None
        x, y = self._covariates_around, self._around

        def found(rows: slice) -> float:
            size = np.sqrt(np.square(x[rows]).sum() * np.square(y[rows]).sum())
            return float((x[rows] * y[rows]).sum() / size) if size > 0 else 0.0

        return np.clip(self._of_cells(found), -CLOSEST, CLOSEST)

    def _of_cells(self, found: Callable[[slice], Any], nothing: float = 0.0) -> FloatArray:
        """`(arm, agent)`: the statistic `found(rows)` of every pool; `nothing` for a pool without rows."""
        pools = zip(self.starts.ravel().tolist(), self.sizes.ravel().tolist(), strict=True)
        numbers = [float(found(slice(start, start + size))) if size else nothing for start, size in pools]
        return np.array(numbers).reshape(self.starts.shape)

    @property
    def _arms(self) -> int:
        return len(self.starts)

    @property
    def _agents(self) -> int:
        return len(self.starts[0])

    @property
    def by_arm(self) -> bool:
        """Whether arms have pools of their own; False if all arms share their agent's pool."""
        return bool((self.starts != self.starts[:1]).any())

    def shapes(self) -> list[tuple[int | None, int, Shape]]:
        """The shape of every pool with rows, as (arm, agent, shape); the arm is None where all arms share a pool."""
        arms: range | list[None] = range(self._arms) if self.by_arm else [None]
        cells = [(arm, agent) for agent in range(self._agents) for arm in arms if self.sizes[arm or 0, agent]]
        return [(arm, agent, Shape.of(self.pool(arm or 0, agent))) for arm, agent in cells]

    def sampler(self, means: FloatArray, model: RewardModel) -> Sampler:
        """A sampler that resamples rows of the pools, moved to `means (..., arm, agent)`."""
        if model.values:
            return two_valued(means, *model.values)  # draws sums from their exact distribution

        def draw(generator: np.random.Generator, counts: IntArray) -> Totals:
            first, second = self.deviations(generator, counts, means, model)[:2]
            number = np.maximum(counts, 1)
            sums, scatter = counts * means + first, np.maximum(second - np.square(first) / number, 0.0)
            squares = np.square(sums) / number + scatter
            if model.whole:
                sums, squares = np.rint(sums), np.rint(squares)
            return Totals(counts=counts, sums=sums, squares=squares)

        return draw

    def deviations(
        self, generator: np.random.Generator, counts: IntArray, means: FloatArray, model: RewardModel
    ) -> list[FloatArray]:
        """Sums of y and y^2 over the rows drawn, `(..., arm, agent)` each; with covariates, also sums of x, x^2 and xy.

        y is an outcome's deviation from the mean to which its pool is shifted, x a covariate's deviation from the
        pool's own mean. Replication i gets the same rows however many replications follow it.
        """
        flat, shape = counts.ravel(), counts.shape
        cell = np.broadcast_to(np.arange(self.starts.size).reshape(self.starts.shape), shape).ravel()
        goal = np.broadcast_to(means, shape).ravel()
        found = np.zeros((5 if self.covariates is not None else 2, flat.size))
        # Single rows are drawn in the order of replications, multinomials pool by pool: with separate generators,
        # neither depends on how many replications follow.
        rows, moves, *pools = generator.spawn(2 + self.starts.size)
        # Discrete rewards move row by row at random, so they never use the shortcut for many draws.
        discrete = bool(model.values) or model.whole
        often = (flat > REPEATS * self.sizes.ravel()[cell]) & (not discrete)
        for piece, drawn in _pieces(np.flatnonzero(~often & (flat > 0)), flat):
            each = np.repeat(cell[piece], drawn)
            place = self.starts.ravel()[each] + (rows.random(len(each)) * self.sizes.ravel()[each]).astype(np.int64)
            y = self._around[place]
            if discrete:
                to = np.repeat(goal[piece], drawn)
                y = self._moved(moves, self.outcomes[place], self.means.ravel()[each], to, model) - to
            begins = np.concatenate([[0], np.cumsum(drawn)[:-1]])
            for column, values in enumerate(self._columns(y, place)):
                np.add.at(found[column], piece, np.add.reduceat(values, begins))
        for number in np.unique(cell[often]):
            some = np.flatnonzero(often & (cell == number))
            start, size = int(self.starts.ravel()[number]), int(self.sizes.ravel()[number])
            columns = np.stack(list(self._columns(self._around[start : start + size], slice(start, start + size))))
            for part in np.array_split(some, -(-len(some) * size // PIECE)):
                times = pools[number].multinomial(flat[part], np.full(size, 1 / size))
                found[:, part] = columns @ times.T
        if not discrete:  # a pool moves as a whole: all its deviations shrink by the same factor
            shrunk = self._shrunk(goal, self.means.ravel()[cell], model)
            found[0] *= shrunk
            found[1] *= np.square(shrunk)
            if self.covariates is not None:
                found[4] *= shrunk
        return [column.reshape(shape) for column in found]

    @once
    def _around(self) -> FloatArray:
        """`(row,)`: outcomes minus the mean of their pool; sums of these differences lose less precision."""
        return self.outcomes - self._of_pools(self.outcomes)

    @once
    def _covariates_around(self) -> FloatArray | None:
        return None if self.covariates is None else self.covariates - self._of_pools(self.covariates)

    def _of_pools(self, values: FloatArray) -> FloatArray:
        """`(row,)`: the mean of each row's pool."""
        means = np.empty(len(values))
        for start, size in set(zip(self.starts.ravel().tolist(), self.sizes.ravel().tolist(), strict=True)):
            if size:
                means[start : start + size] = values[start : start + size].mean()
        return means

    def _columns(self, y: FloatArray, place: IntArray | slice) -> Iterator[FloatArray]:
        yield y
        yield np.square(y)
        if self._covariates_around is not None:
            x = self._covariates_around[place]
            yield from (x, np.square(x), x * y)

    @staticmethod
    def _shrunk(goal: FloatArray, mean: FloatArray, model: RewardModel) -> FloatArray:
        """The factor by which deviations shrink when a pool moves from `mean` to `goal`; 1 without a range."""
        low, high = model.ends
        if not model.in_range:
            return np.ones(goal.shape)
        room = np.where(goal > mean, high - mean, mean - low)
        left = np.where(goal > mean, high - goal, goal - low)
        return np.divide(left, room, out=np.ones(goal.shape), where=goal != mean)

    @staticmethod
    def _moved(
        generator: np.random.Generator, y: FloatArray, mean: FloatArray, goal: FloatArray, model: RewardModel
    ) -> FloatArray:
        """Move single rows at random, so that the mean becomes `goal` and every row stays a whole number."""
        kept = np.divide(goal, mean, out=np.ones(goal.shape), where=mean > goal)
        if model.values:
            raised = np.divide(goal - mean, 1 - mean, out=np.zeros(goal.shape), where=goal > mean)
            chance = generator.random(len(y))
            return np.where(y > 0, (chance < kept).astype(np.float64), (chance < raised).astype(np.float64))
        lost = generator.binomial(y.astype(np.int64), kept)
        return np.asarray(lost + generator.poisson(np.maximum(goal - mean, 0.0)), dtype=np.float64)


def _pieces(cells: IntArray, counts: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Split the draws of `cells` into pieces that fit in memory; yield the cells of a piece and the draws of each.

    A large cell is split over several pieces. Cells keep their order.
    """
    number = -(-counts[cells] // PIECE)
    piece = np.repeat(cells, number)
    drawn = np.full(len(piece), PIECE, dtype=np.int64)
    if len(piece):
        drawn[np.cumsum(number) - 1] = counts[cells] - (number - 1) * PIECE
    ends = np.cumsum(drawn)
    start = 0
    while start < len(piece):
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + PIECE, side="right")))
        yield piece[start:end], drawn[start:end]
        start = end


def history_of(draws: Draws, arms: int, model: RewardModel, weighed: BoolArray | None = None) -> History:
    """The pools of a table. Raises if an outcome does not fit the model: its range, whole numbers, or its two values.

    Where the model needs 0 and 1, any two values are accepted; the smaller becomes 0, the larger 1.
    """
    outcome = draws.outcome
    if model.values:
        low, high = model.values
        found = np.unique(outcome)
        if len(found) == 2:
            outcome = np.where(outcome == found[1], high, low)
        wrong = ~np.isin(outcome, model.values)
        allowed = f"{low:g} or {high:g}, or two values in the whole table"
    else:
        least, most = model.ends
        wrong = (outcome < least) | (outcome > most)
        allowed = f"numbers from {least:g} to {most:g}"
        if model.whole:
            wrong |= outcome != np.rint(outcome)
            allowed = "whole numbers of at least 0"
    if wrong.any():
        place = int(np.argmax(wrong))
        raise draws.wrong(place, OUTCOME, f"{draws.outcome[place]:g}", allowed)
    return History.of(Draws(**vars(draws) | {"outcome": outcome}), arms, weighed)
