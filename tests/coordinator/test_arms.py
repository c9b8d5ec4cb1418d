"""Open or withdraw an arm, live: what follows is shown first, and what is confirmed happens, on either database."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.coordinator.support import study_message
from tests.coordinator.test_lost_sites import freeze, reweigh, sound, thaw
from tests.protocol.support import rewards
from tests.support import first_quick

from parley.agent.reporting import hand_over, rules_of
from parley.agent.site import Site
from parley.errors import Conflict, NotAllowed, NotThere, Rejected
from parley.protocol.lost_sites import ask_anew
from parley.totals import Totals

# Arm 4 is the best, then arm 1.
MEANS = np.array([0.5, 0.25, 0.0, 0.8])
LATE = study_message(agents=3, arms=4, policy="evidence", dormant=("arm 4",))
ALL = replace(LATE, dormant=())


def drawn(counts, place, phase):
    """Totals that depend on nothing but their arguments."""
    totals = rewards(counts, place, phase, spread=0.0)
    sums = totals.sums + totals.counts * MEANS
    squares = totals.squares + 2 * MEANS * totals.sums + totals.counts * MEANS**2
    return Totals(counts=totals.counts, sums=sums, squares=squares)


def phase(agents, only=range(3), study=LATE):
    for place, name in enumerate(study.agents):
        plan = agents[place].plan("trial", name)
        if plan.due and place in only:
            agents[place].send(plan.report(drawn(plan.draws, place, plan.phase)))


def run(house, agents, most=30):
    for _ in range(most):
        status = house.admin.status("trial")
        if status["stage"] != "running":
            return status
        phase(agents)
    raise AssertionError(f"it runs away: {status}")


def change(house, act, arm, reason="safety"):
    place = ("studies", "trial", "arms", arm, act)
    shown = house.admin.request("GET", *place)
    line = house.admin.request("POST", *place, json={"reason": reason, "preview": shown["digest"]})
    return shown["preview"], line


def simulated(changes, phases):
    """Plans and last state of a study in which, before the report of a phase, arms are opened or withdrawn."""
    asked, past, plans, opened, withdrawn = LATE, [], [], {}, {}
    for number in range(1, phases + 1):
        policy = asked.make_policy()
        state = policy.start()
        for totals in past:
            state = policy.update(state, totals)
        plans.append(policy.plan(state))
        for act, arm, share in changes.get(number, ()):
            opened, withdrawn = ({**opened, arm: number}, withdrawn) if act == "open" else (opened, {arm: number})
            asked = ask_anew(LATE, LATE.weights, share, opened, withdrawn)
        parts = [drawn(plans[-1][:, place], place, number) for place in range(3)]
        past.append(Totals.columns(parts, 4))
    policy = asked.make_policy()
    state = policy.start()
    for totals in past:
        state = policy.update(state, totals)
    return plans, state


@pytest.mark.servers
def test_an_arm_that_opens_in_phase_four_and_is_best_is_found(house):
    agents = house.create(replace(LATE, answers="each"))
    while house.admin.status("trial")["phase"] < 4:
        phase(agents)
    assert not any(agents[0].whole_plan("trial", number).array[3].any() for number in range(1, 5))
    shown, line = change(house, "open", "arm 4", "supply has come")
    assert (shown["opens"], shown["drawn"], shown["open_arms"]) == (True, 0, list(LATE.arms))
    assert (line["stage"], line["phase"]) == ("running", 4)
    sound(house)
    phase(agents)
    assert agents[0].whole_plan("trial", 5).array[3].any()
    status = run(house, agents)
    assert (status["stage"], status["end"], status["closed_arms"]) == ("finished", "decided", [])
    [entry] = status["changed_arms"]
    assert (entry["arm"], entry["open"], entry["phase"], entry["reason"]) == ("arm 4", True, 4, "supply has come")
    assert status["guarantee"].endswith(
        "if the reason for opening arm 4 has nothing to do with the rewards of this study"
    )
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert set(map(tuple, certificate["answers"].values())) == {("arm 4",)}
    assert certificate["opened"] == {"arm 4": 4}
    assert sound(house).certificate is not None


@pytest.mark.simulations
def test_what_a_withdrawn_arm_had_beaten_wins(house):
    agents = house.create(ALL)
    phase(agents)
    phase(agents, only=[0])
    shown, line = change(house, "withdraw", "arm 4")
    assert shown["drawn"] > 0
    assert shown["delta"] < ALL.problem.delta
    assert line["digest"] != ALL.digest
    assert house.admin.request("GET", "studies", "trial", "document")["dormant"] == ["arm 4"]
    sound(house)
    board = house.admin.request("GET", "studies", "trial", "board")
    assert board["statuses"][3] == ["closed"] * 3
    assert board["by_arm"]["statuses"]["closed"] == [0, 0, 0, 3]
    assert board["plan"][3] == agents[0].whole_plan("trial", 2).array[3].tolist(), "the phase goes on as it was asked"
    plan = agents[1].plan("trial", "agent 2")
    assert plan.closed_arms == ("arm 4",), "a site may stop at once"
    totals = drawn(plan.draws, 1, plan.phase)
    kept = np.arange(4) != 3
    stopped = Totals(counts=totals.counts * kept, sums=totals.sums * kept, squares=totals.squares * kept)
    agents[1].send(plan.report(stopped))
    phase(agents, only=[2])
    sound(house)
    assert not agents[0].whole_plan("trial", 3).array[3].any()
    status = run(house, agents)
    assert (status["end"], status["closed_arms"]) == ("decided", ["arm 4"])
    assert [entry["open"] for entry in status["changed_arms"]] == [False]
    assert "changed or not: all answers right with probability at least 0.7" in status["guarantee"]
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert set(map(tuple, certificate["answers"].values())) == {("arm 1",)}
    assert certificate["withdrawn"] == {"arm 4": 2}
    findings = house.admin.request("GET", "studies", "trial", "findings")
    assert {agent["arms"][3]["status"] for agent in findings["agents"]} == {"closed"}
    board = house.admin.request("GET", "studies", "trial", "board")
    assert sum(board["spent"]) == status["samples"], "its draws were paid for"
    sound(house)


@pytest.mark.servers
def test_live_and_simulated_studies_whose_arms_change_plan_alike(house):
    agents = house.create(LATE)
    phase(agents)
    first, _ = change(house, "open", "arm 4")
    phase(agents)
    second, _ = change(house, "withdraw", "arm 1")
    phase(agents)
    changes = {2: [("open", "arm 4", first["delta"])], 3: [("withdraw", "arm 1", second["delta"])]}
    status = run(house, agents)
    count = status["phase"]
    plans, state = simulated(changes, count)
    for number, quotas in enumerate(plans, start=1):
        assert np.array_equal(agents[0].whole_plan("trial", number).array, quotas), f"plan of phase {number}"
    assert sound(house).trial.state.to_json() == state.to_json()
    assert state.finished


def test_every_act_in_one_study_and_the_tables_agree(house):
    agents = house.create(LATE)
    phase(agents)
    change(house, "withdraw", "arm 2")
    freeze(house, "agent 3")
    reweigh(house)
    sound(house)
    change(house, "open", "arm 4")
    status = house.admin.status("trial")
    assert status["reweighed"] == {"phase": 2, "reason": "closed", "left": ["agent 3"]}, "who left stays away"
    assert [(entry["arm"], entry["open"]) for entry in status["changed_arms"]] == [("arm 2", False), ("arm 4", True)]
    sound(house)
    change(house, "open", "arm 2", "it was another's fault")
    entry = house.admin.status("trial")["changed_arms"][0]
    assert (entry["open"], entry["reason"]) == (True, "it was another's fault")
    thaw(house, "agent 3")
    reweigh(house)
    sound(house)
    run(house, agents)
    sound(house)


@pytest.mark.servers
def test_a_stalled_study_that_stays_so_is_certified_anew(house):
    agents = house.create(replace(LATE, weights=study_message(agents=3, weight=0.9).weights))
    phase(agents)
    freeze(house, "agent 3")
    assert run(house, agents)["stage"] == "stalled"
    before = house.admin.request("GET", "studies", "trial", "certificate")
    shown, line = change(house, "open", "arm 4")
    assert ("no phase is planned" in shown["effect"]) == (line["stage"] == "stalled")
    if line["stage"] == "stalled":
        after = house.admin.request("GET", "studies", "trial", "certificate")
        assert after["opened"] == {"arm 4": line["phase"]}
        assert after != before
    sound(house)


def test_with_no_more_arms_than_an_answer_has_the_study_ends_at_once(house):
    agents = house.create(replace(ALL, dormant=("arm 2", "arm 3")))
    phase(agents)
    shown, line = change(house, "withdraw", "arm 4")
    assert shown["finished"]
    assert line["stage"] == "finished"
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert set(map(tuple, certificate["answers"].values())) == {("arm 1",)}
    sound(house)


@pytest.mark.parametrize("reports", first_quick(1, 0))
def test_arms_are_withdrawn_until_only_an_answer_is_left_and_no_further(sqlite_house, reports):
    house, study = sqlite_house, replace(ALL, top=2)
    agents = house.create(study)
    for _ in range(reports):
        phase(agents, study=study)
    assert [change(house, "withdraw", arm)[1]["stage"] for arm in ("arm 4", "arm 3")] == ["running", "finished"]
    for arm in ("arm 2", "arm 1"):
        with pytest.raises(Conflict, match="while the study is finished"):
            house.admin.request("GET", "studies", "trial", "arms", arm, "withdraw")
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert set(map(tuple, certificate["answers"].values())) == {("arm 1", "arm 2")}
    assert house.admin.status("trial")["end"] == "decided"
    assert not any(agents[place].plan("trial", name).due for place, name in enumerate(study.agents))
    sound(house)


def test_what_may_not_happen_says_why_and_leaves_nothing(sqlite_house):
    house = sqlite_house
    agents = house.create(LATE)
    phase(agents)
    before = house.admin.status("trial")["sequence"]
    for act, arm, refusal, words in (
        ("open", "arm 1", Conflict, "allowed: arm 4"),
        ("withdraw", "arm 4", Conflict, "allowed: arm 1, arm 2, arm 3"),
        ("withdraw", "arm 9", NotThere, "no arm 'arm 9' in 'trial'"),
    ):
        with pytest.raises(refusal, match=words):
            house.admin.request("GET", "studies", "trial", "arms", arm, act)
    body = {"reason": "why", "preview": "0" * 64}
    with pytest.raises(Conflict, match="not shown to you"):
        house.admin.request("POST", "studies", "trial", "arms", "arm 4", "open", json=body)
    odd = replace(ALL, arms=LATE.arms[:2], dormant=("arm 1",)).to_json()
    with pytest.raises(Rejected, match="at least 2 open arms"):
        house.admin.request("POST", "studies", json={"id": "odd", "study": odd})
    assert house.admin.status("trial")["sequence"] == before
    run(house, agents)
    with pytest.raises(Conflict, match="while the study is finished"):
        house.admin.request("GET", "studies", "trial", "arms", "arm 4", "open")
    sound(house)


def test_a_policy_whose_arms_are_fixed_says_so(sqlite_house):
    house = sqlite_house
    house.create(study_message(agents=3, arms=4, policy="wcpe"))
    with pytest.raises(Conflict, match="wcpe holds only for the arms that it started with"):
        house.admin.request("GET", "studies", "trial", "arms", "arm 4", "withdraw")


def test_who_sees_it_and_a_look_at_a_preview_is_a_record(sqlite_house):
    """Everybody sees that it happened and why; what it would do is for those who may see the data, and is noted."""
    house = sqlite_house
    agents = house.create(LATE)
    phase(agents)
    viewer, analyst = house.issue("viewer", name="someone"), house.issue("analyst", name="ana")
    shown = analyst.request("GET", "studies", "trial", "arms", "arm 4", "open")
    body = {"reason": "why", "preview": shown["digest"]}
    with pytest.raises(NotAllowed):
        analyst.request("POST", "studies", "trial", "arms", "arm 4", "open", json=body)
    records = house.admin.request("GET", "log", params={"limit": 1000})["records"]
    [look] = [one["payload"] for one in records if one["kind"] == "preview-shown"]
    assert (look["preview"], look["digest"], look["study"]) == ("arm-preview", shown["digest"], "trial")
    change(house, "open", "arm 4")
    for client in (viewer, agents[0]):
        assert client.status("trial")["changed_arms"][0]["reason"] == "safety"
        with pytest.raises(NotAllowed, match="may not"):
            client.request("GET", "studies", "trial", "arms", "arm 1", "withdraw")


def test_a_site_gives_nobody_an_arm_that_was_withdrawn_and_its_report_is_taken(house, tmp_path):
    """For safety it must not wait until the phase is over."""
    agents = house.create(ALL)
    name = ALL.agents[0]
    with Site(tmp_path, study="trial", agent=name, rules=rules_of(ALL)) as site:
        hand_over(site, agents[0], tmp_path)
        given = [site.assign(f"p-{number}").arm for number in range(5)]
        change(house, "withdraw", "arm 2")
        hand_over(site, agents[0], tmp_path)
        given += [site.assign(f"q-{number}").arm for number in range(site.status()["to_assign"])]
        assert "arm 2" not in given[5:]
        for number, key in enumerate(list(site.people.persons)):
            site.outcome(key, float(number % 2))
        hand_over(site, agents[0], tmp_path)
    assert agents[0].plan("trial", name).reported
    phase(agents, only=(1, 2), study=ALL)
    assert house.admin.status("trial")["phase"] == 2
    sound(house)


def test_a_second_report_without_a_withdrawn_arm_is_put_aside_as_any_other(sqlite_house):
    agents = sqlite_house.create(ALL)
    phase(agents)
    change(sqlite_house, "withdraw", "arm 4")
    plan = agents[0].plan("trial", "agent 1")
    totals, kept = drawn(plan.draws, 0, plan.phase), np.arange(4) != 3
    for by in (0.0, 0.01):
        counts, sums = totals.counts * kept, (totals.sums + by) * kept
        report = plan.report(Totals(counts=counts, sums=sums, squares=totals.squares * kept))
        if by:
            with pytest.raises(Conflict, match="that one counts"):
                agents[0].send(report)
        else:
            agents[0].send(report)
    aside = sqlite_house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]
    assert [entry["digest"] for entry in aside] == [report.digest]
    sound(sqlite_house)
