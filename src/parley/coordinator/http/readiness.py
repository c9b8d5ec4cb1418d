"""Whether a report that came now would be kept: found out by a commit, once a moment, since anybody may ask."""

from __future__ import annotations

import asyncio
from time import monotonic

import anyio.to_thread

from parley.coordinator.record import Storage
from parley.errors import StorageUnavailable

__all__ = ["Readiness"]

MOMENT = 1.0  # seconds for which an answer holds


class Readiness:
    """Lives on the event loop; however many ask, one commit a moment answers them all."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._asking = asyncio.Lock()
        self._until = 0.0
        self._trouble: str | None = None

    async def check(self) -> None:
        """Raise `StorageUnavailable` unless a change was durable a moment ago."""
        async with self._asking:
            if monotonic() >= self._until:
                try:
                    await anyio.to_thread.run_sync(self._storage.ping)
                    self._trouble = None
                except StorageUnavailable as error:
                    self._trouble = str(error)
                self._until = monotonic() + MOMENT
        if self._trouble is not None:
            raise StorageUnavailable(self._trouble)
