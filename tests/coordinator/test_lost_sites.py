"""A lost site, live: both ways to go on are shown first, and what is confirmed happens, on either database."""

import re

import numpy as np
import pytest
from tests.coordinator.support import far_off, report_of, study_message
from tests.protocol.test_lost_sites import SIX
from tests.support import first_quick

from parley.coordinator.record import open_for_reading, studies
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.backup import backup, restore
from parley.coordinator.record.ledger import walk
from parley.coordinator.studies import acts
from parley.coordinator.studies.phases import load_trial
from parley.errors import Conflict, NotAllowed, NotThere, Rejected, Unreachable
from parley.protocol import previews
from parley.protocol.acts import Given

STUDY = study_message(agents=6, arms=3, policy="evidence", weights=SIX)


def sound(house):
    """The log, and every row of the tables by it."""
    found = verify_stored(house.storage, "trial")
    assert found.sound, found.problem
    assert found.exact
    stored = house.storage.read(lambda c: load_trial(c, studies.get(c, "trial")))
    assert stored.state.to_json() == found.trial.state.to_json()
    assert (stored.study, stored.stage, stored.frozen, stored.leaves) == (
        found.trial.study, found.trial.stage, found.trial.frozen, found.trial.leaves)  # fmt: skip
    assert stored.awaited == found.trial.awaited
    return found


def phase(agents, only=range(6), study=STUDY):
    for place, name in enumerate(study.agents):
        plan = agents[place].plan("trial", name)
        if plan.due and place in only:
            agents[place].send(report_of(plan, place))


def freeze(house, agent):
    shown = house.admin.request("GET", "studies", "trial", "agents", agent, "freeze")
    body = {"reason": "closed", "preview": shown["digest"]}
    return shown["preview"], house.admin.request("POST", "studies", "trial", "agents", agent, "freeze", json=body)


def reweigh(house, columns=None):
    shown = house.admin.request("POST", "studies", "trial", "reweigh", "preview", json={"columns": columns or {}})
    body = {"reason": "closed", "columns": columns or {}, "preview": shown["digest"]}
    return shown["preview"], house.admin.request("POST", "studies", "trial", "reweigh", json=body)


def thaw(house, agent):
    shown = house.admin.request("GET", "studies", "trial", "agents", agent, "thaw")
    body = {"reason": "open again", "preview": shown["digest"]}
    return shown["preview"], house.admin.request("POST", "studies", "trial", "agents", agent, "thaw", json=body)


@pytest.mark.servers
def test_a_site_is_lost_the_study_stalls_is_re_weighed_and_everybody_else_is_decided(house):
    agents = house.create(STUDY)
    phase(agents)
    shown, _ = freeze(house, "agent 6")
    assert shown["keep"]["without"] == ["agent 1", "agent 2", "agent 3", "agent 6"]
    assert shown["reweigh"]["projection"]["left"] == ["agent 6"]
    status = house.run(STUDY, agents)
    assert (status["stage"], status["end"]) == ("stalled", "blocked")
    blocked = house.admin.request("GET", "studies", "trial", "certificate")
    assert blocked["ends"]["agent 1"] == "blocked"
    board = house.admin.request("GET", "studies", "trial", "board")
    assert (np.array(board["statuses"]) == "chosen").any(axis=0).tolist() == [False, False, False, True, True, False]
    sound(house)
    seen, line = reweigh(house)
    assert seen["projection"]["expected"] or seen["finished"]
    assert line["digest"] != STUDY.digest
    assert house.admin.request("GET", "studies", "trial", "document")["weights"][5][0] == 0
    with pytest.raises(NotThere):  # the certificate of the blocked study is history
        house.admin.request("GET", "studies", "trial", "certificate")
    sound(house)
    status = house.run(STUDY, agents)
    assert (status["stage"], status["end"], status["reweighed"]["left"]) == ("finished", "decided", ["agent 6"])
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert certificate["complete"]
    assert certificate["ends"] == dict.fromkeys(STUDY.agents[:5], "decided") | {"agent 6": "left"}
    gone = certificate["evidence"]["agents"][5]
    assert (certificate["answers"]["agent 6"], gone["chosen"]) == ([], []), "who left chose nothing"
    assert {arm["status"] for arm in gone["arms"]} == {"left"}
    findings = house.admin.request("GET", "studies", "trial", "findings")
    assert [agent["end"] for agent in findings["agents"]] == ["decided"] * 5 + ["left"]
    assert {arm["status"] for arm in findings["agents"][5]["arms"]} == {"left"}
    assert sound(house).certificate is not None


