"""Large JSON in pieces is the JSON of the standard library."""

import json
import sys
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.errors import InvalidInput
from parley.protocol import canonical as module
from parley.protocol import pieces
from parley.protocol.canonical import canonical, digest, read_json
from parley.protocol.chain import Record

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)


def at_once(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(pieces, "MANY", 0)
    monkeypatch.setattr(module, "LARGE", 0)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(documents)
def test_any_document_is_written_and_read_as_in_one_go(document):
    text = at_once(document)
    assert canonical(document) == text
    assert at_once(read_json(text)) == text
    assert at_once(read_json(json.dumps(document, indent=2))) == at_once(json.loads(text))


WRONG = ("", "[", "[[1], [2]", '{"a": [[1, NaN]]}', "[[1],]", '{"a" 1}', "[[1]] x", "[" * 9999)


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_is_no_json_is_none_in_pieces_either(text):
    with pytest.raises(InvalidInput, match="no valid JSON"):
        read_json(text)


def test_nor_are_infinities_written():
    with pytest.raises(InvalidInput, match="NaN"):
        canonical([[1.0], [float("inf")]])


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=4), scalars, max_size=4), st.text())
def test_the_hash_around_a_written_payload_is_the_hash_of_the_whole(payload, actor):
    told = {"stream": "s", "at": "2026", "actor": actor, "kind": "paused", "payload": payload, "salt": "0" * 32}
    try:
        digest(told)
    except InvalidInput:  # lone surrogates
        return
    record = Record.linked(3, "f" * 64, **told, told=canonical(payload))
    assert record == Record.linked(3, "f" * 64, **told)
    assert record.hash == record.computed
    assert record.told(canonical(payload)) == record.text


def test_other_threads_run_between_the_pieces(monkeypatch):
    """In one go this takes most of a second, in which nobody else has a turn."""
    monkeypatch.undo()
    document = {"rows": [[0.1 + place] * 500 for place in range(800)]}
    text = at_once(document)
    turns, over, usual = [], threading.Event(), sys.getswitchinterval()

    def others():
        while not over.is_set():
            turns.append(time.perf_counter())
            time.sleep(0.0005)

    sys.setswitchinterval(0.0005)
    watcher = threading.Thread(target=others)
    watcher.start()
    try:
        for work in (lambda: canonical(document), lambda: read_json(text)):
            turns.clear()
            work()
            assert len(turns) > 5, "in one go it is one or two"
    finally:
        over.set()
        watcher.join()
        sys.setswitchinterval(usual)
