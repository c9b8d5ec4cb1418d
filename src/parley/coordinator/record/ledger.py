"""Read the log from the database: records of a study's chain, or of the server's chain. `writer` appends them.

Time stamps of a log's head are stored outside of the log, as rows of `documents`, so that backups contain them too.
No record says which stamps exist, but the audit checks that the log has the records that the stamps name.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import Row, and_, func, insert, select

from parley.coordinator.record.base import Transaction
from parley.coordinator.record.tables import documents, log, studies
from parley.errors import BrokenChain
from parley.protocol import Record, Stamp
from parley.protocol.codec import LARGE, canonical, read_json, sha256

SERVER = "server"  # the stream of records that belong to no study: tokens issued, and previews shown
BATCH = 20  # records fetched at once: a single record may have megabytes
AROUND = tuple(column.name for column in log.c if column.name != "payload")
# A stamp's key has the record's number, who requested the stamp (`own`: the server) and its digest. So keys sort by
# record, and no stamp overwrites another.
STAMP, MADE = "stamp-{:010d}-{}-{}", {True: "own", False: "given"}
STAMPS = documents.c.kind.startswith("stamp-")
DECIDED = ("phase-closed", "certified")  # kinds of records that a stamp should follow


def _record(row: Row[*tuple[Any, ...]], payload: Mapping[str, Any]) -> Record:
    return Record(**{name: getattr(row, name) for name in AROUND}, payload=payload)


def _read(row: Row[*tuple[Any, ...]]) -> Record:
    record = _record(row, read_json(row.payload))
    if record.payload_text != row.payload:
        raise BrokenChain(f"record {row.sequence} is not stored as it was written: {row.payload:.40}...")
    return record


def has(transaction: Transaction, stream: str, sequence: int, head: str) -> bool:
    """Whether record `sequence` of the chain has the hash `head`, that is, whether a receipt is genuine."""
    here = and_(log.c.stream == stream, log.c.sequence == sequence)
    return transaction.execute(select(log.c.hash).where(here)).scalar_one_or_none() == head


def salt_of(transaction: Transaction, stream: str, sequence: int) -> str | None:
    """The salt that hides a record's content from readers of its hash; None if there is no such record."""
    here = and_(log.c.stream == stream, log.c.sequence == sequence)
    return transaction.execute(select(log.c.salt).where(here)).scalar_one_or_none()


def last_at(transaction: Transaction, stream: str, kind: str) -> str | None:
    """When the last record of a kind was written, or None; its payload, which may be large, is not read."""
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
    """Yield stored records, filtered by kind and actor, until their total size exceeds `size`.

    The first record is the one after number `after` or, with `newest_first`, the one before it (0: the last record).
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
    """Records as lines of the export, each with its number; `which` has the filters of `_found`.

    Payloads are copied as stored text, without being parsed.
    """
    return [(row.sequence, _record(row, {}).line(row.payload)) for row in _found(transaction, stream, **which)]


def of_kind(
    transaction: Transaction, stream: str, kind: str | Collection[str], limit: int | None = None, **which: Any
) -> list[Record]:
    """Records of some kinds, in order; with a limit, only the latest records. `which` has the filters of `_found`."""
    latest = limit is not None
    found = [_read(row) for row in _found(transaction, stream, limit=limit, kind=kind, newest_first=latest, **which)]
    return found[::-1] if latest else found


def last(transaction: Transaction, stream: str) -> Record:
    """The last record of a chain that is not empty."""
    return next(map(_read, _found(transaction, stream, limit=1, newest_first=True)))


def names(transaction: Transaction, *, stream: str, kind: str, actor: str, what: Mapping[str, str]) -> bool:
    """Whether a record of this kind and actor has these keys and values in its payload.

    Payloads are canonical text, so searching for the encoded keys and values is enough.
    """
    query = select(log.c.sequence).where(log.c.stream == stream, log.c.kind == kind, log.c.actor == actor)
    for key, value in what.items():
        query = query.where(log.c.payload.contains(f"{canonical(key)}:{canonical(value)}", autoescape=True))
    return transaction.execute(query.order_by(log.c.sequence.desc()).limit(1)).first() is not None


def walk(transaction: Transaction, stream: str) -> Iterator[Record]:
    """The records of a whole chain, fetched from the database now and parsed one by one on demand."""
    found = deque(_found(transaction, stream, limit=None))
    # A row is dropped as soon as it is yielded: a certificate has ten megabytes, and takes five times as much parsed.
    return (_walked(found.popleft()) for _ in range(len(found)))


def _walked(row: Row[*tuple[Any, ...]]) -> Record:
    """A record to verify. A large payload is left unparsed.

    The verifier compares the payload's text, and parses it only if needed.
    """
    return _record(row, {}).unread(row.payload) if len(row.payload) > LARGE else _read(row)


def keep_stamp(transaction: Transaction, stamp: Stamp, *, own: bool = False) -> None:
    """Store a time stamp; `own` marks a stamp that the server itself requested from the operator's authority.

    The mark is needed because anybody can submit a stamp that names any authority.
    """
    kind = STAMP.format(stamp.sequence, MADE[own], sha256(stamp.text)[:8])
    transaction.execute(insert(documents).values(study=stamp.study, kind=kind, body=stamp.text))


def stamps_of(transaction: Transaction, study: str, sequence: int) -> list[str]:
    """The time stamps of one record, as lines of the export."""
    here = documents.c.kind.startswith(f"stamp-{sequence:010d}-")
    return list(transaction.execute(select(documents.c.body).where(documents.c.study == study, here)).scalars())


def stamp_texts(transaction: Transaction, study: str) -> list[str]:
    """Every time stamp of a study's log, as lines of the export."""
    query = select(documents.c.body).where(documents.c.study == study, STAMPS).order_by(documents.c.kind)
    return list(transaction.execute(query).scalars())


def stamps_due(transaction: Transaction, seen: dict[str, int]) -> list[Record]:
    """The last record of every log that has a decision after the last stamp that the server requested.

    `seen` maps each study to the record up to which its log needs no stamp. It is updated here, so that no record is
    examined twice.
    """
    found = []
    for study, sequence in transaction.execute(select(studies.c.id, studies.c.sequence)).all():
        if seen.get(study) == sequence:
            continue
        own = documents.c.kind.like(f"stamp-%-{MADE[True]}-%")
        latest = select(func.max(documents.c.kind)).where(documents.c.study == study, own)
        stamped = int((transaction.execute(latest).scalar_one() or "stamp-0").split("-")[1])
        after = max(stamped, seen.get(study, 0))
        here = and_(log.c.stream == study, log.c.sequence > after, log.c.kind.in_(DECIDED))
        if transaction.execute(select(log.c.sequence).where(here).limit(1)).first() is None:
            seen[study] = sequence
        else:
            found.append(last(transaction, study))
    return found
