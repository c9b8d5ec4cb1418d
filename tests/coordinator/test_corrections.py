"""Corrections after a decision, live: shown first, kept beside, told by the certificate; on either database."""

import pytest
from msgspec.structs import replace
from tests.coordinator.support import report_of, study_message
from tests.coordinator.test_lost_sites import freeze, sound

from parley.coordinator.record import ledger, phases, studies
from parley.coordinator.studies.phases import load_trial
from parley.errors import Conflict, NotAllowed, NotThere, Rejected
from parley.protocol.corrections import read_anew

STUDY = study_message(agents=2, arms=2, policy="evidence")


def better(report, by=0.5, arm=1):
    """With every reward of an arm larger."""
    sums, squares, n = list(report.sums), list(report.squares), report.counts[arm]
    squares[arm] += 2 * by * sums[arm] + n * by**2
    sums[arm] += n * by
    return replace(report, sums=tuple(sums), squares=tuple(squares))


def preview(client, report):
    where = ("studies", report.study, "phases", report.phase, "reports", report.agent, "correct")
    return where, client.request("POST", *where, "preview", json={"report": report.to_json()})


def correct(house, report, reason="read from the wrong column"):
    where, shown = preview(house.admin, report)
    body = {"reason": reason, "preview": shown["digest"], "report": report.to_json()}
    return shown["preview"], house.admin.request("POST", *where, json=body)


def decided(house, phases=1):
    """A study with some decided phases, and the clients of its agents."""
    agents = house.create(STUDY)
    while house.admin.status("trial")["phase"] <= phases:
        for place, name in enumerate(STUDY.agents):
            agents[place].send(report_of(agents[place].plan("trial", name), place))
    return agents


def certificate(house):
    return house.admin.request("GET", "studies", "trial", "certificate")


def test_a_running_study_goes_on_as_it_was_and_its_certificate_tells(house):
    agents = decided(house)
    before = house.admin.status("trial")
    plan = agents[0].plan("trial", "agent 1")
    report = better(agents[1].report("trial", 1, "agent 2"))
    shown, line = correct(house, report)
    assert [cell["arm"] for cell in shown["cells"]] == ["arm 2"]
    assert (line["stage"], line["phase"], line["samples"]) == ("running", 2, before["samples"])
    assert agents[0].plan("trial", "agent 1") == plan
    assert agents[1].report("trial", 1, "agent 2") != report, "what was decided on stays"
    told = agents[1].request("GET", "studies", "trial", "phases", 1, "reports", "agent 2")["corrections"]
    assert [(one["report"], one["reason"]) for one in told] == [(report.to_json(), "read from the wrong column")]
    sound(house)
    reading = house.admin.request("GET", "studies", "trial", "corrections")
    assert [one["report"] for one in reading["corrections"]] == [report.digest]
    assert reading["with_corrections"]["would_change"] == dict.fromkeys(STUDY.agents, "no")
    assert house.run(STUDY, agents)["stage"] == "finished"
    found = certificate(house)
    assert [(one["phase"], one["agent"]) for one in found["corrections"]] == [(1, "agent 2")]
    assert "1 report was corrected" in found["guarantee"]
    assert sound(house).corrected[0].reason == "read from the wrong column"


def test_after_the_end_another_certificate_follows_and_the_answers_stand(house):
    agents = house.create(STUDY)
    house.run(STUDY, agents)
    first, status = certificate(house), house.admin.status("trial")
    for by in (2.0, -30.0):
        correct(house, better(agents[0].report("trial", 1, "agent 1"), by))
    last = certificate(house)
    assert last["answers"] == first["answers"]
    assert last["state"] == first["state"]
    assert last["with_corrections"]["evidence"] != first["evidence"]
    after = house.admin.status("trial")
    assert (after["stage"], after["samples"], after["end"]) == (status["stage"], status["samples"], status["end"])
    found = sound(house)
    assert found.certificate
    live = house.admin.request("GET", "studies", "trial", "corrections")
    assert live["with_corrections"] == last["with_corrections"]
    assert live["corrections"] == last["corrections"]
    log = house.admin.request("GET", "studies", "trial", "log", params={"kind": "certified"})["records"]
    assert (len(log), len(last["corrections"])) == (3, 2), "all that were issued are kept"


