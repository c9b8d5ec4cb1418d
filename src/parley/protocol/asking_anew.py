"""Change a trial's question and replay its recorded phases: other weights or arms, a site that returns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from parley.errors import InvalidInput
from parley.policies import State
from parley.problem import share_without
from parley.protocol.codec import digest
from parley.protocol.events import AgentThawed, ArmOpened, ArmStopped, ArmWithdrawn, GuardrailNoted, Reweighed
from parley.protocol.lost_sites import ask_anew, folded, left_by, share_of_delta
from parley.protocol.messages import Plan, Weights
from parley.protocol.state_machine import Stage
from parley.protocol.trial import Finding, Trial, as_rows, next_plan


@dataclass(frozen=True, kw_only=True)
class Anew:
    """A trial that asks another question; `admit` decides at which stage that is allowed."""

    trial: Trial
    states: list[State]  # after every recorded phase, without the initial one
    plan: Plan | None  # of the next phase, if the study had stalled
    kind: type[Reweighed | ArmOpened | ArmWithdrawn] = Reweighed
    arm: str = ""  # the arm that was opened or withdrawn
    finding: Finding | None = None  # the guardrail's finding that stopped it

    def event(self, reason: str, consequences: str) -> Reweighed | ArmOpened | ArmWithdrawn:
        """The event that the log keeps."""
        trial, alarm = self.trial, self.finding
        more = {} if alarm is None else {"guardrail": alarm.guardrail, "agents": alarm.agents}
        return self.kind(
            **more,
            phase=trial.phase if self.plan is None else trial.phase - 1,
            reason=reason,
            weights=trial.study.weights,
            delta=trial.study.problem.delta,
            left=tuple(sorted(trial.leaves)),
            states=tuple(digest(state.to_json()) for state in self.states),
            dropped_in=as_rows(trial.state.dropped_in),
            finished=bool(trial.state.finished),
            plan=self.plan,
            consequences=consequences,
            arm=self.arm,
            opened=dict(trial.arms_opened),
            withdrawn=dict(trial.arms_withdrawn),
        )


def _anew(
    trial: Trial,
    weights: Weights,
    delta: float,
    kind: type[Reweighed | ArmOpened | ArmWithdrawn] = Reweighed,
    arm: str = "",
) -> Anew:
    """Replay all recorded phases under another question, which may spend `delta`; `trial` has its agents and arms.

    A phase in progress goes on as planned: its counts were fixed before its rewards, which is all that a fair bet
    needs. If the study had stalled, the next phase is planned at once.
    """
    assert trial.past is not None, "the question of a trial cannot change before its recorded phases are loaded"
    origin, arms = trial.claim, (trial.arms_opened, trial.arms_withdrawn)
    asked = replace(trial, study=ask_anew(origin, weights, delta, *arms), origin=origin, guards=None)
    start, *states = folded(asked.policy, trial.past)
    asked = replace(asked, state=states[-1] if states else start)
    plan = _going_on(asked)
    return Anew(trial=asked if plan is None else asked.opened(plan), states=states, plan=plan, kind=kind, arm=arm)


def reweigh(trial: Trial, weights: Weights) -> Anew:
    """The trial re-weighed with these weights."""
    left = left_by(trial.study, weights, trial.frozen)
    if weights == trial.study.weights and trial.leaves & trial.frozen == frozenset(left):
        raise InvalidInput("weights", found="those in force", allowed="others: nothing would change")
    origin = trial.claim
    delta = origin.problem.delta * share_of_delta(origin, weights, trial.frozen, trial.arms_withdrawn)
    return _anew(replace(trial, leaves=frozenset(left)), weights, delta)


def _delta_without(trial: Trial, withdrawn: Collection[str]) -> float:
    """The delta that the current weights may spend without some arms.

    Their share is the one that they were set with: freezing or thawing since then changes no weight.
    """
    origin, count = trial.claim.problem, len(trial.study.arms)
    if trial.study.weights == trial.claim.weights:
        return origin.delta * share_without(count, len(withdrawn))
    now = share_without(count, len(trial.arms_withdrawn))
    return trial.study.problem.delta / now * share_without(count, len(withdrawn))


def open_arm(trial: Trial, arm: str) -> Anew:
    """The trial with a dormant or withdrawn arm as everybody's candidate.

    No bet was made on it while it was not drawn, so its wealth is 1; after a withdrawal all of its draws count again.
    """
    closed = trial.study.problem.dormant
    if arm not in closed:
        raise InvalidInput("arm", found=repr(arm), allowed=", ".join(closed) or "none: all arms are open")
    if any((one.arm, one.verdict) == (arm, "stopped") for one in trial.verdicts):
        allowed = (
            "an arm that no guardrail has stopped, since how often a stopped arm was drawn depends on its outcomes"
        )
        raise InvalidInput("arm", found=f"{arm!r}, which a guardrail stopped", allowed=allowed)
    withdrawn = {name: phase for name, phase in trial.arms_withdrawn.items() if name != arm}
    opened = {**trial.arms_opened, arm: trial.phase}
    with_it = replace(trial, arms_opened=opened, arms_withdrawn=withdrawn)
    return _anew(with_it, trial.study.weights, _delta_without(trial, withdrawn), ArmOpened, arm)


def withdraw_arm(trial: Trial, arm: str) -> Anew:
    """The trial without an arm: nobody draws it any more, and its draws do not count as evidence against others."""
    candidates = [name for name in trial.study.arms if name not in trial.study.problem.dormant]
    if arm not in candidates:
        raise InvalidInput("arm", found=repr(arm), allowed=", ".join(candidates))
    withdrawn = {**trial.arms_withdrawn, arm: trial.phase}
    without = replace(trial, arms_withdrawn=withdrawn)
    return _anew(without, trial.study.weights, _delta_without(trial, withdrawn), ArmWithdrawn, arm)


def stop_arm(trial: Trial, found: Finding) -> Anew:
    """The trial without an arm for which a guardrail raised an alarm."""
    anew = withdraw_arm(replace(trial, verdicts=trial.verdicts | {found}), found.arm)
    return replace(anew, kind=ArmStopped, finding=found)


def finding_event(trial: Trial, found: Finding) -> Anew | GuardrailNoted:
    """The event of a guardrail's finding: another question, or a note."""
    if found.verdict == "stopped":
        return stop_arm(trial, found)
    return GuardrailNoted(
        phase=trial.phase, guardrail=found.guardrail, arm=found.arm, verdict=found.verdict, agents=found.agents
    )


