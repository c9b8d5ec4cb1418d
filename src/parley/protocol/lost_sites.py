"""What becomes of a trial when its question is asked anew without its frozen agents, and when one of them returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parley.errors import InvalidInput
from parley.policies import State
from parley.protocol.codec import digest
from parley.protocol.events import AgentThawed, Reweighed
from parley.protocol.messages import Plan
from parley.protocol.plans import next_plan, rows
from parley.protocol.reweighing import Weights, ask_anew, folded, left_by
from parley.protocol.stages import Stage
from parley.protocol.trial import Trial

__all__ = ["Anew", "Thawing", "reweigh", "thaw"]


@dataclass(frozen=True, kw_only=True)
class Anew:
    """A trial under other weights; its stage is for the judge to say."""

    trial: Trial
    states: list[State]  # after every recorded phase, without the start
    plan: Plan | None  # of the next phase, where the study had stalled

    def event(self, reason: str, consequences: str) -> Reweighed:
        """As the log keeps it."""
        trial = self.trial
        return Reweighed(
            phase=trial.phase if self.plan is None else trial.phase - 1,
            reason=reason,
            weights=trial.study.weights,
            left=tuple(sorted(trial.leaves)),
            states=tuple(digest(state.to_json()) for state in self.states),
            eliminated_in=rows(trial.state.eliminated_in),
            finished=bool(trial.state.finished),
            plan=self.plan,
            consequences=consequences,
        )


def reweigh(trial: Trial, weights: Weights) -> Anew:
    """The fold of all recorded phases under other weights.

    A phase in progress goes on as it was asked: its counts were fixed before its rewards, which is all that a fair bet
    needs. Where the study had stalled, the next phase is planned at once.
    """
    assert trial.past is not None, "a trial whose recorded phases were not read cannot be re-weighed"
    left = left_by(trial.study, weights, trial.frozen)
    if weights == trial.study.weights and trial.leaves & trial.frozen == frozenset(left):
        raise InvalidInput("weights", found="those in force", allowed="others: nothing would change")
    asked = replace(
        trial, study=ask_anew(trial.study, weights), origin=trial.origin or trial.study, leaves=frozenset(left)
    )
    start, *states = folded(asked.policy, trial.past)
    asked = replace(asked, state=states[-1] if states else start)
    plan = _going_on(asked)
    return Anew(trial=asked if plan is None else asked.opened(plan), states=states, plan=plan)


@dataclass(frozen=True, kw_only=True)
class Thawing:
    """A trial in which an agent may be asked again; its stage is for the judge to say."""

    trial: Trial
    agent: str
    plan: Plan | None  # of the next phase, where the study had stalled

    def event(self, reason: str, consequences: str) -> AgentThawed:
        """As the log keeps it."""
        return AgentThawed(agent=self.agent, reason=reason, plan=self.plan, consequences=consequences)


def thaw(trial: Trial, agent: str) -> Thawing:
    """The trial with an agent back: in a phase that asks it and still waits for somebody, else from the next one on."""
    back = replace(trial, frozen=trial.frozen - {agent}, cut=trial.cut or not trial.awaited)
    plan = _going_on(back)
    return Thawing(trial=back if plan is None else back.opened(plan), agent=agent, plan=plan)


def _going_on(trial: Trial) -> Plan | None:
    """The next plan of a trial that had stalled."""
    if trial.stage is not Stage.STALLED:
        return None
    return next_plan(trial.policy, trial.state, trial.id, trial.phase + 1, trial.frozen)
