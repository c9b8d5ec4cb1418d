"""An SQLite database to look at, beside a server that writes to it, or on a disk that nobody can write to.

SQLite reads a write-ahead log with the help of a file that it makes beside it. Where it cannot, the database is opened
as one that never changes, if the log is empty; if it is not, both are copied to where there is room, and read there.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import weakref
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from parley.coordinator.record.memory import Memory

__all__ = ["reading_engine"]

BUSY = 10.0  # seconds


def reading_engine(path: Path, *, readers: int, memory: Memory | None = None) -> Engine:
    """Connections that cannot write, whatever they are asked."""
    address, folder = _address(path)

    def connect() -> sqlite3.Connection:
        made = sqlite3.connect(address, uri=True, timeout=BUSY, check_same_thread=False, isolation_level=None)
        made.execute("PRAGMA query_only=1")
        return made

    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=QueuePool,
        pool_size=readers,
        max_overflow=0,
        execution_options={"memory": memory},
    )
    if folder is not None:
        weakref.finalize(engine, folder.cleanup)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _address(path: Path) -> tuple[str, Any]:
    """Where to read, and the folder of the copy if there is one."""
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
