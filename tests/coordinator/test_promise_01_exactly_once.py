"""Promise 1: a report is taken exactly once, however often it is sent."""

import threading
from functools import partial

import pytest
from msgspec.structs import replace
from tests.coordinator.support import report_of, study_message
from tools.chaos.lossy import LossyProxy

from parley.agent.client import Client
from parley.errors import Conflict, Rejected, Unreachable


def test_the_same_report_again_gives_the_first_receipt_at_any_time(house):
    message = study_message()
    agents = house.create(message)
    plan = agents[0].plan("trial", "agent 1")
    report = report_of(plan, 0)
    first = agents[0].send(report)
    assert agents[0].send(report) == first
    house.run(message, agents)
    assert agents[0].send(report) == first, "also long after its phase was closed"
    verified = house.admin.request("POST", "studies", "trial", "verify")
    assert verified["sound"], verified["problem"]


def test_another_body_is_refused_kept_apart_and_written_down(house):
    message = study_message()
    agents = house.create(message)
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    first = agents[0].send(report)
    other = replace(report, squares=tuple(2 * value + 1 for value in report.squares))
    for _ in range(3):
        with pytest.raises(Conflict) as refused:
            agents[0].send(other)
        assert refused.value.problem["type"] == "urn:parley:problem:report-conflict"
        assert not refused.value.problem["retry"]
    aside = house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]
    assert [found["report"]["squares"] for found in aside] == [list(other.squares)], "once, however often it was sent"
    assert aside[0]["stands"] == report.digest
    log = house.admin.request("GET", "studies", "trial", "log", params={"kind": "report-quarantined"})
    assert len(log["records"]) == 1
    assert agents[0].send(report) == first


def test_wrong_plans_phases_and_numbers_are_refused_and_change_nothing(house):
    message = study_message()
    agents = house.create(message)
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    before = house.admin.status("trial")
    counts = tuple(count + 1 for count in report.counts)
    cases = {
        "wrong-plan": replace(report, plan="0" * 64),
        "phase-future": replace(report, phase=2),
        "impossible-report": replace(report, counts=counts),
    }
    for kind, bad in cases.items():
        with pytest.raises((Conflict, Rejected)) as refused:
            agents[0].send(bad)
        assert refused.value.problem["type"].endswith(kind)
    with pytest.raises(Rejected):
        agents[0].send(replace(report, squares=tuple(0.0 for _ in report.squares)))
    assert house.admin.status("trial") == before


def test_retrying_agents_through_a_lossy_proxy_lose_nothing_and_repeat_nothing(house):
    message = study_message(agents=2)
    house.create(message)
    proxy = LossyProxy(int(house.url.rsplit(":", 1)[1]), seed=1)
    acknowledged = {}

    def until_answered(call):
        for _ in range(200):
            try:
                return call()
            except Unreachable:
                continue
        raise AssertionError("200 losses in a row")

    def work(place, name, token):
        client = Client(f"http://127.0.0.1:{proxy.port}", token)
        while True:
            plan = until_answered(lambda: client.plan("trial", name))
            if plan.over:
                client.close()
                return
            if plan.due:
                report = report_of(plan, place)
                acknowledged[place, plan.phase] = until_answered(partial(client.send, report))

    threads = [
        threading.Thread(target=work, args=(place, name, house.tokens["trial", name]))
        for place, name in enumerate(message.agents)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
        assert not thread.is_alive()
    proxy.close()
    assert proxy.lost > 10
    log = house.admin.request("GET", "studies", "trial", "log", params={"kind": "report-accepted", "limit": 1000})
    stored = {
        (message.agents.index(record["payload"]["report"]["agent"]), record["payload"]["report"]["phase"]): record
        for record in log["records"]
    }
    assert len(stored) == len(log["records"]), "none twice"
    assert {key: (found["sequence"], found["hash"]) for key, found in stored.items()} == {
        key: (receipt.sequence, receipt.head) for key, receipt in acknowledged.items()
    }, "acknowledged is stored, and stored is acknowledged"
    assert house.admin.request("POST", "studies", "trial", "verify")["sound"]
