"""What a study found, in numbers: every mixed mean and its differences, with intervals that hold all together.

They hold for all agents, arms, differences and phases at once with probability at least 1 - delta, whatever policy drew
and whenever it stopped: `docs/estimates.md`. The usual interval, for a number of draws fixed in advance, stands beside
them under its own name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from parley.checks import BoolArray, FloatArray, IntArray
from parley.problem import Problem
from parley.rewards.intervals import stack_phases
from parley.totals import Totals

__all__ = ["Estimate", "Estimates", "estimates", "leading"]

EVERY = slice(None)

WORDS = (
    "low to high hold together for all agents, arms, differences and phases with probability at least the level; "
    "fixed_low to fixed_high is the usual interval, each by itself, for a number of draws fixed in advance, which this "
    "was not"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Of one contrast per arm and agent, `(..., arm, agent)`."""

    value: FloatArray  # from all draws
    low: FloatArray  # the interval that holds jointly and at all phases; infinite without data
    high: FloatArray
    error: FloatArray  # the usual standard error: what a fixed-time interval is made of

    def cell(self, arm: int, agent: int, quantile: float) -> dict[str, float | None]:
        """One arm of one agent, ready for JSON: None where there are no data."""
        value, error = float(self.value[arm, agent]), float(self.error[arm, agent])
        told = {
            "estimate": value if math.isfinite(error) else math.nan,
            "low": float(self.low[arm, agent]),
            "high": float(self.high[arm, agent]),
            "fixed_low": value - quantile * error,
            "fixed_high": value + quantile * error,
        }
        return {name: number if math.isfinite(number) else None for name, number in told.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Every mean, every difference to the agent's leader, and to the control where the problem names one."""

    problem: Problem
    agents: tuple[str, ...]  # those told of
    leader: IntArray  # (..., agent): the arm that the differences are to
    mean: Estimate
    lead: Estimate
    control: Estimate | None

    def document(self) -> dict[str, Any]:
        """Ready for JSON: per agent and arm."""
        problem, quantile = self.problem, fixed_quantile(self.problem)
        kinds = {"mean": self.mean, "to_leader": self.lead} | ({"to_control": self.control} if self.control else {})
        return {
            "level": 1 - problem.delta,
            "words": WORDS,
            "agents": [
                {
                    "agent": agent,
                    "leader": problem.arms[int(self.leader[m])],
                    "arms": [
                        {"arm": arm} | {name: kind.cell(k, m, quantile) for name, kind in kinds.items()}
                        for k, arm in enumerate(problem.arms)
                    ],
                }
                for m, agent in enumerate(self.agents)
            ],
        }


def fixed_quantile(problem: Problem) -> float:
    """Standard errors to either side in a usual interval at the study's level."""
    return float(-ndtri(problem.delta / 2))


def joint_line(problem: Problem) -> float:
    """The log of one over the level of a single interval: delta is shared by all means and all pairs of arms."""
    pairs = problem.arm_count * (problem.arm_count + 1) // 2
    return math.log(pairs * problem.question_count) - math.log(problem.delta)


def leading(problem: Problem, totals: Totals, among: BoolArray | None = None) -> IntArray:
    """`(..., agent)`: the arm with the best estimate `among` some; the first where nothing is known."""
    known = problem.drawn(totals.counts) if among is None else problem.drawn(totals.counts) & among
    return np.asarray(np.argmax(np.where(known, problem.mixed(totals.means), -np.inf), axis=-2))


def estimates(
    problem: Problem, phases: Sequence[Totals], leader: IntArray | None = None, some: slice = EVERY
) -> Estimates:
    """From every phase's fresh draws, `(..., arm, agent)` each; `leader` is the best estimate unless told.

    `some` are the agents to tell of: their intervals are no wider and no narrower for it.

    >>> problem = Problem(arms=2, weights=[[1.0]])
    >>> phase = Totals(counts=np.array([[50], [50]]), sums=np.array([[40.0], [10.0]]))
    >>> found = estimates(problem, [phase, phase])
    >>> found.lead.low.round(2).tolist(), found.lead.high.round(2).tolist()
    ([[0.0], [-1.05]], [[0.0], [-0.15]])
    """
    past, seen = Totals.zero(phases[0].counts.shape), []
    for fresh in phases:
        seen.append(problem.noise.summary(past, fresh, problem.weights))
        past = past + fresh
    every, line = stack_phases(seen).of(some), joint_line(problem)
    value = problem.mixed(past.means)[..., some]
    variance = _usual_variances(problem, past)[..., some]
    leader = (leading(problem, past) if leader is None else leader)[..., some]
    low, high = problem.noise.interval(every, line)
    if problem.noise.low is not None and problem.noise.high is not None:
        low, high = np.maximum(low, problem.noise.low), np.minimum(high, problem.noise.high)
    mean = Estimate(value=value, low=low, high=high, error=np.sqrt(variance))

    def against(reference: IntArray) -> Estimate:
        place = reference[..., None, :]
        itself = np.arange(problem.arm_count)[:, None] == place

        def other(values: FloatArray) -> FloatArray:
            return np.take_along_axis(values, place, axis=-2)

        ends = problem.noise.interval(every.against(reference), line)
        # The two means' own intervals say something of their difference too, and nothing more can go wrong by that.
        lower, upper = np.maximum(ends[0], low - other(high)), np.minimum(ends[1], high - other(low))
        return Estimate(
            value=value - other(value),
            low=np.where(itself, 0.0, lower),
            high=np.where(itself, 0.0, upper),
            error=np.where(itself, 0.0, np.sqrt(variance + other(variance))),
        )

    control = None
    if problem.control is not None:
        control = against(np.full_like(leader, problem.arms.index(problem.control)))
    return Estimates(
        problem=problem, agents=problem.agents[some], leader=leader, mean=mean, lead=against(leader), control=control
    )


def _usual_variances(problem: Problem, totals: Totals) -> FloatArray:
    """`(..., arm, agent)`: of pooled mixed means, known or estimated; infinite where something is missing."""
    found = problem.mixed_variances(totals.counts, problem.noise.cell_variances(totals))
    return np.where(problem.drawn(totals.counts), found, np.inf)