def freeze_and_reweigh(house, agent, before=lambda: None):
    """Both in one operation, confirmed by one preview; `before` happens after it was seen."""
    place = ("studies", "trial", "agents", agent, "freeze")
    shown = house.admin.request("GET", *place)
    before()
    body = {"reason": "closed", "preview": shown["digest"], "reweigh": True}
    return shown["preview"], house.admin.request("POST", *place, json=body)


def test_freezing_and_re_weighing_are_one_operation_with_the_weights_that_were_shown(house):
    agents = house.create(STUDY)
    phase(agents)
    shown, line = freeze_and_reweigh(house, "agent 6")
    assert line["digest"] != STUDY.digest
    assert house.admin.request("GET", "studies", "trial", "document")["weights"] == shown["reweigh"]["weights"]
    status = house.admin.status("trial")
    assert [frozen["agent"] for frozen in status["frozen"]] == ["agent 6"]
    assert status["reweighed"]["left"] == ["agent 6"]
    sound(house)


@pytest.mark.servers
def test_the_last_one_awaited_is_frozen_and_the_others_re_weighed_after_the_phase_it_releases(house):
    agents = house.create(STUDY)
    phase(agents)
    phase(agents, only=range(5))
    shown, _ = freeze_and_reweigh(house, "agent 6")
    assert shown["released"]
    assert house.admin.request("GET", "studies", "trial", "document")["weights"] == shown["reweigh"]["weights"]
    sound(house)


def test_nothing_is_frozen_where_the_preview_is_another_or_the_others_cannot_be_re_weighed(house, monkeypatch):
    agents = house.create(STUDY)
    phase(agents)
    with pytest.raises(Conflict, match="look again"):
        freeze_and_reweigh(house, "agent 6", before=lambda: freeze(house, "agent 5"))
    assert [frozen["agent"] for frozen in house.admin.status("trial")["frozen"]] == ["agent 5"]
    monkeypatch.setattr(previews, "_anew", lambda _: (None, "as they are asked, they cannot"))
    with pytest.raises(Conflict, match="nothing was frozen"):
        freeze_and_reweigh(house, "agent 6")
    assert [frozen["agent"] for frozen in house.admin.status("trial")["frozen"]] == ["agent 5"]


def test_what_was_frozen_is_said_where_the_others_are_not_re_weighed(house, monkeypatch):
    agents = house.create(STUDY)
    phase(agents)
    real, other = acts.propose, {"agent 1": [1.0, 0, 0, 0, 0, 0]}

    def propose(storage, act, given):
        return real(storage, act, Given(**vars(given) | {"columns": other}))

    monkeypatch.setattr(acts, "propose", propose)
    with pytest.raises(Conflict, match=r"agent 6 is frozen.*not re-weighed: the weights differ"):
        freeze_and_reweigh(house, "agent 6")
    assert [frozen["agent"] for frozen in house.admin.status("trial")["frozen"]] == ["agent 6"]
    assert house.admin.status("trial")["reweighed"] is None
    sound(house)


