"""Money and days where a live study is looked at: before it starts, and while it runs."""

import re
import time

import pytest
from tests.dashboard.site import TWO

from parley.experiments.report_kit.svg import calendar_chart

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


def forecast_of(here, study):
    """The forecast, once it has been computed."""
    for _ in range(1_200):
        found = here.call("GET", f"studies/{study}/forecast")
        if found["state"] != "computing":
            return found
        time.sleep(0.1)
    raise AssertionError("no forecast after two minutes")


@pytest.mark.simulations
def test_a_new_study_is_estimated_in_money_and_days(here):
    with here.browser() as browser:
        data = {"do": "estimate"}
        told = browser.post("/new", data={**data, "study": PRICED})
        plain = browser.post("/new", data={**data, "study": TWO})
    assert told.status_code == plain.status_code == 200
    assert "Expected money" in told.text
    assert "Expected days" in told.text
    assert "a draw costs from 2 to 40" in told.text.lower()
    assert "Expected money" not in plain.text


def test_a_running_study_tells_what_was_paid_and_how_long_it_will_take(here):
    study = here.create(PRICED, "priced")
    here.phase(study)
    found = forecast_of(here, study)
    plan = here.call("GET", f"studies/{study}/board")["drawn"]
    assert found["money"]["spent"] == pytest.approx(40 * plan[0] + 2 * plan[1])
    assert found["money"]["p90"] >= found["money"]["p10"] >= found["money"]["spent"]
    assert found["days_left"]["p90"] >= found["days_left"]["p50"] >= 2
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}").text
        samples = browser.get(f"/studies/{study}/samples").text
    assert "<dt>Money spent</dt>" in page
    assert "<dt>Days left</dt>" in page
    assert "Calendar of draws" in samples
    assert samples.count('class="planned"') >= 2, "the phase in progress is outlined for both sites"


def test_a_study_without_prices_and_rates_speaks_of_samples_alone(here):
    study = here.create(TWO, "plain")
    here.phase(study)
    found = forecast_of(here, study)
    assert found["money"] is None
    assert found["days_left"] is None
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}").text + browser.get(f"/studies/{study}/samples").text
    assert "Money spent" not in page
    assert "Calendar of draws" not in page
    assert "Days left" not in page


def test_a_calendar_waits_for_the_slowest():
    chart = calendar_chart(["A", "B"], [[10, 1], [5, 10], [20, 2]], [0.0, 0.0], 2.0, decided=2)
    bars = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="14" class="(\w+)"', chart)
    day = (704.0 - 150.0) / (12 + 12 + 22)
    expected = [(0, 10, "s0"), (12, 5, "s1"), (24, 20, "planned"), (0, 1, "s0"), (12, 10, "s1"), (24, 2, "planned")]
    found = [(float(x), float(width), name) for x, width, name in bars]
    assert [name for _, _, name in found] == [name for _, _, name in expected]
    for (x, width, _), (begin, lasts, _) in zip(found, expected, strict=True):
        assert x == pytest.approx(150.0 + day * begin, abs=0.01)
        assert width == pytest.approx(day * lasts, abs=0.01)
    assert "46 days" in chart
    assert "A takes longest" in chart
    late = calendar_chart(["A", "B"], [[10, 1], [5, 10]], [30.0, 0.0], 2.0, decided=2)
    assert "79 days" in late, "outcomes of A come 30 days later: 10 + 30 + 2, and 5 + 30 + 2"
    waits = calendar_chart(["A", "B"], [[10, 1], [5, 10]], [0.0, 30.0], 2.0, decided=2)
    assert "B takes longest" in waits, "A draws for longer, but outcomes of B come 30 days later"
    idle = calendar_chart(["A", "B"], [[10, 0]], [0.0, 0.0], 0.0, decided=1)
    assert "planned" not in idle
