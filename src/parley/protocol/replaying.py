"""Apply events to a trial: every decision in a log is made again and compared with the recorded decision.

An illegal event raises (`state_machine.admit`). A trial is never changed in place, so a refused event leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from parley.errors import InvalidInput
from parley.problem import IntArray
from parley.protocol.asking_anew import asked_again, finding_event, thaw
from parley.protocol.events import (
    AgentFrozen,
    AgentThawed,
    ArmOpened,
    ArmStopped,
    ArmWithdrawn,
    AskedAnew,
    Event,
    GuardrailNoted,
    PhaseClosed,
    PhaseClosedEarly,
    ReportAccepted,
    ReportAmended,
    ReportCorrected,
    ReportQuarantined,
    ReportRefused,
    Reweighed,
    StudyCreated,
    kind_of,
)
from parley.protocol.messages import Decision, Plan, Report, StudyMessage
from parley.protocol.state_machine import Held, Stage, admit
from parley.protocol.trial import Aside, Finding, Trial, make_plan

PLAN_TOLERANCE = 1e-6  # another machine's solver may round differently; beyond this it is a different plan
RECOMPUTED_BY_ASKING = ("phase", "weights", "delta", "left", "dropped_in", "finished", "opened", "withdrawn")
RECOMPUTED_BY_ALARM = ("guardrail", "agents", "reason")
# All fields except the state, which another machine may round differently.
RECOMPUTED_BY_STEP = [name for name in Decision.known_keys() if name != "state"]


def create(study_id: str, study: StudyMessage) -> Trial:
    """Create the trial of a new study, with its first plan."""
    policy = study.make_policy()
    study.problem.require_question()
    state = policy.start()
    plan = make_plan(policy, state, study_id, 1, ())
    against = study.problem.noise.past(state.totals, state.totals, 0)
    return Trial(
        id=study_id,
        study=study,
        stage=Stage.RUNNING,
        state=state,
        plan=plan,
        latest=state.totals,
        against=against,
    )


def apply(trial: Trial, event: Event) -> Trial:
    """Return the trial after an event; an illegal event raises. Recorded steps are repeated and compared."""
    after = admit(trial.before(event), event)
    match event:
        case ReportAccepted(report=report) | ReportAmended(report=report):
            reports = {**trial.reports, report.agent: report}
            return replace(trial, stage=after.stage, reports=reports, asides=_without(trial.asides, report))
        case ReportQuarantined() | ReportRefused():
            return _kept_apart(trial, event)
        case ReportCorrected(report=report):
            asides = _without(trial.asides, report)
            return replace(trial, corrections=(*trial.corrections, event), asides=asides)
        case AgentFrozen(agent=agent):
            return replace(trial, stage=after.stage, frozen=trial.frozen | {agent})
        case AgentThawed(agent=agent):
            mine = thaw(trial, agent)
            _check_next_plan(event.plan, mine.plan, trial.study)
            return replace(mine.trial, stage=after.stage, plan=event.plan or mine.trial.plan)
        case GuardrailNoted():
            return replace(trial, verdicts=trial.verdicts | {_checked_finding(trial, event)})
        case Reweighed() | ArmOpened() | ArmWithdrawn():
            again = asked_again(trial, event)
            reason = again.finding.reason if again.finding else event.reason
            _check_anew(event, again.event(reason, event.consequences), trial.study)
            return replace(again.trial, stage=after.stage, plan=event.plan or again.trial.plan)
        case PhaseClosedEarly(without=without):
            _check_awaited(trial, without)
            return replace(trial, stage=after.stage, closed_early=True)
        case PhaseClosed():
            step = trial.step()
            _check_step(event, step.event, trial.study)
            return trial.close(replace(step, plan=event.plan))
        case _:
            return replace(trial, stage=after.stage)


def _kept_apart(trial: Trial, event: ReportQuarantined | ReportRefused) -> Trial:
    """Apply an event about a report that does not count: held, refused, or quarantined because another one counts."""
    match event:
        case ReportQuarantined(report=report, stands="", why=why):
            return replace(trial, held={**trial.held, report.agent: Held(report.digest, why)})
        case ReportQuarantined(report=report):
            return replace(trial, asides=trial.asides | {Aside.of(report)})
        case ReportRefused(phase=phase, agent=agent, report=digest):
            named = Aside(phase, agent, digest)
            if named in trial.asides:
                return replace(trial, asides=trial.asides - {named})
            held = {name: found for name, found in trial.held.items() if name != agent}
            return replace(trial, held=held, refused=trial.refused | {digest})


def _without(asides: frozenset[Aside], report: Report) -> frozenset[Aside]:
    """Drop a report from the quarantined ones, since it counts now. If there are none, no digest is computed."""
    return asides - {Aside.of(report)} if asides else asides


def replay(events: Iterable[Event]) -> Trial:
    """Replay a log, repeating and checking every decision, and return the trial that it leads to.

    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")
    >>> trial = create("s", study)
    >>> created = StudyCreated(study_id="s", study=study, plan=trial.plan)
    >>> from parley.protocol.events import Paused
    >>> replay([created, Paused(reason="holiday")]).stage.value
    'paused'
    """
    trial: Trial | None = None
    for event in events:
        if trial is None:
            if not isinstance(event, StudyCreated):
                raise InvalidInput("log", found=f"{kind_of(event)} as its first event", allowed="study-created")
            trial = create(event.study_id, event.study)
            _check_plan(event.plan, trial.plan, trial.study)
            trial = replace(trial, plan=event.plan)
        else:
            trial = apply(trial, event)
    if trial is None:
        raise InvalidInput("log", found="no event", allowed="at least study-created")
    return trial


# Checks of recorded results against the results that the reports give: decisions must be equal, and plans equal up to
# rounding.


def _checked_finding(trial: Trial, event: GuardrailNoted) -> Finding:
    """Return the guardrails' next finding, after checking that the event records exactly this finding."""
    found = trial.finding
    if found is None or finding_event(trial, found) != event:
        words = f"{event.arm!r} {event.verdict}"
        raise InvalidInput("guardrail-noted", found=words, allowed="what the reports say about the guardrails")
    return found


