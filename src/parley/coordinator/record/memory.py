"""What a storage remembers of its database, and how a connection finds it."""

from __future__ import annotations

from typing import TypeAlias

from sqlalchemy import Connection

from parley.coordinator.cache import Cache
from parley.estimates import Estimates
from parley.policies import Explanation, State
from parley.problem import IntArray
from parley.protocol import StudyMessage
from parley.protocol.scatter import Scatter
from parley.rewards import Past
from parley.totals import Totals

__all__ = ["Memory", "PhaseKey", "memory_of"]

PhaseKey: TypeAlias = tuple[str, str, int]  # a study's id and digest, and a decided phase of it


class Memory:
    """What need not be read twice, since it never changes: studies, and what decided phases amount to."""

    def __init__(self) -> None:
        # A study of 2,000 agents has four million weights, and takes a hundred megabytes.
        self.studies: Cache[str, StudyMessage] = Cache(
            64, weigh=lambda study: len(study.agents) ** 2, heaviest=5_000_000
        )
        self.states: Cache[PhaseKey, tuple[State, Explanation]] = Cache(24)
        self.scatters: Cache[PhaseKey, Scatter] = Cache(24)
        self.pasts: Cache[PhaseKey, tuple[Past | None]] = Cache(24)  # by when its phase began
        self.decisions: Cache[PhaseKey, tuple[IntArray, IntArray, bool]] = Cache(48)
        self.totals: Cache[PhaseKey, Totals] = Cache(500, weigh=lambda totals: totals.counts.size, heaviest=2_000_000)
        # With the place of the first agent told of, and how many of them.
        self.estimates: Cache[tuple[str, str, int, int, int], Estimates] = Cache(
            24, weigh=lambda found: found.mean.value.size, heaviest=1_000_000
        )
        # What sites say of a phase: recruited, observed. Nothing is decided by it; forgotten, it is told anew.
        self.recruited: Cache[tuple[str, str, int], tuple[int, int]] = Cache(20_000)


def memory_of(connection: Connection) -> Memory:
    """The memory of the storage that a connection belongs to; one that is forgotten, if it belongs to none."""
    found: Memory = connection.get_execution_options().get("memory") or Memory()
    return found
