"""Forecasts for guardrails: probability and time of an alarm, probability of clearing an arm, power of the study.

Harm is measured in margins. A guardrail with a limit has no margin, so its harm is measured in steps. A step is half
the distance from the best possible value to the limit or, without a best value, half a standard deviation. A harm of 1
is the limit itself, and a harm of 0 is one step better than the limit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.scenarios import Scenario
from parley.outcomes import Outcome
from parley.policies import make_policy
from parley.problem import FloatArray, Instance, Problem
from parley.simulation.guarded import simulate_guarded

MARGINS = (0.0, 1.0, 2.0, 4.0)  # sizes of harm to simulate
MOST_STUDIES = 400
NOTHING: Mapping[str, FloatArray] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class HarmChance:
    """The forecast of a guardrail for one arm and one size of harm.

    With a margin, every arm but the control is worse than the control by the given number of margins. With a limit,
    only one arm is harmful, by the given number of steps.
    """

    guardrail: str
    truth: str  # the scenario of the primary outcome
    margins: float  # size of the harm, in margins or steps
    mean: float  # mean of the guardrail's outcome for the arm, over all agents
    studies: int
    alarm: float  # share of studies with an alarm about the arm
    people: float | None  # median number of draws of the arm before the alarm; None without alarms
    phase: float | None  # median phase of the alarm; None without alarms
    cleared: float  # share of studies that cleared the arm
    power: float  # share of studies in which every agent gets a right answer among the remaining arms


def harm_chances(
    planner: Planner, problem: Problem, scenario: Scenario, stated: Mapping[str, FloatArray] = NOTHING
) -> list[HarmChance]:
    """Forecast every guardrail under the first truth of a scenario; impossible harms are skipped.

    `stated` are true means of outcomes, `(arm, agent)`. They give the control's mean; without them, the control has
    the model's usual mean. The list is empty if the truth has a covariate or past rows, which guarded simulations do
    not support.
    """
    guarded = [outcome for outcome in problem.outcomes if outcome.margin or outcome.limit is not None]
    truth = scenario.instances(problem)[0]
    if not guarded or truth.covariate is not None or truth.history is not None:
        return []
    policy = make_policy(planner.policy, problem, planner.options)
    arm = next(place for place, name in enumerate(problem.arms) if name != problem.control)
    chances = []
    for outcome in guarded:
        for margins in MARGINS:
            harmed = _harmed(truth, outcome, margins, stated)
            if harmed is None:
                continue
            studies = min(planner.replications, MOST_STUDIES)
            found = simulate_guarded(policy, harmed, replications=studies, seed=planner.seed)
            place = [one.name for one in found.outcomes].index(outcome.name)
            when, drawn = found.alarmed_in[:, place, arm], found.drawn[:, place, arm]
            alarmed = when > 0
            chances.append(
                HarmChance(
                    guardrail=outcome.name,
                    truth=scenario.name,
                    margins=margins,
                    mean=float(harmed.outcomes[outcome.name][arm].mean()),
                    studies=studies,
                    alarm=float(alarmed.mean()),
                    people=float(np.median(drawn[alarmed])) if alarmed.any() else None,
                    phase=float(np.median(when[alarmed])) if alarmed.any() else None,
                    cleared=float(found.cleared[:, place, arm].mean()),
                    power=float(found.correct.mean()),
                )
            )
    return chances


def _harmed(truth: Instance, outcome: Outcome, margins: float, stated: Mapping[str, FloatArray]) -> Instance | None:
    """The truth with a harm of `margins` in one `outcome` and none in the others; None if a mean is impossible."""
    problem = truth.problem
    at_control = np.array([name == problem.control for name in problem.arms])[:, None]
    first = np.arange(problem.arm_count)[:, None] == int(np.argmin(at_control))
    means = {}
    for one in problem.outcomes:
        known, harmful = stated.get(one.name), margins if one.name == outcome.name else 0.0
        if one.limit is not None:
            step = limit_step(one)
            harm, usual, tested = one.sign * step * harmful, np.array(one.limit - one.sign * step), first
        else:
            harm, tested = one.sign * harmful * (one.margin or 0.0), ~at_control
            usual = np.array(one.expected_noise.usual_mean)
            if known is not None:
                usual = np.asarray(known)[at_control[:, 0]].mean(axis=0)
        level = np.where(tested, usual + harm, usual)
        low, high = one.noise.ends
        if level.min() < low or level.max() > high:
            return None
        means[one.name] = np.broadcast_to(level, problem.shape)
    return replace(truth, outcomes=means)


def limit_step(outcome: Outcome) -> float:
    """The step in which harm is measured for a guardrail with a limit.

    >>> from parley.rewards import Binary
    >>> limited = {"name": "alive", "role": "guardrail", "delta": 0.05, "noise": Binary()}
    >>> limit_step(Outcome(**limited, better="higher", limit=0.9))
    0.05
    """
    assert outcome.limit is not None
    best = outcome.noise.ends[0 if outcome.better == "lower" else 1]
    if math.isfinite(best):
        return round(abs(outcome.limit - best) / 2, 12)
    return float(np.sqrt(np.max(outcome.noise.first_variance))) / 2
