"""A site is lost in mid-study: the question is kept, or asked anew without it; and a lost site may come back."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from msgspec import structs
from tests.protocol.support import rewards, study_message
from tests.protocol.test_minimum_cell import logged
from tests.protocol.test_trial import reported
from tests.support import first_quick

from parley.errors import IllegalMove, InvalidInput
from parley.estimates import estimates
from parley.protocol import Stage, apply, create, freeze_preview, issue_certificate, replay, verify_log
from parley.protocol.asking_anew import open_arm, reweigh, thaw, withdraw_arm
from parley.protocol.corrections import correction_of
from parley.protocol.events import (
    AgentFrozen,
    Cancelled,
    Certified,
    Paused,
    PhaseClosedEarly,
    ReportAccepted,
    ReportAmended,
    Resumed,
    Reweighed,
    StudyCreated,
)
from parley.protocol.lost_sites import ask_anew, share_of_delta, weights_without
from parley.protocol.previews import reweigh_preview, thaw_preview
from parley.text.status import OutcomeStatus, overall

# Six sites. Agent 6 matters to 1, 2 and 3; 4 and 5 ask each other only.
SIX = (
    (0.5, 0.1, 0.2, 0.0, 0.0, 0.1),
    (0.2, 0.6, 0.1, 0.0, 0.0, 0.1),
    (0.1, 0.1, 0.4, 0.0, 0.0, 0.1),
    (0.0, 0.0, 0.0, 0.7, 0.4, 0.1),
    (0.0, 0.0, 0.0, 0.3, 0.6, 0.1),
    (0.2, 0.2, 0.3, 0.0, 0.0, 0.5),
)


class Course:
    """A trial and the events that led to it."""

    chain = staticmethod(logged)

    def __init__(self, policy="evidence", *, agents=6, arms=3, spread=0.7, means=None, **study):
        study = {"weights": SIX} | study if agents == 6 else study
        message = study_message(agents=agents, arms=arms, policy=policy, **study)
        self.trial, self.spread, self.means = create("s", message), spread, means
        self.events = [StudyCreated(study_id="s", study=message, plan=self.trial.plan)]

    def let(self, event):
        self.trial = apply(self.trial, event)
        self.events.append(event)
        return self.trial

    def freeze(self, agent):
        return self.let(AgentFrozen(agent=agent, reason="closed", consequences=""))

    def reweigh(self, given=None):
        trial = self.trial
        weights = weights_without(trial.origin or trial.study, sorted(trial.frozen), given)
        return self.let(reweigh(trial, weights).event("closed", ""))

    def open_arm(self, arm):
        return self.let(open_arm(self.trial, arm).event("ready", ""))

    def withdraw_arm(self, arm):
        return self.let(withdraw_arm(self.trial, arm).event("unsafe", ""))

    def report_of(self, phase, agent):
        """The report that was decided on."""
        taken = [event.report for event in self.events if isinstance(event, ReportAccepted | ReportAmended)]
        return [report for report in taken if (report.phase, report.agent) == (phase, agent)][-1]

    def corrected(self, phase, agent, by=1.0, arm=0):
        """The report that counts there now, with every reward of an arm larger by some."""
        found = self.trial.corrected(phase, agent) or self.report_of(phase, agent)
        sums, squares, n = list(found.sums), list(found.squares), found.counts[arm]
        squares[arm] += 2 * by * sums[arm] + n * by**2
        sums[arm] += n * by
        return structs.replace(found, sums=tuple(sums), squares=tuple(squares))

    def correct(self, report, reason="a slip of the pen"):
        event = structs.replace(correction_of(self.trial, report), reason=reason)
        return self.let(event)

    def thaw(self, agent):
        return self.let(thaw(self.trial, agent).event("open again", ""))

    def report(self, count=None):
        for agent in self.trial.awaited[:count]:
            place = self.trial.study.agents.index(agent)
            totals = self.drawn(self.trial.plan.draws(place), place)
            self.let(ReportAccepted(report=reported(self.trial, place, totals.sums, totals.squares)))

    def drawn(self, counts, place):
        spread = self.spread if self.means is None else 0.0
        totals = rewards(counts, place, self.trial.phase, spread=spread)
        shift = 0.0 if self.means is None else np.array(self.means)[:, place]
        sums = totals.sums + totals.counts * shift
        return replace(totals, sums=sums, squares=totals.squares + 2 * shift * totals.sums + totals.counts * shift**2)

    def phase(self):
        self.report()
        step = self.trial.step()
        self.events.append(step.event)
        self.trial = self.trial.close(step)
        return self.trial

    def to_the_end(self, most=30):
        while self.trial.stage in (Stage.RUNNING, Stage.CLOSING):
            self.phase()
            assert self.trial.phase < most, "it runs away"
        return self.trial

    def certify(self):
        records, past = self.chain(self.events), self.trial.past
        decisions = [event.decision for event in self.events if hasattr(event, "decision")]
        data = [decision.data for decision in decisions]
        head = {"sequence": records[-1].sequence, "head": records[-1].hash, "version": "0.1.0"}
        corrected = [record.sequence for record in records if record.kind == "report-corrected"]
        certificate = issue_certificate(
            self.trial, data=data, decisions=decisions, phases=past, corrected_in=corrected, **head
        )
        self.let(Certified(certificate=certificate))
        return certificate

    def verified(self):
        found = verify_log(self.chain(self.events))
        assert found.sound, found.problem
        assert found.exact
        assert replay(self.events).state.to_json() == self.trial.state.to_json()
        return found


def six(policy="evidence", phases=1, spread=0.25, **study):
    course = Course(policy, spread=spread, **study)
    for _ in range(phases):
        course.phase()
    return course


def test_six_sites_one_lost_the_question_kept():
    """Who does not need the lost site gets an answer; the study ends, and says who has none and why."""
    course = six()
    course.freeze("agent 6")
    trial = course.to_the_end()
    assert trial.stage is Stage.STALLED
    assert {name for name, end in trial.ends.items() if end is OutcomeStatus.DECIDED} == {"agent 4", "agent 5"}
    blocked = {name for name, end in trial.ends.items() if end is OutcomeStatus.BLOCKED}
    assert blocked == {"agent 1", "agent 2", "agent 3", "agent 6"}
    certificate = course.certify()
    assert not certificate.complete
    assert "agent 1, agent 2, agent 3, agent 6" in certificate.guarantee
    assert certificate.ends["agent 1"] == "blocked"
    assert course.verified().certificate == certificate.digest


@pytest.mark.parametrize(
    ("policy", "tolerance"), first_quick(("evidence", 0.0), ("wcpe", 0.02), ("evidence", 0.02), ("wcpe", 0.0))
)
def test_six_sites_one_lost_re_weighed_everybody_else_is_decided(policy, tolerance):
    course = six(policy, tolerance=tolerance, spread=0.4)
    course.freeze("agent 6")
    trial = course.reweigh()
    assert np.array_equal(trial.state.counts, course.trial.past[0].counts)
    trial = course.to_the_end()
    assert trial.stage is Stage.FINISHED
    ends = trial.ends
    assert ends.pop("agent 6") is OutcomeStatus.LEFT
    assert all(end.answered for end in ends.values())
    certificate = course.certify()
    assert certificate.complete
    assert certificate.answers["agent 6"] == certificate.evidence["agents"][5]["chosen"] == []
    assert {arm["status"] for arm in certificate.evidence["agents"][5]["arms"]} == {"left"}
    assert all(certificate.answers[name] == ["arm 1"] for name in ends)
    assert "left without an answer: agent 6" in certificate.guarantee
    assert certificate.created == course.events[0].study.digest != certificate.problem
    course.verified()


@pytest.mark.simulations
def test_the_study_may_stall_first_and_be_re_weighed_then():
    course = six()
    course.freeze("agent 6")
    course.to_the_end()
    course.certify()
    phase = course.trial.phase
    trial = course.reweigh()
    assert (trial.stage, trial.phase) == (Stage.RUNNING, phase + 1)
    assert trial.plan.array[:, :3].any()
    assert not trial.plan.array[:, 5].any()
    assert course.to_the_end().stage is Stage.FINISHED
    assert verify_log(logged(course.events)).problem == "the study is over, but its certificate is not in the log"
    course.certify()
    course.verified()


def test_the_state_is_that_of_a_study_that_asked_from_the_start():
    """Under the new weights, the same draws: deviating reports, cut phases and an earlier freeze included."""
    course = six(phases=1)
    course.freeze("agent 5")
    course.report(count=3)
    course.let(PhaseClosedEarly(phase=2, reason="late", without=course.trial.awaited, consequences=""))
    course.phase()
    course.freeze("agent 6")
    course.report(count=1)
    trial, before = course.reweigh(), course.events[0].study
    asked = create("s", structs.replace(before, weights=trial.study.weights, delta=trial.study.problem.delta))
    policy = replace(asked.policy, idle=(4, 5), unasked=trial.policy.unasked)
    state = policy.start()
    for totals in trial.past:
        state = policy.update(state, totals)
    assert state.to_json() == trial.state.to_json()
    assert len(trial.past) == 2
    assert trial.stage is Stage.RUNNING
    course.verified()


def test_the_phase_in_progress_goes_on_as_it_was_asked():
    course = six()
    course.report(count=2)
    course.freeze("agent 6")
    before = course.trial
    trial = course.reweigh()
    assert (trial.plan, trial.reports, trial.awaited, trial.stage) == (
        before.plan, before.reports, before.awaited, before.stage)  # fmt: skip
    assert course.phase().plan.array[:, :5].any()
    course.verified()


def test_recorded_phases_that_answer_everything_end_the_study():
    """Agent 1's arms tie because agent 3 likes the other one; without agent 3 they never did."""
    weights, means = ((0.5, 0.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.0, 1.0)), ((1, 1, 0), (0, 0, 1), (-1, -1, -1))
    course = Course(agents=3, weights=weights, means=means, answers="each")
    while course.phase().state.active.sum(axis=0).tolist() != [2, 1, 1]:
        assert course.trial.phase < 10
    course.freeze("agent 3")
    course.report(count=1)
    shown = reweigh_preview(course.trial)
    assert shown.finished
    assert "ends at once" in shown.effect
    trial = course.reweigh()
    assert trial.stage is Stage.FINISHED
    assert trial.state.answers[:, 0].tolist() == [True, False, False]
    assert trial.ends["agent 3"] is OutcomeStatus.DECIDED, "it had its answer before it left"
    certificate = course.certify()
    assert certificate.samples == sum(int(totals.counts.sum()) for totals in trial.past)
    course.verified()


