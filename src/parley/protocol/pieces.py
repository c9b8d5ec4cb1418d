"""Large JSON a piece at a time: one call that writes or reads ten megabytes lets no other thread run meanwhile.

The texts and values are those of the standard library; only the outer levels are walked here, so that whoever waits for
the interpreter, such as an agent of another study, waits for a piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from json.decoder import JSONArray, JSONDecoder, JSONObject  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

__all__ = ["in_pieces", "patient_decoder"]

MANY = 1_000  # numbers, texts and the like that are written in one go: a millisecond
SINGLE = frozenset({str, int, float, bool, type(None)})
DEEPEST = 2  # lists within lists are walked, further in they are read in one go
NESTED = re.compile(r"[ \t\n\r]*[\[{]")


def weight(value: Any) -> int:
    """About how many numbers, texts and the like: of a list the first one speaks for all.

    >>> weight({"a": [[1, 2, 3]] * 10})
    42
    """
    if type(value) in SINGLE:
        return 1
    if isinstance(value, dict):
        return 1 + sum([1 if type(item) in SINGLE else weight(item) for item in value.values()])
    if isinstance(value, list | tuple):
        return 1 + (len(value) * weight(value[0]) if value else 0)
    return 1


def in_pieces(document: Any, write: Callable[[Any], str]) -> Iterator[str]:
    """What `write` makes of a document in one go; of a large one, what it makes of the parts, to be put together.

    `write` puts no spaces; the outer keys are sorted.

    >>> "".join(in_pieces([[1, 2]] * 3, lambda value: str(value).replace(" ", "")))
    '[[1,2],[1,2],[1,2]]'
    """
    if weight(document) <= MANY:
        yield write(document)
    elif isinstance(document, dict) and document and all(type(key) is str for key in document):
        for place, key in enumerate(sorted(document)):
            yield f"{',' if place else '{'}{write(key)}:"
            yield from in_pieces(document[key], write)
        yield "}"
    elif isinstance(document, list | tuple) and document and isinstance(document[0], list | tuple | dict):
        for place, item in enumerate(document):
            yield "," if place else "["
            yield from in_pieces(item, write)
        yield "]"
    else:
        yield write(document)


class _Patient(JSONDecoder):
    """Objects and lists of lists or objects are walked in Python, what is in them is read at C's speed."""

    def __init__(self, parse_constant: Callable[[str], Any]) -> None:
        super().__init__(parse_constant=parse_constant)
        self._at_once: Any = vars(self)["scan_once"]
        self._depth = 0
        self.parse_object, self.parse_array = JSONObject, self._list
        self.scan_once = py_make_scanner(self)

    def _list(self, place: tuple[str, int], scan_once: Callable[[str, int], Any]) -> Any:
        text, end = place
        if self._depth >= DEEPEST or NESTED.match(text, end) is None:
            return self._at_once(text, end - 1)
        self._depth += 1
        try:
            return JSONArray(place, scan_once if self._depth < DEEPEST else self._at_once)
        finally:
            self._depth -= 1


def patient_decoder(parse_constant: Callable[[str], Any]) -> JSONDecoder:
    """A reader of one large text, for one thread.

    >>> patient_decoder(float).decode('{"a": [[1, 2], [{"b": "c"}]]}')
    {'a': [[1, 2], [{'b': 'c'}]]}
    """
    return _Patient(parse_constant)
