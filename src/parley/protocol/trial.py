"""A study in progress as an immutable value: each event makes a new value, without any clock, file or network.

The coordinator stores what a trial decides. An audit replays a log through a trial (`replaying`). The simulator's
policies run in a trial unchanged. `asking_anew` changes a trial's question and replays its recorded phases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from parley.errors import InvalidInput
from parley.policies import Policy, State
from parley.policies.between import asked_with
from parley.policies.guardrails import Guardrail, GuardState, guardrails
from parley.problem import IntArray, share_without
from parley.protocol.codec import LARGEST_INTEGER, digest
from parley.protocol.events import (
    Event,
    PhaseClosed,
    ReportCorrected,
    ReportRefused,
    alarm_of,
)
from parley.protocol.lost_sites import guarantee_under
from parley.protocol.messages import Decision, Plan, Report, Rows, StudyMessage
from parley.protocol.state_machine import OVER, STOPPED, Counted, Held, Place, Situation, Stage, admit, agent_of
from parley.rewards import Past
from parley.system.once import once
from parley.text.status import OutcomeStatus
from parley.totals import Totals


@dataclass(frozen=True, kw_only=True)
class Step:
    """The result of the policy's step on a complete phase."""

    state: State
    decision: Decision
    plan: Plan | None

    @once
    def event(self) -> PhaseClosed:
        """The event that records the step in the log; cached, so that it is encoded only once."""
        return PhaseClosed(decision=self.decision, plan=self.plan)


class Finding(NamedTuple):
    """A finding of a guardrail: its verdict on an arm."""

    guardrail: str
    arm: str
    verdict: str  # "stopped", "proposed" or "cleared"
    agents: tuple[str, ...] = ()  # agents in whose own mix the verdict is proven; empty: harm in the mean of all

    @property
    def reason(self) -> str:
        """The reason for stopping the arm, whose English text the log stores."""
        return alarm_of(self.guardrail, self.agents)


class Aside(NamedTuple):
    """A quarantined report, neither accepted nor refused yet, whose agent has another report that counts."""

    phase: int
    agent: str
    digest: str

    @classmethod
    def of(cls, report: Report) -> Aside:
        return cls(report.phase, report.agent, report.digest)


