"""A masked study with two sites of two strata each, through page and API, killed at every named point."""

import pytest
from tools.chaos.strata import FLAWS, PLACES, run

from parley.coordinator.record import initialise

pytestmark = pytest.mark.kills


def test_killed_at_every_named_point_nobody_is_in_two_strata_and_no_kit_is_given_twice(tmp_path):
    db = str(tmp_path / "parley.db")
    initialise(db)
    found = run(db, tmp_path / "box", kills=len(PLACES), seed=5)
    assert found["kills"] == len(PLACES)
    assert found["people"] > 8
    assert found["blocks"] > 0, "some plan was filled"
    assert {name: found[name] for name in (*FLAWS, "unbalanced")} == dict.fromkeys((*FLAWS, "unbalanced"), 0)
