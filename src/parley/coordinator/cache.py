"""Things worth remembering, within bounds. Whoever owns a `Cache` decides how long it lives: no module does."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Cache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """At most so many values, and together at most so heavy; the one not asked for longest is forgotten first.

    May be used from any thread. The newest value is always kept, however heavy.

    >>> known = Cache[str, str](most=2)
    >>> for word in ("one", "two", "three"):
    ...     known.put(word, word.upper())
    >>> known.get("one"), known.get("two"), len(known)
    (None, 'TWO', 2)
    """

    def __init__(self, most: int, *, weigh: Callable[[V], int] | None = None, heaviest: int = 0) -> None:
        self._most, self._weigh, self._heaviest = most, weigh, heaviest
        self._values: OrderedDict[K, V] = OrderedDict()
        self._weight = 0
        self._order = threading.Lock()
        self._making: dict[K, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """What is known, if it is."""
        with self._order:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Remember, in place of what was known."""
        with self._order:
            self._forget(key)
            self._values[key] = value
            self._weight += self._weigh(value) if self._weigh else 0
            while len(self._values) > 1 and (len(self._values) > self._most or self._too_heavy()):
                self._forget(next(iter(self._values)))

    def forget(self, key: K) -> None:
        """As if it had never been known."""
        with self._order:
            self._forget(key)

    def made(self, key: K, make: Callable[[], V]) -> V:
        """What is known, or is made now: by one thread, while others who want the same wait for it."""
        found = self.get(key)
        if found is not None:
            return found
        with self._order:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                found = self.get(key)
                if found is None:
                    found = make()
                    self.put(key, found)
                return found
        finally:
            with self._order:
                self._making.pop(key, None)

    def _too_heavy(self) -> bool:
        return self._weigh is not None and self._weight > self._heaviest

    def _forget(self, key: K) -> None:
        if key in self._values:
            value = self._values.pop(key)
            self._weight -= self._weigh(value) if self._weigh else 0
