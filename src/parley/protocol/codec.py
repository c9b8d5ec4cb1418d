"""Convert structs to JSON and back: the one codec for everything that is sent, stored or hashed.

Derive from `Model` for a request body or an answer, and from `Message` for a document that is hashed or stored:

    class Pause(Model):                                  # every key is written
        reason: Words

    class Plan(Message, tag="parley/plan/1"):            # has a schema; empty defaults are left out
        study: Name
        quotas: Annotated[Rows, described("Draws of arm k by agent m.")]

Both are `msgspec` structs: frozen, keyword-only, and without unknown keys. The types of the fields are checked when a
document is *read* (`from_json`, or `read` for the bytes of a body or a file: both refuse what a database cannot store);
an object that a program builds itself is trusted until it is written (`to_json`, `text`, `digest`). Describe a field
with `described(...)` or one of the types below: `msgspec.json.schema_components` copies it to the OpenAPI document.

The text of a message is its RFC 8785 form (JSON Canonicalization Scheme): keys by UTF-16 code units, no spaces, numbers
as ECMAScript writes them, so 1.0 is `1`. In any language, an RFC 8785 library computes the same digest. RFC 8785
treats all numbers as doubles: the type of a field says whether `1` is read as an integer or as a float, and both are
written back as `1`.

Released schemas stay readable: a change of meaning gets a new number. A new field has an empty default (None, False,
"", an empty tuple or mapping). A `Message` leaves it out if it is empty, so older documents keep their digest.
"""

import hashlib
import math
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from enum import Enum
from functools import cache, lru_cache
from typing import Annotated, Any, Protocol, Self, dataclass_transform, get_args

import msgspec

from parley.errors import InvalidInput
from parley.system.once import once
from parley.text.translation import Translatable
from parley.validation.checks import IN_WORDS, LARGEST_COUNT

LARGE = 200_000  # JSON of more characters is read and written in a thread, so that it does not block the event loop
PART = 2**20  # characters of a large text that are processed at a time
LARGEST_INTEGER = LARGEST_COUNT
LARGEST_PHASE = 1_000_000
LONGEST_NAME = 100  # characters of the name of an agent, an arm or a person
LONGEST_WORDS = 2_000  # characters of a reason, or of what a signature means
SHA256 = "^[0-9a-f]{64}$"


def described(words: str) -> msgspec.Meta:
    """Make the metadata for `Annotated` that describes a field."""
    return msgspec.Meta(description=words)


Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INTEGER)]
Phase = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PHASE, description="The number of a phase, from 1.")]
Digest = Annotated[
    str,
    msgspec.Meta(pattern=SHA256, description="SHA-256 of an RFC 8785 text, in hexadecimal.", examples=["0" * 64]),
]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
INK = r"\S"  # matches text with at least one character that is not blank
Words = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_WORDS)]


class _Schema:
    """Descriptor behind `Plan.schema` and `plan.schema`: the tag of a class of messages."""

    def __get__(self, _message: object, kind: type[msgspec.Struct]) -> str:
        return str(kind.__struct_config__.tag or "")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class _Frozen(msgspec.StructMeta):
    """Metaclass of structs that are frozen and keyword-only.

    It sets `kw_only` on every subclass, since `msgspec` does not inherit that option. The decorator is for type
    checkers, which do not see the options of `msgspec`.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any], **options: Any) -> Any:
        return super().__new__(cls, name, bases, names, **{"kw_only": True, **options})


class Model(msgspec.Struct, metaclass=_Frozen, frozen=True, forbid_unknown_fields=True, dict=True):
    """Base class of request bodies, answers and messages. The option `dict` allows cached values, such as a digest.

    >>> class Pause(Model):
    ...     reason: Words
    >>> Pause.from_json({"reason": ""})
    Traceback (most recent call last):
    parley.errors.InvalidInput: reason: found ''; allowed: text of length >= 1
    """

    schema = _Schema()

    def to_json(self) -> dict[str, Any]:
        """Convert to plain dictionaries, lists, text and numbers."""
        document: dict[str, Any] = _lists(msgspec.to_builtins(self, builtin_types=(Translatable,)))
        return document

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read a document that `to_json` wrote; any other raises an `InvalidInput` with the path of the flaw."""
        # Checked first: `msgspec` accepts text and numbers that a database or the canonical text cannot hold.
        for where, found, allowed in unwritable(document):
            raise InvalidInput(where or cls._label(), found=found, allowed=allowed)
        try:
            made = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, InvalidInput):  # raised by a struct's own checks
                raise error.__cause__ from None
            raise refused(cls, document, error, cls._label()) from None
        for where, kind in _unnamed(cls, document):
            raise InvalidInput(f"{where}schema", found="none", allowed=kind.schema)
        return made

    @classmethod
    def read(cls, text: str | bytes | bytearray) -> Self:
        """Parse JSON text and check it."""
        return cls.from_json(read_json(text, cls._label()))

    @classmethod
    def known_keys(cls) -> list[str]:
        """The keys that a document may have, apart from `schema`."""
        return [field.encode_name for field in msgspec.structs.fields(cls)]

    @once
    def text(self) -> str:
        """The canonical JSON text (RFC 8785)."""
        return canonical(msgspec.to_builtins(self, enc_hook=_english))

    @once
    def digest(self) -> str:
        """SHA-256 of the canonical text."""
        return sha256(self.text)

    @classmethod
    def _label(cls) -> str:
        return cls.schema or cls.__name__


