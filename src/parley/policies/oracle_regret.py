"""The oracle of regret: knows the true gaps, explores what the lower bound says once, and plays the best arms.

Its regret is C* log T up to rounding: what nobody who must find the gaps out can be expected to stay below for long
horizons. It learns nothing and needs to learn nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.bounds import regret
from parley.errors import InvalidInput
from parley.once import once
from parley.policies.base import Explanation, State
from parley.policies.playing import Playing
from parley.problem import BoolArray, Instance, IntArray

__all__ = ["OracleRegret"]


@dataclass(frozen=True, kw_only=True)
class OracleRegret(Playing):
    """`accuracy`: how close the allocation must provably be to the cheapest one."""

    name: ClassVar[str] = "oracle-regret"
    instance: Instance
    accuracy: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.instance.problem.shape != self.problem.shape:
            raise InvalidInput("instance", found=self.instance.problem.shape, allowed=str(self.problem.shape))
        self.instance.require_distinct()

    @property
    def guarantee(self) -> str:
        return "plays the best arms (told the true gaps, which no real study is)"

    @once
    def _counts(self) -> IntArray:
        assert isinstance(self.problem.horizon, int)
        allocation = regret(self.instance, accuracy=self.accuracy).allocation * math.log(self.problem.horizon)
        return np.where(self.instance.best, 0, np.floor(np.minimum(allocation, 2.0**53) + 0.5)).astype(np.int64)

    def leaders(self, state: State) -> BoolArray:
        return np.broadcast_to(self.instance.best, state.counts.shape)

    def _played(self, state: State, idle: IntArray, time: IntArray) -> IntArray:  # noqa: ARG002
        return np.where(self.leaders(state), idle, 0)

    def _explored(self, state: State) -> tuple[IntArray, IntArray]:
        explored = np.maximum(self._counts - state.counts, 0)
        return explored, self.remaining(state.counts).max(axis=-1)

    def _keep(self, before: State, after: State) -> BoolArray:  # noqa: ARG002
        """It has nothing to find out: at the horizon the best arms are what was played."""
        return np.asarray(self.leaders(after) | ~self._finished(after)[..., None, None])

    def explain(self, state: State) -> Explanation:
        mixed = self.problem.mixed(state.means)
        return Explanation(
            mixed_means=mixed,
            radius=np.zeros_like(mixed),
            score=np.where(state.active, 0.0, self.instance.gaps),
            line=0.0,
            words="the true gap of the arms that are not played",
        )
