"""The one judge: whether something may happen to a study, and where the study is then.

Pure, and content with little: a `Situation` is as much of a study as the judgement needs. A replayed trial has it, and
so have three rows of a database, so the coordinator asks the same function before it writes as an audit does after.
A refusal is an `IllegalMove` whose `reason` is the word that the API's problem types share, or, for numbers that no
rewards can have, an `ImpossibleReport`.
"""

from __future__ import annotations

from dataclasses import replace

from parley.protocol.events import (
    AgentFrozen,
    AgentThawed,
    Cancelled,
    Disputed,
    Event,
    Paused,
    PhaseClosed,
    PhaseCut,
    ReportAccepted,
    ReportAmended,
    ReportQuarantined,
    ReportRefused,
    Resumed,
    Reweighed,
    StepFailed,
    kind_of,
)
from parley.protocol.messages import Plan
from parley.protocol.reweighing import ask_anew, not_reweighable
from parley.protocol.situation import Situation
from parley.protocol.stages import Stage, illegal, require
from parley.protocol.turns import judge_report, settled

__all__ = ["admit", "agent_of"]


def agent_of(event: Event) -> str | None:
    """Whose place an event is about, if it is about one.

    >>> agent_of(Paused(reason="holiday")) is None
    True
    """
    match event:
        case ReportAccepted(report=report) | ReportAmended(report=report) | ReportQuarantined(report=report):
            return report.agent
        case AgentFrozen(agent=agent) | AgentThawed(agent=agent) | ReportRefused(agent=agent):
            return agent
        case _:
            return None


def admit(here: Situation, event: Event) -> Situation:
    """Where the study is after an event; one that may not happen raises. `place` is as it was before.

    >>> from parley.protocol.messages import StudyMessage
    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")
    >>> here = Situation(id="s", study=study, stage=Stage.RUNNING, phase=1, missing=1)
    >>> admit(here, Paused(reason="holiday")).stage.value
    'paused'
    """
    kind = kind_of(event)
    match event:
        case ReportAccepted() | ReportAmended() | ReportRefused() | ReportQuarantined(stands=""):
            after = judge_report(here, event)
        case AgentFrozen() | AgentThawed():
            require(here.stage, kind)
            after = _present(here, event, kind)
        case Reweighed():
            after = _asked_anew(here, event, kind)
        case PhaseCut(phase=phase):
            _check_cut(here, phase, kind)
            after = settled(replace(here, cut=True))
        case PhaseClosed(decision=decision, plan=plan):
            if plan is None:
                after = replace(here, stage=Stage.FINISHED if decision.finished else Stage.STALLED)
            else:
                after = _opened(here, plan)
        case Paused() | Disputed() | StepFailed():
            after = replace(here, stage=Stage.PAUSED)
        case Resumed():
            require(here.stage, kind)
            after = settled(replace(here, stage=Stage.RUNNING))
        case Cancelled():
            after = replace(here, stage=Stage.CANCELLED)
        case _:  # quarantined, certified: kept for the record; a second creation is in no row of the table
            after = here
    require(here.stage, kind, after.stage)
    return after


def _present(here: Situation, event: AgentFrozen | AgentThawed, kind: str) -> Situation:
    """With one agent fewer to ask, or one more."""
    place, freezes = here.place, isinstance(event, AgentFrozen)
    if event.agent not in here.study.agents or place is None or place.frozen is freezes:
        words = "is no agent that could be frozen" if freezes else "is not frozen"
        raise illegal(here.stage, kind, f"{event.agent!r} {words}")
    if isinstance(event, AgentFrozen):
        return settled(replace(here, missing=here.missing - place.awaited))
    if event.plan is not None:
        return _planned(here, event.plan, kind)
    # A phase that waits for nobody is about to be decided: it stays so, and the place opens with the next one.
    return replace(here, missing=here.missing + place.due, cut=here.cut or not here.awaited)


def _asked_anew(here: Situation, event: Reweighed, kind: str) -> Situation:
    """With other weights, where the policy's guarantee does not lean on its own plans."""
    require(here.stage, kind)
    if event.phase != here.phase:
        raise illegal(here.stage, kind, f"the study is in phase {here.phase}", "phase-closed")
    why = not_reweighable(here.study)
    if why is not None:
        raise illegal(here.stage, kind, why)
    after = here if event.plan is None else _planned(here, event.plan, kind)
    if event.finished:
        after = replace(here, stage=Stage.FINISHED)
    return replace(after, study=ask_anew(here.study, event.weights))


def _opened(here: Situation, plan: Plan) -> Situation:
    """Running in the phase of a plan."""
    asked = int((plan.array.sum(axis=0) > 0).sum())
    return replace(here, stage=Stage.RUNNING, phase=plan.phase, missing=asked, cut=False)


def _planned(here: Situation, plan: Plan, kind: str) -> Situation:
    """A stalled study that goes on; elsewhere the phase in progress goes on as it was asked."""
    if here.stage is not Stage.STALLED:
        raise illegal(here.stage, kind, "a new plan while one is out")
    return _opened(here, plan)


def _check_cut(here: Situation, phase: int, kind: str) -> None:
    """A phase is closed with what is in where the policy's guarantee allows other counts, and if something is in."""
    require(here.stage, kind)
    if phase != here.phase:
        raise illegal(here.stage, kind, f"the study is in phase {here.phase}", "phase-closed")
    if not here.study.flexible:
        words = f"the policy {here.study.policy} needs the counts of the plan, or the study asks for them"
        raise illegal(here.stage, kind, words)
    if not here.reported:
        raise illegal(here.stage, kind, "no report of this phase is in: there is nothing to close it with")
