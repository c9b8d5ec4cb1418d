"""Write the events of studies: the state machine admits an event, then its record and its rows are written.

No other code writes these tables, and no code sets a stage by hand. `rows_of` and `row_after` say what an event writes;
the audit calls the same functions to check the tables.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import Table, and_, delete, insert, select, update

from parley.coordinator.problems import Refusal
from parley.coordinator.record import ledger, phases, studies, tables
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.errors import IllegalMove, ImpossibleReport, InvalidInput
from parley.protocol import (
    GENESIS,
    Event,
    Place,
    Plan,
    Record,
    Report,
    Situation,
    Stage,
    admit,
    events,
    kind_of,
    require_readable,
)
from parley.protocol.codec import canonical
from parley.protocol.state_machine import OVER, agent_of
from parley.protocol.trial import Aside

# Built once: building a statement costs more than running it.
INSERTS = {table.name: insert(table) for table in tables.metadata.sorted_tables}

COORDINATOR = "coordinator"  # the actor of events that follow from the data alone
ANEW = {"reweighed": "reweigh", "arm-opened": "open-arm", "arm-withdrawn": "withdraw-arm"}  # changes of the question
STOPPED = {"arm-stopped": "stop-arm"}  # a change of the question by a guardrail
# Points at which tests may kill the process: kind of event -> the table that was just written -> name of the point.
AFTER = {
    "report-accepted": {"log": "report-logged", "reports": "report-inserted", "studies": "report-counted"},
    "phase-closed": {
        "log": "step-logged",
        "phases changed": "step-decision-stored",
        "states": "step-state-stored",
        "phases": "step-phase-opened",
        "assignments": "step-plan-stored",
        "studies": "step-counted",
    },
    "certified": {"documents": "step-certified"},
    "phase-closed-early": {"log": "early-close-logged", "studies": "early-close-counted"},
    "agent-frozen": {"log": "freeze-logged", "frozen": "freeze-place-closed", "studies": "freeze-counted"},
    "agent-thawed": {"log": "thaw-logged", "frozen removed": "thaw-place-opened", "studies": "thaw-counted"},
    "report-quarantined": {"log": "hold-logged", "quarantine": "hold-stored"},
    "report-refused": {"log": "refuse-logged", "quarantine changed": "refuse-noted"},
    "report-corrected": {
        "log": "correct-logged",
        "documents removed": "correct-certificate-removed",
        "studies": "correct-counted",
    },
    **{
        kind: {
            "log": f"{act}-logged",
            "documents removed": f"{act}-certificate-removed",
            "questions put": f"{act}-question-stored",
            "states changed": f"{act}-states-stored",
            "phases": f"{act}-phase-opened",
            "assignments": f"{act}-plan-stored",
            "studies": f"{act}-counted",
        }
        for kind, act in (ANEW | STOPPED).items()
    },
    "guardrail-noted": {"log": "guardrail-logged"},
}
# Kill points of the chaos tests: `POINTS` for a report and the step after it, `ACTS` for acts of administrators.
POINTS = (
    *("begun", "report-locked", "report-looked-up"),
    *AFTER["report-accepted"].values(),
    "step-computed",
    *AFTER["phase-closed"].values(),
    *AFTER["certified"].values(),
    *("before-commit", "after-commit"),
)
DECIDED = ("agent-frozen", *ANEW, "agent-thawed", "report-quarantined", "report-refused", "report-corrected")
ALARMS = (*AFTER["arm-stopped"].values(), *AFTER["guardrail-noted"].values())  # points of guardrails' findings
ACTS = tuple(point for kind in DECIDED for point in AFTER[kind].values())


Values = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """Rows of one table, without the study's id, and how they are written.

    New rows are `inserted`, existing rows are `changed`, and rows that may or may not exist are `put`. To be `removed`,
    a row needs only its key here, and need not exist in the table.
    """

    table: Table
    rows: list[Values]
    how: Literal["inserted", "changed", "put", "removed"] = "inserted"


def locked(transaction: Transaction, study: str) -> StudyRow:
    """Lock a study until this transaction ends, and return its row; raises a refusal if there is no such study."""
    row = studies.lock(transaction, study)
    if row is None:
        raise Refusal("not-found", f"no study {study!r}")
    return row


def enact(
    transaction: Transaction,
    row: StudyRow,
    event: Event,
    *,
    actor: str,
    at: str,
    state: str | None = None,
    states: Sequence[str] = (),
    drafted: Record | None = None,
    place: Place | None = None,
) -> StudyRow:
    """Write an event of a locked study and return the study's updated row; raises a refusal if it is not allowed.

    `state` and `states` are texts of the policy's states to store. `drafted` is the event's record, if it was made
    before the transaction (`prepare`). `place` is the state of the event's agent, if it was already read in this
    transaction.
    """
    # Read under the lock: nothing on which the state machine decides may change before the event is written.
    before = _with_context(transaction, row, situation(transaction, row, agent_of(event), place), event)
    after = admitted(row, before, event)
    revision = 0
    if isinstance(event, events.ReportAmended):
        revision = len(phases.receipts(transaction, row.id, row.phase, event.report.agent))
    points = AFTER.get(kind_of(event), {})
    record = append(transaction, row, event, actor=actor, at=at, drafted=drafted)
    _reached(points, "log")
    for entry in rows_of(event, record, before, revision=revision, state=state, states=states):
        store(transaction, row.id, entry)
        _reached(points, entry.table.name if entry.how == "inserted" else f"{entry.table.name} {entry.how}")
    row = row_after(row, event, record, before, after)
    studies.save(transaction, row)
    _reached(points, "studies")
    return row


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Consecutive events with their records, ready to be written; valid until the study changes."""

    study: str
    head: str  # hash of the record before the first event
    events: Sequence[tuple[Event, Record]]
    states: Mapping[str, Any] = field(default_factory=dict)  # texts of the policy's states that the first event stores