def test_who_can_be_weighed_anew_and_who_needs_weights():
    weights = ((0.5, 0.0, 0.0), (0.2, 0.0, 0.0), (0.3, 1.0, 1.0))
    study = study_message(agents=3, arms=3, policy="evidence", weights=weights)
    with pytest.raises(InvalidInput, match="nothing left in the mix of 'agent 2' without agent 3"):
        weights_without(study, ["agent 3"])
    found = weights_without(study, ["agent 3"], {"agent 2": (0.5, 0.5, 0.0)})
    assert np.allclose(found, [[5 / 7, 0.5, 0.0], [2 / 7, 0.5, 0.0], [0.0, 0.0, 1.0]])
    short = ([0.5, 0.5], [1.0, 0.5, -0.5], [0.5, 0.4, 0.0], ["x", 0, 1], [float("nan"), 0.5, 0.5])
    for wrong in (*short, [0.12345678, 0.87654322, 0], [0.3333333, 0.6666667, 0]):
        with pytest.raises(InvalidInput, match="weights"):
            weights_without(study, ["agent 3"], {"agent 2": wrong})
    with pytest.raises(InvalidInput, match="nobody"):
        weights_without(study, ["agent 3"], {"agent 2": (0.5, 0.5, 0.0), "nobody": (1.0, 0.0, 0.0)})