@pytest.mark.servers
def test_a_re_weighing_in_mid_phase_and_a_return_are_the_same_live_and_replayed(house):
    agents = house.create(STUDY)
    phase(agents)
    phase(agents, only=[0, 5])
    freeze(house, "agent 6")  # it has reported in this phase already: the phase waits for the others as before
    assert house.admin.status("trial")["awaited"] == 4
    sound(house)
    reweigh(house)
    found = sound(house)
    assert found.trial.phase == 2
    assert house.admin.status("trial")["awaited"] == 4
    phase(agents)
    sound(house)
    shown, line = thaw(house, "agent 6")
    assert "re-weigh" in shown["effect"]
    sound(house)
    _, line = reweigh(house)
    assert line["digest"] == STUDY.digest, "nobody is frozen: the study as it was created"
    sound(house)
    assert house.run(STUDY, agents)["stage"] == "finished"
    sound(house)


def test_a_thawed_agent_is_awaited_again(house):
    agents = house.create(STUDY)
    freeze(house, "agent 6")
    plan = agents[5].plan("trial", "agent 6")
    assert plan.frozen
    assert not plan.due
    thaw(house, "agent 6")
    plan = agents[5].plan("trial", "agent 6")
    assert plan.due
    sound(house)
    agents[5].send(report_of(plan, 5))
    assert house.admin.status("trial")["awaited"] == 5
    sound(house)


def test_what_was_not_shown_does_not_happen(sqlite_house):
    house = sqlite_house
    agents = house.create(STUDY)
    phase(agents)
    freeze(house, "agent 6")
    for body, words in (
        ({"reason": "why", "preview": "0" * 64}, "was not shown to you"),
        ({"reason": "why", "preview": "0" * 64, "columns": {"agent 1": [1, 0, 0, 0, 0, 0]}}, "was not shown to you"),
    ):
        with pytest.raises(Conflict, match=words):
            house.admin.request("POST", "studies", "trial", "reweigh", json=body)
    shown = house.admin.request("POST", "studies", "trial", "reweigh", "preview", json={})
    other = {"agent 1": [1.0, 0, 0, 0, 0, 0]}
    body = {"reason": "why", "preview": shown["digest"], "columns": other}
    with pytest.raises(Conflict, match="look again"):  # the digest of other weights
        house.admin.request("POST", "studies", "trial", "reweigh", json=body)
    wrong = [{"agent 1": [0.5, 0.5]}, {"agent 1": [0, 0, 0, 0, 0, 1.0]}, {"nobody": [1, 0, 0, 0, 0, 0]}]
    for columns in wrong:
        with pytest.raises(Rejected, match="weights"):
            house.admin.request("POST", "studies", "trial", "reweigh", "preview", json={"columns": columns})
    with pytest.raises(Conflict, match="agent 6"):
        house.admin.request("GET", "studies", "trial", "agents", "agent 1", "thaw")
    sound(house)


def test_a_look_at_unblinded_results_is_a_record(house):
    """Who saw which preview is in the server's log; that of an early close is from counts alone, and no such look."""
    agents = house.create(STUDY)
    phase(agents)
    phase(agents, only=[0])
    analyst = house.issue("analyst", name="ana")
    before = house.admin.status("trial")["sequence"]
    shown = [analyst.request("GET", "studies", "trial", "agents", "agent 6", "freeze")]
    freeze(house, "agent 6")
    column = {"agent 1": [1.0, 0, 0, 0, 0, 0]}
    shown.append(analyst.request("POST", "studies", "trial", "reweigh", "preview", json={"columns": column}))
    shown.append(analyst.request("GET", "studies", "trial", "agents", "agent 6", "thaw"))
    shown.append(analyst.request("GET", "studies", "trial", "phases", 2, "close-early"))
    records = house.admin.request("GET", "log", params={"limit": 1000})["records"]
    looks = [one["payload"] for one in records if one["kind"] == "preview-shown" and one["actor"] == "analyst:ana"]
    kinds = ["freeze-preview", "reweigh-preview", "thaw-preview", "early-close-preview"]
    assert [look["preview"] for look in looks] == kinds
    assert [look["digest"] for look in looks] == [one["digest"] for one in shown]
    assert {look["study"] for look in looks} == {"trial"}
    assert house.admin.status("trial")["sequence"] == before + 3, "the freeze, and once who looked: the two of them"
    assert {read.actor for read in sound(house).reads} == {"analyst:ana", "administrator:root"}


