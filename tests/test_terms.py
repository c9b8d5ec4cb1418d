"""What a study asks for is spelled once, in a row of `Terms`. To print the docs' tables: python -m tests.test_terms"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import parley
from parley.keys import full_name
from parley.problem import Problem
from parley.protocol import StudyMessage
from parley.study import SECTIONS, parse_study
from parley.terms import TERMS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "study-file.md"
HEAD = "| key | meaning | default |\n|---|---|---|\n"

# What a new term needs in `src`: its row, and the place that uses it.
PLACES = {
    "terms.py": (
        "\n    def _check_terms(",
        '\n    patience: int = _term(0, (int,), _from(0, 9), "days that somebody waits",\n'
        '        section="imaginary", told="somebody waits {value} days")\n',
    ),
    "bounds.py": (None, "\n\ndef twice_the_patience(problem):\n    return 2 * problem.patience\n"),
}


def test_a_new_term_is_at_most_three_places(tmp_path):
    """A copy of the product with an imaginary term, which file, wire, store, API, pages and commands all know."""
    copy = tmp_path / "parley"
    shutil.copytree(Path(parley.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert len(PLACES) <= 3
    for name, (before, line) in PLACES.items():
        text = (copy / name).read_text(encoding="utf-8")
        place = len(text) if before is None else text.index(before)
        (copy / name).write_text(text[:place] + line + text[place:], encoding="utf-8")
    paths = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.imaginary", str(tmp_path)],
        cwd=tmp_path, env=os.environ | paths, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def table(section):
    """The rows of a section as the docs have them."""
    rows = ((full_name(section, key), row) for key, row in SECTIONS[section].items())
    return HEAD + "".join(f"| `{key}` | {row.meaning} | {row.default} |\n".replace("|  |", "| |") for key, row in rows)


def printed(page):
    """The page with the tables of today, each under its heading."""
    for section in SECTIONS:
        heading = rf"## `\[{section}\]`" if section else "## The question"
        found = re.search(rf"^{heading}[^\n]*\n(?:(?!^## ).*\n)*?(?P<table>{re.escape(HEAD)}(?:\|.*\n)*)", page, re.M)
        assert found, f"docs/study-file.md has no table for [{section}]"
        page = page[: found.start("table")] + table(section) + page[found.end("table") :]
    return page


def test_the_tables_of_the_docs_are_those_of_the_code():
    page = PAGE.read_text(encoding="utf-8")
    assert printed(page) == page, "python -m tests.test_terms prints them anew"


def test_every_term_has_words_and_a_default_that_it_takes():
    usual = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]])
    assert usual.unusual() == usual.told() == {}
    assert usual.terms() == {name: row.usual for name, row in TERMS.items()}
    for row in TERMS.values():
        assert row.meaning
        assert row.default
        assert row.told or row.always, "what is told in no heading is told when it is unusual"


def test_only_what_was_always_written_is_written_at_its_default():
    """The digests of studies that were stored before there was a term."""
    document = StudyMessage.of(parse_study({"arms": 3, "agents": 2})).to_json()
    assert set(document) - {"schema"} == {
        "name", "arms", "agents", "weights", "delta", "top", "largest_gap", "noise", "policy", "options",
    }  # fmt: skip


@pytest.mark.parametrize("key", ["terms", "tolerence"])
def test_a_document_with_an_unknown_key_is_refused_and_the_terms_are_listed(key):
    document = StudyMessage.of(parse_study({"arms": 3, "agents": 2})).to_json()
    with pytest.raises(parley.errors.InvalidInput, match=rf"{key}; allowed: .*minimum_cell") as caught:
        StudyMessage.from_json({**document, key: {}})
    assert "terms" not in caught.value.allowed


def test_a_problem_of_another_shape_keeps_its_terms():
    problem = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], delta=0.3, minimum_cell=7)
    other = problem.with_(weights=np.eye(4), agents=(), arms=5)
    assert other.unusual() == {"delta": 0.3, "minimum_cell": 7}


if __name__ == "__main__":
    PAGE.write_text(printed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