@pytest.mark.simulations
def test_the_shares_of_all_questions_that_can_be_asked_anew_sum_to_at_most_one():
    """Every set of lost sites, and every column with up to one decimal for every set of agents, of a study of three."""
    weights = ((0.5, 0.1, 0.3), (0.2, 0.6, 0.3), (0.3, 0.3, 0.4))
    study = study_message(agents=3, arms=3, policy="evidence", weights=weights)
    tenths = [np.array(parts) / 10 for parts in product(range(11), repeat=3) if sum(parts) == 10]
    total, asked = 0.0, set()
    for size in range(3):
        for lost in combinations(study.agents, size):
            for agent in (None, *study.agents):
                for column in tenths if agent else [None]:
                    weights = weights_without(study, lost, {agent: column} if agent else {})
                    if (lost, weights) not in asked and weights != study.weights:
                        asked.add((lost, weights))
                        total += share_of_delta(study, weights, lost)
    assert len(asked) > 1000
    assert 0.5 < total < 1
    wide = study_message(agents=6, arms=3, policy="evidence", weights=SIX)
    losses = [lost for size in range(1, 6) for lost in combinations(wide.agents, size)]
    asked = [(weights_without(wide, lost), lost) for lost in losses]
    shares = [share_of_delta(wide, weights, lost) for weights, lost in asked if weights != wide.weights]
    assert 0.7 < sum(shares) < 0.9
    assert shares[0] > shares[-1] > shares[30]
    given = (
        [1, 0, 0, 0, 0, 0],
        [0.5, 0.5, 0, 0, 0, 0],
        [0.25, 0.25, 0.5, 0, 0, 0],
    )  # the figures of docs/changes.md
    columns = [weights_without(wide, ["agent 6"], {"agent 1": column}) for column in given]
    shares = [share_of_delta(wide, weights, ["agent 6"]) for weights in columns]
    assert shares == pytest.approx([3.6e-6, 1.8e-9, 2.5e-14], rel=0.02)


