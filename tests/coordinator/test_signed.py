"""Who signed, with the token entered again, and who saw results while a study went on: in the log, told by `verify`."""

import asyncio
import json
from functools import partial

import pytest
from msgspec.structs import replace
from tests.coordinator.support import House, far_off, report_of, study_message
from tests.coordinator.test_lost_sites import sound

from parley.coordinator.http.operations import OPERATIONS
from parley.coordinator.http.routes import administration
from parley.coordinator.record.writer import enact, locked
from parley.coordinator.studies import acts
from parley.coordinator.studies.acts import record_read
from parley.errors import Conflict, NotAllowed, NotThere, Rejected, StorageUnavailable, Unreachable
from parley.protocol import read_log, verify_log
from parley.protocol.events import Signed
from parley.service.forecasts import FORECASTS

STUDY = study_message(agents=2, arms=2, policy="uniform")


def sign(client, token, name="Ada Example", meaning="approved the protocol"):
    body = {"name": name, "meaning": meaning, "token": token}
    return client.request("POST", "studies", "trial", "signatures", json=body)


def listed(client):
    found = client.request("GET", "studies", "trial", "signatures")["signatures"]
    assert all(one["principal"] == one["actor"] for one in found), "the token's, whatever name was typed"
    return [(one["name"], one["meaning"], one["principal"], one["sequence"]) for one in found]


def test_a_signature_needs_the_token_again_and_changes_nothing_else(house):
    agents = house.create(STUDY)
    before = house.admin.status("trial")
    viewer = house.issue("viewer", name="v", study="trial")
    of_viewer = house.tokens["trial", None]
    session = house.admin.request("POST", "sessions")["session"]
    headers = {"Authorization": f"Session {session}"}
    for wrong in ("", "x", of_viewer, house.token[:-1] + ("A" if house.token[-1] != "A" else "B")):
        with pytest.raises(NotAllowed, match="nothing was signed: this is not the token with which you signed in"):
            sign(house.admin, wrong)
    with pytest.raises(NotAllowed):
        sign(agents[0], house.tokens["trial", "agent 1"])
    with pytest.raises(Rejected, match="allowed: text that is not blank"):
        sign(house.admin, house.token, name=" ")
    for odd in ("Ada\nSigned: Bo", "\x1b[2J", "\u202eadA", "\u200b"):
        with pytest.raises(Rejected, match="allowed: one line of printable text"):
            sign(house.admin, house.token, name=odd)
    assert listed(house.admin) == []
    body = {"name": "Ada Example", "meaning": "approved the protocol", "token": house.token}
    house.admin.request("POST", "studies", "trial", "signatures", json=body, headers=headers)
    after = sign(viewer, of_viewer, name="Bo Example", meaning="read <b>it</b>")
    assert (after["stage"], after["phase"], after["sequence"]) == ("running", 1, None)
    root = ("Ada Example", "approved the protocol", "administrator:root", before["sequence"] + 1)
    assert listed(house.admin) == [root, ("Bo Example", "read <b>it</b>", "viewer:v", before["sequence"] + 2)]
    assert [one[3] for one in listed(viewer)] == [None, None], "where a record stands is not for viewers"
    assert house.run(STUDY, agents)["stage"] == "finished"
    sign(house.admin, house.token, meaning="reviewed the results")
    found = sound(house)
    assert [one.meaning for one in found.signatures] == [
        "approved the protocol",
        "read <b>it</b>",
        "reviewed the results",
    ]
    told = house.admin.request("POST", "studies", "trial", "verify")
    assert [one["name"] for one in told["signatures"]] == ["Ada Example", "Bo Example", "Ada Example"]


def test_a_signature_that_was_changed_moved_or_removed_is_noticed(sqlite_house):
    sqlite_house.create(STUDY)
    sign(sqlite_house.admin, sqlite_house.token)
    sign(sqlite_house.admin, sqlite_house.token, meaning="reviewed the results")
    lines = [json.loads(line) for line in sqlite_house.admin.export("trial")]
    token = sqlite_house.token.split("_", 2)[2]
    assert token not in json.dumps(lines), "the log keeps that it was entered, not the token"
    [place, last] = [place for place, line in enumerate(lines) if line["kind"] == "signed"]
    other = {**lines[place], "payload": {**lines[place]["payload"], "name": "Eve Example"}}
    forged = [
        [*lines[:place], other, *lines[place + 1 :]],
        [*lines[:place], *lines[place + 1 :]],
        [*lines[:place], lines[last], *lines[place:last]],
    ]
    assert verify_log(read_log(map(json.dumps, lines))).sound
    for log in forged:
        assert not verify_log(read_log(map(json.dumps, log))).sound


