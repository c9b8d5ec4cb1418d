"""The least money and the fewest days that a study must expect, from the constraints of Theorem 1 (docs/planning.md).

Whatever draws cost, the expected draws of a delta-correct algorithm satisfy these constraints times log(1 / (2.4
delta)). So the cheapest allocation bounds the expected cost. A study takes at least as long as its slowest agent needs,
so the fastest allocation bounds the expected days.
"""

import numpy as np

from parley.bounds.paper import ACCURACY, Bound, arm_by_arm, best_arm_only, identification
from parley.costs import Pace, stated_rates
from parley.harmonic import solve
from parley.problem import FloatArray, Instance


def cost(instance: Instance, *, accuracy: float = ACCURACY) -> Bound:
    """The least money that a study must expect to spend at its prices: T* with prices as costs."""
    programs = identification(instance, instance.problem.price)
    return Bound.of(solve(programs, accuracy=accuracy), instance.problem)


def time(instance: Instance, *, accuracy: float = ACCURACY) -> Bound:
    """The fewest days that a study must expect to take at its rates, whatever the draws cost.

    >>> from parley.problem import Problem
    >>> problem = Problem(arms=2, weights=np.eye(2), rate=[1.0, 4.0])
    >>> round(time(Instance(problem=problem, means=[[1.0, 1.0], [0.0, 0.5]])).value, 6)  # 8 draws, and 32
    8.0
    """
    return _paced(
        instance, np.zeros(instance.problem.shape), Pace(rates=stated_rates(instance.problem), day_cost=1.0), accuracy
    )


def time_and_money(instance: Instance, *, accuracy: float = ACCURACY) -> Bound:
    """The least `day_cost * days + money` that a plan can reach."""
    problem = instance.problem
    return _paced(instance, problem.price, Pace(rates=stated_rates(problem), day_cost=problem.day_cost), accuracy)


def regret_and_money(instance: Instance, *, accuracy: float = ACCURACY) -> Bound:
    """C* with prices added to gaps: a draw costs its gap and its price, unless the arm is the agent's own best.

    For a horizon T, the value times log(T) bounds the regret of a uniformly efficient policy plus the price of its
    draws of other arms.
    """
    single = best_arm_only(instance)
    return arm_by_arm(single, np.where(single.best, np.inf, single.gaps + single.problem.price), accuracy)


def priced_bounds(instance: Instance, *, accuracy: float = ACCURACY) -> dict[str, Bound]:
    """The bounds of this module that apply to the study's prices and rates, by name; empty if it states neither.

    Without stated prices, money is the number of samples, which `lower_bounds` covers.
    """
    problem, made = instance.problem, {}
    stated = problem.non_default()
    if "price" in stated:
        if (problem.price > 0).all():
            made["cost"] = cost(instance, accuracy=accuracy)
        if not best_arm_only(instance, strict=False).tied:
            made["regret_and_money"] = regret_and_money(instance, accuracy=accuracy)
    if problem.rate is not None:
        made["time"] = time(instance, accuracy=accuracy)
    if problem.day_cost > 0:
        made["time_and_money"] = time_and_money(instance, accuracy=accuracy)
    return made


def _paced(instance: Instance, prices: FloatArray, pace: Pace, accuracy: float) -> Bound:
    solution = solve(identification(instance, prices), accuracy=accuracy, pace=pace)
    return Bound.of(solution, instance.problem)
