"""Limits that hold before any work is done: the size of a body, and the pace of a token."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

from parley.coordinator.problems import Refusal
from parley.coordinator.remembered import Remembered

__all__ = ["Pace", "bounded"]

REMEMBERED = 10_000  # tokens whose pace is kept; the longest silent is forgotten first


class Pace:
    """A bucket of `burst` requests a token, refilled at `rate` a second. Per process, in memory.

    >>> pace = Pace(rate=1, burst=2, timer=lambda: 0.0)
    >>> [pace.wait("a") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, *, rate: float, burst: int, timer: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._timer = rate, burst, timer
        self._buckets: Remembered[str, tuple[float, float]] = Remembered(REMEMBERED)

    def wait(self, key: str) -> float:
        """Seconds until the next request is welcome; 0 takes one from the bucket."""
        now = self._timer()
        left, since = self._buckets.get(key) or (float(self.burst), now)
        left = min(float(self.burst), left + (now - since) * self.rate)
        welcome = left >= 1
        self._buckets.put(key, (left - 1 if welcome else left, now))
        return 0.0 if welcome else (1 - left) / self.rate

    def check(self, key: str) -> None:
        """Raise the refusal that says when to come back."""
        seconds = self.wait(key)
        if seconds > 0:
            later = max(1, round(seconds + 0.5))
            raise Refusal("too-fast", f"come back in {later} s", headers={"Retry-After": str(later)})


def bounded(request: Request, limit: int) -> Request:
    """The request, refused if it announces too large a body, and cut off while reading if it lied or did not say."""
    announced = request.headers.get("content-length")
    if announced is not None and (not announced.isdigit() or int(announced) > limit):
        raise Refusal("too-large", f"the body may have up to {limit} bytes")
    return Request(request.scope, _counted(request.receive, limit), request._send)


def _counted(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, f"the body may have up to {limit} bytes")
        return message

    return counted
