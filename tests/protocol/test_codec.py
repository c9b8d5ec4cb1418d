"""One text for one value: RFC 8785, as its reference package and another language write it; and reading it again."""

import json
import math
import struct
import sys
import threading
import time
from typing import Annotated

import msgspec
import numpy as np
import pytest
import rfc8785
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.protocol.test_messages import examples

from parley.errors import InvalidInput
from parley.protocol import Record, Report
from parley.protocol.codec import Message, Model, Words, canonical, digest, encoded, read_json

numbers = st.floats(allow_nan=False, allow_infinity=False)
LARGEST_OF_REFERENCE = 2**53 - 1
whole = st.integers(-LARGEST_OF_REFERENCE, LARGEST_OF_REFERENCE)
text = st.text(st.characters(codec="utf-8"), max_size=10)
documents = st.recursive(
    st.none() | st.booleans() | whole | numbers | text | st.lists(numbers, max_size=6) | st.lists(whole, max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
bits = st.integers(0, 2**64 - 1).map(lambda raw: struct.unpack("<d", raw.to_bytes(8, "little"))[0])


@pytest.mark.simulations
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(documents)
@example({"\U00010000": 1, "￿": 2, "é": [1.0, -0.0, 1e-7]})  # in UTF-16 the first key comes before the second
def test_the_text_is_that_of_the_reference(document):
    assert encoded(document) == rfc8785.dumps(document)


@pytest.mark.simulations
@settings(max_examples=2000)
@given(bits.filter(math.isfinite))
@example(1e15).via("msgspec and ECMAScript part here")
@example(1e-5)
@example(1e-6)
@example(9.999999999999999e-7)
@example(1e21)
@example(2.0**53)
def test_every_number_is_written_as_the_reference_does_alone_and_in_a_row(value):
    assert encoded(value) == rfc8785.dumps(value)
    assert encoded([value, -value]) == rfc8785.dumps([value, -value])


@given(documents)
def test_what_was_written_is_read_and_written_again_the_same(document):
    written = encoded(document)
    assert encoded(read_json(written)) == written
    assert encoded(json.loads(written)) == written


@given(st.lists(numbers, min_size=1, max_size=5))
def test_floats_survive_exactly(values):
    class Row(Model):
        values: tuple[float, ...]

    again = Row.read(Row(values=tuple(values)).text).values
    assert all(type(value) is float for value in again)
    assert np.array(again).tobytes() == (np.array(values) + 0.0).tobytes(), "but for the sign of zero"


WRONG = ("", "[", "[[1], [2]", '{"a": [[1, NaN]]}', "[[1],]", '{"a" 1}', "[[1]] x", "[" * 99999, "1e999")
WRONG += ("NaN", "[Infinity]", '{"a": -Infinity}', "[1e]", '"\\ud800"', b"\xff")


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_what_is_no_json_is_refused(wrong):
    with pytest.raises(InvalidInput, match="no valid JSON"):
        read_json(wrong)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"a": [[1.0], [float("inf")]]}, r"a\[1\]\[0\]: found inf"),
        ([[1.0], [float("nan")]], r"\[1\]\[0\]: found nan"),
        ({"a": 2**53 + 1}, "a: found a huge number"),
        ({"a": [2**53 + 1]}, r"a\[0\]: found a huge number"),
        ({"a": "\ud800"}, "a: found a lone surrogate"),
        ({"\ud800": 1}, "found a lone surrogate"),
    ],
)
def test_what_json_cannot_hold_is_not_written(document, words):
    with pytest.raises(InvalidInput, match=words):
        canonical(document)


class Inner(Message, tag="test/inner/1"):
    numbers: tuple[float, ...]


class Outer(Message, tag="test/outer/1"):
    inner: Inner
    more: tuple[Inner, ...] = ()
    words: Words | None = None
    flag: bool = False


