"""Storage of studies: one contract (`base`), with SQLite by default and PostgreSQL by URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from parley.coordinator.record import tables
from parley.coordinator.record.base import Storage, Transaction
from parley.coordinator.record.postgres import PostgresStorage
from parley.coordinator.record.sqlite import DatabaseLock, SqliteStorage, sqlite_engine
from parley.errors import InvalidInput, StorageUnavailable

__all__ = [
    "Storage",
    "StorageUnavailable",
    "Transaction",
    "begin_alone",
    "initialise",
    "open_for_reading",
    "open_storage",
    "parse_url",
    "sqlite_engine",
]


def parse_url(text: str) -> URL:
    """Parse the address of a database: a URL, or the path of an SQLite file.

    >>> parse_url("parley.db").drivername, parse_url("postgresql://localhost/parley").drivername
    ('sqlite', 'postgresql+psycopg')
    """
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
    except ArgumentError:
        raise InvalidInput("database", found="an address that cannot be read", allowed=ALLOWED) from None
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database and url.database != ":memory:":
        return url
    if url.drivername == "postgresql+psycopg":
        return url
    raise InvalidInput("database", found=url.drivername, allowed=ALLOWED)


ALLOWED = "a file name, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


def initialise(address: str) -> tuple[str | None, str]:
    """Create or upgrade the schema while no other process writes. Returns the revision before (or None) and after."""
    with begin_alone(address) as connection:
        return tables.upgrade(connection)


@contextmanager
def begin_alone(address: str) -> Iterator[Connection]:
    """Run one transaction on a database that no server uses. With PostgreSQL the caller must make sure of that."""
    url = parse_url(address)
    path = Path(url.database or "") if url.drivername == "sqlite" else None
    lock = DatabaseLock(path) if path else None
    engine = sqlite_engine(path) if path else create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        raise StorageUnavailable(str(error.orig)) from None
    finally:
        engine.dispose()
        if lock is not None:
            lock.release()


def open_for_reading(address: str) -> Storage:
    """Open a database for reading while a server may write to it; `change` is refused."""
    return open_storage(address, writable=False)


def open_storage(
    address: str, *, connections: int = 10, statement_timeout: float = 30.0, writable: bool = True
) -> Storage:
    """Open a database that `initialise` has prepared, for changes or only for reading."""
    url = parse_url(address)
    storage: Storage
    if url.drivername == "sqlite":
        path = Path(url.database or "")
        if not path.is_file():
            raise InvalidInput(
                "database", found=f"no file at {path}", allowed=ALLOWED, hint="Run `parley admin init` first"
            )
        storage = SqliteStorage(path, writable=writable)
    else:
        storage = PostgresStorage(url, connections=connections, statement_timeout=statement_timeout, writable=writable)
    try:
        # A database opened for reading, such as a backup, may come from an installation with other edges.
        check = tables.check_schema if writable else tables.OWN.check
        storage.read(lambda transaction: check(transaction.connection))
    except BaseException:
        storage.close()
        raise
    return storage
