"""Power of a study: the smallest budget with a wanted power, and the operating characteristics of a design.

Operating characteristics are the results of a design under truths that a protocol names: the power (the probability
that every agent gets an answer within the tolerance of its best), wrong answers, samples and rounds. They also contain
the results of textbook designs with the same power and of every agent alone, and compare the power of the study with
the power of a fixed size at several budgets.

Budgets are compared with common random numbers: the studies of every budget see the same rewards for as long as they
draw the same counts, so that a larger budget hardly ever looks worse by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.experiments.forecasts.designs import LOOKS, DesignSize, TextbookDesign
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.scenarios import Scenario, gap_scenario, tie_scenario
from parley.experiments.forecasts.selection import bechhofer_samples
from parley.problem import Problem
from parley.validation.checks import share

SEARCH_STEPS = 24  # about how many budgets a search simulates, for a progress bar
OTHER_SEEDS = 7_919  # added to the seed, so that a budget is not reported with the studies by which it was chosen
REPORTED = 4  # a budget is reported with this many times the studies by which it was chosen
BEYOND, MOST_RAISED = 2.0, 60  # standard errors required above the wanted power; how often a budget may be raised
RAISED = 1.02  # factor by which a budget is raised
ENDLESS = 2**42  # samples
EARLY = "A study ends when every agent has its answer; without a tolerance, or with a smaller one, it proves more"
LEAST_POWER = 0.5  # a study with less power is more likely than not to end without all answers


@dataclass(frozen=True, kw_only=True)
class PoweredBudget:
    """The smallest budget with the wanted power under one truth."""

    gap: float  # the smallest gap of the truth
    max_samples: int
    study: ScenarioCost  # results with that budget
    fixed: DesignSize | None  # the smallest fixed size with the wanted power; None if no size has it

    def document(self) -> dict[str, Any]:
        """The budget and the results of its studies, ready for JSON."""
        reached = self.study.reached
        return (
            self.study.summary()
            | {
                "scenario": self.study.scenario,
                "gap": self.gap,
                "max_samples": self.max_samples,
                "power": float(reached.mean()),
                "standard_error": self.study.standard_error(reached),
                "studies": len(self.study.samples),
                "rounds": self.study.rounds_summary(),
                "fixed": None if self.fixed is None else vars(self.fixed),
            }
            | self.study.claims()
        )


def powered_budget(planner: Planner, problem: Problem, truth: Scenario, power: float) -> PoweredBudget:
    """Find the smallest budget with which a study has this power, and the smallest fixed size with this power.

    A search prefers a budget whose own studies were lucky. So the budget is reported with studies of other seeds, and
    raised until the lower end of their interval exceeds the wanted power.
    """
    planner.announce(f"{truth.name}, the smallest max_samples")
    most, _ = smallest_budget(planner, problem, truth, power)
    other = replace(planner, seed=planner.seed + OTHER_SEEDS, replications=REPORTED * planner.replications)
    instances = truth.instances(problem)
    control = problem.arms.index(problem.control) if planner.versus_control and problem.control else None
    for _ in range(MOST_RAISED):
        planner.announce(f"{truth.name}, max_samples = {most} by other seeds")
        study = other.estimate(truth, problem.with_(max_samples=most))
        reached, error = float(study.reached.mean()), study.standard_error(study.reached)
        if reached - BEYOND * error >= power:
            return PoweredBudget(
                gap=min(instance.smallest_gap for instance in instances),
                max_samples=most,
                study=study,
                fixed=TextbookDesign.of(instances, seed=planner.seed, control=control).smallest(power),
            )
        most = math.ceil(RAISED * most)
    found = f"{reached:.3f} ± {error:.3f} with max_samples = {most}"
    hint = "More replications tell a power apart that is near the largest possible"
    raise InvalidInput("power", found=f"{power:g} under {truth.name}", allowed=f"at most {found}", hint=hint)


def smallest_budget(
    planner: Planner, problem: Problem, truth: Scenario, power: float, *, accuracy: float = 0.01
) -> tuple[int, ScenarioCost]:
    """Find the smallest `max_samples`, to a relative accuracy, with which a study has this power, and its results.

    >>> from parley.experiments.forecasts.scenarios import gap_scenario
    >>> planner = Planner(policy="evidence", options={}, replications=200, seed=0)
    >>> problem = Problem(arms=2, weights=[[1.0]], delta=0.05)
    >>> most, study = smallest_budget(planner, problem, gap_scenario(problem, 0.5), 0.9)
    >>> bool(study.power >= 0.9), bool(study.samples.max() <= most)
    (True, True)
    """
    share("power", power)
    if problem.tolerance == 0 and any(instance.tied for instance in truth.instances(problem)):
        raise InvalidInput(
            "power",
            found=f"{power:g} where arms tie, without a tolerance",
            allowed="a truth with a gap, or a tolerance: no budget can distinguish equal arms",
        )

    def within(most: int) -> ScenarioCost:
        return planner.estimate(truth, problem.with_(max_samples=most))

    def reached(study: ScenarioCost) -> float:
        return float(study.reached.mean())

    # ENDLESS limits these studies: a study that rules out the best arm may be left with tied arms only, and would never
    # end.
    free = planner.estimate(truth, problem.with_(max_samples=None), max_samples=ENDLESS)
    if reached(free) < power:
        most_power = f"{reached(free):.3f} ± {free.standard_error(free.reached):.3f}"
        rounds = "" if problem.max_rounds is None else f" and with max_rounds = {problem.max_rounds}"
        allowed = f"at most {most_power}, what it has without max_samples{rounds}"
        hint = EARLY if planner.versus_control else ""
        raise InvalidInput("power", found=f"{power:g} under {truth.name}", allowed=allowed, hint=hint)
    # No study needs more than the largest unlimited one. Twice as much allows for policies that plan by their budget.
    low, high, most = 0, int(np.quantile(free.samples, power)), 2 * int(free.samples.max())
    study = within(high)
    while reached(study) < power:
        if high >= most:
            allowed = f"at most {reached(study):.3f}"
            raise InvalidInput("power", found=f"{power:g} under {truth.name}", allowed=allowed)
        low, high = high, min(2 * high, most)
        study = within(high)
    while high - low > max(1.0, accuracy * high):
        middle = (low + high) // 2 if low else high // 2
        tried = within(middle)
        if reached(tried) >= power:
            high, study = middle, tried
        else:
            low = middle
    return high, study


def budget_warning(
    planner: Planner, problem: Problem, found: Iterable[tuple[Scenario, ScenarioCost]], *, accuracy: float = 0.01
) -> str:
    """A warning if the stated budget gives a study a power below one half under some truth; else empty.

    `found` contains each truth with the study's results under it.
    """
    if problem.horizon is not None or (problem.max_samples is None and problem.max_rounds is None):
        return ""
    weak = [(truth, study) for truth, study in found if study.power < LEAST_POWER]
    if not weak:
        return ""
    stated = {"max_samples": problem.max_samples, "max_rounds": problem.max_rounds}
    budget = " and ".join(f"{key} = {value}" for key, value in stated.items() if value is not None)
    powers = "; ".join(f"{study.power_text} under {truth.name}" for truth, study in weak)
    planner = replace(planner, versus_control=False)
    # Of the truths with a common gap, only the one with the smallest gap is searched, since it needs the largest
    # budget.
    gaps = [truth for truth, _ in weak if len(truth.means) == 1]
    hardest = [truth for truth, _ in weak if len(truth.means) > 1]
    hardest += sorted(gaps, key=lambda truth: truth.instances(problem)[0].smallest_gap)[:1]
    try:
        needed = [smallest_budget(planner, problem, truth, LEAST_POWER, accuracy=accuracy)[0] for truth in hardest]
    except InvalidInput:
        least = "No max_samples gives a power of one half there"
        if problem.max_rounds is not None:
            least += f" while max_rounds = {problem.max_rounds}"
    else:
        least = f"The smallest max_samples with a power of a half there is about {max(needed)}"
    return f"With {budget} this study is likely to end without all answers: its power is {powers}. {least}."


STUDIES = 200  # least number of simulated studies for every truth
BUDGETS = 5  # number of budgets at which a study and a fixed size are compared


@dataclass(frozen=True, kw_only=True)
class BudgetPoint:
    """The results of a study and of a fixed size, both with the same budget."""

    max_samples: int
    study: ScenarioCost
    fixed: DesignSize


@dataclass(frozen=True, kw_only=True)
class Characteristic:
    """The results of a study and of other designs under one truth, or under several truths drawn from the prior."""

    gap: float | None  # from the best arm to all others; None for random truths
    study: ScenarioCost
    alone: ScenarioCost  # the study with every agent alone
    fixed: DesignSize | None  # the fixed size with the study's power under this truth; None if no size has it
    sequential: DesignSize | None  # the same for a design with O'Brien and Fleming's looks
    bechhofer: int | None  # samples of Bechhofer's fixed size, the same for any truth; None if it does not apply
    budgets: Sequence[BudgetPoint]  # ascending; they include the study's own budget, if it has one


def operating_scenarios(problem: Problem, gaps: Sequence[float]) -> dict[float | None, Scenario]:
    """The truths for operating characteristics, by gap: every arm outside the top N is worse by exactly that gap.

    The gaps are `gaps` and, if there is a tolerance, the tolerance and twice the tolerance. If a study can end with a
    tie, the truth in which all arms tie is included, with gap 0.

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
    planner: Planner, problem: Problem, truths: Mapping[float | None, Scenario], *, by_budget: bool = True
) -> list[Characteristic]:
    """Simulate the study under every truth, together and alone, and size the textbook designs for the same power.

    With `by_budget`, several budgets are simulated too. If all studies have the right answers, the designs are sized
    for the largest power below 1 that this number of studies can resolve.
    """
    found, designs = [], []
    for gap, truth in truths.items():
        study, alone = enough(planner, truth).together_and_alone(truth, problem)
        wanted = min(study.power, 1 - 1 / (2 * len(study.samples)))
        instances = truth.instances(problem)
        design, looks = (TextbookDesign.of(instances, seed=planner.seed, looks=count) for count in (1, LOOKS))
        sizes = [one.smallest(wanted) if wanted > 0 else None for one in (design, looks)]
        found.append(
            Characteristic(
                gap=gap,
                study=study,
                alone=alone,
                fixed=sizes[0],
                sequential=sizes[1],
                bechhofer=bechhofer_samples(instances),
                budgets=(),
            )
        )
        designs.append(design)
    budgets = _budgets(problem, [one.fixed.samples for one in found if one.fixed]) if by_budget else []
    by_truth = []
    for one, truth, design in zip(found, truths.values(), designs, strict=True):
        points = []
        for most in budgets:
            own = most == problem.max_samples
            planner.announce(f"{truth.name}, max_samples = {most}")
            study = one.study if own else enough(planner, truth).estimate(truth, problem.with_(max_samples=most))
            points.append(BudgetPoint(max_samples=most, study=study, fixed=design.within(most)))
        by_truth.append(replace(one, budgets=points))
    return by_truth


