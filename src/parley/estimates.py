"""Estimates of every mixed mean and its differences, with intervals that hold simultaneously.

They hold for all agents, arms, differences and phases at once with probability at least 1 - delta, whatever policy drew
and whenever it stopped (docs/estimates.md). Beside them stands the usual interval, for a fixed number of draws.
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
from parley.rewards.intervals import Interval, stack_phases
from parley.totals import Totals

EVERY = slice(None)

WORDS = (
    "low to high hold together for all agents, arms, differences and phases with probability at least the level; "
    "fixed_low to fixed_high is the usual interval, each by itself, for a number of draws fixed in advance, which this "
    "was not"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Estimates of one contrast per arm and agent, `(..., arm, agent)`."""

    value: FloatArray  # from all draws
    low: FloatArray  # the interval that holds jointly and at all phases; infinite without data
    high: FloatArray
    error: FloatArray  # the usual standard error, for fixed-time intervals

    def cell(self, arm: int, agent: int, quantile: float) -> dict[str, float | None]:
        """One arm of one agent, ready for JSON: None where there are no data."""
        value, error = float(self.value[arm, agent]), float(self.error[arm, agent])
        numbers = {
            "estimate": value if math.isfinite(error) else math.nan,
            "low": float(self.low[arm, agent]),
            "high": float(self.high[arm, agent]),
            "fixed_low": value - quantile * error,
            "fixed_high": value + quantile * error,
        }
        return {name: number if math.isfinite(number) else None for name, number in numbers.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Every mean, its difference to the agent's leader and, if the problem names a control, to the control."""

    problem: Problem
    agents: tuple[str, ...]  # whose estimates these are
    leader: IntArray  # (..., agent): the arm that the differences are to
    mean: Estimate
    lead: Estimate
    control: Estimate | None

    def document(self, claimed: float | None = None) -> dict[str, Any]:
        """All estimates per agent and arm, ready for JSON.

        A question that was asked anew may spend only a share of the delta that is `claimed` for all of them together.
        """
        problem, delta = self.problem, self.problem.delta if claimed is None else claimed
        quantile = fixed_quantile(delta)
        kinds = {"mean": self.mean, "to_leader": self.lead} | ({"to_control": self.control} if self.control else {})
        return {
            "level": 1 - delta,
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


def fixed_quantile(delta: float) -> float:
    """How many standard errors a usual interval at the level 1 - delta reaches to either side."""
    return float(-ndtri(delta / 2))


def joint_line(problem: Problem) -> float:
    """log(1 / level) of a single interval: all means and all pairs of arms share delta."""
    pairs = problem.arm_count * (problem.arm_count + 1) // 2
    return math.log(pairs * problem.question_count) - math.log(problem.delta)


def leading(problem: Problem, totals: Totals, among: BoolArray | None = None) -> IntArray:
    """`(..., agent)`: the arm with the best estimate, `among` some; the first arm where there are no data."""
    known = problem.drawn(totals.counts) if among is None else problem.drawn(totals.counts) & among
    return np.asarray(np.argmax(np.where(known, problem.mixed(totals.means), -np.inf), axis=-2))


def estimates(
    problem: Problem, phases: Sequence[Totals], leader: IntArray | None = None, some: slice = EVERY
) -> Estimates:
    """Estimates from every phase's fresh draws, `(..., arm, agent)` each; `leader` is the best estimate unless given.

    `some` selects agents; it does not change their intervals.

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
    # What the sums may have lost when they were added up, in the worst phase: an interval of their means moves by that.
    lost = [fresh.mixed_rounding(problem.weights)[..., some] for fresh in phases if problem.noise.needs_squares]
    rounding = np.max(lost, axis=0) if lost else np.zeros(value.shape)
    low, high = _widened(problem.noise.interval(every, line), rounding)
    if problem.noise.low is not None and problem.noise.high is not None:
        low, high = np.maximum(low, problem.noise.low), np.minimum(high, problem.noise.high)
    mean = Estimate(value=value, low=low, high=high, error=np.sqrt(variance))

    def against(reference: IntArray) -> Estimate:
        place = reference[..., None, :]
        itself = np.arange(problem.arm_count)[:, None] == place

        def other(values: FloatArray) -> FloatArray:
            return np.take_along_axis(values, place, axis=-2)

        ends = _widened(problem.noise.interval(every.against(reference), line), rounding + other(rounding))
        # The intervals of the two means bound their difference too, at no further risk of error.
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


def _widened(ends: Interval, by: FloatArray) -> Interval:
    return ends[0] - by, ends[1] + by


def _usual_variances(problem: Problem, totals: Totals) -> FloatArray:
    """`(..., arm, agent)`: variances of pooled mixed means, known or estimated; infinite where draws are missing."""
    found = problem.mixed_variances(totals.counts, problem.noise.cell_variances(totals))
    return np.where(problem.drawn(totals.counts), found, np.inf)
