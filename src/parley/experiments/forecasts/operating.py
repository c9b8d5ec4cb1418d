"""Operating characteristics: what a design does under truths that a protocol names, beside what one would do without.

For every truth: the power (every agent gets an answer within the tolerance of its best), wrong answers, samples and
rounds; the fixed-size design of the same power; and every agent alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.experiments.forecasts.fixed_size import FixedSize, fixed_size
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.scenarios import Scenario, gap_scenario
from parley.problem import Problem

__all__ = ["Characteristic", "characteristics", "operating_document", "operating_scenarios", "operating_studies"]

STUDIES = 200  # simulated for every truth, at least


@dataclass(frozen=True, kw_only=True)
class Characteristic:
    """What the design does under one truth, or under some that were drawn from the prior."""

    gap: float | None  # of the best to all others; None of random truths
    study: ScenarioCost
    alone: ScenarioCost
    fixed: FixedSize | None  # sized for this truth; None where no size would do


def operating_scenarios(problem: Problem, gaps: Sequence[float]) -> dict[float | None, Scenario]:
    """Gap -> the truth in which every arm outside the top is worse by just that; ties too, where a study can end.

    >>> problem = Problem(arms=3, weights=[[1.0]], tolerance=0.1)
    >>> {gap: truth.name for gap, truth in operating_scenarios(problem, [0.4]).items()}
    {0.0: 'all arms tie', 0.1: 'gap 0.1', 0.2: 'gap 0.2', 0.4: 'gap 0.4'}
    """
    if problem.horizon is not None:
        raise InvalidInput("--operating", found="a horizon", allowed="a study that ends with answers")
    near = [share * problem.tolerance for share in (1, 2)] if problem.tolerance > 0 else []
    wanted = sorted({round(gap, 12) for gap in (*near, *gaps) if gap <= problem.largest_gap})
    found: dict[float | None, Scenario] = {gap: gap_scenario(problem, gap) for gap in wanted}
    if problem.tolerance > 0 or problem.max_samples or problem.max_rounds:
        level = found[wanted[0]].means.min()
        tie = Scenario(name="all arms tie", means=np.full((1, *problem.shape), level))
        return {0.0: tie} | found
    return found


def characteristics(
    planner: Planner, problem: Problem, truths: Mapping[float | None, Scenario]
) -> list[Characteristic]:
    """Simulate every truth, together and alone, and size the fixed design for the same power.

    A power of 1 is one that so many studies cannot tell from it.
    """
    found = []
    for gap, truth in truths.items():
        study, alone = replace(planner, replications=_each(planner, truth)).together_and_alone(truth, problem)
        wanted = min(study.power, 1 - 1 / (2 * len(study.samples)))
        size = fixed_size(truth.instances(problem), wanted, seed=planner.seed) if wanted > 0 else None
        found.append(Characteristic(gap=gap, study=study, alone=alone, fixed=size))
    return found


def _each(planner: Planner, truth: Scenario) -> int:
    """Replications of each of a scenario's instances."""
    return max(planner.replications, -(-STUDIES // len(truth.means)))


def operating_studies(planner: Planner, truths: Mapping[float | None, Scenario]) -> int:
    """How many studies `characteristics` simulates."""
    return sum(2 * len(truth.means) * _each(planner, truth) for truth in truths.values())


def operating_document(found: Sequence[Characteristic]) -> list[dict[str, Any]]:
    """Ready for JSON."""
    return [
        {"gap": one.gap}
        | _figures(one.study)
        | {"fixed": None if one.fixed is None else vars(one.fixed), "alone": _figures(one.alone)}
        for one in found
    ]


def _figures(study: ScenarioCost) -> dict[str, Any]:
    return study.study_costs.summary() | {
        "scenario": study.scenario,
        "studies": len(study.samples),
        "power": study.power,
        "wrong": study.error_rate,
        "unanswered": study.unfinished / len(study.samples),
        "rounds": {"mean": float(study.rounds.mean()), "max": int(study.rounds.max())},
    }
