"""Guardrails in a live study: an alarm stops an arm before anything is decided, and a replay finds the same."""

import json
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from tests.protocol.test_lost_sites import Course
from tests.protocol.test_trial import reported

from parley.errors import IllegalMove, InvalidInput
from parley.policies.guardrails import guardrails
from parley.protocol import Stage, apply, issue_certificate, verify_log
from parley.protocol.asking_anew import Anew, finding_event, open_arm, withdraw_arm
from parley.protocol.certificate import same_certificate
from parley.protocol.corrections import correction_preview
from parley.protocol.events import (
    AgentFrozen,
    ArmStopped,
    Certified,
    GuardrailNoted,
    Paused,
    ReportAccepted,
    kind_of,
    read_event,
)
from parley.protocol.messages import OutcomeTotals
from parley.protocol.outcome_findings import trial_outcomes
from parley.text.translation import Translatable, reading, translated
from parley.totals import Totals

HARM = {"name": "harm", "kind": "binary", "role": "guardrail", "better": "lower", "margin": 0.05, "delta": 0.05}
PAIN = {"name": "pain", "kind": "count", "role": "secondary", "better": "lower"}
MEANS = [[0.0] * 3, [0.5] * 3, [1.0] * 3]  # arm 3 is the best of all
SAFE, HARMFUL = (0.05, 0.05, 0.05), (0.05, 0.05, 0.5)
PAIRED = ((0.5, 0.5, 0.0, 0.0), (0.5, 0.5, 0.0, 0.0), (0.0, 0.0, 0.5, 0.5), (0.0, 0.0, 0.5, 0.5))


class Guarded(Course):
    """With a rate of harm per arm, the same at every agent, and a count of pains."""

    def __init__(self, rates=HARMFUL, outcomes=(HARM,), *, agents=3, means=MEANS, unequal=0.0, **study):
        self.rates, self.unequal = rates, unequal  # the second: of people's own rates of pain, around 1
        study = {"control": "arm 1", "outcomes": outcomes} | study
        super().__init__("evidence", agents=agents, means=[row[:1] * agents for row in means], **study)

    def further(self, place, counts):
        """The totals of every further outcome of an agent's draws."""
        generator = np.random.default_rng([place, self.trial.phase, 7])
        found = []
        for outcome in self.trial.study.problem.outcomes:
            if outcome.noise.kind == "binary":
                ones = generator.binomial(counts, self.rates).astype(float)
                totals = Totals(counts=counts, sums=ones, squares=ones)
            else:
                means = [
                    generator.gamma(1 / self.unequal, self.unequal, count) if self.unequal else 1.0 for count in counts
                ]
                drawn = [generator.poisson(mean, count) for mean, count in zip(means, counts, strict=True)]
                totals = Totals.of([row.tolist() for row in drawn])
            found.append(OutcomeTotals.of(outcome.name, totals))
        return tuple(found)

    def report(self, count=None):
        for agent in self.trial.awaited[:count]:
            place = self.trial.study.agents.index(agent)
            draws = np.array(self.trial.plan.draws(place))
            # Who learns that an arm is stopped draws it no more.
            gone = [self.trial.arms_withdrawn.get(arm) == self.trial.phase for arm in self.trial.study.arms]
            draws = np.where(gone, 0, draws)
            totals = self.drawn(draws, place)
            made = reported(self.trial, place, totals.sums, totals.squares)
            made = structs.replace(
                made,
                counts=tuple(draws.tolist()),
                squares=tuple(np.where(draws > 0, made.squares, 0.0).tolist()),
                outcomes=self.further(place, draws),
            )
            self.let(ReportAccepted(report=made))

    def tell(self):
        """Everything that the guardrails find, as the coordinator does."""
        while (found := self.trial.finding) is not None:
            made = finding_event(self.trial, found)
            self.let(made.event(found.reason, "") if isinstance(made, Anew) else made)

    def phase(self):
        self.report()
        self.tell()
        if self.trial.stage is Stage.CLOSING:
            step = self.trial.step()
            self.events.append(step.event)
            self.trial = self.trial.close(step)
        return self.trial

    def certify(self):
        records, decided = self.chain(self.events), [one.decision for one in self.events if hasattr(one, "decision")]
        certificate = issue_certificate(
            self.trial,
            data=[decision.data for decision in decided],
            decisions=decided,
            corrected_in=[record.sequence for record in records if record.kind == "report-corrected"],
            sequence=records[-1].sequence,
            head=records[-1].hash,
            version="0.1.0",
        )
        self.let(Certified(certificate=certificate))
        return certificate

    @property
    def kinds(self):
        return [kind_of(event) for event in self.events]


