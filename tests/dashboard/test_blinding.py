"""A viewer gets what would be the same with the arms in another order; an analyst sees all. The server sees to it."""

import json
import re

import numpy as np
import pytest
from tests.dashboard.site import PAGES, exactly, site

from parley.agent.plans import AgentPlan
from parley.coordinator.observability import configure
from parley.dashboard.session import STUDY

pytestmark = pytest.mark.servers

STUDY_FILE = """
name = "Blinded"
arms = ["a", "b", "c", "d"]
agents = ["North", "South", "East"]

[weights]
kind = "personalized"
alpha = 0.5
"""
MEANS = np.array([[0.9, 0.2, 0.5], [0.1, 0.8, 0.3], [0.4, 0.1, 0.95], [0.2, 0.3, 0.1]])
ORDER = [2, 0, 3, 1]
PHASES = range(7)
LAST = PHASES[-1]
PASSING = re.compile(
    r"\d+ \w+ ago|less than a minute ago|[0-9a-f]{64}|20\d\d-\S+|\d+ \w+ 20\d\d, \S+|data-version=.\w+"
)  # hashes and times
CHANGING = ("head", "at", "since", "kid", "version")  # hashes of what was drawn, and times


def scrubbed(value):
    """Without hashes and times, which differ between any two runs."""
    if isinstance(value, dict):
        return {key: scrubbed(item) for key, item in value.items() if key not in CHANGING and not key.endswith("_at")}
    return [scrubbed(item) for item in value] if isinstance(value, list) else value


def seen(client, token):
    """Every GET of the API that this token may make, from the API's own description."""
    headers = {"Authorization": f"Bearer {token}"}
    found = {}
    for path, operations in client.get("/v1/openapi.json").json()["paths"].items():
        if "get" not in operations or not path.startswith("/v1/") or path.endswith("/events"):
            continue
        for phase in (1, 2, 3) if "{phase}" in path else (0,):
            filled = path.format(study="blinded", agent="North", arm="b", phase=phase)
            answer = client.get(filled, headers=headers)
            assert answer.status_code < 500
            if answer.status_code == 200:
                found[filled] = scrubbed(answer.json())
    return found


def pages(browser):
    """Every page there is, as this reader gets it."""
    found = {}
    for page in PAGES:
        answer = browser.get(page.path.format(study="blinded"))
        assert answer.status_code < 500
        found[page.path] = (answer.status_code, PASSING.sub("", answer.text))
    return found


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """What viewer and analyst see of the same study, once with the arms' true means in another order."""
    configure("error")
    views = {}
    for name, means in (("as it is", MEANS), ("reordered", MEANS[ORDER])):
        with site(tmp_path_factory.mktemp("blind")) as here:
            here.create(STUDY_FILE, "blinded")
            viewer, analyst = here.issue("viewer", "Vi"), here.issue("analyst", "An")
            with here.browser(viewer) as browser:
                for phases in PHASES:
                    views[name, "viewer", phases] = seen(browser, viewer)
                    views[name, "analyst", phases] = seen(browser, analyst)
                    views[name, "pages", phases] = pages(browser)
                    here.phase("blinded", means)
    return views


def test_the_study_decides_something(two_runs):
    last = two_runs["as it is", "analyst", LAST]
    assert last["/v1/studies/blinded"]["stage"] == "finished"


def test_a_viewer_cannot_tell_the_order_of_the_arms(two_runs):
    for phases in PHASES:
        assert two_runs["as it is", "viewer", phases] == two_runs["reordered", "viewer", phases]


def test_nor_from_the_pages(two_runs):
    for phases in PHASES:
        assert two_runs["as it is", "pages", phases] == two_runs["reordered", "pages", phases]
    seen = {path for path, (status, _) in two_runs["as it is", "pages", LAST].items() if status == 200}
    assert {"/", STUDY, f"{STUDY}/evidence", f"{STUDY}/samples", f"{STUDY}/answer"} <= seen
    assert not {f"{STUDY}/audit", f"{STUDY}/administration", f"{STUDY}/answer.csv", "/log", "/tokens"} & seen


def test_an_analyst_can(two_runs):
    one, other = (two_runs[name, "analyst", LAST] for name in ("as it is", "reordered"))
    for path in ("board", "history", "certificate", "findings"):
        assert one[f"/v1/studies/blinded/{path}"] != other[f"/v1/studies/blinded/{path}"]


