"""The normal approximation of rates: when it is taken, what it pays, how far from fair it is, and that it is named."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.rewards.test_products import some_bets
from tools.correctness.near_ties import Cell, allowance
from tools.correctness.normal import SingleBet

from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.protocol import StudyMessage
from parley.rewards import Binary, BinaryNormal, Gaussian, make_model
from parley.rewards.bets import BOLDNESS, LOG_SHARES, NEAR_TIE, contrast_variance, gaussian_payoff, staked_gaps
from parley.rewards.intervals import stack_phases
from parley.rewards.payoffs import NOTHING, log_bet, log_boost
from parley.simulation import simulate
from parley.study import parse_study
from parley.totals import Totals
from parley.weights import personalized

pytestmark = pytest.mark.simulations

MODEL = BinaryNormal()


def with_variance(bets, model=MODEL):
    return replace(bets, variance=contrast_variance(bets, model.cell_variances(bets.past)))


def test_it_is_a_choice_of_the_study_and_never_the_default():
    study = parse_study({"arms": 2, "agents": 1, "noise": {"kind": "binary", "inference": "normal", "rate": 0.3}})
    assert study.problem.noise == BinaryNormal(rate=0.3)
    assert make_model(**study.problem.noise.document()) == study.problem.noise
    assert StudyMessage.of(study).noise["inference"] == "normal"
    assert make_model(kind="binary") == make_model(kind="binary", inference="exact") == Binary()
    assert make_model(kind="binary", inference="exact").document() == {"kind": "binary"}
    with pytest.raises(InvalidInput, match=r"noise\.inference: found 'wald'; allowed: one of exact, normal"):
        make_model(kind="binary", inference="wald")


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_small_cells_bet_exactly_to_the_last_bit(shift):
    bets = with_variance(some_bets(draws=15))
    bets = replace(bets, shift=shift, contrast=bets.contrast + shift, estimate=bets.estimate + shift)
    assert not MODEL.approximates(bets).any()
    assert MODEL.payoff(bets).tolist() == Binary().payoff(bets).tolist()
    assert MODEL.final_payoff(bets).tolist() == Binary().payoff(bets).tolist()


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_large_cells_bet_as_gaussian_ones_with_stakes_of_the_past_and_pooled_rates(shift):
    bets = with_variance(some_bets(draws=2000))
    bets = replace(bets, shift=shift, contrast=bets.contrast + shift, estimate=bets.estimate + shift)
    assert MODEL.approximates(bets).all()
    pooled = bets.past + bets.fresh
    unbiased = MODEL.cell_variances(pooled) * pooled.counts / (pooled.counts - 1)
    z = bets.contrast / np.sqrt(contrast_variance(bets, unbiased))
    assert MODEL.payoff(bets) == pytest.approx(gaussian_payoff(bets, z))
    stakes = BOLDNESS * staked_gaps(bets) / np.sqrt(bets.variance)[:, None]
    wanted = log_bet(z, stakes, LOG_SHARES) + log_boost(stakes, LOG_SHARES, bets.missing)
    clear = bets.estimate >= NEAR_TIE * shift  # others may tie, and bet by the conditional error (`test_last_look`)
    assert MODEL.payoff(bets)[clear] == pytest.approx(wanted[clear])
    last = MODEL.final_payoff(bets)
    assert set(np.unique(last)) <= {NOTHING, 3.0}
    assert (last == 3.0).tolist() == (z > 1.6469).tolist()  # the normal quantile of exp(-3)


def test_a_phase_may_have_both_kinds_of_bets_each_as_by_itself():
    bets = with_variance(some_bets(draws=2000))
    counts = bets.fresh.counts.copy()
    counts[:, 0] = 10
    sums = np.minimum(bets.fresh.sums, counts)
    bets = replace(bets, fresh=Totals(counts=counts, sums=sums, squares=sums))
    normal = MODEL.approximates(bets)
    assert normal.tolist() == ((bets.arm != 0) & (bets.opponent != 0)).tolist()
    assert 0 < normal.sum() < len(normal)
    paid = MODEL.payoff(bets)
    assert paid[~normal].tolist() == Binary().payoff(bets.take(~normal)).tolist()
    assert paid[normal].tolist() == MODEL.payoff(bets.take(normal)).tolist()


def test_the_rewards_of_a_phase_have_no_say_in_which_bet_it_is():
    bets = some_bets(draws=120)
    before = MODEL.approximates(bets)
    for sums in (np.zeros(bets.fresh.sums.shape), bets.fresh.counts.astype(float)):
        other = replace(bets, fresh=Totals(counts=bets.fresh.counts, sums=sums, squares=sums))
        assert MODEL.approximates(other).tolist() == before.tolist()


ALONE, EVEN, MOSTLY_OWN = np.eye(5), np.full((5, 5), 0.2), personalized(5, 0.5)


@pytest.mark.parametrize(
    ("weights", "draws", "rate", "wanted"),
    [
        (ALONE, 29, 0.5, False),
        (ALONE, 30, 0.5, True),
        (ALONE, 30, 0.1, False),
        (ALONE, 60, 0.1, True),
        (EVEN, 14, 0.5, False),  # 70 in all, but every cell needs half of 30
        (EVEN, 15, 0.5, True),
        (EVEN, 24, 0.1, False),  # and half of 5 ones
        (EVEN, 26, 0.1, True),
        (MOSTLY_OWN, 22, 0.5, False),  # 110 in all, as skewed as one cell of 29
        (MOSTLY_OWN, 23, 0.5, True),
        (MOSTLY_OWN, 37, 0.1, False),
        (MOSTLY_OWN, 39, 0.1, True),
    ],
)
def test_a_side_needs_thirty_draws_and_five_of_either_kind_expected(weights, draws, rate, wanted):
    for flipped in (rate, 1 - rate):
        bets = some_bets(draws=1000)
        counts = np.full(bets.fresh.counts.shape, draws)
        past = np.full(counts.shape, 100_000)
        sums = past * flipped
        bets = replace(
            bets,
            weights=weights,
            past=Totals(counts=past, sums=sums, squares=sums),
            fresh=Totals(counts=counts, sums=np.zeros(counts.shape), squares=np.zeros(counts.shape)),
        )
        assert (MODEL.approximates(bets) == wanted).all()


def test_a_side_with_a_cell_that_was_not_drawn_bets_exactly():
    bets = some_bets(draws=2000)
    counts = bets.fresh.counts.copy()
    counts[..., 2] = 0
    sums = np.minimum(bets.fresh.sums, counts)
    bets = replace(bets, weights=EVEN, fresh=Totals(counts=counts, sums=sums, squares=sums))
    assert not MODEL.approximates(bets).any()


def test_plans_have_cells_that_are_large_enough_together():
    assert MODEL.bet_draws(ALONE) == 40
    assert MODEL.bet_draws(personalized(4, 0.5)) == 30
    assert MODEL.bet_draws(EVEN) == 20


def test_far_out_in_the_tail_more_ones_are_needed():
    bets = some_bets(draws=2000)
    expected = MODEL.rates(bets.past) * bets.fresh.counts
    for missing, wanted in ((3.0, True), (2 * math.sqrt(expected.max()), False)):
        assert (MODEL.approximates(replace(bets, missing=np.full(60, missing))) == wanted).all()


@pytest.mark.parametrize("tolerance", [0.0, 0.02])
@pytest.mark.parametrize(("rate", "draws"), [(0.5, 100), (0.25, 100), (0.1, 200), (0.03, 500), (0.01, 2000)])
def test_a_bet_is_nearly_fair_at_a_tie_by_adding_up_all_outcomes(rate, draws, tolerance):
    bet = SingleBet(rate=rate, opponent=draws, arm=draws, past=draws, tolerance=tolerance * (rate > 0.02))
    for level in (0.1, 0.01):
        assert 0.85 < bet.expected(level, final=False) < 1.1
        assert 0.7 < bet.expected(level, final=True) < 1.3


@pytest.mark.parametrize(("noise", "mixed"), [("normal 0.25", False), ("normal 0.1, no rate", True)])
def test_errors_at_a_near_tie_stay_below_delta(noise, mixed):
    outcome = Cell(arms=2, agents=3 if mixed else 1, noise=noise, mixed=mixed).run(1000, seed=5)
    assert outcome.error_rate <= allowance(0.1, 1000)


def test_the_guarantee_says_that_it_is_approximate_where_it_is():
    def guarantee(policy, model, **settings):
        return make_policy(policy, Problem(arms=2, weights=[[1.0]], noise=model, delta=0.05, **settings)).guarantee

    named = "with probability at least 0.95, approximately (normal approximation of rates)"
    assert guarantee("evidence", MODEL).endswith(named)
    assert guarantee("evidence", MODEL, tolerance=0.1).endswith(named)
    for plays in ("evidence-regret", "explore-then-commit"):
        assert "approximately (normal" in guarantee(plays, MODEL, horizon=1000)
        assert "approximately" not in guarantee(plays, Binary(), horizon=1000)
    assert "approximately" not in guarantee("evidence", Binary())
    for model, rates in ((MODEL, True), (Binary(), True), (Gaussian(), False)):
        problem = Problem(arms=2, weights=[[1.0]], noise=model)
        oracle = make_policy("oracle", problem, instance=Instance(problem=problem, means=[[0.3], [0.2]]))
        assert ("approximately" in oracle.guarantee) is rates
    assert "approximately" not in guarantee("wcpe", MODEL), "its intervals hold for any rewards from 0 to 1"


def test_it_costs_less_than_exact_bets_do():
    def cost(model):
        problem = Problem(arms=3, weights=[[0.8, 0.3], [0.2, 0.7]], noise=model)
        instance = Instance(problem=problem, means=[[0.34, 0.34], [0.26, 0.24], [0.22, 0.25]])
        outcome = simulate(make_policy("evidence", problem), instance, replications=100, seed=3)
        assert outcome.error_rate <= allowance(problem.delta, 100)
        return outcome.costs.mean()

    assert cost(MODEL) < 0.95 * cost(Binary())


def test_intervals_and_bounds_on_gaps_stay_exact():
    """Those of differences too: its bets are boosted, its intervals are not."""
    bets = some_bets(draws=500)

    def ends(model):
        seen = stack_phases([model.summary(bets.past, bets.fresh, bets.weights)])
        place = np.zeros(seen.contrast.shape[1:-2] + seen.contrast.shape[-1:], dtype=np.int64)
        differences = model.difference_interval(seen.against(place), math.log(20))
        return [*model.interval(seen, math.log(20)), *differences]

    mine, exact = ends(MODEL), ends(Binary())
    assert np.array_equal(mine, exact)
