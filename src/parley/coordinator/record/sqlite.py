"""SQLite: one file, one process, one writer connection on one thread, many readers.

The writer takes whatever changes are waiting into one commit (`groups`). `synchronous=FULL` makes the write-ahead log
durable at every commit; pragmas are read back, since SQLite ignores what it does not know.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from parley.coordinator.cache import Cache
from parley.coordinator.record.base import Storage, StorageUnavailable
from parley.coordinator.record.groups import LARGEST_GROUP, Change, commit_together, unavailable
from parley.coordinator.record.memory import Memory
from parley.coordinator.record.ownership import DatabaseLock, Inodes
from parley.coordinator.record.readonly import reading_engine
from parley.errors import InvalidInput

__all__ = ["SqliteStorage", "sqlite_engine"]

T = TypeVar("T")
REMEMBERED = 10_000  # tokens that the writer found to be live
PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


def sqlite_engine(path: Path, *, readers: int = 0, **carried: Any) -> Engine:
    """The writer's engine (one connection), or one of read-only connections; each has with it what is `carried`."""
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=QueuePool,
        pool_size=readers or 1,
        max_overflow=0,
        connect_args={"check_same_thread": False, "isolation_level": None},
        execution_options=carried,
    )

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, _: Any) -> None:
        for name, value in PRAGMAS.items():
            connection.execute(f"PRAGMA {name}={value}")
            found = connection.execute(f"PRAGMA {name}").fetchone()[0]
            if found != value:
                raise InvalidInput(f"SQLite pragma {name}", found=found, allowed=str(value))
        if readers:
            connection.execute("PRAGMA query_only=1")

    # Python's sqlite3 begins transactions by its own rules; with isolation_level=None it leaves them to us. Not as an
    # event of the engine: where there is one, every statement looks for others.
    def _begin(dbapi_connection: PoolProxiedConnection) -> None:
        dbapi_connection.cursor().execute("BEGIN" if readers else "BEGIN IMMEDIATE")

    engine.dialect.do_begin = _begin  # type: ignore[method-assign]

    return engine


class SqliteStorage(Storage):
    """A `Storage` in one file."""

    exclusive = True

    def __init__(self, path: Path, *, readers: int = 8, writable: bool = True) -> None:
        self.path, self.url = path, f"sqlite:///{path}"
        self._lock = DatabaseLock(path) if writable else None
        self._inodes = Inodes(path)
        self.memory = Memory()
        self._writer = sqlite_engine(path, memory=self.memory, live_tokens=Cache[str, bool](REMEMBERED))
        event.listen(self._writer, "connect", lambda *_: self._inodes.forget_log())
        make = sqlite_engine if writable else reading_engine
        self._readers = make(path, readers=readers, memory=self.memory)
        self._waiting: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._closed = threading.Lock()  # held for good once closed
        self._thread = threading.Thread(target=self._write, name="sqlite-writer", daemon=True)
        if writable:
            self._thread.start()

    def submit(self, work: Callable[[Connection], T], *, study: str | None = None) -> Future[T]:  # noqa: ARG002
        done: Future[T] = Future()
        if self._lock is None:
            done.set_exception(StorageUnavailable("the database was opened for reading"))
        else:
            self._waiting.put((work, done))
        return done

    def read(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._readers.begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:  # of the database, or of the pool when all readers are taken
            raise unavailable(error) from error

    def close(self) -> None:
        if not self._closed.acquire(blocking=False):
            return
        if self._lock is not None:
            self._waiting.put(None)
            self._thread.join()
        self._readers.dispose()
        self._writer.dispose()
        if self._lock is not None:
            self._lock.release()

    def _write(self) -> None:
        """The writer thread: groups of changes, one commit each, until closed."""
        while (first := self._waiting.get()) is not None:
            group, last = [first], False
            while len(group) < LARGEST_GROUP and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    last = True
                    break
                group.append(following)
            commit_together(self._writer, group, self._inodes.check)
            if last:
                return
