"""[[outcomes]] of a study file, and what is refused there; on the wire a study without them is what it was."""

import pytest

from parley import InvalidInput, parse_study
from parley.outcomes import outcome_of
from parley.problem import Problem
from parley.protocol import Report, StudyMessage, check_report
from parley.protocol.messages import OutcomeTotals
from parley.rewards import KINDS

HARM = {"name": "bleeding", "kind": "binary", "role": "guardrail", "better": "lower", "margin": 0.02, "delta": 0.05}
PAIN = {"name": "pain", "kind": "count", "role": "secondary", "better": "lower"}
STUDY = {"arms": ["placebo", "a"], "agents": ["x", "y"], "control": "placebo", "noise": {"kind": "binary"}}


def study(*outcomes, **more):
    return parse_study(STUDY | {"outcomes": list(outcomes)} | more)


def test_a_study_file_states_outcomes_and_the_wire_keeps_them():
    made = study(HARM, PAIN)
    assert [outcome.name for outcome in made.problem.outcomes] == ["bleeding", "pain"]
    assert [outcome.noise.kind for outcome in made.problem.outcomes] == ["binary", "count"]
    message = StudyMessage.of(made)
    again = StudyMessage.read(message.text)
    assert again == message
    assert again.problem.outcomes == made.problem.outcomes
    assert message.digest != StudyMessage.of(study()).digest


def test_without_outcomes_the_documents_have_no_such_key():
    assert "outcomes" not in StudyMessage.of(study()).text
    assert "outcomes" not in report().text


@pytest.mark.parametrize("kind", KINDS)
def test_every_reward_model_describes_an_outcome(kind):
    more = {"low": 0, "high": 1} if kind == "bounded" else {}
    made = study(HARM | {"kind": kind} | more).problem.outcomes[0]
    assert outcome_of(made.document()) == made


@pytest.mark.parametrize(
    ("changes", "named", "found"),
    [
        ({"margin": None}, "outcomes.bleeding.margin", "neither margin nor limit"),
        ({"limit": 0.1}, "outcomes.bleeding.margin", "margin and limit"),
        ({"margin": 1.0}, "outcomes.bleeding.margin", "1.0"),
        ({"margin": -0.01}, "outcomes.bleeding.margin", "-0.01"),
        ({"margin": None, "limit": 1.5}, "outcomes.bleeding.limit", "1.5"),
        ({"delta": 0.0}, "outcomes.bleeding.delta", "0.0"),
        ({"delta": 1}, "outcomes.bleeding.delta", "1.0"),
        ({"delta": None}, "outcomes.bleeding.delta", "nothing"),
        ({"better": "more"}, "outcomes.bleeding.better", "'more'"),
        ({"role": None}, "outcomes.bleeding.role", "nothing"),
        ({"role": "primary"}, "outcomes.bleeding.role", "'primary'"),
        ({"role": "secondary"}, "outcomes.bleeding.margin", "0.02"),
        ({"on_alarm": "shout"}, "outcomes.bleeding.on_alarm", "'shout'"),
        ({"delay": -1}, "outcomes.bleeding.delay", "-1.0"),
        ({"name": "arm"}, "outcomes.name", "'arm'"),
        ({"name": "a.b"}, "outcomes.name", "'a.b'"),
        ({"name": ""}, "outcomes.name", "''"),
        ({"margn": 1}, "key in [[outcomes]] bleeding", "'margn'"),
        ({"kind": "binry"}, "outcomes.bleeding.kind", "'binry'"),
        ({"kind": "gaussian", "scale": -1.0}, "outcomes.bleeding.scale", "-1"),
        ({"scale": 1.0}, "key in [[outcomes]] bleeding with kind 'binary'", "'scale'"),
        ({"delta": "small"}, "outcomes.bleeding.delta", "'small'"),
    ],
)
def test_what_is_wrong_with_an_outcome_is_named(changes, named, found):
    entry = {key: value for key, value in (HARM | changes).items() if value is not None}
    with pytest.raises(InvalidInput) as refused:
        study(entry)
    assert refused.value.key == named
    assert str(refused.value.found) == found or found in str(refused.value.found)


def test_a_margin_needs_a_control_that_is_open():
    without = {key: value for key, value in STUDY.items() if key != "control"}
    with pytest.raises(InvalidInput, match="a margin without a control"):
        parse_study(without | {"outcomes": [HARM]})
    limited = {key: value for key, value in HARM.items() if key != "margin"} | {"limit": 0.1}
    assert parse_study(without | {"outcomes": [limited]}).problem.outcomes[0].limit == 0.1
    closed = STUDY | {"arms": ["placebo", "a", "b"], "dormant": ["placebo"], "outcomes": [HARM]}
    with pytest.raises(InvalidInput, match="a control that is not open, placebo"):
        parse_study(closed)


