"""Work that takes its time: a few at once, of one token fewer, off the event loop and outside of every transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from parley.coordinator.problems import Refusal

__all__ = ["Heavy", "Turns"]

T = TypeVar("T")
AT_ONCE = 2  # works in progress, of everybody together: more would only be slower
OF_ONE = 4  # of one token, in progress or waiting
WAITING = 16  # of everybody
PAGES_OF_ONE, PAGES_WAITING = 16, 128
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


class Heavy:
    """A bounded pool with a bound per token; whoever comes too many is told to come back."""

    def __init__(self, *, of_one: int = OF_ONE, waiting: int = WAITING, words: str = "long computations") -> None:
        self._turns = Turns(of_one, words)
        self._most, self._waiting = waiting, 0
        self._pool: CapacityLimiter | None = None

    @classmethod
    def of_pages(cls) -> Heavy:
        """For what is drawn rather than computed: pages wait for no verification."""
        return cls(of_one=PAGES_OF_ONE, waiting=PAGES_WAITING, words="pages")

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """What `work` returns, computed on a thread when it is its turn."""
        if self._waiting >= self._most:
            raise Refusal("too-busy", "others compute at the moment", headers=LATER)
        self._turns.enter(key)
        self._waiting += 1
        self._pool = self._pool or CapacityLimiter(AT_ONCE)
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._pool)
        finally:
            self._waiting -= 1
            self._turns.leave(key)
