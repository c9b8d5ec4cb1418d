"""Peers of ranking and selection: published constants, each by a second way, and what they promise."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal, norm

from parley.experiments.forecasts.designs import crossing_probabilities, obrien_fleming
from parley.experiments.forecasts.selection import (
    bechhofer,
    bechhofer_constant,
    bechhofer_size,
    dropping,
    kn,
    kn_constants,
    obrien_fleming_spending,
    pocock_spending,
    spent_boundaries,
)

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


@pytest.mark.simulations
@pytest.mark.parametrize("arms", [2, 4, 8])
def test_bechhofer_and_kn_cover_where_it_is_hardest(arms):
    """All others worse by just the gap: bad answers at most delta, and for Bechhofer exactly that."""
    means, runs = np.array([0.3] + [0.0] * (arms - 1)), 2_000
    error = 3 * np.sqrt(0.09 / runs)
    fixed = bechhofer(means, 1.0, 0.3, 0.1, runs=20 * runs, seed=1)
    assert fixed.bad(means, 0.29) == pytest.approx(0.1, abs=error)
    assert fixed.samples[0] == arms * bechhofer_size(arms, 0.1, 0.3, 1.0)
    for settings in ({}, {"looks": 5}, {"known": True}, {"known": True, "looks": 5}):
        found = kn(means, 1.0, 0.3, 0.1, runs=runs, seed=2, **settings)
        assert found.bad(means, 0.29) <= 0.1 + error
    assert found.rounds.max() <= 5


@pytest.mark.simulations
def test_a_trial_that_drops_losers_rules_out_the_best_in_at_most_delta():
    rates = np.array([0.3, 0.25, 0.25])
    scales = np.sqrt(rates * (1 - rates))
    found, proven = dropping(rates, scales, 1_200, 0.05, tolerance=0.0495, runs=20_000, seed=3)
    assert found.bad(rates, 0.0495) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 20_000)
    assert proven.mean() > 0.9
    clear, _ = dropping(np.array([0.4, 0.25, 0.1]), scales, 1_200, 0.05, tolerance=0.05, runs=2_000, seed=3)
    assert clear.samples.mean() < 0.6 * found.samples.mean()
