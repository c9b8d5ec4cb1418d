"""SQLite storage: one file, one process, one writer connection on one thread, many readers.

The writer puts all waiting changes into one commit. `synchronous=FULL` makes the write-ahead log durable at every
commit. Pragmas are read back after they are set, since SQLite ignores unknown ones.

A program that has a file open can still write to it after the file was deleted or replaced, and these writes are lost
when the program ends. So inodes are compared before every commit, and again after it, before any change is
acknowledged.
"""

import os
import queue
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from parley.coordinator.record.base import (
    LARGEST_GROUP,
    Change,
    RecordCache,
    Storage,
    Transaction,
    commit_together,
    look,
)
from parley.errors import InvalidInput, StorageUnavailable
from parley.system.files import FileLock, Locked

T = TypeVar("T")
BUSY = 10.0  # seconds that SQLite waits for a lock
PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": int(BUSY * 1000)}


class SqliteStorage(Storage):
    """A `Storage` in one SQLite file."""

    exclusive = True

    def __init__(self, path: Path, *, readers: int = 8, writable: bool = True) -> None:
        self.path, self.url, self.cache = path, f"sqlite:///{path}", RecordCache()
        self._lock = DatabaseLock(path) if writable else None
        self._inodes = Inodes(path)
        self._writer = sqlite_engine(path)
        event.listen(self._writer, "connect", lambda *_: self._inodes.forget_log())
        self._readers = (sqlite_engine if writable else reading_engine)(path, readers=readers)
        self._waiting: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._closed = threading.Lock()  # acquired by the first `close` and never released
        self._thread = threading.Thread(target=self._write, name="sqlite-writer", daemon=True)
        if writable:
            self._thread.start()

    def submit(self, work: Callable[[Transaction], T], *, study: str | None = None) -> Future[T]:  # noqa: ARG002
        done: Future[T] = Future()
        if self._lock is None:
            done.set_exception(StorageUnavailable("the database is open for reading only"))
        else:
            self._waiting.put((work, done))
        return done

    def read(self, work: Callable[[Transaction], T]) -> T:
        return look(self._readers, self.cache, work)

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
        """Run the writer thread: commit waiting changes in groups until the storage is closed."""
        while (first := self._waiting.get()) is not None:
            group, last = [first], False
            while len(group) < LARGEST_GROUP and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:  # `close` asks to stop after the changes so far
                    last = True
                    break
                group.append(following)
            commit_together(self._writer, self.cache, group, self._inodes.check)
            if last:
                return


def sqlite_engine(path: Path, *, readers: int = 0) -> Engine:
    """Create the writer's engine, with one connection, or an engine with `readers` read-only connections."""

    def connect() -> sqlite3.Connection:
        made = _connect(str(path))
        for name, value in PRAGMAS.items():
            made.execute(f"PRAGMA {name}={value}")
            found = made.execute(f"PRAGMA {name}").fetchone()[0]
            if found != value:
                raise InvalidInput(f"SQLite pragma {name}", found=found, allowed=str(value))
        if readers:
            made.execute("PRAGMA query_only=1")
        return made

    return _engine(connect, connections=readers or 1, begin="BEGIN" if readers else "BEGIN IMMEDIATE")


def reading_engine(path: Path, *, readers: int) -> Engine:
    """Create an engine whose connections cannot write: for a file that a server writes to, or on a read-only disk."""
    address, folder = _readable_address(path)

    def connect() -> sqlite3.Connection:
        made = _connect(address, uri=True)
        made.execute("PRAGMA query_only=1")
        return made

    engine = _engine(connect, connections=readers, begin="BEGIN")
    if folder is not None:  # the copy lives as long as the engine that reads it
        weakref.finalize(engine, folder.cleanup)
    return engine


def _connect(address: str, *, uri: bool = False) -> sqlite3.Connection:
    # By default Python's sqlite3 begins transactions by its own rules; isolation_level=None turns that off.
    return sqlite3.connect(address, uri=uri, timeout=BUSY, check_same_thread=False, isolation_level=None)