def _check_awaited(trial: Trial, without: tuple[str, ...]) -> None:
    """Raise unless the agents that an early close leaves out (`without`) are those whose reports were awaited."""
    if without != trial.awaited:
        raise InvalidInput(
            "phase-closed-early", found="other agents than were awaited", allowed=", ".join(trial.awaited)
        )


def _check_step(recorded: PhaseClosed, mine: PhaseClosed, study: StudyMessage) -> None:
    """Raise unless the recorded step of the policy equals the repeated step."""
    phase = recorded.decision.phase
    for name in RECOMPUTED_BY_STEP:
        if getattr(recorded.decision, name) != getattr(mine.decision, name):
            raise InvalidInput(
                f"decision of phase {phase}",
                found=f"a recorded {name!r} that the reports do not give",
                allowed="the decision recomputed from the log",
            )
    _check_next_plan(recorded.plan, mine.plan, study)


def _check_anew(recorded: AskedAnew, mine: AskedAnew, study: StudyMessage) -> None:
    """Raise unless the recorded result for a changed question equals the recomputed one."""
    for name in (*RECOMPUTED_BY_ASKING, *(RECOMPUTED_BY_ALARM if isinstance(mine, ArmStopped) else ())):
        if getattr(recorded, name) != getattr(mine, name):
            raise InvalidInput(
                f"question in phase {recorded.phase}",
                found=f"a recorded {name!r} that the recorded phases do not give",
                allowed="the state recomputed from the log",
            )
    if len(recorded.states) != len(mine.states):
        raise InvalidInput("states", found=len(recorded.states), allowed=f"{len(mine.states)}, one per recorded phase")
    _check_next_plan(recorded.plan, mine.plan, study)


def _check_next_plan(recorded: Plan | None, mine: Plan | None, study: StudyMessage) -> None:
    """Raise unless the recorded plan of the next phase is the policy's plan; None stands for no next phase."""
    if (recorded is None) != (mine is None):
        raise InvalidInput("plan", found="one too many or too few", allowed="the policy's")
    if recorded is not None and mine is not None:
        _check_plan(recorded, mine, study)


def _check_plan(recorded: Plan, mine: Plan, study: StudyMessage) -> None:
    """Raise unless a recorded plan equals the policy's plan up to rounding, and respects the minimum cell."""
    same_place = (recorded.study, recorded.phase) == (mine.study, mine.phase)
    if not same_place or recorded.array.shape != mine.array.shape:
        raise InvalidInput("plan", found="another study, phase or shape", allowed=f"that of phase {mine.phase}")
    most = (np.array(one.most_ahead, dtype=np.int64) for one in (recorded, mine))
    if recorded.between != mine.between or not _same_numbers(*most):
        allowed = "those of the reports before, and as many as the study lets sites assign"
        raise InvalidInput(f"plan of phase {mine.phase}", found="other people between phases", allowed=allowed)
    least = study.problem.minimum_cell
    small = np.argwhere((recorded.array != 0) & (recorded.array < least))
    if small.size:
        arm, agent = small[0]
        raise InvalidInput(
            f"plan of phase {mine.phase}",
            found=f"{recorded.array[arm, agent]} draws of {study.arms[arm]!r} by {study.agents[agent]!r}",
            allowed=f"0 or at least {least}, the study's minimum cell",
        )
    # A cell raised to the minimum may stand for a single draw that the policy asked for; rounding can add or remove it.
    asked, expected = (np.maximum(array - (least - 1), 0) for array in (recorded.array, mine.array))
    if not _same_numbers(asked, expected):
        raise InvalidInput(f"plan of phase {mine.phase}", found="other counts", allowed="those the policy asks for")


def _same_numbers(one: IntArray, other: IntArray) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=PLAN_TOLERANCE, atol=1)