GOOD = {"schema": "test/outer/1", "inner": {"schema": "test/inner/1", "numbers": [1, 2.5]}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inner": {"numbers": [1]}}, r"inner\.schema: found none; allowed: test/inner/1"),
        ({"more": [GOOD["inner"], {"numbers": []}]}, r"more\[1\]\.schema: found none"),
        ({"inner": {"schema": "test/outer/1", "numbers": [1]}}, "found 'test/outer/1'; allowed: test/inner/1"),
        ({"inner": {"schema": "test/inner/1"}}, "inner: found missing or unknown keys: numbers; allowed: numbers"),
        ({"inner": {**GOOD["inner"], "x": 1}}, "inner: found missing or unknown keys: x; allowed: numbers"),
        ({"inner": {**GOOD["inner"], "numbers": [1, "2"]}}, r"inner\.numbers\[1\]: found '2'; allowed: a number"),
        ({"inner": {**GOOD["inner"], "numbers": [math.inf]}}, r"inner\.numbers\[0\]: found inf"),
        ({"inner": 3}, "inner: found 3; allowed: an object"),
        ({"words": ""}, "words: found ''; allowed: text of length >= 1"),
        ({"words": 1}, "words: found 1; allowed: text or null"),
        ({"words": "a\x00b"}, "words: found text with a NUL character"),
        ({"words": "\udc00"}, "words: found a lone surrogate"),
        ({"flag": 1}, "flag: found 1; allowed: true or false"),
        ({"schema": "test/outer/2"}, "schema: found 'test/outer/2'; allowed: test/outer/1"),
    ],
)
def test_a_message_of_the_wrong_form_says_where_and_what_is_allowed(change, words):
    with pytest.raises(InvalidInput, match=words):
        Outer.from_json({**GOOD, **change})


def test_a_message_without_its_schema_is_refused_and_a_model_has_none():
    with pytest.raises(InvalidInput, match="schema: found none; allowed: test/outer/1"):
        Outer.from_json({"inner": GOOD["inner"]})
    for other in ([], None, "text", 3):
        with pytest.raises(InvalidInput, match="allowed: an object"):
            Outer.from_json(other)

    class Body(Model):
        reason: Annotated[str, msgspec.Meta(description="Why.")] = ""

    assert Body.from_json({}).to_json() == {"reason": ""}
    assert msgspec.json.schema(Body)["$defs"]["Body"]["properties"]["reason"]["description"] == "Why."


def all_messages(kind=Message):
    for found in kind.__subclasses__():
        yield found
        yield from all_messages(found)


def test_what_a_message_leaves_out_is_empty_so_that_its_text_depends_on_no_object():
    """msgspec leaves a field out where its value *is* the default: of equal objects that are not empty, one may be."""
    for kind in all_messages():
        for field in msgspec.structs.fields(kind):
            if kind.__struct_config__.omit_defaults and field.default is not msgspec.NODEFAULT:
                assert any(field.default is empty for empty in (None, False, "", (), msgspec.UNSET)), (kind, field.name)


def test_every_message_has_a_schema_that_describes_it_in_words():
    """It becomes part of the OpenAPI document: an example in Python has no place there."""
    kinds = [
        kind for kind in all_messages() if kind.__module__.startswith("parley.") and not kind.__name__.startswith("_")
    ]
    _, components = msgspec.json.schema_components(kinds)
    for name, component in components.items():
        assert component["description"], name
        assert ">>>" not in component["description"], name


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(text, numbers | text, max_size=4), text)
def test_the_hash_around_a_written_payload_is_the_hash_of_the_whole(payload, actor):
    body = {"stream": "s", "at": "2026", "actor": actor, "kind": "paused", "payload": payload, "salt": "0" * 32}
    record = Record.linked(3, "f" * 64, **body, payload_text=canonical(payload))
    assert record == Record.linked(3, "f" * 64, **body)
    assert record.hash == record.computed == digest(body | {"sequence": 4, "previous": "f" * 64})
    assert record.line(canonical(payload)) == record.text


def test_a_report_of_any_form_has_one_digest():
    report = examples()["report"]
    spaced = json.dumps(report.to_json(), indent=3)
    floats = {**report.to_json(), "sums": [float(value) for value in report.sums], "final": False, "missing": []}
    assert Report.read(spaced).digest == Report.from_json(floats).digest == report.digest == digest(json.loads(spaced))


def test_other_threads_run_while_a_large_document_is_written():
    document = {"rows": [[0.1 + place] * 500 for place in range(800)]}
    turns, over, usual = [], threading.Event(), sys.getswitchinterval()

    def others():
        while not over.is_set():
            turns.append(time.perf_counter())
            time.sleep(0.0005)

    sys.setswitchinterval(0.0005)
    watcher = threading.Thread(target=others)
    watcher.start()
    try:
        turns.clear()
        canonical(document)
        assert len(turns) > 5, "in one go it is one or two"
    finally:
        over.set()
        watcher.join()
        sys.setswitchinterval(usual)
