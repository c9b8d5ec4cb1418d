"""What an event leaves in the tables: the one account of it, which storing inserts and the audit compares.

The log holds everything but a policy's state, of which a decision holds the digest: who stores it brings the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Table

from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.tables import assignments, documents, frozen, phases, quarantine, reports
from parley.coordinator.record.tables import states as states_table
from parley.protocol import GENESIS, Event, Plan, Record, Report, Situation, Stage
from parley.protocol.codec import canonical
from parley.protocol.events import (
    AgentFrozen,
    AgentThawed,
    Cancelled,
    Certified,
    Disputed,
    Paused,
    PhaseClosed,
    ReportAccepted,
    ReportAmended,
    ReportQuarantined,
    ReportRefused,
    Resumed,
    Reweighed,
    StepFailed,
    StudyCreated,
)

Values = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """Rows of one table, without the study, which is the log's.

    They are inserted; or `changed`, where they are there already; or `put`, whether there are some or not; or
    `removed`, if they are there, and then only their keys are given.
    """

    table: Table
    rows: list[Values]
    how: Literal["inserted", "changed", "put", "removed"] = "inserted"


def rows_of(
    event: Event,
    record: Record,
    before: Situation | None,
    *,
    revision: int = 0,
    state: str | None = None,
    states: Sequence[str] = (),
) -> list[Entry]:
    """What an event leaves in the tables beside the study's own row. `before` is None for the first event.

    `revision` counts the reports that stood in a report's place before; `state` is the text of the policy's state after
    a step, or at the start. Without it the state is left out. `states` are those that a re-weighing found in the past.
    """
    match event, before:
        case StudyCreated(study=study, plan=plan), None:
            document = Entry(documents, [{"kind": "study", "body": study.text}])
            return [document, *_state(0, state), *_opened(plan, study.agents, record.at)]
        case ((ReportAccepted(report=report) | ReportAmended(report=report)), _):
            return [Entry(reports, [{**_report(report, record), "revision": revision, "head": record.hash}])]
        case ReportQuarantined(report=report, stands=stands, why=why), _:
            return [Entry(quarantine, [{**_report(report, record), "stands": stands, "why": why, "refused": None}])]
        case ReportRefused(phase=phase, agent=agent, report=digest, reason=reason), _:
            place = {"phase": phase, "agent": agent, "digest": digest}
            return [Entry(quarantine, [{**place, "refused": reason}], "changed")]
        case PhaseClosed(decision=decision, plan=plan), Situation(study=study):
            closed = {"phase": decision.phase, "decision": decision.text, "closed_at": record.at}
            opened = [] if plan is None else _opened(plan, study.agents, record.at)
            return [Entry(phases, [closed], "changed"), *_state(decision.phase, state), *opened]
        case AgentFrozen(agent=agent, reason=reason), Situation(phase=phase):
            return [Entry(frozen, [{"agent": agent, "phase": phase, "reason": reason, "at": record.at}])]
        case AgentThawed(agent=agent, plan=plan), Situation(study=study):
            opened = [] if plan is None else _opened(plan, study.agents, record.at)
            return [*_superseded(before), Entry(frozen, [{"agent": agent}], "removed"), *opened]
        case Reweighed(plan=plan), Situation(study=study):
            known = [{"phase": phase, "state": text} for phase, text in enumerate(states, start=1)]
            opened = [] if plan is None else _opened(plan, study.agents, record.at)
            question = Entry(documents, [{"kind": "reweighed", "body": event.text}], "put")
            return [*_superseded(before), question, Entry(states_table, known, "changed"), *opened]
        case Cancelled(), _:
            return _superseded(before)
        case Certified(certificate=certificate), _:
            return [Entry(documents, [{"kind": "certificate", "body": certificate.text}])]
        case _:
            return []


def _superseded(before: Situation | None) -> list[Entry]:
    """The certificate of a study that had stalled stays in the log; it is not the last word any more."""
    stalled = before is not None and before.stage is Stage.STALLED
    return [Entry(documents, [{"kind": "certificate"}], "removed")] if stalled else []


def _state(phase: int, text: str | None) -> list[Entry]:
    return [] if text is None else [Entry(states_table, [{"phase": phase, "state": text}])]


def _opened(plan: Plan, agents: tuple[str, ...], at: str) -> list[Entry]:
    """A new phase: its plan, and each asked agent's own column of it."""
    phase = {"phase": plan.phase, "plan": plan.text, "plan_digest": plan.digest, "opened_at": at}
    columns = [(agent, plan.draws(place)) for place, agent in enumerate(agents)]
    asked = [
        {"phase": plan.phase, "agent": agent, "draws": canonical(list(draws))} for agent, draws in columns if any(draws)
    ]
    return [Entry(phases, [{**phase, "decision": None, "closed_at": None}]), Entry(assignments, asked)]


def _report(report: Report, record: Record) -> Values:
    place = {"phase": report.phase, "agent": report.agent}
    return {**place, "body": report.text, "digest": report.digest, "at": record.at, "sequence": record.sequence}


def first_row(event: StudyCreated, at: str, *, sequence: int = 0, head: str = GENESIS) -> StudyRow:
    """The row of a new study, before its first record or after it."""
    study, plan = event.study, event.plan
    return StudyRow(
        id=event.study_id,
        name=study.name,
        digest=study.digest,
        policy=study.policy,
        arms=len(study.arms),
        agents=len(study.agents),
        stage=Stage.RUNNING,
        phase=plan.phase,
        closed_early=False,
        samples=0,
        sequence=sequence,
        head=head,
        reason="",
        created_at=at,
        opened_at=at,
        missing=int((plan.array.sum(axis=0) > 0).sum()),
    )


def row_after(row: StudyRow, event: Event, record: Record, before: Situation, after: Situation) -> StudyRow:
    """A study's row once an event has happened that the state machine admitted."""
    return replace(
        row,
        digest=row.digest if after.study is before.study else after.study.digest,
        stage=after.stage,
        phase=after.phase,
        closed_early=after.closed_early,
        samples=row.samples + _drawn(event, before),
        sequence=record.sequence,
        head=record.hash,
        reason=_reason(event, row.reason),
        opened_at=record.at if after.phase > before.phase else row.opened_at,
        missing=after.missing,
    )


def _drawn(event: Event, before: Situation) -> int:
    """By how much the samples of the accepted reports grow."""
    match event:
        case ReportAccepted(report=report):
            return sum(report.counts)
        case ReportAmended(report=report):
            standing = before.place.standing if before.place else None
            return sum(report.counts) - (sum(standing.counts) if standing else 0)
        case _:
            return 0


def _reason(event: Event, before: str) -> str:
    """Why the study is paused or over, in words that are stored: a later version must find the same ones."""
    match event:
        case Paused(reason=reason) | Cancelled(reason=reason):
            return reason
        case Disputed(agent=agent, sequence=sequence):
            lost = f"{agent!r} holds a receipt for record {sequence} that is not in this log"
            return f"{lost}: restored from an old backup?"
        case StepFailed(error=error):
            return f"the policy's step failed: {error}"
        case Resumed() | PhaseClosed():
            return ""
        case _:
            return before
