"""PostgreSQL: as many server processes as wanted; the row locks of the database keep them apart.

Reads run in a read-only REPEATABLE READ transaction, so that they see one moment. A lost connection is not hidden: the
caller hears `StorageUnavailable`, the agent sends again, and idempotency does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import URL, Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from parley.coordinator.killpoints import reached
from parley.coordinator.storage.base import Storage, StorageUnavailable

__all__ = ["PostgresStorage"]

T = TypeVar("T")


def _words(error: Exception) -> str:
    """What the database said, without the statement and its values, which do not belong in a log."""
    return str(getattr(error, "orig", error))


class PostgresStorage(Storage):
    """A `Storage` in a PostgreSQL database."""

    def __init__(self, url: URL, *, connections: int = 10, statement_timeout: float = 30.0) -> None:
        self.url = url.render_as_string(hide_password=True)
        limits = f"-c statement_timeout={int(statement_timeout * 1000)} -c lock_timeout={int(statement_timeout * 1000)}"
        self._engine = create_engine(
            url,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=statement_timeout,
            connect_args={"options": limits, "connect_timeout": 10},
        )
        self._workers = ThreadPoolExecutor(connections, thread_name_prefix="postgres")
        self._snapshots = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def submit(self, work: Callable[[Connection], T]) -> Future[T]:
        return self._workers.submit(self._change, work)

    def _change(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._engine.begin() as connection:
                reached("begun")
                result = work(connection)
                reached("before-commit")
            reached("after-commit")
            return result
        except (DBAPIError, PoolTimeout) as error:
            raise StorageUnavailable(_words(error)) from error

    def read(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._snapshots.begin() as connection:
                return work(connection)
        except (DBAPIError, PoolTimeout) as error:
            raise StorageUnavailable(_words(error)) from error

    def ping(self) -> None:
        self.read(lambda connection: connection.execute(text("SELECT count(*) FROM studies")).scalar())

    def close(self) -> None:
        self._workers.shutdown()
        self._engine.dispose()
