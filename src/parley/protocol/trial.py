"""A study in progress as a value: events go in, a new value comes out, and no clock, file or network is near.

The coordinator stores what this module decides, an audit replays its log through it, and the simulator's policies
run in it unchanged. An event that is not legal raises, and since a trial is never changed in place, nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from parley.once import once
from parley.policies import Policy, State
from parley.protocol.admission import admit
from parley.protocol.codec import digest
from parley.protocol.events import PhaseClosed
from parley.protocol.messages import Decision, Plan, Report, StudyMessage
from parley.protocol.plans import next_plan, rows
from parley.protocol.situation import Held, Place, Situation
from parley.protocol.stages import OVER, Stage
from parley.protocol.turns import past_of
from parley.rewards import Past
from parley.status import OutcomeStatus
from parley.totals import Totals

__all__ = ["Step", "Trial", "ends_at"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step of the policy makes of a full phase."""

    state: State
    decision: Decision
    plan: Plan | None

    @once
    def event(self) -> PhaseClosed:
        """The step as the log keeps it; one, so that it is written out once."""
        return PhaseClosed(decision=self.decision, plan=self.plan)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Everything that decides what may happen next.

    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")
    >>> from parley.protocol import create
    >>> trial = create("s", study)
    >>> trial.stage.value, trial.phase, trial.awaited
    ('running', 1, ('x',))
    """

    id: str
    study: StudyMessage  # with the weights in force
    stage: Stage
    state: State  # the policy's, after the last closed phase
    plan: Plan  # of the phase in progress, or of the last one
    reports: Mapping[str, Report] = field(default_factory=dict)  # agent -> report, of the phase in progress
    frozen: frozenset[str] = frozenset()
    cut: bool = False  # the phase was closed with what is in: nobody is awaited any more
    origin: StudyMessage | None = None  # the study as it was created, once it was re-weighed
    leaves: frozenset[str] = frozenset()  # whose question rests since, while they are frozen
    past: tuple[Totals, ...] | None = field(default=(), compare=False)  # of decided phases; None: were not read
    held: Mapping[str, Held] = field(default_factory=dict)  # agent -> its report that waits for an administrator
    refused: frozenset[str] = frozenset()  # digests of this phase's reports that an administrator did not take
    against: Past | None = field(default=None, compare=False)  # what reports are held against

    @property
    def phase(self) -> int:
        """The number of the phase in progress, from 1; of the last one once it is over."""
        return self.plan.phase

    @once
    def policy(self) -> Policy:
        """Drives the study, and knows who is frozen."""
        return self.policy_without(self.frozen)

    def policy_without(self, frozen: Iterable[str]) -> Policy:
        """The study's policy, were these agents frozen."""
        idle = sorted(self.study.agents.index(name) for name in frozen)
        unasked = (place for place in idle if self.study.agents[place] in self.leaves)
        return replace(self.study.make_policy(), idle=tuple(idle), unasked=tuple(unasked))

    @once
    def awaited(self) -> tuple[str, ...]:
        """The agents whose reports this phase still needs."""
        return () if self.cut or self.stage in OVER else self._missing_agents

    @once
    def _missing_agents(self) -> tuple[str, ...]:
        """Asked for something, not frozen, not reported."""
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
                held=self.held.get(agent),
                refused=self.refused,
            )
        return Situation(
            id=self.id,
            study=self.study,
            stage=self.stage,
            phase=self.phase,
            missing=len(self._missing_agents),
            cut=self.cut,
            reported=len(self.reports),
            place=place,
            against=self.against,
        )

    @property
    def ends(self) -> dict[str, OutcomeStatus]:
        """How the study ended for every agent; `open` while it goes on."""
        return dict(zip(self.study.agents, ends_at(self.policy, self.state, self.stage), strict=True))

    def step(self) -> Step:
        """One step of the policy on the reports that are in. Pure; the slow part of closing a phase."""
        totals = self.totals
        after = self.policy.update(self.state, totals)
        decision = Decision(
            study=self.id,
            phase=self.phase,
            plan=self.plan.digest,
            data=digest([self.reports[name].digest for name in sorted(self.reports)]),
            counts=rows(totals.counts),
            eliminated_in=rows(after.eliminated_in),
            finished=bool(after.finished),
            state=digest(after.to_json()),
            missing=self._missing(),
        )
        plan = next_plan(self.policy, after, self.id, self.phase + 1, self.frozen)
        return Step(state=after, decision=decision, plan=plan)

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
        past = None if self.past is None else (*self.past, self.totals)
        closed = replace(self, stage=after.stage, state=step.state, past=past)
        return closed if step.plan is None else closed.opened(step.plan)

    def opened(self, plan: Plan) -> Trial:
        """In the phase of a new plan."""
        against = past_of(self.study, self.state.totals, plan.phase - 1)
        return replace(self, plan=plan, reports={}, cut=False, held={}, refused=frozenset(), against=against)


def ends_at(policy: Policy, state: State, stage: Stage) -> list[OutcomeStatus]:
    """Agent by agent: the policy's word, or how the study was stopped where it has none."""
    words = map(OutcomeStatus, policy.statuses(state).tolist())
    instead = {Stage.CANCELLED: OutcomeStatus.CANCELLED, Stage.STALLED: OutcomeStatus.BLOCKED}.get(stage)
    spoken = (OutcomeStatus.DECIDED, OutcomeStatus.ACCEPTED, OutcomeStatus.LEFT)
    return [instead if instead is not None and word not in spoken else word for word in words]
