"""The site's service under kill -9, in short; `python -m tools.chaos site` is the long form."""

from types import SimpleNamespace

import pytest
from tests.agent.test_not_fooled import house  # noqa: F401
from tests.browser.ward import Ward
from tests.coordinator.support import study_message
from tools.chaos.site import FLAWS, OUTCOMES, POINTS, run

from parley.coordinator.record import initialise

pytestmark = pytest.mark.kills


@pytest.mark.parametrize(
    "study",
    [{}, {"outcomes": OUTCOMES}, {"covariate": True}, {"between": "assign"}],
    ids=["the reward alone", "two outcomes more", "adjusted for a covariate", "people between phases"],
)
def test_killed_at_every_named_point_it_loses_and_doubles_nothing(tmp_path, study):
    db = str(tmp_path / "parley.db")
    initialise(db)
    found = run(db, tmp_path / "box", kills=10, seed=3, places=POINTS, **study)
    assert found["kills"] == 10
    assert found["acknowledged"] > 30
    assert found["voided"] > 0
    assert {name: found[name] for name in FLAWS} == dict.fromkeys(FLAWS, 0)
    assert bool(found["between"]) == ("between" in study)


def test_a_site_killed_in_its_grace_waits_on_and_one_killed_after_send_now_sends_it(house, tmp_path):  # noqa: F811
    house.create(study_message(agents=1, arms=2, grace_hours=24.0))
    server = SimpleNamespace(url=house.url, issue=lambda *_, study, agent: house.tokens[study, agent])
    ward = Ward(server, tmp_path / "ward", study="trial", agent="agent 1")
    try:
        asked = ward.wait(lambda found: found["to_assign"] > 0)["asked"]
        for number in range(asked):
            ward.assign(f"p-{number}")
            ward.outcome(f"p-{number}", 0.5)
        until = ward.wait(lambda found: found["sends_at"])["sends_at"]
        ward.stop()
        ward.start()
        assert ward.wait(lambda found: found["coordinator"] == "connected")["sends_at"] == until
        assert house.admin.report("trial", 1, "agent 1") is None
        sent = ward.line.post("/", data={"do": "send", "phase": "1"}, headers={"Sec-Fetch-Site": "same-origin"})
        assert sent.status_code == 200
        ward.stop()
        ward.start()
        ward.wait(lambda found: found["phase"] == 2 or found["stage"] == "finished")
        assert sum(house.admin.report("trial", 1, "agent 1").counts) == asked
    finally:
        ward.stop()
