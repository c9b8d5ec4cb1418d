"""What a solve gives back: an allocation, its value, and the proof that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from parley.problem import FloatArray

__all__ = ["Solution", "Status"]


class Status(Enum):
    """How a solve ended; the value is what a person reads.

    >>> Status.SOLVED.value
    'solved to the accuracy asked for'
    """

    SOLVED = "solved to the accuracy asked for"
    OUT_OF_STEPS = "NOT solved to the accuracy asked for: out of steps"


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A feasible allocation, its value, and the proof of how far from the optimum it can be at most.

    >>> import parley
    >>> solution = parley.solve(parley.ArmPrograms.of(np.eye(2), np.array([[0.5, 0.125]])))
    >>> float(solution.value[0].round(6)), float(solution.gap[0]) < 1e-9
    (10.0, True)
    """

    value: FloatArray  # (programs): cost of the allocation, an upper bound on the optimum
    lower: FloatArray  # (programs): what the multipliers prove, a lower bound on the optimum
    allocation: FloatArray  # (..., arm, agent): feasible
    dual: FloatArray  # one multiplier per row, scaled so that b . dual = 1
    shares: FloatArray | None = None  # (programs, agent): with a pace, who bears how much of a day
    status: Status
    steps: int

    @property
    def gap(self) -> FloatArray:
        """`(value - lower) / value`, 0 where the value is 0."""
        gap = np.where(self.value > 0, 1 - self.lower / np.where(self.value > 0, self.value, 1), 0.0)
        return np.maximum(gap, 0.0)  # below 0 by rounding only
