"""PostgreSQL storage: any number of server processes, synchronized by the database's row locks.

Changes of one study would block each other on its row lock, each occupying a connection. Instead they wait in a queue
of the study in this process, and all changes that have gathered there share one commit. Different studies run in
parallel.

Reads run in a read-only REPEATABLE READ transaction, so that they see one snapshot. A lost connection is not hidden:
the caller gets `StorageUnavailable`, and the agent sends its report again, which is safe because it is idempotent.
"""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import URL, create_engine

from parley.coordinator.record.base import (
    LARGEST_GROUP,
    Change,
    RecordCache,
    Storage,
    Transaction,
    commit_together,
    look,
)
from parley.errors import StorageUnavailable

T = TypeVar("T")


class PostgresStorage(Storage):
    """A `Storage` in a PostgreSQL database."""

    exclusive = False

    def __init__(
        self, url: URL, *, connections: int = 10, statement_timeout: float = 30.0, writable: bool = True
    ) -> None:
        self._writable = writable
        self.cache = RecordCache()
        self.url = url.render_as_string(hide_password=True)
        longest = int(statement_timeout * 1000)
        self._engine = create_engine(
            url,
            pool_size=connections,
            max_overflow=0,
            # A connection keeps memory for the largest row that it ever received; with LIFO, few receive large rows.
            pool_use_lifo=True,
            pool_timeout=statement_timeout,
            connect_args={
                "options": f"-c statement_timeout={longest} -c lock_timeout={longest}",
                "connect_timeout": 10,
                # Detect, within the same time, a server or network that vanished without closing the connection.
                "tcp_user_timeout": longest,
                "keepalives_idle": 15,
                "keepalives_interval": 5,
                "keepalives_count": 3,
            },
        )
        self._workers = ThreadPoolExecutor(connections, thread_name_prefix="postgres")
        self._snapshots = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._statements = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        # A queue exists exactly while a worker is due to drain it, so a study never has two workers.
        self._queues: dict[Hashable, list[Change]] = {}
        self._order = threading.Lock()

    def submit(self, work: Callable[[Transaction], T], *, study: str | None = None) -> Future[T]:
        done: Future[T] = Future()
        if not self._writable:
            done.set_exception(StorageUnavailable("the database is open for reading only"))
            return done
        # A change that names no study gets its own queue, and runs as soon as a worker is free.
        key: Hashable = object() if study is None else study
        with self._order:
            waiting = self._queues.get(key)
            if waiting is not None:
                waiting.append((work, done))
                return done
            self._queues[key] = [(work, done)]
        self._workers.submit(self._drain, key)
        return done

    def _drain(self, key: Hashable) -> None:
        """Commit the changes in a queue. If more came meanwhile, a worker drains it again after other studies."""
        while True:
            with self._order:
                waiting = self._queues[key]
                group, self._queues[key] = waiting[:LARGEST_GROUP], waiting[LARGEST_GROUP:]
            commit_together(self._engine, self.cache, group)
            with self._order:
                if not self._queues[key]:
                    del self._queues[key]
                    return
            try:
                self._workers.submit(self._drain, key)
            except RuntimeError:  # closing: the pool accepts no more work, so this worker finishes the queue
                continue
            return

    def read(self, work: Callable[[Transaction], T]) -> T:
        return look(self._snapshots, self.cache, work)

    def glance(self, work: Callable[[Transaction], T]) -> T:
        return look(self._statements, self.cache, work)

    def close(self) -> None:
        self._workers.shutdown()
        self._engine.dispose()
