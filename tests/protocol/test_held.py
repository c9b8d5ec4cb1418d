"""A report that the stated model rules out is held until an administrator accepts or refuses it."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.protocol.support import rewards, study_message
from tests.protocol.test_minimum_cell import logged

from parley.errors import IllegalMove
from parley.protocol import Report, Stage, apply, create, read_log, verify_log
from parley.protocol.events import (
    AgentFrozen,
    Paused,
    PhaseClosedEarly,
    ReportAccepted,
    ReportAmended,
    ReportQuarantined,
    ReportRefused,
    Resumed,
    StudyCreated,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "protocol" / "log-held.ndjson"
STUDY = study_message(2, 3, "evidence")


def sent(trial, place, off=0.0):
    """A report; with `off` added to the mean of the first arm."""
    totals = rewards(trial.plan.draws(place), place, trial.phase)
    told = Report.of(totals, study="s", phase=trial.phase, agent=STUDY.agents[place], plan=trial.plan.digest)
    n, total, square = told.counts[0], told.sums[0], told.squares[0]
    sums, squares = (total + n * off, *told.sums[1:]), (square + 2 * off * total + n * off**2, *told.squares[1:])
    return replace(told, sums=sums, squares=squares) if off else told


def held(report, why="why"):
    return ReportQuarantined(report=report, stands="", why=why)


def refused(report):
    return ReportRefused(phase=report.phase, agent=report.agent, report=report.digest, reason="a slip of the pen")


def taken(report):
    return ReportAmended(report=report, replaces="", reason="it is right")


def reason(trial, event):
    with pytest.raises(IllegalMove) as caught:
        apply(trial, event)
    return caught.value.reason


def test_it_is_not_taken_but_held_and_only_it():
    trial = create("s", STUDY)
    far, good = sent(trial, 0, 1e11), sent(trial, 0)
    assert reason(trial, ReportAccepted(report=far)) == "report-implausible"
    assert reason(trial, held(good)) == "illegal-move"
    waits = apply(trial, held(far))
    assert waits.awaited == trial.awaited, "it is not counted"
    assert reason(waits, ReportAccepted(report=far)) == reason(waits, ReportAccepted(report=good)) == "report-held"
    assert reason(waits, held(sent(trial, 0, 2e11))) == "report-held"
    assert apply(waits, ReportAccepted(report=sent(trial, 1))).awaited == (STUDY.agents[0],)


def test_who_refuses_it_gets_another_and_who_takes_it_goes_on():
    trial = create("s", STUDY)
    far, good = sent(trial, 0, 1e11), sent(trial, 0)
    waits = apply(apply(trial, ReportAccepted(report=sent(trial, 1))), held(far))
    free = apply(waits, refused(far))
    assert reason(free, ReportAccepted(report=far)) == reason(free, held(far)) == "report-refused"
    assert apply(free, ReportAccepted(report=good)).stage is Stage.CLOSING
    assert apply(waits, taken(far)).stage is Stage.CLOSING
    assert apply(waits, taken(good)).reports[STUDY.agents[0]] == good, "or another, which the agent told otherwise"
    paused = apply(waits, Paused(reason="why"))
    assert apply(apply(paused, taken(far)), Resumed(reason="why")).stage is Stage.CLOSING
    assert apply(apply(paused, refused(far)), Resumed(reason="why")).awaited == (STUDY.agents[0],)


def test_nothing_is_decided_on_what_is_not_held_any_more():
    trial = create("s", STUDY)
    far = sent(trial, 0, 1e11)
    waits = apply(apply(trial, ReportAccepted(report=sent(trial, 1))), held(far))
    gone = apply(waits, AgentFrozen(agent=far.agent, reason="why", consequences=""))
    cut = apply(waits, PhaseClosedEarly(phase=1, reason="why", without=waits.awaited, consequences=""))
    for after in (trial, gone, cut, apply(waits, taken(far))):
        for event in (taken(far), refused(far)):
            assert reason(after, event) in ("not-found", "phase-closed", "illegal-move")
    assert reason(waits, refused(sent(trial, 0, 2e11))) == "not-found"


def test_a_later_phase_is_held_against_the_earlier_ones_and_begins_with_nothing_held():
    trial = create("s", STUDY)
    trial = apply(trial, held(sent(trial, 0, 1e11)))
    trial = apply(trial, taken(sent(trial, 0)))
    trial = apply(trial, ReportAccepted(report=sent(trial, 1)))
    trial = trial.close(trial.step())
    assert (trial.phase, trial.held, trial.refused) == (2, {}, frozenset())
    assert reason(trial, ReportAccepted(report=sent(trial, 0, 5.0))) == "report-implausible"
    assert apply(trial, ReportAccepted(report=sent(trial, 0, 0.1)))


def story():
    """Held and refused; another; held and taken. The events, and where they lead."""
    trial = create("s", STUDY)
    events = [StudyCreated(study_id="s", study=STUDY, plan=trial.plan)]
    far = sent(trial, 0, 1e11)
    first = [held(far, "the mean is far"), refused(far), ReportAccepted(report=sent(trial, 0))]
    for event in (*first, held(sent(trial, 1, -1e9)), taken(sent(trial, 1, -1e9))):
        trial = apply(trial, event)
        events.append(event)
    step = trial.step()
    return [*events, step.event], trial.close(step)


def test_the_log_is_sound_the_golden_one_too_and_one_that_took_it_is_not():
    events, trial = story()
    found = verify_log(logged(events))
    assert found.sound, found.problem
    assert found.trial.reports == trial.reports
    golden = verify_log(read_log(GOLDEN.read_text(encoding="utf-8").splitlines()))
    assert golden.sound, golden.problem
    assert golden.phases == 1
    wrong = verify_log(logged([events[0], ReportAccepted(report=events[1].report)]))
    assert "the mean" in wrong.problem


def golden_files():
    """What `make generated` writes where it is missing."""
    return {GOLDEN: lambda: "".join(record.text + "\n" for record in logged(story()[0]))}
