"""Promise 2: a crash at any point loses nothing acknowledged. The long version is `make chaos`."""

import pytest
from tools.chaos.findings import FLAWS
from tools.chaos.harness import run

from parley.coordinator.record.writer import POINTS

pytestmark = pytest.mark.kills


@pytest.mark.parametrize("part", [0, 1])
def test_killed_between_the_statements_of_the_transaction(database, part):
    """Half of the named points each, and between commit and answer in both halves."""
    books = run(database, kills=4, seed=part, lanes=1, places=[*POINTS[part:-1:2], "after-commit", "after-commit"])
    assert books.result()["kills"] == 4
    assert books.result()["between_commit_and_answer"] >= 1, "such a run would prove nothing: choose another seed"
    assert books.receipts
    assert books.flaws == dict.fromkeys(FLAWS, 0)


def test_killed_right_before_the_commit(database):
    """Whoever was answered has committed: a server that answers first loses here what it acknowledged."""
    books = run(database, kills=2, seed=1, lanes=1, places=["before-commit"])
    assert books.receipts
    assert books.flaws["lost"] == 0, f"{books.flaws['lost']} reports lost"
    assert books.flaws == dict.fromkeys(FLAWS, 0)
