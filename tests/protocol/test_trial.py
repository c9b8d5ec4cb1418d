import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.protocol.support import study_message

from parley.errors import IllegalMove, ImpossibleReport, InvalidInput
from parley.policies import make_policy
from parley.protocol import EVENTS, TRANSITIONS, Plan, Report, Stage, StudyMessage, apply, check_report, create, replay
from parley.protocol.asking_anew import thaw
from parley.protocol.events import (
    AgentFrozen,
    ArmOpened,
    ArmStopped,
    ArmWithdrawn,
    Cancelled,
    Certified,
    Disputed,
    GuardrailNoted,
    Paused,
    PhaseClosedEarly,
    ReportAccepted,
    ReportAmended,
    ReportCorrected,
    ReportQuarantined,
    ReportRefused,
    ResultsRead,
    Resumed,
    Reweighed,
    Signed,
    StepFailed,
    StudyCreated,
    kind_of,
)
from parley.protocol.lost_sites import share_of_delta
from parley.protocol.state_machine import allowed
from parley.rewards import Noise
from parley.rewards.plausibility import LARGEST_REWARD
from parley.simulation import phase_totals, phases
from parley.study import load_study

ROOT = Path(__file__).parents[2]


def reported(trial, place, sums=None, squares=None):
    counts = np.array(trial.plan.draws(place))
    sums = counts * 0.5 if sums is None else sums
    squares = np.square(sums) + counts + 1.0 if squares is None else squares
    return Report(
        study=trial.id,
        phase=trial.phase,
        agent=trial.study.agents[place],
        plan=trial.plan.digest,
        counts=tuple(counts.tolist()),
        sums=tuple(np.asarray(sums).tolist()),
        squares=tuple(np.where(counts > 0, squares, 0.0).tolist()),
    )


@pytest.mark.parametrize("policy", ["wcpe", "uniform", "evidence"])
@pytest.mark.parametrize("name", ["paper", "two-by-two", "two-alone"])
@pytest.mark.parametrize("cell", [1, 700])
def test_simulator_and_trial_decide_alike_on_the_same_rewards(policy, name, cell):
    study = load_study(ROOT / "examples" / f"{name}.toml")
    problem = study.problem.with_(minimum_cell=cell)
    changes = {"policy": policy, "options": {}, "minimum_cell": cell}
    message = StudyMessage.from_json({**StudyMessage.of(study).to_json(), **changes})
    trial = create("s", message)
    events = [StudyCreated(study_id="s", study=message, plan=trial.plan)]
    for phase in phases(make_policy(policy, problem), study.instance, seed=3):
        assert ((phase.quotas == 0) | (phase.quotas >= cell)).all()
        assert np.array_equal(trial.plan.array, phase.quotas)
        sums = phase_totals(study.instance, seed=3, phase=phase.number - 1, counts=trial.plan.array).sums
        for place in range(len(message.agents)):
            if trial.plan.array[:, place].any():
                events.append(ReportAccepted(report=reported(trial, place, sums[:, place])))
                trial = apply(trial, events[-1])
        assert trial.stage is Stage.CLOSING
        step = trial.step()
        events.append(step.event)
        trial = trial.close(step)
        for field in ("counts", "sums", "active", "dropped_in", "phase", "finished"):
            assert np.array_equal(getattr(trial.state, field), getattr(phase.after, field)), field
    assert trial.stage is Stage.FINISHED
    again = replay(events)
    assert again.state.to_json() == trial.state.to_json()
    assert again.stage is Stage.FINISHED


