"""Writing an event that was admitted: its record, its rows, the study's row. Nothing else writes these tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, and_, delete, insert, update

from parley.coordinator.record import ledger, studies, tables
from parley.coordinator.record.killpoints import reached
from parley.coordinator.record.rows import Entry, first_row, row_after, rows_of
from parley.coordinator.record.studies import StudyRow
from parley.protocol import Event, Record, Situation, kind_of
from parley.protocol.events import StudyCreated

__all__ = ["write", "write_first"]

# Built once: building a statement costs more than running it.
INSERTS = {table.name: insert(table) for table in tables.metadata.sorted_tables}

# Where a test may kill the process: after a statement of an event, by the event's kind and the table.
POINTS = {
    ("report-accepted", "log"): "report-logged",
    ("report-accepted", "reports"): "report-inserted",
    ("report-accepted", "studies"): "report-counted",
    ("phase-closed", "log"): "step-logged",
    ("phase-closed", "phases changed"): "step-decision-stored",
    ("phase-closed", "states"): "step-state-stored",
    ("phase-closed", "phases"): "step-phase-opened",
    ("phase-closed", "assignments"): "step-plan-stored",
    ("phase-closed", "studies"): "step-counted",
    ("certified", "documents"): "step-certified",
    ("phase-cut", "log"): "cut-logged",
    ("phase-cut", "studies"): "cut-counted",
    ("agent-frozen", "log"): "freeze-logged",
    ("agent-frozen", "frozen"): "freeze-place-closed",
    ("agent-frozen", "studies"): "freeze-counted",
    ("report-quarantined", "log"): "hold-logged",
    ("report-quarantined", "quarantine"): "hold-stored",
    ("report-refused", "log"): "refuse-logged",
    ("report-refused", "quarantine changed"): "refuse-noted",
    ("reweighed", "log"): "reweigh-logged",
    ("reweighed", "documents removed"): "reweigh-certificate-removed",
    ("reweighed", "documents put"): "reweigh-weights-stored",
    ("reweighed", "states changed"): "reweigh-states-stored",
    ("reweighed", "phases"): "reweigh-phase-opened",
    ("reweighed", "assignments"): "reweigh-plan-stored",
    ("reweighed", "studies"): "reweigh-counted",
    ("agent-thawed", "log"): "thaw-logged",
    ("agent-thawed", "frozen removed"): "thaw-place-opened",
    ("agent-thawed", "studies"): "thaw-counted",
}


def write(
    connection: Connection,
    row: StudyRow,
    event: Event,
    before: Situation,
    after: Situation,
    *,
    actor: str,
    at: str,
    revision: int = 0,
    state: str | None = None,
    drafted: Record | None = None,
    states: Sequence[str] = (),
) -> StudyRow:
    """Everything that an event of a locked study leaves in the database; the study's row as it is then."""
    kind = kind_of(event)
    record = ledger.append(connection, row, event, actor=actor, at=at, drafted=drafted)
    _passed(kind, "log")
    for entry in rows_of(event, record, before, revision=revision, state=state, states=states):
        store(connection, row.id, entry)
        _passed(kind, entry.table.name if entry.how == "inserted" else f"{entry.table.name} {entry.how}")
    row = row_after(row, event, record, before, after)
    studies.save(connection, row)
    _passed(kind, "studies")
    return row


def write_first(
    connection: Connection, event: StudyCreated, *, state: str, actor: str, at: str, tellable: bool = False
) -> StudyRow:
    """A new study. `tellable`: its event was read back before, outside of the transaction."""
    row = first_row(event, at)
    connection.execute(INSERTS["studies"], asdict(row))
    record = ledger.append(connection, row, event, actor=actor, at=at, tellable=tellable)
    for entry in rows_of(event, record, None, state=state):
        store(connection, row.id, entry)
    row = first_row(event, at, sequence=record.sequence, head=record.hash)
    studies.save(connection, row)
    return row


def store(connection: Connection, study: str, entry: Entry) -> None:
    """Insert rows, or do what is said with those that are there; the primary keys refuse a second row in one place."""
    if not entry.rows:
        return
    rows = [{"study": study, **row} for row in entry.rows]
    for row in rows if entry.how != "inserted" else ():
        here = and_(*(column == row[column.name] for column in entry.table.primary_key))
        if entry.how == "changed":
            values = {name: value for name, value in row.items() if name not in entry.table.primary_key.columns}
            connection.execute(update(entry.table).where(here).values(values))
        else:
            connection.execute(delete(entry.table).where(here))
    if entry.how in ("inserted", "put"):
        connection.execute(INSERTS[entry.table.name], rows if len(rows) > 1 else rows[0])


def _passed(kind: str, table: str) -> None:
    point = POINTS.get((kind, table))
    if point is not None:
        reached(point)
