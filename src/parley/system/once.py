"""A cached property without a lock."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - it decorates, as `property` does
    """A cached property: the method's result is stored in the object. Two threads asking at once may both compute it.

    Python 3.11's own `cached_property` computes under one lock for all objects of a class: while one thread encodes a
    large certificate, no other could encode a report.

    >>> class Study:
    ...     @once
    ...     def words(self) -> list[str]:
    ...         return ["computed"]
    >>> study = Study()
    >>> study.words is study.words
    True
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, of: None, kind: type[Any]) -> Self: ...

    @overload
    def __get__(self, of: object, kind: type[Any]) -> T: ...

    def __get__(self, of: object | None, kind: type[Any]) -> Self | T:
        if of is None:
            return self
        found = of.__dict__[self._name] = self._compute(of)  # Python finds it there first from now on
        return found
