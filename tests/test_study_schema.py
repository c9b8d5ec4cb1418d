"""What editors are told of the study file: every key, what it takes, and nothing that the product refuses to read."""

import tomllib
from pathlib import Path

import jsonschema_rs
import pytest
from tests.test_settings import GOOD, TAKEN

from parley.errors import InvalidInput
from parley.settings import SETTINGS
from parley.study import REPEATED, SECTIONS, json_schema, parse_study

ROOT = Path(__file__).parents[1]
STUDIES = sorted((ROOT / "examples").glob("*.toml")) + sorted((ROOT / "examples" / "models").glob("*.toml"))
SCHEMA = jsonschema_rs.Draft7Validator(json_schema())
WRONG = [
    {"armz": 3},
    {"arms": "three"},
    {"arms": 0},
    {"delta": 0},
    {"delta": 1.0},
    {"delta": "0.1"},
    {"answers": "all"},
    {"horizon": "never"},
    {"privacy": {"minimum_cell": 0}},
    {"privacy": {"minimum": 5}},
    {"sites": {"counts": "about"}},
    {"weights": {"kind": "personalised"}},
    {"noise": {"kind": "poisson"}},
    {"truth": {"generate": "mine"}},
]


def test_it_is_a_schema():
    assert json_schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema_rs.meta.validate(json_schema())


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_every_example_is_valid(path):
    SCHEMA.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("keys", [keys for _, keys, _ in TAKEN], ids=str)
def test_what_a_setting_takes_is_valid(keys):
    SCHEMA.validate(GOOD | keys)


@pytest.mark.parametrize("changes", WRONG, ids=str)
def test_what_the_product_refuses_is_marked(changes):
    with pytest.raises(InvalidInput):
        parse_study(GOOD | changes)
    assert not SCHEMA.is_valid(GOOD | changes)


def test_a_file_without_arms_or_agents_is_marked():
    for key in ("arms", "agents"):
        assert not SCHEMA.is_valid({name: value for name, value in GOOD.items() if name != key})


def test_every_key_has_its_row_and_says_what_it_means():
    properties = json_schema()["properties"]
    for section, keys in SECTIONS.items():
        inside = properties[section]["items"] if section in REPEATED else properties.get(section)
        rows = inside["properties"] if section else properties
        beside = set(SECTIONS["noise"]) if section == "outcomes" else set()  # which an outcome has too
        sections = set() if section else set(SECTIONS)  # which stand beside the keys outside of any
        assert set(rows) - sections - beside == set(keys) - beside
        assert all(rows[key]["description"] for key in keys)


@pytest.mark.parametrize("name", [name for name, row in SETTINGS.items() if "minimum" in row.limits])
def test_the_limits_are_those_of_the_check(name):
    """Both ends are taken, and what lies beyond is refused by the check as by the schema."""
    row = SETTINGS[name]
    low, high = row.limits["minimum"], row.limits["maximum"]
    value = jsonschema_rs.Draft7Validator(row.schema)
    for taken in (low, high):
        row.check(name, taken, ("A", "B"), ("m",))
        assert value.is_valid(taken)
    for beyond in (low - 1, high + 1 if isinstance(high, int) else high * 1.001):
        assert not value.is_valid(beyond)
        with pytest.raises(InvalidInput):
            row.check(name, beyond, ("A", "B"), ("m",))
