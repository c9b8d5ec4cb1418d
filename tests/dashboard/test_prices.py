"""Money and days where a live study is looked at: before it starts, and while it runs."""

import time

import pytest
from tests.dashboard.site import TWO, form_token

PRICED = (
    TWO
    + """
[sampling]
price = [40, 2]
rate = [5, 20]
day_cost = 100
round_days = 2
"""
)


def outlook_of(here, study):
    """The forecast, once it has been computed."""
    for _ in range(200):
        found = here.call("GET", f"studies/{study}/outlook")
        if found["state"] != "computing":
            return found
        time.sleep(0.1)
    raise AssertionError("no forecast after 20 seconds")


def test_a_new_study_is_estimated_in_money_and_days(here):
    with here.browser() as browser:
        data = {"csrf": form_token(browser.get("/new")), "do": "estimate"}
        told = browser.post("/new", data={**data, "study": PRICED})
        plain = browser.post("/new", data={**data, "study": TWO})
    assert told.status_code == plain.status_code == 200
    assert "Money, expected" in told.text
    assert "Days, expected" in told.text
    assert "a draw costs from 2 to 40" in told.text.lower()
    assert "Money, expected" not in plain.text


def test_a_running_study_tells_what_was_paid_and_how_long_it_will_take(here):
    study = here.create(PRICED, "priced")
    here.phase(study)
    found = outlook_of(here, study)
    plan = here.call("GET", f"studies/{study}/board")["drawn"]
    assert found["money"]["spent"] == pytest.approx(40 * plan[0] + 2 * plan[1])
    assert found["money"]["p90"] >= found["money"]["p10"] >= found["money"]["spent"]
    assert found["days_left"]["p90"] >= found["days_left"]["p50"] >= 2
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}").text
    assert "<dt>Money spent</dt>" in page
    assert "<dt>Days left</dt>" in page


def test_a_study_without_prices_and_rates_speaks_of_samples_alone(here):
    study = here.create(TWO, "plain")
    here.phase(study)
    found = outlook_of(here, study)
    assert found["money"] is None
    assert found["days_left"] is None
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}").text
    assert "Money spent" not in page
    assert "Days left" not in page
