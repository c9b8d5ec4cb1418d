"""A cached property without a lock."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property  # noqa: TID251 - banned elsewhere for the lock that this takes away
from typing import Any, TypeVar

T = TypeVar("T")


class once(cached_property[T]):  # noqa: N801 - it decorates, as `property` does
    """A cached property that stores the method's result in the object; two threads may compute it at the same time.

    Python 3.11's own `cached_property` computes under one lock for all objects of a class: while one thread encodes a
    large certificate, no other could encode a report. Later versions have no such lock.

    >>> class Study:
    ...     @once
    ...     def words(self) -> list[str]:
    ...         return ["computed"]
    >>> study = Study()
    >>> study.words is study.words
    True
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        super().__init__(compute)
        self.lock = nullcontext()