def reads(house):
    return [(one.actor, one.phase, one.operation) for one in sound(house).reads]


def test_who_sees_results_while_the_study_goes_on_is_in_its_log_once_a_phase(house):
    agents = house.create(STUDY)
    viewer = house.issue("viewer", name="v", study="trial")
    analyst = house.issue("analyst", name="a", study="trial")
    for client in (viewer, analyst, *agents):
        client.status("trial")
    for blinded in ("board", "history", "signatures"):
        viewer.request("GET", "studies", "trial", blinded)
    for place, client in enumerate(agents):
        report = report_of(client.plan("trial", f"agent {place + 1}"), place)
        client.send(report)
        client.report("trial", 1, f"agent {place + 1}")
    with pytest.raises(NotThere):
        analyst.request("GET", "studies", "trial", "certificate")
    own = [("agent:trial/agent 1", 1, "get_report"), ("agent:trial/agent 2", 2, "get_report")]
    assert reads(house) == own, "viewers see nothing that tells arms apart; what is not there is not seen"
    for _ in range(2):
        analyst.request("GET", "studies", "trial", "findings")
        analyst.request("GET", "studies", "trial", "sensitivity")
    written = house.admin.status("trial")["sequence"]
    seen = [*own, ("analyst:a", 2, "get_findings")]
    assert reads(house) == seen
    second = House(house.storage, admin=house.token) if house.storage.exclusive else None
    if second is not None:  # after a restart: nothing is known but what the log says
        second.client(house.tokens["trial", None]).request("GET", "studies", "trial", "findings")
        second.close()
    assert house.admin.status("trial")["sequence"] == written, "a read that the log has costs no write"
    exported = list(house.admin.export("trial"))
    assert (json.loads(exported[-1])["kind"], json.loads(exported[-1])["actor"]) == (
        "results-read",
        "administrator:root",
    )
    house.run(STUDY, agents)
    analyst.request("GET", "studies", "trial", "certificate")
    assert reads(house) == [*seen, ("administrator:root", 2, "export_log")], "what was decided can be swayed no more"
    told = house.admin.request("POST", "studies", "trial", "verify")["reads"]
    assert [one["actor"] for one in told] == [*(one[0] for one in own), "analyst:a", "administrator:root"]
    without = [line for line in house.admin.export("trial") if '"analyst:a"' not in line]
    assert not verify_log(read_log(without)).sound, "a read that was removed is noticed"


def test_sums_read_with_an_agents_token_leave_a_record_before_the_answer(house, monkeypatch):
    """The attack: an administrator issued an agent's token, and read that site's sums without a trace."""
    agents = house.create(STUDY)
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    mine = house.issue("agent", study="trial", agent="agent 1")
    mine.plan("trial", "agent 1")
    assert reads(house) == [], "a plan has no sums"

    def unavailable(*_, **__):
        raise StorageUnavailable("no room")

    with monkeypatch.context() as patched:
        patched.setattr(acts, "record_read", unavailable)
        with pytest.raises(Unreachable):
            mine.report("trial", 1, "agent 1")
    for _ in range(3):
        assert mine.report("trial", 1, "agent 1").sums
    assert [one[1:] for one in reads(house)] == [(1, "get_report")]


def test_an_agent_that_is_told_why_its_report_is_held_has_seen_a_mean(house):
    agents = house.create(STUDY)
    with pytest.raises(Unreachable):
        agents[0].send(far_off(report_of(agents[0].plan("trial", "agent 1"), 0)))
    agents[1].status("trial")
    assert reads(house) == [], "another agent is not told why"
    assert any(one["held"] for one in agents[0].status("trial")["missing"])
    assert [one[1:] for one in reads(house)] == [(1, "get_study")]


