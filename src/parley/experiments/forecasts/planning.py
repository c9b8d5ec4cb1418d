"""Before a study is launched: what it will cost, by simulating plausible truths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from parley.bounds.prices import cost
from parley.costs import StudyCosts, money_of, stated_rates
from parley.experiments.forecasts.scenarios import SHARES, Scenario, along_weights, with_weights
from parley.harmonic.pace import days_needed
from parley.policies import POLICIES, make_policy
from parley.problem import FloatArray, IntArray, Problem
from parley.simulation import phases, simulate
from parley.weights import identity

__all__ = [
    "Forecast",
    "Logistics",
    "Planner",
    "ScenarioCost",
    "TradePoint",
    "forecast",
    "ladder",
    "logistics",
    "studies_of",
    "tradable",
    "trade",
    "trade_studies",
]

DELTAS = (0.1, 0.05, 0.01, 0.001)
CAP = 100  # a study that costs this many times the worst one together is stopped: its cost is a lower bound


@dataclass(frozen=True, kw_only=True)
class ScenarioCost:
    """What a scenario costs; one entry per simulated study."""

    scenario: str
    study_costs: StudyCosts
    rounds: IntArray
    per_agent: FloatArray  # (agent,): mean draws
    error_rate: float
    power: float  # share of the studies in which every agent got an answer that is good
    unfinished: int  # stopped by the cap: their samples are a lower bound

    @property
    def samples(self) -> IntArray:
        """Of every study."""
        return self.study_costs.samples

    @property
    def costs(self) -> IntArray | FloatArray:
        """What counts: samples, or regret where there is a horizon and everybody draws to its end."""
        return self.samples if self.study_costs.regret is None else self.study_costs.regret

    def quantiles(self, *levels: float) -> list[float]:
        """Quantiles of what counts."""
        return [float(value) for value in np.quantile(self.costs, levels)]


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Who will run the study, and how many simulated studies an estimate rests on."""

    policy: str
    options: Mapping[str, Any]
    replications: int  # of every instance of a scenario
    seed: int
    progress: Callable[[int], None] | None = None

    def estimate(
        self, scenario: Scenario, problem: Problem, *, max_samples: int | None = None, planned: Problem | None = None
    ) -> ScenarioCost:
        """Simulate the studies of one scenario; the cap keeps a near-tie of one instance from running for ever.

        `planned` is the problem as the policy sees it, where that is not the one by which the bill is made.
        """
        outcomes = [
            simulate(
                make_policy(self.policy, planned or problem, self.options, instance),
                instance,
                replications=self.replications,
                seed=self.seed + place,
                max_samples=max_samples,
                progress=self.progress,
            )
            for place, instance in enumerate(scenario.instances(problem))
        ]
        return ScenarioCost(
            scenario=scenario.name,
            study_costs=StudyCosts.join([outcome.study_costs for outcome in outcomes]),
            rounds=np.concatenate([outcome.rounds for outcome in outcomes]),
            per_agent=np.mean([outcome.draws.sum(axis=0) for outcome in outcomes], axis=0),
            error_rate=float(np.mean([outcome.error_rate for outcome in outcomes])),
            power=float(np.mean([outcome.correct.mean() for outcome in outcomes])),
            unfinished=sum(int((~outcome.finished).sum()) for outcome in outcomes),
        )

    def together_and_alone(self, scenario: Scenario, problem: Problem) -> tuple[ScenarioCost, ScenarioCost]:
        """The scenario as it is, and with every agent on its own, as far as `CAP` times the dearest study together."""
        together = self.estimate(scenario, problem)
        alone = with_weights(problem, identity(problem.agent_count))
        return together, self.estimate(scenario, alone, max_samples=CAP * int(together.samples.max()))


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Everything `parley plan` tells."""

    scenarios: Sequence[ScenarioCost]
    alone: Sequence[ScenarioCost]  # the same scenarios with every agent on its own
    by_level: Sequence[tuple[float, ScenarioCost]]  # the reference scenario, by error level or by horizon
    level_axis: str  # which: "delta" or "horizon"
    by_weights: Sequence[tuple[float, ScenarioCost]]  # the reference scenario, from much collaboration to none
    weights_axis: str  # what moves in `by_weights`


def forecast(planner: Planner, problem: Problem, scenarios: Sequence[Scenario]) -> Forecast:
    """Estimate every scenario, alone and together; the last one serves to vary delta and the weights."""
    pairs = [planner.together_and_alone(scenario, problem) for scenario in scenarios]
    together, alone = zip(*pairs, strict=True)
    reference, cap = scenarios[-1], CAP * int(together[-1].samples.max())
    axis, problems = along_weights(problem)
    name, levels = _levels(problem)
    return Forecast(
        scenarios=together,
        alone=alone,
        by_level=[(level, planner.estimate(reference, problem.with_(**{name: level}))) for level in levels],
        level_axis=name,
        by_weights=[(value, planner.estimate(reference, moved, max_samples=cap)) for value, moved in problems],
        weights_axis=axis,
    )


def _levels(problem: Problem) -> tuple[str, Sequence[float]]:
    """What to vary beside the weights: the error level; or, where there is a horizon, that."""
    if isinstance(problem.horizon, int):
        return "horizon", [max(problem.horizon // 10, 1), problem.horizon, 10 * problem.horizon]
    return "delta", DELTAS


def studies_of(planner: Planner, scenarios: Sequence[Scenario]) -> int:
    """How many studies `forecast` simulates: what a progress bar counts to."""
    instances = [len(scenario.means) for scenario in scenarios]
    return planner.replications * (2 * sum(instances) + (len(DELTAS) + len(SHARES)) * instances[-1])


MOST_PHASES = 60  # of the course that is drawn
STEPS = (0.1, 0.5, 2.0, 8.0, 50.0)  # times what a day of the cheapest study costs in draws


@dataclass(frozen=True, kw_only=True)
class TradePoint:
    """What the studies cost if a day is worth `day_cost`; infinite: only days count."""

    day_cost: float
    study_costs: StudyCosts
    own: bool  # the day_cost that the study states


def ladder(problem: Problem, scenario: Scenario) -> list[float]:
    """Worths of a day to try, from 0 (the cheapest study) to infinite (the fastest), with the study's own."""
    bound = cost(scenario.instances(problem)[0], accuracy=1e-3)
    a_day = float(money_of(problem, bound.allocation) / days_needed(bound.allocation, stated_rates(problem)))
    digits = 1 - math.floor(math.log10(a_day))  # two figures: round worths are easier to choose from
    return sorted({0.0, problem.day_cost, math.inf, *(round(step * a_day, digits) for step in STEPS)})


