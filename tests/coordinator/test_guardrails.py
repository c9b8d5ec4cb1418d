"""Guardrails, live: an alarm stops an arm by itself, in mid-phase too, and every reader finds it."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.coordinator.support import eventually, study_message
from tests.coordinator.test_lost_sites import sound
from tests.protocol.support import rewards
from tests.protocol.test_guardrails import HARM, PAIN, PAIRED

from parley.errors import Conflict, Rejected
from parley.protocol.messages import OutcomeTotals
from parley.totals import Totals

MEANS, RATES = np.array([0.0, 0.5, 1.0]), (0.05, 0.05, 0.6)
STUDY = study_message(agents=4, arms=3, policy="evidence", control="arm 1", weights=PAIRED, outcomes=(HARM, PAIN))


def report(plan, place, rates=RATES, pain=1):
    """What an agent sends; of an arm that was stopped meanwhile, nothing. One in `pain` people has as many pains."""
    draws = [0 if arm in plan.closed_arms else count for arm, count in zip(plan.arms, plan.draws, strict=True)]
    totals = rewards(draws, place, plan.phase, spread=0.0)
    sums, counts = totals.sums + totals.counts * MEANS, totals.counts
    squares = totals.squares + 2 * MEANS * totals.sums + counts * MEANS**2
    ones = np.random.default_rng([place, plan.phase]).binomial(counts, rates).astype(float)
    ill = (counts // pain).astype(float)
    further = (
        OutcomeTotals.of("harm", Totals(counts=counts, sums=ones, squares=ones)),
        OutcomeTotals.of("pain", Totals(counts=counts, sums=pain * ill, squares=pain**2 * ill)),
    )
    return replace(plan.report(Totals(counts=counts, sums=sums, squares=squares)), outcomes=further)


def phase(agents, only=range(4), **drawn):
    for place in only:
        plan = agents[place].plan("trial", STUDY.agents[place])
        if plan.due:
            agents[place].send(report(plan, place, **drawn))


def run(house, agents, most=30, **drawn):
    for _ in range(most):
        status = house.admin.status("trial")
        if status["stage"] != "running":
            return status
        phase(agents, **drawn)
    raise AssertionError(f"it runs away: {status}")


def test_a_harmful_arm_is_stopped_while_two_sites_are_in_mid_phase(house):
    agents = house.create(STUDY)
    phase(agents, (0, 1))
    eventually(lambda: house.admin.status("trial")["closed_arms"] == ["arm 3"])
    status = house.admin.status("trial")
    assert status["stage"] == "running"
    assert [(one["arm"], one["open"], one["phase"]) for one in status["changed_arms"]] == [("arm 3", False, 1)]
    assert agents[2].plan("trial", "agent 3").closed_arms == ("arm 3",), "sites learn it from their plan"
    status = run(house, agents)
    assert status["stage"] == "finished"
    found = house.admin.request("GET", "studies", "trial", "findings")
    harm, pain = found["outcomes"]
    assert {row["arm"]: row["status"] for row in harm["arms"]}["arm 3"] == "stopped"
    assert harm["agents"][0]["arms"][1]["to_control"]["low"] < 0.2
    assert (pain["role"], pain["arms"], pain["margin"]) == ("secondary", [], None)
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert set(map(tuple, certificate["answers"].values())) == {("arm 2",)}
    assert "arm 3 was stopped by the guardrail harm" in certificate["guarantee"]
    assert certificate["outcomes"][0]["arms"] == harm["arms"]
    sound(house)


def test_the_step_waits_for_what_the_guardrails_find(house):
    """All reports are in at once: the arm is stopped before the phase is decided."""
    agents = house.create(replace(STUDY, outcomes=({**HARM, "on_alarm": "propose"}, PAIN)))
    phase(agents)
    kinds = [one["kind"] for one in house.admin.request("GET", "studies", "trial", "log")["records"]]
    assert "guardrail-noted" in kinds
    assert "arm-stopped" not in kinds
    assert kinds.index("guardrail-noted") < kinds.index("phase-closed")
    run(house, agents)
    sound(house)


@pytest.mark.simulations
def test_a_study_without_harm_goes_on(house):
    agents = house.create(STUDY)
    run(house, agents, rates=(0.05, 0.05, 0.05))
    status = house.admin.status("trial")
    assert (status["stage"], status["closed_arms"]) == ("finished", [])
    assert house.admin.request("GET", "studies", "trial", "findings")["outcomes"][0]["arms"]
    sound(house)


@pytest.mark.simulations
def test_counts_that_are_not_poisson_are_told_while_it_runs_and_in_the_certificate(house):
    agents = house.create(STUDY)
    phase(agents, pain=4)
    eventually(lambda: house.admin.status("trial")["phase"] > 1)
    warnings = house.admin.status("trial")["warnings"]
    assert warnings[0].startswith("pain: ")
    assert "variance over mean" in warnings[0]
    run(house, agents, pain=4)
    assert house.admin.request("GET", "studies", "trial", "certificate")["warnings"][0].startswith("pain: ")
    sound(house)


def test_a_report_without_its_outcomes_is_refused(house):
    agents = house.create(STUDY)
    plan = agents[0].plan("trial", "agent 1")
    for outcomes in ((), report(plan, 0).outcomes[:1]):
        with pytest.raises((Rejected, Conflict), match="allowed: harm, pain"):
            agents[0].send(replace(report(plan, 0), outcomes=outcomes))