class Message(Model, omit_defaults=True, tag_field="schema", tag="parley/message"):
    """Base class of messages that are hashed or stored. Each states its schema (`tag`); readers refuse any other."""


_BUILT: set[type[msgspec.Struct]] = set()
_BUILDING = threading.Lock()


def unbuilt_structs() -> list[type[msgspec.Struct]]:
    """All struct types, except those of `msgspec` itself, that `build_structs` has not processed yet."""
    found, waiting = [], [msgspec.Struct]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind not in _BUILT and not kind.__module__.startswith("msgspec"):
                found.append(kind)
    return found


def build_structs() -> None:
    """Make `msgspec` inspect the fields of every struct type now, on one thread.

    By itself `msgspec` inspects a type when it first reads a document of that type. Version 0.22.0, the newest, crashes
    with SIGSEGV if two threads do this at once for the same type. So services and readers call this function before
    they start a second thread. Writing needs no inspection.
    """
    with _BUILDING:
        for kind in unbuilt_structs():
            msgspec.json.Decoder(kind)
            _BUILT.add(kind)


def _lists(value: Any) -> Any:
    """Replace tuples with lists, as JSON parsers return them. Changes dictionaries in place: callers just made them."""
    if isinstance(value, list | tuple):
        # Most lists are rows of numbers: a list that begins with a number has no tuples to replace.
        return list(value) if value and isinstance(value[0], int | float) else list(map(_lists, value))
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = _lists(item)
    return value


# --- the canonical text


def canonical(document: Any) -> str:
    """The RFC 8785 text of plain lists, dictionaries, text, numbers, booleans and None.

    >>> canonical({"b": [1.0, 2, 1e-7], "a": 0.1 + 0.2})
    '{"a":0.30000000000000004,"b":[1,2,1e-7]}'
    """
    return _encoded(document).decode()


