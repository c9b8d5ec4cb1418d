"""The bet on rewards in a range: below a product that is fair for every sample; and good where it is small."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.rewards.bounded_variance import LIMIT, log_spread_bet, spread_stakes

LAWS = settings(deadline=None, max_examples=100)
inside = st.floats(0, 1)


def bet(rewards: list[list[float]], references: list[float], weights: list[float], stake_share: float):
    """One contrast of two agents: the bet's log payoff and that of the product of factors, at one stake."""
    samples = [np.array(values) for values in rewards]  # opponent at 1 and 2, arm at 1 and 2
    counts = np.array([len(values) for values in samples], dtype=float).reshape(1, 2, 2)
    shares = np.array(weights) * np.array([[1.0], [-1.0]]) / counts
    reference = np.array(references).reshape(1, 2, 2)
    reach = np.where(shares > 0, reference, 1 - reference)
    stake = stake_share * LIMIT / max(float((np.abs(shares) * reach).max()), 1e-300)
    around = np.array([((x - r) ** 2).sum() for x, r in zip(samples, references, strict=True)]).reshape(1, 2, 2)
    contrast = sum(float(a) * x.sum() for a, x in zip(shares.ravel(), samples, strict=True))
    paid = log_spread_bet(shares, np.array([contrast]), around, reference, np.array([[stake]]))[0, 0]
    exact = stake * float((counts * shares * reference).sum()) + sum(
        float(np.log1p(stake * a * (x - r)).sum()) for a, x, r in zip(shares.ravel(), samples, references, strict=True)
    )
    return paid, exact


@LAWS
@given(
    rewards=st.lists(st.lists(inside, min_size=1, max_size=5), min_size=4, max_size=4),
    references=st.lists(st.floats(0.001, 0.999), min_size=4, max_size=4),
    weight=st.floats(0.05, 0.95),
    stake=st.floats(0, 1),
)
def test_it_never_pays_more_than_the_product_that_is_fair(rewards, references, weight, stake):
    paid, exact = bet(rewards, references, [weight, 1 - weight], stake)
    assert paid <= exact + 1e-9 * (1 + abs(exact))


@pytest.mark.parametrize("stake", [0.01, 0.3, 1.0])
def test_it_is_fair_for_two_valued_rewards_at_a_tie_by_adding_up_all_outcomes(stake):
    references, total = [0.3, 0.6, 0.5, 0.1], 0.0
    for outcome in np.ndindex(2, 2, 2, 2, 2, 2):
        values = [float(x) for x in outcome]
        chance = math.prod(0.3 if x else 0.7 for x in values)
        paid, _ = bet([values[:2], values[2:3], values[3:5], values[5:]], references, [0.6, 0.4], stake)
        total += chance * math.exp(paid)
    assert total <= 1


def test_small_scatter_pays_like_a_gaussian_of_that_scatter():
    counts, spread = 1000.0, 0.01
    shares = np.array([[[1.0], [-1.0]]]) / counts
    variance, gap = np.array([2 * spread**2 / counts]), np.array([[0.002]])
    reference = np.full((1, 2, 1), 0.5)
    stakes = spread_stakes(shares, reference, gap, variance)
    around = np.full((1, 2, 1), counts * spread**2)
    growth = log_spread_bet(shares, gap[:, 0], around, reference, stakes)[0, 0]
    ideal = 0.002**2 / (2 * variance[0])
    hoeffding = 0.002**2 / (2 * 0.5 / counts)
    assert 0.1 * ideal < growth < ideal
    assert growth > 50 * hoeffding


@LAWS
@given(gap=st.floats(0, 1), variance=st.floats(0, 1), reference=st.floats(0, 1), count=st.integers(1, 10**9))
def test_no_stake_goes_beyond_the_limit_and_nothing_overflows(gap, variance, reference, count):
    shares, around = np.array([[[1.0], [-1.0]]]) / count, np.full((1, 2, 1), float(count))
    reference = np.full((1, 2, 1), reference)
    with np.errstate(all="raise", under="ignore"):
        stakes = spread_stakes(shares, reference, np.array([[gap]]), np.array([variance]))
        paid = log_spread_bet(shares, np.array([gap]), around, reference, stakes)
    reach = np.where(shares > 0, reference, 1 - reference)
    assert (stakes * np.abs(shares) * reach).max() <= LIMIT * (1 + 1e-12)
    assert np.isfinite(paid).all()
