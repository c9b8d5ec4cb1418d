"""A report that the stated model rules out waits for an administrator: over both databases, and in the agent's loop."""

from contextlib import nullcontext

import pytest
from msgspec.structs import replace
from tests.coordinator.support import far_off, report_of, study_message

from parley.agent.outbox import Outbox
from parley.agent.worker import Worker
from parley.coordinator.record.audit import verify_stored
from parley.errors import Conflict, CoordinatorError, NotThere, Unreachable
from parley.totals import Totals

STUDY = study_message(agents=2, arms=2, policy="evidence")


def slug(caught):
    return caught.value.problem["type"].rpartition(":")[2]


def act(house, what, report, body):
    parts = ("studies", "trial", "phases", report.phase, "reports", report.agent, what)
    return house.admin.request("POST", *parts, json={"reason": "looked into", "report": body})


def awaited(client):
    return {entry["agent"]: entry["held"] for entry in client.status("trial")["missing"]}


def test_held_refused_sent_again_held_and_taken(house, storage):
    agents, viewer = house.create(STUDY), house.issue("viewer", name="v")
    plans = [agent.plan("trial", name) for agent, name in zip(agents, STUDY.agents, strict=True)]
    reports = [report_of(plan, place) for place, plan in enumerate(plans)]
    far = far_off(reports[0])
    for body in (far, far, reports[0]):
        with pytest.raises(Unreachable) as caught:
            agents[0].send(body)
        assert slug(caught) == "report-held"
        assert "the mean 1e+11 of arm 1" in str(caught.value)
    assert "the mean" in awaited(house.admin)["agent 1"]
    assert "the mean" in awaited(agents[0])["agent 1"]
    assert awaited(viewer) == awaited(agents[1]) == {"agent 1": None, "agent 2": None}, "not told to the blinded"
    (entry,) = house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]
    assert (entry["held"], entry["stands"], entry["refused"], entry["digest"]) == (True, "", None, far.digest)
    with pytest.raises(NotThere):
        act(house, "refuse", far, reports[0].digest)
    assert act(house, "refuse", far, far.digest)["awaited"] == 2
    with pytest.raises(Conflict, match="looked into") as caught:
        agents[0].send(far)
    assert slug(caught) == "report-refused"
    other = far_off(reports[0], -1e9)
    with pytest.raises(Unreachable):
        agents[0].send(other)
    assert verify_stored(storage, "trial").sound
    agents[1].send(reports[1])
    assert act(house, "amend", other, other.to_json())["phase"] == 2
    receipt = agents[0].send(other)
    assert receipt.report == other.digest
    found = verify_stored(storage, "trial", [receipt])
    assert found.sound, found.problem
    held = [entry["held"] for entry in house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]]
    assert held == [False, False]


def test_a_later_phase_is_held_against_what_the_database_keeps_of_the_earlier_ones(house, storage):
    agents = house.create(STUDY)
    for place, agent in enumerate(agents):
        agent.send(report_of(agent.plan("trial", STUDY.agents[place]), place))
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    assert report.phase == 2
    with pytest.raises(Unreachable, match="it had before"):
        agents[0].send(far_off(report, 20.0))
    assert verify_stored(storage, "trial").sound


def test_what_no_rewards_can_be_is_refused_rather_than_held(sqlite_house):
    agents = sqlite_house.create(STUDY)
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    with pytest.raises(CoordinatorError) as caught:
        agents[0].send(replace(far_off(report), squares=report.squares))
    assert slug(caught) == "impossible-report"


class Source:
    """Enters one reward wrongly the first time; `stubborn` the second time too."""

    repeatable = True

    def __init__(self, stubborn):
        self.calls, self.stubborn = 0, stubborn

    def __call__(self, plan):
        self.calls += 1
        wrong = 1.7e12 if self.calls == 1 or self.stubborn else 1.7
        return Totals.of([[wrong, *[0.5] * (plan.draws[0] - 1)], [0.25] * plan.draws[1]])


@pytest.mark.parametrize("stubborn", [False, True])
def test_the_agent_says_so_waits_and_sends_again_what_was_corrected(sqlite_house, tmp_path, stubborn):
    house = sqlite_house
    agents, said, waits = house.create(STUDY), [], []

    def sleep(seconds):
        """An administrator comes by while the agent waits for the second time."""
        waits.append(seconds)
        if len(waits) == 2:
            (entry,) = house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]
            parts = ("studies", "trial", "phases", 1, "reports", "agent 1", "refuse")
            house.admin.request("POST", *parts, json={"reason": "a slip", "report": entry["digest"]})

    source = Source(stubborn)
    with Outbox(tmp_path, study="trial", agent="agent 1") as outbox:
        worker = Worker(agents[0], outbox, source, warn=said.append, sleep=sleep, patience=0.0)
        with pytest.raises(CoordinatorError, match="same numbers came again") if stubborn else nullcontext():
            while outbox.last_receipt() is None:
                worker.step()
        assert (outbox.pending() is not None) == stubborn, "nothing is lost"
    assert source.calls == 2
    assert [any(word in line for line in said) for word in ("tell the administrator", "a slip", "set aside")] == [
        True
    ] * 3
    assert len(said) == 2, "once each, not with every attempt"


def test_what_is_open_to_everybody_does_not_tell_why_a_report_is_not_taken(sqlite_house):
    """Viewers may not know that a report is held, and `/metrics` asks for no token."""
    told = []
    for number, change in enumerate((far_off, lambda report: replace(report, plan="0" * 64))):
        (client,) = sqlite_house.create(
            study_message(agents=1, arms=2, policy="evidence", noise={"scale": 1.0}), f"s{number}"
        )
        with pytest.raises(CoordinatorError):
            client.send(change(report_of(client.plan(f"s{number}", "agent 1"), 0)))
        lines = sqlite_house.admin._http.get("/metrics").text.splitlines()
        told.append([line for line in lines if line.startswith("parley_reports_total")])
    assert told == [['parley_reports_total{outcome="refused"} 1.0'], ['parley_reports_total{outcome="refused"} 2.0']]