def digest(document: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal.

    >>> digest({})[:12]
    '44136fa355b3'
    """
    return hashlib.sha256(_encoded(document)).hexdigest()


def sha256(text: str) -> str:
    """SHA-256 of a text encoded in UTF-8, in hexadecimal.

    >>> sha256("{}")[:12]
    '44136fa355b3'
    """
    return sha256_of([text])


def sha256_of(texts: Iterable[str]) -> str:
    """SHA-256 of the concatenated texts. Encodes them part by part, so that no whole text is copied.

    >>> sha256_of(["{", "}"]) == sha256("{}")
    True
    """
    found = hashlib.sha256()
    for text in texts:
        for start in range(0, len(text), PART):
            found.update(text[start : start + PART].encode())
    return found.hexdigest()


def digest_if_written(document: Any, text: str, start: int, stop: int) -> str | None:
    """The digest of a document if `text[start:stop]` is its canonical text, else None. Does not copy the text.

    >>> digest_if_written({"a": 1}, '[{"a":1}]', 1, 8) == digest({"a": 1})
    True
    >>> digest_if_written({"a": 1}, '[{"a":2}]', 1, 8)
    """
    beside = _Beside(text, start)
    _write(document, beside)
    beside.compare()
    return beside.hash.hexdigest() if beside.same and beside.place == stop else None


class _Written(Protocol):
    """A sink that a document is written into, piece by piece: a `bytearray` or `_Beside`."""

    def __iadd__(self, piece: bytes, /) -> Self: ...


class _Beside:
    """A sink that compares the written pieces with an existing text and then discards them."""

    def __init__(self, text: str, place: int) -> None:
        self._text, self._new = text, bytearray()
        self.place, self.same, self.hash = place, True, hashlib.sha256()

    def __iadd__(self, piece: bytes, /) -> Self:
        self._new += piece
        if len(self._new) > PART:
            self.compare()
        return self

    def compare(self) -> None:
        """Compare the pieces written since the last comparison. Pieces are whole tokens, so no character is split."""
        self.hash.update(self._new)
        new = self._new.decode()
        self.same = self.same and self._text.startswith(new, self.place)
        self.place += len(new)
        self._new.clear()


def encoded(document: Any) -> bytes:
    """Encode a document as its canonical text, in UTF-8.

    The package `rfc8785` is the reference, but takes 5 s for a million numbers. Here `msgspec` writes each row of
    numbers in one call, and other threads can run between two calls.
    """
    return bytes(_encoded(document))


def _encoded(document: Any) -> bytearray:
    text = bytearray()  # not a list of pieces: for a large certificate those take more memory than the text
    try:
        _write(document, text)
    except (ValueError, UnicodeEncodeError):
        for where, found, allowed in unwritable(document):
            raise InvalidInput(where or "document", found=found, allowed=allowed) from None
        raise
    return text


def plain_around(message: Model, large: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a message to a plain document, without copying its `large` fields, whose values are plain already."""
    small = copy(message)  # does not check its fields again, unlike `replace`
    for name in large:
        msgspec.structs.force_setattr(small, name, None)
    document: dict[str, Any] = msgspec.to_builtins(small, enc_hook=_english) | large
    return document


def _english(value: Any) -> str:
    """Convert a translatable text to plain English; raise for any other type that JSON does not support."""
    if isinstance(value, Translatable):
        return str(value)
    raise NotImplementedError(f"JSON has no {type(value).__name__}")


json_bytes = msgspec.json.Encoder(enc_hook=_english).encode  # encodes any document or answer, not in canonical form
_encode, _encode_sorted = json_bytes, msgspec.json.Encoder(order="sorted").encode
PLAIN = frozenset({str, bool, type(None)})
SCALARS = PLAIN | {int, float}


def _write(value: Any, text: _Written) -> None:
    if type(value) in PLAIN:
        text += _encode(value)
    elif isinstance(value, list | tuple):
        kinds = set(map(type, value))
        # One call per row of plain values: a call per number would take most of the time.
        if kinds == {float}:
            text += _floats(value)
        elif kinds == {int}:
            text += _encode(value if _countable(value) else list(map(_number, value)))
        elif kinds <= SCALARS:
            text += _encode([item if type(item) in PLAIN else _number(item) for item in value])
        else:
            before = b"["
            for item in value:
                text += before
                _write(item, text)
                before = b","
            text += b"]"
    elif isinstance(value, int | float):
        text += _encode(_number(value))
    elif isinstance(value, dict) and set(map(type, value.values())) <= SCALARS and "".join(value).isascii():
        row = {key: item if type(item) in PLAIN else _number(item) for key, item in value.items()}
        text += _encode_sorted(row)
    elif isinstance(value, Mapping):  # last: checking for a mapping takes longer than writing a number
        before = b"{"
        for key in _sorted(value):
            text += before + _key(key)
            _write(value[key], text)
            before = b","
        text += b"{}" if before == b"{" else b"}"
    else:
        text += _encode(value)


def _floats(values: list[float] | tuple[float, ...]) -> bytes:
    """Write a row of floats at once: `msgspec` formats most numbers as ECMAScript does.

    But it writes 2.0 where ECMAScript writes 2, so the ending `.0` is removed. If a row has an exponent, a negative
    zero or a null, its numbers are written one by one.
    """
    row = _encode(values)
    if b"e" in row or b"n" in row or b"-0.0," in row or row.endswith(b"-0.0]"):
        return _encode(list(map(_number, values)))
    return (row[:-3] + b"]" if row.endswith(b".0]") else row).replace(b".0,", b",")


def _countable(values: list[int] | tuple[int, ...]) -> bool:
    return min(values) >= -LARGEST_INTEGER and max(values) <= LARGEST_INTEGER


def _sorted(keys: Iterable[str]) -> list[str]:
    """Sort keys by UTF-16 code units. That is Python's order, except for characters beyond the first 65,536."""
    found = sorted(keys)
    return found if "".join(found).isascii() else sorted(found, key=lambda key: key.encode("utf-16-be"))


@lru_cache(maxsize=4096)
def _key(key: str) -> bytes:
    return _encode(key) + b":"


def _number(value: float) -> int | float | msgspec.Raw:
    """Convert a number so that `msgspec` writes it as ECMAScript does: to an integer, a float, or ready-made text."""
    if isinstance(value, int):
        if abs(value) <= LARGEST_INTEGER:
            return int(value)
        if not _is_double(value):
            raise ValueError("an integer that float64 cannot represent")
        value = float(value)
    if not math.isfinite(value):
        raise ValueError("no number of JSON")
    if abs(value) <= LARGEST_INTEGER and value == int(value):
        return int(value)
    return float(value) if 1e-5 < abs(value) < 1e15 else msgspec.Raw(ecmascript(value).encode())


def ecmascript(value: float) -> str:
    """The text of a finite number as ECMAScript writes it (Number::toString).

    >>> [ecmascript(value) for value in (-0.0, 5e-324, 1e-6, 0.1, 123456789012345680000.0, 1e21)]
    ['0', '5e-324', '0.000001', '0.1', '123456789012345680000', '1e+21']
    """
    if value == 0:
        return "0"
    numerals, _, exponent = repr(abs(value)).partition("e")
    whole, _, part = numerals.partition(".")
    shown = (whole + part).lstrip("0")
    point = len(shown) - len(part) + int(exponent or 0)  # how many digits come before the decimal point
    digits = shown.rstrip("0")
    sign = "-" if value < 0 else ""
    if 0 < point <= 21:
        whole = digits[:point].ljust(point, "0")
        return f"{sign}{whole}.{digits[point:]}" if len(digits) > point else sign + whole
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"e{point - 1:+d}"
    return f"{sign}{digits[0]}.{digits[1:]}{power}" if len(digits) > 1 else f"{sign}{digits}{power}"


# --- reading


def read_json(text: str | bytes | bytearray, key: str = "document") -> Any:
    """Parse standard JSON: no NaN, no infinities, no lone surrogates.

    >>> read_json("[1, 2.5]")
    [1, 2.5]
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(key, found=f"no valid JSON ({error})", allowed="JSON with finite numbers") from None


def unwritable(value: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Find values that JSON, UTF-8 or a database cannot store. Yields the path, what was found, and what is allowed."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            yield where, "a lone surrogate", "text that UTF-8 can hold"
        if "\x00" in value:
            yield where, "text with a NUL character", "text without it"
    elif isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if (kinds == {float} and all(map(math.isfinite, value))) or (kinds == {int} and _countable(value)):
            return
        for place, item in enumerate(value):
            yield from unwritable(item, f"{where}[{place}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield where, str(value), "a finite number"
    elif isinstance(value, int):
        if abs(value) > LARGEST_INTEGER and not _is_double(value):
            yield where, "a huge number", "whole numbers up to 2^53"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from unwritable(key, where)
            yield from unwritable(item, f"{where}.{key}" if where else str(key))


def _is_double(value: int) -> bool:
    """Whether float64 holds an integer exactly, and RFC 8785 writes it without an exponent (as it does below 1e21)."""
    return abs(value) < 10**21 and ecmascript(float(value)) == str(value)


@cache
def _messages_in(kind: type[msgspec.Struct]) -> dict[str, type[Model]]:
    """Field -> the class of its messages, for every field that holds a message or a tuple of messages."""
    found: dict[str, type[Model]] = {}
    for field in msgspec.structs.fields(kind):
        for part in _parts(field.type):
            if isinstance(part, type) and issubclass(part, Model):
                found[field.encode_name] = part
    return found


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


def _unnamed(kind: type[Model], document: Any, where: str = "") -> Iterator[tuple[str, type[Model]]]:
    """Find messages in a document that lack a schema but are otherwise valid, so that `msgspec` would accept them.

    Yields the path and the class of each such message.
    """
    if isinstance(document, list | tuple):
        for place, item in enumerate(document):
            yield from _unnamed(kind, item, f"{where.rstrip('.')}[{place}].")
    elif isinstance(document, Mapping):
        if kind.schema and "schema" not in document:
            yield where, kind
        for name, inner in _messages_in(kind).items():
            yield from _unnamed(inner, document.get(name), f"{where}{name}.")


# --- refusals

STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")
# The names that `msgspec` has for types -> the words that all other checks use.
KINDS = {kind.__name__: words for kind, words in IN_WORDS.items()} | {"array": IN_WORDS[list], "object": "an object"}


def refused(kind: type[msgspec.Struct], document: Any, error: msgspec.ValidationError, label: str) -> InvalidInput:
    """Convert an error of `msgspec` about a document to an `InvalidInput`: the path, what was found, what is allowed.

    >>> class Page(msgspec.Struct):
    ...     limit: Annotated[int, msgspec.Meta(le=500)] = 100
    >>> try:
    ...     msgspec.convert({"limit": "many"}, Page)
    ... except msgspec.ValidationError as error:
    ...     print(refused(Page, {"limit": "many"}, error, "query"))
    limit: found 'many'; allowed: a whole number
    """
    words, _, path = str(error).partition(" - at `$")
    place = path.rstrip("`").lstrip(".")
    inner = _kind_at(kind, path)
    if words.startswith("Object "):  # a missing or an unknown key
        key = words.partition("`")[2].rstrip("`")
        allowed = ", ".join(field.encode_name for field in msgspec.structs.fields(inner))
        return InvalidInput(place or label, found=f"missing or unknown keys: {key}", allowed=allowed)
    found = _found(_at(document, path))
    if words.startswith("Invalid value") and place.endswith("schema"):
        return InvalidInput(place, found=found, allowed=str(inner.__struct_config__.tag))
    if words.startswith("Invalid enum value"):
        return InvalidInput(place, found=found, allowed=", ".join(_choices_at(kind, path)))
    allowed = words.partition("Expected ")[2].partition(", got ")[0] or words
    return InvalidInput(place or label, found=found, allowed=_in_words(allowed))


def _at(document: Any, path: str) -> Any:
    """The value at a path of `msgspec`, such as `.report.counts[1]`; if it leads nowhere, the last value on the way."""
    for name, index in STEP.findall(path.rstrip("`")):
        if isinstance(document, Mapping) and name in document:
            document = document[name]
        elif isinstance(document, list | tuple) and index:
            document = document[int(index)]
        else:
            break
    return document


def _kind_at(kind: type[msgspec.Struct], path: str) -> type[msgspec.Struct]:
    """The class of the struct at a path of `msgspec`."""
    for name, _ in STEP.findall(path.rstrip("`")):
        kind = _messages_in(kind).get(name, kind)
    return kind


def _choices_at(kind: type[msgspec.Struct], path: str) -> list[str]:
    name = path.rstrip("`").rpartition(".")[2]
    hints = (field.type for field in msgspec.structs.fields(_kind_at(kind, path)) if field.encode_name == name)
    enums = (part for hint in hints for part in _parts(hint) if isinstance(part, type) and issubclass(part, Enum))
    return [str(member.value) for choices in enums for member in choices]


def _in_words(expected: str) -> str:
    """The type that `msgspec` expects, in the words of all other checks.

    >>> _in_words("`int | null`"), _in_words("`int` <= 9007199254740992")
    ('a whole number or null', 'a whole number <= 2^53')
    """
    kinds = re.sub(r"`([^`]*)`", lambda names: " or ".join(KINDS.get(n, n) for n in names[1].split(" | ")), expected)
    kinds = kinds.replace(f"text matching regex {SHA256!r}", "a SHA-256 in hexadecimal")
    return kinds.replace(str(LARGEST_INTEGER), "2^53").replace(f"text matching regex {INK!r}", "text that is not blank")


def _found(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_INTEGER:
        return "a huge number"
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