def trial_at(stage):
    """A trial at a stage, reached by legal events."""
    trial = create("s", study_message(agents=2, arms=2, policy="uniform"))
    if stage is Stage.RUNNING:
        return trial
    if stage is Stage.PAUSED:
        return apply(trial, Paused(reason="why"))
    if stage is Stage.CANCELLED:
        return apply(trial, Cancelled(reason="why"))
    if stage is Stage.STALLED:
        alone = create("s", study_message(agents=2, arms=2, policy="uniform", weight=1.0))
        for agent in alone.study.agents:
            alone = apply(alone, AgentFrozen(agent=agent, reason="why", consequences=""))
        return alone.close(alone.step())
    while trial.stage is not stage:
        for place in range(2):
            counts = np.array(trial.plan.draws(place))
            trial = apply(trial, ReportAccepted(report=reported(trial, place, counts * np.array([1.0, 0.0]))))
        if stage is Stage.CLOSING:
            return trial
        trial = trial.close(trial.step())
    return trial


def any_question(trial, kind=Reweighed, **arm):
    """Weights that could be asked for, or an arm."""
    weights = ((1.0, 0.5), (0.0, 0.5))
    nothing = {"left": (), "states": (), "dropped_in": ((0, 0), (0, 0)), "plan": None, "consequences": ""}
    nothing["delta"] = 0.1 * share_of_delta(trial.study, weights, ())
    return kind(phase=trial.phase, reason="why", weights=weights, finished=False, **nothing, **arm)


def any_event(trial, kind):
    """An event of a kind, as well-formed as it can be at this trial."""
    report = reported(trial, 0)
    standing = trial.reports.get(report.agent, report)
    made = {
        "study-created": lambda: StudyCreated(study_id="s", study=trial.study, plan=trial.plan),
        "report-accepted": lambda: ReportAccepted(report=report),
        "report-quarantined": lambda: ReportQuarantined(report=report, stands=standing.digest),
        "report-amended": lambda: ReportAmended(report=report, replaces=standing.digest, reason="why"),
        "report-corrected": lambda: ReportCorrected(
            report=report, replaces=standing.digest, reason="why", consequences=""
        ),
        "report-refused": lambda: ReportRefused(
            phase=trial.phase, agent=report.agent, report=report.digest, reason="why"
        ),
        "phase-closed": lambda: trial.step().event,
        "step-failed": lambda: StepFailed(phase=trial.phase, error="why"),
        "agent-frozen": lambda: AgentFrozen(agent=trial.study.agents[0], reason="why", consequences=""),
        "agent-thawed": lambda: thaw(trial, trial.study.agents[0]).event("why", ""),
        "reweighed": lambda: any_question(trial),
        "arm-opened": lambda: any_question(trial, ArmOpened, arm="arm 1", opened={"arm 1": trial.phase}),
        "arm-withdrawn": lambda: any_question(trial, ArmWithdrawn, arm="arm 1", withdrawn={"arm 1": trial.phase}),
        "arm-stopped": lambda: any_question(
            trial, ArmStopped, arm="arm 1", withdrawn={"arm 1": trial.phase}, guardrail="harm", agents=("agent 1",)
        ),
        "guardrail-noted": lambda: GuardrailNoted(
            phase=trial.phase, guardrail="harm", arm="arm 1", verdict="cleared", agents=("agent 1",)
        ),
        "phase-closed-early": lambda: PhaseClosedEarly(
            phase=trial.phase, reason="why", without=trial.awaited, consequences=""
        ),
        "paused": lambda: Paused(reason="why"),
        "resumed": lambda: Resumed(reason="why"),
        "disputed": lambda: Disputed(agent="a", sequence=1, head="0"),
        "cancelled": lambda: Cancelled(reason="why"),
        "results-read": lambda: ResultsRead(phase=trial.phase, operation="get_findings"),
        "signed": lambda: Signed(principal="viewer:ada", name="Ada", meaning="approved the protocol"),
    }
    assert kind in made, f"add an event of the kind {kind!r} to any_event()"
    return made[kind]()


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("kind", [kind for kind in EVENTS if kind != "certified"])
def test_every_move_is_in_the_table_or_refused_with_the_state_unchanged(stage, kind):
    trial = trial_at(stage)
    assert trial.stage is stage
    before = (trial.stage, trial.state.to_json(), trial.plan, dict(trial.reports), trial.frozen)
    event = any_event(trial, kind)
    targets = TRANSITIONS.get((stage, kind))
    if targets is None:
        with pytest.raises(IllegalMove, match=kind):
            apply(trial, event)
    else:
        try:
            assert apply(trial, event).stage in targets
        except InvalidInput:  # a study without guardrails finds nothing
            if kind != "guardrail-noted":
                raise
        except IllegalMove:  # legal here, but not for what this trial holds
            amends = ("report-amended", "report-refused", "report-corrected", "phase-closed-early", "agent-thawed")
            assert kind in (*amends, "reweighed", "arm-opened", "arm-withdrawn", "arm-stopped")
            assert not (trial.reports and kind.startswith(("report", "phase")) and kind not in amends[1:3])
    assert (trial.stage, trial.state.to_json(), trial.plan, dict(trial.reports), trial.frozen) == before