def _engine(connect: Callable[[], sqlite3.Connection], *, connections: int, begin: str) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=connections, max_overflow=0)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _readable_address(path: Path) -> tuple[str, Any]:
    """The address to read a database from, and the temporary folder if it had to be copied, else None.

    To read a write-ahead log, SQLite creates a file next to it. If it cannot create that file, a database with an empty
    log is opened as immutable, and any other database is copied to a temporary folder, with its log.
    """
    whole = path.absolute()
    plain = f"{whole.as_uri()}?mode=ro"
    if os.access(whole.parent, os.W_OK) or _readable(plain):
        return plain, None
    log = Path(f"{whole}-wal")
    if not log.exists() or log.stat().st_size == 0:
        return f"{whole.as_uri()}?immutable=1", None
    folder = tempfile.TemporaryDirectory(prefix="parley-")
    for file in (whole, log):
        shutil.copyfile(file, Path(folder.name) / file.name)
    return (Path(folder.name) / whole.name).as_uri(), folder


def _readable(address: str) -> bool:
    try:
        connection = sqlite3.connect(address, uri=True)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        finally:
            connection.close()
    except sqlite3.Error:
        return False
    return True


Inode = tuple[int, int]


def _inode(path: Path | int) -> Inode | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class DatabaseLock:
    """The lock that lets only one process write to a database. The system releases it when that process ends.

    It locks the database file itself, which nobody can remove unnoticed, and a file next to it that names the process.
    Both are created with mode 600, for their owner alone; SQLite gives its other files the same mode.
    """

    # Files locked by this process. POSIX drops all locks of a process on a file when it closes any handle to it, so a
    # second handle would release SQLite's own locks.
    _mine: ClassVar[set[Inode]] = set()

    def __init__(self, database: Path) -> None:
        self.database = database.resolve()
        self._locks: list[FileLock] = []
        self._inode: Inode | None = None
        try:
            self._locks.append(FileLock(Path(f"{self.database}.lock")))
            if _inode(self.database) in self._mine:
                raise Locked(self.database, "this one")
            self._locks.append(FileLock(self.database, signed=False))
        except Locked as error:
            self.release()
            raise InvalidInput(
                "database",
                found=f"{database}, which another process ({error.holder or 'unknown'}) is writing to",
                allowed="one server process per SQLite file",
                hint="Stop the other one, or use PostgreSQL for several server processes",
            ) from None
        except OSError as error:
            self.release()
            raise InvalidInput(
                "database", found=f"{database} ({error.strerror})", allowed="a file that can be written"
            ) from None
        self._inode = _inode(self.database)
        if self._inode is not None:
            self._mine.add(self._inode)

    def release(self) -> None:
        """Release the database to other processes. All connections to it must be closed first."""
        if self._inode is not None:
            self._mine.discard(self._inode)
            self._inode = None
        for lock in reversed(self._locks):
            lock.release()


class Inodes:
    """The inodes that the database file and its write-ahead log had when they were opened."""

    def __init__(self, database: Path) -> None:
        self._database, self._log = database.absolute(), Path(f"{database.resolve()}-wal")
        self._opened = _inode(self._database)
        self._logged: Inode | None = None

    def forget_log(self) -> None:
        """Forget the inode of the write-ahead log. Called for a new connection, which may create another log."""
        self._logged = None

    def check(self) -> None:
        """Raise `StorageUnavailable` if the database or its log was deleted or replaced since it was opened."""
        if self._opened is None or _inode(self._database) != self._opened:
            raise StorageUnavailable(
                f"{self._database} was deleted or replaced while in use: stop the server and find out why"
            )
        found = _inode(self._log)
        if self._logged is not None and found != self._logged:
            raise StorageUnavailable(
                f"{self._log} was deleted or replaced while in use: stop the server and find out why"
            )
        self._logged = found