def prepare(seen: StudyRow, event: Event, *, actor: str, at: str, states: Mapping[str, Any] | None = None) -> Prepared:
    """Make the record of an event for a study as it was `seen`, outside of every lock.

    SQLite has one writer for all studies. So slow work, such as a step of the policy or making a record, is done before
    the transaction, which only writes the results.
    """
    record = draft(seen.id, seen.sequence, seen.head, event, actor=actor, at=at)
    return Prepared(study=seen.id, head=seen.head, events=[(event, record)], states=states or {})


def store_prepared(transaction: Transaction, prepared: Prepared) -> StudyRow | None:
    """Write prepared events, and return the updated row; None if the log has changed since their preparation."""
    row, states = locked(transaction, prepared.study), dict(prepared.states)
    if row.head != prepared.head:
        return None
    for event, record in prepared.events:
        row = enact(transaction, row, event, actor=record.actor, at=record.at, drafted=record, **states)
        states = {}
    return row


def _reached(points: Mapping[str, str], statement: str) -> None:
    if statement in points:
        sys.audit("parley.reached", points[statement])


def admitted(row: StudyRow, before: Situation, event: Event) -> Situation:
    """Admit an event and return the situation after it; an event that is not allowed raises the API's refusal."""
    try:
        return admit(before, event)
    except IllegalMove as error:
        words = row.reason or "an administrator paused it" if error.reason == "study-paused" else error.words
        extra: dict[str, Any] = {"plan": before.place.plan} if error.reason == "wrong-plan" and before.place else {}
        raise Refusal(error.reason, words, stage=str(row.stage), phase=row.phase, **extra) from None
    except ImpossibleReport as error:
        raise Refusal("impossible-report", str(error)) from None


