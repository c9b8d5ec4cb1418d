"""Three sites and the country, live, while the coordinator is killed: nothing is lost, and the country is answered."""

import pytest
from tools.chaos.findings import FLAWS
from tools.chaos.harness import run

from parley.protocol import StudyMessage
from parley.study import parse_study

pytestmark = pytest.mark.kills
COUNTRY = {
    "arms": 3,
    "agents": ["Paris", "Lille", "Lyon"],
    "questions": [{"name": "country", "weights": {"Paris": 0.3, "Lille": 0.4, "Lyon": 0.3}}],
    "weights": {"kind": "personalized", "alpha": 0.5},
    "noise": {"scale": 1.0},
    "policy": {"name": "uniform"},
}


def test_killed_at_random_and_right_after_the_commit(database):
    message = StudyMessage.of(parse_study(COUNTRY))
    books = run(database, kills=3, seed=4, lanes=1, places=["after-commit", "at random"], message=message)
    assert books.result()["kills"] == 3
    assert {agent for _, _, agent in books.receipts} == {"Paris", "Lille", "Lyon"}
    assert books.flaws == dict.fromkeys(FLAWS, 0)
