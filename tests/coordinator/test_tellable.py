"""What the log cannot tell again never enters it: written, read back and compared before the commit, every event."""

import dataclasses
import math

import numpy as np
import pytest
from msgspec import structs
from tests.coordinator.support import report_of, study_message

from parley.coordinator.record import ledger, studies, writer
from parley.coordinator.studies.acts import create_study, prepare_study
from parley.errors import Conflict, ParleyError, Rejected
from parley.protocol import EVENTS, Record, Report, create, issue_certificate, kind_of, read_event
from parley.protocol.asking_anew import open_arm, reweigh, stop_arm, withdraw_arm
from parley.protocol.codec import LARGEST_INTEGER, Message
from parley.protocol.events import (
    AgentFrozen,
    AgentThawed,
    Cancelled,
    Certified,
    Disputed,
    GuardrailNoted,
    Paused,
    PhaseClosed,
    PhaseClosedEarly,
    ReportAccepted,
    ReportAmended,
    ReportCorrected,
    ReportQuarantined,
    ReportRefused,
    ResultsRead,
    Resumed,
    Signed,
    StepFailed,
    StudyCreated,
)
from parley.protocol.trial import Finding
from parley.totals import Totals

TEXTS = ("", "a\x00b", "\ud800", "\U0001f600 \u202e", "x" * 3_000, '"\\\n\u2028', "NaN")
INTEGERS = (0, -1, LARGEST_INTEGER, LARGEST_INTEGER + 1, -LARGEST_INTEGER - 1, 10**400, True)
FLOATS = (0.0, -0.0, 5e-324, 1.7976931348623157e308, math.inf, math.nan, 1, 0.1 + 0.2)


def examples():
    """One event of every kind."""
    trial = create("trial", study_message(agents=2, arms=2, policy="uniform"))
    three = create("trial", study_message(agents=2, arms=3, policy="evidence"))
    draws = trial.plan.draws(0)
    report = Report(study="trial", phase=1, agent="agent 1", plan=trial.plan.digest, counts=draws,
                    sums=tuple(0.5 * n for n in draws), squares=tuple(0.5 * n for n in draws))  # fmt: skip
    certificate = issue_certificate(trial, data=[], sequence=1, head="a" * 64, version="0")
    second = structs.replace(report, agent="agent 2")
    step = dataclasses.replace(trial, reports={"agent 1": report, "agent 2": second})
    made = [
        StudyCreated(study_id="trial", study=trial.study, plan=trial.plan),
        ReportAccepted(report=report),
        ReportQuarantined(report=report, stands="a" * 64),
        ReportAmended(report=report, replaces="a" * 64, reason="why"),
        ReportRefused(phase=1, agent="agent 1", report="a" * 64, reason="why"),
        ReportCorrected(report=report, replaces="a" * 64, reason="why", consequences="a" * 64),
        PhaseClosed(decision=_decided(step), plan=trial.plan),
        PhaseClosedEarly(phase=1, reason="why", without=("agent 2",), consequences="a" * 64),
        StepFailed(phase=1, error="why"),
        AgentFrozen(agent="agent 1", reason="why", consequences="a" * 64),
        AgentThawed(agent="agent 1", reason="why", plan=trial.plan, consequences="a" * 64),
        reweigh(trial, ((1.0, 0.5), (0.0, 0.5))).event("why", "a" * 64),
        withdraw_arm(three, "arm 1").event("why", "a" * 64),
        stop_arm(three, Finding("harm", "arm 1", "stopped", ("agent 2",))).event("why", ""),
        GuardrailNoted(phase=1, guardrail="harm", arm="arm 1", verdict="cleared", agents=("agent 1", "agent 2")),
        open_arm(withdraw_arm(three, "arm 1").trial, "arm 1").event("why", "a" * 64),
        Paused(reason="why"),
        Resumed(reason="why"),
        Disputed(agent="agent 1", sequence=1, head="a" * 64),
        Cancelled(reason="why"),
        ResultsRead(phase=1, operation="get_findings"),
        Signed(principal="viewer:ada", name="Ada", meaning="why"),
        Certified(certificate=certificate),
    ]
    return {kind_of(event): event for event in made}


def _decided(trial):
    return trial.step().decision