def test_who_sees_a_re_weighing(sqlite_house):
    """Everybody sees that it happened, why and who left; what it would do is for those who may see the data."""
    house = sqlite_house
    agents = house.create(STUDY)
    phase(agents)
    freeze(house, "agent 6")
    reweigh(house)
    viewer = house.issue("viewer", name="someone")
    for client in (viewer, agents[0]):
        assert client.status("trial")["reweighed"] == {"phase": 2, "reason": "closed", "left": ["agent 6"]}
        assert client.status("trial")["end"] == "open"
        for parts in (("POST", "reweigh", "preview"), ("GET", "agents", "agent 6", "thaw")):
            with pytest.raises(NotAllowed, match="may not"):
                client.request(parts[0], "studies", "trial", *parts[1:], json={} if parts[0] == "POST" else None)


@pytest.mark.servers
def test_a_study_with_every_event_is_backed_up_and_restored_to_either_database(request, database, house, tmp_path):
    """Held, refused, taken, frozen, blocked, re-weighed, thawed, without an arm, with it again: sound anywhere."""
    agents = house.create(STUDY)
    held = ("studies", "trial", "phases", 1, "reports", "agent 1")
    good = report_of(agents[0].plan("trial", "agent 1"), 0)
    for by, act in ((1e9, "refuse"), (2e9, "amend")):
        far = far_off(good, by)
        with pytest.raises(Unreachable, match="the mean"):
            agents[0].send(far)
        body = {"reason": "looked into", "report": far.digest if act == "refuse" else good.to_json()}
        house.admin.request("POST", *held, act, json=body)
    phase(agents)
    freeze(house, "agent 6")
    assert house.run(STUDY, agents)["stage"] == "stalled"
    reweigh(house)
    thaw(house, "agent 6")
    reweigh(house)
    for act in ("withdraw", "open"):
        place = ("studies", "trial", "arms", "arm 3", act)
        shown = house.admin.request("GET", *place)
        house.admin.request("POST", *place, json={"reason": "supply", "preview": shown["digest"]})
    assert house.run(STUDY, agents)["end"] == "decided"
    before = sound(house)
    backup(database, tmp_path / "copy.db")
    places = [str(tmp_path / "back.db")]
    if not database.endswith(".db"):
        request.getfixturevalue("postgres").psql("CREATE DATABASE every_event")
        places.append(re.sub(r"/[^/?]+\?", "/every_event?", database))
    for place in places:
        restore(tmp_path / "copy.db", place)
        back = open_for_reading(place)
        found = verify_stored(back, "trial")
        kinds = {record.kind for record in back.read(lambda c: list(walk(c, "trial")))}
        back.close()
        assert found.sound, found.problem
        assert (found.head, found.certificate) == (before.head, before.certificate)
        assert kinds >= {"report-quarantined", "report-refused", "report-amended", "agent-frozen", "agent-thawed",
                         "reweighed", "arm-opened", "arm-withdrawn", "certified"}  # fmt: skip
    if len(places) > 1:
        request.getfixturevalue("postgres").psql("DROP DATABASE every_event WITH (FORCE)")


@pytest.mark.parametrize("terms", first_quick({"max_samples": 100}, {"max_rounds": 1}, {"tolerance": 0.9}))
def test_budgets_and_tolerance_end_live_studies_and_their_logs_verify(house, terms):
    message = study_message(agents=2, arms=3, policy="evidence", **terms)
    status = house.run(message, house.create(message))
    end = "accepted" if "tolerance" in terms else "exhausted"
    assert (status["stage"], status["end"]) == ("finished", end)
    assert status["samples"] <= terms.get("max_samples", 10**6)
    assert end in sound(house).trial.ends.values()