def situation(
    transaction: Transaction, row: StudyRow, agent: str | None = None, place: Place | None = None
) -> Situation:
    """The situation that the state machine judges, from the study's row and the state of the event's agent."""
    return Situation(
        id=row.id,
        study=studies.message(transaction, row),
        stage=row.stage,
        phase=row.phase,
        missing=row.missing,
        closed_early=row.closed_early,
        place=place or (None if agent is None else phases.place_of(transaction, row, agent)),
    )


def _with_context(transaction: Transaction, row: StudyRow, here: Situation, event: Event) -> Situation:
    """Add to the situation the values that only some events need, so that other events do not read them.

    For a report: the means that it is compared with and, if it is quarantined, the refused reports of its phase. For an
    early close: the number of reports. For a correction: the report that it replaces. For a refusal: whether the report
    waits in quarantine while another report counts.
    """
    if isinstance(event, events.PhaseClosedEarly):
        return replace(here, reported=len(phases.reported_agents(transaction, row.id, row.phase)))
    if isinstance(event, events.ReportCorrected):
        found = phases.counted(transaction, row, event.report.phase, event.report.agent)
        return replace(here, counted=found)
    if isinstance(event, events.ReportRefused):
        named = Aside(event.phase, event.agent, event.report)
        return replace(here, aside=named in phases.asides(transaction, row.id))
    if row.stage is not Stage.RUNNING or not isinstance(event, events.ReportAccepted | events.ReportQuarantined):
        return here
    place = here.place
    if place is not None and isinstance(event, events.ReportQuarantined):
        held = phases.held(transaction, row.id, row.phase)
        place = replace(place, refused=frozenset(one.digest for one in held if one.refused is not None))
    return replace(here, place=place, against=phases.past(transaction, row, here.study))


def write_first(
    transaction: Transaction, event: events.StudyCreated, *, state: str, actor: str, at: str, readable: bool = False
) -> StudyRow:
    """Write a new study. `readable` says that its event was read back already, outside of the transaction."""
    # Other tables refer to the study's row, so it is inserted first, and saved again once the log has a head.
    row = first_row(event, at)
    studies.add(transaction, row)
    record = append(transaction, row, event, actor=actor, at=at, readable=readable)
    for entry in rows_of(event, record, None, state=state):
        store(transaction, row.id, entry)
    row = first_row(event, at, sequence=record.sequence, head=record.hash)
    studies.save(transaction, row)
    return row


def draft(study: str, sequence: int, head: str, event: Event, *, actor: str, at: str, readable: bool = False) -> Record:
    """Make the record of an event for a chain of `sequence` records with the hash `head`, without writing it.

    Raises if the event cannot be read back, unless `readable` says that this was checked before, outside of the lock.
    """
    if not readable:
        require_readable(event)
    return Record.linked(
        sequence,
        head,
        stream=study,
        at=at,
        actor=actor,
        kind=kind_of(event),
        payload=event.to_json(),
        payload_text=event.text,
    )


def append(
    transaction: Transaction,
    row: StudyRow,
    event: Event,
    *,
    actor: str,
    at: str,
    readable: bool = False,
    drafted: Record | None = None,
) -> Record:
    """Append an event to the chain of a locked study, and return its record; the study's row is not updated yet.

    `drafted` is the record, if it was made outside of the lock. It must follow the last record of the chain.
    """
    record = drafted or draft(row.id, row.sequence, row.head, event, actor=actor, at=at, readable=readable)
    if (record.stream, record.sequence, record.previous) != (row.id, row.sequence + 1, row.head):
        raise InvalidInput(
            "record", found="one that was prepared for another position", allowed="the next record of the chain"
        )
    _insert(transaction, record, event.text)
    return record


