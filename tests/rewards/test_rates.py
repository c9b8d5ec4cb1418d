"""The bet on 0/1 rewards: fair to the last outcome, whatever the reference, and good where the estimates are right."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.rewards.binary import LIMIT, log_ratios, null_reference, stake_limit

LAWS = settings(deadline=None, max_examples=40)
rates = st.floats(0.001, 0.999)


def shares_of(weights: list[float], counts: np.ndarray) -> np.ndarray:
    """`(1, side, agent)`: +w / d for the opponent, -w / d for the arm."""
    return np.array(weights) * np.array([[1.0], [-1.0]]) / counts


def outcomes(counts: np.ndarray) -> np.ndarray:
    """Every possible number of ones in every cell, `(outcome, side, agent)`."""
    ranges = [range(int(count) + 1) for count in counts.ravel()]
    return np.array(list(itertools.product(*ranges)), dtype=float).reshape(-1, *counts.shape[1:])


def chances(ones: np.ndarray, counts: np.ndarray, means: np.ndarray) -> np.ndarray:
    ways = np.vectorize(math.comb)(counts.astype(int), ones.astype(int))
    return (ways * means**ones * (1 - means) ** (counts - ones)).prod(axis=(1, 2))


def expectation(weights, counts, means, reference, stakes) -> np.ndarray:
    """E f of every stake, by adding up all outcomes."""
    ones = outcomes(counts)
    many = (len(ones), 1, 1)
    shares = np.tile(shares_of(weights, counts), many)
    pays, _ = log_ratios(
        shares, np.tile(counts, many), ones, ones, np.tile(reference, many), np.tile(stakes, (len(ones), 1))
    )
    return (chances(ones, counts, means)[:, None] * np.exp(pays)).sum(axis=0)


@LAWS
@given(
    means=st.lists(rates, min_size=4, max_size=4),
    reference=st.lists(rates, min_size=4, max_size=4),
    counts=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    weight=st.floats(0.05, 0.95),
    share=st.floats(0, 1),
)
def test_no_outcome_is_forgotten_the_bet_is_fair_for_every_reference_and_every_stake(
    means, reference, counts, weight, share
):
    counts = np.array(counts, dtype=float).reshape(1, 2, 2)
    means, reference = np.array(means).reshape(1, 2, 2), np.array(reference).reshape(1, 2, 2)
    weights = np.array([weight, 1 - weight])
    gap = float((weights * (means[0, 0] - means[0, 1])).sum())
    limit = stake_limit(shares_of(weights, counts), reference)
    stakes = share * limit[:, None]
    found = float(expectation(weights, counts, means, reference, stakes)[0])
    assert found <= math.exp(float(stakes[0, 0]) * gap) * (1 + 1e-9)
    if gap <= 0:
        assert found <= 1 + 1e-12


def test_at_its_own_reference_the_bet_is_exactly_fair():
    counts, weights = np.array([[[4.0, 3.0], [2.0, 5.0]]]), [0.7, 0.3]
    reference = np.array([[[0.2, 0.4], [0.29, 0.19]]])  # 0.7 * 0.2 + 0.3 * 0.4 = 0.7 * 0.29 + 0.3 * 0.19
    stakes = np.array([[0.5, 1.0, 1.5]])
    assert expectation(weights, counts, reference, reference, stakes) == pytest.approx(np.ones(3), abs=1e-12)


@LAWS
@given(
    estimates=st.lists(rates, min_size=4, max_size=4),
    counts=st.lists(st.integers(1, 10**6), min_size=4, max_size=4),
    weight=st.floats(0.01, 0.99),
)
def test_the_reference_has_no_gap_left_and_stays_a_rate(estimates, counts, weight):
    counts = np.array(counts, dtype=float).reshape(1, 2, 2)
    estimates = np.array(estimates).reshape(1, 2, 2)
    shares = shares_of([weight, 1 - weight], counts)
    with np.errstate(all="raise", under="ignore"):
        reference, multiplier = null_reference(shares, counts, estimates)
    assert ((reference > 0) & (reference < 1)).all()
    before, after = (float((counts * shares * x).sum()) for x in (estimates, reference))
    assert multiplier[0] >= 0
    if before <= 0:
        assert multiplier[0] == 0
    else:
        near = estimates.max() - estimates.min() < 0.5 * min(estimates.min(), 1 - estimates.max())
        assert not near or abs(after) < 0.02 * before  # two Newton steps; what is left is paid for by exp(lam theta_r)


@LAWS
@given(
    counts=st.lists(st.integers(1, 1000), min_size=4, max_size=4),
    reference=st.lists(rates, min_size=4, max_size=4),
    weight=st.floats(0.01, 0.99),
)
def test_at_the_limit_the_worst_outcome_leaves_a_tenth(counts, reference, weight):
    counts, reference = np.array(counts, dtype=float).reshape(1, 2, 2), np.array(reference).reshape(1, 2, 2)
    shares = shares_of([weight, 1 - weight], counts)
    stake = stake_limit(shares, reference)[0]
    factors = [1 + stake * shares * (x - reference) for x in (0, 1)]
    assert min(f.min() for f in factors) == pytest.approx(1 - LIMIT)


def test_a_projected_reference_grows_like_the_divergence_and_beats_the_estimate_as_reference():
    counts = np.full((1, 2, 1), 100.0)
    estimates, shares = np.array([[[0.5], [0.3]]]), shares_of([1.0], counts)
    reference, multiplier = null_reference(shares, counts, estimates)
    _, growth = log_ratios(shares, counts, counts * 0, counts * estimates, reference, multiplier[:, None])
    kl = sum(q * math.log(q / 0.4) + (1 - q) * math.log((1 - q) / 0.6) for q in (0.5, 0.3))
    assert growth[0, 0] == pytest.approx(100 * kl, rel=1e-3)
    plain = (counts * shares * estimates).sum() / (counts * shares**2 * estimates * (1 - estimates)).sum()
    _, worse = log_ratios(shares, counts, counts * 0, counts * estimates, estimates, np.array([[plain]]))
    assert worse[0, 0] < 0.96 * growth[0, 0]