def test_the_best_arm_is_stopped_and_the_answer_is_the_best_of_the_others():
    course = Guarded()
    course.to_the_end()
    assert course.kinds.count("arm-stopped") == 1
    stop = course.kinds.index("arm-stopped")
    assert course.kinds[stop + 1] == "phase-closed", "before anything is decided on the reports that raised the alarm"
    assert course.trial.arms_withdrawn == {"arm 3": 1}
    assert not course.trial.plan.array[2].any()
    certificate = course.certify()
    assert {tuple(arms) for arms in certificate.answers.values()} == {("arm 2",)}
    assert "arm 3 was stopped by the guardrail harm" in certificate.guarantee
    assert "without arm 3" in certificate.guarantee
    assert [row["status"] for row in certificate.outcomes[0]["arms"] if row["arm"] == "arm 3"] == ["stopped"]
    course.verified()


def test_without_harm_nothing_is_stopped_and_the_guarantee_is_what_it_was():
    course, plain = Guarded(SAFE), Guarded(SAFE, outcomes=())
    course.to_the_end()
    plain.to_the_end()
    assert "arm-stopped" not in course.kinds
    assert course.certify().guarantee == plain.certify().guarantee
    assert course.trial.state.to_json() == plain.trial.state.to_json()
    course.verified()


def test_an_arm_is_cleared_and_that_is_told_once():
    course = Guarded(SAFE, (HARM | {"margin": 0.3},), means=[[0.0] * 3, [0.25] * 3, [0.5] * 3])
    course.to_the_end()
    cleared = [(event.arm, event.verdict) for event in course.events if isinstance(event, GuardrailNoted)]
    assert cleared == [(arm, "cleared") for arm in dict.fromkeys(arm for arm, _ in cleared)]
    assert cleared
    statuses = {row["arm"]: row["status"] for row in trial_outcomes(course.trial)[0]["arms"]}
    assert {arm for arm, status in statuses.items() if status == "cleared"} == {arm for arm, _ in cleared}
    course.certify()
    course.verified()


def test_an_alarm_is_proposed_where_the_study_says_so():
    course = Guarded(outcomes=(HARM | {"on_alarm": "propose"},))
    course.to_the_end()
    assert "arm-stopped" not in course.kinds
    noted = [event for event in course.events if isinstance(event, GuardrailNoted)]
    assert [(event.arm, event.verdict) for event in noted if event.verdict != "cleared"] == [("arm 3", "proposed")]
    assert {tuple(arms) for arms in course.certify().answers.values()} == {("arm 3",)}
    course.verified()


def test_the_last_arms_of_an_answer_are_not_stopped_by_themselves():
    limited = {key: value for key, value in HARM.items() if key != "margin"} | {"limit": 0.1}
    course = Guarded((0.5, 0.5, 0.5), outcomes=(limited,))
    course.to_the_end()
    assert course.kinds.count("arm-stopped") == 2
    noted = [event.verdict for event in course.events if isinstance(event, GuardrailNoted)]
    assert noted == ["proposed"]
    assert course.kinds.index("guardrail-noted") < course.kinds.index("arm-stopped"), "the last stop ends the study"
    assert course.trial.stage is Stage.FINISHED
    assert "the guardrail harm raised an alarm about" in course.certify().guarantee
    course.verified()


def test_an_alarm_comes_while_other_sites_are_in_mid_phase():
    """Agents 1 and 2 ask about each other alone: what they report is enough, and the arm is stopped everywhere."""
    course = Guarded(agents=4, weights=PAIRED)
    course.report(2)
    assert course.trial.stage is Stage.RUNNING
    course.tell()
    assert course.kinds[-1] == "arm-stopped"
    assert course.events[-1].agents == ("agent 1", "agent 2")
    course.report()  # with nothing of the arm
    assert course.trial.stage is Stage.CLOSING
    course.to_the_end()
    assert {tuple(arms) for arms in course.certify().answers.values()} == {("arm 2",)}
    course.verified()


