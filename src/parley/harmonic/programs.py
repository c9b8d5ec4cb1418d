"""The two kinds of harmonic programs as linear operators: no matrix is formed, and a batch is multiplied at once.

`ArmPrograms` decouple by arm (relaxed bounds, W-CPE's oracle); `ContrastPrograms` couple an arm with its opponents
(exact bounds, the plans of evidence racing).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np

from parley.errors import InvalidInput
from parley.problem import BoolArray, FloatArray, IntArray
from parley.system.once import once

SMALLEST_BOUND = 1e-200  # keeps every product and sum within float64
SHORT = 16  # longest axis whose maximum is taken slice by slice


@dataclass(frozen=True, kw_only=True)
class Programs(ABC):
    """A batch of programs; the first axis of each array is the program, and the others are its variables or rows.

    Only `squared_weights`, which all programs share, has no such axis.

    `parley.harmonic.solver` defines A, b and lam; rows are scaled so that b = 1. A variable with infinite cost is
    omitted from the sums (the regret bound C* drops agents that already play the arm).
    """

    squared_weights: FloatArray
    costs: FloatArray  # cost per unit of each variable
    inverse: FloatArray  # 1 / b; 0 marks a row without a constraint
    variances: FloatArray | None  # v in the docstrings below, the variance of each variable's cell: 1 unless given

    @classmethod
    def _made(
        cls,
        squared_weights: FloatArray,
        bounds: FloatArray,
        shape: tuple[int, ...],
        costs: FloatArray | None,
        variances: FloatArray | None,
        **more: Any,
    ) -> Self:
        """Check the arguments and build programs; `shape` is the variables' shape, and costs are 1 unless given."""
        costs = np.ones(shape) if costs is None else costs
        if not (np.isfinite(squared_weights) & (squared_weights >= 0)).all():
            raise InvalidInput("squared_weights", found=squared_weights.min(), allowed="finite numbers of at least 0")
        if not (costs >= 0).all():
            allowed = "numbers of at least 0 (infinity leaves a variable out)"
            raise InvalidInput("costs", found=costs.min(), allowed=allowed)
        if variances is not None and not (np.isfinite(variances) & (variances > 0)).all():
            raise InvalidInput("variances", found=variances.min(), allowed="finite numbers above 0, one per cell")
        if not (bounds >= SMALLEST_BOUND).all():
            allowed = f"numbers of at least {SMALLEST_BOUND:g} (infinity drops a row)"
            raise InvalidInput("right side of a constraint", found=bounds.min(), allowed=allowed)
        return cls(
            squared_weights=squared_weights,
            costs=np.broadcast_to(costs, shape),
            inverse=1 / bounds,
            variances=None if variances is None else np.broadcast_to(variances, shape),
            **more,
        )

    @abstractmethod
    def columns(self, multipliers: FloatArray) -> FloatArray:
        """The product A lam, which maps multipliers of the rows to the variables."""

    @abstractmethod
    def rows(self, reciprocals: FloatArray) -> FloatArray:
        """The product A^T y, which maps reciprocals of the variables to the rows."""

    @abstractmethod
    def repaired(self, allocation: FloatArray, ratios: FloatArray) -> FloatArray:
        """A feasible allocation near `allocation`.

        `ratios` are the row values of `allocation`; a row is satisfied if its value is at most 1.
        """

    def _scattered(self, values: FloatArray) -> FloatArray:
        return values if self.variances is None else values * self.variances

    def touched(self) -> BoolArray:
        """Which variables of finite cost appear in a row with a constraint; the others are 0 in a solution."""
        pattern = replace(self, squared_weights=(self.squared_weights > 0).astype(np.float64), variances=None)
        return np.asarray((pattern.columns(np.ones_like(self.inverse)) > 0) & np.isfinite(self.costs))

    def take(self, chosen: IntArray | BoolArray) -> Self:
        """The programs of a subset of the batch."""
        spread = None if self.variances is None else self.variances[chosen]
        return replace(self, costs=self.costs[chosen], inverse=self.inverse[chosen], variances=spread)

    def dense(self) -> FloatArray:
        """`(variable, row)`: the matrix A of a batch that consists of one small program."""
        rows = self.inverse.size
        one_each = self.take(np.zeros(rows, dtype=np.int64))
        return one_each.columns(np.eye(rows).reshape(rows, *self.inverse.shape[1:])).reshape(rows, -1).T


