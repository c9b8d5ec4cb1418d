"""People who were assigned between phases in the protocol: told, planned with, reported apart, replayed."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from tests.protocol.support import rewards
from tests.protocol.test_lost_sites import Course
from tests.protocol.test_trial import reported

from parley.errors import ImpossibleReport, InvalidInput
from parley.outcomes import Outcome
from parley.policies.between import people_ahead
from parley.protocol import Report, check_between, replay
from parley.protocol.corrections import correction_preview
from parley.protocol.events import PhaseClosed, ReportAccepted
from parley.protocol.messages import BetweenTotals, OutcomeTotals, Plan
from parley.rewards import Binary
from parley.totals import Totals


class Waiting(Course):
    """Every site assigns as many people for the next phase as it may."""

    def __init__(self, **study):
        study = {"agents": 3, "means": [[0.5] * 3, [0.2] * 3, [0.0] * 3], "between": "assign"} | study
        super().__init__("evidence", **study)

    def report(self, count=None):
        for agent in self.trial.awaited[:count]:
            self.let(ReportAccepted(report=self.made(agent)))

    def made(self, agent):
        trial = self.trial
        place = trial.study.agents.index(agent)
        totals = self.drawn(trial.plan.draws(place), place)
        most = np.array(trial.plan.most_ahead, dtype=np.int64)
        ahead = tuple(people_ahead(trial.study.problem, trial.plan.array, most)[:, place].tolist())
        early = trial.plan.between_of(place)
        found = reported(trial, place, totals.sums, totals.squares)
        return structs.replace(
            found,
            ahead=ahead if any(ahead) else (),
            between=BetweenTotals.of(self.drawn(early, place)) if early else None,
        )


def test_a_study_runs_with_them_is_replayed_and_certified():
    course = Waiting()
    first = course.trial.plan
    assert first.between == ()
    assert first.most_ahead == tuple((first.array.sum(axis=0) // 2).tolist())
    course.phase()
    second = course.trial.plan
    told = np.array(second.between)
    assert (told.sum(axis=0) == np.array(first.most_ahead)).all()
    wanted = course.trial.policy.plan(course.trial.state)
    assert (second.array <= wanted).all()
    assert second.array.sum() < wanted.sum(), "the plan knows how many there are"
    course.to_the_end()
    certificate = course.certify()
    course.verified()
    decisions = [event.decision for event in course.events if isinstance(event, PhaseClosed)]
    drawn = sum(np.sum(one.counts) + np.sum(one.between or 0) for one in decisions)
    assert certificate.samples == course.trial.state.counts.sum() == drawn
    assert decisions[0].ahead
    assert not decisions[0].between
    assert decisions[1].between == decisions[0].ahead
    assert certificate.between == sum(np.sum(one.between) for one in decisions[1:])
    assert certificate.ahead == np.sum(decisions[-1].ahead)


def test_the_state_is_the_fold_of_strata_and_estimates_see_them():
    course = Waiting()
    course.phase()
    course.phase()
    policy, (one, two) = course.trial.policy, course.trial.past
    assert one.between is None
    assert two.between is not None
    state = policy.update(policy.update(policy.start(), one), two)
    assert state.to_json() == course.trial.state.to_json()
    pooled = policy.update(policy.update(policy.start(), one), two.everybody)
    assert pooled.to_json() != state.to_json()


def test_a_withdrawn_arm_and_a_lost_site_replay_with_them():
    course = Waiting(arms=3)
    course.phase()
    course.withdraw_arm("arm 3")
    course.phase()
    course.freeze("agent 3")
    course.to_the_end()
    certificate = course.certify()
    course.verified()
    decisions = [event.decision for event in course.events if isinstance(event, PhaseClosed)]
    assigned, counted = (sum(np.sum(getattr(one, name) or 0) for one in decisions) for name in ("ahead", "between"))
    assert certificate.ahead == assigned - counted > np.sum(decisions[-1].ahead or 0), "those of the lost site too"


def test_a_frozen_site_has_nobody_between_and_its_people_do_not_shorten_the_plan():
    course = Waiting(agents=6, means=[[0.3] * 6, [0.2] * 6, [0.0] * 6])
    course.report()
    course.freeze("agent 6")
    course.phase()
    plan = course.trial.plan
    asked = np.array(plan.asked)
    assert asked.tolist() == [False, False, False, True, True, False], "the others are blocked"
    assert (np.array(plan.between).any(axis=0) == asked).all(), "who is not asked does not report of them either"
    assert ((np.array(plan.most_ahead) > 0) == asked).all()
    assert plan.array.sum() < course.trial.policy.plan(course.trial.state).sum()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"between": None}, "between: found nothing; allowed: totals of the"),
        ({"ahead": (9999, 0, 0)}, "ahead: found .*9999.*together at most"),
        ({"ahead": (1,)}, "ahead: found .*a count per arm"),
    ],
)
def test_impossible_reports_are_refused_in_a_sentence(change, words):
    course = Waiting()
    course.phase()
    good = course.made("agent 1")
    with pytest.raises(ImpossibleReport, match=words):
        course.let(ReportAccepted(report=structs.replace(good, **change)))
    early = good.between
    for bad, found in (
        (
            structs.replace(early, counts=tuple(count + 1 for count in early.counts)),
            "between.counts: .*those of the plan",
        ),
        (structs.replace(early, sums=early.sums[:1]), "between: .*one per arm"),
        (structs.replace(early, squares=tuple(0.0 for _ in early.squares), sums=(5.0, 5.0, 5.0)), "between.squares"),
    ):
        with pytest.raises(ImpossibleReport, match=found):
            course.let(ReportAccepted(report=structs.replace(good, between=bad)))
    course.let(ReportAccepted(report=good))


def test_a_report_tells_every_outcome_of_them():
    course = Waiting()
    course.phase()
    harm = Outcome(name="harm", noise=Binary(), role="secondary", better="lower")
    report, noise = course.made("agent 1"), course.trial.study.problem.noise
    sure = report.between.counts
    with pytest.raises(ImpossibleReport, match=r"between.outcomes: found none; allowed: harm"):
        check_between(report, sure, 9999, noise, [harm])
    for counts, words in ((sure, None), (tuple(count + 1 for count in sure), r"between.outcomes.harm.counts: ")):
        told = OutcomeTotals(name="harm", counts=counts, sums=(0.0,) * 3, squares=(0.0,) * 3)
        found = structs.replace(report, between=structs.replace(report.between, outcomes=(told,)))
        with nullcontext() if words is None else pytest.raises(ImpossibleReport, match=words):
            check_between(found, sure, 9999, noise, [harm])


def test_nobody_is_told_of_in_a_study_that_sends_them_away():
    course = Course("evidence", agents=3)
    assert course.trial.plan.most_ahead == ()
    place = 0
    totals = course.drawn(course.trial.plan.draws(place), place)
    report = reported(course.trial, place, totals.sums, totals.squares)
    for odd in ({"ahead": (1, 0, 0)}, {"between": BetweenTotals.of(totals)}):
        with pytest.raises(ImpossibleReport):
            course.let(ReportAccepted(report=structs.replace(report, **odd)))
    assert "ahead" not in report.to_json()
    assert "between" not in course.trial.plan.to_json(), "documents of other studies are what they were"


def test_a_forged_plan_is_found_in_the_replay():
    course = Waiting()
    course.phase()
    events = list(course.events)
    closed = events[-1]
    for forged in (
        structs.replace(closed.plan, between=()),
        structs.replace(closed.plan, most_ahead=tuple(10 * most for most in closed.plan.most_ahead)),
    ):
        with pytest.raises(InvalidInput, match="other people between phases"):
            replay([*events[:-1], PhaseClosed(decision=closed.decision, plan=forged)])


def test_a_correction_may_change_their_outcomes_and_not_their_number():
    course = Waiting()
    course.phase()
    course.phase()
    report = course.report_of(2, "agent 2")
    early = report.between
    moved = structs.replace(early, sums=(early.sums[0] - 1.0, *early.sums[1:]))
    corrected = structs.replace(report, between=moved)
    (cell,) = correction_preview(course.trial, corrected).cells
    assert cell.arm == "arm 1"
    assert cell.counts == (report.counts[0] + early.counts[0],) * 2
    assert cell.sums[1] == pytest.approx(cell.sums[0] - 1.0)
    course.correct(corrected)
    with pytest.raises(ImpossibleReport, match=r"ahead: .*as before: the next plan counted on them"):
        course.correct(structs.replace(report, ahead=tuple(count + 1 for count in report.ahead)))
    course.to_the_end()
    course.certify()
    course.verified()


def test_missing_ones_are_counted_with_the_others():
    course = Waiting()
    course.phase()
    for agent in course.trial.awaited:
        report = course.made(agent)
        kept = Totals.of([[0.5] * max(count - 1, 0) for count in report.between.counts])
        early = BetweenTotals.of(kept, tuple(int(count > 0) for count in report.between.counts))
        course.let(ReportAccepted(report=structs.replace(report, between=early)))
    decision = course.trial.step().decision
    assert np.array(decision.missing).sum() == (np.array(course.trial.plan.between) > 0).sum()


def test_messages_read_what_they_wrote():
    plan = Plan(study="s", phase=2, quotas=((3,), (4,)), between=((1,), (0,)), most_ahead=(2,))
    assert Plan.read(plan.text) == plan
    assert (plan.between_of(0), plan.most_ahead_of(0)) == ((1, 0), 2)
    totals = rewards((3, 2), 0, 1)
    report = Report.of(
        totals, study="s", phase=2, agent="x", plan="0" * 64, ahead=(1, 1), between=BetweenTotals.of(totals, (0, 1))
    )
    assert Report.read(report.text) == report
    assert report.people == 10
    assert report.totals == replace(totals, between=totals)