def _budgets(problem: Problem, sizes: Sequence[int]) -> list[int]:
    """The budgets at which designs are compared.

    They range from a quarter of the smallest of the fixed `sizes` to the largest, and include the study's own budget.
    """
    own = [] if problem.max_samples is None else [problem.max_samples]
    ends = sizes or own
    tried = np.geomspace(min(ends) / 4, max(ends), BUDGETS).tolist() if ends else []
    # Two significant digits: round budgets are easier to read and to compare.
    return sorted({*(max(int(float(f"{budget:.2g}")), 1) for budget in tried), *own})


def enough(planner: Planner, truth: Scenario) -> Planner:
    """The planner with enough replications per instance for at least STUDIES studies of a scenario."""
    return replace(planner, replications=max(planner.replications, -(-STUDIES // len(truth.means))))


def operating_studies(planner: Planner, truths: Mapping[float | None, Scenario]) -> int:
    """Upper bound on the number of studies that `characteristics` simulates, for a progress bar."""
    studies = (len(truth.means) * enough(planner, truth).replications for truth in truths.values())
    return (2 + BUDGETS) * sum(studies)


def operating_document(found: Sequence[Characteristic]) -> list[dict[str, Any]]:
    """The operating characteristics under every truth, ready for JSON."""
    return [
        {"gap": one.gap}
        | _figures(one.study)
        | {
            "fixed": None if one.fixed is None else vars(one.fixed),
            "sequential": None if one.sequential is None else vars(one.sequential),
            "bechhofer": one.bechhofer,
            "alone": _figures(one.alone),
            "budgets": [
                {"max_samples": point.max_samples} | _figures(point.study) | {"fixed": vars(point.fixed)}
                for point in one.budgets
            ],
        }
        for one in found
    ]


def _figures(study: ScenarioCost) -> dict[str, Any]:
    return (
        study.claims()
        | study.summary()
        | {
            "scenario": study.scenario,
            "studies": len(study.samples),
            "power": study.power,
            "power_error": study.standard_error(study.correct),
            "wrong": study.error_rate,
            "wrong_error": study.standard_error(study.mistaken),
            "unanswered": study.unfinished / len(study.samples),
            "rounds": study.rounds_summary(),
        }
    )
