"""A study in progress as a value: events go in, a new value comes out, and no clock, file or network is near.

The coordinator stores what this module decides, an audit replays its log through it, and the simulator's policies
run in it unchanged. An event that is not legal raises, and since a trial is never changed in place, nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from parley.ends import End
from parley.errors import InvalidInput
from parley.policies import Policy, State
from parley.problem import IntArray
from parley.protocol.admission import Place, Situation, admit, agent_of
from parley.protocol.canonical import digest
from parley.protocol.events import (
    AgentFrozen,
    Event,
    PhaseClosed,
    PhaseCut,
    ReportAccepted,
    ReportAmended,
    StudyCreated,
    kind_of,
)
from parley.protocol.messages import Decision, Plan, Report, StudyMessage
from parley.protocol.recorded import check_plan, check_step
from parley.protocol.stages import Stage
from parley.protocol.wire import LARGEST_INTEGER
from parley.totals import Totals

__all__ = ["Step", "Trial", "apply", "create", "ends_at", "make_plan", "replay"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step of the policy makes of a full phase."""

    state: State
    decision: Decision
    plan: Plan | None

    @property
    def event(self) -> PhaseClosed:
        """The step as the log keeps it."""
        return PhaseClosed(decision=self.decision, plan=self.plan)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Everything that decides what may happen next.

    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")
    >>> trial = create("s", study)
    >>> trial.stage.value, trial.phase, trial.awaited
    ('running', 1, ('x',))
    """

    id: str
    study: StudyMessage
    stage: Stage
    state: State  # the policy's, after the last closed phase
    plan: Plan  # of the phase in progress, or of the last one
    reports: Mapping[str, Report] = field(default_factory=dict)  # agent -> report, of the phase in progress
    frozen: frozenset[str] = frozenset()
    cut: bool = False  # the phase was closed with what is in: nobody is awaited any more

    @property
    def phase(self) -> int:
        """The number of the phase in progress, from 1; of the last one once it is over."""
        return self.plan.phase

    @cached_property
    def policy(self) -> Policy:
        """Drives the study, and knows who is frozen."""
        return self.policy_without(self.frozen)

    def policy_without(self, frozen: Iterable[str]) -> Policy:
        """The study's policy, were these agents frozen. The first edition of the rules plans as if they were not."""
        policy = self.study.make_policy()
        if self.study.problem.rules < 2:
            return policy
        return replace(policy, idle=tuple(sorted(self.study.agents.index(name) for name in frozen)))

    @cached_property
    def awaited(self) -> tuple[str, ...]:
        """The agents whose reports this phase still needs: asked for something, not frozen, not reported."""
        if self.cut:
            return ()
        asked = self.plan.array.sum(axis=0) > 0
        names = (name for name, wanted in zip(self.study.agents, asked, strict=True) if wanted)
        return tuple(name for name in names if name not in self.frozen and name not in self.reports)

    def situation(self, agent: str | None = None) -> Situation:
        """What the judge needs to know, of one agent's place too if it is about one."""
        place = None
        if agent in self.study.agents:
            draws = self.plan.draws(self.study.agents.index(agent))
            place = Place(
                plan=self.plan.digest,
                draws=draws if any(draws) else None,
                frozen=agent in self.frozen,
                standing=self.reports.get(agent),
            )
        return Situation(
            id=self.id,
            study=self.study,
            stage=self.stage,
            phase=self.phase,
            awaited=len(self.awaited),
            reported=len(self.reports),
            place=place,
        )

    @property
    def ends(self) -> dict[str, End]:
        """How the study ended for every agent; `open` while it goes on."""
        return dict(zip(self.study.agents, ends_at(self.policy, self.state, self.stage), strict=True))

    def step(self) -> Step:
        """One step of the policy on the reports that are in. Pure; the slow part of closing a phase."""
        totals = self.totals
        after = self.policy.update(self.state, totals)
        finished = bool(after.finished)
        plan = None if finished else make_plan(self.policy, after, self.id, self.phase + 1, self.frozen)
        stalled = plan is not None and not plan.array.any()
        decision = Decision(
            study=self.id,
            phase=self.phase,
            plan=self.plan.digest,
            data=digest([self.reports[name].digest for name in sorted(self.reports)]),
            counts=_rows(totals.counts),
            eliminated_in=_rows(after.eliminated_in),
            finished=finished,
            state=digest(after.to_json()),
            missing=self._missing(),
        )
        return Step(state=after, decision=decision, plan=None if stalled else plan)

    def _missing(self) -> tuple[tuple[int, ...], ...]:
        """`(arm, agent)`: people of whom no outcome will come; nothing where nobody reports any."""
        nobody = (0,) * len(self.study.arms)
        told = [self.reports[name].missing or nobody if name in self.reports else nobody for name in self.study.agents]
        return tuple(zip(*told, strict=True)) if any(map(any, told)) else ()

    @property
    def totals(self) -> Totals:
        """`(arm, agent)`: what the reports of the phase add up to; nothing where there is none."""
        told = [self.reports[name].totals if name in self.reports else None for name in self.study.agents]
        return Totals.columns(told, len(self.study.arms))

    def close(self, step: Step) -> Trial:
        """The trial after a step that was taken from it."""
        after = admit(self.situation(), step.event)
        if step.plan is None:
            return replace(self, stage=after.stage, state=step.state)
        return replace(self, stage=after.stage, state=step.state, plan=step.plan, reports={}, cut=False)


def ends_at(policy: Policy, state: State, stage: Stage) -> list[End]:
    """Agent by agent: the policy's word, or how the study was stopped where it has none."""
    words = map(End, policy.ends(state).tolist())
    instead = {Stage.CANCELLED: End.CANCELLED, Stage.STALLED: End.BLOCKED}.get(stage)
    return [instead if instead is not None and not word.answered else word for word in words]


def _rows(array: IntArray) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, array.tolist()))


def make_plan(policy: Policy, state: State, study: str, phase: int, frozen: Iterable[str]) -> Plan:
    """The policy's plan, without what it asks of frozen agents."""
    quotas = policy.plan(state).copy()
    for name in frozen:
        quotas[:, policy.problem.agents.index(name)] = 0
    _require_countable(state, quotas)
    return Plan(study=study, phase=phase, quotas=_rows(quotas))


def _require_countable(state: State, quotas: IntArray) -> None:
    """Raise where the draws of the study, all together, would be more than a log can tell (and any study can make)."""
    total = float(state.counts.sum(dtype=np.float64) + quotas.sum(dtype=np.float64))
    if total > LARGEST_INTEGER or (quotas < 0).any():
        raise InvalidInput(
            "plan",
            found=f"about {abs(total):.3g} draws in all",
            allowed="up to 2^53, what a log can tell",
            hint="The noise is too large for the gaps that are to be told apart",
        )


def create(study_id: str, study: StudyMessage) -> Trial:
    """A new study with its first plan out."""
    policy = study.make_policy()
    state = policy.start()
    plan = make_plan(policy, state, study_id, 1, ())
    return Trial(id=study_id, study=study, stage=Stage.RUNNING, state=state, plan=plan)


def apply(trial: Trial, event: Event) -> Trial:
    """The trial after an event; an illegal one raises. Recorded steps are taken again and compared."""
    after = admit(trial.situation(agent_of(event)), event)
    match event:
        case ReportAccepted(report=report) | ReportAmended(report=report):
            return replace(trial, stage=after.stage, reports={**trial.reports, report.agent: report})
        case AgentFrozen(agent=agent):
            return replace(trial, stage=after.stage, frozen=trial.frozen | {agent})
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
