"""The form of every answer: a frozen dataclass, plain JSON, and back for whoever reads it in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from starlette.responses import JSONResponse

__all__ = ["Answer", "answered", "every_answer"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer of the API. Each field is a key of the JSON object, with the same name.

    >>> from parley.coordinator.answers.health import Health
    >>> Health(status="ok", version="1").to_json()
    {'status': 'ok', 'version': '1'}
    >>> Health.from_json({"status": "ok", "version": "1"}).version
    '1'
    """

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dictionaries."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """What `to_json` wrote. It comes from the API itself: nothing is checked again."""
        hints: dict[str, Any] = _hints(cls)  # type: ignore[arg-type]
        return cls(**{name: _read(hint, document[name]) for name, hint in hints.items()})


def answered(answer: Answer, status: int = 200, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An answer on its way: written once, and not looked through again, since a board may have a million numbers."""
    return JSONResponse(answer.to_json(), status_code=status, headers=headers)


def every_answer(kind: type[Answer] = Answer) -> Iterator[type[Answer]]:
    """All classes of answers that were imported."""
    for found in kind.__subclasses__():
        yield found
        yield from every_answer(found)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _plain(value: Any) -> Any:
    if isinstance(value, Answer):
        return value.to_json()
    if isinstance(value, list | tuple):  # rows of numbers are most of what is told: no need to look at every one
        return [_plain(item) for item in value] if value and isinstance(value[0], Answer) else value
    return value


def _read(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if get_origin(hint) is UnionType:
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if isinstance(hint, type) and issubclass(hint, Answer):
        return hint.from_json(value)
    if get_origin(hint) is list and _is_answer(get_args(hint)[0]):
        return [_read(get_args(hint)[0], item) for item in value]
    return value


def _is_answer(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Answer)
