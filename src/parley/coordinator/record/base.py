"""The storage contract. One conformance suite (tests/coordinator/test_storage.py) runs over every implementation.

- `change(work)` runs `work(connection)` in one transaction and returns its result **only after the commit is durable**:
  on SQLite it was synced to the disk, on PostgreSQL the server said so. If `work` raises, nothing of it is kept and the
  exception reaches the caller. If the commit fails, the caller gets `StorageUnavailable` and must assume neither
  outcome: every operation is written so that sending it again is safe.
- `work` runs exactly once per call, may only use the connection it is given, and must first lock what it changes:
  `studies.lock` for a study, `ledger.append_server` for tokens, which locks the server's own chain. Locks are held to
  the end of the transaction, so two works on one study never overlap, in whatever process they run.
- `read(work)` shows one consistent snapshot and cannot write; `glance(work)` is for work of a single statement, which
  needs no transaction around it to see one moment.
- Several changes may share one commit; those of one study keep their order, and one that raises takes none of the
  others with it. `study` names the only study that a change locks, so that such changes can be brought together.
- `memory` belongs to the storage and goes with it. Its connections carry it (`memory_of`).
- `exclusive`: while it is open, nobody else can change the database.
- `ping` answers whether a change would be durable now, by making one that changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from sqlalchemy import Connection, delete, insert

from parley.coordinator.record.memory import Memory
from parley.coordinator.record.tables import sessions
from parley.errors import StorageUnavailable

__all__ = ["Storage", "StorageUnavailable"]

T = TypeVar("T")
PATIENCE = 5.0  # seconds
PROBE = {"digest": "probe", "kid": "", "created_at": "", "expires_at": ""}


def _touch(connection: Connection) -> None:
    """A row that comes and goes: it needs room on the disk, the right to write and a sync, and leaves nothing.

    Writing again what is there would not do: SQLite sees that it is the same, and writes nothing.
    """
    connection.execute(insert(sessions).values(PROBE))
    connection.execute(delete(sessions).where(sessions.c.digest == PROBE["digest"]))


class Storage(ABC):
    """Where studies live. The module's docstring is the contract."""

    url: str
    exclusive: bool
    memory: Memory

    @abstractmethod
    def submit(self, work: Callable[[Connection], T], *, study: str | None = None) -> Future[T]:
        """`change` without waiting: the future has its result, or its exception, after the commit."""

    def change(self, work: Callable[[Connection], T], *, study: str | None = None) -> T:
        """Run in a transaction; return after the commit."""
        return self.submit(work, study=study).result()

    @abstractmethod
    def read(self, work: Callable[[Connection], T]) -> T:
        """Run on a snapshot."""

    def glance(self, work: Callable[[Connection], T]) -> T:
        """Run a single statement that reads."""
        return self.read(work)

    def ping(self) -> None:
        """Raise `StorageUnavailable` unless a change was committed within a few seconds."""
        try:
            self.submit(_touch).result(timeout=PATIENCE)
        except TimeoutError:
            raise StorageUnavailable(f"no commit within {PATIENCE:g} s") from None

    @abstractmethod
    def close(self) -> None:
        """Give back connections, threads and locks."""
