"""Power as an input, and as an output: the smallest budget that has it, and the operating characteristics of a design.

Operating characteristics are what a design does under truths that a protocol names: the power (every agent gets an
answer within the tolerance of its best), wrong answers, samples and rounds; the fixed-size design of the same power;
every agent alone; and the power of both designs by budget.

Budgets are compared with common random numbers: the studies of every budget see the same rewards for as long as they
draw the same counts, so that a larger budget hardly ever looks worse by chance.

The design to compare with draws the same number everywhere, fixed in advance, and tests once at the end (Bonferroni).
Every agent names the N best estimates if each of them beats every other arm by the normal quantile that a union over
all such pairs and all questions leaves, less the tolerance. An agent names a bad arm only if that arm beats one of its
true best by as much, so the error is at most delta; scales are taken to be known. It is sized for a gap that nobody
knows before the study: a generous comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from parley.errors import InvalidInput
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.scenarios import Scenario, gap_scenario, standard_error, tie_scenario
from parley.problem import BoolArray, FloatArray, Instance, IntArray, Problem

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


MOST = 2**40  # draws of a cell
CELLS = 4_000_000  # arms x agents x runs: what fits
RUNS = 2000


@dataclass(frozen=True, kw_only=True)
class FixedSize:
    """One size of the design, and its power by simulation."""

    per_cell: int  # draws of every arm by every agent
    samples: int
    power: float  # how often every agent's answer is named and good
    power_error: float  # the Monte Carlo error of the power


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedDesign:
    """The design under some truths, to be tried at any size.

    >>> from parley.problem import Problem
    >>> truth = Instance(problem=Problem(arms=2, weights=[[1.0]], delta=0.05), means=[[0.5], [0.0]])
    >>> design = FixedDesign.of([truth], seed=0)
    >>> found = design.smallest(0.9)
    >>> 60 < found.per_cell < 80, found.samples == 2 * found.per_cell  # by the formula 68.5
    (True, True)
    >>> design.within(found.samples + 1) == found, design.within(1).power
    (True, 0.0)
    """

    trials: list[_Trial]
    cells: int  # arms x agents

    @classmethod
    def of(cls, instances: Sequence[Instance], *, seed: int) -> FixedDesign:
        """For this very truth, or for some on average."""
        trials = [_Trial.of(instance, seed + place, len(instances)) for place, instance in enumerate(instances)]
        return cls(trials=trials, cells=instances[0].means.size)

    def at(self, per_cell: int) -> FixedSize:
        """With so many draws of every cell."""
        good = np.concatenate([trial.good(per_cell) for trial in self.trials])
        return FixedSize(
            per_cell=per_cell,
            samples=per_cell * self.cells,
            power=float(good.mean()),
            power_error=standard_error(good, len(self.trials)),
        )

    def within(self, budget: int) -> FixedSize:
        """The largest size that a budget pays for; without a draw of every cell nobody names an arm."""
        if budget < self.cells:
            return FixedSize(per_cell=0, samples=0, power=0.0, power_error=0.0)
        return self.at(budget // self.cells)

    def smallest(self, power: float) -> FixedSize | None:
        """The smallest size that has the power wanted; None where no number of draws has it."""
        low, high = 1, 2
        while self.at(high).power < power:
            low, high = high, 2 * high
            if high > MOST:
                return None
        while high - low > max(1, low // 500):
            middle = (low + high) // 2
            low, high = (low, middle) if self.at(middle).power >= power else (middle, high)
        return self.at(high)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """Many runs at once; the same errors for every size, so that more draws never look worse by chance."""

    instance: Instance
    errors: FloatArray  # (run, arm, agent): of mixed means from one draw a cell
    variances: FloatArray  # (arm, agent): theirs
    noise: FloatArray | float  # (run, arm, agent): what private reports add to the sums, one report a cell
    noise_variances: FloatArray  # (agent,): theirs
    quantile: float

    @classmethod
    def of(cls, instance: Instance, seed: int, many: int) -> _Trial:
        problem, cells = instance.problem, np.broadcast_to(instance.cell_variances, instance.means.shape)
        runs = max(min(RUNS, CELLS // cells.size) // many, 100)
        rng, private = np.random.default_rng(seed), problem.noise_variance
        drawn = rng.standard_normal((runs, *cells.shape)) * np.sqrt(cells)
        noise = rng.standard_normal(drawn.shape) * math.sqrt(private) if private else None
        tests = problem.question_count * problem.top * (problem.arm_count - problem.top)
        return cls(
            instance=instance,
            errors=problem.mixed(drawn),
            variances=cells @ problem.squared_weights,
            noise=0.0 if noise is None else problem.mixed(noise),
            noise_variances=private * problem.squared_weights.sum(axis=0),
            quantile=float(-ndtri(problem.delta / tests)),
        )

    def good(self, draws: int) -> BoolArray:
        """`(run,)`: whether every agent names its answer, and a good one, with so many draws of every cell."""
        leaders, named = self.answers(draws)
        good = np.take_along_axis(np.broadcast_to(self.instance.good, self.errors.shape), leaders, axis=-2)
        return np.asarray((named & good.all(axis=-2)).all(axis=-1))

    def answers(self, draws: int) -> tuple[IntArray, BoolArray]:
        """`(run, N, agent)`: the best estimates; and `(run, agent)`: whether the agent names them."""
        problem = self.instance.problem
        found = self.instance.mixed_means + self.errors / np.sqrt(draws) + self.noise / draws
        order = np.argsort(-found, axis=-2, kind="stable")
        leaders, others = order[:, : problem.top], order[:, problem.top :]
        named = np.ones((len(found), problem.agent_count), dtype=np.bool_)
        spread = np.broadcast_to(self.variances + self.noise_variances / draws, found.shape)
        behind, wide = (np.take_along_axis(values, others, axis=-2) for values in (found, spread))
        for rank in range(problem.top):
            ahead, own = (np.take_along_axis(values, leaders[:, [rank]], axis=-2) for values in (found, spread))
            needed = self.quantile * np.sqrt((own + wide) / draws) - problem.tolerance
            named &= (ahead - behind >= needed).all(axis=-2)
        return leaders, named
