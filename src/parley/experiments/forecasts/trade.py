"""Days against money: the same studies planned with a day that is worth ever more, a curve to choose from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

from parley.bill import Bill
from parley.bounds.prices import cost
from parley.currency import money_of, stated_rates
from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.scenarios import Scenario
from parley.harmonic.pace import days_needed
from parley.policies import POLICIES, make_policy
from parley.problem import IntArray, Problem
from parley.simulation import phases

__all__ = ["Logistics", "TradePoint", "ladder", "logistics", "tradable", "trade", "trade_studies"]

MOST_PHASES = 60  # of the course that is drawn
STEPS = (0.1, 0.5, 2.0, 8.0, 50.0)  # times what a day of the cheapest study costs in draws


@dataclass(frozen=True, kw_only=True)
class TradePoint:
    """What the studies cost if a day is worth `day_cost`; infinite: only days count."""

    day_cost: float
    bill: Bill
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
            bill=planner.estimate(scenario, problem, planned=_worth(problem, worth)).bill,
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
