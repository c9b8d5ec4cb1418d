"""How anything happens to a study: the state machine admits it, then its record and its rows are written.

Nothing else writes these tables, and nobody sets a stage by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, delete, insert, update

from parley.coordinator.problems import Refusal
from parley.coordinator.record import ledger, phases, reports, studies, tables
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.rows import Entry, first_row, row_after, rows_of
from parley.coordinator.record.studies import StudyRow
from parley.errors import IllegalMove, ImpossibleReport
from parley.killpoints import reached
from parley.protocol import Event, Place, Record, Situation, Stage, admit, kind_of
from parley.protocol.events import PhaseClosedEarly, ReportAccepted, ReportAmended, ReportQuarantined, StudyCreated
from parley.protocol.state_machine import agent_of

# Built once: building a statement costs more than running it.
INSERTS = {table.name: insert(table) for table in tables.metadata.sorted_tables}

# Where tests may kill the process: after a statement of an event, by the event's kind and what was written.
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
    "reweighed": {
        "log": "reweigh-logged",
        "documents removed": "reweigh-certificate-removed",
        "documents put": "reweigh-weights-stored",
        "states changed": "reweigh-states-stored",
        "phases": "reweigh-phase-opened",
        "assignments": "reweigh-plan-stored",
        "studies": "reweigh-counted",
    },
}
# The chaos tests read these: of a report and the step it may bring, and of what administrators do or decide.
POINTS = (
    *("begun", "report-locked", "report-looked-up"),
    *AFTER["report-accepted"].values(),
    "step-computed",
    *AFTER["phase-closed"].values(),
    *AFTER["certified"].values(),
    *("before-commit", "after-commit"),
)
DECIDED = ("agent-frozen", "reweighed", "agent-thawed", "report-quarantined", "report-refused")
ACTS = tuple(point for kind in DECIDED for point in AFTER[kind].values())


def locked(transaction: Transaction, study: str) -> StudyRow:
    """A study that nobody else can change until this transaction ends, or the refusal."""
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
    """Let an event happen to a locked study, or raise the refusal; returns the study's row as it is then.

    `state` and `states` are the texts of the policy's states that it leaves. `drafted` is its record, if that was made
    outside of the lock; `place` is that of the agent it is about, if it was looked at under the lock.
    """
    before = _with_context(transaction, row, situation(transaction, row, agent_of(event), place), event)
    after = _admitted(row, before, event)
    revision = 0
    if isinstance(event, ReportAmended):
        revision = len(reports.receipts(transaction, row.id, row.phase, event.report.agent))
    points = AFTER.get(kind_of(event), {})
    record = ledger.append(transaction, row, event, actor=actor, at=at, drafted=drafted)
    _reached(points, "log")
    for entry in rows_of(event, record, before, revision=revision, state=state, states=states):
        store(transaction, row.id, entry)
        _reached(points, entry.table.name if entry.how == "inserted" else f"{entry.table.name} {entry.how}")
    row = row_after(row, event, record, before, after)
    studies.save(transaction, row)
    _reached(points, "studies")
    return row


def _reached(points: Mapping[str, str], statement: str) -> None:
    if statement in points:
        reached(points[statement])


def _admitted(row: StudyRow, before: Situation, event: Event) -> Situation:
    """Where the study is then, if the state machine admits the event; else the refusal in the words of the API."""
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
    """What the state machine needs to know, from the study's row and the agent's place."""
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
    """What a report that comes is held against, and what was refused in its place before; what an early close has."""
    if isinstance(event, PhaseClosedEarly):
        return replace(here, reported=len(reports.reported_agents(transaction, row.id, row.phase)))
    if row.stage is not Stage.RUNNING or not isinstance(event, ReportAccepted | ReportQuarantined):
        return here
    place = here.place
    if place is not None and isinstance(event, ReportQuarantined):
        held = reports.held(transaction, row.id, row.phase)
        place = replace(place, refused=frozenset(one.digest for one in held if one.refused is not None))
    return replace(here, place=place, against=phases.past(transaction, row, here.study))


def write_first(
    transaction: Transaction, event: StudyCreated, *, state: str, actor: str, at: str, readable: bool = False
) -> StudyRow:
    """A new study. `readable`: its event was read back before, outside of the transaction."""
    row = first_row(event, at)
    studies.add(transaction, row)
    record = ledger.append(transaction, row, event, actor=actor, at=at, readable=readable)
    for entry in rows_of(event, record, None, state=state):
        store(transaction, row.id, entry)
    row = first_row(event, at, sequence=record.sequence, head=record.hash)
    studies.save(transaction, row)
    return row


def store(transaction: Transaction, study: str, entry: Entry) -> None:
    """Insert rows, or do what is said with those that are there; the primary keys refuse a second row in one place."""
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
