"""Work that takes its time: a few at once, of one token fewer, off the event loop and outside of every transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import anyio.to_thread
from anyio import CapacityLimiter, Lock

from parley.coordinator.problems import Refusal

__all__ = ["Heavy", "Lanes", "Turns", "answers", "computations", "pages"]

T = TypeVar("T")
AT_ONCE = 2  # works in progress, of everybody together: more would only be slower
OF_ONE = 4  # of one token, in progress or waiting
WAITING = 16  # of everybody
PAGES_OF_ONE, PAGES_WAITING = 16, 128
ANSWERS_OF_ONE, ANSWERS_WAITING = 128, 512
SOON = 3  # pages or answers in progress, of everybody together: most are done in a moment
LATER = {"Retry-After": "2"}


class Turns:
    """How many things of a kind one token may have in progress. Lives on the event loop.

    >>> turns = Turns(1, "requests")
    >>> turns.enter("a"), turns.enter("b"), turns.leave("a"), turns.enter("a")
    (None, None, None, None)
    """

    def __init__(self, most: int, words: str) -> None:
        self._most, self._words = most, words
        self._taken: Counter[str] = Counter()

    def enter(self, key: str) -> None:
        """Take a turn, or raise the refusal."""
        if self._taken[key] >= self._most:
            words = f"a token may have {self._most} {self._words} in progress"
            raise Refusal("too-fast", f"{words}: wait for an answer first", headers=LATER)
        self._taken[key] += 1

    @contextmanager
    def taken(self, key: str) -> Iterator[None]:
        """A turn for as long as this lasts."""
        self.enter(key)
        try:
            yield
        finally:
            self.leave(key)

    def check(self, key: str) -> None:
        """Raise the refusal if there is no turn left."""
        with self.taken(key):
            pass

    def leave(self, key: str) -> None:
        """It is over."""
        self._taken[key] -= 1
        if self._taken[key] <= 0:
            del self._taken[key]


class Lanes:
    """One thing of a token at a time; what comes meanwhile waits in its lane. Lives on the event loop."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lock] = {}

    @asynccontextmanager
    async def lane(self, key: str) -> AsyncIterator[None]:
        """The token's turn, for as long as this lasts."""
        lane = self._lanes.setdefault(key, Lock(fast_acquire=True))
        try:
            async with lane:
                yield
        finally:
            if not (lane.locked() or lane.statistics().tasks_waiting):
                self._lanes.pop(key, None)


class Heavy:
    """A bounded pool in which a token has one place at a time, so that others wait for one work of it and no more.

    Whoever has too many in progress or waiting is told to come back.
    """

    def __init__(self, *, at_once: int = AT_ONCE, of_one: int = OF_ONE, waiting: int = WAITING, words: str) -> None:
        self._turns = Turns(of_one, words)
        self._at_once, self._most, self._waiting = at_once, waiting, 0
        self._places: CapacityLimiter | None = None
        self._lanes = Lanes()

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """A place for as long as this lasts, when it is the token's turn."""
        if self._waiting >= self._most:
            raise Refusal("too-busy", "others compute at the moment", headers=LATER)
        with self._turns.taken(key):
            self._waiting += 1
            self._places = self._places or CapacityLimiter(self._at_once)
            try:
                async with self._lanes.lane(key), self._places:
                    yield
            finally:
                self._waiting -= 1

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """What `work` returns, computed on a thread when it is its turn."""
        async with self.turn(key):
            return await anyio.to_thread.run_sync(work)


def computations() -> Heavy:
    """For what is decided, verified, simulated or parsed at length."""
    return Heavy(words="long computations")


def pages() -> Heavy:
    """For pages, from the first question to the last line: a large one holds a hundred megabytes meanwhile."""
    return Heavy(at_once=SOON, of_one=PAGES_OF_ONE, waiting=PAGES_WAITING, words="pages")


def answers() -> Heavy:
    """For what is read and written as JSON. An agent's plans and reports do not come here: they wait for nobody."""
    return Heavy(at_once=SOON, of_one=ANSWERS_OF_ONE, waiting=ANSWERS_WAITING, words="answers")
