"""Time stamps of a log's head, kept beside the log: rows of `documents`, so that backups carry them too.

They follow from nothing that is in the log; the audit compares the records that they name with it.
"""

from sqlalchemy import and_, func, insert, select

from parley.coordinator.record import ledger
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.tables import documents, log, studies
from parley.protocol import Record, Stamp

KIND = "stamp-{:010d}"  # by the sequence of the record: in order, and one of each
KINDS = documents.c.kind.startswith("stamp-")
DECIDED = ("phase-closed", "certified")  # kinds of records after which a stamp is due


def keep(transaction: Transaction, stamp: Stamp) -> bool:
    """Keep a stamp; False if there is one of its record, which stays."""
    row = {"study": stamp.study, "kind": KIND.format(stamp.sequence)}
    same = and_(*(documents.c[name] == value for name, value in row.items()))
    if transaction.execute(select(documents.c.kind).where(same)).first() is not None:
        return False
    transaction.execute(insert(documents).values(**row, body=stamp.text))
    return True


def texts(transaction: Transaction, study: str) -> list[str]:
    """Every stamp of a study's log, as it is exported."""
    query = select(documents.c.body).where(documents.c.study == study, KINDS).order_by(documents.c.kind)
    return list(transaction.execute(query).scalars())


def due(transaction: Transaction, seen: dict[str, int]) -> list[Record]:
    """The last records of logs in which something was decided after the last stamp.

    `seen`: study -> up to where its log needs none; kept here, so that no record is looked at twice.
    """
    found = []
    for study, sequence in transaction.execute(select(studies.c.id, studies.c.sequence)).all():
        if seen.get(study) == sequence:
            continue
        last = select(func.max(documents.c.kind)).where(documents.c.study == study, KINDS)
        stamped = int((transaction.execute(last).scalar_one() or KIND.format(0)).partition("-")[2])
        after = max(stamped, seen.get(study, 0))
        here = and_(log.c.stream == study, log.c.sequence > after, log.c.kind.in_(DECIDED))
        if transaction.execute(select(log.c.sequence).where(here).limit(1)).first() is None:
            seen[study] = sequence
        else:
            found.append(ledger.last(transaction, study))
    return found
