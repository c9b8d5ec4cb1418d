"""Who signed: a deliberate act with the token entered again, kept in the log, named by every verification."""

import json

import pytest
from tests.coordinator.support import study_message
from tests.coordinator.test_lost_sites import sound

from parley.errors import NotAllowed, Rejected
from parley.protocol import read_log, verify_log

STUDY = study_message(agents=2, arms=2, policy="uniform")


def sign(client, token, name="Ada Example", meaning="approved the protocol"):
    body = {"name": name, "meaning": meaning, "token": token}
    return client.request("POST", "studies", "trial", "signatures", json=body)


def listed(client):
    found = client.request("GET", "studies", "trial", "signatures")["signatures"]
    return [(one["name"], one["meaning"], one["actor"], one["sequence"]) for one in found]


def test_a_signature_needs_the_token_again_and_changes_nothing_else(house):
    agents = house.create(STUDY)
    before = house.admin.status("trial")
    viewer = house.issue("viewer", name="v", study="trial")
    of_viewer = house.tokens["trial", None]
    session = house.admin.request("POST", "sessions")["session"]
    headers = {"Authorization": f"Session {session}"}
    for wrong in ("", "x", of_viewer, house.token[:-1] + ("A" if house.token[-1] != "A" else "B")):
        with pytest.raises(NotAllowed, match="nothing was signed: that is not the token that you are signed in with"):
            sign(house.admin, wrong)
    with pytest.raises(NotAllowed):
        sign(agents[0], house.tokens["trial", "agent 1"])
    with pytest.raises(Rejected, match="allowed: text that is not blank"):
        sign(house.admin, house.token, name=" ")
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
    token = sqlite_house.token.split("_")[2]
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