def append_server(transaction: Transaction, kind: str, payload: Mapping[str, Any], *, actor: str, at: str) -> Record:
    """Append a record to the server's own chain. This locks the chain's row until the transaction ends."""
    last = transaction.execute(
        select(tables.chains).where(tables.chains.c.stream == ledger.SERVER).with_for_update()
    ).one()
    record = Record.linked(
        last.sequence, last.head, stream=ledger.SERVER, at=at, actor=actor, kind=kind, payload=payload
    )
    _insert(transaction, record, canonical(payload))
    head = {"sequence": record.sequence, "head": record.hash}
    transaction.execute(update(tables.chains).where(tables.chains.c.stream == ledger.SERVER).values(head))
    return record


def _insert(transaction: Transaction, record: Record, payload: str) -> None:
    """Insert a record, after checking that it reads back as written; `payload` is its payload's canonical text.

    Only stream, actor and kind are checked, since they come from outside. Numbers, hashes and times are the server's
    own, and `draft` has checked the event of a study.
    """
    _require_readable(record.stream, record.actor, record.kind)
    transaction.execute(INSERTS["log"], {**{name: getattr(record, name) for name in ledger.AROUND}, "payload": payload})


@lru_cache(maxsize=4096)
def _require_readable(stream: str, actor: str, kind: str) -> None:
    """Raise unless a record with these texts reads back as written. Cached, since the same texts recur."""
    around = Record.after(None, stream=stream, at="", actor=actor, kind=kind, payload={})
    if Record.read(around.text) != around:
        raise InvalidInput("record", found="one that does not read back as written", allowed="a record that does")


def store(transaction: Transaction, study: str, entry: Entry) -> None:
    """Insert, change or remove rows as the entry says. The primary key refuses a second row with the same key."""
    if not entry.rows:
        return
    rows = [{"study": study, **row} for row in entry.rows]
    for row in rows if entry.how != "inserted" else ():
        here = and_(*(column == row[column.name] for column in entry.table.primary_key))
        if entry.how == "changed":
            values = {name: value for name, value in row.items() if name not in entry.table.primary_key.columns}
            transaction.execute(update(entry.table).where(here).values(values))
        else:
            transaction.execute(delete(entry.table).where(here))
    if entry.how in ("inserted", "put"):
        transaction.execute(INSERTS[entry.table.name], rows if len(rows) > 1 else rows[0])


def rows_of(
    event: Event,
    record: Record,
    before: Situation | None,
    *,
    revision: int = 0,
    state: str | None = None,
    states: Sequence[str] = (),
) -> list[Entry]:
    """The rows that an event writes, apart from the study's own row. `before` is None for the first event.

    `revision` is the number of earlier reports for the same agent and phase. `state` is the text of the policy's state
    after a step, or of the initial state; None writes no state. `states` are the states after every recorded phase,
    replayed under a changed question.
    """
    match event, before:
        case events.StudyCreated(study=study, plan=plan), None:
            document = Entry(tables.documents, [{"kind": "study", "body": study.text}])
            return [document, *_state(0, state), *_opened(plan, study.agents, record.at)]
        case ((events.ReportAccepted(report=report) | events.ReportAmended(report=report)), _):
            return [Entry(tables.reports, [{**_report(report, record), "revision": revision, "head": record.hash}])]
        case events.ReportQuarantined(report=report, stands=stands, why=why), _:
            aside = {**_report(report, record), "stands": stands, "why": why, "refused": None}
            return [Entry(tables.quarantine, [aside])]
        case events.ReportRefused(phase=phase, agent=agent, report=digest, reason=reason), _:
            place = {"phase": phase, "agent": agent, "digest": digest}
            return [Entry(tables.quarantine, [{**place, "refused": reason}], "changed")]
        case events.PhaseClosed(decision=decision, plan=plan), Situation(study=study):
            closed = {"phase": decision.phase, "decision": decision.text, "closed_at": record.at}
            opened = [] if plan is None else _opened(plan, study.agents, record.at)
            return [Entry(tables.phases, [closed], "changed"), *_state(decision.phase, state), *opened]
        case events.AgentFrozen(agent=agent, reason=reason), Situation(phase=phase):
            return [Entry(tables.frozen, [{"agent": agent, "phase": phase, "reason": reason, "at": record.at}])]
        case events.AgentThawed(agent=agent, plan=plan), Situation(study=study):
            opened = [] if plan is None else _opened(plan, study.agents, record.at)
            return [*_superseded(before), Entry(tables.frozen, [{"agent": agent}], "removed"), *opened]
        case events.AskedAnew(phase=phase, reason=reason, arm=arm, plan=plan), Situation(study=study):
            known = [{"phase": past, "state": text} for past, text in enumerate((state, *states)) if text is not None]
            opened = [] if plan is None else _opened(plan, study.agents, record.at)
            about = {"arm": arm, "phase": phase, "reason": reason, "at": record.at, "sequence": record.sequence}
            question = {**about, "kind": record.kind, "body": event.text}
            asked = Entry(tables.questions, [question], "put")
            return [*_superseded(before), asked, Entry(tables.states, known, "changed"), *opened]
        case ((events.Cancelled() | events.ReportCorrected()), _):
            return _superseded(before)
        case events.Certified(certificate=certificate), _:
            return [Entry(tables.documents, [{"kind": "certificate", "body": certificate.text}])]
        case _:
            return []


