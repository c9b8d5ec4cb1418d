"""Totals, the only statistic of rewards in Parley: the number of rewards, their sum, and the sum of their squares.

Simulations draw these totals, agents report them, phases add them up and policies receive them. Totals of several parts
of a study add up with `+`, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.validation.checks import BoolArray, FloatArray, IntArray

UNIT = 2.0**-52  # twice the largest relative rounding error of one float64 operation


@dataclass(frozen=True, kw_only=True, eq=False)
class Totals:
    """Counts, sums and sums of squares of rewards: `(..., arm, agent)` in a study, `(arm,)` in one agent's report.

    `squares` is None if the reward model does not need them. `left` is the scatter that sites expect in their next
    phase, relative to the scatter in this phase; later plans and stakes use it. It is None if sites do not state it,
    and in sums of totals. `between` holds the totals of people who were assigned before the phase began but count in
    it (docs/changes.md): a separate stratum, in which arms are compared only with each other.

    >>> one, two = Totals.of([[1.0, 2.0], []]), Totals.of([[3.0], [5.0]])
    >>> both = one + two
    >>> both.counts.tolist(), both.sums.tolist(), both.squares.tolist(), both.means.tolist()
    ([3, 1], [6.0, 5.0], [14.0, 25.0], [2.0, 5.0])
    """

    counts: IntArray
    sums: FloatArray
    squares: FloatArray | None = None
    left: FloatArray | None = None  # scatter expected in the next phase, relative to this one's
    between: Totals | None = None

    def __post_init__(self) -> None:
        if self.between is not None and self.between.counts.shape != self.counts.shape:
            found = f"shape {self.between.counts.shape}"
            raise InvalidInput("between", found=found, allowed=f"that of counts, {self.counts.shape}")
        parts = {"sums": self.sums} if self.squares is None else {"sums": self.sums, "squares": self.squares}
        if (self.counts < 0).any():
            raise InvalidInput("counts", found=int(self.counts.min()), allowed="at least 0")
        nothing = self.counts == 0
        for name, values in parts.items():
            if values.shape != self.counts.shape:
                raise InvalidInput(name, found=f"shape {values.shape}", allowed=f"that of counts, {self.counts.shape}")
            if not np.isfinite(values).all():
                raise InvalidInput(name, found="a value that is not finite", allowed="finite numbers")
            if (values[nothing] != 0).any():
                raise InvalidInput(name, found=f"{name} without a draw", allowed="0 where the count is 0")

    @classmethod
    def of(cls, rewards: Iterable[Sequence[float]]) -> Totals:
        """`(arm,)`: the totals of every arm's rewards."""
        drawn = [[float(value) for value in values] for values in rewards]
        return cls(
            counts=np.array([len(values) for values in drawn], dtype=np.int64),
            sums=np.array([math.fsum(values) for values in drawn]),
            squares=np.array([math.fsum(value * value for value in values) for values in drawn]),
        )

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Totals:
        """Totals of no draws, as arrays of this shape."""
        return cls(counts=np.zeros(shape, dtype=np.int64), sums=np.zeros(shape), squares=np.zeros(shape))

    @classmethod
    def columns(cls, columns: Sequence[Totals | None], arms: int) -> Totals:
        """`(arm, agent)`: the totals of every agent side by side; None stands for no draws."""
        nothing = Totals.zero((arms,))
        parts = [nothing if column is None else column for column in columns]
        early = [part.between for part in parts]
        return cls(
            counts=np.stack([part.counts for part in parts], axis=-1),
            sums=np.stack([part.sums for part in parts], axis=-1),
            squares=np.stack([part.require_squares() for part in parts], axis=-1),
            left=_joined([part.left for part in parts], arms),
            between=None if all(part is None for part in early) else cls.columns(early, arms),
        )

    @classmethod
    def concatenated(cls, parts: Sequence[Totals]) -> Totals:
        """Join batches of studies along the first axis."""
        early = [part.between for part in parts]
        nobody = [
            Totals.zero(part.counts.shape) if one is None else one for part, one in zip(parts, early, strict=True)
        ]
        return cls(
            counts=np.concatenate([part.counts for part in parts]),
            sums=np.concatenate([part.sums for part in parts]),
            squares=np.concatenate([part.require_squares() for part in parts]),
            left=None
            if parts[0].left is None
            else np.concatenate([part.left for part in parts if part.left is not None]),
            between=None if all(one is None for one in early) else cls.concatenated(nobody),
        )

    @property
    def strata(self) -> tuple[Totals, ...]:
        """The parts within which arms are compared: people who came between phases, then the phase's own draws.

        >>> one = Totals(counts=np.array([2]), sums=np.array([1.0]), between=Totals.of([[3.0]]))
        >>> [part.sums.tolist() for part in one.strata]
        [[3.0], [1.0]]
        """
        return (self,) if self.between is None else (self.between, replace(self, between=None))

    @property
    def everybody(self) -> Totals:
        """The sum of all strata."""
        return self if self.between is None else self.between + replace(self, between=None)

    def __add__(self, other: Totals) -> Totals:
        if self.between is not None or other.between is not None:
            return self.everybody + other.everybody
        kept = None if self.squares is None or other.squares is None else self.squares + other.squares
        return Totals(counts=self.counts + other.counts, sums=self.sums + other.sums, squares=kept)

    def __sub__(self, other: Totals) -> Totals:
        kept = None if self.squares is None or other.squares is None else self.squares - other.squares
        return Totals(counts=self.counts - other.counts, sums=self.sums - other.sums, squares=kept)

    def __eq__(self, other: object) -> bool:
        """Whether all arrays are equal, `left` and `between` included."""
        if not isinstance(other, Totals):
            return NotImplemented
        alike = np.array_equal(self.counts, other.counts) and np.array_equal(self.sums, other.sums)
        alike = alike and self.between == other.between
        return alike and _alike(self.squares, other.squares) and _alike(self.left, other.left)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Totals:
        """Index every array in the same way, by NumPy's rules."""
        kept, left = (None if part is None else np.asarray(part[index]) for part in (self.squares, self.left))
        early = None if self.between is None else self.between[index]
        counts, sums = np.asarray(self.counts[index]), np.asarray(self.sums[index])
        return Totals(counts=counts, sums=sums, squares=kept, left=left, between=early)

    def without(self, arms: BoolArray) -> Totals:
        """The totals with the draws of the given `arms (arm,)` removed.

        >>> Totals.columns([Totals.of([[1.0], [2.0]])], 2).without(np.array([True, False])).counts.tolist()
        [[0], [1]]
        """
        kept = ~arms[:, None]
        squares = None if self.squares is None else np.where(kept, self.squares, 0.0)
        early = None if self.between is None else self.between.without(arms)
        counts, sums = np.where(kept, self.counts, 0), np.where(kept, self.sums, 0.0)
        return Totals(counts=counts, sums=sums, squares=squares, left=self.left, between=early)

    @property
    def means(self) -> FloatArray:
        """Sums divided by counts; 0 where nothing was drawn."""
        return np.asarray(self.sums / np.maximum(self.counts, 1))

    @property
    def per_draw(self) -> FloatArray:
        """`1 / counts`, or 0 where nothing was drawn."""
        return np.asarray(np.divide(1.0, self.counts, out=np.zeros(self.counts.shape), where=self.counts > 0))

    @property
    def scatter(self) -> FloatArray:
        """The sum of squares around each cell's own mean, never below 0.

        >>> Totals.of([[1.0, 3.0], [4.0]]).scatter.tolist()
        [2.0, 0.0]
        """
        around = self.require_squares() - np.square(self.sums) / np.maximum(self.counts, 1)
        return np.where(self.counts > 1, np.maximum(around, 0.0), 0.0)

    @property
    def loss(self) -> FloatArray:
        """Upper bound on the relative error of summing n numbers of one sign, in any order."""
        return np.asarray((self.counts + 16.0) * UNIT, dtype=np.float64)

    @property
    def rounding(self) -> FloatArray:
        """Upper bound on the rounding error of `scatter`. If rewards hardly vary, it may be as large as `scatter`.

        The squares have a relative error of at most `loss / 2`. The sum has an error of at most `loss / 2` times sum
        |x|, so the squared sum divided by n has an error of at most `loss` times the squares (Cauchy-Schwarz).
        """
        return np.asarray(2 * self.loss * self.require_squares())

    def mixed_rounding(self, weights: FloatArray) -> FloatArray:
        """`(..., arm, agent)`: upper bound on the rounding error of a mixed mean (docs/rewards.md)."""
        lost = self.loss + len(weights) * UNIT
        return np.asarray((lost * np.sqrt(self.require_squares() / np.maximum(self.counts, 1))) @ weights)

    def require_squares(self) -> FloatArray:
        """The sums of squares; raises if they were not kept."""
        if self.squares is None:
            raise InvalidInput("squares", found="none kept", allowed="sums of squares, with this reward model")
        return self.squares


def _alike(one: FloatArray | None, other: FloatArray | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def _joined(columns: Sequence[FloatArray | None], arms: int) -> FloatArray | None:
    """`(arm, agent)`: the `left` of every agent, with 1 for an agent that states none; None if no agent states any."""
    if all(column is None for column in columns):
        return None
    return np.stack([np.ones(arms) if column is None else column for column in columns], axis=-1)
