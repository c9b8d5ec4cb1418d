"""Operating characteristics: what a design does under truths that a protocol names, beside what one would do without.

For every truth: the power (every agent gets an answer within the tolerance of its best), wrong answers, samples and
rounds; the fixed-size design of the same power; every agent alone; and the power of both designs by budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.experiments.forecasts.fixed_size import FixedDesign, FixedSize
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.scenarios import Scenario, gap_scenario, tie_scenario
from parley.problem import Problem

STUDIES = 200  # simulated for every truth, at least
BUDGETS = 5  # to compare with the fixed size at


@dataclass(frozen=True, kw_only=True)
class BudgetPoint:
    """What the design does with a budget, and what a fixed size does with the same."""

    max_samples: int
    study: ScenarioCost
    fixed: FixedSize


@dataclass(frozen=True, kw_only=True)
class Characteristic:
    """What the design does under one truth, or under some that were drawn from the prior."""

    gap: float | None  # of the best to all others; None of random truths
    study: ScenarioCost
    alone: ScenarioCost
    fixed: FixedSize | None  # sized for this truth; None where no size would do
    budgets: Sequence[BudgetPoint]  # ascending; the study's own among them, where it has one


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
        return {0.0: tie_scenario(problem, float(found[wanted[0]].means.min()))} | found
    return found


def characteristics(
    planner: Planner, problem: Problem, truths: Mapping[float | None, Scenario]
) -> list[Characteristic]:
    """Simulate every truth, together and alone, and size the fixed design for the same power.

    A power of 1 is one that so many studies cannot tell from it.
    """
    found, designs = [], []
    for gap, truth in truths.items():
        study, alone = replace(planner, replications=_each(planner, truth)).together_and_alone(truth, problem)
        wanted = min(study.power, 1 - 1 / (2 * len(study.samples)))
        design = FixedDesign.of(truth.instances(problem), seed=planner.seed)
        size = design.smallest(wanted) if wanted > 0 else None
        found.append(Characteristic(gap=gap, study=study, alone=alone, fixed=size, budgets=()))
        designs.append(design)
    budgets = _budgets(problem, [one.fixed.samples for one in found if one.fixed])
    return [
        replace(one, budgets=_points(planner, problem, truth, one.study, design, budgets))
        for one, truth, design in zip(found, truths.values(), designs, strict=True)
    ]


def _budgets(problem: Problem, sizes: Sequence[int]) -> list[int]:
    """Budgets to compare the designs at: from a quarter of the smallest fixed size to the largest, and the own one."""
    own = [] if problem.max_samples is None else [problem.max_samples]
    ends = sizes or own
    tried = np.geomspace(min(ends) / 4, max(ends), BUDGETS).tolist() if ends else []
    return sorted({*(max(int(float(f"{budget:.2g}")), 1) for budget in tried), *own})


def _points(
    planner: Planner, problem: Problem, truth: Scenario, own: ScenarioCost, design: FixedDesign, budgets: Sequence[int]
) -> list[BudgetPoint]:
    enough = replace(planner, replications=_each(planner, truth))
    return [
        BudgetPoint(
            max_samples=most,
            study=own if most == problem.max_samples else enough.estimate(truth, problem.with_(max_samples=most)),
            fixed=design.within(most),
        )
        for most in budgets
    ]


def _each(planner: Planner, truth: Scenario) -> int:
    """Replications of each of a scenario's instances."""
    return max(planner.replications, -(-STUDIES // len(truth.means)))


def operating_studies(planner: Planner, truths: Mapping[float | None, Scenario]) -> int:
    """How many studies `characteristics` simulates at most."""
    return sum((2 + BUDGETS) * len(truth.means) * _each(planner, truth) for truth in truths.values())


def operating_document(found: Sequence[Characteristic]) -> list[dict[str, Any]]:
    """Ready for JSON."""
    return [
        {"gap": one.gap}
        | _figures(one.study)
        | {
            "fixed": None if one.fixed is None else vars(one.fixed),
            "alone": _figures(one.alone),
            "budgets": [
                {"max_samples": point.max_samples} | _figures(point.study) | {"fixed": vars(point.fixed)}
                for point in one.budgets
            ],
        }
        for one in found
    ]


def _figures(study: ScenarioCost) -> dict[str, Any]:
    return study.summary() | {
        "scenario": study.scenario,
        "studies": len(study.samples),
        "power": study.power,
        "power_error": study.standard_error(study.correct),
        "wrong": study.error_rate,
        "wrong_error": study.standard_error(study.mistaken),
        "unanswered": study.unfinished / len(study.samples),
        "rounds": study.rounds_summary(),
    }
