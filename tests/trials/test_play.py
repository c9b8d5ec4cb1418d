"""A study with a horizon through the site's service: everybody who comes is played to, until the last draw is made."""

import time
from collections import Counter

import numpy as np
import pytest
from tests.coordinator.support import House
from tools.trials.person_level import SiteHouse, replayed

from parley.coordinator.record import initialise, open_storage
from parley.coordinator.record.audit import verify_stored
from parley.protocol import StudyMessage

pytestmark = pytest.mark.servers

HORIZON, SITES = 60, ("Paris", "Lille")
RATES = np.array([[0.1, 0.05], [0.95, 0.9]])  # arm, site
GAME = StudyMessage(
    name="Two banners", arms=("old", "new"), agents=SITES, weights=((0.8, 0.3), (0.2, 0.7)), policy="evidence-regret",
    noise={"kind": "binary"}, horizon=HORIZON, options={"worth": 1e9},  # explores until all have their answers
)  # fmt: skip


@pytest.fixture
def house(tmp_path):
    db = str(tmp_path / "parley.db")
    initialise(db)
    storage = open_storage(db)
    house = House(storage)
    yield house
    house.close()
    storage.close()


def settled(house, sites, phase):
    """Wait until every site has the plan after `phase`, or the study is over."""
    until = time.monotonic() + 60
    while True:
        status = house.admin.status("game")
        standing = [site.status() for site in sites]
        if status["stage"] == "closing":  # the step is being computed
            continue
        if status["stage"] != "running" or all(found["phase"] > phase for found in standing):
            return status, standing
        assert time.monotonic() < until, standing
        time.sleep(0.005)


def test_people_are_played_to_until_the_horizon_and_the_log_is_verified(house, tmp_path):
    house.create(GAME, "game")
    sites = [SiteHouse(house, tmp_path / "box", "game", name, GAME) for name in SITES]
    chance, shown, phase = np.random.default_rng(3), Counter(), 0
    try:
        status, standing = settled(house, sites, phase)
        while status["stage"] == "running":
            phase = standing[0]["phase"]
            for place, (site, found) in enumerate(zip(sites, standing, strict=True)):
                assert found["to_assign"] > 0, "nobody waits"
                for _ in range(found["to_assign"]):
                    key = f"p-{sum(shown.values())}"
                    arm = GAME.arms.index(site.post("/v1/assignments", participant=key)["arm"])
                    site.post("/v1/outcomes", participant=key, reward=float(chance.random() < RATES[arm, place]))
                    shown[phase, place, arm] += 1
            status, standing = settled(house, sites, phase)
        certificate = house.admin.request("GET", "studies", "game", "certificate")
        records = house.admin.request("GET", "studies", "game", "log", params={"limit": 1000})["records"]
    finally:
        for site in sites:
            site.close()
    assert status["stage"] == "finished"
    assert [sum(count for (_, site, _), count in shown.items() if site == one) for one in (0, 1)] == [HORIZON] * 2
    assert certificate["samples"] == 2 * HORIZON
    assert certificate["answers"] == {name: ["new"] for name in SITES} == replayed(records, GAME)
    played = sum(count for (when, _, arm), count in shown.items() if when > 1 and arm == 1)
    explored = sum(count for (when, _, arm), count in shown.items() if when > 1 and arm == 0)
    assert played > 2 * explored > 0, "after the first phase most get the better one"
    assert verify_stored(house.storage, "game").sound
