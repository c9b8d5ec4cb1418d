"""Peers of ranking and selection: published constants, each by a second way, and what they promise."""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal, norm

from parley.experiments.forecasts.designs import crossing_probabilities, obrien_fleming
from parley.experiments.forecasts.selection import (
    DroppingTrial,
    bechhofer,
    bechhofer_constant,
    bechhofer_draws,
    bechhofer_size,
    kn,
    kn_constants,
    kn_limit,
    obrien_fleming_spending,
    spent_boundaries,
)
from parley.problem import Instance, Problem
from parley.rewards import make_model

# Bechhofer 1954, Table I, t = 1 (also Gibbons, Olkin and Sobel 1977, Table A.1).
PUBLISHED = {
    (2, 0.90): 1.8124,
    (3, 0.90): 2.2302,
    (4, 0.90): 2.4516,
    (10, 0.90): 2.9829,
    (2, 0.95): 2.3262,
    (3, 0.95): 2.7101,
    (4, 0.95): 2.9162,
    (5, 0.95): 3.0552,
    (10, 0.95): 3.4182,
    (2, 0.99): 3.2900,
}


def pocock_spending(level):
    return lambda share: level * math.log(1 + (math.e - 1) * share)


# Lan and DeMets 1983, five even looks, 0.025 one-sided (two-sided 0.05).
SPENT = {
    "O'Brien and Fleming": (obrien_fleming_spending(0.025), [4.877, 3.357, 2.680, 2.290, 2.031]),
    "Pocock": (pocock_spending(0.025), [2.438, 2.427, 2.410, 2.397, 2.386]),
}
EVEN = (0.2, 0.4, 0.6, 0.8, 1.0)


@pytest.mark.parametrize(("arms", "confidence"), PUBLISHED)
def test_bechhofers_constants_are_the_published_ones_by_either_integral(arms, confidence):
    h = bechhofer_constant(arms, confidence)
    assert h == pytest.approx(PUBLISHED[arms, confidence], abs=6e-5)
    if arms == 2:
        assert h == pytest.approx(np.sqrt(2) * norm.ppf(confidence))
    elif arms <= 5:  # differences to the best arm are jointly normal, correlated by a half
        covariance = np.ones((arms - 1, arms - 1)) + np.eye(arms - 1)
        assert multivariate_normal(cov=covariance).cdf(np.full(arms - 1, h)) == pytest.approx(confidence, abs=2e-4)


@pytest.mark.parametrize("name", SPENT)
def test_boundaries_of_spending_are_the_published_ones(name):
    spending, published = SPENT[name]
    found = spent_boundaries(EVEN, spending)
    assert found == pytest.approx(published, abs=1e-3)


def test_boundaries_of_spending_spend_what_they_say():
    """By simulation, at uneven looks."""
    shares = (0.1, 0.25, 0.7, 1.0)
    lines = spent_boundaries(shares, pocock_spending(0.05))
    steps = np.random.default_rng(4).standard_normal((400_000, 4)) * np.sqrt(np.diff((0.0, *shares)))
    crossed = (steps.cumsum(axis=-1) / np.sqrt(shares) >= lines).cumsum(axis=-1) > 0
    spent = [pocock_spending(0.05)(share) for share in shares]
    assert crossed.mean(axis=0) == pytest.approx(spent, abs=0.0012)


def test_one_look_is_a_plain_test_and_a_line_that_is_flat_is_obrien_and_flemings():
    assert spent_boundaries((1.0,), lambda share: 0.025 * share) == pytest.approx([-ndtri(0.025)])
    flat = obrien_fleming(5, 0.025)
    chance = spent_boundaries(EVEN, _spent_by(flat))
    assert chance == pytest.approx(flat, abs=1e-3)


def _spent_by(lines):
    chances = crossing_probabilities(lines[0], 5).cumsum()
    return lambda share: float(chances[round(5 * share) - 1])


def test_the_constants_of_kn_solve_its_equation():
    """g(eta) = delta / (K - 1), as a mean over the first stage's variances too: chi-square with n - 1 degrees."""
    for arms, delta, first in ((2, 0.05, 10), (10, 0.05, 10), (4, 0.1, 24)):
        eta, square = kn_constants(arms, delta, first)
        assert (1 + 2 * eta) ** (-(first - 1) / 2) / 2 == pytest.approx(delta / (arms - 1))
        scatter = np.random.default_rng(2).chisquare(first - 1, 400_000)
        assert np.exp(-eta * scatter).mean() / 2 == pytest.approx(delta / (arms - 1), rel=0.05)
        assert square == pytest.approx(2 * eta * (first - 1))


