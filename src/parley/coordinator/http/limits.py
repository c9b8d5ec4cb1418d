"""Limits that hold before any work is done: the size and the shape of a body, and the pace of a token."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

from parley.coordinator.cache import Cache
from parley.coordinator.problems import Refusal

__all__ = ["COSTLY", "Throttle", "bounded", "check_shape", "cost_of"]

USUAL = 64 * 1024  # bytes
DEEPEST = 32
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
COSTLY = 20.0  # requests that one is worth of which few may be in progress at once
REMEMBERED = 10_000  # tokens whose pace is kept; the longest silent is forgotten first


class Throttle:
    """A bucket of `burst` requests a token, refilled at `rate` a second. Per process, in memory. Large ones cost more.

    >>> pace = Throttle(rate=1, burst=2, timer=lambda: 0.0)
    >>> [pace.wait("a") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, *, rate: float, burst: int, timer: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._timer = rate, burst, timer
        self._buckets: Cache[str, tuple[float, float]] = Cache(REMEMBERED)

    def wait(self, key: str, cost: float = 1.0) -> float:
        """Seconds until the next request is welcome; 0 takes its cost from the bucket."""
        cost = min(cost, max(1.0, self.burst / 2))  # the largest that is allowed must be possible
        now = self._timer()
        left, since = self._buckets.get(key) or (float(self.burst), now)
        left = min(float(self.burst), left + (now - since) * self.rate)
        welcome = left >= cost
        self._buckets.put(key, (left - cost if welcome else left, now))
        return 0.0 if welcome else (cost - left) / self.rate

    def charge(self, key: str, cost: float) -> None:
        """What turned out to cost more is paid for by the next requests."""
        left, since = self._buckets.get(key) or (float(self.burst), self._timer())
        self._buckets.put(key, (max(left - cost, -float(self.burst)), since))

    def check(self, key: str, cost: float = 1.0) -> None:
        """Raise the refusal that says when to come back."""
        seconds = self.wait(key, cost)
        if seconds > 0:
            later = max(1, round(seconds + 0.5))
            raise Refusal("too-fast", f"come back in {later} s", headers={"Retry-After": str(later)})


def cost_of(request: Request, limit: int) -> float:
    """What a request takes from the bucket: one, and one more for every part of its body that is as large as most are.

    A body that does not say how large it is counts as the largest.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and len(announced) < 16:
        return 1.0 + min(int(announced), limit) / USUAL
    return 1.0 + (limit / USUAL if "transfer-encoding" in request.headers else 0.0)


def check_shape(body: bytes | bytearray, *, keys: int) -> None:
    """Raise unless JSON is as flat as all that is sent here, with at most so many keys.

    Every wrong value and every unknown key costs an error that is described at length: few are enough.

    >>> check_shape(b'{"a": [1, 2]}', keys=3)
    >>> check_shape(b"[" * 100, keys=200)
    Traceback (most recent call last):
    parley.coordinator.problems.Refusal: the body is nested more than 32 deep
    """
    if body.count(b":") > keys:
        raise Refusal("invalid-request", f"the body may have up to {keys} keys")
    if body.count(b"[") + body.count(b"{") > keys:  # each costs a step below
        raise Refusal("invalid-request", f"the body may have up to {keys} lists and objects")
    depth = 0
    for bracket in body.translate(None, NOT_BRACKETS)[: 2 * keys]:  # of closing ones no more than that mean anything
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise Refusal("invalid-request", f"the body is nested more than {DEEPEST} deep")


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
