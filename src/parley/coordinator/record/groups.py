"""Changes that share one commit: under load a sync of the disk serves many, and nobody is answered before it.

Each change of a group has a savepoint, so that one that raises takes none of the others with it. A change that comes
alone needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from parley.coordinator.record.base import StorageUnavailable
from parley.coordinator.record.killpoints import reached

__all__ = ["LARGEST_GROUP", "Change", "commit_together", "unavailable"]

LARGEST_GROUP = 128
Change = tuple[Callable[[Connection], Any], Future[Any]]


def unavailable(error: Exception) -> StorageUnavailable:
    """What the database said, without the statement and its values, which do not belong in a log."""
    return StorageUnavailable(str(getattr(error, "orig", error)))


def _nothing_to_check() -> None:
    pass


def commit_together(engine: Engine, group: Sequence[Change], check: Callable[[], None] = _nothing_to_check) -> None:
    """Run changes in one transaction; every future is answered after its end, and only then.

    `check` raises `StorageUnavailable` if a commit would not last; it is asked before and after.
    """
    group = [(work, done) for work, done in group if done.set_running_or_notify_cancel()]
    outcomes: list[tuple[Any, Exception | None]] = []
    try:
        check()
        with engine.begin() as connection:
            reached("begun")
            if len(group) == 1:
                outcomes.append((group[0][0](connection), None))
            else:
                mark = connection.connection.cursor().execute  # SQLAlchemy's own way takes several times as long
                outcomes.extend(_attempt(connection, mark, work) for work, _ in group)
            reached("before-commit")
        check()
        reached("after-commit")
    except (SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
        outcomes = [(None, unavailable(error))] * len(group)
    except Exception as error:  # of a change that came alone: handed back to its caller
        outcomes = [(None, error)] * len(group)
    for (_, done), (result, failure) in zip(group, outcomes, strict=True):
        if failure is None:
            done.set_result(result)
        else:
            done.set_exception(failure)


def _attempt(
    connection: Connection, mark: Callable[[str], object], work: Callable[[Connection], Any]
) -> tuple[Any, Exception | None]:
    """A change in its savepoint: what it returns, or what it raised with everything it did undone."""
    outcome: tuple[Any, Exception | None]
    mark("SAVEPOINT change")
    try:
        outcome = work(connection), None
    except Exception as error:
        mark("ROLLBACK TO SAVEPOINT change")
        outcome = None, unavailable(error) if isinstance(error, SQLAlchemyError) else error
    mark("RELEASE SAVEPOINT change")
    return outcome
