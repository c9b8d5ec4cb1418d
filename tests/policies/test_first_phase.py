"""The first phase informs and is no evidence: it stays small against the study, whatever was stated."""

import math
from functools import cache

import numpy as np
import pytest
from tests.support import first_quick
from tools.correctness.stated import MOST, RATES, cases

from parley import Instance, Problem, make_policy, simulate
from parley.rewards import make_model
from parley.weights import personalized

COUNT = 300  # studies of a case: `python -m tools.correctness stated` runs more
RATE = 0.25


def yes_or_no(gap, stated=None, **settings):
    """Four hospitals, three arms, one better by `gap`."""
    noise = {"kind": "binary"} | ({"rate": stated} if stated else {})
    problem = Problem(arms=3, weights=personalized(4, 0.5), delta=0.05, noise=make_model(**noise), **settings)
    means = np.full((3, 4), RATE)
    means[0] += gap
    return Instance(problem=problem, means=means)


def gaussian(gap, **settings):
    problem = Problem(arms=3, weights=[[0.7, 0.4], [0.3, 0.6]], **settings)
    return Instance(problem=problem, means=[[0.5 + gap] * 2, [0.5] * 2, [0.5 - gap] * 2])


def first(instance):
    policy = make_policy("evidence", instance.problem)
    return policy.plan(policy.start()).tolist()


@cache
def people(make, **settings):
    """The mean, and its standard error."""
    instance = make(**settings)
    found = simulate(make_policy("evidence", instance.problem), instance, replications=COUNT, seed=8)
    return found.costs.mean(), found.costs.std() / math.sqrt(COUNT)


GRID = {
    f"{name}, {', '.join(f'{key} {value:g}' for key, value in stated.items())}": (make, plain, stated)
    for name, make, plain, statements in [
        *(
            (
                f"yes or no, gap {gap}, tolerance {near}", yes_or_no, {"gap": gap, "tolerance": near},
                [{"stated": RATE}, {"largest_gap": 0.2}, {"max_samples": 10**5}, {"stated": RATE, "largest_gap": 0.2}],
            )
            for gap, near in [(0.1, 0.05), (0.05, 0.05), (0.0, 0.05), (0.1, 0.0), (0.2, 0.0)]
        ),
        *(
            (
                f"gaussian, gap {gap}, tolerance {near}", gaussian, {"gap": gap, "tolerance": near},
                [{"largest_gap": 2 * gap}, {"largest_gap": 4 * gap}, {"max_samples": 10**6}],
            )
            for gap, near in [(0.1, 0.0), (0.02, 0.0), (0.2, 0.1), (0.1, 0.1)]
        ),
    ]
    for stated in statements
}  # fmt: skip


@pytest.mark.simulations
@pytest.mark.parametrize("row", GRID)
def test_stating_what_is_true_never_costs_people(row):
    """At most 2 % more, and what two standard errors leave open."""
    make, plain, stated = GRID[row]
    if first(make(**plain)) == first(make(**(plain | stated))):
        return  # the same study: a budget that is not reached changes no bit (`test_budgets`)
    before, error = people(make, **plain)
    after, other = people(make, **(plain | stated))
    assert after <= 1.02 * before + 2 * math.hypot(error, other)


@pytest.mark.parametrize("rate", RATES)
def test_a_stated_rate_waits_for_the_first_ones_and_no_longer(rate):
    """Half a one in a cell, or what nothing stated would take: nothing that the smallest gap would need."""
    models = [make_model(kind="binary"), make_model(kind="binary", rate=rate)]
    studies = [Problem(arms=2, weights=[[1.0]], noise=model) for model in models]
    usual, sized = (int(np.max(first(Instance(problem=one, means=[[rate], [rate / 2]])))) for one in studies)
    assert usual <= sized <= max(usual, 1 / rate)


@pytest.mark.parametrize("gap", [0.5, 0.1, 0.01, 0.001])
def test_rates_may_be_as_rare_as_the_largest_gap(gap):
    """Rates of `gap` and 0 are told apart by some ten ones: the first phase expects one of them at most."""
    for settings in ({}, {"horizon": 10**6}):
        problem = Problem(arms=2, weights=[[1.0]], noise=make_model(kind="binary"), largest_gap=gap, **settings)
        policy = make_policy("evidence" if not settings else "evidence-regret", problem)
        assert int(policy.plan(policy.start()).max()) <= max(1 / gap, 21)


@pytest.mark.parametrize(
    "case",
    first_quick(*sorted(cases(), key=lambda case: (case.truth, case.key) != ("rate 0.001, exact", "rate"))),
    ids=lambda case: f"{case.truth}, {case.agents}, {case.key}, {case.horizon}",
)
def test_a_true_key_costs_at_most_5_per_cent(case):
    ratio, error = case.ratio(COUNT)
    assert ratio <= MOST + 3 * error


@pytest.mark.parametrize("near", [0.05, 0.1, 0.2, 0.5])
def test_it_is_a_small_part_of_what_a_tie_takes(near):
    policy = make_policy("evidence", Problem(arms=4, weights=[[1.0]], tolerance=near))
    first = int(policy.plan(policy.start()).sum())
    assert first <= 0.03 * policy.largest_size


@pytest.mark.parametrize("budget", [50, 500, 5000])
def test_it_is_at_most_a_tenth_of_the_budget(budget):
    policy = make_policy("evidence", Problem(arms=4, weights=[[0.7, 0.4], [0.3, 0.6]], max_samples=budget))
    assert int(policy.plan(policy.start()).sum()) <= max(0.1 * budget + 8, 8)


def test_without_a_tolerance_or_a_budget_it_is_as_it_was():
    problem = Problem(arms=2, weights=[[0.8, 0.3], [0.2, 0.7]])
    together, each = (make_policy("evidence", problem.with_(answers=how)) for how in ("together", "each"))
    assert each.plan(each.start()).tolist() == [[54, 44], [54, 44]]
    assert together.plan(together.start()).tolist() == [[70, 58], [70, 58]], "it must tell who leads, for both"


@pytest.mark.parametrize(("arms", "draws"), [(3, 74), (17, 28)])  # of a closed study, and of any other
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_it_does_not_depend_on_the_unit_of_rewards(scale, arms, draws):
    noise = make_model(kind="gaussian", scale=scale)
    problem = Problem(arms=arms, weights=[[1.0]], largest_gap=0.3 * scale, tolerance=0.1 * scale, noise=noise)
    policy = make_policy("evidence", problem)
    assert policy.plan(policy.start()).tolist() == [[draws]] * arms
