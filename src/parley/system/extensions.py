"""What installed packages bring: classes under an entry point, found by name and imported when a study asks for one.

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
    """What packages offer, by name; nothing is imported. Once a process: it reads the metadata of all."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, []).append(point)
    return found


def offered_class(
    group: str, key: str, name: str, own: Collection[str], kind: type, attribute: str
) -> type[Any] | None:
    """The class that a package offers by this name, a subclass of `kind` whose `attribute` is the name; None without.

    Raise `InvalidInput` about `key` if more than one offers it, `own` names of Parley included: whichever won, somebody
    would run another one than was meant.
    """
    points = offered(group).get(name, [])
    sources = [*(["parley"] if name in own else []), *sorted(_source(point) for point in points)]
    if len(sources) > 1:
        raise InvalidInput(key, found=f"{name} of {' and of '.join(sources)}", allowed="a name that one offers")
    return _loaded(points[0], key, kind, attribute) if points else None


@cache
def _loaded(point: EntryPoint, key: str, kind: type, attribute: str) -> type[Any]:
    where = origin(point)
    try:
        found = point.load()
    except Exception as error:  # anything can happen while a module of others is imported
        reason = f"{where}, which cannot be imported: {type(error).__name__}: {error}"
        raise InvalidInput(key, found=reason, allowed="a package that can be imported") from error
    if not (isinstance(found, type) and issubclass(found, kind)) or getattr(found, attribute, None) != point.name:
        allowed = f"a subclass of parley.{kind.__name__} with the {attribute} {point.name}"
        raise InvalidInput(key, found=f"{where}, which is {found!r}", allowed=allowed)
    return found


def origin(point: EntryPoint) -> str:
    """The name, and where it comes from, for people."""
    return f"{point.name} of {_source(point)} ({point.value})"


def forget() -> None:
    """Look at the installed packages anew; for tests, which install them while they run."""
    offered.cache_clear()
    _loaded.cache_clear()


def _source(point: EntryPoint) -> str:
    return f"the package {point.dist.name}" if point.dist else "a package without a name"