def test_a_name_is_there_once():
    with pytest.raises(InvalidInput, match="'Bleeding' twice"):
        study(HARM, PAIN | {"name": "Bleeding"})


def test_outcomes_are_sections():
    with pytest.raises(InvalidInput, match="outcomes"):
        parse_study(STUDY | {"outcomes": HARM})
    with pytest.raises(InvalidInput, match=r"sections \[\[outcomes\]\]"):
        parse_study(STUDY | {"outcomes": ["bleeding"]})


def test_a_policy_that_cannot_stop_an_arm_takes_no_guardrail():
    with pytest.raises(InvalidInput, match="no arm can be stopped with the policy wcpe"):
        StudyMessage.of(study(HARM, policy={"name": "wcpe"}))
    StudyMessage.of(study(PAIN, policy={"name": "wcpe"}))


def test_privacy_is_divided_over_all_outcomes_of_a_person():
    made = study(HARM, privacy={"rho": 0.1}).problem
    assert made.rho == 0.1
    assert [made.noise.rho, *(outcome.noise.rho for outcome in made.outcomes)] == [0.05, 0.05]
    again: Problem = StudyMessage.of(study(HARM, privacy={"rho": 0.1})).problem
    assert again.noise.noise_variance == made.noise.noise_variance
    with pytest.raises(InvalidInput, match=r"privacy\.rho"):
        study(PAIN, privacy={"rho": 0.1})


def report(*outcomes, **more):
    known = {"counts": (4, 3), "sums": (2.0, 1.0), "squares": (2.0, 1.0)} | more
    return Report(study="s", phase=1, agent="x", plan="0" * 64, outcomes=outcomes, **known)


BLED = OutcomeTotals(name="bleeding", counts=(4, 3), sums=(1.0, 0.0), squares=(1.0, 0.0))
PAINS = OutcomeTotals(name="pain", counts=(4, 2), sums=(6.0, 1.0), squares=(12.0, 1.0), missing=(0, 1))


def test_a_report_carries_the_totals_of_every_outcome():
    problem = study(HARM, PAIN).problem
    sent = Report.read(report(BLED, PAINS).text)
    check_report(sent, (4, 3), problem.noise, problem, problem.outcomes)
    assert sent.outcomes[1].totals.sums.tolist() == [6.0, 1.0]


@pytest.mark.parametrize(
    ("outcomes", "named"),
    [
        ((), "outcomes: found none; allowed: bleeding, pain"),
        ((BLED,), "outcomes: found bleeding; allowed: bleeding, pain"),
        ((PAINS, BLED), "outcomes: found pain, bleeding"),
        (
            (BLED, OutcomeTotals(name="pain", counts=(4,), sums=(6.0,), squares=(12.0,))),
            r"outcomes.pain: found 1 counts",
        ),
        ((BLED, OutcomeTotals(name="pain", counts=(4, 3), sums=(6.0, 1.0))), r"0 squares"),
        (
            (BLED, OutcomeTotals(name="pain", counts=(4, 2), sums=(6.0, 1.0), squares=(12.0, 1.0))),
            r"outcomes.pain.counts: found \[4, 2\] people",
        ),
        (
            (OutcomeTotals(name="bleeding", counts=(4, 3), sums=(5.0, 0.0), squares=(5.0, 0.0)), PAINS),
            r"outcomes.bleeding.sums\[0\]: found 5",
        ),
        (
            (BLED, OutcomeTotals(name="pain", counts=(4, 2), sums=(6.5, 1.0), squares=(12.0, 1.0), missing=(0, 1))),
            r"outcomes.pain.sums\[0\]: found 6.5; allowed: a whole number",
        ),
    ],
)
def test_totals_that_cannot_be_are_refused(outcomes, named):
    problem = study(HARM, PAIN).problem
    with pytest.raises(InvalidInput, match=named):
        check_report(report(*outcomes), (4, 3), problem.noise, problem, problem.outcomes)


def test_a_study_without_outcomes_takes_none():
    problem = study().problem
    with pytest.raises(InvalidInput, match="none: the study has no further outcomes"):
        check_report(report(BLED), (4, 3), problem.noise, problem)
