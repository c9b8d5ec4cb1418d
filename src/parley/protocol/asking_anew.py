"""Change a trial's question (its weights or arms) and replay the recorded phases; bring a frozen agent back."""

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
    """A trial whose question was changed; `admit` decides at which stages that is allowed."""

    trial: Trial
    states: list[State]  # the policy's state after every recorded phase, without the initial state
    plan: Plan | None  # plan of the next phase if the study had stalled, else None
    kind: type[Reweighed | ArmOpened | ArmWithdrawn] = Reweighed
    arm: str = ""  # the arm that was opened or withdrawn
    finding: Finding | None = None  # the guardrail's finding that stopped the arm

    def event(self, reason: str, consequences: str) -> Reweighed | ArmOpened | ArmWithdrawn:
        """Make the event that records this change in the log."""
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
    """Replay all recorded phases under another question, which may spend `delta`.

    `trial` already says which agents left and which arms are open. A phase in progress goes on as planned: its counts
    were fixed before its rewards, which is all that a fair bet needs. If the study had stalled, the next phase is
    planned at once.
    """
    assert trial.past is not None, "the question of a trial cannot change before its recorded phases are loaded"
    origin, arms = trial.claim, (trial.arms_opened, trial.arms_withdrawn)
    asked = replace(trial, study=ask_anew(origin, weights, delta, *arms), origin=origin, guards=None)
    start, *states = folded(asked.policy, trial.past)
    asked = replace(asked, state=states[-1] if states else start)
    plan = _going_on(asked)
    return Anew(trial=asked if plan is None else asked.opened(plan), states=states, plan=plan, kind=kind, arm=arm)


def reweigh(trial: Trial, weights: Weights) -> Anew:
    """Change the weights of a trial, and replay its recorded phases."""
    left = left_by(trial.study, weights, trial.frozen)
    if weights == trial.study.weights and trial.leaves & trial.frozen == frozenset(left):
        raise InvalidInput("weights", found="those in force", allowed="others: nothing would change")
    origin = trial.claim
    delta = origin.problem.delta * share_of_delta(origin, weights, trial.frozen, trial.arms_withdrawn)
    return _anew(replace(trial, leaves=frozenset(left)), weights, delta)


def _delta_without(trial: Trial, withdrawn: Collection[str]) -> float:
    """The delta that the question with the current weights may spend once some arms are withdrawn.

    The weights keep the share of delta that they got when they were set, even if agents were frozen or thawed since.
    """
    origin, count = trial.claim.problem, len(trial.study.arms)
    if trial.study.weights == trial.claim.weights:
        return origin.delta * share_without(count, len(withdrawn))
    now = share_without(count, len(trial.arms_withdrawn))
    return trial.study.problem.delta / now * share_without(count, len(withdrawn))


def open_arm(trial: Trial, arm: str) -> Anew:
    """Make a dormant or withdrawn arm a candidate of every agent.

    A dormant arm was never drawn, so no bet was made on it and its wealth is 1. All earlier draws of a withdrawn arm
    count again.
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
    """Withdraw an arm: no agent draws it from then on, and its draws do not count as evidence against other arms."""
    candidates = [name for name in trial.study.arms if name not in trial.study.problem.dormant]
    if arm not in candidates:
        raise InvalidInput("arm", found=repr(arm), allowed=", ".join(candidates))
    withdrawn = {**trial.arms_withdrawn, arm: trial.phase}
    without = replace(trial, arms_withdrawn=withdrawn)
    return _anew(without, trial.study.weights, _delta_without(trial, withdrawn), ArmWithdrawn, arm)


def stop_arm(trial: Trial, found: Finding) -> Anew:
    """Withdraw an arm on which a guardrail raised an alarm."""
    anew = withdraw_arm(replace(trial, verdicts=trial.verdicts | {found}), found.arm)
    return replace(anew, kind=ArmStopped, finding=found)


def finding_event(trial: Trial, found: Finding) -> Anew | GuardrailNoted:
    """Act on a guardrail's finding. Returns the changed trial if an arm is stopped, else the event to log."""
    if found.verdict == "stopped":
        return stop_arm(trial, found)
    return GuardrailNoted(
        phase=trial.phase, guardrail=found.guardrail, arm=found.arm, verdict=found.verdict, agents=found.agents
    )


def asked_again(trial: Trial, event: Reweighed | ArmOpened | ArmWithdrawn) -> Anew:
    """Repeat the change of question that an event records, from the trial before the event."""
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
    """A trial in which a frozen agent takes part again; `admit` decides at which stages that is allowed."""

    trial: Trial
    agent: str
    plan: Plan | None  # plan of the next phase if the study had stalled, else None

    def event(self, reason: str, consequences: str) -> AgentThawed:
        """Make the event that records the return in the log."""
        return AgentThawed(agent=self.agent, reason=reason, plan=self.plan, consequences=consequences)


def thaw(trial: Trial, agent: str) -> Thawing:
    """Bring a frozen agent back: into the current phase if reports are still due, otherwise from the next phase."""
    back = replace(trial, frozen=trial.frozen - {agent}, closed_early=trial.closed_early or not trial.awaited)
    plan = _going_on(back)
    return Thawing(trial=back if plan is None else back.opened(plan), agent=agent, plan=plan)


def _going_on(trial: Trial) -> Plan | None:
    """Plan the next phase if the trial had stalled. Returns None if it had not, or if still no agent can draw."""
    if trial.stage is not Stage.STALLED:
        return None
    return next_plan(trial.policy, trial.state, trial.id, trial.phase + 1, trial.frozen, trial.ahead)
