"""The storage contract. One conformance suite (tests/coordinator/test_storage.py) runs over every implementation.

- `change(work)` runs `work(transaction)` in one transaction and returns its result **only after the commit is
  durable**: SQLite has synced it to the disk, or the PostgreSQL server has confirmed it. If `work` raises, all of its
  writes are undone and the exception reaches the caller. If the commit fails, the caller gets `StorageUnavailable` and
  must not assume either outcome: every operation is written so that sending it again is safe.
- `work` runs at most once per call, may only use the transaction that it gets, and must first lock what it changes:
  `studies.lock` for a study, `writer.append_server` for tokens, which locks the server's own chain. Locks last to the
  end of the transaction, so two changes of one study never overlap, in whatever process they run.
- `read(work)` reads one consistent snapshot and cannot write. `glance(work)` is for work of a single statement, which
  is consistent without a transaction around it.
- Several changes may share one commit. Changes of one study keep their order, and a change that raises undoes none of
  the others. `study` names the only study that a change locks, so that changes of one study can share a commit.
- `cache` belongs to the storage and ends with it. It holds only values that can be read again from the database, or
  that sites send again.
- `exclusive` is true if no other process can change the database while the storage is open.
- `ping` checks whether a change would be durable now, by committing a change that leaves the data as they are.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, delete, insert
from sqlalchemy.exc import SQLAlchemyError

from parley.coordinator.record.tables import sessions
from parley.errors import StorageUnavailable
from parley.estimates import Estimates
from parley.policies import Explanation, State
from parley.problem import IntArray
from parley.protocol import StudyMessage
from parley.protocol.report_checks import Scatter
from parley.protocol.sensitivity import Sensitivity
from parley.rewards import Past
from parley.text.status import OutcomeStatus
from parley.totals import Totals

if TYPE_CHECKING:
    from parley.coordinator.record.studies import StudyRow

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
PATIENCE = 5.0  # seconds that `ping` waits for its commit
LARGEST_GROUP = 128  # most changes in one commit
PROBE = {"digest": "probe", "kid": "", "created_at": "", "expires_at": ""}
PhaseKey: TypeAlias = tuple[str, str, int]  # a study's id, its digest, and one of its decided phases


class Cache(Generic[K, V]):
    """A thread-safe cache, limited in number and total size; the least recently used value is dropped first.

    The newest value is always kept, however large.

    >>> known = Cache[str, str](most=2)
    >>> for word in ("one", "two", "three"):
    ...     known.put(word, word.upper())
    >>> known.get("one"), known.get("two"), len(known)
    (None, 'TWO', 2)
    """

    def __init__(self, most: int, *, weigh: Callable[[V], int] | None = None, heaviest: int = 0) -> None:
        limit = heaviest if weigh else most

        def size(value: V) -> float:
            """The size of a value for the cache: at most the limit, and at least limit / most, to bound the count."""
            return min(max(weigh(value), limit / most), limit) if weigh else 1

        self._values: LRUCache[K, V] = LRUCache(limit, getsizeof=size)
        self._lock = threading.Lock()
        self._computing: dict[K, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """Return the cached value of a key, or None."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Store the value of a key, replacing any earlier value."""
        with self._lock:
            self._values[key] = value

    def get_or_compute(self, key: K, compute: Callable[[], V]) -> V:
        """Return the value of a key. If it is not cached, one thread computes it while others that need it wait."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            computing = self._computing.setdefault(key, threading.Lock())
        try:
            with computing:
                found = self.get(key)  # another thread may have computed it while this one waited
                if found is None:
                    found = compute()
                    self.put(key, found)
                return found
        finally:
            with self._lock:
                self._computing.pop(key, None)


class RecordCache:
    """The caches of a storage: studies and summaries of decided phases, which never change; and what sites sent."""

    def __init__(self) -> None:
        # A study of 2,000 agents has four million weights, and takes a hundred megabytes.
        self.studies: Cache[str, StudyMessage] = Cache(
            64, weigh=lambda study: len(study.agents) ** 2, heaviest=5_000_000
        )
        self.states: Cache[PhaseKey, tuple[State, Explanation]] = Cache(24)
        # The key also has the indices of the agents that left, and the status with which the study was stopped.
        self.statuses: Cache[
            tuple[str, str, int, tuple[int, ...], OutcomeStatus | None], tuple[NDArray[np.str_], list[OutcomeStatus]]
        ] = Cache(24, weigh=lambda found: found[0].size, heaviest=1_000_000)
        self.scatters: Cache[PhaseKey, tuple[Scatter, ...]] = Cache(24)
        self.warnings: Cache[PhaseKey, tuple[str, ...]] = Cache(24)
        self.pasts: Cache[PhaseKey, tuple[Past | None]] = Cache(24)  # the key has `opened_at`, not a digest
        self.decisions: Cache[PhaseKey, tuple[IntArray, IntArray, bool]] = Cache(48)
        self.totals: Cache[PhaseKey, Totals] = Cache(500, weigh=lambda totals: totals.counts.size, heaviest=2_000_000)
        # The key also has the slice of agents. The size is limited: estimates keep the data of all phases and cells.
        self.estimates: Cache[tuple[str, str, int, int, int], Estimates] = Cache(
            24, weigh=lambda found: found.scatter.size, heaviest=1_000_000
        )
        self.sensitivities: Cache[PhaseKey, Sensitivity] = Cache(24)
        # What sites say about a phase: numbers recruited, observed and unmasked, and the objection of their own policy.
        # No decision depends on these values, and sites repeat any that were dropped.
        self.said: Cache[tuple[str, str, int], tuple[int | None, int | None, str, int | None]] = Cache(20_000)


class Transaction:
    """Connection and cache of one transaction.

    `locked` has the rows of the studies that this transaction has locked, as it last wrote them (`studies.lock`). No
    other transaction can change these rows before this one ends, so only the first of many reports in one commit reads
    them.
    """

    def __init__(self, connection: Connection, cache: RecordCache) -> None:
        self.connection, self.cache = connection, cache
        self.execute = connection.execute
        self.locked: dict[str, StudyRow] = {}


class Storage(ABC):
    """Base class of storages. The module's docstring is the contract."""

    url: str
    exclusive: bool
    cache: RecordCache

    @abstractmethod
    def submit(self, work: Callable[[Transaction], T], *, study: str | None = None) -> Future[T]:
        """Like `change`, without waiting: the future gets the result of `work`, or its exception, after the commit."""

    def change(self, work: Callable[[Transaction], T], *, study: str | None = None) -> T:
        """Run `work` in a transaction, and return its result after the commit."""
        return self.submit(work, study=study).result()

    @abstractmethod
    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on a snapshot of the database, and return its result."""

    def glance(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which must be a single read-only statement, and return its result."""
        return self.read(work)

    def ping(self) -> None:
        """Commit a change that leaves the data as they are; raise `StorageUnavailable` if that takes too long."""
        try:
            self.submit(_touch).result(timeout=PATIENCE)
        except TimeoutError:
            raise StorageUnavailable(f"no commit within {PATIENCE:g} s") from None

    @abstractmethod
    def close(self) -> None:
        """Release connections, threads and locks."""