@dataclass(frozen=True, kw_only=True)
class Logistics:
    """What `parley plan` tells of time where rates are stated."""

    trade: list[TradePoint]
    course: list[IntArray]  # the draws of one study of the scenario, phase by phase, (arm, agent)


def logistics(planner: Planner, problem: Problem, scenario: Scenario) -> Logistics | None:
    """The curve and one course of a scenario; None without rates."""
    if problem.rate is None:
        return None
    instance = scenario.instances(problem)[0]
    policy = make_policy(planner.policy, problem, planner.options, instance)
    course = [phase.quotas for phase in islice(phases(policy, instance, seed=planner.seed), MOST_PHASES)]
    return Logistics(trade=trade(planner, problem, scenario), course=course)


def trade_studies(planner: Planner, problem: Problem, scenario: Scenario) -> int:
    """How many studies that simulates: what a progress bar counts to."""
    points = len(ladder(problem, scenario)) if tradable(planner.policy, problem) else 0
    return points * len(scenario.means) * planner.replications


def trade(planner: Planner, problem: Problem, scenario: Scenario) -> list[TradePoint]:
    """The points of the curve; none where there is nothing to trade.

    That is without rates, with draws that cost nothing, and for a policy that plans by neither time nor money.
    """
    if not tradable(planner.policy, problem):
        return []
    return [
        TradePoint(
            day_cost=worth,
            study_costs=planner.estimate(scenario, problem, planned=_worth(problem, worth)).study_costs,
            own=worth == problem.day_cost,
        )
        for worth in ladder(problem, scenario)
    ]


def tradable(policy: str, problem: Problem) -> bool:
    """Whether there is a curve to draw."""
    paid = problem.rate is not None and bool((problem.price > 0).all())
    return paid and problem.horizon is None and POLICIES[policy].plans_by_price  # who plays to a horizon plays as long


def _worth(problem: Problem, day_cost: float) -> Problem:
    """The problem as its policy plans for it if a day is worth that much."""
    return problem.with_(price=0.0, day_cost=1.0) if math.isinf(day_cost) else problem.with_(day_cost=day_cost)
