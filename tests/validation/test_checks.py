"""A rule about what a user may type is stated once, in `validation/checks.py`: everywhere else it is called."""

import math
import re
from pathlib import Path

import pytest

from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Problem
from parley.rewards import Binary
from parley.study import paper_means
from parley.validation.checks import BETWEEN, above_zero, share, switch, whole, within

SRC = Path(__file__).parents[2] / "src" / "parley"
SAID_ONCE = (BETWEEN, "a finite number above 0", '"a whole number"', '"true or false"')


def test_no_other_room_words_these_rules():
    docstrings = re.compile(r'""".*?"""', re.DOTALL)
    texts = {path: docstrings.sub("", path.read_text(encoding="utf-8")) for path in SRC.rglob("*.py")}
    found = {words: {path.name for path, text in texts.items() if words in text} for words in SAID_ONCE}
    assert all(names == {"checks.py"} for names in found.values()), found


PROBLEM = Problem(arms=2, weights=[[1.0]])


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: Problem(arms=2, weights=[[1.0]], delta=1.0), BETWEEN),
        (lambda: make_policy("wcpe", PROBLEM, {"accuracy": 0.0}), BETWEEN),
        (lambda: Binary(rate=1.0), BETWEEN),
        (lambda: make_policy("evidence", PROBLEM, {"precision": math.inf}), "a finite number above 0"),
        (lambda: paper_means(PROBLEM, min_gap=-1.0), "a finite number above 0"),
        (lambda: share("level", "0.5"), "a number"),
        (lambda: share("level", math.nan), BETWEEN),
        (lambda: above_zero("loss", True), "a number"),
        (lambda: within("x", 3, 0, 2), "a number from 0 to 2"),
        (lambda: whole("x", 2.0, 0, 2), "a whole number"),
        (lambda: switch("x", 1), "true or false"),
    ],
)
def test_what_is_refused_names_what_is_allowed(refused, words):
    with pytest.raises(InvalidInput, match=f"allowed: {re.escape(words)}"):
        refused()
