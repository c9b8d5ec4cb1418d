"""A cache within bounds, for any number of threads. Whoever owns one decides how long it lives: no module does."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """At most so many values, and together at most so heavy; the least recently used one is dropped first.

    May be used from any thread. The newest value is always kept, however heavy.

    >>> known = Cache[str, str](most=2)
    >>> for word in ("one", "two", "three"):
    ...     known.put(word, word.upper())
    >>> known.get("one"), known.get("two"), len(known)
    (None, 'TWO', 2)
    """

    def __init__(self, most: int, *, weigh: Callable[[V], int] | None = None, heaviest: int = 0) -> None:
        limit = heaviest if weigh else most

        def size(value: V) -> float:
            """At least a share of the limit, so that the number is bounded too; at most all of it."""
            return min(max(weigh(value), limit / most), limit) if weigh else 1

        self._values: LRUCache[K, V] = LRUCache(limit, getsizeof=size)
        self._lock = threading.Lock()
        self._computing: dict[K, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """The value, if it is here."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of an earlier one."""
        with self._lock:
            self._values[key] = value

    def get_or_compute(self, key: K, compute: Callable[[], V]) -> V:
        """The value, computed now if it is not here: by one thread, while others who want the same wait for it."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            computing = self._computing.setdefault(key, threading.Lock())
        try:
            with computing:
                found = self.get(key)
                if found is None:
                    found = compute()
                    self.put(key, found)
                return found
        finally:
            with self._lock:
                self._computing.pop(key, None)