@dataclass(frozen=True, kw_only=True)
class ArmPrograms(Programs):
    """One program of M variables for every arm k, with a row for every agent m.

    The rows are `sum_n weights[n, m]^2 v[k, n] / x[k, n] <= bounds[k, m]`.

    >>> alone = np.eye(2)
    >>> ArmPrograms.of(alone, np.array([[0.5, 0.125]])).rows(np.array([[0.5, 0.125]])).tolist()  # 1: nothing to spare
    [[1.0, 1.0]]
    """

    @classmethod
    def of(
        cls,
        squared_weights: FloatArray,
        bounds: FloatArray,
        costs: FloatArray | None = None,
        variances: FloatArray | None = None,
    ) -> ArmPrograms:
        """Programs with `bounds`, `costs` and `variances`, all `(programs, agent)`."""
        return cls._made(squared_weights, bounds, bounds.shape, costs, variances)

    def columns(self, multipliers: FloatArray) -> FloatArray:
        return self._scattered((multipliers * self.inverse) @ self.squared_weights.T)

    def rows(self, reciprocals: FloatArray) -> FloatArray:
        return np.asarray((self._scattered(reciprocals) @ self.squared_weights) * self.inverse)

    def repaired(self, allocation: FloatArray, ratios: FloatArray) -> FloatArray:
        return np.asarray(allocation * ratios.max(axis=-1, keepdims=True))


def _largest_along(values: FloatArray, axis: int) -> FloatArray:
    """The maximum along an axis, taken slice by slice if the axis is short, which is many times faster."""
    if values.shape[axis] > SHORT:
        return np.asarray(values.max(axis=axis))
    return np.asarray(reduce(np.maximum, (values.take(place, axis) for place in range(values.shape[axis]))))


@dataclass(frozen=True, kw_only=True)
class ContrastPrograms(Programs):
    """Programs with a row (j, k, m) for arm k against its j-th opponent o, for agent m; a row couples the two arms.

    `sum_n weights[n, m]^2 (v[k, n] / x[k, n] + v[o, n] / x[o, n]) <= bounds[j, k, m]` where `o = opponents[j, k, m]`.

    >>> opponents, bounds = np.array([[[[1], [0]]]]), np.array([[[[1.0], [np.inf]]]])
    >>> programs = ContrastPrograms.of(np.eye(1), opponents, bounds)
    >>> programs.rows(np.array([[[0.5], [0.5]]])).ravel().tolist()  # two draws of each suffice; row two has no bound
    [1.0, 0.0]
    """

    opponents: IntArray

    @classmethod
    def of(
        cls,
        squared_weights: FloatArray,
        opponents: IntArray,
        bounds: FloatArray,
        costs: FloatArray | None = None,
        variances: FloatArray | None = None,
    ) -> ContrastPrograms:
        """Build programs; `costs` and `variances` are `(programs, arm, agent)`.

        `opponents` and `bounds` are `(programs, opponent, arm, agent)`.
        """
        shape = (len(bounds), *bounds.shape[2:])
        return cls._made(squared_weights, bounds, shape, costs, variances, opponents=opponents)

    @classmethod
    def alone(
        cls,
        squared_weights: FloatArray,
        bounds: FloatArray,
        costs: FloatArray | None = None,
        variances: FloatArray | None = None,
    ) -> ContrastPrograms:
        """Programs that hold all arms, each arm on its own as in `ArmPrograms`, so that a pace can couple the arms.

        `bounds` are `(programs, arm, agent)`. An arm is its own opponent here and counts twice, so its bound is
        doubled.
        """
        itself = np.arange(bounds.shape[-2])[:, None]
        opponents = np.broadcast_to(itself, (len(bounds), 1, *bounds.shape[-2:]))
        return cls.of(squared_weights, opponents, 2 * bounds[:, None], costs, variances)

    @once
    def _opposite(self) -> IntArray:
        """`(programs, opponent, arm, agent)`: every row's opponent as an index into the flattened variables."""
        programs, _, arms, agents = self.inverse.shape
        first = np.arange(0, programs * arms * agents, arms * agents)[:, None, None, None]
        return np.asarray(first + self.opponents * agents + np.arange(agents))

    def columns(self, multipliers: FloatArray) -> FloatArray:
        weighted = multipliers * self.inverse
        own = reduce(np.add, weighted.swapaxes(0, 1))  # slice by slice: faster than a sum along a short axis
        on_opponents = np.bincount(self._opposite.ravel(), weights=weighted.ravel(), minlength=own.size)
        return self._scattered((own + on_opponents.reshape(own.shape)) @ self.squared_weights.T)

    def rows(self, reciprocals: FloatArray) -> FloatArray:
        variances = (self._scattered(reciprocals) @ self.squared_weights)[:, None]
        return np.asarray((variances + variances.ravel()[self._opposite]) * self.inverse)

    def repaired(self, allocation: FloatArray, ratios: FloatArray) -> FloatArray:
        # Scaling each arm by the largest ratio among its rows makes these rows feasible and leaves arms with slack
        # rows unchanged, which costs far less than scaling everything by the single worst row.
        programs, _, arms, _ = ratios.shape
        flat = _largest_along(_largest_along(ratios, axis=3), axis=1).flatten()  # a copy: it is written to
        pair = (np.arange(0, programs * arms, arms)[:, None, None, None] + self.opponents).ravel()
        np.maximum.at(flat, pair, ratios.ravel())
        return np.asarray(allocation * flat.reshape(programs, arms, 1))

    def take(self, chosen: IntArray | BoolArray) -> ContrastPrograms:
        return replace(super().take(chosen), opponents=self.opponents[chosen])
