"""A limit that several rooms keep is stated once, in the lowest of them, and imported from there."""

import re
from pathlib import Path

import pytest

import parley
from parley.coordinator.http import context, schemas
from parley.protocol import codec, messages
from parley.study import MOST_ARMS

SRC = Path(parley.__file__).parent


@pytest.mark.parametrize("name", ["LARGEST_PHASE", "LONGEST_WORDS"])
def test_a_limit_is_assigned_in_one_file(name):
    found = [path for path in SRC.rglob("*.py") if re.search(rf"^{name} = ", path.read_text("utf-8"), re.MULTILINE)]
    assert found == [SRC / "protocol" / "codec.py"]


def test_what_is_imported_is_the_same():
    assert context.LARGEST_PHASE is schemas.LARGEST_PHASE is codec.LARGEST_PHASE
    assert messages.LONGEST_NAME is schemas.LONGEST_NAME is codec.LONGEST_NAME
    assert messages.MOST_ARMS is MOST_ARMS


def test_forms_for_a_reason_take_its_length_from_the_limit():
    forms = [path.read_text("utf-8") for path in (SRC / "dashboard" / "templates").glob("*.html")]
    assert not any(f'maxlength="{codec.LONGEST_WORDS}"' in form for form in forms)
    assert sum(form.count('maxlength="{{ LONGEST_WORDS }}"') for form in forms) >= 7
