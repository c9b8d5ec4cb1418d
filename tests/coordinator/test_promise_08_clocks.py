"""Promise 8: clocks decide nothing."""

import itertools

import httpx2 as httpx
import pytest
from tests.coordinator.support import House, study_message

from parley.coordinator.record import initialise, open_storage


def decisions(folder, clock):
    """Everything decided in a study under a clock."""
    address = str(folder / "parley.db")
    initialise(address)
    storage = open_storage(address)
    house = House(storage, clock=clock)
    message = study_message(policy="evidence")
    status = house.run(message, house.create(message))
    phases = range(1, status["phase"] + 1)
    found = [house.admin.request("GET", "studies", "trial", "phases", phase, "decision") for phase in phases]
    plans = [house.admin.request("GET", "studies", "trial", "phases", phase, "plan") for phase in phases]
    assert house.admin.request("POST", "studies", "trial", "verify")["sound"]
    house.close()
    storage.close()
    return found, plans


@pytest.mark.simulations
def test_a_clock_that_jumps_by_years_between_any_two_looks_changes_no_decision(tmp_path):
    years = itertools.cycle([2030, 1970, 2099, 2001])
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    jumping = decisions(tmp_path / "a", lambda: f"{next(years)}-06-01T00:00:00Z")
    standing = decisions(tmp_path / "b", lambda: "2026-01-01T00:00:00Z")
    assert jumping == standing


def test_a_session_of_the_last_hour_that_a_clock_can_show_is_opened_and_used(tmp_path):
    """The clock of a machine without a battery may show the year 9999: what cannot be later ends then."""
    address = str(tmp_path / "parley.db")
    initialise(address)
    storage = open_storage(address)
    house = House(storage, clock=lambda: "9999-12-31T23:30:00.000Z")
    opened = house.admin.request("POST", "sessions")
    assert opened["expires_at"] == "9999-12-31T23:59:59.999Z"
    with httpx.Client(transport=house.application, base_url="http://parley.test") as browser:
        answer = browser.get("/v1/studies", headers={"Authorization": f"Session {opened['session']}"})
    assert (answer.status_code, answer.json()["studies"]) == (200, [])
    house.close()
    storage.close()
