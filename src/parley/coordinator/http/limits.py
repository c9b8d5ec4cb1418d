"""Limits that hold before any work is done: how fast one token asks, how much at once, how large a body is.

Whoever passes a limit is told when to come back. All of this is kept per process, in memory, on the event loop.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import anyio.to_thread
from anyio import Lock, Semaphore
from starlette.requests import Request

from parley.connections import Buckets
from parley.coordinator.problems import Refusal

T = TypeVar("T")
USUAL = 64 * 1024  # bytes of a body that cost as much as a request
DEEPEST = 32
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
COSTLY = 20.0  # requests; of those that cost more than this, a token has few in progress at once
LATER = {"Retry-After": "2"}


class Throttle(Buckets):
    """A bucket of requests a token."""

    def check(self, key: str, cost: float = 1.0) -> None:
        """Raise the refusal that says when to come back."""
        seconds = self.wait(key, cost)
        if seconds > 0:
            later = max(1, round(seconds + 0.5))
            raise Refusal("too-fast", f"come back in {later} s", headers={"Retry-After": str(later)})


class Slots:
    """How many things of a kind one token may have in progress.

    >>> slots = Slots(1, "requests")
    >>> slots.enter("a"), slots.enter("b"), slots.leave("a"), slots.enter("a")
    (None, None, None, None)
    """

    def __init__(self, most: int, words: str) -> None:
        self._most, self._words = most, words
        self._taken: Counter[str] = Counter()

    def enter(self, key: str) -> None:
        """Take a slot, or raise the refusal."""
        if self._taken[key] >= self._most:
            words = f"a token may have {self._most} {self._words} in progress"
            raise Refusal("too-fast", f"{words}: wait for an answer first", headers=LATER)
        self._taken[key] += 1

    def leave(self, key: str) -> None:
        """Give a slot back."""
        self._taken[key] -= 1
        if self._taken[key] <= 0:
            del self._taken[key]

    @contextmanager
    def taken(self, key: str) -> Iterator[None]:
        """A slot for as long as this lasts."""
        self.enter(key)
        try:
            yield
        finally:
            self.leave(key)

    def check(self, key: str) -> None:
        """Raise the refusal if there is no slot left."""
        with self.taken(key):
            pass


class Pool:
    """Work that takes its time, off the event loop: `at_once` of everybody together, one of a token.

    Tokens take turns, so that the others wait for one work of a token and no more. A token with more than `of_one` in
    progress or waiting is told to come back, and so is everybody while `waiting` are.
    """

    def __init__(self, *, at_once: int, of_one: int, waiting: int, words: str) -> None:
        self._slots = Slots(of_one, words)
        self._at_once, self._most, self._waiting = at_once, waiting, 0
        self._places: Semaphore | None = None  # made by the first work: it belongs to an event loop
        self._queues: dict[str, Lock] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """A place for as long as this lasts, when it is the token's turn."""
        if self._waiting >= self._most:
            raise Refusal("too-busy", "others compute at the moment", headers=LATER)
        with self._slots.taken(key):
            self._waiting += 1
            self._places = self._places or Semaphore(self._at_once, fast_acquire=True)
            queue = self._queues.setdefault(key, Lock(fast_acquire=True))
            try:
                async with queue, self._places:
                    yield
            finally:
                self._waiting -= 1
                if not (queue.locked() or queue.statistics().tasks_waiting):
                    self._queues.pop(key, None)

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """What `work` returns, computed on a thread when it is its turn."""
        async with self.turn(key):
            return await anyio.to_thread.run_sync(work)


def cost_of(request: Request, limit: int) -> float:
    """What a request takes from the bucket: one, and one more for every 64 KiB of its body.

    A body that does not say how large it is counts as the largest.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and len(announced) < 16:
        return 1.0 + min(int(announced), limit) / USUAL
    return 1.0 + (limit / USUAL if "transfer-encoding" in request.headers else 0.0)


async def read_body(request: Request, limit: int) -> bytearray:
    """The body, refused if it announces too many bytes, and cut off while reading if it lied or did not say.

    Of tens of megabytes there is one copy.
    """
    announced, body = request.headers.get("content-length", "0"), bytearray()
    fits = announced.isdigit() and int(announced) <= limit
    if fits:
        async for part in request.stream():
            body += part
            if not (fits := len(body) <= limit):
                break
    if not fits:
        raise Refusal("too-large", f"the body may have up to {limit} bytes")
    return body


def check_shape(body: bytes | bytearray, *, keys: int) -> None:
    """Raise unless JSON is as flat as all that is sent here, with at most so many keys.

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
