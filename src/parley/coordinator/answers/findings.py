"""What a study has found so far, in numbers with intervals. Not for blinded readers."""

from __future__ import annotations

from dataclasses import dataclass

from parley.coordinator.answers.base import Answer

__all__ = ["AgentFound", "ArmFound", "Findings", "Measured"]


@dataclass(frozen=True, kw_only=True)
class Measured(Answer):
    """An estimate, the interval that holds jointly and at every phase, and the usual one; null without data."""

    estimate: float | None
    low: float | None
    high: float | None
    fixed_low: float | None
    fixed_high: float | None


@dataclass(frozen=True, kw_only=True)
class ArmFound(Answer):
    """An arm of an agent: its mixed mean, and how it differs from the leader and from the control."""

    arm: str
    candidate: bool
    chosen: bool  # an answer
    ruled_out_in: int  # the phase, 0 while a candidate
    draws: int
    mean: Measured
    to_leader: Measured
    to_control: Measured | None


@dataclass(frozen=True, kw_only=True)
class AgentFound(Answer):
    """An agent: how its question ended, the best estimate among its candidates, and every arm."""

    agent: str
    end: str
    leader: str | None
    arms: list[ArmFound]


@dataclass(frozen=True, kw_only=True)
class Findings(Answer):
    """Every mean and difference after a decided phase, with intervals that hold all together at the `level`."""

    study: str
    stage: str
    phase: int  # after how many decided phases
    phases: int  # how many there are
    level: float
    control: str | None
    rates: bool  # rewards are 0 or 1, and means are shares
    words: str
    first: int  # the place of the first agent told of
    agent_count: int
    agents: list[AgentFound]