def test_what_the_database_knows_is_what_a_replay_knows(house):
    agents = decided(house, phases=2)
    correct(house, better(agents[0].report("trial", 1, "agent 1")))
    correct(house, better(agents[0].report("trial", 1, "agent 1"), 0.25))
    replayed = sound(house).trial
    loaded = house.storage.read(lambda c: load_trial(c, studies.get(c, "trial"), past=True))
    assert loaded.corrections == replayed.corrections
    assert loaded.settled == replayed.settled
    assert read_anew(loaded).after.to_json() == read_anew(replayed).after.to_json()
    assert len(house.storage.read(lambda c: phases.corrections(c, "trial"))) == 2


def test_two_administrators_do_not_overwrite_each_other(house):
    agents = decided(house)
    one, other = (better(agents[0].report("trial", 1, "agent 1"), by) for by in (0.25, 0.5))
    where, shown = preview(house.admin, other)
    correct(house, one)
    body = {"reason": "why", "preview": shown["digest"], "report": other.to_json()}
    with pytest.raises(Conflict, match="look again"):
        house.admin.request("POST", *where, json=body)
    with pytest.raises(Conflict, match="nothing to correct"):
        house.admin.request("POST", *where, json=body | {"report": one.to_json()})
    correct(house, other)
    sound(house)


def test_what_is_refused_changes_nothing_and_is_a_look(house):
    """A refusal tells whether a guess is right: who guesses is in the log before it is answered."""
    agents = decided(house)
    report = agents[0].report("trial", 1, "agent 1")
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    before = house.admin.status("trial")["sequence"]
    open_report = agents[0].report("trial", 2, "agent 1")
    for wrong, kind, words in (
        (better(open_report), Conflict, "phase 2 is not decided: until then its reports are amended"),
        (report, Conflict, "nothing to correct"),
        (replace(better(report), squares=(0.0,) * 2), Rejected, "are impossible"),
        (replace(better(report), plan="0" * 64), Conflict, "another plan"),
        (replace(better(report), phase=9), Conflict, "phase 9 is not decided"),
        (replace(better(report), agent="nobody"), NotThere, "no agent 'nobody'"),
    ):
        with pytest.raises(kind, match=words):
            preview(house.admin, wrong)
        where = ("studies", "trial", "phases", wrong.phase, "reports", wrong.agent, "correct")
        body = {"reason": "why", "preview": "0" * 64, "report": wrong.to_json()}
        with pytest.raises(Conflict, match="not shown to you"):
            house.admin.request("POST", *where, json=body)
    where = ("studies", "trial", "phases", 1, "reports", "agent 2", "correct")
    with pytest.raises(Rejected, match="not those of the address"):
        house.admin.request("POST", *where, "preview", json={"report": report.to_json()})
    (record,) = house.admin.request("GET", "studies", "trial", "log", params={"after": before})["records"]
    assert (record["kind"], record["payload"]["operation"]) == ("results-read", "preview_correction")
    with pytest.raises(NotAllowed):
        preview(agents[0], better(report))


def test_a_look_at_what_a_correction_would_tell_is_recorded(house):
    agents = decided(house)
    preview(house.admin, better(agents[0].report("trial", 1, "agent 1")))
    last = house.storage.read(lambda c: ledger.of_kind(c, "server", "preview-shown"))[-1]
    assert last.payload["preview"] == "correction-preview"


@pytest.mark.servers
def test_a_blocked_study_gets_another_certificate_too(sqlite_house):
    agents = decided(sqlite_house)
    for agent in STUDY.agents:
        freeze(sqlite_house, agent)
    assert sqlite_house.admin.status("trial")["stage"] == "stalled"
    correct(sqlite_house, better(agents[0].report("trial", 1, "agent 1"), 0.25))
    assert certificate(sqlite_house)["corrections"]
    sound(sqlite_house)


def test_a_cancelled_study_is_corrected_where_it_was_decided(sqlite_house):
    agents = decided(sqlite_house)
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    sqlite_house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "money"})
    correct(sqlite_house, better(agents[0].report("trial", 1, "agent 1"), 0.25))
    with pytest.raises(NotThere, match="decided on in phase 2"):
        preview(sqlite_house.admin, better(agents[0].report("trial", 2, "agent 1")))
    assert certificate(sqlite_house)["with_corrections"]["would_change"] == dict.fromkeys(STUDY.agents, "no")
    sound(sqlite_house)