def test_a_re_weighed_study_spends_its_share_and_claims_the_whole_of_delta():
    course = six()
    course.freeze("agent 6")
    shown = reweigh_preview(course.trial)
    trial = course.reweigh()
    share = share_of_delta(course.events[0].study, trial.study.weights, ["agent 6"])
    assert course.events[-1].delta == shown.delta == trial.study.problem.delta == 0.1 * share < 0.01
    assert "whatever anyone has seen so far" in shown.guarantee
    anew = (
        "the question was changed and is now asked with other weights. For every changed question, whatever was "
        "changed and why: all answers right with probability at least 0.9. For the question in force at the "
        "end of the study, changed or not: all answers right with probability at least 0.8"
    )
    assert anew in shown.guarantee
    course.to_the_end()
    certificate = course.certify()
    assert (certificate.delta, certificate.evidence["delta"]) == (0.1, trial.study.problem.delta)
    assert certificate.guarantee.startswith(f"{anew};")
    shown = certificate.evidence["estimates"]
    usual = estimates(trial.study.problem.with_(delta=0.1), course.trial.past).document()
    assert shown["level"] == usual["level"] == 0.9
    mean, same = (found["agents"][0]["arms"][0]["mean"] for found in (shown, usual))
    assert (mean["fixed_low"], mean["fixed_high"]) == (same["fixed_low"], same["fixed_high"])
    assert mean["low"] < same["low"], "the joint interval may spend its share of delta only"
    course.verified()
    place = next(place for place, event in enumerate(course.events) if isinstance(event, Reweighed))
    with pytest.raises(InvalidInput, match="'delta'"):
        apply(replay(course.events[:place]), structs.replace(course.events[place], delta=0.1))


def test_given_weights_that_are_the_usual_ones_up_to_rounding_are_the_usual_question():
    study = study_message(agents=2, arms=2, weights=((0.1 + 0.2, 0.5), (0.7, 0.5)))
    weights = weights_without(study, [], {"agent 1": (0.3, 0.7)})
    assert weights == study.weights
    assert share_of_delta(study, weights, []) == 1
    assert share_of_delta(study, ((0.3, 0.5), (0.7, 0.5)), []) == 1  # as a log may have it
    wide = study_message(agents=3, arms=2, weights=tuple(map(tuple, np.full((3, 3), 1 / 3).tolist())))
    assert weights_without(wide, ["agent 3"], {"agent 1": (0.5, 0.5, 0)}) == weights_without(wide, ["agent 3"])


def test_what_cannot_be_asked():
    course = six()
    with pytest.raises(InvalidInput, match="those in force"):
        course.reweigh()
    course.freeze("agent 6")
    with pytest.raises(InvalidInput, match="'agent 6', which is frozen"):
        course.reweigh({"agent 1": (0.5, 0, 0, 0, 0, 0.5)})
    for agent in ("agent 1", "agent 2", "agent 3", "agent 4"):
        course.freeze(agent)
    course.freeze("agent 5")
    with pytest.raises(InvalidInput, match="all of them frozen"):
        course.reweigh()
    other = Course(agents=3, policy="pf-ucb-bai")
    other.freeze("agent 1")
    with pytest.raises(IllegalMove, match="policy"):
        other.let(reweighed_anyhow(other))


def reweighed_anyhow(course):
    """An event for a study whose policy allows none."""
    nothing = {"left": (), "states": (), "dropped_in": ((0, 0, 0),) * 3, "plan": None, "consequences": ""}
    nothing["delta"] = 0.1
    weights = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.5), (0.0, 0.0, 0.5))
    return Reweighed(phase=course.trial.phase, reason="why", weights=weights, finished=False, **nothing)


