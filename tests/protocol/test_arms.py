"""Arms come and go in mid-study: a dormant one opens, one is withdrawn, and a withdrawn one may be opened again."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from tests.protocol.support import study_message
from tests.protocol.test_lost_sites import Course
from tests.protocol.test_trial import reported
from tests.support import first_quick

from parley.errors import IllegalMove, ImpossibleReport, InvalidInput
from parley.protocol import Stage, apply, create, issue_certificate
from parley.protocol.asking_anew import open_arm, withdraw_arm
from parley.protocol.events import ArmOpened, Cancelled, Paused, PhaseClosed, ReportAccepted
from parley.protocol.lost_sites import extent_of, share_of_delta
from parley.protocol.previews import open_arm_preview, withdraw_arm_preview
from parley.text.status import OutcomeStatus

# Arm 4 is the best, and dormant; without it arm 1 is, then arm 2.
MEANS = [[0.35] * 3, [0.2] * 3, [0.0] * 3, [0.55] * 3]


def late(phases=1, dormant=("arm 4",), **study):
    course = Course(agents=3, arms=4, means=MEANS, dormant=dormant, **study)
    for _ in range(phases):
        course.phase()
    return course


@pytest.mark.parametrize(
    "study",
    first_quick({"top": 2, "tolerance": 0.1}, {"answers": "each"}, {}, {"tolerance": 0.1}, {"top": 2}),
)
def test_a_dormant_arm_is_not_drawn_and_is_found_once_it_opens(study):
    course = late(phases=2, **study)
    assert not course.trial.plan.array[3].any()
    assert not any(totals.counts[3].any() for totals in course.trial.past)
    phase = course.trial.phase
    trial = course.open_arm("arm 4")
    assert (trial.stage, trial.phase) == (Stage.RUNNING, phase)
    assert not trial.plan.array[3].any(), "the phase in progress goes on as it was asked"
    assert course.phase().plan.array[3].all()
    trial = course.to_the_end()
    assert trial.stage is Stage.FINISHED
    certificate = course.certify()
    assert all("arm 4" in arms for arms in certificate.answers.values())
    assert (certificate.opened, certificate.withdrawn, certificate.delta) == ({"arm 4": phase}, {}, 0.1)
    assert certificate.guarantee.endswith(
        "if the reason for opening arm 4 has nothing to do with the rewards of this study"
    )
    assert certificate.created == course.events[0].study.digest != certificate.problem
    course.verified()


def test_the_first_draws_of_a_new_arm_only_inform():
    course = late(answers="each")
    course.open_arm("arm 4")
    course.phase()
    before = course.trial.state
    after = course.phase().state
    assert after.counts[3].all()
    assert (before.log_wealth[:, 3] == 0).all()
    assert (after.log_wealth[:, 3] == 0).all()
    assert not (course.phase().state.log_wealth[:, 3] == 0).all()


def test_an_agent_that_had_its_answer_is_asked_again_when_an_arm_opens():
    course = late(phases=0, answers="each", weight=1.0, noise={"kind": "gaussian", "scale": 1.0})
    course.means = [[0.9, 0.2, 0.2], [0.1, 0.1, 0.1], [0.0, 0.0, 0.0], [0.95, 0.8, 0.8]]
    while course.trial.ends["agent 1"] is not OutcomeStatus.DECIDED:
        course.phase()
        assert course.trial.stage is Stage.RUNNING
    shown = open_arm_preview(course.trial, "arm 4")
    assert "agent 1" in shown.asked_again
    assert shown.open_arms == course.trial.study.arms
    trial = course.open_arm("arm 4")
    assert trial.ends["agent 1"] is OutcomeStatus.OPEN
    assert trial.state.dropped_in[1, 0] == trial.state.dropped_in[2, 0] > 0, "what an open arm has beaten stays out"
    course.phase()
    assert course.trial.plan.array[3, 0]


@pytest.mark.parametrize("study", first_quick({}, {"tolerance": 0.1}, {"answers": "each"}, {"top": 2}))
def test_what_a_withdrawn_arm_had_beaten_can_win(study):
    course = late(phases=1 if "tolerance" in study else 2, dormant=(), **study)  # closed studies take fewer
    phase, before = course.trial.phase, course.trial
    shown = withdraw_arm_preview(before, "arm 4")
    trial = course.withdraw_arm("arm 4")
    assert trial.state.active[0].all(), "arm 4 alone had beaten it"
    assert not trial.state.active[3].any()
    share = share_of_delta(before.study, before.study.weights, (), ["arm 4"])
    assert share == pytest.approx(6 / np.pi**2 / 8), "one of four arms, and half for other weights"
    assert trial.study.problem.delta == shown.delta == 0.1 * share
    assert trial.plan == before.plan, "the phase in progress goes on as it was asked"
    course.to_the_end()
    certificate = course.certify()
    assert all("arm 1" in arms and "arm 4" not in arms for arms in certificate.answers.values())
    assert (certificate.opened, certificate.withdrawn, certificate.delta) == ({}, {"arm 4": phase}, 0.1)
    assert certificate.guarantee.startswith("the question was changed and is now asked without arm 4. For every")
    within = " to within 0.1" if "tolerance" in study else ""
    ending = (
        f"in force at the end of the study, changed or not: all answers right{within} with probability at least 0.7"
    )
    assert ending in certificate.guarantee
    closed = [arm for agent in certificate.evidence["agents"] for arm in agent["arms"][3:]]
    assert {(arm["status"], arm["score"]) for arm in closed} == {("closed", None)}, "on no line: nobody is asked of it"
    assert not any(plan[3, :].any() for plan in plans_after(course, phase))
    course.verified()


@pytest.mark.parametrize("budget", first_quick(2500, None))
def test_a_size_by_the_tolerance_is_that_of_one_question_and_a_stated_budget_holds_for_all(budget):
    course = late(phases=1, dormant=(), tolerance=0.1, max_samples=budget)
    told = course.trial.policy.largest_size
    assert extent_of(course.trial.study, anew=False) == course.trial.policy.extent
    asked = course.withdraw_arm("arm 4").policy
    said = extent_of(course.trial.study, anew=True)
    assert said == f"{asked.extent}; these numbers are for the changed question"
    course.to_the_end()
    certificate = course.certify()
    assert certificate.created is not None
    assert certificate.samples <= certificate.largest_size == asked.largest_size
    assert f"never more than {certificate.largest_size:,} samples" in said
    assert (asked.largest_size == told) == (budget is not None)
    assert ("unless the question changes" in said) == (budget is None)
    course.verified()


def plans_after(course, phase):
    return [event.plan.array for event in course.events if getattr(event, "plan", None) and event.plan.phase > phase]


def test_the_state_is_that_of_a_study_that_had_these_arms_from_the_start():
    course = late(phases=2, dormant=("arm 3",))
    course.open_arm("arm 3")
    course.phase()
    trial = course.withdraw_arm("arm 2")
    asked = structs.replace(course.events[0].study, dormant=("arm 2",), delta=trial.study.problem.delta)
    policy = asked.make_policy()
    state = policy.start()
    for totals in trial.past:
        state = policy.update(state, totals)
    assert state.to_json() == trial.state.to_json()
    assert trial.study == asked
    course.verified()


def test_a_withdrawn_arm_may_be_opened_again_and_all_of_its_draws_count():
    course = late(phases=2, dormant=())
    before = course.trial
    course.withdraw_arm("arm 4")
    assert course.trial.study != before.study
    trial = course.open_arm("arm 4")
    assert trial.study == before.study, "the question with which it began, and its delta"
    assert trial.state.to_json() == before.state.to_json()
    assert (dict(trial.arms_opened), dict(trial.arms_withdrawn)) == ({"arm 4": 3}, {})
    course.to_the_end()
    course.certify()
    course.verified()


def test_as_many_arms_as_an_answer_has_are_the_answer():
    course = late(phases=1, dormant=("arm 2", "arm 3"))
    shown = withdraw_arm_preview(course.trial, "arm 4")
    assert shown.finished
    assert "the study ends at once" in shown.effect
    assert course.withdraw_arm("arm 4").stage is Stage.FINISHED
    certificate = course.certify()
    assert all(arms == ["arm 1"] for arms in certificate.answers.values())
    assert certificate.complete
    assert certificate.samples == int(course.trial.past[0].counts.sum())
    with pytest.raises(IllegalMove, match="arm-opened cannot happen while the study is finished"):
        course.open_arm("arm 2")
    course.verified()


def test_in_the_first_phase_too():
    course = late(phases=0)
    course.report(1)
    course.withdraw_arm("arm 2")
    course.open_arm("arm 4")
    course.to_the_end()
    assert all(arms == ["arm 4"] for arms in course.certify().answers.values())
    course.verified()


@pytest.mark.simulations
def test_a_stalled_study_goes_on_where_an_arm_changes_that_and_stays_where_none_does():
    course = late(phases=1, weight=0.9)
    course.freeze("agent 3")
    assert course.to_the_end().stage is Stage.STALLED
    course.certify()
    assert "no phase is planned" in open_arm_preview(course.trial, "arm 4").effect
    assert course.open_arm("arm 4").stage is Stage.STALLED
    course.certify()
    course.thaw("agent 3")
    assert course.to_the_end().stage is Stage.FINISHED
    course.certify()
    course.verified()
    alone = late(phases=1, weight=1.0)
    for agent in ("agent 2", "agent 3"):
        alone.freeze(agent)
    alone.to_the_end()
    alone.certify()
    assert alone.open_arm("arm 4").stage is Stage.RUNNING, "agent 1 asks for itself, and draws"
    assert alone.trial.plan.array[3, 0]


def test_re_weighing_keeps_the_arms_and_arms_keep_the_weights():
    course = late(phases=1)
    course.open_arm("arm 4")
    course.freeze("agent 3")
    trial = course.reweigh()
    assert trial.study.problem.dormant == ()
    assert dict(trial.arms_opened) == {"arm 4": 2}
    weights = trial.study.weights
    trial = course.withdraw_arm("arm 1")
    assert trial.study.weights == weights
    assert trial.leaves == {"agent 3"}
    assert trial.study.problem.delta < 0.1 * share_of_delta(course.events[0].study, weights, ["agent 3"])
    course.to_the_end()
    course.certify()
    course.verified()


def test_of_a_withdrawn_arm_a_report_has_what_was_drawn_until_then():
    course = late(phases=1, dormant=(), site_counts="exact", minimum_cell=3)
    with pytest.raises(ImpossibleReport, match="the plan's"):
        course.let(ReportAccepted(report=without(course.trial, 1)))
    course.withdraw_arm("arm 2")
    with pytest.raises(ImpossibleReport, match="the plan's"):
        course.let(ReportAccepted(report=without(course.trial, 1, kept=2)))
    with pytest.raises(ImpossibleReport, match="the plan's"):
        course.let(ReportAccepted(report=without(course.trial, 0)))
    course.let(ReportAccepted(report=without(course.trial, 1)))
    course.to_the_end()
    decisions = [event.decision for event in course.events if isinstance(event, PhaseClosed)]
    certificate = issue_certificate(
        course.trial, data=[], decisions=decisions, sequence=1, head="a" * 64, version="0", phases=course.trial.past
    )
    assert np.array(certificate.left_out)[1].any()
    assert "missing" not in certificate.guarantee, "nothing is claimed of the arm"


def without(trial, arm, kept=0):
    """A report of the first agent in which an arm was drawn less often than planned."""
    good = reported(trial, 0)
    columns = (good.counts, good.sums, good.squares)
    counts, sums, squares = (
        (*column[:arm], value, *column[arm + 1 :])
        for column, value in zip(columns, (kept, 0.5 * kept, 0.5 * kept), strict=True)
    )
    return structs.replace(good, counts=counts, sums=sums, squares=squares)


def test_who_may_not_says_so():
    trial = late().trial
    for act, arm in ((open_arm_preview, "arm 1"), (withdraw_arm_preview, "arm 4"), (open_arm_preview, "arm 9")):
        with pytest.raises(InvalidInput, match="arm: found"):
            act(trial, arm)
    event = open_arm(trial, "arm 4").event("ready", "")
    with pytest.raises(IllegalMove, match="not an arm that can be opened"):
        apply(trial, structs.replace(event, arm="arm 1"))
    with pytest.raises(IllegalMove, match="'' is not an arm"):
        apply(trial, structs.replace(event, arm=""))
    other = create("s", study_message(policy="wcpe"))
    with pytest.raises(IllegalMove, match="wcpe holds only for the arms that it started with"):
        withdraw_arm_preview(other, "arm 1")
    with pytest.raises(InvalidInput, match="found arm 1; allowed: no value, since the policy wcpe does not support"):
        study_message(policy="wcpe", dormant=("arm 1",))
    with pytest.raises(InvalidInput, match="at least 2 open arms"):
        create("s", study_message(policy="evidence", arms=2, dormant=("arm 1",)))
    cancelled = apply(trial, Cancelled(reason="why"))
    with pytest.raises(IllegalMove, match="while the study is cancelled"):
        apply(cancelled, event)


def test_what_a_log_says_of_it_is_computed_again():
    course = late()
    event = open_arm(course.trial, "arm 4").event("ready", "")
    assert isinstance(event, ArmOpened)
    assert event.sentence == "arm 4, in phase 2: ready"
    for change in (
        {"delta": 0.2},
        {"opened": {}},
        {"opened": {"arm 4": 1}},
        {"withdrawn": {"arm 1": 1}},
        {"finished": True},
    ):
        with pytest.raises((InvalidInput, IllegalMove)):
            apply(course.trial, structs.replace(event, **change))
    paused = apply(course.trial, Paused(reason="look"))
    assert apply(paused, event).stage is Stage.PAUSED
    gone = withdraw_arm(course.trial, "arm 1").event("unsafe", "")
    with pytest.raises(InvalidInput, match="recorded 'delta'"):
        apply(course.trial, structs.replace(gone, delta=0.1))
    assert replace(course.trial) == course.trial


@pytest.mark.parametrize("act", ["freeze", "thaw"])
def test_weights_keep_their_share_whoever_is_frozen_or_thawed_since(act):
    course = Course(dormant=("arm 3",), arms=4)
    course.phase()
    course.freeze("agent 6")
    course.reweigh()
    asked = course.trial.study.problem.delta
    course.freeze("agent 1") if act == "freeze" else course.thaw("agent 6")
    assert course.open_arm("arm 3").study.problem.delta == pytest.approx(asked)
    assert course.withdraw_arm("arm 1").study.problem.delta == pytest.approx(asked * 6 / np.pi**2 / 8)
    assert course.open_arm("arm 1").study.problem.delta == pytest.approx(asked)
    course.verified()
