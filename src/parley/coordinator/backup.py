"""Copy everything, as of one moment, between databases. A backup is an SQLite file, whatever it is taken from."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, create_engine, func, insert, select
from sqlalchemy.exc import DBAPIError

from parley.coordinator.storage import (
    StorageUnavailable,
    initialise,
    open_for_reading,
    parse_url,
    schema,
    sqlite_engine,
)
from parley.coordinator.storage.sqlite import FileLock
from parley.coordinator.storage.tables import chains, metadata, studies
from parley.errors import InvalidInput

__all__ = ["backup", "restore"]

BATCH = 1000


def backup(address: str, output: Path) -> int:
    """One snapshot of a database, into a new SQLite file; returns how many rows. The source may be in use."""
    if output.exists():
        raise InvalidInput("output", found=f"{output}, which exists", allowed="a new file")
    source = open_for_reading(address)
    aside = output.with_name(output.name + ".part")
    try:
        aside.unlink(missing_ok=True)
        initialise(str(aside))
        engine = sqlite_engine(aside)
        with engine.begin() as target:
            rows = source.read(lambda connection: _copy(connection, target))
        engine.dispose()  # the last connection writes the write-ahead log back into the file
        aside.replace(output)
    finally:
        source.close()
        for end in ("", "-wal", "-shm", ".lock"):
            Path(f"{aside}{end}").unlink(missing_ok=True)
    return rows


def restore(source: Path, address: str) -> int:
    """A backup, into a database that has no study yet; returns how many rows."""
    initialise(address)
    url = parse_url(address)
    lock = FileLock(Path(url.database or "")) if url.drivername == "sqlite" else None
    engine = sqlite_engine(Path(url.database or "")) if url.drivername == "sqlite" else create_engine(url)
    backed_up = open_for_reading(str(source))
    try:
        with engine.begin() as target:
            _require_empty(target)
            return backed_up.read(lambda connection: _copy(connection, target))
    except DBAPIError as error:
        raise StorageUnavailable(str(error.orig)) from None
    finally:
        backed_up.close()
        engine.dispose()
        if lock is not None:
            lock.release()


def _require_empty(target: Connection) -> None:
    if target.execute(select(func.count()).select_from(studies)).scalar_one():
        raise InvalidInput("database", found="studies in it", allowed="an empty database")


def _copy(source: Connection, target: Connection) -> int:
    schema.check_schema(source)
    target.execute(chains.delete())
    rows = 0
    for table in metadata.sorted_tables:
        found = source.execution_options(yield_per=BATCH).execute(select(table)).mappings()
        for batch in found.partitions(BATCH):
            target.execute(insert(table), [dict(row) for row in batch])
            rows += len(batch)
    return rows
