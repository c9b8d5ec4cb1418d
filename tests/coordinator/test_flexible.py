"""Other counts than planned, through a real coordinator: reports with a reason, and phases closed with what is in."""

import os
import signal

import numpy as np
import pytest
from tests.coordinator.support import House, bootstrap, report_of, rewards, study_message
from tools.chaos.harness import free_port, launcher, retried

from parley.agent.client import Client
from parley.agent.outbox import Outbox
from parley.agent.plans import Delivery
from parley.agent.worker import Worker
from parley.coordinator.record import initialise, open_storage
from parley.coordinator.record.audit import verify_stored
from parley.errors import Conflict, Rejected, Unreachable

STUDY = study_message(agents=3, arms=2, policy="evidence")


def short(plan, place, by=1, **more):
    counts = [max(count - by, 0) for count in plan.draws]
    return plan.report(Delivery(totals=rewards(counts, place, plan.phase), **more))


def test_one_draw_less_is_refused_with_what_to_do_and_taken_with_a_reason(house):
    one, two, three = house.create(STUDY)
    plan = one.plan("trial", "agent 1")
    body = {**short(plan, 0, reason="supply", final=True).to_json(), "final": False}
    with pytest.raises(Rejected, match="final: found false"):
        house.clients[1].request("PUT", "studies", "trial", "phases", 1, "reports", "agent 1", json=body)
    del body["reason"], body["final"]
    with pytest.raises(Rejected, match="Others are taken with a `reason`"):
        one.request("PUT", "studies", "trial", "phases", 1, "reports", "agent 1", json=body)
    one.send(short(plan, 0, reason="supply", final=True, missing=(1, 0)))
    two.send(report_of(two.plan("trial", "agent 2"), 1))
    three.send(report_of(three.plan("trial", "agent 3"), 2))
    decision = house.admin.request("GET", "studies", "trial", "phases", 1, "decision")
    assert np.array(decision["counts"])[:, 0].tolist() == [count - 1 for count in plan.draws]
    assert decision["missing"] == [[1, 0, 0], [0, 0, 0]]
    house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "seen"})
    assert house.admin.request("GET", "studies", "trial", "certificate")["missing"] == [[1, 0, 0], [0, 0, 0]]
    found = verify_stored(house.storage, "trial")
    assert found.sound, found.problem


def test_a_phase_is_closed_with_what_is_in_after_the_consequences_were_shown(house, tmp_path):
    one, two, three = house.create(STUDY)
    cut = ("studies", "trial", "phases", 1, "close-early")
    with pytest.raises(Conflict, match="no report of this phase is in"):
        house.admin.request("GET", *cut)
    one.send(report_of(one.plan("trial", "agent 1"), 0))
    shown = house.admin.request("GET", *cut)
    assert shown["preview"]["awaited"] == ["agent 2", "agent 3"]
    two.send(report_of(two.plan("trial", "agent 2"), 1))
    body = {"reason": "Lyon is closed in August", "preview": shown["digest"]}
    with pytest.raises(Conflict, match="look again"):
        house.admin.request("POST", *cut, json=body)
    late = three.plan("trial", "agent 3")
    body["preview"] = house.admin.request("GET", *cut)["digest"]
    assert house.admin.request("POST", *cut, json=body)["phase"] == 2
    with pytest.raises(Conflict, match="in phase 2"):
        house.admin.request("POST", *cut, json=body)
    record = house.admin.request("GET", "studies", "trial", "log", params={"kind": "phase-closed-early"})["records"][0]
    assert record["payload"]["without"] == ["agent 3"]
    assert record["payload"]["reason"] == "Lyon is closed in August"
    found = verify_stored(house.storage, "trial")
    assert found.sound, found.problem

    # The agent that had drawn sets its report aside and goes on with the next phase.
    warned = []
    with Outbox(tmp_path, study="trial", agent="agent 3") as box:
        box.keep(report_of(late, 2))
        worker = Worker(
            three,
            box,
            lambda plan: rewards(plan.draws, 2, plan.phase),
            warn=warned.append,
            sleep=lambda _: None,
            patience=0,
        )
        worker._source.repeatable = True
        worker.step()
        worker.step()
        assert "closed without this report" in warned[0]
        assert box.last_receipt().phase == 2 or box.pending().phase == 2


@pytest.mark.kills
@pytest.mark.parametrize("point", ["early-close-logged", "early-close-counted", "before-commit", "after-commit"])
def test_killed_while_a_phase_is_closed_it_is_closed_once_or_not_at_all(tmp_path, point):
    db = str(tmp_path / "parley.db")
    initialise(db)
    storage = open_storage(db)
    token = bootstrap(storage)
    house = House(storage, admin=token)
    one, *_ = house.create(STUDY)
    one.send(report_of(one.plan("trial", "agent 1"), 0))
    shown = house.admin.request("GET", "studies", "trial", "phases", 1, "close-early")
    house.close()
    storage.close()
    body = {"reason": "why", "preview": shown["digest"]}
    port = free_port()
    pid = launcher().start(db, port, point)
    with Client(f"http://127.0.0.1:{port}", token) as admin:
        retried(lambda: admin.request("GET", "whoami"))
        with pytest.raises(Unreachable):
            admin.request("POST", "studies", "trial", "phases", 1, "close-early", json=body)
    assert os.WTERMSIG(launcher().wait(pid)) == signal.SIGKILL
    storage = open_storage(db)
    try:
        found = verify_stored(storage, "trial")
        assert found.sound, found.problem
        # The step that is due is the closer's, which the kill came before: what was committed is the early close.
        assert found.trial.closed_early is (point == "after-commit")
    finally:
        storage.close()


def test_the_study_tells_recruited_from_observed_once_a_site_says_so(house):
    one, *_ = house.create(STUDY)
    assert house.admin.status("trial")["missing"][0]["recruited"] is None
    one.plan("trial", "agent 1", during=1, recruited=12, observed=5)
    awaited = house.admin.status("trial")["missing"][0]
    assert (awaited["agent"], awaited["recruited"], awaited["observed"]) == ("agent 1", 12, 5)
    one.plan("trial", "agent 1", during=2, recruited=99, observed=99)  # of another phase: not told
    house.admin.plan("trial", "agent 1", during=1, recruited=98, observed=98)  # by somebody else: not believed
    assert house.admin.status("trial")["missing"][0]["recruited"] == 12