def test_only_the_alarm_itself_is_translated_as_one():
    course = Guarded(agents=4, weights=PAIRED)
    course.report(2)
    course.tell()
    stop = read_event("arm-stopped", json.loads(course.events[-1].text))
    told = "the guardrail harm raised an alarm, in the mix of agent 1, agent 2"
    assert (stop.reason, stop.sentence) == (told, f"arm 3, in phase 1: {told}")
    assert stop.text == course.events[-1].text
    typed = "the guardrail bleeding raised an alarm, in the mix of Lyon"
    withdrawn = structs.replace(stop, guardrail="bleeding", agents=("Nancy",), reason=typed)
    others = [withdrawn, AgentFrozen(agent="arm 3, in Phase 1", reason=typed, consequences="")]
    with reading("bandit", "de"):
        assert translated(stop.sentence) == (
            "arm 3, in Phase 1: die Leitplanke harm hat Alarm ausgelöst, in der Mischung von agent 1, agent 2"
        )
        for event in others:
            assert translated(event.sentence) == f"arm 3, in Phase 1: {typed}"


def test_a_certificate_with_words_for_messages_is_the_same_and_with_others_it_is_not():
    course = Guarded(max_rounds=1)
    course.phase()
    certificate = course.certify()
    assert "the budget was reached first" in certificate.guarantee

    def with_words(document):
        """As certificates were: no messages among the values of messages."""
        texts = {
            key: Translatable.from_json(one) if isinstance(one, dict) else one
            for key, one in document["values"].items()
        }
        return {
            "message": document["message"],
            "values": {key: str(one) if isinstance(one, Translatable) else one for key, one in texts.items()},
        }

    def changed(messages):
        return structs.replace(certificate, messages=messages)

    said = certificate.messages
    older = {text: with_words(one) for text, one in said.items()}
    assert older != said
    assert same_certificate(changed(older), certificate) == same_certificate(certificate, certificate) == []
    document = older[certificate.guarantee]
    wrong = {"message": document["message"], "values": document["values"] | {"0": "no such words"}}
    for other in (
        older | {certificate.guarantee: wrong},
        {},
        older | {"more": wrong},
        older | {certificate.guarantee: str(certificate.guarantee)},
        older | {certificate.guarantee: document | {"values": list(document["values"])}},
    ):
        assert same_certificate(changed(other), certificate) == ["messages"]
    assert same_certificate(certificate, changed(older)) == ["messages"]


def test_a_shared_scale_waits_for_the_whole_phase():
    shared = {"name": "harm", "kind": "gaussian", "scale": "unknown, shared"} | {
        key: HARM[key] for key in ("role", "better", "margin", "delta")
    }
    course = Guarded(agents=4, weights=PAIRED, outcomes=(shared,))
    assert not guardrails(course.trial.study.problem)[0].settles_alone
    course.report(2)
    assert course.trial.finding is None


def closing(course):
    course.report()
    assert course.trial.stage is Stage.CLOSING
    return course


def test_no_phase_is_decided_while_an_alarm_is_not_told():
    course = closing(Guarded())
    with pytest.raises(InvalidInput, match="'arm 3' stopped by the guardrail 'harm', not told yet"):
        course.trial.step()


def test_a_log_without_the_alarm_is_not_sound():
    course = Guarded()
    course.phase()
    without = [event for event in course.events if not isinstance(event, ArmStopped)]
    assert "not told yet" in verify_log(course.chain(without)).problem


def test_a_log_with_an_alarm_that_nobody_raised_is_not_sound():
    course = closing(Guarded(SAFE))
    found = replace(withdraw_arm(course.trial, "arm 3"), kind=ArmStopped).trial
    honest = Guarded()
    honest.phase()
    stop = next(event for event in honest.events if isinstance(event, ArmStopped))
    assert found.arms_withdrawn == stop.withdrawn
    with pytest.raises(InvalidInput, match="an arm on which a guardrail raised an alarm"):
        apply(course.trial, stop)
    note = GuardrailNoted(phase=1, guardrail="harm", arm="arm 2", verdict="cleared", agents=course.trial.study.agents)
    with pytest.raises(InvalidInput, match="what the reports say"):
        apply(course.trial, note)


def test_a_stopped_arm_stays_closed():
    course = Guarded()
    course.phase()
    with pytest.raises(InvalidInput, match="which a guardrail stopped"):
        open_arm(course.trial, "arm 3")


def test_nothing_is_found_in_a_paused_study():
    course = closing(Guarded())
    course.let(Paused(reason="holiday"))
    assert course.trial.finding is None
    honest = Guarded()
    honest.phase()
    with pytest.raises(IllegalMove):
        apply(course.trial, next(event for event in honest.events if isinstance(event, ArmStopped)))


