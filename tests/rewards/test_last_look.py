"""The payoffs of a last look and of a planned horizon: their expectation is at most 1, by exact quadrature."""

import math

import mpmath
import numpy as np
import pytest
from tests.rewards.test_student import tail

from parley.rewards import Bets, make_model
from parley.rewards.payoffs import NOTHING, log_final_payoff
from parley.totals import Totals

DIGITS = 40
CAPS = [1e-6, 0.1, 0.69, 0.7, 1.0, 3.0, 12.0, 50.0, 300.0]


def first_winning(pays, low: float, high: float) -> float:
    """The smallest argument that wins, by halves."""
    assert pays(high) > NOTHING
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) > NOTHING else (middle, high)
    return high


@pytest.mark.parametrize("log_cap", [*CAPS, 700.0, 5000.0])
def test_all_or_nothing_is_fair_for_a_normal_score_and_wastes_nothing(log_cap):
    def pays(z):
        return float(log_final_payoff(np.array([z]), np.array([log_cap]))[0])

    z = first_winning(pays, -20.0, 200.0)
    with mpmath.workdps(DIGITS):
        won = mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2
        expected = won * mpmath.exp(mpmath.mpf(log_cap)) + (1 - won) * mpmath.exp(mpmath.mpf(NOTHING))
        assert expected <= 1
        assert expected >= 1 - mpmath.mpf("2e-6")
    assert pays(z + 1) == log_cap


def bets_of(contrast: float, log_cap: float, draws: int = 5) -> Bets:
    """One bet of two arms at one agent whose fresh draws have this difference of means, and scatter by 1 each."""
    counts = np.full((2, 1), draws)
    means = np.array([[contrast], [0.0]])
    fresh = Totals(counts=counts, sums=counts * means, squares=counts * means**2 + draws - 1)
    return Bets(
        estimate=np.array([0.5]),
        error=np.array([0.1]),
        missing=np.array([log_cap]),
        contrast=np.array([contrast]),
        variance=np.array([2 / draws]),
        replication=(),
        opponent=np.array([0]),
        arm=np.array([1]),
        agent=np.array([0]),
        weights=np.array([[1.0]]),
        past=fresh,
        fresh=fresh,
    )


@pytest.mark.parametrize("scale", ["unknown", "unknown per agent", "unknown per cell"])
@pytest.mark.parametrize("log_cap", CAPS[:-2])
def test_with_an_unknown_scale_it_is_fair_for_students_t(scale, log_cap):
    """t is the contrast over the root of 2 / draws; the degrees of freedom are the smallest of the groups'."""
    model, draws = make_model(scale=scale), 5
    nu = 4 if scale == "unknown per cell" else 8

    def pays(t):
        return float(model.final_payoff(bets_of(t * math.sqrt(2 / draws), log_cap, draws))[0])

    t = first_winning(pays, 0.0, 1e9)
    assert pays(0.0) == NOTHING
    assert pays(-3.0) == NOTHING
    with mpmath.workdps(DIGITS):
        expected = tail(mpmath.mpf(t), mpmath.mpf(nu)) * mpmath.exp(mpmath.mpf(log_cap))
        assert expected <= 1
        if log_cap > math.log(2):
            assert expected >= 1 - mpmath.mpf("1e-6")


def test_a_known_scale_takes_the_variance_of_the_contrast():
    model, log_cap = make_model(scale=1.0), math.log(40)
    for z, won in ((1.95, False), (1.97, True)):
        paid = model.final_payoff(bets_of(z * math.sqrt(2 / 5), log_cap))
        assert (paid == log_cap).tolist() == [won]


def test_models_without_an_exact_test_of_fixed_size_have_none():
    for keys in ({"kind": "subgaussian"}, {"kind": "binary"}, {"kind": "bounded", "low": 0, "high": 1}):
        model = make_model(**keys)
        assert model.final_payoff(bets_of(0.5, 3.0)) is None
