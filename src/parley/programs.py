"""The two shapes of harmonic program, as linear operators: no matrix is formed, a batch is one stacked product.

`ArmPrograms` decouple by arm (relaxed bounds, W-CPE's oracle); `ContrastPrograms` couple an arm with its opponents
(exact bounds, the plan of evidence racing). `parley.harmonic` solves both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from parley.errors import InvalidInput
from parley.problem import BoolArray, FloatArray, IntArray

SMALLEST_BOUND = 1e-200  # keeps every product and sum within float64

__all__ = ["ArmPrograms", "ContrastPrograms", "Programs"]


class Programs(Protocol):
    """A batch of programs, flattened: P programs, each with its variables and rows in the trailing axes, and b = 1."""

    @property
    def costs(self) -> FloatArray:
        """What a unit of each variable costs."""

    @property
    def inverse(self) -> FloatArray:
        """1 / b; 0 marks a row that asks for nothing."""

    def columns(self, multipliers: FloatArray) -> FloatArray:
        """A lam: rows to variables."""

    def rows(self, reciprocals: FloatArray) -> FloatArray:
        """A^T y: variables to rows."""

    def touched(self) -> BoolArray:
        """Which variables stand in some live row; the others are 0."""

    def repaired(self, allocation: FloatArray, ratios: FloatArray) -> FloatArray:
        """A feasible allocation near `allocation`, whose rows evaluate to `ratios` (feasible means at most 1)."""

    def take(self, chosen: IntArray | BoolArray) -> Self:
        """Some of the programs."""

    def dense(self) -> FloatArray:
        """`(variable, row)`: the matrix A of a batch of one program, for programs small enough to write it down."""


def _inverse(bounds: FloatArray) -> FloatArray:
    if not (bounds >= SMALLEST_BOUND).all():
        allowed = f"numbers of at least {SMALLEST_BOUND:g} (infinity drops a row)"
        raise InvalidInput("right side of a constraint", found=bounds.min(), allowed=allowed)
    return 1 / bounds


def _checked(squared_weights: FloatArray, costs: FloatArray) -> None:
    if not (np.isfinite(squared_weights) & (squared_weights >= 0)).all():
        raise InvalidInput("squared_weights", found=squared_weights.min(), allowed="finite numbers of at least 0")
    if not (costs > 0).all():
        raise InvalidInput("costs", found=costs.min(), allowed="positive numbers (infinity leaves a variable out)")


@dataclass(frozen=True)
class ArmPrograms:
    """Rows (k, m): `sum_n weights[n, m]^2 / x[k, n] <= bounds[k, m]`; one program of M variables per arm.

    `bounds` and `costs` are `(programs, agent)`. A variable with infinite cost is left out of the sums (the regret
    bound C* drops agents that already play the arm).
    """

    squared_weights: FloatArray
    costs: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, squared_weights: FloatArray, bounds: FloatArray, costs: FloatArray | None = None) -> ArmPrograms:
        """From `bounds (programs, agent)`, 1 for every cost unless told otherwise."""
        costs = np.ones_like(bounds) if costs is None else costs
        _checked(squared_weights, costs)
        return cls(squared_weights, np.broadcast_to(costs, bounds.shape), _inverse(bounds))

    def columns(self, multipliers: FloatArray) -> FloatArray:
        on_variables: FloatArray = (multipliers * self.inverse) @ self.squared_weights.T
        return on_variables

    def rows(self, reciprocals: FloatArray) -> FloatArray:
        return (reciprocals @ self.squared_weights) * self.inverse

    def touched(self) -> BoolArray:
        pattern = replace(self, squared_weights=(self.squared_weights > 0).astype(np.float64))
        return (pattern.columns(np.ones_like(self.inverse)) > 0) & np.isfinite(self.costs)

    def repaired(self, allocation: FloatArray, ratios: FloatArray) -> FloatArray:
        return np.asarray(allocation * ratios.max(axis=-1, keepdims=True))

    def take(self, chosen: IntArray | BoolArray) -> ArmPrograms:
        return ArmPrograms(self.squared_weights, self.costs[chosen], self.inverse[chosen])

    def dense(self) -> FloatArray:
        matrix: FloatArray = self.squared_weights * self.inverse
        return matrix


@dataclass(frozen=True)
class ContrastPrograms:
    """Rows (j, k, m) about arm k against its j-th opponent o for agent m, with the arms coupled.

    `sum_n weights[n, m]^2 (1/x[k, n] + 1/x[o, n]) <= bounds[j, k, m]` where `o = opponents[j, k, m]`. Shapes:
    `opponents` and `bounds` are `(programs, opponent, arm, agent)`, `costs` is `(programs, arm, agent)`.
    """

    squared_weights: FloatArray
    costs: FloatArray
    inverse: FloatArray
    opponents: IntArray

    @classmethod
    def of(
        cls,
        squared_weights: FloatArray,
        opponents: IntArray,
        bounds: FloatArray,
        costs: FloatArray | None = None,
    ) -> ContrastPrograms:
        """From `opponents` and `bounds`, both `(programs, opponent, arm, agent)`."""
        programs, _, arms, agents = bounds.shape
        costs = np.ones((programs, arms, agents)) if costs is None else costs
        _checked(squared_weights, costs)
        return cls(squared_weights, costs, _inverse(bounds), opponents)

    def _flat(self) -> tuple[IntArray, int]:
        """Position of every row's opponent in a flattened (program, arm, agent) array, and that array's size."""
        programs, _, arms, agents = self.inverse.shape
        program = np.arange(programs)[:, None, None, None]
        return ((program * arms + self.opponents) * agents + np.arange(agents)).ravel(), programs * arms * agents

    def columns(self, multipliers: FloatArray) -> FloatArray:
        weighted = multipliers * self.inverse
        where, size = self._flat()
        on_opponents = np.bincount(where, weights=weighted.ravel(), minlength=size)
        own = weighted.sum(axis=1)
        on_variables: FloatArray = (own + on_opponents.reshape(own.shape)) @ self.squared_weights.T
        return on_variables

    def rows(self, reciprocals: FloatArray) -> FloatArray:
        variances = (reciprocals @ self.squared_weights)[:, None]
        return (variances + np.take_along_axis(variances, self.opponents, axis=2)) * self.inverse

    def touched(self) -> BoolArray:
        positive = (self.squared_weights > 0).astype(np.float64)
        return (
            ContrastPrograms(positive, self.costs, self.inverse, self.opponents).columns(np.ones_like(self.inverse)) > 0
        )

    def repaired(self, allocation: FloatArray, ratios: FloatArray) -> FloatArray:
        # Scaling an arm by the largest ratio of the rows that touch it settles each of those rows, and leaves the
        # arms of slack rows alone: far cheaper than scaling everything by the single worst row.
        programs, _, arms, _ = ratios.shape
        per_arm = ratios.max(axis=(1, 3))
        pair = (np.arange(programs)[:, None, None, None] * arms + self.opponents).ravel()
        flat = per_arm.ravel()
        np.maximum.at(flat, pair, ratios.ravel())
        return np.asarray(allocation * flat.reshape(programs, arms, 1))

    def take(self, chosen: IntArray | BoolArray) -> ContrastPrograms:
        return ContrastPrograms(self.squared_weights, self.costs[chosen], self.inverse[chosen], self.opponents[chosen])

    def dense(self) -> FloatArray:
        rows = self.inverse.size
        one_each = self.take(np.zeros(rows, dtype=np.int64))
        return one_each.columns(np.eye(rows).reshape(rows, *self.inverse.shape[1:])).reshape(rows, -1).T
