"""The payoffs of a last look and of a planned horizon: their expectation is at most 1, by exact quadrature."""

import math
from dataclasses import replace
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri_exp
from tests.rewards.models import MODELS
from tests.rewards.test_student import tail

from parley.rewards import Bets, make_model
from parley.rewards.bets import (
    BEYOND,
    LEAST_SHARE,
    LOG_SHARES,
    MOST_SHARE,
    NOTHING,
    boosted_stakes,
    log_bet,
    log_boost,
    log_conditional_error,
    log_final_payoff,
)
from parley.totals import Totals

pytestmark = pytest.mark.simulations

DIGITS = 40
ZEROS = Totals(counts=np.full((2, 1), 5), sums=np.zeros((2, 1)), squares=np.zeros((2, 1)))
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


@pytest.mark.parametrize("scale", ["unknown", "unknown per agent", "unknown, shared"])
@pytest.mark.parametrize("log_cap", CAPS[:-2])
def test_with_an_unknown_scale_it_is_fair_for_students_t(scale, log_cap):
    """t is the contrast over the root of 2 / draws; the degrees of freedom are the smallest of the groups'."""
    model, draws = make_model(scale=scale), 5
    nu = 4 if scale == "unknown" else 8

    def pays(t):
        return float(model.final_payoff(bets_of(t * math.sqrt(2 / draws), log_cap, draws))[0])

    t = first_winning(pays, 0.0, 1e6)
    fresh = bets_of(t * math.sqrt(2 / draws), log_cap, draws).fresh
    hidden = float((fresh.rounding / fresh.scatter).max())  # what adding up may have hidden of the scatter
    assert pays(0.0) == NOTHING
    assert pays(-3.0) == NOTHING
    with mpmath.workdps(DIGITS):
        expected = tail(mpmath.mpf(t), mpmath.mpf(nu)) * mpmath.exp(mpmath.mpf(log_cap))
        assert expected <= 1
        if log_cap > math.log(2):
            assert expected >= 1 - mpmath.mpf("1e-6") - nu * hidden
            assert hidden < 1e-3 or log_cap > 30


def test_a_known_scale_takes_the_variance_of_the_contrast():
    model, log_cap = make_model(scale=1.0), math.log(40)
    for z, won in ((1.95, False), (1.97, True)):
        paid = model.final_payoff(bets_of(z * math.sqrt(2 / 5), log_cap))
        assert (paid == log_cap).tolist() == [won]


def test_models_without_an_exact_test_of_fixed_size_have_none():
    for model in MODELS.values():
        bets = bets_of(0.5, 3.0)
        assert (model.final_payoff(replace(bets, fresh=ZEROS, past=ZEROS)) is None) == (not model.boosted)


def expected_conditional_error(log_cap: float, share: float) -> tuple[float, np.ndarray]:
    """E for z ~ N(0, 1) by Gauss-Legendre between the points where the payoff bends, and the payoff along z."""
    now = float(-ndtri_exp(math.log(share) - log_cap))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    cuts = sorted({0.0, now, *np.linspace(-12.0, max(now, 0.0) + 14.0, 40)})
    total, along = 0.0, []
    for left, right in pairwise(cuts):
        z = left + (right - left) / 2 * (1 + nodes)
        paid = log_conditional_error(z, np.full(60, log_cap), np.full(60, share))
        total += float((right - left) / 2 * weights @ np.exp(paid - z * z / 2)) / math.sqrt(2 * math.pi)
        along.append(paid)
    return total, np.concatenate(along)


@pytest.mark.parametrize("log_cap", [1e-6, 0.3, 0.7, 3.0, 12.0, 50.0, 300.0, 600.0])
@pytest.mark.parametrize("share", [LEAST_SHARE, 0.02, 0.3, MOST_SHARE])
def test_the_conditional_error_has_expectation_one_and_does_not_fall(log_cap, share):
    expected, along = expected_conditional_error(log_cap, share)
    assert expected <= 1 + 1e-12
    if log_cap >= math.log(2):  # else Newton's method stops early, on the safe side
        assert expected >= 1 - 1e-4
    assert (np.diff(along) >= -1e-9).all()
    assert along[-1] == log_cap


def test_the_level_that_is_left_is_the_test_of_the_whole_horizon():
    """Two phases of equal information, each bet with what is left: the chance to reach the line is the level."""
    log_cap, generator = math.log(20), np.random.default_rng(0)
    z = generator.standard_normal((2, 40_000))
    first = log_conditional_error(z[0], np.full(40_000, log_cap), np.full(40_000, 0.5))
    left = np.maximum(log_cap - first, 0.0)
    second = log_final_payoff(z[1], left)
    won = (first >= log_cap) | (second >= left)
    assert won.mean() == pytest.approx(0.05, abs=0.004)


def near_tie(estimate: float, contrast: float = 0.3, shift: float = 0.2) -> Bets:
    bets = bets_of(contrast, 3.0)
    return replace(bets, estimate=np.array([estimate]), shift=shift, contrast=np.array([contrast + shift]))


def test_a_pair_that_may_tie_bets_by_the_conditional_error_up_to_the_information_that_a_tie_needs():
    model, bets = make_model(scale=1.0), near_tie(estimate=0.25)
    quantile = -ndtri_exp(np.array([-3.0])) + BEYOND
    share = (0.2 / quantile) ** 2 / (2 / 5)
    score = np.array([0.5 / math.sqrt(2 / 5)])
    assert model.payoff(bets).tolist() == log_conditional_error(score, np.array([3.0]), share).tolist()


def test_a_phase_never_stakes_more_than_its_part_of_the_horizon():
    model, bets = make_model(scale=1.0), replace(near_tie(estimate=0.25), variance=np.array([1e-3]))
    score = bets.contrast / math.sqrt(1e-3)
    paid = log_conditional_error(score, np.array([3.0]), np.array([MOST_SHARE]))
    assert model.payoff(bets).tolist() == paid.tolist()


def test_a_pair_with_a_clear_gap_and_a_study_without_a_tolerance_bet_as_ever():
    model = make_model(scale=1.0)
    for bets in (near_tie(estimate=0.31), bets_of(0.5, 3.0), replace(bets_of(0.5, 3.0), estimate=np.array([-0.1]))):
        root = np.sqrt(bets.variance)
        stakes = boosted_stakes(bets)
        wanted = log_bet(bets.contrast / root, stakes, LOG_SHARES) + log_boost(stakes, LOG_SHARES, bets.missing)
        assert model.payoff(bets).tolist() == wanted.tolist()
