"""The site's service under kill -9, in short; `python -m tools.chaos site` is the long form."""

import pytest
from tools.chaos.site import FLAWS, POINTS, run

from parley.coordinator.record import initialise

pytestmark = pytest.mark.kills


def test_killed_at_every_named_point_it_loses_and_doubles_nothing(tmp_path):
    db = str(tmp_path / "parley.db")
    initialise(db)
    found = run(db, tmp_path / "box", kills=10, seed=3, places=POINTS)
    assert found["kills"] == 10
    assert found["acknowledged"] > 30
    assert {name: found[name] for name in FLAWS} == dict.fromkeys(FLAWS, 0)