class Settled(NamedTuple):
    """A decided phase: its plan, and the digests of the reports that were decided on."""

    plan: Plan
    reports: Mapping[str, str]  # agent -> digest of its report
    ahead: Mapping[str, tuple[int, ...]] = MappingProxyType({})  # agent -> people assigned for the next phase


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Everything that determines what may happen next in a study.

    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")
    >>> from parley.protocol import create
    >>> trial = create("s", study)
    >>> trial.stage.value, trial.phase, trial.awaited
    ('running', 1, ('x',))
    """

    id: str
    study: StudyMessage  # with the weights and arms in force
    stage: Stage
    state: State  # the policy's state after the last closed phase
    plan: Plan  # plan of the phase in progress, or of the last phase
    reports: Mapping[str, Report] = field(default_factory=dict)  # agent -> its report in the phase in progress
    frozen: frozenset[str] = frozenset()
    closed_early: bool = False  # the phase was closed early: no more reports are awaited
    origin: StudyMessage | None = None  # the study as created, if another question was asked since
    leaves: frozenset[str] = frozenset()  # agents whose own questions were dropped when the question was changed
    arms_opened: Mapping[str, int] = field(default_factory=dict)  # arm -> the phase in which it was last opened
    arms_withdrawn: Mapping[str, int] = field(default_factory=dict)  # arm -> the phase since which it is withdrawn
    past: tuple[Totals, ...] | None = field(default=(), compare=False)  # totals of decided phases; None if not read
    settled: tuple[Settled, ...] = field(default=(), compare=False)  # the same phases; empty if `past` was not read
    corrections: tuple[ReportCorrected, ...] = field(default=(), compare=False)  # they affect no decision
    outcomes_past: tuple[tuple[Totals, ...], ...] = field(default=(), compare=False)  # [phase][outcome], like `past`
    guards: tuple[GuardState, ...] | None = field(default=None, compare=False)  # states after these phases, if computed
    verdicts: frozenset[Finding] = frozenset()  # findings of the guardrails that are in the log
    held: Mapping[str, Held] = field(default_factory=dict)  # agent -> its report that waits for an administrator
    refused: frozenset[str] = frozenset()  # digests of this phase's reports that an administrator refused
    asides: frozenset[Aside] = field(default=frozenset(), compare=False)  # only a replay knows them
    latest: Totals | None = field(default=None, compare=False)  # (arm, agent): totals of the last decided phase
    against: Past | None = field(default=None, compare=False)  # past means that reports are compared with

    @property
    def phase(self) -> int:
        """The number of the phase in progress, from 1, or of the last phase once the study is over."""
        return self.plan.phase

    @once
    def policy(self) -> Policy:
        """The study's policy, which knows the frozen agents."""
        return self.policy_without(self.frozen)

    @property
    def claim(self) -> StudyMessage:
        """The study as created, with the delta that it states."""
        return self.origin or self.study

    @property
    def guarantee(self) -> str:
        """The guarantee of the answers, with the delta that the study stated when it was created."""
        return guarantee_under(self.claim, self.study.weights, self.arms_opened, self.arms_withdrawn)

    @once
    def guardrails(self) -> tuple[Guardrail, ...]:
        """The study's guardrails.

        If the weights were changed, each may spend only the share of its delta that is reserved for the current
        weights.
        """
        problem, origin = self.study.problem, self.claim
        share = 1.0
        if self.study.weights != origin.weights:
            share = problem.delta / (origin.problem.delta * share_without(problem.arm_count, len(self.arms_withdrawn)))
        return guardrails(problem, share)

    @once
    def guarded(self) -> tuple[GuardState, ...]:
        """The state of every guardrail after the decided phases."""
        if self.guards is not None:
            return self.guards
        places = self._guarding
        phases = [self._seen(phase, number) for number, phase in enumerate(self.outcomes_past, start=1)]
        return tuple(
            guard.fold(phase[place] for phase in phases) for guard, place in zip(self.guardrails, places, strict=True)
        )

    @property
    def _guarding(self) -> list[int]:
        """The indices of the guardrails among the outcomes."""
        return [place for place, outcome in enumerate(self.study.problem.outcomes) if outcome.guards]

    def _seen(self, phase: tuple[Totals, ...], number: int) -> tuple[Totals, ...]:
        """The totals of a phase as guardrails use them: without the arms withdrawn in that phase.

        The number of draws of such an arm may depend on outcomes of the same phase.
        """
        gone = np.isin(self.study.arms, [arm for arm, when in self.arms_withdrawn.items() if when == number])
        return tuple(totals.without(gone) for totals in phase) if gone.any() else phase

    @once
    def guarded_now(self) -> tuple[GuardState, ...]:
        """The state of every guardrail, including the reports received so far in the phase in progress."""
        fresh = self._seen(self.outcome_totals, self.phase)
        each = zip(self.guardrails, self.guarded, self._guarding, strict=True)
        waiting = np.isin(self.study.agents, self.awaited)
        return tuple(guard.update(state, fresh[place], waiting=waiting) for guard, state, place in each)

    @once
    def finding(self) -> Finding | None:
        """The next finding of the guardrails in the reports so far that is not in the log yet; None if there is none.

        Alarms come first. If all stops together would leave fewer arms than an answer names, the stops with the least
        evidence become proposals to an administrator. Proposals come before stops, since the last stop may end the
        study.
        """
        if not self.study.outcomes or self.stage not in (Stage.RUNNING, Stage.CLOSING) or not self.reports:
            return None
        study, known = self.study, {(one.guardrail, one.arm, one.verdict) for one in self.verdicts}
        alarms, cleared = dict[Finding, float](), list[Finding]()
        for guard, state in zip(self.guardrails, self.guarded_now, strict=True):
            # Unless a guardrail can judge some reports alone, it waits until the phase has all of them.
            if self.stage is Stage.RUNNING and not guard.settles_alone:
                continue
            name, verdict = guard.outcome.name, "stopped" if guard.outcome.on_alarm == "stop" else "proposed"
            evidence = guard.evidence(state)
            for place, arm in enumerate(study.arms):
                if arm in study.problem.dormant:
                    continue
                if state.alarmed[place]:
                    whose = tuple(compress(study.agents, state.alarmed_in[place] > 0))
                    alarms[Finding(name, arm, verdict, whose)] = float(evidence[place]) - guard.alarm_line
                elif state.cleared[place]:
                    cleared.append(Finding(name, arm, "cleared", study.agents))
        found = [*self._proposed(alarms), *cleared]
        return next((one for one in found if one[:3] not in known), None)

    def _proposed(self, alarms: Mapping[Finding, float]) -> list[Finding]:
        """Sort alarms into the order in which they are recorded: proposals to an administrator before stops.

        Stops that would leave fewer arms than an answer names become proposals.
        """
        problem = self.study.problem
        stops = {one.arm: -math.inf for one in alarms if one.verdict == "stopped"}
        for one, evidence in alarms.items():
            if one.arm in stops:
                stops[one.arm] = max(stops[one.arm], evidence)
        excess = len(stops) - (problem.arm_count - len(problem.dormant) - problem.top)
        spared = sorted(stops, key=lambda arm: stops[arm])[: max(excess, 0)]
        verdicts = [one._replace(verdict="proposed") if one.arm in spared else one for one in alarms]
        return sorted(verdicts, key=lambda one: one.verdict == "stopped")

    def policy_without(self, frozen: Iterable[str]) -> Policy:
        """The study's policy with these agents frozen."""
        usual, idle = self.study.make_policy(), sorted(self.study.agents.index(name) for name in frozen)
        if not idle:  # the study's own object, which caches what it computed for earlier phases
            return usual
        unasked = (place for place in idle if self.study.agents[place] in self.leaves)
        return replace(usual, idle=tuple(idle), unasked=tuple(unasked))

    @once
    def awaited(self) -> tuple[str, ...]:
        """The agents whose reports this phase still needs."""
        return () if self.closed_early or self.stage in OVER else self._missing_agents

    @once
    def _missing_agents(self) -> tuple[str, ...]:
        """Agents with work in the phase that are not frozen and have not reported."""
        excused = self.frozen | self.reports.keys()
        return tuple(name for name in compress(self.study.agents, self.plan.asked) if name not in excused)

    def situation(self, agent: str | None = None) -> Situation:
        """The situation for `admit`, with the state of one agent if an event is about it."""
        place = None
        if agent in self.study.agents:
            index = self.study.agents.index(agent)
            draws = self.plan.draws(index)
            place = Place(
                plan=self.plan.digest,
                draws=draws if any(draws) else None,
                between=self.plan.between_of(index),
                most_ahead=self.plan.most_ahead_of(index),
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
            closed_early=self.closed_early,
            reported=len(self.reports),
            place=place,
            against=self.against,
        )

    def before(self, event: Event) -> Situation:
        """The situation in which `admit` judges an event."""
        here = self.situation(agent_of(event))
        if isinstance(event, ReportRefused):
            return replace(here, aside=Aside(event.phase, event.agent, event.report) in self.asides)
        return replace(here, counted=self._counted(event)) if isinstance(event, ReportCorrected) else here

    def _counted(self, event: ReportCorrected) -> Counted | None:
        phase, agent = event.report.phase, event.report.agent
        if self.past is None or phase > len(self.settled) or agent not in self.settled[phase - 1].reports:
            return None
        plan, reports, ahead = self.settled[phase - 1]
        place = self.study.agents.index(agent)
        last = self.corrected(phase, agent)
        return Counted(
            plan=plan.digest,
            draws=plan.draws(place),
            counts=tuple(self.past[phase - 1].counts[:, place].tolist()),
            digest=reports[agent] if last is None else last.digest,
            between=plan.between_of(place),
            ahead=ahead.get(agent, ()),
        )

    def corrected(self, phase: int, agent: str) -> Report | None:
        """The latest correction of an agent's report in a decided phase; None if it was never corrected."""
        found = (one.report for one in reversed(self.corrections))
        return next((report for report in found if (report.phase, report.agent) == (phase, agent)), None)

    @property
    def ends(self) -> dict[str, OutcomeStatus]:
        """How the study ended for every agent; `open` for an agent whose question is not decided yet."""
        return dict(zip(self.study.agents, self.policy.ends(self.state, STOPPED.get(self.stage)), strict=True))

    def step(self) -> Step:
        """Take the policy's step on the reports received. This is pure, and the slow part of closing a phase."""
        # A guardrail may stop an arm before the phase is decided, so the log must have its findings first.
        if self.finding is not None:
            found = (
                f"{self.finding.arm!r} {self.finding.verdict} by the guardrail {self.finding.guardrail!r}, not told yet"
            )
            raise InvalidInput("guardrails", found=found, allowed="all that they find, in the log before the step")
        totals = self.totals
        after = self.policy.update(self.state, totals)
        decision = Decision(
            study=self.id,
            phase=self.phase,
            plan=self.plan.digest,
            # Sorted by agent, since reports arrive in any order.
            data=digest([self.reports[name].digest for name in sorted(self.reports)]),
            counts=as_rows(totals.counts),
            dropped_in=as_rows(after.dropped_in),
            finished=bool(after.finished),
            state=digest(after.to_json()),
            missing=self._missing(),
            asked=self._asked(totals),
            releases=max((report.releases or 0 for report in self.reports.values()), default=0) or None,
            theta=self._of_reports("theta"),
            x0=self._of_reports("x0"),
            missing_x=sum(report.missing_x or 0 for report in self.reports.values()) or None,
            voided=sum(report.voided or 0 for report in self.reports.values()) or None,
            unmasked={name: one.unmasked for name, one in sorted(self.reports.items()) if one.unmasked} or None,
            between=() if totals.between is None else as_rows(totals.between.counts),
            ahead=() if self.ahead is None else as_rows(self.ahead),
        )
        plan = next_plan(self.policy, after, self.id, self.phase + 1, self.frozen, self.ahead)
        return Step(state=after, decision=decision, plan=plan)

    @property
    def ahead(self) -> IntArray | None:
        """`(arm, agent)`: people assigned for the next phase, according to this phase's reports; None if nobody was."""
        nobody = (0,) * len(self.study.arms)
        columns = [getattr(self.reports.get(name), "ahead", ()) or nobody for name in self.study.agents]
        return np.array(columns, dtype=np.int64).T if any(map(any, columns)) else None

    def _missing(self) -> tuple[tuple[int, ...], ...]:
        """`(arm, agent)`: people whose outcome will never come; empty if no agent reports any."""
        found = np.zeros((len(self.study.arms), len(self.study.agents)), dtype=np.int64)
        for name, report in self.reports.items():
            place = self.study.agents.index(name)
            for gone in (report.missing, () if report.between is None else report.between.missing):
                found[:, place] += gone or 0
        return as_rows(found) if found.any() else ()

    def _of_reports(self, name: str) -> tuple[float | None, ...]:
        """Per agent: the field `name` of its report, None without a report; empty if the study has no covariate."""
        if self.study.problem.adjustment is None:
            return ()
        return tuple(getattr(self.reports.get(agent), name, None) for agent in self.study.agents)

    def _asked(self, totals: Totals) -> tuple[tuple[int, ...], ...]:
        """`(arm, agent)`: draws planned for the agents that reported; empty if all counts are as planned."""
        planned = self.plan.array * np.isin(self.study.agents, list(self.reports))
        return () if np.array_equal(planned, totals.counts) else as_rows(planned)

    @property
    def totals(self) -> Totals:
        """`(arm, agent)`: the totals of the phase's reports; zero for an agent without a report."""
        columns = [self.reports[name].totals if name in self.reports else None for name in self.study.agents]
        return Totals.columns(columns, len(self.study.arms))

    @once
    def outcome_totals(self) -> tuple[Totals, ...]:
        """`(arm, agent)` for each further outcome: the totals of the phase's reports."""
        found = []
        for place in range(len(self.study.outcomes)):
            columns = [
                self.reports[name].outcome_totals(place) if name in self.reports else None for name in self.study.agents
            ]
            found.append(Totals.columns(columns, len(self.study.arms)))
        return tuple(found)

    def close(self, step: Step) -> Trial:
        """Apply a step of the policy, and return the trial after it."""
        after = admit(self.situation(), step.event)
        past = None if self.past is None else (*self.past, self.totals)
        mine = Settled(
            plan=self.plan,
            reports={name: report.digest for name, report in self.reports.items()},
            ahead={name: report.ahead for name, report in self.reports.items() if report.ahead},
        )
        settled = () if past is None else (*self.settled, mine)
        # The difference of two states, not this phase's totals: the coordinator computes it so from stored states, and
        # both must agree to the last bit. With a covariate, whose slope may differ in every phase, reports are not
        # compared with the past, and a state's squares are not sums over all draws.
        adjusted = self.study.problem.adjustment is not None
        latest = None if adjusted else step.state.totals - self.state.totals
        closed = replace(
            self,
            stage=after.stage,
            state=step.state,
            past=past,
            settled=settled,
            latest=latest,
            outcomes_past=(*self.outcomes_past, self.outcome_totals) if self.study.outcomes else (),
            guards=self.guarded_now if self.study.outcomes else (),
        )
        return closed if step.plan is None else closed.opened(step.plan)

    def opened(self, plan: Plan) -> Trial:
        """Return a copy of the trial in which the phase of a new plan is open."""
        model, latest = self.study.problem.noise, self.latest
        against = None if latest is None else model.past(self.state.totals, latest, plan.phase - 1)
        return replace(self, plan=plan, reports={}, closed_early=False, held={}, refused=frozenset(), against=against)


