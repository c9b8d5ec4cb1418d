"""Promise 5: no phase advances twice and none gets stuck, with two servers on one PostgreSQL."""

import threading
import time
from collections import Counter

import pytest
from msgspec.structs import replace
from tests.coordinator.support import House, report_of, study_message, wait_for_decisions
from tools.chaos import servers
from tools.chaos.findings import FLAWS

from parley.coordinator.record import open_storage
from parley.coordinator.studies import phases
from parley.protocol import Trial


def race(houses, message, study):
    """Every agent sends through both servers at once, until the study is over."""
    names, failures = message.agents, []

    def answered(house, place, name):
        try:
            work(house, place, name)
        except Exception as error:
            failures.append(f"an agent was not answered: {error!r}")

    def work(house, place, name):
        client = house.client(houses[0].tokens[study, name])
        seen = 0
        while not failures:
            plan = client.plan(study, name, after=seen, wait=2)
            if plan.over:
                return
            if plan.draws is not None and plan.stage == "running" and not plan.frozen:
                client.send(report_of(plan, place))
            seen = plan.phase

    threads = [
        threading.Thread(target=answered, args=(house, place, name), daemon=True)
        for house in houses
        for place, name in enumerate(names)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
        assert not thread.is_alive(), "stuck"
    assert not failures, failures


def check(house, study):
    records = house.admin.request("GET", "studies", study, "log", params={"limit": 1000})["records"]
    closed = Counter(record["payload"]["decision"]["phase"] for record in records if record["kind"] == "phase-closed")
    taken = Counter(
        (record["payload"]["report"]["phase"], record["payload"]["report"]["agent"])
        for record in records
        if record["kind"] == "report-accepted"
    )
    assert set(closed.values()) == {1}
    assert set(taken.values()) == {1}
    verified = house.admin.request("POST", "studies", study, "verify")
    assert verified["sound"], verified["problem"]
    assert verified["stage"] == "finished"


@pytest.mark.servers
def test_two_servers_on_one_database(postgres):
    postgres.psql("CREATE DATABASE two TEMPLATE parley_template")
    address = postgres.get_uri().replace("/postgres?", "/two?")
    storages = [open_storage(address), open_storage(address)]
    first = House(storages[0])
    second = House(storages[1], admin=first.token)
    try:
        message = study_message(agents=3, arms=3, policy="uniform")
        first.create(message, "trial")
        race([first, second], message, "trial")
        check(first, "trial")
    finally:
        first.close()
        second.close()
        for storage in storages:
            storage.close()
        postgres.psql("DROP DATABASE two WITH (FORCE)")


@pytest.mark.kills
def test_two_server_processes_and_networks_that_lose_things(postgres):
    postgres.psql("CREATE DATABASE processes TEMPLATE parley_template")
    try:
        found = servers.run(postgres.get_uri().replace("/postgres?", "/processes?"), phases=10, seed=1)
    finally:
        postgres.psql("DROP DATABASE processes WITH (FORCE)")
    assert found["phases"] >= 10
    assert found["acknowledged"] == 3 * found["phases"]
    assert {name: found[name] for name in FLAWS} == dict.fromkeys(FLAWS, 0)


def test_a_step_outside_the_lock_is_stored_only_if_nothing_changed(house, monkeypatch):
    """A report is amended while the closer computes; the step is taken again, from what now stands."""
    message = study_message(agents=2, arms=3, policy="uniform")
    agents = house.create(message)
    first = report_of(agents[0].plan("trial", "agent 1"), 0)
    amended = replace(first, squares=tuple(2 * value + 1 for value in first.squares))
    step, meddled = Trial.step, threading.Event()
    wait_for_decisions(house.app, 0.5)  # whoever amends waits in vain: the closer waits for the amendment here

    def while_an_administrator_amends(trial):
        found = step(trial)
        if not meddled.is_set():
            meddled.set()
            body = {"reason": "a slip", "report": amended.to_json()}
            house.admin.request("POST", "studies", "trial", "phases", 1, "reports", "agent 1", "amend", json=body)
        return found

    monkeypatch.setattr(Trial, "step", while_an_administrator_amends)
    race([house], message, "trial")
    assert meddled.is_set()
    check(house, "trial")


def test_the_closer_outlives_whatever_it_meets(sqlite_house, monkeypatch):
    """Nobody else closes phases: if its thread ended, every study of the process would wait for ever."""
    house = sqlite_house
    message = study_message(agents=2, arms=3, policy="uniform")
    agents = house.create(message)
    context, look, met = house.app.state.context, phases.closing_studies, []

    def looked(transaction):
        if not met:
            met.append("look")
            raise ValueError("a row that cannot be read")
        return look(transaction)

    def told(row):
        met.append(row.phase)
        raise RuntimeError("the loop is closed")

    monkeypatch.setattr(phases, "MOMENT", 0.05)
    monkeypatch.setattr(phases, "closing_studies", looked)
    monkeypatch.setattr(context.closer, "_notify", told)
    for phase in (1, 2):
        for place, name in enumerate(message.agents):
            agents[place].send(report_of(agents[place].plan("trial", name, after=phase - 1, wait=10), place))
    until = time.monotonic() + 20
    while house.admin.status("trial")["phase"] < 3 and time.monotonic() < until:
        time.sleep(0.05)
    assert house.admin.status("trial")["phase"] == 3
    assert met[0] == "look"
    assert met[1:] == [2, 3], "told of each step, and took the next one after that failed"
