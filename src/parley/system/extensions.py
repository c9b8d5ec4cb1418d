"""Classes that installed packages offer as entry points, found by name and imported when a study asks for one.

>>> sorted(offered("parley.nothing"))
[]
"""

from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from parley.errors import InvalidInput


@cache
def offered(group: str) -> dict[str, list[EntryPoint]]:
    """The entry points of a group, by name, without importing them. Cached, since reading them is slow."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, []).append(point)
    return found


def offered_class(
    group: str, key: str, name: str, own: Collection[str], kind: type, attribute: str
) -> type[Any] | None:
    """Import the class that an installed package offers under this name; return None if no package offers one.

    Raise `InvalidInput` about `key` if the class is not a subclass of `kind`, or if its `attribute` is not the name.
    Raise it also if several packages offer the name, or if it is one of Parley's `own` names: whichever class Parley
    chose, some users would run one that they did not intend.
    """
    points = offered(group).get(name, [])
    sources = [*(["parley"] if name in own else []), *sorted(_source(point) for point in points)]
    if len(sources) > 1:
        raise InvalidInput(
            key, found=f"{name} of {' and of '.join(sources)}", allowed="a name that only one of them offers"
        )
    return _loaded(points[0], key, kind, attribute) if points else None


@cache
def _loaded(point: EntryPoint, key: str, kind: type, attribute: str) -> type[Any]:
    where = origin(point)
    try:
        found = point.load()
    except Exception as error:  # importing third-party code can raise anything
        reason = f"{where}, which cannot be imported: {type(error).__name__}: {error}"
        raise InvalidInput(key, found=reason, allowed="a package that can be imported") from error
    if not (isinstance(found, type) and issubclass(found, kind)) or getattr(found, attribute, None) != point.name:
        allowed = f"a subclass of parley.{kind.__name__} with the {attribute} {point.name}"
        raise InvalidInput(key, found=f"{where}, which is {found!r}", allowed=allowed)
    return found


def origin(point: EntryPoint) -> str:
    """A readable description of an entry point: its name, its package and its target."""
    return f"{point.name} of {_source(point)} ({point.value})"


def forget() -> None:
    """Clear the cache of installed packages, for tests that install packages while they run."""
    offered.cache_clear()
    _loaded.cache_clear()


def _source(point: EntryPoint) -> str:
    return f"the package {point.dist.name}" if point.dist else "a package without a name"
