"""The trial of `person_level.py` on both databases: its answer is the policy's on the same totals."""

import pytest
from tests.coordinator.conftest import database, storage  # noqa: F401
from tools.trials.person_level import EASY, replayed, run, study

pytestmark = pytest.mark.servers


def test_a_trial_of_people_ends_in_the_answer_of_the_policy_on_the_same_totals(storage, tmp_path):  # noqa: F811
    trial, certificate, found, records = run(storage, tmp_path / "box", rates=EASY)
    assert found.sound, found.problem
    assert certificate["complete"]
    assert certificate["answers"] == replayed(records, study())
    assert certificate["answers"] == {name: ["high dose"] for name in study().agents}
    assert trial.cuts, "Lyon was away: a phase was closed without it"
    assert trial.people["missing"] > 0
    assert sum(map(sum, certificate["missing"])) <= trial.people["missing"]
    assert certificate["samples"] <= trial.people["observed"]
