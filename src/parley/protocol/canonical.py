"""One text for one value: what is hashed, stored and sent.

Sorted keys, no spaces, UTF-8, floats as the shortest text that reads back to the same bits, and neither NaN nor
infinities. Two documents are equal exactly when their canonical texts are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from parley.errors import InvalidInput
from parley.protocol.pieces import in_pieces, patient_decoder

__all__ = ["canonical", "digest", "read_json", "sha256"]

LARGE = 200_000  # characters of JSON that are not read in one go


def canonical(document: Any) -> str:
    """The canonical text of plain lists, dictionaries, text, numbers, booleans and None.

    >>> canonical({"b": [1.0, 2], "a": 0.1 + 0.2})
    '{"a":0.30000000000000004,"b":[1.0,2]}'
    """
    return "".join(_told(document))


def _told(document: Any) -> Iterator[str]:
    try:
        yield from in_pieces(document, _written)
    except ValueError:
        raise InvalidInput("number", found="NaN or an infinity", allowed="finite numbers") from None


def _written(document: Any) -> str:
    return WRITER.encode(document)


def digest(document: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal.

    >>> digest({})[:12]
    '44136fa355b3'
    """
    return _hashed(_told(document))


def sha256(text: str) -> str:
    """SHA-256 of a text's UTF-8, in hexadecimal.

    >>> sha256("{}")[:12]
    '44136fa355b3'
    """
    return _hashed([text])


def _hashed(pieces: Iterable[str]) -> str:
    told = hashlib.sha256()
    try:
        for piece in pieces:
            told.update(piece.encode())
        return told.hexdigest()
    except UnicodeEncodeError:
        raise InvalidInput("text", found="a lone surrogate", allowed="text that UTF-8 can tell") from None


def read_json(text: str | bytes, key: str = "document") -> Any:
    """Parse JSON as the standard has it: no NaN, no infinities.

    >>> read_json("[1, 2.5]")
    [1, 2.5]
    """
    try:
        if len(text) > LARGE:
            return patient_decoder(_refuse).decode(text if isinstance(text, str) else text.decode())
        return READER.decode(text) if isinstance(text, str) else json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(key, found=f"no valid JSON ({error})", allowed="JSON with finite numbers") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


# Made once: the functions of the standard library make one for every text.
WRITER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
READER = json.JSONDecoder(parse_constant=_refuse)