# Plans.


def as_rows(array: IntArray) -> Rows:
    """Convert a matrix to nested tuples, as messages hold them."""
    return tuple(map(tuple, array.tolist()))


def make_plan(
    policy: Policy, state: State, study: str, phase: int, frozen: Iterable[str], ahead: IntArray | None = None
) -> Plan:
    """Make the policy's plan, without the draws of frozen agents; `ahead (arm, agent)` are people assigned already.

    An agent without draws in the phase does not report, so the people whom it assigned ahead are not reported either.
    """
    quotas = policy.plan(state, ahead).copy()
    for name in frozen:
        quotas[:, policy.problem.agents.index(name)] = 0
    _require_countable(state, quotas)
    between = None if ahead is None else asked_with(quotas, ahead)
    assigns = policy.problem.between == "assign"
    return Plan(
        study=study,
        phase=phase,
        quotas=as_rows(quotas),
        between=() if between is None or not between.any() else as_rows(between),
        most_ahead=tuple(policy.most_ahead(state, quotas, between).tolist()) if assigns else (),
    )


def next_plan(
    policy: Policy, state: State, study: str, phase: int, frozen: Iterable[str], ahead: IntArray | None = None
) -> Plan | None:
    """Make the plan of the next phase; None if all questions are answered, or if no agent can draw."""
    if state.finished:
        return None
    plan = make_plan(policy, state, study, phase, frozen, ahead)
    return plan if plan.array.any() else None


def _require_countable(state: State, quotas: IntArray) -> None:
    """Raise if the study's draws would add up to more than a log can store."""
    total = float(state.counts.sum(dtype=np.float64) + quotas.sum(dtype=np.float64))
    if total > LARGEST_INTEGER or (quotas < 0).any():
        raise InvalidInput(
            "plan",
            found=f"about {abs(total):.3g} draws in all",
            allowed="up to 2^53, the largest count that a log can hold",
            hint="The noise is too large for gaps this small",
        )
