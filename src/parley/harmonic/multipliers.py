"""Multipliers that find their own pace: the multiplicative step that `parley.harmonic` and `parley.schedule` share.

A multiplier moves by `exp(exponent * pull)`, where the pull is 0 at the optimum. A fixed exponent stalls on rows that
are almost tight: their multiplier has far to go and moves by a factor close to 1. So every row has its own exponent,
which grows while the row keeps its direction and shrinks when it turns (the idea of resilient back-propagation), ever
less eagerly as steps go by, so that rows that are almost copies of each other stop chasing one another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.problem import BoolArray, FloatArray

__all__ = ["Multipliers", "largest", "per_program", "total"]

GROWTH, PATIENCE, SHRINK, LEAST, MOST = 0.5, 60, 0.5, 0.02, 1e4
LARGEST_STEP = (-20.0, 3.0)  # of log lam: a row may vanish quickly but must come back gently
FLOOR = 1e-100  # a multiplier never becomes 0: it could not grow again


def total(values: FloatArray) -> FloatArray:
    """`(programs,)`: the sum over everything of a program."""
    summed: FloatArray = values.sum(axis=tuple(range(1, values.ndim)))
    return summed


def largest(values: FloatArray) -> FloatArray:
    """`(programs,)`: the largest of a program, at least 0."""
    return np.asarray(values.max(axis=tuple(range(1, values.ndim)), initial=0.0))


def per_program(values: FloatArray, like: FloatArray) -> FloatArray:
    """One number per program, shaped to meet `like`."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


@dataclass
class Multipliers:
    """Weights that add up to 1 in every program, 0 where not `wanted`, moved in place.

    >>> weights = Multipliers.start(np.ones((1, 2)), np.ones((1, 2)), exponent=1.0)
    >>> weights.move(np.log([[3.0, 1.0]]), steps=1)
    >>> weights.values.round(6).tolist()
    [[0.633975, 0.366025]]
    """

    values: FloatArray
    wanted: FloatArray  # 1 where a multiplier is wanted, else 0
    exponents: FloatArray
    before: FloatArray  # the last pull
    exponent: float  # where every row starts

    @classmethod
    def start(cls, values: FloatArray, wanted: FloatArray, *, exponent: float) -> Multipliers:
        """From any positive weights."""
        return cls(_normal(values), wanted, np.full_like(values, exponent), np.zeros_like(values), exponent)

    def move(self, pull: FloatArray, steps: int) -> None:
        """One step; `steps` were made in all."""
        self.exponents *= np.where(pull * self.before > 0, 1 + GROWTH / (1 + steps / PATIENCE), SHRINK)
        np.clip(self.exponents, LEAST * self.exponent, MOST * self.exponent, out=self.exponents)
        self.before = pull
        moved = self.values * np.exp(np.clip(self.exponents * pull, *LARGEST_STEP))
        self.values = _normal(np.maximum(moved, FLOOR) * self.wanted)

    def put(self, values: FloatArray) -> None:
        """Other values, the exponents as they are."""
        self.values = _normal(values)

    def take(self, chosen: BoolArray) -> Multipliers:
        """Some of the programs."""
        values, wanted = self.values[chosen], self.wanted[chosen]
        return Multipliers(values, wanted, self.exponents[chosen], self.before[chosen], self.exponent)


def _normal(values: FloatArray) -> FloatArray:
    return np.asarray(values / per_program(total(values), values))