def extremes(message):
    """A message with one of its values, at any depth, replaced by something extreme."""
    for field in structs.fields(message):
        value = getattr(message, field.name)
        for other in _others(value):
            try:
                yield structs.replace(message, **{field.name: other})
            except (ParleyError, TypeError, ValueError, OverflowError):  # it cannot even be made
                continue


def _others(value):
    if isinstance(value, Message):
        yield from extremes(value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield from TEXTS
    elif isinstance(value, int):
        yield from INTEGERS
    elif isinstance(value, float):
        yield from FLOATS
    elif isinstance(value, tuple) and value:
        yield from ((other, *value[1:]) for other in _others(value[0]))
        yield ()
    elif isinstance(value, dict):
        yield from ({**value, "x": other} for other in (*TEXTS, *INTEGERS, *FLOATS, [], {}))


def test_every_kind_has_an_example_and_a_sentence():
    missing = set(EVENTS) - set(examples())
    assert not missing, f"add to examples(): {', '.join(sorted(missing))}"
    assert all(event.sentence for event in examples().values())


@pytest.mark.simulations
def test_an_event_with_extreme_values_is_refused_or_told_again_to_the_last_bit(storage):
    trial = prepare_study("trial", study_message(agents=2, arms=2))
    storage.change(lambda c: create_study(c, trial, actor="test", at="now"))
    told = refused = 0
    for event in (extreme for example in examples().values() for extreme in [example, *extremes(example)]):

        def work(connection, event=event):
            row = studies.get(connection, "trial")
            record = writer.append(connection, row, event, actor="test", at="now")
            try:
                found = list(ledger.walk(connection, "trial"))[-1]
                again = read_event(found.kind, found.payload)
            except ParleyError as error:
                raise AssertionError(f"a {kind_of(event)} was written and cannot be read") from error
            assert found == record
            assert Record.read(found.text) == record
            assert found.computed == record.hash
            assert again == event
            assert again.text == event.text
            raise Undone

        try:
            storage.change(work)
        except Undone:
            told += 1
        except ParleyError:
            refused += 1
    assert told > 100
    assert refused > 50


class Undone(Exception):
    """Nothing of it is kept: the next one is tried in the same place."""


@pytest.mark.parametrize("actor", ["a\x00b", "\ud800"])
def test_what_is_around_an_event_is_read_back_too(storage, actor):
    with pytest.raises(ParleyError):
        storage.change(lambda c: writer.append_server(c, "token-issued", {}, actor=actor, at="now"))


def test_a_receipt_with_a_number_that_no_log_can_tell_spoils_nothing(house):
    """The attack of the trial: 16 digits passed, and the log could never be verified again."""
    agents = house.create(study_message(agents=2, arms=2))
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    for number in (9_999_999_999_999_999, LARGEST_INTEGER + 1, LARGEST_INTEGER + 2):  # the last one is a double
        with pytest.raises(Rejected, match="2\\^53"):
            agents[0].request("PUT", "studies", "trial", "phases", 1, "reports", "agent 1", json=report.to_json(),
                              headers={"Parley-Receipt": f"{number}:{'a' * 64}"})  # fmt: skip
    assert house.admin.status("trial")["stage"] == "running"
    with pytest.raises(Conflict):  # the largest that can be told is a dispute like any other
        agents[0].request("PUT", "studies", "trial", "phases", 1, "reports", "agent 1", json=report.to_json(),
                          headers={"Parley-Receipt": f"{LARGEST_INTEGER}:{'a' * 64}"})  # fmt: skip
    assert house.admin.request("POST", "studies", "trial", "verify")["sound"]


@pytest.mark.parametrize("scale", [2e8, 1e12, 1e55])
def test_a_study_whose_plans_no_log_can_tell_is_refused_when_it_is_created(house, scale):
    wild = study_message(agents=2, arms=2, policy="evidence", noise={"kind": "gaussian", "scale": scale})
    with pytest.raises(Rejected, match="cannot be run"):
        house.admin.request("POST", "studies", json={"id": "wild", "study": wild.to_json()})
    assert house.admin.request("GET", "studies")["studies"] == []


IMPOSSIBLE = {
    "one draw has one square": ({"kind": "gaussian", "scale": 0.2}, 1, 2.0, 1e6),
    "at most one of five": ({"kind": "bounded", "low": 0.0, "high": 1.0}, 5, 1.0, 5.0),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_squares_that_no_rewards_have_are_refused_and_leave_nothing(house, case):
    """Squares that pass where it is only asked whether they are large enough, and each within the bounds."""
    noise, count, total, square = IMPOSSIBLE[case]
    agents = house.create(study_message(agents=2, arms=2, policy="uniform", noise=noise))
    plan = agents[0].plan("trial", "agent 1")
    assert plan.draws == (count, count)
    sums, squares = (total, 0.0), (square, 0.0)
    with pytest.raises(Rejected, match=r"squares.*at most"):
        agents[0].send(Report(study="trial", phase=1, agent="agent 1", plan=plan.plan, counts=plan.draws, sums=sums,
                              squares=squares))  # fmt: skip
    assert house.admin.status("trial")["reported"] == []
    assert house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"] == []


def test_a_conflicting_report_that_could_never_have_been_taken_is_not_kept(house):
    """The attack of the trial: 40,000 counts for two arms were put aside unchecked, and read again in every commit."""
    agents = house.create(study_message(agents=2, arms=2))
    plan = agents[0].plan("trial", "agent 1")
    good = report_of(plan, 0)
    agents[0].send(good)
    many = 40_000
    wrong = [
        structs.replace(good, counts=(1,) * many, sums=(0.0,) * many, squares=(0.0,) * many),
        structs.replace(good, counts=tuple(count + 1 for count in good.counts)),
        structs.replace(good, squares=tuple(0.0 for _ in good.squares)),
    ]
    for report in wrong:
        with pytest.raises(Rejected, match="are impossible"):
            agents[0].send(report)
    with pytest.raises(Conflict, match="another plan"):
        agents[0].send(structs.replace(good, plan="a" * 64))
    assert house.admin.request("GET", "studies", "trial")["sequence"] == 2
    assert house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"] == []
    other = structs.replace(good, sums=tuple(0.0 for _ in good.sums))
    for _ in range(2):  # one that could have been: kept, once
        with pytest.raises(Conflict, match="that one counts"):
            agents[0].send(other)
    aside = house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]
    assert [Report.from_json(entry["report"]) for entry in aside] == [other]
    assert agents[0].send(good).sequence == 2
    assert house.admin.request("POST", "studies", "trial", "verify")["sound"]


@pytest.mark.parametrize(
    ("policy", "noise"),
    [
        ("uniform", {"kind": "gaussian", "scale": 1.0}),
        ("evidence", {"kind": "gaussian", "scale": "unknown"}),
        ("wcpe", {"kind": "subgaussian", "scale": 1.0}),
    ],
)
def test_no_report_keeps_a_study_from_its_end(house, policy, noise):
    """Squares near the largest number, beside sums like any other, were taken: then neither the last report of an
    honest agent was, nor a cancellation, since the certificate could not add them up.
    """
    message = study_message(agents=2, arms=2, policy=policy, noise=noise)
    agents = house.create(message)
    plan = agents[0].plan("trial", "agent 1")
    huge = structs.replace(report_of(plan, 0), squares=tuple(1.7e308 for _ in plan.draws))
    with pytest.raises(Rejected, match="none beyond 1e"):
        agents[0].send(huge)
    for _ in range(2):  # the largest that may be: a study goes on, and ends
        for place, client in enumerate(agents):
            plan = client.plan("trial", message.agents[place])
            if plan.due:
                most = tuple(0.99e140 * count if count > 1 else 1e-300 for count in plan.draws)
                sums = tuple(0.5 * count if count > 1 else 0.0 for count in plan.draws)
                client.send(
                    plan.report(Totals(counts=np.array(plan.draws), sums=np.array(sums), squares=np.array(most)))
                )
    status = house.admin.status("trial")
    assert (status["stage"], status["reason"]) == ("running", "")
    assert house.admin.request("GET", "studies", "trial", "findings")["phases"] == 2
    assert house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "x"})["stage"] == "cancelled"
    assert house.admin.request("POST", "studies", "trial", "verify", json={})["sound"]
