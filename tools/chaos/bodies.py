"""Request bodies that are almost valid, and bodies that are not JSON."""

import copy
import json

from hypothesis import strategies as st

NUMBERS = (-1, 0, 2**53, 10**30, -(10**400), 1.5, 1e308, 5e-324, float("nan"), float("inf"), -0.0)
WORDS = ("", "\x00", "\ud800", "agent 2", "a/b", "0" * 64, "x" * 3000)
LISTS = ([], [[]], [1e308] * 3, [0, 0, 0], [10**18] * 3, ["", ""])
NASTY = st.sampled_from((None, True, {}, *NUMBERS, *WORDS, *LISTS))
VALUES = st.one_of(
    NASTY,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=8,
    ),
)
CHANGES = st.lists(st.tuples(st.integers(0, 99), st.sampled_from("rrrrnnnnda"), VALUES), min_size=1, max_size=2)
RAW = [
    (b"", "application/json"),
    (b"{", "application/json"),
    (b'{"reason": "cut', "application/json"),
    (b'{"reason": NaN}', "application/json"),
    (b'{"reason": ' + b"9" * 6000 + b"}", "application/json"),
    (b"[" * 50_000, "application/json"),
    (b'{"study":' * 2000 + b"1" + b"}" * 2000, "application/json"),
    (b"\xff\xfe\x00", "application/json"),
    (b'{"reason": "\xff"}', "application/json"),
    (b'{"reason": "\\ud800"}', "application/json"),
    (b'{"reason": "x", "reason": "y"}', "application/json"),
    (b'{"reason": "x"}', "text/plain"),
    (b'{"reason": "x"}', "application/json; charset=utf-16"),
    (b"<reason/>", "application/xml"),
    (b"reason=x", "application/x-www-form-urlencoded"),
    (b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x"),
    (b'{"reason": "x"}', "nonsense"),
    (b" " * 1_100_000, "application/json"),
]


def places(document, before=()):
    """The paths to all values of a document, two levels deep and into the first elements of lists."""
    inner = document.items() if isinstance(document, dict) else list(enumerate(document))[:3]
    for key, value in inner:
        yield (*before, key)
        if isinstance(value, dict | list) and len(before) < 2:
            yield from places(value, (*before, key))


def nudged(value):
    """Another value of the same type, wrong only in its meaning."""
    match value:
        case bool() | None:
            return not value
        case int():
            return value + 1
        case float():
            return -1.5 * value
        case str():
            return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return list(value)[::-1] if isinstance(value, list) else value


def altered(document, changes):
    """A copy of a document with some values replaced, nudged, dropped or added."""
    document = json.loads(json.dumps(document))
    for number, how, drawn in changes:
        value = copy.deepcopy(drawn)  # hypothesis returns the same object each time
        ways = list(places(document))
        if not ways:
            return document
        *way, last = ways[number % len(ways)]
        owner = document
        for key in way:
            owner = owner[key]
        if how == "d":
            del owner[last]
        elif how == "n":
            owner[last] = nudged(owner[last])
        elif how == "a" and isinstance(owner, dict):
            owner["unknown"] = value
        else:
            owner[last] = value
    return document


def encoded(document):
    """The document as JSON bytes; NaN and infinities as Python writes them, surrogates escaped."""
    return json.dumps(document).encode()
