"""Power as an input: the smallest budget with which a study decides as often as wanted, and a warning where it cannot.

Budgets are compared with common random numbers: the studies of every budget see the same rewards for as long as they
draw the same counts, so that a larger budget hardly ever looks worse by chance.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.experiments.forecasts.fixed_size import FixedDesign, FixedSize
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.scenarios import Scenario
from parley.problem import Problem

SEARCH_STEPS = 12  # budgets that a search tries, about: what a progress bar counts to
ENDLESS = 2**42  # samples
LEAST_POWER = 0.5  # a study with less power is more likely than not to end without all answers


@dataclass(frozen=True, kw_only=True)
class PoweredBudget:
    """The smallest budget that has the power wanted under one truth."""

    gap: float  # the smallest of the truth
    max_samples: int
    study: ScenarioCost  # with that budget
    fixed: FixedSize | None  # with the power wanted; None where no size would do

    def document(self) -> dict[str, Any]:
        """Ready for JSON."""
        return self.study.summary() | {
            "scenario": self.study.scenario,
            "gap": self.gap,
            "max_samples": self.max_samples,
            "power": self.study.power,
            "standard_error": self.study.standard_error(self.study.correct),
            "studies": len(self.study.samples),
            "rounds": self.study.rounds_summary(),
            "fixed": None if self.fixed is None else vars(self.fixed),
        }


def powered_budget(planner: Planner, problem: Problem, truth: Scenario, power: float) -> PoweredBudget:
    """The smallest budget of a study with this power, beside the smallest fixed size that has it."""
    most, study = smallest_budget(planner, problem, truth, power)
    instances = truth.instances(problem)
    return PoweredBudget(
        gap=min(instance.smallest_gap for instance in instances),
        max_samples=most,
        study=study,
        fixed=FixedDesign.of(instances, seed=planner.seed).smallest(power),
    )


def smallest_budget(
    planner: Planner, problem: Problem, truth: Scenario, power: float, *, accuracy: float = 0.01
) -> tuple[int, ScenarioCost]:
    """The smallest `max_samples`, to this accuracy, with which a study has this power, and what it then does.

    >>> from parley.experiments.forecasts.scenarios import gap_scenario
    >>> planner = Planner(policy="evidence", options={}, replications=200, seed=0)
    >>> problem = Problem(arms=2, weights=[[1.0]], delta=0.05)
    >>> most, study = smallest_budget(planner, problem, gap_scenario(problem, 0.5), 0.9)
    >>> bool(study.power >= 0.9), bool(study.samples.max() <= most)
    (True, True)
    """
    if not 0 < power < 1:
        raise InvalidInput("power", found=power, allowed="above 0 and below 1")
    if problem.tolerance == 0 and any(instance.tied for instance in truth.instances(problem)):
        raise InvalidInput(
            "power",
            found=f"{power:g} where {truth.name if 'tie' in truth.name else 'arms tie'}, without a tolerance",
            allowed="a truth with a gap, or a tolerance: no budget tells arms apart that are equal",
        )

    def within(most: int) -> ScenarioCost:
        return planner.estimate(truth, problem.with_(max_samples=most))

    # A study that rules out the best arm may be left with arms that tie: without a tolerance it would never end.
    free = planner.estimate(truth, problem.with_(max_samples=None), max_samples=ENDLESS)
    if free.power < power:
        allowed = f"at most {free.power:.3f} ± {free.standard_error(free.correct):.3f}, what it has without max_samples"
        rounds = "" if problem.max_rounds is None else f" and with max_rounds = {problem.max_rounds}"
        raise InvalidInput("power", found=f"{power:g} under {truth.name}", allowed=allowed + rounds)
    # Nobody needs more than the unlimited study did; twice that is room for a policy that plans by its budget.
    low, high, most = 0, int(np.quantile(free.samples, power)), 2 * int(free.samples.max())
    study = within(high)
    while study.power < power:
        if high >= most:
            raise InvalidInput("power", found=f"{power:g} under {truth.name}", allowed=f"at most {study.power:.3f}")
        low, high = high, min(2 * high, most)
        study = within(high)
    while high - low > max(1.0, accuracy * high):
        middle = (low + high) // 2 if low else high // 2
        tried = within(middle)
        if tried.power >= power:
            high, study = middle, tried
        else:
            low = middle
    return high, study


def budget_warning(
    planner: Planner, problem: Problem, found: Iterable[tuple[Scenario, ScenarioCost]], *, accuracy: float = 0.01
) -> str:
    """A sentence about a budget with which the study decides less than half of the time; empty where it does not.

    `found` has what the study does under each truth with the budget that it states.
    """
    if problem.horizon is not None or (problem.max_samples is None and problem.max_rounds is None):
        return ""
    weak = [(truth, study) for truth, study in found if study.power < LEAST_POWER]
    if not weak:
        return ""
    stated = {"max_samples": problem.max_samples, "max_rounds": problem.max_rounds}
    budget = " and ".join(f"{key} = {value}" for key, value in stated.items() if value is not None)
    powers = "; ".join(f"{study.power_text} under {truth.name}" for truth, study in weak)
    # Of the truths with one gap for all, the smallest gap needs most.
    gaps = [truth for truth, _ in weak if len(truth.means) == 1]
    hardest = [truth for truth, _ in weak if len(truth.means) > 1]
    hardest += sorted(gaps, key=lambda truth: truth.instances(problem)[0].smallest_gap)[:1]
    try:
        needed = [smallest_budget(planner, problem, truth, LEAST_POWER, accuracy=accuracy)[0] for truth in hardest]
    except InvalidInput:
        least = "No max_samples has a power of a half there"
        if problem.max_rounds is not None:
            least += f" while max_rounds = {problem.max_rounds}"
    else:
        least = f"The smallest max_samples with a power of a half there is about {max(needed)}"
    return f"With {budget} this study is likely to end without all answers: its power is {powers}. {least}."
