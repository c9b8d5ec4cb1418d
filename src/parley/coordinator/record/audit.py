"""Verify a stored study: check its log, and compare its tables with the log, row by row.

People read the tables, not the log. So every row of a study is compared with the row that the log's events should have
written (`rows_of`, which also wrote it): every report and revision with its receipt, every plan and decision, the draws
of each agent, the quarantine, the frozen agents, the documents, the states, and the study's own row.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

from sqlalchemy import Table, select

from parley.coordinator.record import ledger, studies, tables
from parley.coordinator.record.base import Storage, Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.writer import Entry, first_row, row_after, rows_of
from parley.protocol import Event, Proof, Record, Stamp, Trial, Verification, read_log, verify_log
from parley.protocol.codec import canonical, sha256
from parley.protocol.events import AskedAnew, PhaseClosed, ReportAccepted, ReportAmended, StudyCreated
from parley.protocol.state_machine import agent_of

# Tables whose content follows from the log.
PROJECTED = (
    tables.documents, tables.questions, tables.states, tables.phases, tables.assignments, tables.reports,
    tables.quarantine, tables.frozen,
)  # fmt: skip
MOST_NAMED = 5
Row: TypeAlias = Mapping[Any, Any]
Rows: TypeAlias = dict[tuple[Any, ...], dict[str, Any]]  # primary key without the study -> the other columns


def verify_stored(
    storage: Storage,
    study: str,
    receipts: Iterable[Proof] = (),
    believed: Callable[[Stamp], bool] = lambda _: True,
) -> Verification | None:
    """Verify a stored study; None if there is no such study. Reads one snapshot, and replays it outside of a lock."""
    stored = storage.read(lambda transaction: _stored(transaction, study))
    if stored is None:
        return None
    expected = _Projection()
    known = list(receipts)
    result = verify_log(chain(stored.records, read_log(stored.stamps, known)), known, expected.add, believed)
    if not result.sound:
        return result
    wrong = list(_differences(stored, expected, exact=result.exact))
    if not wrong:
        return result
    named = ", ".join(wrong[:MOST_NAMED]) + (f" and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else "")
    return replace(result, problem=f"the log is sound, but the database says otherwise: {named}")


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """One snapshot of a study: its row, its tables, and its log."""

    row: StudyRow
    tables: Mapping[str, Rows]
    records: Iterator[Record]
    stamps: list[str]


def _stored(transaction: Transaction, study: str) -> _Stored | None:
    row = studies.get(transaction, study)
    if row is None:
        return None
    return _Stored(
        row=row,
        tables={table.name: _rows(transaction, table, study) for table in PROJECTED},
        records=ledger.walk(transaction, study),
        stamps=ledger.stamp_texts(transaction, study),
    )


def _rows(transaction: Transaction, table: Table, study: str) -> Rows:
    query = select(table).where(table.c.study == study).execution_options(yield_per=ledger.BATCH)
    if table is tables.documents:
        query = query.where(~ledger.STAMPS)
    found = transaction.execute(query).mappings()
    return {_key(table, row): _others(table, row) for row in found}


class _Projection:
    """The tables as they should be according to the log, built record by record."""

    def __init__(self) -> None:
        self.row: StudyRow | None = None
        self.tables: dict[str, Rows] = defaultdict(dict)
        self._stood: Counter[tuple[int, str]] = Counter()  # (phase, agent) -> number of accepted reports so far

    def add(self, record: Record, event: Event, before: Trial | None, after: Trial) -> None:
        """Add a record that the replay accepted."""
        if before is None or self.row is None:
            assert isinstance(event, StudyCreated)
            self.row = first_row(event, record.at, sequence=record.sequence, head=record.hash)
            self._take(rows_of(event, record, None, state=canonical(after.state.to_json())))
            return
        here = before.situation(agent_of(event))
        revision = 0
        state: str | None = None
        states: tuple[str, ...] = ()
        if isinstance(event, ReportAccepted | ReportAmended):
            place = (event.report.phase, event.report.agent)
            revision, self._stood[place] = self._stood[place], self._stood[place] + 1
        if isinstance(event, PhaseClosed):
            # The digest in the log, not the digest of the state computed here: another machine may round differently.
            state = _Digest(event.decision.state)
        if isinstance(event, AskedAnew):
            state, states = canonical(after.policy.start().to_json()), tuple(map(_Digest, event.states))
        self._take(rows_of(event, record, here, revision=revision, state=state, states=states))
        self.row = row_after(self.row, event, record, here, after.situation())

    def _take(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            rows = self.tables[entry.table.name]
            for row in entry.rows:
                key, others = _key(entry.table, row), _others(entry.table, row)
                if entry.how == "removed":
                    rows.pop(key, None)
                else:
                    rows[key] = {**rows[key], **others} if entry.how == "changed" else others


def _names(table: Table) -> list[str]:
    return [column.name for column in table.primary_key if column.name != "study"]


def _key(table: Table, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _names(table))


def _others(table: Table, row: Row) -> dict[str, Any]:
    """The columns that are not in the key; texts are replaced by their SHA-256, since some have megabytes."""
    return {name: _hashed(row[name]) for name in row if name != "study" and name not in table.primary_key.columns}


class _Digest(str):
    """The SHA-256 of a text, used in place of a text that the log does not contain."""


def _hashed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return str(value) if isinstance(value, _Digest) else sha256(value)


def _differences(stored: _Stored, expected: _Projection, *, exact: bool) -> Iterator[str]:
    """Name every row and column in which the tables differ from the log."""
    assert expected.row is not None
    found, should = asdict(stored.row), asdict(expected.row)
    yield from (f"studies.{name}" for name in found if found[name] != should[name])
    for table in PROJECTED:
        yield from _compared(table, stored.tables[table.name], expected.tables[table.name], exact=exact)


def _compared(table: Table, found: Rows, expected: Rows, *, exact: bool) -> Iterator[str]:
    for key in sorted(found.keys() | expected.keys()):
        if table is tables.states and key == (0,) and key in found and not exact:
            continue  # the log has no digest of the initial state, so it is compared only if this machine rounds alike
        if key in found and key in expected:
            what = ", ".join(name for name, value in found[key].items() if value != expected[key][name])
        else:
            what = "missing" if key in expected else "not in the log"
        if what:
            where = ", ".join(f"{name} {value}" for name, value in zip(_names(table), key, strict=True))
            yield f"{table.name} ({where}): {what}"
