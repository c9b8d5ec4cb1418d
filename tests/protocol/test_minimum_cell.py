"""A minimum cell in a live study: the log of one is sound, and a log with a smaller cell is not believed."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.protocol.support import rewards, study_message
from tests.support import first_quick

from parley.errors import InvalidInput
from parley.protocol import Record, Report, Stage, apply, create, verify_log
from parley.protocol.certificate import issue_certificate
from parley.protocol.events import AgentFrozen, Certified, ReportAccepted, StudyCreated, kind_of

CELL = 30


def answer(trial, name):
    """The report of an agent that is awaited."""
    place = trial.study.agents.index(name)
    totals = rewards(trial.plan.draws(place), place, trial.phase)
    return Report.of(totals, study=trial.id, phase=trial.phase, agent=name, plan=trial.plan.digest)


def full_phase(trial, events):
    for name in trial.awaited:
        events.append(ReportAccepted(report=answer(trial, name)))
        trial = apply(trial, events[-1])
    return trial


def history(message):
    """The events of a whole study, and where they lead."""
    trial = create("s", message)
    events = [StudyCreated(study_id="s", study=message, plan=trial.plan)]
    while trial.stage is not Stage.FINISHED:
        trial = full_phase(trial, events)
        step = trial.step()
        events.append(step.event)
        trial = trial.close(step)
    return events, trial


def logged(events):
    records = []
    for number, event in enumerate(events):
        records.append(
            Record.after(
                records[-1] if records else None, stream="s", at="2026-01-01T00:00:00Z", actor="somebody",
                kind=kind_of(event), payload=event.to_json(), salt=f"{number:032x}",
            )
        )  # fmt: skip
    return records


@pytest.mark.parametrize("policy", first_quick("evidence", "wcpe", "uniform"))
def test_the_log_of_a_study_with_a_minimum_cell_is_sound(policy):
    message = study_message(policy=policy, minimum_cell=CELL)
    events, trial = history(message)
    assert ((trial.state.counts == 0) | (trial.state.counts >= CELL)).all()
    data = [event.decision.data for event in events if kind_of(event) == "phase-closed"]
    records = logged(events)
    certificate = issue_certificate(trial, data=data, sequence=len(records), head=records[-1].hash, version="0.1.0")
    found = verify_log(logged([*events, Certified(certificate=certificate)]))
    assert found.sound, found.problem
    assert found.exact
    assert found.trial.study.problem.minimum_cell == CELL


@pytest.mark.parametrize("fewer", [1, CELL - 1])
def test_a_plan_with_a_cell_below_the_minimum_is_refused_even_by_a_single_draw(fewer):
    """One draw less is within the rounding that a plan is allowed, but not below the minimum."""
    message = study_message(policy="evidence", minimum_cell=CELL, largest_gap=8.0)
    events, _ = history(message)
    first = events[0].plan
    assert first.array.min() == CELL, "some cell stands on the minimum"
    for arm, agent in np.argwhere(first.array == CELL)[:3]:
        quotas = first.array.copy()
        quotas[arm, agent] -= fewer
        forged = replace(events[0], plan=replace(first, quotas=tuple(map(tuple, quotas.tolist()))))
        found = verify_log(logged([forged]))
        assert not found.sound
        assert f"{CELL - fewer} draws of {message.arms[arm]!r} by {message.agents[agent]!r}" in found.problem
        assert f"0 or at least {CELL}, the study's minimum cell" in found.problem


def test_a_later_plan_below_the_minimum_is_refused_too():
    events, _ = history(study_message(policy="wcpe", minimum_cell=CELL))
    place = next(i for i, event in enumerate(events) if kind_of(event) == "phase-closed" and event.plan is not None)
    quotas = events[place].plan.array.copy()
    quotas[tuple(np.argwhere(quotas > 0)[0])] = CELL - 1
    plan = replace(events[place].plan, quotas=tuple(map(tuple, quotas.tolist())))
    found = verify_log(logged([*events[:place], replace(events[place], plan=plan)]))
    assert not found.sound
    assert "the study's minimum cell" in found.problem


def test_rounding_may_still_give_or_take_one_draw_but_no_more():
    """Another machine may round 0 to 1 draw, which the minimum makes a whole cell; more than that is another plan."""
    trial = create("s", study_message(policy="evidence", minimum_cell=CELL, largest_gap=8.0))
    quotas = np.array(trial.plan.quotas)

    def recorded(count):
        changed = quotas.copy()
        changed[0, 0] = count
        plan = replace(trial.plan, quotas=tuple(map(tuple, changed.tolist())))
        return verify_log(logged([StudyCreated(study_id="s", study=trial.study, plan=plan)]))

    assert quotas[0, 0] == CELL
    for count in (0, CELL, CELL + 1):
        assert recorded(count).sound, count
    for count in (CELL + 2, 2 * CELL):
        assert "other counts" in recorded(count).problem


def test_frozen_agents_stay_frozen_and_the_others_keep_the_minimum():
    trial = create("s", study_message(policy="wcpe", minimum_cell=CELL))
    trial = full_phase(trial, [])
    trial = apply(trial, AgentFrozen(agent="agent 1", reason="why", consequences=""))
    trial = trial.close(trial.step())
    assert not trial.plan.array[:, 0].any()
    others = trial.plan.array[:, 1:]
    assert others.any()
    assert ((others == 0) | (others >= CELL)).all()


def test_a_report_of_fewer_draws_than_the_cell_is_refused():
    trial = create("s", study_message(policy="evidence", minimum_cell=CELL))
    report = answer(trial, "agent 1")
    with pytest.raises(InvalidInput, match="counts"):
        apply(trial, ReportAccepted(report=replace(report, counts=(CELL - 1, *report.counts[1:]))))
