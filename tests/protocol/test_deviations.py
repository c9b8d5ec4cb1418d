"""Other counts than planned: taken with a reason where the guarantee stays, and closed phases replayed to the byte."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs
from tests.protocol.support import rewards, study_message
from tests.protocol.test_minimum_cell import logged

from parley.errors import IllegalMove, ImpossibleReport, InvalidInput
from parley.protocol import Report, Stage, apply, create, read_log, verify_log
from parley.protocol.certificate import _as_far_as_complete, issue_certificate
from parley.protocol.events import Cancelled, Certified, PhaseClosedEarly, ReportAccepted, StudyCreated, read_event
from parley.protocol.messages import StudyMessage
from parley.protocol.previews import early_close_preview
from parley.protocol.report_checks import REASONS

STUDY = study_message(3, 3, "evidence")


def answer(trial, place, counts=None, **more):
    counts = trial.plan.draws(place) if counts is None else tuple(counts)
    where = {"study": trial.id, "phase": trial.phase, "agent": trial.study.agents[place], "plan": trial.plan.digest}
    return Report.of(rewards(counts, place, trial.phase), **where, **more)


def taken(trial, *arguments, **more):
    return apply(trial, ReportAccepted(report=answer(trial, *arguments, **more)))


def one_less(trial, place=0):
    return [count - 1 for count in trial.plan.draws(place)]


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        (-1, {}, "counts: found .*; allowed: the plan's, .*Others are taken with a `reason` .*too-few-people"),
        (-1, {"reason": "too-few-people"}, "final: found false; allowed: true"),
        (-1, {"reason": "the rewards", "final": True}, "reason: found 'the rewards'; allowed: missing-outcomes"),
        (0, {"reason": "too-few-people"}, "allowed: none, with the counts of the plan"),
        (0, {"missing": (1,)}, "missing: found .*; allowed: a count per arm"),
        (0, {"missing": (0, -1, 0)}, "missing: found"),
    ],
)
def test_a_deviation_says_why(change, more, words):
    trial = create("s", STUDY)
    with pytest.raises(ImpossibleReport, match=words):
        taken(trial, 0, [count + change for count in trial.plan.draws(0)], **more)


@pytest.mark.parametrize("reason", REASONS)
def test_fewer_and_more_are_taken_with_a_reason(reason):
    trial = create("s", STUDY)
    less = taken(trial, 0, one_less(trial), reason=reason, final=True)
    more = taken(less, 1, [count + 5 for count in trial.plan.draws(1)], reason=reason)
    assert len(more.reports) == 2


def test_the_rewards_are_no_reason():
    assert not any("reward" in word or "result" in word or "effect" in word for word in REASONS)


@pytest.mark.parametrize(
    ("policy", "terms", "taken_here"),
    [
        ("evidence", {}, True),
        ("wcpe", {}, True),
        ("uniform", {}, True),
        ("pf-ucb-bai", {}, False),
        ("evidence", {"site_counts": "exact"}, False),
        ("wcpe", {"site_counts": "flexible"}, True),
    ],
)
def test_flexible_by_default_where_the_guarantee_stays(policy, terms, taken_here):
    study = study_message(3, 3, policy, **terms)
    trial = create("s", study)
    if taken_here:
        assert taken(trial, 0, one_less(trial), reason="supply", final=True).reports
    else:
        with pytest.raises(ImpossibleReport, match="allowed: the plan's"):
            taken(trial, 0, one_less(trial), reason="supply", final=True)
        with pytest.raises(IllegalMove, match="needs the counts of the plan"):
            cut(taken(trial, 0))


def test_a_policy_that_needs_its_counts_refuses_to_be_flexible():
    with pytest.raises(InvalidInput, match=r"sites.counts: found 'flexible'"):
        study_message(3, 3, "pf-ucb-bai", site_counts="flexible")


def test_an_arm_that_was_not_asked_for_and_a_small_cell_are_refused():
    trial = create("s", study_message(3, 3, "evidence", minimum_cell=5))
    draws = trial.plan.draws(0)
    with pytest.raises(ImpossibleReport, match=r"counts\[1\]: found 4; allowed: 0 or at least 5"):
        taken(trial, 0, (draws[0], 4, draws[2]), reason="supply", final=True)
    assert taken(trial, 0, (draws[0], 0, draws[2]), reason="supply", final=True).reports
    idle = replace(trial, plan=structs.replace(trial.plan, quotas=((0, 9, 9), *trial.plan.quotas[1:])))
    with pytest.raises(ImpossibleReport, match=r"counts\[0\]: found 9; allowed: 0: the plan does not ask"):
        taken(idle, 0, (9, *idle.plan.draws(0)[1:]), reason="more-people")


def cut(trial, **changes):
    shown = early_close_preview(trial)
    event = PhaseClosedEarly(
        phase=trial.phase, reason="a site is closed", without=trial.awaited, consequences=shown.digest
    )
    return apply(trial, structs.replace(event, **changes))


def test_a_phase_is_closed_with_what_is_in():
    trial = create("s", STUDY)
    with pytest.raises(IllegalMove, match="no report of this phase is in"):
        cut(trial)
    trial = taken(taken(trial, 0), 1)
    shown = early_close_preview(trial)
    assert (shown.reported, shown.awaited) == (("agent 1", "agent 2"), ("agent 3",))
    assert shown.drawn == sum(map(sum, (trial.plan.draws(0), trial.plan.draws(1))))
    with pytest.raises(InvalidInput, match="other agents than were awaited"):
        cut(trial, without=())
    with pytest.raises(IllegalMove, match="the study is in phase 1"):
        cut(trial, phase=2)
    closed = cut(trial)
    assert (closed.stage, closed.awaited) == (Stage.CLOSING, ())
    with pytest.raises(IllegalMove):
        taken(closed, 2)
    step = closed.step()
    assert np.array(step.decision.counts)[:, 2].tolist() == [0, 0, 0]
    following = closed.close(step)
    assert (following.phase, following.closed_early, len(following.awaited)) == (2, False, 3)


def whole_log():
    """A study with fewer draws, missing people and a phase that was cut; cancelled, certified."""
    trial = create("s", STUDY)
    events = [StudyCreated(study_id="s", study=STUDY, plan=trial.plan)]

    def happen(event):
        nonlocal trial
        events.append(event)
        trial = apply(trial, event)

    happen(ReportAccepted(report=answer(trial, 0, one_less(trial), reason="too-few-people", final=True)))
    happen(ReportAccepted(report=answer(trial, 1, missing=(1, 0, 2))))
    shown = early_close_preview(trial)
    happen(PhaseClosedEarly(phase=1, reason="a site is closed", without=trial.awaited, consequences=shown.digest))
    first = trial.step()
    happen(first.event)
    for place in range(3):
        happen(ReportAccepted(report=answer(trial, place, missing=(0, 1, 0))))
    second = trial.step()
    happen(second.event)
    happen(Cancelled(reason="seen enough"))
    decisions = [first.decision, second.decision]
    last = logged(events)[-1]
    certificate = issue_certificate(
        trial,
        data=[decision.data for decision in decisions],
        decisions=decisions,
        sequence=last.sequence,
        head=last.hash,
        version="0.1.0",
    )
    return logged([*events, Certified(certificate=certificate)]), certificate


def test_the_whole_log_is_sound_and_the_certificate_tells_of_the_missing():
    records, certificate = whole_log()
    found = verify_log(records)
    assert found.sound, found.problem
    assert found.exact
    assert certificate.missing == ((0, 1, 0), (1, 1, 1), (0, 2, 0))
    assert certificate.to_json()["missing"] == [[0, 1, 0], [1, 1, 1], [0, 2, 0]]


@pytest.mark.parametrize("what", ["missing", "without", "reason"])
def test_what_is_changed_in_such_a_log_is_found(what):
    records, _ = whole_log()
    place = {"missing": 3, "without": 3, "reason": 1}[what]
    payload = {**records[place].payload}
    if what == "missing":
        place = next(index for index, record in enumerate(records) if record.kind == "phase-closed")
        payload = {**records[place].payload}
        payload["decision"] = {**payload["decision"], "missing": [[0, 0, 0]] * 3}
    elif what == "without":
        payload["without"] = []
    else:
        payload["report"] = {**payload["report"], "reason": "the rewards"}
    changed = [*records]
    changed[place] = structs.replace(records[place], payload=payload)
    assert not verify_log(relogged(changed)).sound


def relogged(records):
    """With hashes that fit again: only what the protocol recomputes can find the change."""
    from parley.protocol import read_event

    return logged([read_event(record.kind, record.payload) for record in records])


def test_a_report_without_deviation_is_written_as_before():
    report = answer(create("s", STUDY), 0)
    assert set(report.to_json()) == {"schema", "study", "phase", "agent", "plan", "counts", "sums", "squares"}
    assert StudyMessage.read(STUDY.text).digest == STUDY.digest
    assert "site_counts" not in STUDY.to_json()


GOLDEN = Path(__file__).parents[1] / "golden" / "protocol" / "log-closed-early.ndjson"


def test_the_golden_log_with_a_cut_phase_stays_sound():
    """Written once by `make generated`, which never rewrites it."""
    found = verify_log(read_log(GOLDEN.read_text(encoding="utf-8").splitlines()))
    assert found.sound, found.problem
    assert {"phase-closed-early", "certified"} <= {json.loads(line)["kind"] for line in GOLDEN.read_text().splitlines()}


def golden_files():
    """What `make generated` writes where it is missing."""
    return {GOLDEN: lambda: "".join(record.text + "\n" for record in whole_log()[0])}


def dropping(phases=8, dropped=6, most_missing=None, less=None):
    """A study of one agent whose site reports little in its first phases, "for reasons of its own"; then certified."""
    study = study_message(1, 2, "evidence", **({} if most_missing is None else {"most_missing": most_missing}))
    trial = create("s", study)
    events = [StudyCreated(study_id="s", study=study, plan=trial.plan)]
    decisions = []
    for phase in range(phases):
        kept = (0, 0) if less is None else [count - less for count in trial.plan.draws(0)]
        short = {"counts": kept, "reason": "staff", "final": True} if phase < dropped else {}
        events.append(ReportAccepted(report=answer(trial, 0, **short)))
        step = apply(trial, events[-1]).step()
        events.append(step.event)
        decisions.append(step.decision)
        trial = apply(apply(trial, events[-2]), events[-1])
        if trial.stage is not Stage.RUNNING:
            break
    if trial.stage is Stage.RUNNING:
        events.append(Cancelled(reason="seen enough"))
        trial = apply(trial, events[-1])
    last = logged(events)[-1]
    data = [decision.data for decision in decisions]
    certificate = issue_certificate(
        trial, data=data, decisions=decisions, sequence=last.sequence, head=last.hash, version="0.1.0"
    )
    return trial, logged([*events, Certified(certificate=certificate)]), certificate


def test_phases_that_a_site_drops_are_in_the_certificate_and_withdraw_the_guarantee():
    """Nothing reported unless the worse arm leads: 29 of 29 studies were wrong, and no certificate said a word."""
    trial, records, certificate = dropping()
    assert certificate.empty_phases == {trial.study.agents[0]: 6}
    assert np.array(certificate.left_out).sum() > np.array(certificate.samples)
    assert certificate.guarantee.startswith("withdrawn, because ")
    assert "the study allows at most 50 % of an arm" in certificate.guarantee
    assert verify_log(records).sound


def test_a_share_that_the_study_allows_is_a_condition_in_words():
    _, records, certificate = dropping(phases=2, dropped=1, less=1)
    assert certificate.empty_phases is None
    holds = "the guarantee holds only if they are missing for reasons unrelated to their outcomes"
    assert f"are missing from the reports: {holds}" in certificate.guarantee
    assert verify_log(records).sound
    _, _, strict = dropping(phases=2, dropped=1, less=1, most_missing=0.001)
    assert strict.guarantee.startswith("withdrawn, because ")


@pytest.mark.parametrize("name", ["left_out", "empty_phases", "guarantee"])
def test_a_certificate_that_hides_what_is_missing_is_found(name):
    _, records, certificate = dropping()
    hidden = {"left_out": (), "empty_phases": None, "guarantee": "all answers right"}[name]
    changed = structs.replace(certificate, **{name: hidden})
    events = [read_event(record.kind, record.payload) for record in records[:-1]]
    assert not verify_log(logged([*events, Certified(certificate=changed)])).sound


def test_counts_of_many_times_the_plan_are_refused_unless_the_study_states_it():
    trial = create("s", STUDY)
    for times in (4, 10**6):
        with pytest.raises(ImpossibleReport, match=r"3 times the plan \(sites\.most_times_plan\)"):
            taken(trial, 0, [times * count for count in trial.plan.draws(0)], reason="more-people")
    taken(trial, 0, [3 * count for count in trial.plan.draws(0)], reason="more-people")
    stated = create("s", study_message(3, 3, "evidence", most_times_plan=10.0))
    taken(stated, 0, [10 * count for count in stated.plan.draws(0)], reason="more-people")


@pytest.mark.parametrize(("arms", "said"), [(6, "5 % of arm 1 "), (7, "1 more arm "), (8, "2 more arms ")])
def test_at_most_six_arms_are_named_of_those_whose_draws_are_missing(arms, said):
    whole = ((95,),) * arms
    trial, decision = create("s", study_message(1, arms, "evidence")), SimpleNamespace(counts=whole, asked=whole)
    words = _as_far_as_complete("all answers right", trial, [decision], ((5,),) * arms, ())
    assert said + "are missing" in words
    assert words.count("5 % of arm") == min(arms, 6)