def asked_again(trial: Trial, event: Reweighed | ArmOpened | ArmWithdrawn) -> Anew:
    """The recorded phases replayed under the question that an event asks."""
    match event:
        case ArmOpened(arm=arm):
            return open_arm(trial, arm)
        case ArmStopped(arm=arm):
            found = trial.finding
            if found is None or (found.arm, found.verdict) != (arm, "stopped"):
                raise InvalidInput(
                    "arm", found=f"{arm!r} stopped", allowed="an arm on which a guardrail raised an alarm"
                )
            return stop_arm(trial, found)
        case ArmWithdrawn(arm=arm):
            return withdraw_arm(trial, arm)
        case Reweighed(weights=weights):
            return reweigh(trial, weights)


@dataclass(frozen=True, kw_only=True)
class Thawing:
    """A trial in which a frozen agent takes part again; `admit` decides at which stage that is allowed."""

    trial: Trial
    agent: str
    plan: Plan | None  # of the next phase, if the study had stalled

    def event(self, reason: str, consequences: str) -> AgentThawed:
        """The event that the log keeps."""
        return AgentThawed(agent=self.agent, reason=reason, plan=self.plan, consequences=consequences)


def thaw(trial: Trial, agent: str) -> Thawing:
    """Bring a frozen agent back: into the current phase if reports are still due, otherwise from the next phase."""
    back = replace(trial, frozen=trial.frozen - {agent}, closed_early=trial.closed_early or not trial.awaited)
    plan = _going_on(back)
    return Thawing(trial=back if plan is None else back.opened(plan), agent=agent, plan=plan)


def _going_on(trial: Trial) -> Plan | None:
    """The next plan if the trial had stalled, else None."""
    if trial.stage is not Stage.STALLED:
        return None
    return next_plan(trial.policy, trial.state, trial.id, trial.phase + 1, trial.frozen, trial.ahead)
