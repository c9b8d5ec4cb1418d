"""What a study's data say so far. What is told arm by arm is null for blinded readers (docs/api.md, Blinding)."""

from __future__ import annotations

from dataclasses import dataclass

from parley.coordinator.answers.base import Answer

__all__ = ["Board", "ByArm", "Elimination", "EstimatedRegret", "Explained", "History", "PhaseTold", "Play"]

Counts = list[list[int]]  # [arm][agent]
Numbers = list[list[float | None]]  # [arm][agent]; null where not finite


@dataclass(frozen=True, kw_only=True)
class ByArm(Answer):
    """Over all agents."""

    candidate_of: list[int]
    chosen_by: list[int]
    drawn: list[int]


@dataclass(frozen=True, kw_only=True)
class EstimatedRegret(Answer):
    """Of all draws so far and all agents, by present estimates; two standard errors to either side."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Play(Answer):
    """What is played until a horizon; of blinded readers and before any data, only how long."""

    horizon: int | str
    left: list[int]  # draws of each agent until the horizon
    regret: EstimatedRegret | None = None
    agents: list[float] | None = None  # each agent's part of it
    leaders: list[str] | None = None  # what each agent plays
    exploring: list[int] | None = None  # draws of the phase in progress that are not the leader's


@dataclass(frozen=True, kw_only=True)
class Board(Answer):
    """Arm x agent: who is still a candidate of whom, who was ruled out when, and the answers once there are any."""

    study: str
    stage: str
    phases: int  # decided so far
    blinded: bool
    arms: list[str]
    agents: list[str]  # those told of
    first: int  # the place of the first of them
    agent_count: int
    top: int
    open_pairs: int
    decided_agents: int
    candidates: list[int]  # arms that an agent still has
    drawn: list[int]
    planned: list[int]  # in the phase in progress
    ends: list[str]  # how an agent's question ended: decided, accepted, exhausted, blocked, cancelled or open
    rates: list[float] | None  # draws a day, where the study states them
    round_days: float
    active: list[list[bool]] | None
    eliminated_in: Counts | None  # the phase, 0 while a candidate
    chosen: list[list[bool]] | None  # the answers of a finished study
    counts: Counts | None
    plan: Counts | None
    by_arm: ByArm | None
    play: Play | None = None  # with a horizon


@dataclass(frozen=True, kw_only=True)
class Explained(Answer):
    """The policy's case after a phase: an arm is out when its score passes the line."""

    mixed_means: Numbers
    radius: Numbers
    score: Numbers
    line: float
    words: str  # what the score is


@dataclass(frozen=True, kw_only=True)
class Elimination(Answer):
    """An arm that a phase ruled out for an agent."""

    arm: str
    agent: str


@dataclass(frozen=True, kw_only=True)
class PhaseTold(Answer):
    """What a decided phase brought."""

    phase: int
    opened_at: str
    closed_at: str
    samples: int
    drawn: list[int]  # per agent
    finished: bool
    ruled_out: int  # pairs of arm and agent
    counts: Counts | None
    eliminated: list[Elimination] | None
    explanation: Explained | None


@dataclass(frozen=True, kw_only=True)
class History(Answer):
    """What every decided phase brought, oldest first."""

    study: str
    arms: list[str]
    agents: list[str]
    blinded: bool
    phases: list[PhaseTold]