def test_a_conflict_tells_whether_a_guess_is_right_so_it_leaves_a_record(house, monkeypatch):
    """The attack: with an agent's token, sums are guessed until one is no conflict, or by the digest that stands."""
    agents = house.create(STUDY)
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    receipt = agents[0].send(report)
    mine = house.issue("agent", study="trial", agent="agent 1")
    assert mine.send(report) == receipt
    assert reads(house) == [], "a report that is sent again is told nothing new"
    guess = replace(report, squares=tuple(2 * value + 1 for value in report.squares))

    def unavailable(*_, **__):
        raise StorageUnavailable("no room")

    with monkeypatch.context() as patched:
        patched.setattr(acts, "record_read", unavailable)
        with pytest.raises(Unreachable):
            mine.send(guess)
    for _ in range(3):
        with pytest.raises(Conflict):
            mine.send(guess)
    assert [one[1:] for one in reads(house)] == [(1, "put_report")]


def test_two_looks_at_once_are_one_record(house):
    house.create(STUDY)
    seen = house.admin.status("trial")["sequence"]
    for _ in range(2):  # both had looked into the log before either was in it
        work = partial(record_read, study="trial", operation="get_log", after=seen, actor="analyst:a", at="now")
        house.storage.change(work)
    assert reads(house) == [("analyst:a", 1, "get_log")]


def test_an_export_that_lasts_longer_than_a_phase_is_a_read_in_both(sqlite_house, monkeypatch):
    monkeypatch.setattr(administration, "PAGE", 1)  # characters that are read from the database at a time
    agents, sent = sqlite_house.create(STUDY), []
    sqlite_house.issue("auditor", name="a")

    def decide():
        for place, client in enumerate(agents):
            client.send(report_of(client.plan("trial", f"agent {place + 1}"), place))

    async def send(message):
        if message.get("body") and not any(sent):
            await asyncio.to_thread(decide)
        sent.append(message.get("body", b""))

    credential = (b"authorization", f"Bearer {sqlite_house.tokens[None, None]}".encode())
    scope = {"type": "http", "method": "GET", "path": "/v1/studies/trial/export", "query_string": b"", "root_path": ""}
    asked = sqlite_house.app({**scope, "headers": [credential]}, asyncio.Event().wait, send)
    sqlite_house.application.run(asked)
    assert b'"phase-closed"' in b"".join(sent)
    assert reads(sqlite_house) == [("auditor:a", 1, "export_log"), ("auditor:a", 2, "export_log")]


def test_a_status_that_tells_means_is_a_read(sqlite_house):
    agents = sqlite_house.create(STUDY)
    viewer, analyst = (sqlite_house.issue(role, name="a", study="trial") for role in ("viewer", "analyst"))
    for place, client in enumerate(agents):
        client.send(report_of(client.plan("trial", f"agent {place + 1}"), place))
    analyst.status("trial")
    with pytest.raises(Unreachable, match=r"the mean .* of arm 1"):
        agents[0].send(far_off(report_of(agents[0].plan("trial", "agent 1"), 0)))
    for client in (agents[1], viewer):
        client.status("trial")
    assert reads(sqlite_house) == []
    assert "the mean" in analyst.status("trial")["missing"][0]["held"]
    assert reads(sqlite_house) == [("analyst:a", 2, "get_study")]


def test_every_read_of_a_study_is_either_of_results_or_said_to_be_of_none():
    """A new operation is one or the other: what viewers may not see is results."""
    none = {"get_study", "get_document", "list_signatures", "follow_study", "preview_early_close", "verify_study"}
    for operation in (*OPERATIONS, *FORECASTS):
        looks = "{study}" in operation.path and (operation.method == "GET" or "preview" in operation.name)
        assert operation.results is (looks and operation.name not in none), operation.name


def test_a_signature_with_another_principal_than_its_record_is_no_signature(house):
    """The log says who signed by the token: a typed name stands beside it, and a signature for others is noticed."""
    house.create(STUDY)
    forged = Signed(principal="viewer:ada", name="Ada Example", meaning="approved the protocol")
    assert forged.sentence == "viewer:ada (name as typed: Ada Example): approved the protocol"
    house.storage.change(lambda t: enact(t, locked(t, "trial"), forged, actor="analyst:eve", at="now"))
    found = verify_log(read_log(house.admin.export("trial")))
    assert "principal: found viewer:ada; allowed: analyst:eve" in found.problem
