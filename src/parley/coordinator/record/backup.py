"""Backup and restore: copy a snapshot of one database into another. A backup is always an SQLite file.

Sessions are left out, so that a restore revives none that have ended since the backup; everybody signs in again.
Tables of an edge are included if the edge names them (`Schema.backed_up`) and the source database has them.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Row, func, insert, select
from sqlalchemy.exc import DBAPIError

from parley.coordinator.record import (
    StorageUnavailable,
    begin_alone,
    initialise,
    open_for_reading,
    sqlite_engine,
    tables,
)
from parley.coordinator.record.tables import chains, tokens
from parley.errors import InvalidInput
from parley.system.files import ASIDE, put_in_place

BATCH = 1000


@dataclass(frozen=True, kw_only=True)
class Restored:
    """The result of a restore."""

    rows: int
    # Tokens (kid, principal) that are valid again, oldest first. Some may have been revoked after the backup.
    live: tuple[Row[*tuple[Any, ...]], ...]


def backup(address: str, output: Path) -> int:
    """Copy a snapshot of a database into a new SQLite file, and return the number of rows. The source may be in use.

    The file gets its final name only when it is complete: checkpointed, read back, and on disk.
    """
    if output.exists():
        raise InvalidInput("output", found=f"{output}, which exists", allowed="a new file")
    source = open_for_reading(address)
    aside = output.with_name(output.name + ASIDE)
    try:
        aside.unlink(missing_ok=True)
        initialise(str(aside))
        engine = sqlite_engine(aside)
        try:
            with engine.begin() as target:
                copied = source.read(lambda transaction: _copy(transaction.connection, target))
            _write_out(engine)
        finally:
            engine.dispose()
        _check_file(aside, copied)
        put_in_place(aside, output)
    except DBAPIError as error:
        raise StorageUnavailable(f"the backup could not be written: {error.orig}") from None
    finally:
        source.close()
        # After a success the file has its final name, and only leftovers of SQLite and the lock are removed.
        for end in ("", "-wal", "-shm", ".lock"):
            Path(f"{aside}{end}").unlink(missing_ok=True)
    return sum(copied.values())


def _write_out(engine: Engine) -> None:
    """Checkpoint the write-ahead log into the file. Closing the database would do so too, but would hide a failure."""
    connection = engine.raw_connection()
    try:
        busy, *_ = connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise StorageUnavailable(f"the backup could not be written: {error}") from None
    finally:
        connection.close()
    if busy:
        raise StorageUnavailable("the backup could not be written: another process has it open")


def _check_file(path: Path, copied: dict[str, int]) -> None:
    """Reopen the file alone, without its write-ahead log (`immutable`), and check that it has all copied rows."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)
        try:
            flaw = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            found = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in copied}
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StorageUnavailable(f"the backup cannot be read back: {error}") from None
    if flaw != "ok" or found != copied:
        raise StorageUnavailable(f"the backup is damaged: {flaw}; {found} rows of {copied}")


def restore(source: Path, address: str) -> Restored:
    """Restore a backup into a database without studies."""
    initialise(address)
    backed_up = open_for_reading(str(source))
    try:
        with begin_alone(address) as target:
            _require_empty(target)
            copied = backed_up.read(lambda transaction: _copy(transaction.connection, target))
            kept = select(tokens.c.kid, tokens.c.principal).where(tokens.c.revoked_at.is_(None))
            live = tuple(target.execute(kept.order_by(tokens.c.created_at, tokens.c.kid)))
        return Restored(rows=sum(copied.values()), live=live)
    finally:
        backed_up.close()


def _require_empty(target: Connection) -> None:
    """Raise if a table that a restore fills has rows, even if its only row is the token of `parley admin init`."""
    kept = [table for schema in tables.schemas() for table in schema.backed_up if table is not chains]
    counted = {table.name: target.execute(select(func.count()).select_from(table)).scalar_one() for table in kept}
    found = ", ".join(f"{count:,} rows of {name}" for name, count in counted.items() if count)
    if found:
        hint = "Name a database that does not exist yet or is still empty; `restore` prepares it itself"
        raise InvalidInput("database", found=found, allowed="an empty database", hint=hint)


def _copy(source: Connection, target: Connection) -> dict[str, int]:
    """Copy every table that belongs in a backup, and return the number of rows of each."""
    tables.OWN.check(source)
    target.execute(chains.delete())
    rows = {}
    kept = [schema for schema in tables.schemas() if schema.current(source) is not None]
    for table in [table for schema in kept for table in schema.backed_up]:
        rows[table.name] = 0
        found = source.execution_options(yield_per=BATCH).execute(select(table)).mappings()
        for batch in found.partitions(BATCH):
            target.execute(insert(table), [dict(row) for row in batch])
            rows[table.name] += len(batch)
    return rows