def test_a_site_returns_within_the_phase_that_asks_it():
    course = six()
    course.freeze("agent 6")
    assert "agent 6" not in course.trial.awaited
    trial = course.thaw("agent 6")
    assert "agent 6" in trial.awaited
    assert trial.frozen == frozenset()
    course.phase()
    assert course.trial.past[1].counts[:, 5].any()
    with pytest.raises(IllegalMove, match="not frozen"):
        course.thaw("agent 6")
    course.verified()


@pytest.mark.simulations
def test_a_stalled_study_goes_on_when_its_site_returns():
    course = six()
    course.freeze("agent 6")
    course.to_the_end()
    course.certify()
    trial = course.thaw("agent 6")
    assert trial.stage is Stage.RUNNING
    assert trial.plan.array[:, 5].any()
    assert course.to_the_end().stage is Stage.FINISHED
    assert overall(course.trial.ends.values()) is OutcomeStatus.DECIDED
    course.certify()
    course.verified()


def test_a_stalled_study_may_go_on_waiting_for_another_site():
    course = Course(agents=3)
    course.phase()
    course.freeze("agent 1")
    course.freeze("agent 2")
    assert course.to_the_end().stage is Stage.STALLED
    course.certify()
    assert course.thaw("agent 2").stage is Stage.STALLED
    course.certify()
    course.verified()
    course.let(Cancelled(reason="enough"))
    course.certify()
    course.verified()


@pytest.mark.simulations
def test_after_a_re_weighing_a_site_returns_for_itself_and_re_weighed_again_for_all():
    course = six()
    course.freeze("agent 6")
    course.reweigh()
    trial = course.thaw("agent 6")
    assert trial.ends["agent 6"] is OutcomeStatus.OPEN, "its own question is asked again"
    assert not np.array(trial.study.weights)[5, :3].any(), "weights stay as they are"
    assert thaw_preview(six_frozen(), "agent 6").weighed_by
    original = course.reweigh()
    assert original.study == original.origin == course.events[0].study
    assert course.to_the_end().stage is Stage.FINISHED
    course.certify()
    course.verified()


def six_frozen():
    course = six()
    course.freeze("agent 6")
    return course.trial


def test_a_place_that_opens_while_the_phase_waits_for_nobody_opens_with_the_next():
    course = six(spread=0.02)
    course.freeze("agent 6")
    course.let(Paused(reason="look"))
    course.thaw("agent 6")
    assert "agent 6" in course.trial.awaited
    course.let(Resumed(reason="looked"))
    course.freeze("agent 6")
    for _ in range(len(course.trial.awaited) - 1):
        course.report(count=1)
    (last,) = course.trial.awaited
    course.let(AgentFrozen(agent=last, reason="closed", consequences=""))
    assert course.trial.stage is Stage.CLOSING
    course.let(Paused(reason="look"))
    trial = course.thaw("agent 6")
    assert trial.awaited == ()
    assert course.let(Resumed(reason="looked")).stage is Stage.CLOSING
    course.phase()
    assert course.trial.plan.array[:, 5].any() or course.trial.stage is Stage.STALLED
    course.verified()


def test_what_a_log_says_of_a_re_weighing_is_computed_again():
    course = six(phases=2)
    course.freeze("agent 6")
    trial = course.trial
    event = reweigh(trial, weights_without(trial.study, ["agent 6"])).event("closed", "")
    other = weights_without(trial.study, ["agent 6"], {"agent 1": (1.0, 0, 0, 0, 0, 0)})
    theirs = reweigh(trial, other).event("", "").delta
    # Legal: what was found under them is what differs, if at all.
    apply(trial, structs.replace(event, weights=other, delta=theirs))
    wrong = [
        {"left": ()},
        {"left": ("agent 1",)},
        {"dropped_in": tuple(tuple(1 - value for value in row) for row in event.dropped_in)},
        {"finished": True},
        {"states": event.states[:-1]},
        {"phase": 2},
        {"plan": trial.plan},
        {"weights": trial.study.weights},
        {"weights": other},
        {"delta": 0.1},
    ]
    for change in wrong:
        with pytest.raises((InvalidInput, IllegalMove)):
            apply(trial, structs.replace(event, **change))
    for place in range(2):
        lied = list(event.states)
        lied[place] = "0" * 64
        course.events.append(structs.replace(event, states=tuple(lied)))
        found = verify_log(logged(course.events))
        assert found.sound
        assert not found.exact, "rounding of another machine, or a state that was stored wrongly: said, not hidden"
        course.events.pop()


