"""What can happen to a study. The log holds these, in order, and nothing else changes a study.

Facts, not wishes: an event is written after it was found to be legal (`stages.TRANSITIONS`) and checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, get_args

from parley.errors import UnknownName
from parley.protocol.messages import Certificate, Decision, Plan, Report, Rows, StudyMessage
from parley.protocol.wire import Message

__all__ = [
    "EVENTS",
    "AgentFrozen",
    "AgentThawed",
    "Cancelled",
    "Certified",
    "Disputed",
    "Event",
    "Paused",
    "PhaseClosed",
    "PhaseCut",
    "ReportAccepted",
    "ReportAmended",
    "ReportQuarantined",
    "ReportRefused",
    "Resumed",
    "Reweighed",
    "StepFailed",
    "StudyCreated",
    "kind_of",
    "read_event",
]


@dataclass(frozen=True, kw_only=True)
class StudyCreated(Message):
    """The study and its first plan."""

    schema: ClassVar[str] = "parley/event/study-created/1"
    study_id: str
    study: StudyMessage
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class ReportAccepted(Message):
    """The first report of an agent in a phase."""

    schema: ClassVar[str] = "parley/event/report-accepted/1"
    report: Report


@dataclass(frozen=True, kw_only=True)
class ReportQuarantined(Message):
    """A report that is kept and not used: another one for a place that is taken, or one with a mean that the stated
    model rules out. That one is held: nothing stands in its place until an administrator takes or refuses it.
    """

    schema: ClassVar[str] = "parley/event/report-quarantined/1"
    later: ClassVar[frozenset[str]] = frozenset({"why"})
    report: Report
    stands: str  # digest of the report that stands; empty where this one is held
    why: str = ""  # it is held


@dataclass(frozen=True, kw_only=True)
class ReportAmended(Message):
    """An administrator put another report in the place of an accepted one, before the phase was decided; or one in the
    place of one that is held, most often that one itself.
    """

    schema: ClassVar[str] = "parley/event/report-amended/1"
    report: Report
    replaces: str  # digest of the accepted one; empty where one is held
    reason: str


@dataclass(frozen=True, kw_only=True)
class ReportRefused(Message):
    """An administrator refused a report that was held: the agent is asked for another."""

    schema: ClassVar[str] = "parley/event/report-refused/1"
    phase: int
    agent: str
    report: str  # digest of the one that was held
    reason: str


@dataclass(frozen=True, kw_only=True)
class PhaseClosed(Message):
    """One step of the policy, and the plan of the next phase unless there is none."""

    schema: ClassVar[str] = "parley/event/phase-closed/1"
    decision: Decision
    plan: Plan | None


@dataclass(frozen=True, kw_only=True)
class PhaseCut(Message):
    """An administrator closed a phase with the reports that are in; those that were awaited are not waited for."""

    schema: ClassVar[str] = "parley/event/phase-cut/1"
    phase: int
    reason: str
    without: tuple[str, ...]  # the agents whose reports were still awaited
    consequences: str  # digest of what the administrator was shown before confirming


@dataclass(frozen=True, kw_only=True)
class StepFailed(Message):
    """The policy could not take its step; the study waits for an administrator."""

    schema: ClassVar[str] = "parley/event/step-failed/1"
    phase: int
    error: str


@dataclass(frozen=True, kw_only=True)
class AgentFrozen(Message):
    """An agent is asked for nothing more; what it reported stays."""

    schema: ClassVar[str] = "parley/event/agent-frozen/1"
    agent: str
    reason: str
    consequences: str  # digest of what the administrator was shown before confirming


@dataclass(frozen=True, kw_only=True)
class AgentThawed(Message):
    """A frozen agent may be asked again."""

    schema: ClassVar[str] = "parley/event/agent-thawed/1"
    agent: str
    reason: str
    plan: Plan | None  # of the next phase, where the study had stalled and can go on
    consequences: str


@dataclass(frozen=True, kw_only=True)
class Reweighed(Message):
    """The question is asked anew without the frozen agents: the state is the fold of all recorded phases under it."""

    schema: ClassVar[str] = "parley/event/reweighed/1"
    phase: int  # in progress: it goes on as it was asked; or the last one
    reason: str
    weights: tuple[tuple[float, ...], ...]  # from here on
    left: tuple[str, ...]  # whose own question rests
    states: tuple[str, ...]  # digests of the policy's state after every recorded phase
    eliminated_in: Rows  # after the last of them, as in a decision
    finished: bool
    plan: Plan | None  # of the next phase, where the study had stalled
    consequences: str


@dataclass(frozen=True, kw_only=True)
class Paused(Message):
    """No report is taken until it is resumed."""

    schema: ClassVar[str] = "parley/event/paused/1"
    reason: str


@dataclass(frozen=True, kw_only=True)
class Resumed(Message):
    """Back to where it was."""

    schema: ClassVar[str] = "parley/event/resumed/1"
    reason: str


@dataclass(frozen=True, kw_only=True)
class Disputed(Message):
    """An agent holds a receipt that is not in this log: an old backup or a rewritten log. The study is paused."""

    schema: ClassVar[str] = "parley/event/disputed/1"
    agent: str
    sequence: int
    head: str


@dataclass(frozen=True, kw_only=True)
class Cancelled(Message):
    """Stopped before every agent had its answer; what remains is a set of candidates."""

    schema: ClassVar[str] = "parley/event/cancelled/1"
    reason: str


@dataclass(frozen=True, kw_only=True)
class Certified(Message):
    """The certificate, in the log it speaks of."""

    schema: ClassVar[str] = "parley/event/certified/1"
    certificate: Certificate


Event: TypeAlias = (
    StudyCreated
    | ReportAccepted
    | ReportQuarantined
    | ReportAmended
    | ReportRefused
    | PhaseClosed
    | PhaseCut
    | StepFailed
    | AgentFrozen
    | AgentThawed
    | Reweighed
    | Paused
    | Resumed
    | Disputed
    | Cancelled
    | Certified
)

# kind -> class; the kind is the middle of the schema: "parley/event/paused/1" is "paused"
EVENTS: dict[str, type[Event]] = {kind.schema.split("/")[2]: kind for kind in get_args(Event)}


def kind_of(event: Event) -> str:
    """The word under which an event stands in the log and in the table of transitions.

    >>> kind_of(Paused(reason="holiday"))
    'paused'
    """
    return event.schema.split("/")[2]


def read_event(kind: str, payload: Any) -> Event:
    """An event from a log record.

    >>> read_event("paused", {"schema": "parley/event/paused/1", "reason": "holiday"}).reason
    'holiday'
    """
    if kind not in EVENTS:
        raise UnknownName("event", kind, EVENTS)
    return EVENTS[kind].from_json(payload)
