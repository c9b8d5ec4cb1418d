"""What an event makes of a trial: the moves, one after the other, and the trial that a whole log leads to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from parley.errors import InvalidInput
from parley.protocol.admission import admit, agent_of
from parley.protocol.events import (
    AgentFrozen,
    AgentThawed,
    Event,
    PhaseClosed,
    PhaseCut,
    ReportAccepted,
    ReportAmended,
    ReportQuarantined,
    ReportRefused,
    Reweighed,
    StudyCreated,
    kind_of,
)
from parley.protocol.lost_sites import reweigh, thaw
from parley.protocol.messages import StudyMessage
from parley.protocol.plans import make_plan
from parley.protocol.recorded import check_fold, check_following, check_plan, check_step
from parley.protocol.situation import Held
from parley.protocol.stages import Stage
from parley.protocol.trial import Trial
from parley.protocol.turns import past_of

__all__ = ["apply", "create", "replay"]


def create(study_id: str, study: StudyMessage) -> Trial:
    """A new study with its first plan out."""
    policy = study.make_policy()
    state = policy.start()
    plan = make_plan(policy, state, study_id, 1, ())
    against = past_of(study, state.totals, 0)
    return Trial(id=study_id, study=study, stage=Stage.RUNNING, state=state, plan=plan, against=against)


def apply(trial: Trial, event: Event) -> Trial:
    """The trial after an event; an illegal one raises. Recorded steps are taken again and compared."""
    after = admit(trial.situation(agent_of(event)), event)
    match event:
        case ReportAccepted(report=report) | ReportAmended(report=report):
            return replace(trial, stage=after.stage, reports={**trial.reports, report.agent: report})
        case ReportQuarantined(report=report, stands="", why=why):
            return replace(trial, held={**trial.held, report.agent: Held(report.digest, why)})
        case ReportRefused(agent=agent, report=digest):
            held = {name: found for name, found in trial.held.items() if name != agent}
            return replace(trial, held=held, refused=trial.refused | {digest})
        case AgentFrozen(agent=agent):
            return replace(trial, stage=after.stage, frozen=trial.frozen | {agent})
        case AgentThawed(agent=agent):
            mine = thaw(trial, agent)
            check_following(event.plan, mine.plan, trial.study)
            return replace(mine.trial, stage=after.stage, plan=event.plan or mine.trial.plan)
        case Reweighed():
            return replace(_reweighed_as_recorded(trial, event), stage=after.stage)
        case PhaseCut(without=without):
            if without != trial.awaited:
                raise InvalidInput(
                    "phase-cut", found="other agents than were awaited", allowed=", ".join(trial.awaited)
                )
            return replace(trial, stage=after.stage, cut=True)
        case PhaseClosed():
            return _closed_as_recorded(trial, event)
        case _:
            return replace(trial, stage=after.stage)


def _closed_as_recorded(trial: Trial, event: PhaseClosed) -> Trial:
    step = trial.step()
    check_step(event, step.event, trial.study)
    return trial.close(replace(step, plan=event.plan))


def _reweighed_as_recorded(trial: Trial, event: Reweighed) -> Trial:
    mine = reweigh(trial, event.weights)
    check_fold(event, mine.event(event.reason, event.consequences), trial.study)
    return replace(mine.trial, plan=event.plan or mine.trial.plan)


def replay(events: Iterable[Event]) -> Trial:
    """The trial that a log leads to, every decision taken again on the way.

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
            check_plan(event.plan, trial.plan, trial.study)
            trial = replace(trial, plan=event.plan)
        else:
            trial = apply(trial, event)
    if trial is None:
        raise InvalidInput("log", found="no event", allowed="at least study-created")
    return trial
