"""What can happen to a study. The log holds these, in order, and nothing else changes a study.

Facts, not wishes: an event is written after it was found to be legal (`stages.TRANSITIONS`) and checked.
"""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

from parley.errors import UnknownName
from parley.protocol.codec import Count, Message, Phase
from parley.protocol.messages import Certificate, Decision, Plan, Report, Rows, StudyMessage, Weights

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


class StudyCreated(Message, tag="parley/event/study-created/1"):
    """The study and its first plan."""

    study_id: str
    study: StudyMessage
    plan: Plan


class ReportAccepted(Message, tag="parley/event/report-accepted/1"):
    """The first report of an agent in a phase."""

    report: Report


class ReportQuarantined(Message, tag="parley/event/report-quarantined/1"):
    """A report that is kept and not used: another one for a place that is taken, or one with a mean that the stated
    model rules out. That one is held: nothing stands in its place until an administrator takes or refuses it.
    """

    report: Report
    stands: str  # digest of the report that stands; empty where this one is held
    why: str = ""  # it is held


class ReportAmended(Message, tag="parley/event/report-amended/1"):
    """An administrator put another report in the place of an accepted one, before the phase was decided; or one in the
    place of one that is held, most often that one itself.
    """

    report: Report
    replaces: str  # digest of the accepted one; empty where one is held
    reason: str


class ReportRefused(Message, tag="parley/event/report-refused/1"):
    """An administrator refused a report that was held: the agent is asked for another."""

    phase: Phase
    agent: str
    report: str  # digest of the one that was held
    reason: str


class PhaseClosed(Message, tag="parley/event/phase-closed/1"):
    """One step of the policy, and the plan of the next phase unless there is none."""

    decision: Decision
    plan: Plan | None


class PhaseCut(Message, tag="parley/event/phase-cut/1"):
    """An administrator closed a phase with the reports that are in; those that were awaited are not waited for."""

    phase: Phase
    reason: str
    without: tuple[str, ...]  # the agents whose reports were still awaited
    consequences: str  # digest of what the administrator was shown before confirming


class StepFailed(Message, tag="parley/event/step-failed/1"):
    """The policy could not take its step; the study waits for an administrator."""

    phase: Phase
    error: str


class AgentFrozen(Message, tag="parley/event/agent-frozen/1"):
    """An agent is asked for nothing more; what it reported stays."""

    agent: str
    reason: str
    consequences: str  # digest of what the administrator was shown before confirming


class AgentThawed(Message, tag="parley/event/agent-thawed/1"):
    """A frozen agent may be asked again."""

    agent: str
    reason: str
    plan: Plan | None  # of the next phase, where the study had stalled and can go on
    consequences: str


class Reweighed(Message, tag="parley/event/reweighed/1"):
    """The question is asked anew without the frozen agents: the state is the fold of all recorded phases under it."""

    phase: Phase  # in progress: it goes on as it was asked; or the last one
    reason: str
    weights: Weights  # from here on
    left: tuple[str, ...]  # whose own question rests
    states: tuple[str, ...]  # digests of the policy's state after every recorded phase
    eliminated_in: Rows  # after the last of them, as in a decision
    finished: bool
    plan: Plan | None  # of the next phase, where the study had stalled
    consequences: str


class Paused(Message, tag="parley/event/paused/1"):
    """No report is taken until it is resumed."""

    reason: str


class Resumed(Message, tag="parley/event/resumed/1"):
    """Back to where it was."""

    reason: str


class Disputed(Message, tag="parley/event/disputed/1"):
    """An agent holds a receipt that is not in this log: an old backup or a rewritten log. The study is paused."""

    agent: str
    sequence: Count
    head: str


class Cancelled(Message, tag="parley/event/cancelled/1"):
    """Stopped before every agent had its answer; what remains is a set of candidates."""

    reason: str


class Certified(Message, tag="parley/event/certified/1"):
    """The certificate, in the log it speaks of."""

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
