"""Verify a study where it lives: its log, and that the tables say what the log says, row by row.

What people read comes from the tables, so everything that they hold of a study is compared with the log's own account
of it (`retelling`): every report and revision with its receipt, every plan and decision, whom it asked, what was put
aside, who was frozen, the states, the totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, select

from parley.coordinator.record import Storage, ledger, studies
from parley.coordinator.record.retelling import Retelling, sha256
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.tables import assignments, documents, frozen, phases, quarantine, reports, states
from parley.protocol import Receipt, Record, Trial, Verification, verify_log
from parley.protocol.canonical import digest

__all__ = ["verify_stored"]

RETOLD = (phases, assignments, reports, quarantine, frozen)  # held by the log word for word
MOST_NAMED = 5
T = TypeVar("T")
Rows = dict[tuple[Any, ...], dict[str, Any]]  # primary key without the study -> the other columns


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """One snapshot of a study: its row, its tables, and its log."""

    row: StudyRow
    tables: Mapping[str, Rows]
    documents: Mapping[str, str]  # kind -> SHA-256
    states: Mapping[int, str]  # phase -> SHA-256
    records: list[Record]


def verify_stored(
    storage: Storage, study: str, receipts: Iterable[Receipt | tuple[int, str]] = ()
) -> Verification | None:
    """The verification of a stored study; None if there is none. Reads one snapshot; replays outside of it."""
    stored = storage.read(lambda connection: _stored(connection, study))
    if stored is None:
        return None
    result = verify_log(stored.records, receipts)
    if not result.sound or result.trial is None:
        return result
    wrong = list(_differences(stored, result, result.trial))
    if not wrong:
        return result
    named = ", ".join(wrong[:MOST_NAMED]) + (f" and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else "")
    return replace(result, problem=f"the log is sound, but the database says otherwise: {named}")


def _stored(connection: Connection, study: str) -> _Stored | None:
    row = studies.get(connection, study)
    if row is None:
        return None
    return _Stored(
        row=row,
        tables={table.name: _rows(connection, table, study) for table in RETOLD},
        documents=_hashed(connection, select(documents.c.kind, documents.c.body).where(documents.c.study == study)),
        states=_hashed(connection, select(states.c.phase, states.c.state).where(states.c.study == study)),
        records=list(ledger.walk(connection, study)),
    )


def _hashed(connection: Connection, query: Select[tuple[Any, str]]) -> dict[Any, str]:
    return {key: sha256(text) for key, text in connection.execute(query)}


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.primary_key if column.name != "study"]


def _rows(connection: Connection, table: Table, study: str) -> Rows:
    found = connection.execute(select(table).where(table.c.study == study)).mappings()
    return _by_key(table, ({name: row[name] for name in row if name != "study"} for row in found))


def _by_key(table: Table, rows: Iterable[dict[str, Any]]) -> Rows:
    keys = _keys(table)
    return {tuple(row.pop(name) for name in keys): row for row in rows}


def _differences(stored: _Stored, result: Verification, trial: Trial) -> Iterator[str]:
    """Every place in which the tables do not say what the log says."""
    told = Retelling(stored.records)
    for name, value in _expected_row(told, result, trial).items():
        if getattr(stored.row, name) != value:
            yield f"studies.{name}"
    written = {"study": trial.study.digest} | ({"certificate": result.certificate} if result.certificate else {})
    yield from (f"documents ({key})" for key in _unequal(stored.documents, written))
    # The start is not in the log; it is compared unless this machine rounds otherwise than the one that ran the study.
    start = digest(trial.policy.start().to_json()) if result.exact else stored.states.get(0, "")
    yield from (f"states ({phase})" for phase in _unequal(stored.states, {0: start, **told.states}))
    for table in RETOLD:
        yield from _compared(table, stored.tables[table.name], _by_key(table, told.tables[table.name]))


def _unequal(found: Mapping[T, Any], told: Mapping[T, Any]) -> list[T]:
    """The keys under which two mappings do not have the same, in order."""
    return sorted(key for key in found.keys() | told.keys() if found.get(key) != told.get(key))  # type: ignore[type-var]


def _expected_row(told: Retelling, result: Verification, trial: Trial) -> dict[str, Any]:
    study = trial.study
    expected = {
        "name": study.name,
        "digest": study.digest,
        "policy": study.policy,
        "arms": len(study.arms),
        "agents": len(study.agents),
        "stage": trial.stage,
        "phase": trial.phase,
        "awaited": len(trial.awaited),
        "samples": told.samples,
        "sequence": result.records,
        "head": result.head,
        "created_at": told.created_at,
        "opened_at": told.opened_at,
    }
    return expected if told.reason is None else expected | {"reason": told.reason}


def _compared(table: Table, found: Rows, told: Rows) -> Iterator[str]:
    for key in _unequal(found, told):
        where = ", ".join(f"{name} {value}" for name, value in zip(_keys(table), key, strict=True))
        if key in found and key in told:
            what = ", ".join(name for name, value in found[key].items() if value != told[key][name])
        else:
            what = "missing" if key in told else "not in the log"
        yield f"{table.name} ({where}): {what}"