@pytest.mark.parametrize(("arms", "delta"), [(2, 0.05), (10, 0.05), (4, 0.01)])
def test_the_constant_of_a_known_scale_is_the_limit_of_many_first_draws(arms, delta):
    """Of a Brownian motion, which crosses a line that closes falsely with exp(-h^2 / 2) / 2 (Fabian 1974)."""
    assert kn_limit(arms, delta) == pytest.approx(kn_constants(arms, delta, 1_000_000)[1], rel=1e-4)
    assert np.exp(-kn_limit(arms, delta) / 2) / 2 == pytest.approx(delta / (arms - 1))


WEIGHTS = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.3], [0.1, 0.1, 0.6]])


def hardest(arms, weights, *, delta=0.1, gap=0.3):
    """All others worse by just the gap, for every agent; only the best arm is good."""
    problem = Problem(arms=arms, weights=weights, delta=delta, tolerance=0.99 * gap)
    means = np.zeros((arms, len(weights)))
    means[0] = gap
    return Instance(problem=problem, means=means)


def test_the_size_of_several_agents_is_that_of_the_widest_mix_at_its_share_of_delta():
    widest = float(np.square(WEIGHTS).sum(axis=0).max())
    assert bechhofer_draws([hardest(3, WEIGHTS)], 0.3) == bechhofer_size(3, 0.1 / 3, 0.3, np.sqrt(widest))
    same = np.full((2, 2), 0.5)
    assert bechhofer_draws([hardest(3, same)], 0.3) == bechhofer_size(3, 0.1, 0.3, np.sqrt(0.5)), "one question"


@pytest.mark.simulations
@pytest.mark.parametrize("arms", [2, 4, 8])
def test_bechhofer_and_kn_cover_where_it_is_hardest(arms):
    """Bad answers at most delta, and for Bechhofer exactly that."""
    truth, runs = hardest(arms, np.eye(1)), 2_000
    error = 3 * np.sqrt(0.09 / runs)
    draws = bechhofer_draws([truth], 0.3)
    assert draws == bechhofer_size(arms, 0.1, 0.3, 1.0)
    fixed = bechhofer(truth, draws, runs=20 * runs, seed=1)
    assert fixed.bad(truth).mean() == pytest.approx(0.1, abs=error)
    assert fixed.samples[0] == arms * draws
    for settings in ({}, {"looks": 5}, {"estimated": True}, {"estimated": True, "looks": 5}):
        found = kn(truth, 0.3, runs=runs, seed=2, **settings)
        assert found.bad(truth).mean() <= 0.1 + error
        assert (found.chosen >= 0).all()
    assert found.rounds.max() <= 5


@pytest.mark.simulations
def test_several_agents_each_ask_by_their_own_mix_and_share_delta():
    truth, runs = hardest(3, WEIGHTS), 4_000
    error = 3 * np.sqrt(0.09 / runs)
    draws = bechhofer_draws([truth], 0.3)
    fixed, sequential = bechhofer(truth, draws, runs=runs, seed=1), kn(truth, 0.3, runs=runs, seed=2)
    trial = DroppingTrial.of(truth, seed=3, runs=runs).run(draws)
    for found in (fixed, sequential, trial):
        assert 0.005 < found.bad(truth).mean() <= 0.1 + error
    assert sequential.samples.mean() < fixed.samples.mean()
    # The third agent alone weighs the third site much: an arm is drawn there until it has no use for it.
    apart = Instance(problem=truth.problem, means=np.array([[2.0, 2.0, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    alone = hardest(3, np.eye(3)).problem
    shared = kn(apart, 0.3, runs=200, seed=1).samples.mean()
    assert kn(Instance(problem=alone, means=apart.means), 0.3, runs=200, seed=1).samples.mean() > shared


@pytest.mark.simulations
def test_a_trial_that_drops_losers_rules_out_the_best_in_at_most_delta():
    problem = Problem(arms=3, weights=[[1.0]], noise=make_model(kind="binary"), delta=0.05, tolerance=0.0495)
    truth = Instance(problem=problem, means=[[0.3], [0.25], [0.25]])
    found = DroppingTrial.of(truth, seed=3, runs=20_000).run(1_200)
    assert found.bad(truth).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 20_000)
    assert (found.chosen >= 0).all(axis=-1).mean() > 0.9
    clear = Instance(problem=problem, means=[[0.4], [0.25], [0.1]])
    assert DroppingTrial.of(clear, seed=3, runs=2_000).run(1_200).samples.mean() < 0.6 * found.samples.mean()
    few = DroppingTrial.of(truth, seed=3, runs=500).run(50)
    assert (few.chosen < 0).any(), "whoever has no proof names nothing"
    assert few.samples.max() <= 150
