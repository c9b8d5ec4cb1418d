"""What takes its time is done where nobody waits for it: not on the event loop, not in a writer's transaction."""

import gc
import json
import threading

import httpx2 as httpx
import pytest
from tests.coordinator.support import OWN_PAGE, report_of, study_message
from tests.dashboard.site import OF_A_STUDY, TABS

from parley.coordinator.http import guard
from parley.coordinator.studies import acts, certify
from parley.dashboard import session
from parley.errors import Conflict, Rejected
from parley.service import server as service

JSON = {"Content-Type": "application/json"}
WRITERS = ("sqlite-writer", "postgres")


def spied(monkeypatch, module, name, seen):
    """Note on which thread a function runs, and go on as ever."""
    original = getattr(module, name)

    def noted(*words, **more):
        seen.append(threading.current_thread())
        return original(*words, **more)

    monkeypatch.setattr(module, name, noted)


def sound(house):
    found = house.admin.request("POST", "studies", "trial", "verify", timeout=60)
    return found["sound"], found["certificate"]


def test_the_certificate_is_made_outside_of_every_transaction(house, monkeypatch):
    seen = []
    spied(monkeypatch, certify, "issue_certificate", seen)
    house.create(study_message(agents=2, arms=2, policy="uniform"))
    assert house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "enough"})["stage"] == "cancelled"
    assert house.admin.request("GET", "studies", "trial", "certificate")["complete"] is False
    assert seen
    assert not [thread.name for thread in seen if thread.name.startswith(WRITERS)]
    assert sound(house)[0]


def test_what_happens_while_it_is_made_is_not_lost(house, monkeypatch):
    """The end is prepared for one place in the log; if somebody was faster, it is prepared again."""
    agents = house.create(study_message(agents=2, arms=2, policy="uniform"))
    original, drafts = acts.Proposal.prepare, []

    def overtaken(*words, **more):
        drafts.append(original(*words, **more))
        if len(drafts) == 1:
            agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
        return drafts[-1]

    monkeypatch.setattr(acts.Proposal, "prepare", overtaken)
    assert house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "enough"})["stage"] == "cancelled"
    assert len(drafts) == 2
    (_, first), _ = drafts[0].events
    (_, second), _ = drafts[1].events
    assert second.sequence == first.sequence + 1
    assert sound(house)[0]
    with pytest.raises(Conflict):
        house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "again"})


def test_a_study_ends_with_a_certificate_from_outside_too(house, monkeypatch):
    seen = []
    spied(monkeypatch, certify, "issue_certificate", seen)
    message = study_message(agents=2, arms=2, policy="uniform")
    agents = house.create(message)
    for _ in range(2_000):
        if (status := house.admin.status("trial"))["stage"] == "finished":
            break
        for place, name in enumerate(message.agents):
            plan = agents[place].plan("trial", name)
            if plan.due:
                agents[place].send(report_of(plan, place))
    assert status["stage"] == "finished"
    assert {thread.name for thread in seen} == {"closer"}
    assert sound(house)[0]


def test_a_large_study_is_parsed_elsewhere_and_few_at_a_time(sqlite_house, monkeypatch):
    seen = []
    spied(monkeypatch, guard, "_checked", seen)
    rows = json.dumps([[0.123456789] * 300] * 300)
    for junk in (f'{{"study": {{"rows": {rows}}}}}', f'{{"study": [{rows}}}', f'{{"study": {"[]" * 30_000}}}'):
        with pytest.raises(Rejected) as refused:
            sqlite_house.admin.request("POST", "studies", content=junk, headers=JSON, timeout=60)
        assert refused.value.problem["status"] in (400, 422)
    assert len(seen) == 2, "the third has too many lists to be looked at"
    assert sqlite_house.thread not in seen


@pytest.mark.simulations
def test_pages_are_drawn_elsewhere(sqlite_house, monkeypatch):
    seen = []
    spied(monkeypatch, session, "render", seen)
    message = study_message(agents=2, arms=2, policy="uniform")
    sqlite_house.run(message, sqlite_house.create(message))
    with httpx.Client(base_url=sqlite_house.url, timeout=30, follow_redirects=True) as browser:
        browser.post("/sign-in", data={"token": sqlite_house.token}, headers=OWN_PAGE)
        seen.clear()
        kinds = []
        for page in OF_A_STUDY:
            answer = browser.get(f"/studies/trial{page}")
            assert answer.status_code == 200, page
            kinds.append(answer.headers["content-type"].partition(";")[0])
    assert len(seen) == kinds.count("text/html") >= len(TABS)
    assert sqlite_house.thread not in seen


def test_a_record_that_fills_pages_is_not_drawn():
    from parley.dashboard.render import TOO_LARGE, _pretty

    assert _pretty({"rows": [[1] * 100] * 100}) == TOO_LARGE
    assert _pretty({"reason": "holiday"}) != TOO_LARGE


def test_a_server_seldom_stops_to_look_for_garbage():
    """Looking through everything stops all threads; what a server begins with is never looked through again."""
    before = gc.get_threshold()
    try:
        service.settle_memory()
        assert gc.get_threshold() == service.GARBAGE
        assert gc.get_freeze_count() > 10_000
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_the_quarantine_is_told_in_pages(house):
    agents = house.create(study_message(agents=2, arms=2, policy="uniform"))
    plan = agents[0].plan("trial", "agent 1")
    agents[0].send(report_of(plan, 0))
    for place in range(1, 6):
        with pytest.raises(Conflict):
            agents[0].send(report_of(plan, place))
    whole = house.admin.request("GET", "studies", "trial", "quarantine")
    assert len(whole["quarantine"]) == 5
    assert whole["next"] is None
    found, after = [], 0
    for _ in range(3):
        part = house.admin.request("GET", "studies", "trial", "quarantine", params={"after": after, "limit": 2})
        found, after = found + part["quarantine"], part["next"]
    assert found == whole["quarantine"]
    assert after is None
    with pytest.raises(Rejected):
        house.admin.request("GET", "studies", "trial", "quarantine", params={"limit": 100_000})
