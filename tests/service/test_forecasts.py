"""The API tells what a study would cost, and what is likely left of one; with the pages and without them."""

import re
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from tests.dashboard.site import MEANS, few_studies, site
from tests.support import first_quick

from parley.experiments.forecasts.forecast import budget_for_power
from parley.protocol import StudyMessage
from parley.service.forecasts import Forecaster, estimate
from parley.study import parse_study

SMALL = parse_study({"arms": 4, "agents": 3, "weights": {"kind": "personalized", "alpha": 0.5}})


@pytest.fixture(scope="module", autouse=True)
def short_forecasts():
    with few_studies():
        yield


@pytest.fixture(scope="module", params=first_quick(False, True), ids=["with pages", "the API alone"])
def here(request, tmp_path_factory):
    with site(tmp_path_factory.mktemp("site"), no_dashboard=request.param) as made:
        yield made


@pytest.mark.servers
def test_the_api_alone_knows_no_page():
    """Neither the pages nor what they are drawn with are loaded where nobody wants them."""
    words = """
import sys
from parley.coordinator.settings import ServerSettings
from parley.service.server import create_service
class Nothing: url = ""
app = create_service(Nothing(), ServerSettings(no_dashboard=True))
paths = app.state.openapi()["paths"]
assert {"/v1/estimates", "/v1/studies/{study}/forecast"} <= set(paths), sorted(paths)
found = [name for name in sys.modules if name.startswith(("parley.dashboard", "jinja2"))]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", words], check=True)


def test_an_estimate_grows_as_gaps_shrink():
    found = estimate(StudyMessage.of(SMALL))
    medians = [line["samples"]["p50"] for line in found.scenarios]
    assert medians == sorted(medians)
    assert all(line["alone"]["samples"]["p50"] > line["samples"]["p50"] for line in found.scenarios)


def test_an_estimate_says_before_it_fails_that_a_budget_cannot_decide():
    found = estimate(StudyMessage.of(SMALL))
    assert found.warning == ""
    tight = estimate(StudyMessage.of(replace(SMALL, problem=SMALL.problem.with_(max_samples=60))))
    assert "With max_samples = 60 this study is likely to end without all answers" in tight.warning
    assert all(line["power"] == 0 for line in tight.scenarios)


@pytest.mark.parametrize(
    ("changes", "asked", "words"),
    [
        ({}, {"gap": 0.0}, "no budget can distinguish equal arms"),
        ({}, {"gap": 1e9}, "at most largest_gap"),
        ({}, {"gap": 0.5, "seconds": 0.0}, "more than 0 seconds"),
        ({"horizon": 5000}, {}, "a horizon"),
    ],
)
def test_where_no_budget_has_the_power_the_reason_is_said(changes, asked, words):
    found = budget_for_power(SMALL.policy, {}, SMALL.problem.with_(**changes), 0.9, **asked)
    assert "max_samples" not in found
    assert words in found["reason"]


@pytest.mark.simulations
def test_the_page_of_a_new_study_takes_a_wanted_power(tmp_path):
    text = "arms = 2\nagents = 2\n"
    with site(tmp_path) as here, here.browser() as browser:
        form = {"do": "estimate", "study": text}
        shown = browser.post("/new", data={**form, "power": "0.8", "gap": "1"}).text
        assert re.search(r"Power 80 % at a gap of 1.*max_samples = \d+.*± is the Monte Carlo error", shown, re.DOTALL)
        wrong = browser.post("/new", data={**form, "power": "often"})
        assert wrong.status_code == 422
        assert "a number, such as 0.9" in wrong.text
        assert browser.post("/new", data={**form, "power": "1.5"}).status_code == 422


@pytest.mark.simulations
def test_the_page_of_a_new_study_shows_its_power_and_the_warning(tmp_path):
    text = "arms = 3\nagents = 2\nmax_samples = 60\n"
    with site(tmp_path) as here, here.browser() as browser:
        shown = browser.post("/new", data={"do": "estimate", "study": text}).text
        assert "likely to end without all answers" in shown
        assert "0.0 ± 0.0 %" in shown
        free = text.replace("max_samples = 60", "")
        shown = browser.post("/new", data={"do": "estimate", "study": free}).text
        assert "likely to end" not in shown
        assert ">Power</th>" not in shown


def test_a_study_too_large_to_simulate_says_so():
    study = StudyMessage.of(parse_study({"arms": 50, "agents": 400, "weights": {"kind": "personalized", "alpha": 0.5}}))
    found = estimate(study)
    assert found.scenarios == []
    assert "20,000 pairs" in found.reason
    assert found.first_phase > 0


def test_a_forecast_that_fails_is_told_and_others_go_on():
    forecaster = Forecaster()

    def broken():
        raise RuntimeError("bug")

    def wait(key, work):
        for _ in range(12_000):
            if (found := forecaster.ask(key, work)) is not None:
                return found
            time.sleep(0.01)
        raise AssertionError

    assert wait("one", broken)["state"] == "none"
    assert wait("two", lambda: {"state": "ready"}) == {"state": "ready"}


def test_the_api_gives_a_forecast_that_becomes_ready(here):
    study = here.create(study_id="forecast")
    with here.api() as client:
        assert client.request("GET", "studies", study, "forecast")["state"] == "none"
        here.phase(study, np.array([[0.9, 0.8], [0.7, 0.75], [0.1, 0.2]]))
        found = client.request("GET", "studies", study, "forecast")
        for _ in range(2_400):
            if found["state"] == "ready":
                break
            time.sleep(0.05)
            found = client.request("GET", "studies", study, "forecast", params={"first": 1, "columns": 1})
        assert found["total"]["p10"] <= found["total"]["p50"] <= found["total"]["p90"]
        assert np.shape(found["bound_draws"]) == (3, 1)
        here.run(study, MEANS)
        over = client.request("GET", "studies", study, "forecast")
        assert over.get("total") is None
        document = StudyMessage.of(SMALL).to_json()
        assert client.request("POST", "estimates", json={"study": document})["scenarios"]