def test_every_kind_of_event_has_a_row_in_the_table():
    assert {kind for _, kind in TRANSITIONS} == set(EVENTS) - {"study-created"}
    assert kind_of(Paused(reason="x")) in allowed(Stage.RUNNING)
    assert Certified.schema.startswith("parley/event/certified/")


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_order_of_reports_does_not_matter(data):
    trial = create("s", study_message(agents=4, arms=3, policy="uniform"))
    order = data.draw(st.permutations(range(4)))
    one = other = trial
    for place in range(4):
        one = apply(one, ReportAccepted(report=reported(trial, place)))
    for place in order:
        other = apply(other, ReportAccepted(report=reported(trial, place)))
    assert one.step().decision == other.step().decision


def test_a_decision_that_the_reports_do_not_give_is_found():
    from msgspec.structs import replace

    trial = trial_at(Stage.CLOSING)
    event = trial.step().event
    for change in ({"finished": not event.decision.finished}, {"data": "0" * 64}, {"dropped_in": ((9, 9), (9, 9))}):
        with pytest.raises(InvalidInput, match="recorded"):
            apply(trial, replace(event, decision=replace(event.decision, **change)))
    if event.plan is not None:
        more = tuple(tuple(10 * count for count in row) for row in event.plan.quotas)
        with pytest.raises(InvalidInput, match="other counts"):
            apply(trial, replace(event, plan=replace(event.plan, quotas=more)))


def test_a_frozen_agent_is_asked_for_nothing_and_its_counts_stay():
    trial = create("s", study_message(agents=3, arms=3, policy="uniform", weight=1.0))  # nobody needs the others
    for place in (0, 1):
        trial = apply(trial, ReportAccepted(report=reported(trial, place)))
    trial = apply(trial, AgentFrozen(agent="agent 1", reason="why", consequences=""))
    assert trial.awaited == ("agent 3",)
    trial = apply(trial, ReportAccepted(report=reported(trial, 2)))
    trial = trial.close(trial.step())
    assert not trial.plan.array[:, 0].any()
    assert trial.plan.array[:, 1:].any()
    assert trial.state.counts[:, 0].any()
    trial = apply(trial, AgentFrozen(agent="agent 2", reason="why", consequences=""))
    trial = apply(trial, AgentFrozen(agent="agent 3", reason="why", consequences=""))
    assert trial.stage is Stage.CLOSING, "nobody is awaited"
    assert trial.close(trial.step()).stage is Stage.STALLED


