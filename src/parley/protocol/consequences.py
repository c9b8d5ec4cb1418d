"""What freezing an agent would do, computed before anybody confirms it.

A mixed mean of agent m is a sum over agents n with weight w[n, m]. If n draws no more, its share of the variance stays
w[n, m]^2 scale^2 / counts[k, n] for ever, however much the others draw: a floor under every interval of (k, m).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.errors import InvalidInput
from parley.policies.base import nth_largest
from parley.problem import FloatArray
from parley.protocol.trial import Trial
from parley.protocol.wire import Message

__all__ = ["Consequences", "Pair", "freeze_consequences"]


@dataclass(frozen=True, kw_only=True)
class Pair(Message):
    """An arm that is still a candidate of an agent, and what the freeze leaves possible."""

    schema: ClassVar[str] = "parley/frozen-pair/1"
    arm: str
    agent: str
    outlook: str  # "never", "unlikely" or "open"
    smallest_radius: float | None  # no interval at this delta can become narrower; None when it is infinite
    gap: float | None  # estimated distance to the boundary of the top N; None without data


@dataclass(frozen=True, kw_only=True)
class Consequences(Message):
    """What an administrator is shown before a freeze; its digest is confirmed and kept in the log."""

    schema: ClassVar[str] = "parley/consequences/1"
    study: str
    agent: str
    phase: int
    frozen: tuple[str, ...]  # with this one
    released: bool  # the phase in progress waits for nobody else and would be decided at once
    undecided_agents: tuple[str, ...]  # with a pair that never can be decided: the study cannot finish
    pairs: tuple[Pair, ...]
    termination: str
    guarantee: str


def freeze_consequences(trial: Trial, agent: str) -> Consequences:
    """Termination and guarantee of the study, were this agent frozen now."""
    study, problem = trial.study, trial.study.problem
    if agent not in study.agents:
        raise InvalidInput("agent", found=repr(agent), allowed="an agent of the study")
    if agent in trial.frozen:
        raise InvalidInput("agent", found=f"{agent!r}, which is frozen already", allowed="an agent that is not frozen")
    frozen = sorted(trial.frozen | {agent})
    floor, gaps = _floors(trial, frozen), _gaps(trial)
    undecided = trial.state.active.sum(axis=0) > problem.top
    pairs = tuple(
        _pair(study.arms[arm], study.agents[column], float(floor[arm, column]), float(gaps[arm, column]))
        for arm, column in np.argwhere(trial.state.active & undecided[None, :])
    )
    never = tuple(name for name in study.agents if any(p.agent == name and p.outlook == "never" for p in pairs))
    return Consequences(
        study=trial.id,
        agent=agent,
        phase=trial.phase,
        frozen=tuple(frozen),
        released=trial.awaited == (agent,),
        undecided_agents=never,
        pairs=pairs,
        termination=_termination(pairs, never),
        guarantee=(
            f"{trial.policy.guarantee}: kept, if the reason for freezing is not in the rewards themselves. Counts "
            "stay, intervals are computed from the draws that were made; an answer may be lost, its error rate is not"
        ),
    )


def _floors(trial: Trial, frozen: list[str]) -> FloatArray:
    """`(arm, agent)`: the narrowest radius that any interval at this delta can reach once `frozen` draw no more."""
    problem = trial.study.problem
    places = [problem.agents.index(name) for name in frozen]
    counts = trial.state.counts.astype(np.float64)
    for name, report in trial.reports.items():  # of the phase in progress: they stay
        counts[:, problem.agents.index(name)] += np.array(report.counts)
    shares = problem.squared_weights[places]  # (frozen, agent)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1.0 / counts[:, places]  # (arm, frozen)
        terms = np.where(shares[None, :, :] > 0, inverse[:, :, None] * shares[None, :, :], 0.0)
    deviation = problem.noise.scale * np.sqrt(terms.sum(axis=1))
    return np.asarray(deviation * math.sqrt(2 * math.log(1 / problem.delta)))


def _gaps(trial: Trial) -> FloatArray:
    """Estimated distance of every arm to the boundary of its agent's top N among the candidates."""
    state, top = trial.state, trial.study.top
    if not state.counts.any():
        return np.full(state.counts.shape, np.nan)
    mixed = trial.study.problem.mixed(state.means)
    inside, outside = nth_largest(mixed, top, state.active), nth_largest(mixed, top + 1, state.active)
    return np.where(mixed >= inside, mixed - outside, inside - mixed)


def _pair(arm: str, agent: str, floor: float, gap: float) -> Pair:
    # Two intervals must come apart, or one must leave the other's centre: a gap below the floor decides neither.
    outlook = "never" if math.isinf(floor) else "unlikely" if math.isfinite(gap) and gap < floor else "open"
    return Pair(
        arm=arm,
        agent=agent,
        outlook=outlook,
        smallest_radius=floor if math.isfinite(floor) else None,
        gap=gap if math.isfinite(gap) else None,
    )


def _termination(pairs: tuple[Pair, ...], never: tuple[str, ...]) -> str:
    if never:
        return f"the study cannot finish: {', '.join(never)} would never be decided; it can only be cancelled"
    unlikely = sorted({pair.agent for pair in pairs if pair.outlook == "unlikely"})
    if unlikely:
        return f"in doubt: the estimated gaps of {', '.join(unlikely)} are smaller than the intervals can become"
    return "still possible, if the true gaps exceed the radii shown" if pairs else "nothing is undecided"
