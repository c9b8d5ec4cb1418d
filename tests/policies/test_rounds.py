"""`rounds` and `max_rounds` mean what they say, without a tolerance and for exact rewards too."""

import numpy as np
import pytest
from tests.support import first_quick, paper_study

from parley import Instance, Problem, make_policy, simulate
from parley.rewards import make_model
from parley.weights import personalized


def regions(inference, near=0.0, **settings):
    """16 regions with rates of 0.920 to 0.958, of which nothing is stated: gaps are far smaller than they could be."""
    noise = make_model(kind="binary", inference=inference)
    problem = Problem(arms=3, weights=np.full((16, 16), 1 / 16), delta=0.05, tolerance=near, noise=noise, **settings)
    return Instance(problem=problem, means=np.linspace(0.92, 0.95, 16) + np.array([[0.008], [0.001], [0.0]]))


def hospitals(gap):
    problem = Problem(arms=3, weights=personalized(4, 0.5), tolerance=0.05, delta=0.05, noise=make_model(kind="binary"))
    return Instance(problem=problem, means=np.repeat(0.25 + np.array([[gap], [0.0], [0.0]]), 4, axis=1))


def known(*means, **settings):
    problem = Problem(arms=len(means), weights=[[1.0]], delta=0.05, **settings)
    return Instance(problem=problem, means=np.array(means)[:, None])


def run(instance, count=150, seed=5, **options):
    return simulate(make_policy("evidence", instance.problem, options), instance, replications=count, seed=seed)


TRIALS = {
    "two arms, a tenth apart": (lambda: known(0.1, 0.0), 6.5),
    "the paper's": (lambda: paper_study().instance, 6.5),
    "16 regions, normal": (lambda: regions("normal"), 6.8),
    # Bets that are not boosted need another look now and then.
    "16 regions, exact": (lambda: regions("exact"), 7.3),
    "16 regions, exact, a tolerance": (lambda: regions("exact", near=0.005), 7.0),
    "four hospitals, a gap": (lambda: hospitals(0.05), 6.5),
    "four hospitals, a tie": (lambda: hospitals(0.0), 7.0),
}


@pytest.mark.parametrize("trial", first_quick(*TRIALS, quick=2))
def test_five_rounds_are_about_five(trial):
    make, most = TRIALS[trial]
    found = run(make(), rounds=5)
    assert found.finished.all()
    assert found.rounds.mean() <= most


@pytest.mark.simulations
def test_who_states_no_rounds_gets_small_steps_and_fewer_samples():
    plain, stated = run(regions("normal")), run(regions("normal"), rounds=5)
    assert plain.rounds.mean() >= 1.5 * stated.rounds.mean()
    assert stated.costs.mean() <= 2 * plain.costs.mean()


@pytest.mark.parametrize("rounds", [4, 6])
def test_a_last_round_is_used_and_never_explodes(rounds):
    """Without a tolerance it may end undecided: the last phase takes what the plan wants."""
    usual = run(known(0.1, 0.0))
    found = run(known(0.1, 0.0, max_rounds=rounds), count=300)
    assert found.rounds.max() <= rounds
    assert found.finished.mean() >= {4: 0.6, 6: 0.8}[rounds], "0.40 and 0.75 where phases grow as usual"
    assert found.costs.mean() <= 1.5 * usual.costs.mean()


@pytest.mark.parametrize(
    ("settings", "options", "looks"), [({}, {}, 6), ({}, {"rounds": 4}, 5), ({"max_rounds": 3}, {"rounds": 4}, 3)]
)
def test_the_looks_that_are_planned_for_are_named(settings, options, looks):
    assert make_policy("evidence", known(0.1, 0.0, **settings).problem, options).planned_looks == looks
