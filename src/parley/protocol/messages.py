"""What travels between the coordinator and the agents, and what is kept: study, plan, report, receipt, decision,
certificate.

Matrices are nested tuples `(arm, agent)`, as in the numeric rooms; a report's rows are one agent's column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from parley.once import once
from parley.problem import IntArray
from parley.protocol.study_message import StudyMessage
from parley.protocol.wire import Message
from parley.totals import Totals

__all__ = ["Certificate", "Decision", "Plan", "Receipt", "Report", "Rows", "StudyMessage"]

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Plan(Message):
    """Draw arm k `quotas[k][m]` times at agent m, in this phase (from 1)."""

    schema: ClassVar[str] = "parley/plan/1"
    study: str
    phase: int
    quotas: Rows

    def draws(self, agent: int) -> tuple[int, ...]:
        """One agent's column."""
        return tuple(row[agent] for row in self.quotas)

    @once
    def array(self) -> IntArray:
        """`(arm, agent)`."""
        return np.array(self.quotas, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Report(Message):
    """What an agent drew in a phase: per arm the count, the sum of the rewards and the sum of their squares.

    >>> report = Report(study="s", phase=1, agent="x", plan="ab", counts=(2, 0), sums=(1.5, 0.0), squares=(1.25, 0.0))
    >>> Report.read(report.text).digest == report.digest
    True
    """

    schema: ClassVar[str] = "parley/report/1"
    study: str
    phase: int
    agent: str
    plan: str  # digest of the plan that was followed
    counts: tuple[int, ...]
    sums: tuple[float, ...]
    squares: tuple[float, ...]
    later: ClassVar[frozenset[str]] = frozenset({"missing", "reason", "final"})
    missing: tuple[int, ...] = ()  # per arm: people of whom no outcome will come
    reason: str = ""  # why the counts are not the plan's: one of `deviations.REASONS`
    final: bool = False  # fewer than planned, and that is all: this agent's part of the phase is closed

    @classmethod
    def of(cls, totals: Totals, *, study: str, phase: int, agent: str, plan: str, **more: Any) -> Self:
        """From what an agent drew, `(arm,)`."""
        return cls(
            **more,
            study=study,
            phase=phase,
            agent=agent,
            plan=plan,
            counts=tuple(totals.counts.tolist()),
            sums=tuple(totals.sums.tolist()),
            squares=tuple(totals.require_squares().tolist()),
        )

    @property
    def totals(self) -> Totals:
        """`(arm,)`, as the numeric rooms have it."""
        return Totals(
            counts=np.array(self.counts, dtype=np.int64), sums=np.array(self.sums), squares=np.array(self.squares)
        )


@dataclass(frozen=True, kw_only=True)
class Receipt(Message):
    """Proof that a report is in the log: at `sequence` its chain had the head `head`. The agent keeps it.

    >>> report = Report(study="s", phase=1, agent="x", plan="ab", counts=(2,), sums=(1.5,), squares=(1.25,))
    >>> Receipt.of(report, sequence=2, head="a" * 64).proves(report)
    True
    """

    schema: ClassVar[str] = "parley/receipt/1"
    study: str
    phase: int
    agent: str
    report: str  # digest of the report
    sequence: int
    head: str

    @classmethod
    def of(cls, report: Report, *, sequence: int, head: str) -> Self:
        """The receipt of a report that stands at `sequence`."""
        return cls(
            study=report.study,
            phase=report.phase,
            agent=report.agent,
            report=report.digest,
            sequence=sequence,
            head=head,
        )

    def proves(self, report: Report) -> bool:
        """Whether it was given for this very report."""
        return self == type(self).of(report, sequence=self.sequence, head=self.head)


@dataclass(frozen=True, kw_only=True)
class Decision(Message):
    """What one step of the policy decided, and from what."""

    schema: ClassVar[str] = "parley/decision/1"
    study: str
    phase: int
    plan: str  # digest
    data: str  # digest of the digests of the phase's reports
    counts: Rows  # drawn in this phase
    eliminated_in: Rows  # after this phase: the phase that ruled the arm out for the agent, 0 while a candidate
    finished: bool
    state: str  # digest of the policy's state after this phase
    later: ClassVar[frozenset[str]] = frozenset({"missing"})
    missing: Rows = ()  # per arm and agent: people of whom no outcome will come; nothing where there is none


@dataclass(frozen=True, kw_only=True)
class Certificate(Message):
    """The end of a study: what was asked, what was seen, what follows and how far it may be trusted.

    That of a blocked study stands until a site comes back or the others are re-weighed; then another follows.
    """

    schema: ClassVar[str] = "parley/certificate/1"
    study: str
    problem: str  # digest of the study message, with the weights in force at the end
    data: str  # digest of the digests of every phase's data
    policy: str
    options: Mapping[str, Any]
    version: str  # of Parley
    delta: float
    guarantee: str
    complete: bool  # False when stopped early: then `answers` are the candidates that remain
    answers: Mapping[str, Any]  # agent -> the names of its arms
    phases: int
    samples: int
    frozen: tuple[str, ...]
    evidence: Mapping[str, Any]  # the policy's own certificate: thresholds, and the case against every arm per agent
    ends: Mapping[str, Any] | None = None  # agent -> how its question ended, unless all are decided or it was cancelled
    state: Mapping[str, Any]  # the policy's: everything above can be computed from it again
    sequence: int  # of the log when it was issued
    head: str
    later: ClassVar[frozenset[str]] = frozenset({"missing", "warnings"})
    created: str | None = None  # digest of the study as it was created, where it was re-weighed since
    missing: Rows = ()  # per arm and agent, over all phases: people without an outcome; nothing where there is none
    warnings: tuple[str, ...] = ()  # where the data contradict the stated scale