def test_both_ways_are_shown_before_a_freeze():
    course = six()
    shown = freeze_preview(course.trial, "agent 6")
    assert shown.keep.without == ("agent 1", "agent 2", "agent 3", "agent 6")
    assert shown.keep.open_pairs == 12
    assert shown.keep.expected == ("agent 4", "agent 5")
    assert shown.keep.samples > 0
    anew = shown.reweigh
    assert [column.agent for column in anew.columns] == ["agent 1", "agent 2", "agent 3"]
    assert anew.columns[0].after == pytest.approx([0.625, 0.25, 0.125, 0, 0, 0])
    assert anew.left == anew.projection.left == ("agent 6",)
    assert anew.projection.expected == ("agent 1", "agent 2", "agent 3", "agent 4", "agent 5")
    assert anew.projection.samples > shown.keep.samples
    course.freeze("agent 6")
    assert reweigh_preview(course.trial).digest == anew.digest
    course.reweigh()
    assert "from the next phase" not in thaw_preview(course.trial, "agent 6").effect
    assert "re-weigh" in thaw_preview(course.trial, "agent 6").effect
    unable = freeze_preview(Course("pf-ucb-bai", agents=3).trial, "agent 1")
    assert unable.reweigh is None
    assert "pf-ucb-bai" in unable.no_reweigh


def test_an_answer_of_the_old_question_is_withdrawn():
    """Agent 1 asks mostly about agent 3, which likes arm 2; without it, arms 1 and 2 are close."""
    weights, means = ((0.2, 0.0, 0.0), (0.0, 1.0, 0.0), (0.8, 0.0, 1.0)), ((0.02, 0.02, 0), (0, 0, 1), (-1, -1, -1))
    course = Course(agents=3, weights=weights, means=means, answers="each")
    while course.phase().ends["agent 1"] is not OutcomeStatus.DECIDED:
        assert course.trial.phase < 10
    assert course.trial.state.answers[:, 0].tolist() == [False, True, False]
    assert freeze_preview(course.trial, "agent 3").reweigh.withdrawn == ("agent 1",)
    course.freeze("agent 3")
    assert course.reweigh().ends["agent 1"] is OutcomeStatus.OPEN
    course.verified()


KINDS = {
    "plain": {},
    "scales": {"noise": {"kind": "gaussian", "scale": [1.0, 2.0, 0.5]}},
    "private": {"noise": {"kind": "bounded", "low": 0.0, "high": 1.0}, "rho": 0.5},
    "covariate": {
        "noise": {"kind": "gaussian", "scale": "unknown"},
        "covariate": "age",
        "covariate_range": (18.0, 100.0),
        "covariate_center": 60.0,
    },
    "outcomes": {
        "control": "arm 2",
        "outcomes": (
            {"name": "harm", "kind": "binary", "role": "guardrail", "better": "lower", "margin": 0.1, "delta": 0.05},
        ),
    },
    "priced": {"price": [[1.0, 2.0, 3.0]] * 4, "rate": [1.0, 2.0, 3.0], "day_cost": 0.5},
    "options": {"options": {"rounds": 4}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_asked_anew_is_that_of_a_study_made_with_it(kind):
    study = study_message(policy="evidence", **KINDS[kind])
    _ = study.text, study.digest, study.make_policy().line
    weights = weights_without(study, ["agent 3"])
    asked = ask_anew(study, weights, 0.01, [], ["arm 4"])
    made = structs.replace(study, weights=weights, delta=0.01, dormant=("arm 4",))
    assert (asked, asked.text, asked.digest) == (made, made.text, made.digest)
    assert asked.problem.stored() == made.problem.stored()
    assert asked.problem.noise == made.problem.noise
    assert asked.problem.outcomes == made.problem.outcomes
    assert np.array_equal(asked.problem.weights, made.problem.weights)
    one, other = asked.make_policy(), made.make_policy()
    assert (one.problem, one.line) == (asked.problem, other.line)
    assert np.array_equal(one.plan(one.start()), other.plan(other.start()))
    back = ask_anew(asked, study.weights, study.problem.delta)
    assert back.problem.dormant == ("arm 4",), "what is withdrawn stays withdrawn"


def test_a_question_that_the_policy_does_not_support_is_refused():
    study = study_message(policy="wcpe")
    with pytest.raises(InvalidInput, match="wcpe does not support dormant"):
        ask_anew(study, study.weights, 0.01, [], ["arm 4"])
    ragged = ((1.0, 0.0, 0.0), (0.0, 1.0), (0.0, 0.0, 1.0))
    with pytest.raises(InvalidInput, match="weights"):
        ask_anew(study, ragged, 0.01)
