"""What freezing an agent would do, computed before anybody confirms it.

Two views. A floor: a mixed mean of agent m is a sum over agents n with weight w[n, m]; if n draws no more, its share of
the variance stays w[n, m]^2 scale^2 / counts[k, n] for ever, however much the others draw. And a projection: the
policy itself, run ahead without the frozen agents on rewards that are exactly their present estimates (`prospects`).
And two ways to go on: keep the question, or ask it anew without the frozen agents (`choices`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from parley.errors import InvalidInput, ParleyError
from parley.policies.base import nth_largest
from parley.problem import FloatArray
from parley.protocol.choices import ReweighConsequences, reweigh_consequences
from parley.protocol.codec import Message
from parley.protocol.prospects import Prospect, prospect, run_ahead
from parley.protocol.trial import Trial

__all__ = ["Consequences", "Pair", "freeze_consequences"]


class Pair(Message, tag="parley/frozen-pair/1"):
    """An arm that is still a candidate of an undecided agent, and what the freeze leaves possible."""

    arm: str
    agent: str
    outlook: str  # "never": no data will ever tell; "blocked": not decided in the projection; "open"
    smallest_radius: float | None  # no interval at this delta can become narrower; None when it is infinite
    gap: float | None  # estimated distance to the boundary of the top N; None without data


class Consequences(Message, tag="parley/consequences/1"):
    """What an administrator is shown before a freeze; its digest is confirmed and kept in the log."""

    study: str
    agent: str
    phase: int
    frozen: tuple[str, ...]  # with this one
    released: bool  # the phase in progress waits for nobody else and would be decided at once
    undecided_agents: tuple[str, ...]  # who would be left without an answer, as things look
    pairs: tuple[Pair, ...]
    termination: str
    guarantee: str
    keep: Prospect | None = None  # the question as it is: what would become of it
    reweigh: ReweighConsequences | None = None  # the question without the frozen agents; None where it cannot be asked
    no_reweigh: str | None = None  # why not


def freeze_consequences(trial: Trial, agent: str) -> Consequences:
    """Termination and guarantee of the study, were this agent frozen now."""
    study, problem = trial.study, trial.study.problem
    if agent not in study.agents:
        raise InvalidInput("agent", found=repr(agent), allowed="an agent of the study")
    if agent in trial.frozen:
        raise InvalidInput("agent", found=f"{agent!r}, which is frozen already", allowed="an agent that is not frozen")
    frozen = sorted(trial.frozen | {agent})
    floor, gaps = _floors(trial, frozen), _gaps(trial)
    alone = replace(trial, frozen=frozenset(frozen))
    end = run_ahead(alone)
    ahead = np.zeros_like(trial.state.active) if end is None else end.state.active
    anew, why = _anew(alone)
    undecided = trial.state.active.sum(axis=0) > problem.top
    left = ahead & (ahead.sum(axis=0) > problem.top)[None, :]
    pairs = tuple(
        Pair(
            arm=study.arms[arm],
            agent=study.agents[column],
            outlook="never" if math.isinf(floor[arm, column]) else "blocked" if left[arm, column] else "open",
            smallest_radius=_finite(floor[arm, column]),
            gap=_finite(gaps[arm, column]),
        )
        for arm, column in np.argwhere(trial.state.active & undecided[None, :])
    )
    stranded = {pair.agent for pair in pairs if pair.outlook != "open"}
    without = tuple(name for name in study.agents if name in stranded)
    return Consequences(
        study=trial.id,
        agent=agent,
        phase=trial.phase,
        frozen=tuple(frozen),
        released=trial.awaited == (agent,),
        undecided_agents=without,
        pairs=pairs,
        termination=_termination(pairs, without),
        guarantee=(
            f"{trial.policy.guarantee}: kept, if the reason for freezing is not in the rewards themselves. Counts "
            "stay and only draws that were made are weighed; an answer may be lost, the error rate is not"
        ),
        keep=prospect(alone),
        reweigh=anew,
        no_reweigh=why,
    )


def _anew(trial: Trial) -> tuple[ReweighConsequences | None, str | None]:
    """The other way to go on, or why there is none."""
    if trial.past is None:
        return None, None
    try:
        return reweigh_consequences(trial), None
    except ParleyError as error:
        return None, getattr(error, "words", None) or str(error)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


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
    variances = problem.noise.cell_variances(trial.state.totals)
    if isinstance(variances, float):
        deviation = math.sqrt(variances) * np.sqrt(terms.sum(axis=1))
    else:
        own = np.broadcast_to(variances, counts.shape)[:, places, None]
        deviation = np.sqrt(np.where(terms > 0, own * terms, 0.0).sum(axis=1))
    return np.asarray(deviation * math.sqrt(2 * math.log(1 / problem.delta)))


def _gaps(trial: Trial) -> FloatArray:
    """Estimated distance of every arm to the boundary of its agent's top N among the candidates."""
    state, top = trial.state, trial.study.problem.top
    if not state.counts.any():
        return np.full(state.counts.shape, np.nan)
    mixed = trial.study.problem.mixed(state.means)
    inside, outside = nth_largest(mixed, top, state.active), nth_largest(mixed, top + 1, state.active)
    return np.where(mixed >= inside, mixed - outside, inside - mixed)


def _termination(pairs: tuple[Pair, ...], without: tuple[str, ...]) -> str:
    names = ", ".join(without)
    if any(pair.outlook == "never" for pair in pairs):
        return f"the study cannot finish as it is asked: {names} would be left without an answer, unless re-weighed"
    if without:
        return f"the study is not expected to finish: {names} would not be decided if rewards stay as estimated"
    return "still expected, if rewards stay as estimated" if pairs else "nothing is undecided"
