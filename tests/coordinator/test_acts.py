"""Every act of the table: what was not shown is not done, and refusing it tells nothing; on either database."""

import pytest
from tests.coordinator.support import House, report_of
from tests.coordinator.test_corrections import STUDY, better, decided
from tests.coordinator.test_lost_sites import sound
from tests.support import first_quick

from parley.coordinator.record import ledger
from parley.coordinator.studies import acts
from parley.coordinator.studies.phases import load_trial
from parley.errors import Conflict
from parley.protocol.acts import ACTS
from parley.protocol.corrections import correction_preview

PREVIEWED = [name for name, act in ACTS.items() if act.preview is not None]
FREEZE = ("studies", "trial", "agents", "agent 2", "freeze")


def confirmed(house, act, digest):
    """A request that confirms a preview, with all that its body needs."""
    agents = decided(house)
    report = better(agents[0].report("trial", 1, "agent 1"))
    given = {"agent": "agent 1", "arm": "arm 1", "phase": 1, "report": report.to_json(), "columns": {}, "reweigh": True}
    body = {"reason": "why", "preview": digest, **{key: given[key] for key in act.fields}}
    return ("studies", "trial", *act.address(given)), body


@pytest.mark.parametrize("name", first_quick(*PREVIEWED, quick=3))
def test_an_invented_preview_is_refused_before_anything_is_computed(sqlite_house, monkeypatch, name):
    where, body = confirmed(sqlite_house, ACTS[name], "0" * 64)
    before = sqlite_house.admin.status("trial")["phase"]

    def computed(*_):
        raise AssertionError("computed, though nobody was shown it")

    monkeypatch.setattr(acts, "propose", computed)
    with pytest.raises(Conflict, match="not shown to you"):
        sqlite_house.admin.request("POST", *where, json=body)
    assert sqlite_house.admin.status("trial")["phase"] == before


def test_whether_a_guess_is_right_is_not_told(house):
    """Who knows a study's code can make the preview of a guess: its digest is refused like that of any other."""
    agents = decided(house)
    report = agents[0].report("trial", 1, "agent 1")
    answers = []
    for guess in (better(report), better(report, by=0.25)):
        trial = house.storage.read(lambda t: load_trial(t, acts.studies.require(t, "trial"), past=True))
        digest = correction_preview(trial, guess).digest
        where = ("studies", "trial", "phases", 1, "reports", "agent 1", "correct")
        for preview in (digest, "0" * 64):
            body = {"reason": "why", "preview": preview, "report": guess.to_json()}
            with pytest.raises(Conflict) as refused:
                house.admin.request("POST", *where, json=body)
            answers.append(str(refused.value))
    assert len(set(answers)) == 1
    assert house.admin.request("GET", "studies", "trial", "corrections")["corrections"] == []


def test_a_preview_is_shown_to_the_one_who_confirms_it_and_a_restart_forgets_nothing(house):
    decided(house)
    other = house.issue("administrator", name="other")
    shown = house.admin.request("GET", *FREEZE)
    body = {"reason": "closed", "preview": shown["digest"]}
    with pytest.raises(Conflict, match="not shown to you"):
        other.request("POST", *FREEZE, json=body)
    again = House(house.storage, admin=house.token)
    try:
        assert again.admin.request("POST", *FREEZE, json=body)["phase"] == 2
    finally:
        again.close()
    sound(house)


def test_a_preview_of_another_study_confirms_nothing(house):
    decided(house)
    house.create(STUDY, "second")
    shown = house.admin.request("GET", *FREEZE)
    there = ("studies", "second", *FREEZE[2:])
    with pytest.raises(Conflict, match="not shown to you"):
        house.admin.request("POST", *there, json={"reason": "closed", "preview": shown["digest"]})


def test_every_preview_that_is_answered_is_in_the_servers_log(house):
    agents = decided(house)
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    cut = ("studies", "trial", "phases", 2, "close-early")
    shown = [house.admin.request("GET", *FREEZE), house.admin.request("GET", *cut)]
    records = house.storage.read(lambda t: ledger.of_kind(t, ledger.SERVER, "preview-shown"))
    assert [one.payload["digest"] for one in records] == [one["digest"] for one in shown]
    assert house.admin.request("POST", *cut, json={"reason": "late", "preview": shown[1]["digest"]})["phase"] == 3
