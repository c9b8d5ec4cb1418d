"""The time for sessions: it never goes back, whatever the clock does, so that none comes back that had ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic

from parley.coordinator.clock import Clock

__all__ = ["Forward", "later"]


def later(at: str, hours: float) -> str:
    """A time some hours after another, in the clock's own form, in which later sorts after earlier.

    >>> later("2026-01-31T23:30:00.000Z", 1)
    '2026-02-01T00:30:00.000Z'
    """
    moment = datetime.fromisoformat(at) + timedelta(hours=hours)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Forward:
    """What a clock says, or what it said last and the time that has passed since, whichever is later.

    >>> times = iter(["2026-01-01T12:00:00.000Z", "2026-01-01T09:00:00.000Z"])
    >>> now = Forward(lambda: next(times), timer=lambda: 0.0)
    >>> now(), now()
    ('2026-01-01T12:00:00.000Z', '2026-01-01T12:00:00.000Z')
    """

    def __init__(self, clock: Clock, timer: Callable[[], float] = monotonic) -> None:
        self._clock, self._timer = clock, timer
        self._latest, self._since = "", 0.0

    def __call__(self) -> str:
        now, passed = self._clock(), self._timer()
        if self._latest:
            now = max(now, later(self._latest, (passed - self._since) / 3600))
        self._latest, self._since = now, passed
        return now