@pytest.mark.parametrize(
    ("sums", "squares", "words"),
    [
        ((3.0, 0.0), (0.5, 0.0), "squares"),
        ((3.0, 0.0), (-1.0, 0.0), "squares"),
        ((5.0, 0.0), (25.0, 0.0), "rewards between"),
        ((-1.0, 0.0), (25.0, 0.0), "rewards between"),
        ((2.0, 0.0), (4.1, 0.0), "at most 2, with the sum 2 of 4 rewards"),
        ((1.0, 1.0), (1.0, 1.0), "nothing was drawn"),
        ((1.0,), (1.0,), "one per arm"),
    ],
)
def test_impossible_rewards(sums, squares, words):
    report = Report(study="s", phase=1, agent="x", plan="p", counts=(4, 0), sums=sums, squares=squares)
    with pytest.raises(ImpossibleReport, match=words):
        check_report(report, (4, 0), Noise.bounded(low=0, high=1))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_the_totals_of_real_rewards_are_always_possible(values):
    from parley.totals import Totals

    totals = Totals.of([values])
    report = Report.of(totals, study="s", phase=1, agent="x", plan="p")
    check_report(report, (len(values),), Noise())


def one_arm(count, total, square):
    return Report(study="s", phase=1, agent="x", plan="p", counts=(count,), sums=(total,), squares=(square,))


def possible(count, total, square, noise=None):
    try:
        check_report(one_arm(count, total, square), (count,), noise or Noise())
    except ImpossibleReport:
        return False
    return True


@given(st.lists(st.floats(-LARGEST_REWARD, LARGEST_REWARD), min_size=1, max_size=50))
def test_huge_rewards_are_possible_as_long_as_a_study_can_add_them_up(values):
    assert possible(len(values), sum(values), sum(value * value for value in values))


def test_sums_whose_square_is_no_number_are_compared_too():
    assert not possible(100, 1e200, 1e308)
    assert not possible(100, -1e200, 1e308)
    assert not possible(1, 1e308, sys.float_info.max)
    assert not possible(100, 1e154, 1e307), "beyond what a study can add up"
    assert possible(100, 1e70, 1e139)


@given(st.integers(1, 2**53), st.floats(0, sys.float_info.max), st.floats(1 + 1e-8, 1e30), st.sampled_from([1, -1]))
def test_sums_beyond_cauchy_schwarz_by_more_than_rounding_are_impossible(count, square, factor, sign):
    """In whole numbers, which neither overflow nor round: sum^2 > n * (squares + 1e-9), by more than a part in 1e8."""
    largest = Fraction(count) * (Fraction(square) + Fraction(1e-9))
    total = math.isqrt(int(largest * 10**40) + 1) * Fraction(1, 10**20) * Fraction(factor)
    if total <= Fraction(sys.float_info.max):
        assert not possible(count, sign * float(total), square)


@given(st.data(), st.floats(-1e60, 1e60), st.floats(-1e60, 1e60))
def test_rewards_within_their_bounds_are_possible_and_squares_beyond_them_are_not(data, one, other):
    low, high = sorted((one, other))
    assume(high - low > 1e-59)
    values = data.draw(st.lists(st.one_of(st.floats(low, high), st.sampled_from([low, high])), min_size=1, max_size=50))
    noise, total, square = Noise.bounded(low=low, high=high), sum(values), sum(value * value for value in values)
    assert possible(len(values), total, square, noise)
    most = len(values) * max(low * low, high * high)
    assert not possible(len(values), total, most * (1 + 1e-8), noise)


def test_a_plan_names_its_agents_columns():
    plan = Plan(study="s", phase=1, quotas=((1, 2), (3, 4)))
    assert plan.draws(1) == (2, 4)


@pytest.mark.parametrize("policy", ["evidence", "wcpe"])
def test_a_study_in_which_all_is_blocked_ends_there_and_says_so(policy):
    """Six sites that all weigh each other, one of them frozen: it went on to phase 604 once."""
    trial = create("s", study_message(agents=6, arms=3, policy=policy))
    trial = apply(trial, AgentFrozen(agent="agent 6", reason="closed", consequences=""))
    for _ in range(5):
        while trial.awaited:
            place = trial.study.agents.index(trial.awaited[0])
            trial = apply(trial, ReportAccepted(report=reported(trial, place)))
        trial = trial.close(trial.step())
        if trial.stage is Stage.STALLED:
            break
    assert trial.stage is Stage.STALLED
    assert set(trial.ends.values()) == {"blocked"}
