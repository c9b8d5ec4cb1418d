"""What re-weighing a study or thawing an agent would do, computed before anybody confirms it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from parley.errors import InvalidInput
from parley.protocol.codec import Message
from parley.protocol.lost_sites import reweigh, thaw
from parley.protocol.prospects import Prospect, prospect
from parley.protocol.reweighing import Weights, not_reweighable, weights_without
from parley.protocol.stages import Stage, illegal
from parley.protocol.trial import Trial

__all__ = ["Column", "ReweighConsequences", "ThawConsequences", "reweigh_consequences", "thaw_consequences"]


class Column(Message, tag="parley/column/1"):
    """An agent whose question changes: what its mix weighs now, and what it would weigh."""

    agent: str
    before: tuple[float, ...]
    after: tuple[float, ...]


class ReweighConsequences(Message, tag="parley/reweigh-consequences/1"):
    """What an administrator is shown before a study is re-weighed; its digest is confirmed and kept in the log."""

    study: str
    phase: int
    frozen: tuple[str, ...]
    weights: Weights
    columns: tuple[Column, ...]  # those that change
    left: tuple[str, ...]  # whose own question rests
    withdrawn: tuple[str, ...]  # who has an answer now, and would have none or another one
    finished: bool  # the recorded phases answer everything: the study would end at once
    prospect: Prospect
    effect: str
    guarantee: str


def reweigh_consequences(trial: Trial, given: Mapping[str, Sequence[float]] | None = None) -> ReweighConsequences:
    """Of the weights of the study as it was created, without its frozen agents, or with `given` columns."""
    why = not_reweighable(trial.study)
    if why is not None:
        raise illegal(trial.stage, "reweighed", why)
    weights = weights_without(trial.origin or trial.study, sorted(trial.frozen), given)
    anew = reweigh(trial, weights)
    after = anew.trial
    before, now = np.array(trial.study.weights), np.array(weights)
    changed = np.flatnonzero((before != now).any(axis=0))
    top = trial.study.problem.top
    had = (trial.state.active.sum(axis=0) <= top) & (trial.state.active != after.state.active).any(axis=0)
    ahead = prospect(after)
    finished = bool(after.state.finished)
    agents = trial.study.agents
    return ReweighConsequences(
        study=trial.id,
        phase=trial.phase,
        frozen=tuple(sorted(trial.frozen)),
        weights=weights,
        columns=tuple(
            Column(agent=agents[m], before=tuple(before[:, m].tolist()), after=tuple(now[:, m].tolist()))
            for m in changed
        ),
        left=tuple(sorted(after.leaves)),
        withdrawn=tuple(agents[m] for m in np.flatnonzero(had)),
        finished=finished,
        prospect=ahead,
        effect=_effect(trial, ahead, changed=len(changed), finished=finished),
        guarantee=(
            f"{after.policy.guarantee}, of the new question: kept, if neither the reason nor the new weights come from "
            "the rewards. Every recorded phase is weighed again as if the question had been asked from the start"
        ),
    )


def _effect(trial: Trial, ahead: Prospect, *, changed: int, finished: bool) -> str:
    asks = f"{changed} of {len(trial.study.agents)} agents ask another question from here on"
    if ahead.left:
        asks += f"; {', '.join(ahead.left)} left: no answer, unless weights are given for it"
    if finished:
        return f"{asks}. The recorded phases answer it: the study ends at once, and what is drawn now is not counted"
    if trial.stage is Stage.STALLED:
        return f"{asks}. The next phase is planned at once"
    return f"{asks}. Phase {trial.phase} goes on as it was asked; the next one is planned for the new question"


class ThawConsequences(Message, tag="parley/thaw-consequences/1"):
    """What an administrator is shown before an agent is thawed; its digest is confirmed and kept in the log."""

    study: str
    agent: str
    phase: int
    awaited: bool  # the phase in progress waits for it again
    weighed_by: tuple[str, ...]  # whose mix weighs it, by the weights in force
    prospect: Prospect
    effect: str
    guarantee: str


def thaw_consequences(trial: Trial, agent: str) -> ThawConsequences:
    """Of a frozen agent that may be asked again."""
    study = trial.study
    if agent not in trial.frozen:
        raise InvalidInput(
            "agent", found=repr(agent), allowed=", ".join(sorted(trial.frozen)) or "none: none is frozen"
        )
    back = thaw(trial, agent).trial
    awaited = agent in back.awaited and trial.stage is not Stage.STALLED
    row = np.array(study.weights)[study.agents.index(agent)]
    weighed = tuple(name for name, weight in zip(study.agents, row, strict=True) if weight > 0)
    others = [name for name in weighed if name != agent]
    where = f"phase {trial.phase} waits for it again" if awaited else "it is asked from the next phase on"
    rests = "" if others else ". Nobody else's mix weighs it: to count with the others again, re-weigh"
    return ThawConsequences(
        study=trial.id,
        agent=agent,
        phase=trial.phase,
        awaited=awaited,
        weighed_by=weighed,
        prospect=prospect(replace(trial, frozen=back.frozen)),
        effect=f"{where}. Weights stay as they are{rests}",
        guarantee=f"{trial.policy.guarantee}: kept, if the reason is not in the rewards",
    )
