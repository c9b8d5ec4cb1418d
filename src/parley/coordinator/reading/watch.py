"""Notify waiting requests that a study changed: at once if this process changed it, else within `MOMENT` seconds.

One query per `MOMENT` covers all watched studies together, however many agents wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio.to_thread

from parley.coordinator.observability import repeat
from parley.coordinator.record import Storage, Transaction, studies
from parley.coordinator.record.studies import StudyRow

MOMENT = 0.5  # seconds between two queries


@dataclass(frozen=True, kw_only=True)
class Glance:
    """The fields of a study's row by which listeners see that the study has changed."""

    study: str
    stage: str
    phase: int
    awaited: int
    sequence: int

    @classmethod
    def of(cls, row: StudyRow) -> Glance:
        """Copy these fields from a study's row."""
        return cls(study=row.id, stage=str(row.stage), phase=row.phase, awaited=row.awaited, sequence=row.sequence)


class Watch:
    """The studies that requests wait for. Used on the event loop only, except `tell`, which any thread may call."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._latest: dict[str, Glance] = {}
        self._followers: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether `start` was called, and `stop` was not called yet."""
        return self._loop is not None

    def start(self) -> None:
        """Start watching the database for changes."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(repeat(self._look, MOMENT, "cannot look for changes"))

    async def stop(self) -> None:
        """Stop watching, and release all waiting requests."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._loop = None
        async with self._changed:
            self._changed.notify_all()

    def tell(self, row: StudyRow) -> None:
        """Notify waiting requests that this process changed a study; does nothing if none waits."""
        if self._loop is not None and row.id in self._followers:
            self._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._note([Glance.of(row)])))

    async def _note(self, seen: list[Glance]) -> None:
        async with self._changed:
            for glance in seen:
                known = self._latest.get(glance.study)
                if glance.study in self._followers and (known is None or glance.sequence > known.sequence):
                    self._latest[glance.study] = glance
            self._changed.notify_all()

    async def _look(self) -> None:
        watched = list(self._followers)

        def glances(transaction: Transaction) -> list[Glance]:
            return [Glance.of(row) for row in studies.find(transaction, among=watched, limit=None)[0]]

        if watched:
            await self._note(await anyio.to_thread.run_sync(self._storage.read, glances))

    async def next(self, study: str, after: int, timeout: float) -> Glance | None:
        """Wait until a study's log is longer than `after`. None if that takes too long or the server stops."""
        with self.following(study):
            try:
                async with self._changed:
                    async with asyncio.timeout(timeout):
                        # Without a loop the server is stopping, and nothing more will change.
                        ready = self._changed.wait_for
                        await ready(lambda: self._loop is None or self._newer(study, after) is not None)
                    return self._newer(study, after)
            except TimeoutError:
                return None

    @contextmanager
    def following(self, study: str) -> Iterator[None]:
        """Remember the latest change of a study for `next`, during a `with` block."""
        self._followers[study] += 1
        try:
            yield
        finally:
            self._followers[study] -= 1
            if not self._followers[study]:
                del self._followers[study]
                self._latest.pop(study, None)

    def _newer(self, study: str, after: int) -> Glance | None:
        glance = self._latest.get(study)
        return glance if glance is not None and glance.sequence > after else None