def test_the_phase_of_the_stop_never_counts_for_the_arm():
    course = Guarded(agents=4, weights=PAIRED)
    course.report(2)
    course.tell()
    course.report()
    course.to_the_end()
    assert course.trial.outcomes_past[0][0].counts[2].any()
    assert not course.trial.guarded[0].past.counts[2].any()
    folded = replace(course.trial, guards=None).guarded[0]
    assert np.array_equal(folded.log_alarm, course.trial.guarded[0].log_alarm)


def test_a_secondary_outcome_changes_nothing_of_the_primary_by_a_bit():
    plain, more = Guarded(SAFE, outcomes=()), Guarded(SAFE, outcomes=(PAIN,))
    for course in (plain, more):
        course.to_the_end()
    assert plain.trial.state.to_json() == more.trial.state.to_json()
    assert [one.decision.state for one in plain.events if hasattr(one, "decision")] == [
        one.decision.state for one in more.events if hasattr(one, "decision")
    ]
    one, other = plain.certify().to_json(), more.certify().to_json()
    [pains] = other.pop("outcomes")
    assert pains["role"] == "secondary"
    assert pains["arms"] == []
    assert all(cell["mean"]["low"] < cell["mean"]["high"] for agent in pains["agents"] for cell in agent["arms"])
    for key in ("answers", "guarantee", "evidence", "state", "samples", "delta", "ends"):
        assert one.get(key) == other.get(key), key
    more.verified()


def moved_harm(course, arm, rate):
    """Corrections of all decided reports: another share of the people with this arm were harmed."""
    first = [event.report for event in course.events if isinstance(event, ReportAccepted)]
    for report in first:
        [harm] = report.outcomes
        ones = list(harm.sums)
        ones[arm] = round(rate * harm.counts[arm])
        moved = structs.replace(harm, sums=tuple(ones), squares=tuple(ones) if harm.squares else harm.squares)
        if moved != harm:
            yield structs.replace(report, outcomes=(moved,))


def test_corrections_are_read_by_the_guardrails_too_and_a_stop_stands():
    course = Guarded()
    course.to_the_end()
    for report in moved_harm(course, 2, 0.05):
        course.correct(report)
    read = course.certify().with_corrections
    found = [(one["arm"], one["verdict"], one["with_corrections"]) for one in read["guardrails"]]
    assert [one[:2] for one in found] == [("arm 3", "alarm")]
    assert found[0][2] in ("cleared", "not cleared yet")
    assert set(course.trial.arms_withdrawn) == {"arm 3"}, "it stays closed"
    course.verified()


def test_harm_that_a_correction_shows_is_told_before_it_is_confirmed():
    course = Guarded(SAFE)
    course.to_the_end()
    for report in moved_harm(course, 1, 0.7):
        shown = correction_preview(course.trial, report)
        course.correct(report)
    assert [(one.guardrail, one.arm, one.with_corrections) for one in shown.guardrails] == [("harm", "arm 2", "alarm")]
    assert "the guardrail harm would have raised an alarm about arm 2" in shown.effect
    assert not course.trial.arms_withdrawn, "decisions stand"
    course.certify()
    course.verified()


def test_lost_sites_and_guardrails_together():
    """Re-weighed evidence may spend only its share of a guardrail's delta, and stops an arm all the same."""
    course = Guarded(agents=3, rates=(0.05, 0.05, 0.13))
    course.phase()
    course.freeze("agent 3")
    course.phase()
    if course.trial.stage is Stage.STALLED:
        course.reweigh()
    assert course.trial.stage in (Stage.RUNNING, Stage.FINISHED)
    before = Guarded(agents=3, rates=(0.05, 0.05, 0.13)).trial.guardrails[0].line
    if course.trial.study.weights != course.trial.claim.weights:
        assert course.trial.guardrails[0].line > before
    course.rates = HARMFUL
    course.to_the_end()
    course.certify()
    course.verified()


@pytest.mark.parametrize("role", ["secondary", "guardrail"])
def test_a_count_outcome_of_people_who_differ_is_told(role):
    """The guarantee of a guardrail is as good as its model."""
    more = {"margin": 1.0, "delta": 0.05} if role == "guardrail" else {}
    told = {}
    for unequal in (0.0, 3.0):
        course = Guarded(SAFE, ({**PAIN, "role": role, **more},), unequal=unequal)
        for _ in range(2):
            assert course.phase().stage is Stage.RUNNING
        told[unequal] = verify_log(course.chain(course.events)).warnings
    assert told[0.0] == ()
    assert told[3.0][0].startswith("pain: all rewards vary by about ")
    assert "variance over mean" in told[3.0][0]
