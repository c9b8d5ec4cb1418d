"""What agents are asked, and the reports that were taken or put aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parley.coordinator.answers.base import Answer

__all__ = ["AgentTurn", "Aside", "Quarantine", "ReportOfAgent", "Reports", "SaltedReport", "TakenReport"]


@dataclass(frozen=True, kw_only=True)
class AgentTurn(Answer):
    """What an agent is asked to draw now."""

    study: str
    agent: str
    stage: str
    reason: str
    phase: int
    plan: str | None  # digest of the plan in force
    arms: list[str]
    draws: list[int] | None  # null: nothing is asked of this agent
    reported: bool
    frozen: bool


@dataclass(frozen=True, kw_only=True)
class TakenReport(Answer):
    """A report that was taken, with its receipt."""

    report: dict[str, Any]  # parley/report/1
    revision: int  # 0 as the agent sent it, later ones by amendment
    at: str
    receipt: dict[str, Any]  # parley/receipt/1


@dataclass(frozen=True, kw_only=True)
class SaltedReport(TakenReport):
    """With the salt of its record, for the agent itself and for those who may read the log."""

    salt: str | None


@dataclass(frozen=True, kw_only=True)
class ReportOfAgent(SaltedReport):
    """The report that counts, and earlier revisions if it was amended."""

    earlier: list[SaltedReport]


@dataclass(frozen=True, kw_only=True)
class Reports(Answer):
    """Every report of a phase that counts."""

    study: str
    phase: int
    reports: list[TakenReport]


@dataclass(frozen=True, kw_only=True)
class Aside(Answer):
    """A report that came for a taken place, or one that is held: the stated model rules out a mean of it."""

    report: dict[str, Any]
    digest: str
    stands: str  # digest of the one that stood as it came; empty: none did, and it was held
    why: str  # it was held
    refused: str | None  # the reason with which an administrator refused it
    held: bool  # it still waits for an administrator
    at: str
    sequence: int


@dataclass(frozen=True, kw_only=True)
class Quarantine(Answer):
    """Some of what was put aside, oldest first; `next` continues."""

    study: str
    quarantine: list[Aside]
    next: int | None
