"""Scores and floored bets against 50-digit arithmetic: fair for Student's t with any degrees of freedom."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, stdtrit
from scipy.stats import t as student
from tests.support import first_quick

from parley.rewards.unknown_scale import log_floored_bet, normal_score, student_quantile_bound

DIGITS = 50
SHARES = np.log(np.array([1.0, 4.0, 1.0]) / 6) - 1e-15
LAWS = settings(deadline=None, max_examples=25)


def tail(t: mpmath.mpf, nu: mpmath.mpf) -> mpmath.mpf:
    """P(Student's t > t) for t > 0, exactly enough."""
    return mpmath.betainc(nu / 2, mpmath.mpf(1) / 2, 0, nu / (nu + t * t), regularized=True) / 2


@pytest.mark.parametrize("nu", [1, 2, 3.5, 10, 37, 200, 5000, 1e6])
def test_a_score_is_never_above_the_exact_one_and_hardly_below(nu):
    points = [1e-6, 0.01, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0]
    scores = normal_score(np.array(points), np.full(len(points), float(nu)))
    with mpmath.workdps(DIGITS):
        for t, score in zip(points, scores, strict=True):
            exact = tail(mpmath.mpf(t), mpmath.mpf(nu))
            mine = mpmath.erfc(mpmath.mpf(float(score)) / mpmath.sqrt(2)) / 2
            assert mine >= exact, (t, nu)
            assert mine <= exact * (1 + mpmath.mpf("1e-7")), (t, nu)


def expected_payoff(stakes: list[float], log_cap: float, nu: float) -> mpmath.mpf:
    """E of the capped payoff for Student's t, by quadrature; the code's numbers throughout.

    The payoff is constant below 0; above, trapezoids of the payoff over exact tails on a fine grid.
    """
    grid = -stdtrit(nu, ndtr(-np.linspace(1e-6, 9, 700)))  # even in the score
    z = np.concatenate([[0.0], normal_score(grid, np.full(len(grid), nu))])
    many = (len(z), 1)
    paid, _ = log_floored_bet(z, np.tile(stakes, many), SHARES, np.full(len(z), log_cap))
    paid = np.minimum(paid, log_cap)
    assert (np.diff(paid) >= -1e-12).all(), "a payoff that falls would not be fair"
    tails = [mpmath.mpf(1) / 2, *(tail(mpmath.mpf(float(t)), mpmath.mpf(nu)) for t in grid)]
    total = mpmath.exp(mpmath.mpf(float(paid[0]))) / 2
    for lower, upper, height in zip(tails[:-1], tails[1:], pairwise(paid), strict=True):
        total += (lower - upper) * (mpmath.exp(float(height[0])) + mpmath.exp(float(height[1]))) / 2
    return total + tails[-1] * mpmath.exp(mpmath.mpf(log_cap))


@pytest.mark.parametrize("nu", first_quick(2.0, *map(float, range(3, 13)), 400.0))
@pytest.mark.parametrize(
    ("stakes", "log_cap"), [([1.0, 2.5, 4.0], 3.9), ([0.0, 0.3, 0.8], 2.3), ([3.0, 5.0, 7.0], 12.0)]
)
def test_the_boosted_bet_is_fair_under_students_t_and_sharp(nu, stakes, log_cap):
    with mpmath.workdps(30):
        total = expected_payoff(stakes, log_cap, nu)
    assert total == pytest.approx(1, abs=1e-3)  # the error of the trapezoids


def exact_under_the_normal(stakes: list[float], log_cap: float) -> mpmath.mpf:
    """E min(b f, cap) of the floored bet for N(0, 1), from the very multiplier that the code found."""
    paid, boost = log_floored_bet(np.zeros(1), np.array([stakes]), SHARES, np.array([log_cap]))
    u, p = [mpmath.mpf(x) for x in stakes], [mpmath.exp(mpmath.mpf(x)) for x in SHARES]
    b, cap = mpmath.exp(mpmath.mpf(float(boost[0]))), mpmath.exp(mpmath.mpf(log_cap))

    def phi(x):
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    def f(z):
        return b * mpmath.fsum(pi * mpmath.exp(ui * z - ui**2 / 2) for pi, ui in zip(p, u, strict=True))

    floor = min(mpmath.exp(mpmath.mpf(float(paid[0]))), cap)
    if max(u) == 0:
        return (floor + min(f(mpmath.mpf(0)), cap)) / 2
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    if f(low) >= cap:
        return (floor + cap) / 2
    while f(high) < cap:
        high *= 2
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < cap else (low, middle)
    between = b * mpmath.fsum(pi * (phi(low - ui) - phi(-ui)) for pi, ui in zip(p, u, strict=True))
    return floor / 2 + between + cap * phi(-low)


@pytest.mark.simulations
def test_the_multiplier_is_never_too_large_with_50_digits():
    rng = np.random.default_rng(3)
    with mpmath.workdps(DIGITS):
        for _ in range(150):
            stakes = np.minimum(np.abs(rng.normal(0, 10 ** rng.uniform(-6, 1.5), 3)), 40.0)
            stakes[rng.random(3) < 0.2] = 0.0
            log_cap = float(10 ** rng.uniform(-6, 2.5))
            assert exact_under_the_normal(stakes.tolist(), log_cap) <= 1, (stakes, log_cap)


@LAWS
@given(
    scales=st.lists(st.floats(0.01, 10), min_size=2, max_size=2),
    degrees=st.lists(st.integers(2, 30), min_size=2, max_size=2),
    c=st.floats(0.1, 4),
)
def test_unequal_scales_never_beat_the_smallest_degrees_of_freedom(scales, degrees, c):
    shares = np.array(scales) / sum(scales)
    rng = np.random.default_rng(1)
    ratio = sum(s * rng.chisquare(nu, 4000) / nu for s, nu in zip(shares, degrees, strict=True))
    values = ndtr(-c * np.sqrt(ratio))
    assert values.mean() <= student.sf(c, min(degrees)) + 4 * values.std() / math.sqrt(4000)


@LAWS
@given(level=st.floats(1e-12, 0.5), nu=st.floats(1, 1e6))
def test_the_closed_bound_on_a_quantile_is_one(level, nu):
    c = float(student_quantile_bound(math.log(level), np.array([nu]))[0])
    assert student.sf(c, nu) <= level * (1 + 1e-9)