def _touch(transaction: Transaction) -> None:
    """Insert and delete a row, which needs disk space, write permission and a sync.

    Rewriting an existing row would test nothing: SQLite notices that nothing changes, and writes nothing.
    """
    transaction.execute(insert(sessions).values(PROBE))
    transaction.execute(delete(sessions).where(sessions.c.digest == PROBE["digest"]))


def unavailable(error: Exception) -> StorageUnavailable:
    """Convert an error to `StorageUnavailable`, without the statement and its values, which do not belong in a log."""
    return StorageUnavailable(str(getattr(error, "orig", error)))


def look(engine: Engine, cache: RecordCache, work: Callable[[Transaction], T]) -> T:
    """Run read-only work in a transaction of an engine, and return its result."""
    try:
        with engine.begin() as connection:
            return work(Transaction(connection, cache))
    except SQLAlchemyError as error:  # an error of the database, or of the pool if all connections are in use
        raise unavailable(error) from error


Change: TypeAlias = tuple[Callable[[Transaction], Any], Future[Any]]
Outcome: TypeAlias = tuple[Any, Exception | None]


def commit_together(
    engine: Engine, cache: RecordCache, group: Sequence[Change], check: Callable[[], None] = lambda: None
) -> None:
    """Run changes in one transaction, and resolve their futures only after it has ended.

    Under load one disk sync serves many changes. Each change of a group has a savepoint, so that a change that raises
    does not undo the others; a single change needs no savepoint. `check` raises `StorageUnavailable` if a commit would
    be lost; it is called before the transaction and after the commit.
    """
    # From here on a change cannot be cancelled; changes that were cancelled before are dropped.
    group = [(work, done) for work, done in group if done.set_running_or_notify_cancel()]
    outcomes: list[Outcome] = []
    try:
        check()
        with engine.begin() as connection:
            sys.audit("parley.reached", "begun")
            transaction = Transaction(connection, cache)
            if len(group) == 1:
                outcomes.append((group[0][0](transaction), None))
            else:
                outcomes.extend(_in_savepoint(transaction, work) for work, _ in group)
            sys.audit("parley.reached", "before-commit")
        check()
        sys.audit("parley.reached", "after-commit")
    except (SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
        outcomes = [(None, unavailable(error))] * len(group)
    except Exception as error:  # raised by a single change, or by `check`: passed to the callers
        outcomes = [(None, error)] * len(group)
    for (_, done), (result, failure) in zip(group, outcomes, strict=True):
        if failure is None:
            done.set_result(result)
        else:
            done.set_exception(failure)


def _in_savepoint(transaction: Transaction, work: Callable[[Transaction], Any]) -> Outcome:
    """Run a change in a savepoint. Returns its result, or its exception after undoing everything that it wrote.

    The SQL is written out, because SQLAlchemy names each savepoint differently and so compiles each again.
    """
    run = transaction.connection.exec_driver_sql
    run("SAVEPOINT change")
    outcome: Outcome
    try:
        outcome = work(transaction), None
    except Exception as error:
        run("ROLLBACK TO SAVEPOINT change")
        transaction.locked.clear()  # locks taken since the savepoint are gone with it
        outcome = None, unavailable(error) if isinstance(error, SQLAlchemyError) else error
    run("RELEASE SAVEPOINT change")
    return outcome
