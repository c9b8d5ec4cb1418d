"""A thread that computes forecasts beside the requests, and remembers them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from parley.coordinator.cache import Cache
from parley.coordinator.logs import logger

__all__ = ["Forecaster"]

REMEMBERED = 64


class Forecaster:
    """Computes outlooks beside the requests, one at a time, and remembers them: a decided phase never changes.

    Its thread is a daemon: a forecast in progress holds up no shutdown, since nothing waits for it.
    """

    def __init__(self) -> None:
        self._due: SimpleQueue[tuple[Any, Callable[[], dict[str, Any]]]] = SimpleQueue()
        self._known: Cache[Any, dict[str, Any]] = Cache(REMEMBERED)
        self._asked: set[Any] = set()
        self._thread: threading.Thread | None = None

    def ask(self, key: Any, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """The result, or None while it is being computed."""
        found = self._known.get(key)
        if found is None and key not in self._asked:
            self._asked.add(key)
            self._due.put((key, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)
                self._thread.start()
        return found

    def _run(self) -> None:
        if hasattr(os, "setpriority"):  # requests come first
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while True:
            key, work = self._due.get()
            try:
                found = work()
            except Exception:  # a bug here must not end all other forecasts
                logger.exception("a forecast failed")
                found = {"state": "none", "reason": "the forecast failed; the log has the details"}
            self._known.put(key, found)
            self._asked.discard(key)
