"""The log in the database: append a record to a study's chain or to the server's own, and read them back."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Row, and_, insert, select, update

from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.tables import chains, log
from parley.errors import BrokenChain, InvalidInput
from parley.protocol import Event, Record, kind_of, require_readable
from parley.protocol.codec import canonical, read_json

SERVER = "server"  # the stream of what belongs to no study: tokens, and who was shown which preview
BATCH = 20  # records that a database sends at once: one may have megabytes
AROUND = tuple(column.name for column in log.c if column.name != "payload")
INSERT = insert(log)


def draft(study: str, sequence: int, head: str, event: Event, *, actor: str, at: str, readable: bool = False) -> Record:
    """The record of an event after a chain of so many records with this head; nothing is written.

    What could not be read back does not enter the log. `readable`: that was made sure before, outside of the lock.
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
    """Write an event at the end of a locked study's chain; the study's row does not know of it yet (`writer`).

    `drafted` is its record, if that was made outside of the lock; it must follow where the chain is now.
    """
    record = drafted or draft(row.id, row.sequence, row.head, event, actor=actor, at=at, readable=readable)
    if (record.stream, record.sequence, record.previous) != (row.id, row.sequence + 1, row.head):
        raise InvalidInput("record", found="one that was drafted for another place", allowed="the next of the chain")
    _insert(transaction, record, event.text)
    return record


def append_server(transaction: Transaction, kind: str, payload: Mapping[str, Any], *, actor: str, at: str) -> Record:
    """Write at the end of the server's own chain, whose row is locked here."""
    last = transaction.execute(select(chains).where(chains.c.stream == SERVER).with_for_update()).one()
    record = Record.linked(last.sequence, last.head, stream=SERVER, at=at, actor=actor, kind=kind, payload=payload)
    _insert(transaction, record, canonical(payload))
    head = {"sequence": record.sequence, "head": record.hash}
    transaction.execute(update(chains).where(chains.c.stream == SERVER).values(head))
    return record


def _insert(transaction: Transaction, record: Record, payload: str) -> None:
    """Insert what its reader makes the same record of; `payload` is the canonical text of the record's.

    The payload was read back by whoever knows what it means. Of what is around it, numbers, hashes and times are made
    here; who did what, and to what, came from outside and is read back.
    """
    _require_readable(record.stream, record.actor, record.kind)
    transaction.execute(INSERT, {**{name: getattr(record, name) for name in AROUND}, "payload": payload})


@lru_cache(maxsize=4096)
def _require_readable(stream: str, actor: str, kind: str) -> None:
    """Raise unless a record with these words is read as it was written; asked once of those that come again."""
    around = Record.after(None, stream=stream, at="", actor=actor, kind=kind, payload={})
    if Record.read(around.text) != around:
        raise InvalidInput(
            "record", found="one that would be read as another", allowed="what is read as it was written"
        )


def _record(row: Row[*tuple[Any, ...]], payload: Mapping[str, Any]) -> Record:
    return Record(**{name: getattr(row, name) for name in AROUND}, payload=payload)


def _read(row: Row[*tuple[Any, ...]]) -> Record:
    payload = read_json(row.payload)
    if canonical(payload) != row.payload:
        raise BrokenChain(f"record {row.sequence} is stored as another text than it was written: {row.payload:.40}...")
    return _record(row, payload)


def has(transaction: Transaction, stream: str, sequence: int, head: str) -> bool:
    """Whether the chain had this head at this sequence: whether a receipt is genuine."""
    here = and_(log.c.stream == stream, log.c.sequence == sequence)
    return transaction.execute(select(log.c.hash).where(here)).scalar_one_or_none() == head


def salt_of(transaction: Transaction, stream: str, sequence: int) -> str | None:
    """What hides a record from those who see its hash; None if there is no such record."""
    here = and_(log.c.stream == stream, log.c.sequence == sequence)
    return transaction.execute(select(log.c.salt).where(here)).scalar_one_or_none()


def last_at(transaction: Transaction, stream: str, kind: str) -> str | None:
    """When the last record of a kind was written, without its payload, which may be large."""
    query = select(log.c.at).where(log.c.stream == stream, log.c.kind == kind).order_by(log.c.sequence.desc()).limit(1)
    return transaction.execute(query).scalar_one_or_none()


def _found(
    transaction: Transaction,
    stream: str,
    *,
    after: int = 0,
    limit: int | None = 100,
    size: int | None = None,
    kind: str | Collection[str] | None = None,
    actor: str | None = None,
    newest_first: bool = False,
) -> Iterator[Row[*tuple[Any, ...]]]:
    """Some records as they are stored, by kind and actor if wanted; no more once they are together larger than `size`.

    `after` continues: later records, or earlier ones with `newest_first`.
    """
    order = log.c.sequence.desc() if newest_first else log.c.sequence
    query = select(log).where(log.c.stream == stream).order_by(order).limit(limit)
    if newest_first and after:
        query = query.where(log.c.sequence < after)
    elif not newest_first:
        query = query.where(log.c.sequence > after)
    if kind is not None:
        query = query.where(log.c.kind == kind if isinstance(kind, str) else log.c.kind.in_(kind))
    if actor is not None:
        query = query.where(log.c.actor == actor)
    length = 0
    with transaction.execute(query.execution_options(yield_per=BATCH)) as found:
        for row in found:
            yield row
            length += len(row.payload)
            if size is not None and length > size:
                return


def lines(transaction: Transaction, stream: str, **which: Any) -> list[tuple[int, str]]:
    """Some records as they are exported, each with its sequence; `which` as `_found` has it.

    What is written out already is not parsed again.
    """
    return [(row.sequence, _record(row, {}).line(row.payload)) for row in _found(transaction, stream, **which)]


def of_kind(
    transaction: Transaction, stream: str, kind: str | Collection[str], limit: int | None = None, **which: Any
) -> list[Record]:
    """Every record of a kind or of some, in order; with a limit, the latest. `which` as `_found` has it."""
    latest = limit is not None
    found = [_read(row) for row in _found(transaction, stream, limit=limit, kind=kind, newest_first=latest, **which)]
    return found[::-1] if latest else found


def last(transaction: Transaction, stream: str) -> Record:
    """The last record of a chain that has one."""
    return next(map(_read, _found(transaction, stream, limit=1, newest_first=True)))


def walk(transaction: Transaction, stream: str) -> Iterator[Record]:
    """A whole chain: all of it is fetched from the database now, and each record is parsed when it is asked for."""
    found = deque(_found(transaction, stream, limit=None))
    # Each is dropped once it was handed over: a certificate has ten megabytes, and takes five times as many once read.
    return (_read(found.popleft()) for _ in range(len(found)))
