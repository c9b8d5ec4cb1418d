"""The suite of `parley.testing.conformance` over every policy, and what only some of them owe."""

import numpy as np
import pytest
from tests.support import paper_study

from parley.errors import InvalidInput, UnknownName
from parley.policies import make_policy, policy_names
from parley.problem import Instance, Problem
from parley.rewards import Gaussian
from parley.simulation import simulate
from parley.testing.conformance import PolicySuite, random_instance
from parley.testing.conformance.policies import (
    HORIZON,
    course,
    drops_that_a_common_move_changes,
    noise_for,
    policy_for,
    until,
)
from parley.totals import Totals

PERSONALIZED = {"pf-ucb-bai", "pf-ucb", "pf-ucb-enhanced"}  # who knows personalized weights and best arms only


def problem_for(name: str, seed: int = 0, horizon: int = HORIZON) -> Instance:
    """PF-UCB knows personalized weights only; everyone else gets a general, asymmetric matrix."""
    if name not in PERSONALIZED:
        return PolicySuite().instance(name, seed, horizon)
    alpha = 0.3 + 0.4 * np.random.default_rng(seed).random()
    truth = {"generate": "paper", "seed": seed, "min_gap": 0.1}
    return until(horizon, name, paper_study(float(alpha), truth=truth).instance)


class TestEveryPolicy(PolicySuite):
    names = policy_names()  # also those of packages that are installed beside it
    general = sorted(set(policy_names()) - PERSONALIZED)
    # Of one study quickly, of more with the simulations.
    seeds = (1, *(pytest.param(seed, marks=pytest.mark.simulations) for seed in range(2, 9)))

    def instance(self, name, seed=0, horizon=HORIZON):
        return problem_for(name, seed, horizon)


@pytest.mark.parametrize("name", ["wcpe", "pf-ucb-bai", "pf-ucb", "pf-ucb-enhanced"])
def test_who_adds_up_the_rewards_of_phases_says_that_drift_leaves_no_guarantee(name):
    instance = problem_for(name, 1)
    assert drops_that_a_common_move_changes(name, instance, seed=1) > 0
    assert policy_for(name, instance).drift.startswith("none if means change between phases")


@pytest.mark.parametrize("name", sorted(PERSONALIZED))
@pytest.mark.parametrize("top", [1, 2])
def test_who_knows_personalized_weights_only_says_so(name, top):
    with pytest.raises(InvalidInput, match=name):
        policy_for(name, random_instance(1, arms=5, agents=3, top=top))
    with pytest.raises(InvalidInput, match=name):
        policy_for(name, paper_study(top=2).instance)


@pytest.mark.parametrize("weights", [[[0.0, 1.0], [1.0, 0.0]], [[0.4, 0.6], [0.6, 0.4]], [[0.9, 0.3], [0.1, 0.7]]])
def test_pf_ucb_takes_no_alpha_outside_0_and_1(weights):
    with pytest.raises(InvalidInput, match="one alpha between 0 and 1"):
        make_policy("pf-ucb-bai", Problem(arms=2, weights=weights))


@pytest.mark.parametrize("name", ["wcpe", "oracle", "uniform", "pf-ucb-bai"])
def test_draws_that_no_study_could_make_are_an_error_not_an_overflow(name):
    instance = Instance(problem=Problem(arms=2, weights=[[1.0]]), means=[[1e-10], [0.0]])
    with pytest.raises(InvalidInput, match=r"planned draws: .* at most 2\^53"):
        course(policy_for(name, instance), instance, noise_for(instance, 0))


def test_unknown_policies_are_listed():
    with pytest.raises(UnknownName, match=r"policy: found 'best'; allowed: one of .*wcpe"):
        make_policy("best", paper_study().problem)


@pytest.mark.parametrize(
    ("counts", "sums", "says"),
    [
        ([[1, -1]], [[0.0, 0.0]], "counts: found -1"),
        ([[1, 1]], [[0.0, float("nan")]], "not finite"),
        ([[0, 1]], [[2.0, 0.0]], "sums without a draw"),
        ([[1, 1]], [[2.0]], "shape"),
    ],
)
def test_statistics_that_cannot_be_are_refused(counts, sums, says):
    with pytest.raises(InvalidInput, match=says):
        Totals(counts=np.array(counts), sums=np.array(sums))


@pytest.mark.parametrize("name", ["wcpe", "uniform", "evidence"])
def test_arms_that_scatter_differently_are_drawn_by_their_own_scale(name):
    """A matrix of scales: three times the scale, nine times the draws. `wcpe` raised, `uniform` took the first row."""
    problem = Problem(arms=2, weights=np.eye(2), noise=Gaussian(scale=[[1.0, 1.0], [3.0, 3.0]]))
    policy = make_policy(name, problem)
    first, second = policy.plan(policy.start())
    assert (second >= 8.5 * first).all()
    assert (second <= 10 * first).all()


def test_uniform_goes_on_where_agents_scatter_differently():
    """A row of scales: once arms had other proxy gaps than the rest, the shapes of `uniform` did not fit."""
    problem = Problem(arms=4, weights=np.eye(2), noise=Gaussian(scale=[0.3, 0.5]))
    instance = Instance(problem=problem, means=[[0.9, 0.1], [0.5, 0.8], [0.3, 0.3], [0.1, 0.2]])
    assert simulate(make_policy("uniform", problem), instance, replications=3, seed=1).correct.all()
