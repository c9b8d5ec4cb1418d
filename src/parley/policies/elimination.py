"""Policies that rule arms out until every agent has its N."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from parley.policies.base import Policy, State
from parley.problem import BoolArray, FloatArray

__all__ = ["Elimination", "nth_largest"]


def nth_largest(values: FloatArray, n: int, among: BoolArray) -> FloatArray:
    """The n-th largest over the arm axis among the marked arms, kept as `(..., 1, agent)`; -inf with fewer than n.

    >>> nth_largest(np.array([[3.0], [9.0], [5.0]]), 2, np.array([[True], [False], [True]])).tolist()
    [[3.0]]
    """
    masked = np.where(among, values, -np.inf)
    place = masked.shape[-2] - n
    return np.partition(masked, place, axis=-2)[..., place : place + 1, :]


@dataclass(frozen=True, kw_only=True)
class Elimination(Policy):
    """Subclasses say which arms to keep. An arm is only ruled out on data; an agent always keeps at least N arms.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> *_, last = parley.phases(parley.make_policy("evidence", problem), instance, seed=0)
    >>> last.after.active.tolist(), last.after.eliminated_in.tolist()  # the second arm, for both, in phase 2
    ([[True, True], [False, False]], [[0, 0], [2, 2]])
    """

    @abstractmethod
    def _keep(self, before: State, after: State) -> BoolArray:
        """Which active arms stay candidates, given the state before the phase and the totals after it."""

    def _decide(self, before: State, after: State) -> State:
        active = before.active & (self._keep(before, after) | before.finished[..., None, None])
        ruled_out = before.active & ~active
        return replace(
            after,
            active=active,
            eliminated_in=np.where(ruled_out, after.phase[..., None, None], before.eliminated_in),
        )

    def _finished(self, state: State) -> BoolArray:
        """Every agent that asks has its top N."""
        return np.asarray(((state.active.sum(axis=-2) <= self.problem.top) | ~self._asked).all(axis=-1))