def test_a_viewer_still_sees_progress(two_runs):
    board = two_runs["as it is", "viewer", LAST]["/v1/studies/blinded/board"]
    assert board["decided_agents"] == 3
    assert board["candidates"] == [1, 1, 1]
    assert min(board["drawn"]) > 0
    history = two_runs["as it is", "viewer", LAST]["/v1/studies/blinded/history"]["phases"]
    assert sum(phase["dropped"] for phase in history) == 9


@pytest.mark.parametrize(
    "path", ["certificate", "findings", "forecast", "phases/1/plan", "phases/1/decision", "phases/1/reports"]
)
def test_what_is_refused_to_a_viewer(two_runs, path):
    assert f"/v1/studies/blinded/{path}" not in two_runs["as it is", "viewer", LAST]
    assert f"/v1/studies/blinded/{path}" in two_runs["as it is", "analyst", LAST]


def test_nothing_that_a_viewer_gets_is_about_one_arm(two_runs):
    for found in two_runs["as it is", "viewer", LAST].values():
        text = json.dumps(found)
        for word in ("mixed_mean", "sums", "squares", "weal"):
            assert f'"{word}' not in text


@pytest.fixture(scope="module")
def lost_runs(tmp_path_factory):
    """The same of a study with a report that is held and refused, and a site that is lost, left out and comes back."""
    configure("error")
    views = {}
    for name, means in (("as it is", MEANS), ("reordered", MEANS[ORDER])):
        with site(tmp_path_factory.mktemp("lost")) as here:
            here.create(STUDY_FILE, "blinded")
            viewer = here.issue("viewer", "Vi")
            with here.browser(viewer) as browser:
                for act in acts(here, means):
                    views[name, act] = seen(browser, viewer)
                    views[name, act, "pages"] = pages(browser)
    return views


def acts(here, means):
    """What happens to the study, a word each."""
    token = here.agent_token("blinded", "North")
    plan = AgentPlan.from_json(here.call("GET", "studies/blinded/agents/North/plan", token=token))
    report = plan.report(exactly(plan.draws, means[:, 0], shift=np.array([1e9, 0, 0, 0]))).to_json()
    place = "studies/blinded/phases/1/reports/North"
    answer = here.line.put(f"/v1/{place}", headers={"Authorization": f"Bearer {token}"}, json=report)
    assert answer.json()["type"].endswith("report-held")
    yield "held"
    (entry,) = here.call("GET", "studies/blinded/quarantine?held=true")["quarantine"]
    here.call("POST", f"{place}/refuse", json={"reason": "a slip", "report": entry["digest"]})
    yield "refused"
    here.phase("blinded", means)
    confirm(here, "GET", "agents/East/freeze")
    yield "frozen"
    confirm(here, "POST", "reweigh", "reweigh/preview", columns={})
    yield "re-weighed"
    here.phase("blinded", means)
    confirm(here, "GET", "agents/East/thaw")
    yield "thawed"
    here.run("blinded", means)
    yield "finished"


def confirm(here, method, path, preview=None, **body):
    asked = {"json": body} if method == "POST" else {}
    shown = here.call(method, f"studies/blinded/{preview or path}", **asked)
    here.call("POST", f"studies/blinded/{path}", json={"reason": "why", "preview": shown["digest"], **body})


def test_a_viewer_cannot_tell_the_arms_from_a_lost_site_or_a_report_that_is_held(lost_runs):
    views = [key for key in lost_runs if len(key) == 2]
    told = {act: lost_runs["as it is", act]["/v1/studies/blinded"] for _, act in views}
    assert (told["re-weighed"]["reweighed"]["left"], told["finished"]["stage"]) == (["East"], "finished")
    assert [entry["held"] for entry in told["held"]["missing"]] == [None, None, None]
    assert told["held"] == {**told["refused"]}, "that a report is held is not told"
    for name, *act in lost_runs:
        assert lost_runs["as it is", *act] == lost_runs["reordered", *act], (name, act)
    for view in views:
        assert not any(
            word in path
            for path in lost_runs[view]
            for word in ("quarantine", "freeze", "thaw", "reweigh", "arms", "log")
        )
