"""What is likely left of a study in progress."""

import numpy as np
import pytest

from parley.experiments.forecasts.forecast import (
    bound_at_estimates,
    forecast_document,
    plausible_means,
    simulate_rest,
)
from parley.experiments.forecasts.scenarios import gap_scenario
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import phases, simulate
from parley.totals import Totals
from parley.weights import personalized


def problem(arms=4, agents=3):
    return Problem(arms=arms, weights=personalized(agents, 0.5))


def after_phases(policy, means, count, seed=0):
    rng, state = np.random.default_rng(seed), policy.start()
    for _ in range(count):
        quotas = policy.plan(state)
        sums = quotas * means + np.sqrt(quotas) * rng.standard_normal(quotas.shape)
        state = policy.update(state, Totals(counts=quotas, sums=sums))
    return state


@pytest.mark.parametrize("name", ["evidence", "wcpe", "uniform"])
def test_the_forecast_covers_what_then_happens(name):
    instance = gap_scenario(problem(), 0.4).instances(problem())[0]
    policy = make_policy(name, problem())
    state = after_phases(policy, instance.means, 1)
    ahead = simulate_rest(policy, state, continuations=32, seed=0)
    low, _, high = ahead.quantiles(0.02, 0.5, 0.98)
    true = simulate(policy, instance, replications=40, seed=1).costs
    assert low <= np.median(true) <= high
    assert (ahead.samples >= state.counts.sum()).all()


def test_a_finished_state_has_nothing_left():
    policy = make_policy("evidence", problem())
    means = np.array([[0.9] * 3, [0.1] * 3, [0.1] * 3, [0.0] * 3])
    state = after_phases(policy, means, 6)
    assert state.finished
    assert (simulate_rest(policy, state, continuations=3, seed=0).samples == state.counts.sum()).all()


def test_frozen_agents_draw_no_more():
    policy = make_policy("evidence", problem())
    state = after_phases(policy, np.full((4, 3), 0.5) + np.arange(4)[:, None] * 0.1, 1)
    name = policy.problem.agents[1]
    ahead = simulate_rest(policy, state, frozen=[name], continuations=4, seed=0)
    assert ahead.per_agent[1] == state.counts[:, 1].sum()


def test_the_bound_at_estimates_is_below_what_a_policy_needs():
    instance = Instance(problem=problem(), means=gap_scenario(problem(), 0.4).means[0])
    policy = make_policy("evidence", problem())
    state = after_phases(policy, instance.means, 2)
    bound = bound_at_estimates(policy, state)
    assert bound is not None
    assert bound.shape == (4, 3)
    assert 0 < bound.sum() < simulate(policy, instance, replications=50, seed=0).costs.mean()
    assert bound_at_estimates(policy, policy.start()) is None


def test_the_scale_that_reports_show_is_not_taken_to_be_explained_once_more():
    """Reports are adjusted already: the bound at their estimates is the same whatever was expected of the covariate."""
    bounds = []
    for expected in (0.0, 0.9):
        adjusted = problem().with_(noise=make_model(scale="unknown"), covariate="age", covariate_correlation=expected)
        policy = make_policy("evidence", adjusted)
        state = policy.start()
        quotas = policy.plan(state)
        sums = quotas * np.arange(4)[:, None]
        squares = np.square(sums) / np.maximum(quotas, 1) + 4.0 * np.maximum(quotas - 1, 0)
        totals = Totals(counts=quotas, sums=sums, squares=squares, left=np.ones(quotas.shape))
        bounds.append(bound_at_estimates(policy, policy.update(state, totals)).sum())
    assert bounds[0] == pytest.approx(bounds[1])


def test_means_are_as_far_apart_as_the_estimates_suggest_and_no_farther():
    """Ten arms that tie: the estimates scatter by their errors, and truths around them would scatter by more."""
    rng, errors = np.random.default_rng(1), np.full((10, 3), 0.1)
    tied = plausible_means(0.1 * rng.standard_normal((10, 3)), errors, rng, 500)
    assert np.median(tied.std(axis=1)) < 0.07
    clear = rng.uniform(0, 5, (10, 3))
    apart = plausible_means(clear, errors, rng, 500)
    assert np.allclose(apart.mean(axis=0), clear, atol=0.05)
    assert np.allclose(apart.std(axis=0), 0.1, atol=0.02), "where gaps are clear, the errors alone are left"


@pytest.mark.simulations
def test_small_gaps_are_not_forecast_to_end_early():
    """Eight of ten studies should end in the range; with truths around the estimates it was one in three."""
    held = []
    asked = Problem(arms=4, weights=[[1.0]])
    policy = make_policy("evidence", asked)
    for seed in range(30):
        means = 0.3 * np.random.default_rng([seed, 1]).random((4, 1))
        run = list(phases(policy, Instance(problem=asked, means=means), seed=seed))
        if len(run) > 1:
            found = forecast_document(policy, run[0].after, (), over=False)
            low, high = found["total"]["p10"], found["total"]["p90"]
            more = 10 * found["unfinished"] > found["continuations"]
            held.append(low <= run[-1].after.counts.sum() <= (np.inf if more else high))
    assert np.mean(held) >= 0.65, "0.8, less two standard errors"


def test_people_who_are_assigned_for_the_next_phase_save_days_of_it():
    given = Problem(arms=2, weights=[[1.0]], between="assign", rate=2.0, delay=20.0)
    policy = make_policy("evidence", given)
    first = policy.plan(policy.start())
    state = policy.update(policy.start(), Totals(counts=first, sums=first * np.array([[0.15], [0.0]])))
    assert not state.finished
    days = [
        simulate_rest(policy, state, between=between, continuations=40, seed=1).study_costs.days.mean()
        for between in (None, policy.plan(state) // 2)
    ]
    assert days[1] < days[0]


def test_people_who_are_assigned_in_vain_are_forecast_too():
    """The first site has nearly decided: whom it assigned ahead, and whoever is assigned at the end, cost as others."""
    given = Problem(arms=2, weights=np.eye(2), between="assign", most_between=1.0, price=2.0)
    policy = make_policy("evidence", given)
    first = policy.plan(policy.start())
    state = policy.update(policy.start(), Totals(counts=first, sums=first * np.array([[0.9, 0.15], [0.0, 0.0]])))
    assert not state.finished
    rest = simulate_rest(policy, state, between=first, continuations=20, seed=1)
    assert rest.samples.min() > state.counts.sum() + first.sum()
    assert np.array_equal(rest.study_costs.money, 2 * rest.samples)
    assert rest.per_agent.sum() == pytest.approx(rest.samples.mean())
    # Frozen, a site is not asked: all that it assigned is in vain, and still has been assigned.
    frozen = simulate_rest(policy, state, frozen=given.agents, between=first, continuations=2, seed=1)
    assert frozen.samples.tolist() == [state.counts.sum() + first.sum()] * 2