def _superseded(before: Situation | None) -> list[Entry]:
    """The entry that removes the certificate of a study that was over already; a new one follows. The log has both."""
    over = before is not None and before.stage in OVER
    return [Entry(tables.documents, [{"kind": "certificate"}], "removed")] if over else []


def _state(phase: int, text: str | None) -> list[Entry]:
    return [] if text is None else [Entry(tables.states, [{"phase": phase, "state": text}])]


def _opened(plan: Plan, agents: tuple[str, ...], at: str) -> list[Entry]:
    """The rows of a new phase: its plan, and the planned draws of each agent that has any."""
    phase = {"phase": plan.phase, "plan": plan.text, "plan_digest": plan.digest, "opened_at": at}
    columns = [(agent, plan.draws(place)) for place, agent in enumerate(agents)]
    asked = [
        {"phase": plan.phase, "agent": agent, "draws": canonical(list(draws))} for agent, draws in columns if any(draws)
    ]
    return [Entry(tables.phases, [{**phase, "decision": None, "closed_at": None}]), Entry(tables.assignments, asked)]


def _report(report: Report, record: Record) -> Values:
    place = {"phase": report.phase, "agent": report.agent}
    return {**place, "body": report.text, "digest": report.digest, "at": record.at, "sequence": record.sequence}


def first_row(event: events.StudyCreated, at: str, *, sequence: int = 0, head: str = GENESIS) -> StudyRow:
    """The row of a new study before its first record; after it, if that record's `sequence` and `head` are given."""
    study, plan = event.study, event.plan
    return StudyRow(
        id=event.study_id,
        name=study.name,
        digest=study.digest,
        policy=study.policy,
        arms=len(study.arms),
        agents=len(study.agents),
        questions=len(study.problem.asks_only),
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
    """A study's row after an event that the state machine admitted."""
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
    """By how much an event changes the number of samples in accepted reports."""
    match event:
        case events.ReportAccepted(report=report):
            return report.people
        case events.ReportAmended(report=report):
            standing = before.place.standing if before.place else None
            return report.people - (standing.people if standing else 0)
        case _:
            return 0


def _reason(event: Event, before: str) -> str:
    """Why the study is paused or over, as stored. Later versions must compute the same text, or audits would fail."""
    match event:
        case events.Paused(reason=reason) | events.Cancelled(reason=reason):
            return reason
        case events.Disputed(agent=agent, sequence=sequence):
            lost = f"{agent!r} holds a receipt for record {sequence} that is not in this log"
            return f"{lost}: restored from an old backup?"
        case events.StepFailed(error=error):
            return f"the policy's step failed: {error}"
        case events.Resumed() | events.PhaseClosed():
            return ""
        case _:
            return before
