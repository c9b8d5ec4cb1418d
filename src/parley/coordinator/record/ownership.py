"""The files of an SQLite database: who may write to them, and whether they are still the ones that were opened.

A program that has a file open goes on writing to it after the file was deleted or another was put in its place; what it
writes then is gone when it ends. So the files are compared by their inodes before every commit, and after it, before
anybody is told.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from parley.errors import InvalidInput, StorageUnavailable
from parley.files import FileLock, Locked

__all__ = ["DatabaseLock", "Inodes"]

Inode = tuple[int, int]


def _inode(path: Path | int) -> Inode | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class DatabaseLock:
    """Held while a process writes to the database; the system frees it when the process dies, however it dies.

    The database file itself is locked, which nobody can remove without being noticed, and a file beside it that says
    who holds it. Both belong to their owner alone (mode 600), and so do the files that SQLite makes next to them.
    """

    # What this process holds: closing a second handle would free SQLite's own locks.
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
        """Let another process have the file. Every transaction to it must be closed before."""
        if self._inode is not None:
            self._mine.discard(self._inode)
            self._inode = None
        for lock in reversed(self._locks):
            lock.release()


class Inodes:
    """The database file and its write-ahead log, as they were when they were opened."""

    def __init__(self, database: Path) -> None:
        self._database, self._log = database.absolute(), Path(f"{database.resolve()}-wal")
        self._opened = _inode(self._database)
        self._logged: Inode | None = None

    def forget_log(self) -> None:
        """A transaction is opened anew: the write-ahead log may be a new one."""
        self._logged = None

    def check(self) -> None:
        """Raise `StorageUnavailable` unless what is written now will be found by whoever opens the file next."""
        if self._opened is None or _inode(self._database) != self._opened:
            raise StorageUnavailable(
                f"{self._database} was deleted or replaced while in use: stop the server, look why"
            )
        found = _inode(self._log)
        if self._logged is not None and found != self._logged:
            raise StorageUnavailable(f"{self._log} was deleted or replaced while in use: stop the server, look why")
        self._logged = found
