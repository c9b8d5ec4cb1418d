"""A report that is found wrong after its phase was decided: it is told beside, and no decision changes."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from tests.protocol.test_lost_sites import Course

from parley.errors import IllegalMove, ImpossibleReport
from parley.policies import POLICIES
from parley.protocol import Report, Stage, apply, verify_log
from parley.protocol.corrections import correction_of, correction_preview, read_anew
from parley.protocol.events import Cancelled, Certified, ReportAccepted, ReportCorrected
from parley.protocol.lost_sites import folded

MEANS = [[2.5] * 3, [0.5] * 3, [0.0] * 3]  # decided in the second phase
AGENTS = ("agent 1", "agent 2", "agent 3")


def course(policy="evidence", phases=None, **study):
    made = Course(policy, agents=3, means=MEANS, **study)
    for _ in range(phases or 0):
        made.phase()
    if phases is None:
        made.to_the_end()
    return made


def everything_moved(made, by=-4.0):
    """Rewards of arm 1 were reported larger than they were, and those of arm 2 smaller, by everybody."""
    for phase, settled in enumerate(made.trial.settled, start=1):
        for agent in settled.reports:
            made.correct(made.corrected(phase, agent, by))
            made.correct(made.corrected(phase, agent, -by, arm=1))


def test_past_decisions_stand_and_the_certificate_tells_how_it_would_read():
    made = course()
    first = made.certify()
    everything_moved(made)
    assert made.trial.stage is Stage.FINISHED
    last = made.certify()
    assert last.answers == first.answers == {agent: ["arm 1"] for agent in AGENTS}
    for field in ("state", "data", "evidence", "samples", "phases", "ends", "complete"):
        assert getattr(last, field) == getattr(first, field), field
    assert (first.corrections, first.with_corrections) == ((), None)
    assert "corrected" not in first.guarantee
    assert last.guarantee.startswith(first.guarantee)
    assert f"{len(made.trial.corrections)} reports were corrected" in last.guarantee
    assert [one.sequence for one in last.corrections] == [
        record.sequence for record in made.chain(made.events) if record.kind == "report-corrected"
    ]
    assert {one.reason for one in last.corrections} == {"a slip of the pen"}
    read = last.with_corrections
    assert set(read["would_change"].values()) == {"yes"}
    assert read["answers"] == {agent: ["arm 2"] for agent in AGENTS}
    found = {(one["agent"], one["arm"]): (one["dropped_in"], one["with_corrections"]) for one in read["other_phases"]}
    assert found["agent 1", "arm 2"] == (2, 0)
    assert found["agent 1", "arm 1"] == (0, 2)
    assert "guarantee" not in read["evidence"]
    found = made.verified()
    assert found.certificate == last.digest
    assert len(found.corrected) == len(made.trial.corrections)


def test_a_correction_changes_nothing_that_is_decided_later():
    plain, mended = course(phases=1), course(phases=1)
    mended.correct(mended.corrected(1, "agent 2", -4.0))
    for made in (plain, mended):
        made.to_the_end()
    assert mended.trial.state.to_json() == plain.trial.state.to_json()
    assert [event for event in mended.events if not isinstance(event, ReportCorrected)] == plain.events
    assert mended.trial.past == plain.trial.past


def test_the_reading_is_the_fold_of_the_corrected_phases_along_the_plans_as_they_were():
    made = course()
    report = made.corrected(1, "agent 2", 0.25, arm=1)
    made.correct(report)
    again = made.corrected(2, "agent 1", -0.125)
    made.correct(again)
    found, past = read_anew(made.trial), made.trial.past
    policy, state = made.trial.policy, made.trial.policy.start()
    for totals, place, mine in zip(past, (1, 0), (report, again), strict=True):
        sums, squares = totals.sums.copy(), totals.squares.copy()
        sums[:, place], squares[:, place] = mine.sums, mine.squares
        state = policy.update(state, replace(totals, sums=sums, squares=squares))
    assert state.to_json() == found.after.to_json()
    assert folded(policy, past)[-1].to_json() == found.before.to_json() == made.trial.state.to_json()


@pytest.mark.parametrize(
    "policy", sorted(name for name in POLICIES if name not in ("oracle", "oracle-regret", "uniform"))
)
def test_every_policy_reads_anew_what_it_decided(policy):
    horizon = {"horizon": 3000} if "horizon" in POLICIES[policy].supports else {}
    made = course(policy, phases=1, **horizon)
    same = read_anew(made.trial)
    assert same.after.to_json() == made.trial.state.to_json()
    assert set(same.would_change.values()) == {"no"}
    assert same.other_phases == ()
    everything_moved(made)
    assert not np.array_equal(read_anew(made.trial).after.sums, made.trial.state.sums)


def test_an_arm_that_would_not_have_been_dropped_then_is_named():
    made = course()
    dropped = {agent: int(made.trial.state.dropped_in[1, place]) for place, agent in enumerate(AGENTS)}
    phase = max(dropped.values())
    for agent in AGENTS:
        made.correct(made.corrected(phase, agent, 2.5, arm=1))
    read = made.certify().with_corrections
    assert set(read["would_change"].values()) == {"undecided"}
    shown = read["other_phases"]
    assert shown
    assert all(one["dropped_in"] == dropped[one["agent"]] for one in shown if one["arm"] == "arm 2")
    assert all(one["with_corrections"] != one["dropped_in"] for one in shown)


def test_the_last_correction_counts_and_all_are_kept():
    made = course(phases=1)
    for by in (0.1, 0.2, -0.25):
        made.correct(made.corrected(1, "agent 3", by))
    assert len(made.trial.corrections) == 3
    assert made.trial.corrections[2].replaces == made.trial.corrections[1].report.digest
    read = read_anew(made.trial)
    assert read.phases[0].sums[0, 2] == made.trial.corrections[2].report.sums[0]
    made.correct(made.report_of(1, "agent 3"), "it was right after all")
    assert read_anew(made.trial).after.to_json() == made.trial.state.to_json()


def test_two_who_correct_the_same_report_do_not_overwrite_each_other():
    made = course(phases=1)
    one, other = (correction_of(made.trial, made.corrected(1, "agent 1", by)) for by in (0.1, 0.2))
    made.let(one)
    with pytest.raises(IllegalMove, match="corrected meanwhile") as refused:
        apply(made.trial, other)
    assert refused.value.reason == "changed-meanwhile"


def test_what_cannot_be_corrected():
    made = course(phases=1)
    good = made.corrected(1, "agent 1", 0.1)

    def refused(report, words, kind=IllegalMove):
        event = correction_of(made.trial, report)
        with pytest.raises(kind, match=words) as found:
            apply(made.trial, event)
        with pytest.raises(kind, match=words):
            correction_preview(made.trial, report)
        return found.value

    made.report(1)
    refused(made.report_of(2, "agent 1"), "phase 2 is not decided: until then its reports are amended")
    refused(made.report_of(1, "agent 1"), "nothing to correct")
    refused(structs.replace(good, study="other"), "it is of 'other'")
    assert refused(structs.replace(good, agent="nobody"), "no report of 'nobody'").reason == "not-found"
    assert refused(structs.replace(good, plan="0" * 64), "another plan").reason == "wrong-plan"
    counts = (good.counts[0] - 1, *good.counts[1:])
    refused(structs.replace(good, counts=counts), "counts: found", ImpossibleReport)
    refused(structs.replace(good, squares=(0.0, *good.squares[1:])), "squares", ImpossibleReport)
    refused(structs.replace(good, releases=2), "releases", ImpossibleReport)
    made.let(Cancelled(reason="why"))
    refused(made.report_of(2, "agent 1"), "no report of 'agent 1' was decided on in phase 2")
    made.correct(good)
    made.certify()
    made.verified()


def test_of_a_withdrawn_arm_what_was_taken_then_may_be_corrected_once_it_is_open_again():
    made = Course(agents=3, arms=3, means=[[0.35] * 3, [0.3] * 3, [0.2] * 3])
    made.phase()
    made.withdraw_arm("arm 3")
    for agent in made.trial.awaited:  # none of it is drawn, and no reason is asked for
        place = made.trial.study.agents.index(agent)
        totals = made.drawn((*made.trial.plan.draws(place)[:2], 0), place)
        where = {"study": "s", "phase": 2, "agent": agent, "plan": made.trial.plan.digest}
        made.let(ReportAccepted(report=Report.of(totals, **where)))
    made.phase()
    made.open_arm("arm 3")
    made.correct(made.corrected(2, "agent 1", 0.1))
    made.verified()


def test_other_counts_are_corrected_with_a_reason_as_in_a_first_report():
    made = course(phases=1)
    good = made.report_of(1, "agent 1")
    fewer = structs.replace(
        good,
        counts=(good.counts[0] - 1, *good.counts[1:]),
        sums=(good.sums[0] * (1 - 1 / good.counts[0]), *good.sums[1:]),
        squares=(good.squares[0] * (1 - 1 / good.counts[0]), *good.squares[1:]),
        reason="missing-outcomes",
        final=True,
    )
    made.correct(fewer)
    assert read_anew(made.trial).after.counts[0, 0] == good.counts[0] - 1
    made.correct(good)


def test_a_preview_shows_the_cells_and_whose_answer_would_change():
    made = course()
    quiet = correction_preview(made.trial, made.corrected(1, "agent 1", 0.001, arm=1))
    assert [cell.arm for cell in quiet.cells] == ["arm 2"]
    assert quiet.cells[0].sums == (made.report_of(1, "agent 1").sums[1], quiet.cells[0].sums[1])
    assert quiet.effect.endswith("With the corrections, no answer would change")
    everything_moved(made)
    loud = correction_preview(made.trial, made.corrected(1, "agent 1", 0.001, arm=1))
    assert set(loud.would_change.values()) & {"yes", "undecided"}
    assert "would have" in loud.effect
    assert loud.digest != quiet.digest
    assert read_anew(made.trial).meaning in loud.guarantee


def test_a_certificate_that_does_not_tell_is_found():
    made = course()
    made.certify()
    everything_moved(made, -0.01)
    last = made.certify()
    for change in ({"corrections": ()}, {"with_corrections": None}):
        events = [*made.events[:-1], Certified(certificate=structs.replace(last, **change))]
        assert "certificate" in (verify_log(made.chain(events)).problem or ""), change
    assert "its certificate is not in the log" in verify_log(made.chain(made.events[:-1])).problem


def test_the_words_say_what_the_reading_rests_on():
    assert "the choice of the reports to check again" in read_anew(course(phases=1).trial).meaning
    own = read_anew(course("pf-ucb-bai", phases=1).trial).meaning
    assert "No error probability can be stated for this" in own
