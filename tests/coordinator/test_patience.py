"""Requests that take their time, studies that cannot go on, readers that are all taken: nobody else pays for them."""

import contextlib
import json
import socket
import threading
import time

import pytest
from tests.coordinator.support import report_of, study_message

from parley.coordinator.record import StorageUnavailable
from parley.coordinator.record.postgres import PostgresStorage
from parley.errors import Conflict, ParleyError
from parley.protocol import Trial, freeze_preview
from parley.protocol import acts as table


def test_a_long_poll_ends_in_time_however_much_happens_meanwhile(sqlite_house):
    agents = sqlite_house.create(study_message(agents=2, arms=2))
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    over = threading.Event()

    def stir():  # the log moves every tenth of a second, the phase does not
        while not over.wait(0.1):
            for act in ("pause", "resume"):
                sqlite_house.admin.request("POST", "studies", "trial", act, json={"reason": "x"})

    stirring = threading.Thread(target=stir)
    stirring.start()
    try:
        # Were the time counted anew after every change, the client would give up after 30 s and one more.
        plan = agents[0].plan("trial", "agent 1", after=1, wait=1)
    finally:
        over.set()
        stirring.join()
    assert plan.phase == 1


def half_sent(house, token, method, path, body):
    """A request whose body is half sent, and the rest of it; `answer()` sends the rest."""
    address = ("127.0.0.1", int(house.url.rsplit(":", 1)[1]))
    content = json.dumps(body).encode()
    connection = socket.create_connection(address)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    connection.sendall(head.encode() + content[:5])

    def answer():
        with connection, connection.makefile("rb") as reader:
            connection.sendall(content[5:])
            return reader.readline().decode()

    return answer


def kid_of(token):
    return token.split("_")[1]


def test_a_token_revoked_while_its_request_is_being_sent_opens_nothing(house):
    agents = house.create(study_message(agents=2, arms=2))
    house.issue("administrator", name="thief")
    thief = house.tokens[None, None]
    house.client(thief).request("POST", "tokens", json={"role": "viewer", "name": "first"})  # it is known by now
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    mine = house.tokens["trial", "agent 1"]
    requests = [
        half_sent(house, thief, "POST", "/v1/tokens", {"role": "administrator", "name": "more"}),
        half_sent(house, thief, "POST", "/v1/studies/trial/cancel", {"reason": "because"}),
        half_sent(house, mine, "PUT", "/v1/studies/trial/phases/1/reports/agent%201", report.to_json()),
    ]
    time.sleep(0.3)  # they are past the door
    for token in (thief, mine):
        house.admin.request("DELETE", "tokens", kid_of(token))
    assert [" 401 " in answer() for answer in requests] == [True] * 3
    assert house.admin.status("trial")["reported"] == []
    assert house.admin.status("trial")["stage"] == "running"
    names = [token["principal"] for token in house.admin.request("GET", "tokens")["tokens"]]
    assert "administrator:more" not in names


@pytest.mark.parametrize("path", ["/v1/studies/trial/events", "/v1/events"])
def test_a_stream_ends_with_its_token(sqlite_house, path):
    sqlite_house.create(study_message(agents=2, arms=2))
    sqlite_house.issue("analyst", name="x")
    token = sqlite_house.tokens[None, None]
    stream = sqlite_house.client(token, connected=True)._http.stream("GET", path, timeout=120)
    with stream as response:
        lines = response.iter_lines()
        assert next(lines).startswith("id:")
        sqlite_house.admin.request("DELETE", "tokens", kid_of(token))
        sqlite_house.admin.request("POST", "studies", "trial", "pause", json={"reason": "x"})
        rest = "\n".join(lines)  # to its end, which comes
    assert "paused" not in rest


def fail_for(monkeypatch, study):
    step = Trial.step

    def broken(trial):
        if trial.id == study:
            raise ZeroDivisionError("a bug")
        return step(trial)

    monkeypatch.setattr(Trial, "step", broken)


def report_all(agents, study):
    for place, agent in enumerate(agents):
        name = f"agent {place + 1}"
        with contextlib.suppress(Conflict):
            agent.send(report_of(agent.plan(study, name), place))


def test_a_step_that_fails_pauses_its_study_with_the_reason_and_no_other(sqlite_house, monkeypatch):
    message = study_message(agents=2, arms=2, policy="uniform")
    bad, good = sqlite_house.create(message, "bad"), sqlite_house.create(message, "good")
    fail_for(monkeypatch, "bad")
    report_all(bad, "bad")
    report_all(good, "good")
    until = time.monotonic() + 120
    while sqlite_house.admin.status("good")["phase"] == 1 or sqlite_house.admin.status("bad")["stage"] == "closing":
        assert time.monotonic() < until
        time.sleep(0.02)
    status = sqlite_house.admin.status("bad")
    assert status["stage"] == "paused"
    assert "ZeroDivisionError: a bug" in status["reason"]
    monkeypatch.undo()
    sqlite_house.admin.request("POST", "studies", "bad", "resume", json={"reason": "mended"})
    while sqlite_house.admin.status("bad")["phase"] == 1:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert sqlite_house.admin.request("POST", "studies", "bad", "verify")["sound"]


def test_when_every_reader_is_taken_the_answer_is_to_try_again(sqlite_house):
    storage = sqlite_house.storage
    storage._readers.pool._timeout = 0.2
    readers = storage._readers.pool.size()
    going, go = threading.Barrier(readers + 1), threading.Event()

    def hold(_):
        going.wait(10)
        assert go.wait(10)

    threads = [threading.Thread(target=storage.read, args=(hold,)) for _ in range(readers)]
    for thread in threads:
        thread.start()
    try:
        going.wait(10)
        with pytest.raises(StorageUnavailable):
            storage.read(lambda _: 1)
        with pytest.raises(ParleyError, match="is not responding"):
            sqlite_house.admin.status("trial")
    finally:
        go.set()
        for thread in threads:
            thread.join()
    assert storage.read(lambda _: 1) == 1


def test_a_freeze_confirmed_on_what_was_shown_holds_though_reports_come_meanwhile(house, monkeypatch):
    """The policy runs ahead outside of every transaction; a report that comes then makes it look again, not fail."""
    agents = house.create(study_message(agents=3, arms=2, policy="uniform"))
    shown = house.admin.request("GET", "studies", "trial", "agents", "agent 3", "freeze")
    plan, looked = agents[0].plan("trial", "agent 1"), []

    def slow(trial, agent):
        looked.append(len(trial.reports))
        agents[0].send(report_of(plan, 0))
        return freeze_preview(trial, agent)

    monkeypatch.setattr(table, "freeze_preview", slow)
    body = {"reason": "why", "preview": shown["digest"]}
    assert house.admin.request("POST", "studies", "trial", "agents", "agent 3", "freeze", json=body)["awaited"] == 1
    assert looked == [0, 1]


def test_a_network_that_falls_silent_is_noticed(storage):
    if not isinstance(storage, PostgresStorage):
        return
    with storage._engine.connect() as connection:
        found = connection.connection.dbapi_connection.info.get_parameters()
    assert found["tcp_user_timeout"] == "30000"
    assert found["keepalives_idle"] == "15"
