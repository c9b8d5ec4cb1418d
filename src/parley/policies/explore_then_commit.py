"""Explore, then commit: identify everyone's best arm with `evidence` at an error of 1 / T, then play it to the end.

What one does who knows how to identify and has never heard of regret: draws cost the same wherever they are made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.policies.base import State
from parley.policies.evidence_racing import EvidenceRacing
from parley.policies.playing import Playing
from parley.problem import IntArray

__all__ = ["ExploreThenCommit"]


@dataclass(frozen=True, kw_only=True)
class ExploreThenCommit(Playing, EvidenceRacing):
    """The options of `evidence`. Who has time during a phase plays its leader meanwhile."""

    name: ClassVar[str] = "explore-then-commit"

    def __post_init__(self) -> None:
        Playing.__post_init__(self)
        EvidenceRacing.__post_init__(self)

    @property
    def guarantee(self) -> str:
        return "all answers right with probability at least 1 - 1 / T, unless the horizon comes first"

    @property
    def line(self) -> float:
        """log(M T): the line of `evidence` at delta = 1 / T."""
        assert isinstance(self.problem.horizon, int)
        return math.log(self.problem.agent_count * max(self.problem.horizon, 2))

    def _explored(self, state: State) -> tuple[IntArray, IntArray]:
        explored = np.zeros(state.counts.shape, dtype=np.int64)
        racing = ~state.finished & ~self._decided(state)
        if racing.any():
            explored[racing] = EvidenceRacing._wanted(self, state.take(racing))
        return explored, np.where(racing, explored.sum(axis=-2).max(axis=-1), self.remaining(state.counts).max(axis=-1))
