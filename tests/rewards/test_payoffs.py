"""Bets, multipliers and bounds against 50-digit arithmetic, and the laws they obey."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr

from parley.rewards.base import gap_lower_bound
from parley.rewards.bets import LARGEST_STAKE, LOG_SHARES, log_bet, log_boost, stake_that_crosses

DIGITS = 50
LAWS = settings(deadline=None, max_examples=60)
stakes_of_a_bet = st.lists(st.floats(0, LARGEST_STAKE), min_size=3, max_size=3)
log_caps = st.one_of(st.floats(1e-12, 1.0), st.floats(1.0, 5000.0))


def one_boost(stakes: list[float], log_cap: float) -> float:
    return float(log_boost(np.array([stakes]), LOG_SHARES, np.array([log_cap]))[0])


def phi(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def exact_expectation(stakes: list[float], log_cap: float, log_multiplier: float) -> mpmath.mpf:
    """E min(b f(z), cap) for z ~ N(0, 1) from the very numbers the product uses, without a rounding that matters."""
    u = [mpmath.mpf(stake) for stake in stakes]
    p = [mpmath.exp(mpmath.mpf(share)) for share in LOG_SHARES]
    cap, multiplier = mpmath.exp(mpmath.mpf(log_cap)), mpmath.exp(mpmath.mpf(log_multiplier))

    def pays(z: mpmath.mpf) -> mpmath.mpf:
        return multiplier * mpmath.fsum(p_i * mpmath.exp(u_i * z - u_i**2 / 2) for p_i, u_i in zip(p, u, strict=True))

    at_the_worst = multiplier * mpmath.fsum(p_i for p_i, u_i in zip(p, u, strict=True) if u_i == 0)
    if at_the_worst >= cap:
        return cap  # the smallest payoff is over the cap already
    if max(u) == 0:
        return at_the_worst
    low, high = mpmath.mpf(-1), mpmath.mpf(1)
    while pays(high) < cap:
        high *= 2
    while pays(low) > cap:
        low *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if pays(middle) < cap else (low, middle)
    below = mpmath.fsum(p_i * phi(low - u_i) for p_i, u_i in zip(p, u, strict=True))
    return multiplier * below + cap * phi(-low)


def random_bets(count: int) -> list[tuple[list[float], float]]:
    """Stakes from 1e-9 to 40, some of them 0; log caps from 1e-12 to 1,000; and every corner of the two."""
    rng = np.random.default_rng(5)
    bets = []
    for _ in range(count):
        stakes = np.minimum(np.abs(rng.normal(0, 10 ** rng.uniform(-9, 1.6), 3)), LARGEST_STAKE)
        stakes[rng.random(3) < 0.15] = 0.0
        bets.append((stakes.tolist(), float(10 ** rng.uniform(-12, 3))))
    corners = ([0.0, 0.0, LARGEST_STAKE], [LARGEST_STAKE] * 3, [1e-8] * 3, [0.0, 1e-3, 1e-3], [0.5, 1.0, 1.5])
    return bets + [(stakes, cap) for stakes in corners for cap in (1e-12, 1e-6, 0.01, 1.0, 10.0, 100.0, 1000.0)]


@pytest.mark.simulations
@pytest.mark.parametrize("part", range(4))
def test_the_multiplier_is_never_above_its_exact_value_and_hardly_below(part):
    bets = random_bets(365)[part::4]
    with mpmath.workdps(DIGITS):
        for stakes, log_cap in bets:
            log_multiplier = one_boost(stakes, log_cap)
            assert log_multiplier >= 0
            expectation = exact_expectation(stakes, log_cap, log_multiplier)
            assert expectation <= 1, (stakes, log_cap)
            if max(stakes) > 1e-3 and log_cap > 1e-3:  # smaller bets can pay nothing worth having
                assert expectation >= 1 - 1e-8, (stakes, log_cap)


def test_the_exact_check_would_notice_a_multiplier_a_millionth_too_large():
    with mpmath.workdps(DIGITS):
        sharp = [(s, c) for s, c in random_bets(100) if max(s) > 0.5 and 0.5 < c < 50]
        assert len(sharp) > 5
        for stakes, log_cap in sharp:
            assert exact_expectation(stakes, log_cap, one_boost(stakes, log_cap) + 1e-6) > 1


def test_the_shares_of_a_bet_add_up_to_no_more_than_one():
    with mpmath.workdps(DIGITS):
        total = mpmath.fsum(mpmath.exp(mpmath.mpf(share)) for share in LOG_SHARES)
        assert 1 - 1e-14 < total <= 1


@LAWS
@given(stakes=stakes_of_a_bet, z=st.floats(-1e6, 1e6), log_cap=log_caps)
def test_nothing_overflows_and_nothing_is_undefined(stakes, z, log_cap):
    with np.errstate(all="raise", under="ignore"):
        paid = log_bet(np.array([z]), np.array([stakes]), LOG_SHARES)
        boost = one_boost(stakes, log_cap)
    assert np.isfinite(paid).all()
    assert 0 <= boost < np.inf


@LAWS
@given(stakes=stakes_of_a_bet, shift=st.floats(0, 3))
def test_a_bet_is_fair_at_a_tie_and_loses_beyond(stakes, shift):
    u = np.array(stakes)
    # E exp(u z - u^2 / 2) = exp(-u shift) for z ~ N(-shift, 1), term by term; the mixture in logs
    logs = LOG_SHARES - u * shift
    assert np.logaddexp.reduce(logs) <= 1e-15
    if (u < 5).all():
        value, _ = quad(
            lambda z: math.exp(
                float(log_bet(np.array(z), u, LOG_SHARES)) - (z + shift) ** 2 / 2 - math.log(2 * math.pi) / 2
            ),
            -14,
            14,
            limit=200,
        )
        assert value == pytest.approx(float(np.exp(np.logaddexp.reduce(logs))), rel=1e-6)


@LAWS
@given(stakes=stakes_of_a_bet, z=st.floats(-50, 50), step=st.floats(0, 10))
def test_a_payoff_does_not_fall_when_the_opponent_does_better(stakes, z, step):
    low, high = log_bet(np.array([z, z + step]), np.array([stakes, stakes]), LOG_SHARES)
    assert high >= low - 1e-9


@LAWS
@given(stakes=stakes_of_a_bet, log_cap=st.floats(0.01, 200), more=st.floats(0, 50))
def test_the_more_is_missing_the_less_is_left_to_boost(stakes, log_cap, more):
    assert one_boost(stakes, log_cap + more) <= one_boost(stakes, log_cap) + 1e-8


@LAWS
@given(bets=st.lists(st.tuples(stakes_of_a_bet, log_caps), min_size=1, max_size=12))
def test_a_multiplier_does_not_depend_on_the_others_of_its_batch(bets):
    together = log_boost(np.array([s for s, _ in bets]), LOG_SHARES, np.array([c for _, c in bets]))
    for (stakes, log_cap), found in zip(bets, together, strict=True):
        assert found == pytest.approx(one_boost(stakes, log_cap), abs=1e-13)


def test_no_bet_or_nothing_missing_gives_no_boost():
    caps = np.array([3.0, 0.0, 1e-13])
    stakes = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert log_boost(stakes, LOG_SHARES, caps).tolist() == [0.0, 0.0, 0.0]


@LAWS
@given(missing=st.floats(0.02, 5000), margin=st.floats(0.25, 2), more=st.floats(1e-3, 100), boosted=st.booleans())
def test_more_missing_or_more_margin_asks_for_a_larger_stake(missing, margin, more, boosted):
    def stake(a, b):
        with np.errstate(all="raise", under="ignore"):
            return float(stake_that_crosses(np.array([a]), np.array([b]), boosted=boosted)[0])

    slack = 1e-3 * stake(missing, margin)  # bisection stops a little above the root; it is only to plan by
    assert stake(missing + more, margin) >= stake(missing, margin) - slack
    assert stake(missing, margin + 0.1) >= stake(missing, margin) - slack
    assert stake(missing, margin) <= stake_that_crosses(np.array(missing), np.array(margin), boosted=False)


@pytest.mark.parametrize("missing", [0.5, 3.4, 12.6, 100.0])
@pytest.mark.parametrize("margin", [0.0, 0.5, 2.0])
def test_the_stake_that_crosses_wins_what_is_missing_at_its_margin(missing, margin):
    stake = float(stake_that_crosses(np.array([missing]), np.array([margin]), boosted=True)[0])
    single, share = np.array([[stake]]), np.zeros(1)
    boost = float(log_boost(single, share, np.array([missing]))[0])
    assert stake * (stake - margin) - stake**2 / 2 + boost == pytest.approx(missing, rel=2e-3)


def mixture(signal: float, information: float, gap: float, scale: float) -> float:
    """log of the mixture of bets on "the gap is more than `gap`", by numbers instead of the closed form."""
    centred = signal - gap * information
    precision = information + 1 / scale**2
    top = max(centred / precision, 0.0)
    width = 12 / math.sqrt(precision)

    def height(lam):
        return lam * centred - lam**2 * information / 2 - lam**2 / (2 * scale**2)

    area, _ = quad(
        lambda lam: math.exp(height(lam) - height(top)), max(top - width, 0.0), top + width, points=[top], limit=400
    )
    return height(top) + math.log(2 * area / (scale * math.sqrt(2 * math.pi)))


@LAWS
@given(
    mean=st.floats(0.01, 3), information=st.floats(0.5, 1e6), line=st.floats(0.7, 30), scale=st.floats(0.01, 2)
)  # fmt: skip
def test_the_bound_on_a_gap_is_the_inverted_mixture_a_little_below(mean, information, line, scale):
    signal = mean * information
    bound = float(gap_lower_bound(np.array([signal]), np.array([information]), line=line, scale=scale)[0])
    at_bound = mixture(signal, information, bound, scale)
    assert line - 1e-6 <= at_bound <= line + math.log(2) + 1e-6  # it only leaves out 1 <= 2 Phi(t) <= 2


@LAWS
@given(
    signal=st.floats(-1e3, 1e3), information=st.floats(1e-3, 1e6), line=st.floats(0.1, 700), unit=st.floats(1e-6, 1e6)
)
def test_the_bound_on_a_gap_is_in_units_of_the_gap_and_falls_with_the_line(signal, information, line, unit):
    def bound(a, b, height, scale):
        return float(gap_lower_bound(np.array([a]), np.array([b]), line=height, scale=scale)[0])

    one = bound(signal, information, line, 0.2)
    assert bound(signal / unit, information / unit**2, line, 0.2 * unit) == pytest.approx(one * unit, rel=1e-9)
    assert bound(signal, information, line + 1, 0.2) < one
    assert bound(signal + 1, information, line, 0.2) > one
    assert one < signal / information


def test_no_information_gives_no_bound_and_tiny_scales_are_no_trouble():
    nothing = np.zeros(2)
    assert gap_lower_bound(nothing, nothing, line=3.0, scale=0.2).tolist() == [-math.inf, -math.inf]
    with np.errstate(all="raise", under="ignore"):
        assert gap_lower_bound(np.ones(1), np.ones(1), line=3.0, scale=1e-200)[0] < 0


@pytest.mark.parametrize("log_cap", [600.0, 800.0, 5000.0])
def test_wealth_as_low_as_it_may_get_is_no_trouble(log_cap):
    with np.errstate(all="raise", under="ignore"):
        assert one_boost([1.0, 2.0, 30.0], log_cap) >= 0
        needed = float(stake_that_crosses(np.array([log_cap]), np.array([0.5]), boosted=True)[0])
    assert log_ndtr(0.5 - needed) <= -log_cap + 20  # about the quantile of exp(-log_cap)
