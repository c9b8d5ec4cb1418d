"""From a frozen dataclass to plain JSON and back, checked by the field's own type.

A message states its `schema` ("parley/report/1"); a reader refuses any other, unknown or missing keys, and values of
another type, and says where. Released schemas stay readable: a change of meaning gets a new number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Self, get_args, get_origin, get_type_hints

from parley.errors import InvalidInput
from parley.once import once
from parley.protocol.canonical import canonical, read_json, sha256

__all__ = ["LARGEST_INTEGER", "Message"]

LARGEST_INTEGER = 2**53  # what every JSON reader and float64 tell apart
SCALARS = (str, int, float, bool, NoneType)
WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, kw_only=True)
class Message:
    """Something that is sent, stored or hashed."""

    schema: ClassVar[str]
    later: ClassVar[frozenset[str]] = frozenset()  # fields that came later: at their default they are not written

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dictionaries, with the schema. What is None unless told is left out where it is None, and
        what came `later` where it is as it was before.
        """
        document: dict[str, Any] = {"schema": self.schema}
        unsaid: Mapping[str, tuple[Any, ...]] = _unsaid(type(self))  # type: ignore[arg-type]
        for name, silent in unsaid.items():
            value = getattr(self, name)
            if not silent or value not in silent:
                document[name] = _encode(value)
        return document

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """What `to_json` wrote; anything else is an `InvalidInput` that names the place."""
        if not isinstance(document, Mapping):
            raise InvalidInput(cls.schema, found=type(document).__name__, allowed="an object")
        if document.get("schema") != cls.schema:
            raise InvalidInput("schema", found=repr(document.get("schema")), allowed=cls.schema)
        kinds: dict[str, _Kind] = _kinds(cls)  # type: ignore[arg-type]
        required: frozenset[str] = _required(cls)  # type: ignore[arg-type]
        given = document.keys() - {"schema"}
        if not (required <= given <= kinds.keys()):
            wrong = sorted((given - kinds.keys()) | (required - given))
            found = f"missing or unknown keys: {', '.join(map(str, wrong))}"
            raise InvalidInput(cls.schema, found=found, allowed=", ".join(cls.known_keys()))
        return cls(**{key: _decode(kind, document[key], key) for key, kind in kinds.items() if key in document})

    @classmethod
    def known_keys(cls) -> list[str]:
        """The keys that a document may have, beside its schema."""
        return list(_kinds(cls))  # type: ignore[arg-type]

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """From canonical text."""
        return cls.from_json(read_json(text, cls.schema))

    @once
    def text(self) -> str:
        """The canonical text."""
        return canonical(self.to_json())

    @once
    def digest(self) -> str:
        """SHA-256 of the canonical text."""
        return sha256(self.text)


class _Kind(NamedTuple):
    """A field's type, taken apart once."""

    hint: Any  # without None
    origin: Any
    item: _Kind | None  # of what a tuple has
    silent: bool  # None is a value of it

    @classmethod
    def of(cls, hint: Any) -> _Kind:
        silent = get_origin(hint) is UnionType and NoneType in get_args(hint)
        if get_origin(hint) is UnionType:
            hint = next(kind for kind in get_args(hint) if kind is not NoneType)
        origin = get_origin(hint)
        return cls(hint, origin, cls.of(get_args(hint)[0]) if origin is tuple else None, silent)


@cache
def _kinds(cls: type[Message]) -> dict[str, _Kind]:
    hints = get_type_hints(cls)
    return {field.name: _Kind.of(hints[field.name]) for field in fields(cls)}


@cache
def _unsaid(cls: type[Message]) -> dict[str, tuple[Any, ...]]:
    """field -> the value that goes without saying, in a tuple; an empty one where every value is said."""
    return {
        field.name: (field.default,) if field.default is None or field.name in cls.later else ()
        for field in fields(cls)
    }


@cache
def _required(cls: type[Message]) -> frozenset[str]:
    return frozenset(
        field.name for field in fields(cls) if (field.default, field.default_factory) == (MISSING, MISSING)
    )


def _encode(value: Any) -> Any:
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, tuple):
        # Rows of numbers are most of what is sent: no need to look at every one.
        return list(value) if value and isinstance(value[0], int | float) else [_encode(item) for item in value]
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    return value


def _decode(kind: _Kind, value: Any, where: str) -> Any:
    hint, origin, item, silent = kind
    if value is None and silent:
        return None
    if item is not None:
        if not isinstance(value, list | tuple):
            raise InvalidInput(where, found=_short(value), allowed="a list")
        if _plain(item.hint, value):
            return tuple(value)
        return tuple(_decode(item, one, f"{where}[{place}]") for place, one in enumerate(value))
    if origin is not None:  # Mapping[str, Any]: checked by whoever gives it meaning
        if not isinstance(value, Mapping):
            raise InvalidInput(where, found=_short(value), allowed="an object")
        return dict(value)
    if isinstance(hint, type) and issubclass(hint, Message):
        return hint.from_json(value)
    return _scalar(hint, value, where)


def _plain(hint: Any, values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether all are numbers that `_scalar` would take as they are: a matrix of a million is checked at C's speed."""
    if hint not in (int, float) or set(map(type, values)) != {hint}:
        return False
    if hint is float:
        return all(map(math.isfinite, values))
    return bool(max(values) <= LARGEST_INTEGER and min(values) >= -LARGEST_INTEGER)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER:
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise InvalidInput(where, found=_short(value), allowed=WORDS[hint])
    if hint is int and abs(value) > LARGEST_INTEGER:
        raise InvalidInput(where, found="a huge number", allowed="whole numbers up to 2^53")
    if hint is float and not math.isfinite(value):
        raise InvalidInput(where, found=value, allowed="a finite number")
    if hint is str and "\x00" in value:
        raise InvalidInput(where, found="text with a NUL character", allowed="text without it")
    return value


def _short(value: Any) -> str:
    shown = repr(value) if not isinstance(value, int) or abs(value) <= LARGEST_INTEGER else "a huge number"
    return shown if len(shown) <= 80 else shown[:77] + "..."
