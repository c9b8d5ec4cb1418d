"""The storage contract. One conformance suite (tests/coordinator/test_storage.py) runs over every implementation.

- `change(work)` runs `work(transaction)` in one transaction and returns its result **only after the commit is
  durable**: on SQLite it was synced to the disk, on PostgreSQL the server said so. If `work` raises, nothing of it is
  kept and the exception reaches the caller. If the commit fails, the caller gets `StorageUnavailable` and must assume
  neither outcome: every operation is written so that sending it again is safe.
- `work` runs exactly once per call, may only use the transaction it is given, and must first lock what it changes:
  `studies.lock` for a study, `writer.append_server` for tokens, which locks the server's own chain. Locks are held to
  the end of the transaction, so two works on one study never overlap, in whatever process they run.
- `read(work)` shows one consistent snapshot and cannot write; `glance(work)` is for work of a single statement, which
  needs no transaction around it to see one moment.
- Several changes may share one commit; those of one study keep their order, and one that raises takes none of the
  others with it. `study` names the only study that a change locks, so that such changes can be brought together.
- `cache` belongs to the storage and goes with it. It holds only what can be read again from the database.
- `exclusive`: while it is open, nobody else can change the database.
- `ping` answers whether a change would be durable now, by making one that changes nothing.
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
PATIENCE = 5.0  # seconds
LARGEST_GROUP = 128  # changes in one commit
PROBE = {"digest": "probe", "kid": "", "created_at": "", "expires_at": ""}
PhaseKey: TypeAlias = tuple[str, str, int]  # a study's id, its digest, and one of its decided phases


class Cache(Generic[K, V]):
    """A cache with a limited number and total size of values; the least recently used is dropped first.

    May be used from any thread. The newest value is always kept, however large.

    >>> known = Cache[str, str](most=2)
    >>> for word in ("one", "two", "three"):
    ...     known.put(word, word.upper())
    >>> known.get("one"), known.get("two"), len(known)
    (None, 'TWO', 2)
    """

    def __init__(self, most: int, *, weigh: Callable[[V], int] | None = None, heaviest: int = 0) -> None:
        limit = heaviest if weigh else most

        def size(value: V) -> float:
            """A value's size in the cache: at least limit / most, which bounds the number too; at most the limit."""
            return min(max(weigh(value), limit / most), limit) if weigh else 1

        self._values: LRUCache[K, V] = LRUCache(limit, getsizeof=size)
        self._lock = threading.Lock()
        self._computing: dict[K, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """The value, if cached."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Store a value, replacing an earlier one."""
        with self._lock:
            self._values[key] = value

    def get_or_compute(self, key: K, compute: Callable[[], V]) -> V:
        """The value, computed by one thread if it is not cached, while others who want it wait."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            computing = self._computing.setdefault(key, threading.Lock())
        try:
            with computing:
                found = self.get(key)
                if found is None:
                    found = compute()
                    self.put(key, found)
                return found
        finally:
            with self._lock:
                self._computing.pop(key, None)


class RecordCache:
    """Cached values that never change: studies, and summaries of decided phases."""

    def __init__(self) -> None:
        # A study of 2,000 agents has four million weights, and takes a hundred megabytes.
        self.studies: Cache[str, StudyMessage] = Cache(
            64, weigh=lambda study: len(study.agents) ** 2, heaviest=5_000_000
        )
        self.states: Cache[PhaseKey, tuple[State, Explanation]] = Cache(24)
        # With the places of the agents that left, and how the study was stopped.
        self.statuses: Cache[
            tuple[str, str, int, tuple[int, ...], OutcomeStatus | None], tuple[NDArray[np.str_], list[OutcomeStatus]]
        ] = Cache(24, weigh=lambda found: found[0].size, heaviest=1_000_000)
        self.scatters: Cache[PhaseKey, tuple[Scatter, ...]] = Cache(24)
        self.warnings: Cache[PhaseKey, tuple[str, ...]] = Cache(24)
        self.pasts: Cache[PhaseKey, tuple[Past | None]] = Cache(24)  # by the start of its phase
        self.decisions: Cache[PhaseKey, tuple[IntArray, IntArray, bool]] = Cache(48)
        self.totals: Cache[PhaseKey, Totals] = Cache(500, weigh=lambda totals: totals.counts.size, heaviest=2_000_000)
        # With the index of the first agent and their number. They keep what every phase shows about every cell.
        self.estimates: Cache[tuple[str, str, int, int, int], Estimates] = Cache(
            24, weigh=lambda found: found.scatter.size, heaviest=1_000_000
        )
        self.sensitivities: Cache[PhaseKey, Sensitivity] = Cache(24)
        # What sites say about a phase: numbers recruited, observed and unmasked, and their policy's objection. No
        # decision depends on it; if it is dropped, they say it again.
        self.said: Cache[tuple[str, str, int], tuple[int | None, int | None, str, int | None]] = Cache(20_000)


class Transaction:
    """Connection and cache of one transaction.

    `locked` has the rows of the studies that it has locked, as it last wrote them (`studies.lock`): nobody else can
    change them before it ends, so that of many reports in one commit only the first one reads the row.
    """

    def __init__(self, connection: Connection, cache: RecordCache) -> None:
        self.connection, self.cache = connection, cache
        self.execute = connection.execute
        self.locked: dict[str, StudyRow] = {}


class Storage(ABC):
    """Where studies live. The module's docstring is the contract."""

    url: str
    exclusive: bool
    cache: RecordCache

    @abstractmethod
    def submit(self, work: Callable[[Transaction], T], *, study: str | None = None) -> Future[T]:
        """`change` without waiting: the future gets its result, or its exception, after the commit."""

    def change(self, work: Callable[[Transaction], T], *, study: str | None = None) -> T:
        """Run `work` in a transaction; return its result after the commit."""
        return self.submit(work, study=study).result()

    @abstractmethod
    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on a snapshot."""

    def glance(self, work: Callable[[Transaction], T]) -> T:
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
        """Release connections, threads and locks."""


def _touch(transaction: Transaction) -> None:
    """Insert and delete a row, which needs disk space, write permission and a sync.

    Rewriting an existing row would not do: SQLite notices that nothing changes, and writes nothing.
    """
    transaction.execute(insert(sessions).values(PROBE))
    transaction.execute(delete(sessions).where(sessions.c.digest == PROBE["digest"]))


def unavailable(error: Exception) -> StorageUnavailable:
    """The database's message without the statement and its values, which do not belong in a log."""
    return StorageUnavailable(str(getattr(error, "orig", error)))


def look(engine: Engine, cache: RecordCache, work: Callable[[Transaction], T]) -> T:
    """Run reading work on a connection of an engine."""
    try:
        with engine.begin() as connection:
            return work(Transaction(connection, cache))
    except SQLAlchemyError as error:  # of the database, or of the pool if all connections are taken
        raise unavailable(error) from error


Change: TypeAlias = tuple[Callable[[Transaction], Any], Future[Any]]
Outcome: TypeAlias = tuple[Any, Exception | None]


def commit_together(
    engine: Engine, cache: RecordCache, group: Sequence[Change], check: Callable[[], None] = lambda: None
) -> None:
    """Run changes in one transaction; their futures are resolved after its end, and only then.

    Under load one disk sync serves many changes. Each change of a group has a savepoint, so that one that raises does
    not undo the others; a single change needs none. `check` raises `StorageUnavailable` if a commit would not last; it
    is called before and after.
    """
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
    except Exception as error:  # of a single change: passed to its caller
        outcomes = [(None, error)] * len(group)
    for (_, done), (result, failure) in zip(group, outcomes, strict=True):
        if failure is None:
            done.set_result(result)
        else:
            done.set_exception(failure)


def _in_savepoint(transaction: Transaction, work: Callable[[Transaction], Any]) -> Outcome:
    """The result of a change, or its exception with everything it did undone.

    In plain SQL: SQLAlchemy compiles each savepoint anew, since it gives each a name of its own.
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
