"""The normal approximation of rates: what it pays, how far from fair it is, and that it is named."""

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from scipy.optimize import brentq
from tests.rewards.test_products import some_bets
from tools.correctness.mutants import VarianceOfThePast
from tools.correctness.near_ties import Cell, allowance
from tools.correctness.normal import SingleBet
from tools.correctness.normal_drift import MOVING, WORLDS

from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.protocol import StudyMessage
from parley.rewards import Binary, BinaryNormal, Gaussian, make_model
from parley.rewards.bets import (
    LOG_SHARES,
    NEAR_TIE,
    NOTHING,
    boosted_stakes,
    contrast_variance,
    gaussian_payoff,
    log_bet,
    log_boost,
)
from parley.rewards.binary_normal import restricted_rates
from parley.rewards.intervals import stack_phases
from parley.simulation import simulate
from parley.study import parse_study
from parley.totals import Totals

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


def slow_variance(bets, place):
    """Of one contrast, cell by cell: at the likeliest rates of the phase alone that have no gap."""
    agent = bets.agent[place]
    at = tuple(axis[place] for axis in bets.replication)
    weights = bets.weights[:, agent]
    arms = (bets.opponent[place], bets.arm[place])
    draws = np.stack([bets.fresh.counts[(*at, arm)] for arm in arms]).astype(float)
    estimated = np.stack([bets.fresh.sums[(*at, arm)] for arm in arms]) / draws
    signed = np.array([[1.0], [-1.0]]) * weights
    rates = estimated
    if (signed * estimated).sum() + bets.shift > 0:

        def without_gap(multiplier):  # the stationary points of the likelihood under the null, cell by cell
            def stationary(q, step):
                inside = [root.real for root in np.roots([step, -1 - step, q]) if -1e-9 <= root.real <= 1 + 1e-9]
                return max(inside) if step < -1 else min(inside)

            return np.vectorize(stationary)(estimated, multiplier * signed / draws)

        multiplier = brentq(lambda m: (signed * without_gap(m)).sum() + bets.shift, 1e-9, 1e6)
        rates = without_gap(multiplier)
    return (weights**2 * rates * (1 - rates) / (draws - 1)).sum()


@pytest.mark.parametrize("draws", [15, 2000])
@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_the_variance_is_that_of_the_phase_alone_at_its_likeliest_rates_without_the_gap(shift, draws):
    bets = with_variance(some_bets(draws=draws))
    bets = replace(bets, shift=shift, contrast=bets.contrast + shift, estimate=bets.estimate + shift)
    variances = [slow_variance(bets, place) for place in range(len(bets.arm))]
    with patch("parley.rewards.binary_normal.unskewed", lambda scores, _: scores):
        scores = MODEL.scores(bets)
    assert scores == pytest.approx(bets.contrast / np.sqrt(variances), rel=1e-5)


def test_rates_of_earlier_phases_have_no_say_in_a_score():
    bets = with_variance(some_bets(draws=60))
    other = Totals(counts=bets.past.counts, sums=np.zeros(bets.past.sums.shape), squares=np.zeros(bets.past.sums.shape))
    assert MODEL.scores(replace(bets, past=other)).tolist() == MODEL.scores(bets).tolist()


@pytest.mark.parametrize("world", WORLDS)
def test_one_look_holds_its_level_when_rates_move(world):
    """By adding up all outcomes: rates of past and phase together reject a true null in 0.17 of 0.1 looks."""
    own, pooled = WORLDS[world].rejected(BinaryNormal()), WORLDS[world].rejected(VarianceOfThePast())
    assert own <= 0.11, "a single look of few outcomes cannot have every level"
    assert pooled > 0.12 or world != "rising"


@pytest.mark.parametrize("row", MOVING)
def test_studies_whose_rates_move_err_at_most_as_often_as_they_say(row):
    runs = 2_000
    assert MOVING[row].errors(runs) <= allowance(0.1, runs)


def test_a_bet_is_exact_where_the_variance_is_not_known_well_enough_whatever_the_rewards_of_the_phase():
    bets = with_variance(some_bets(draws=60))
    deep = replace(bets, missing=np.where(np.arange(len(bets.arm)) % 2, 2.0, 60.0))
    normal = MODEL.approximates(deep)
    assert normal.tolist() == (np.arange(len(bets.arm)) % 2 == 1).tolist()
    for sums in (np.zeros(bets.fresh.sums.shape), bets.fresh.counts.astype(float)):
        other = replace(deep, fresh=Totals(counts=bets.fresh.counts, sums=sums, squares=sums))
        assert MODEL.approximates(other).tolist() == normal.tolist()
    assert MODEL.payoff(deep)[~normal].tolist() == Binary().payoff(deep.take(~normal)).tolist()
    assert MODEL.final_payoff(deep)[~normal].tolist() == Binary().payoff(deep.take(~normal)).tolist()
    assert MODEL.payoff(deep)[normal].tolist() == MODEL.payoff(deep.take(normal)).tolist()


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_bets_are_gaussian_ones_with_stakes_of_the_past_and_scores_of_the_phase(shift):
    bets = with_variance(some_bets(draws=2000))
    bets = replace(bets, shift=shift, contrast=bets.contrast + shift, estimate=bets.estimate + shift)
    z = MODEL.scores(bets)
    assert MODEL.payoff(bets) == pytest.approx(gaussian_payoff(bets, z))
    stakes = boosted_stakes(bets)
    wanted = log_bet(z, stakes, LOG_SHARES) + log_boost(stakes, LOG_SHARES, bets.missing)
    clear = bets.estimate >= NEAR_TIE * shift  # others may tie, and bet by the conditional error (`test_last_look`)
    assert MODEL.payoff(bets)[clear] == pytest.approx(wanted[clear])
    last = MODEL.final_payoff(bets)
    assert set(np.unique(last)) <= {NOTHING, 3.0}
    assert (last == 3.0).tolist() == (z > 1.6469).tolist()  # the normal quantile of exp(-3)


def test_a_bet_that_is_lost_without_any_variance_is_not_lost_for_ever():
    """Failures alone against successes alone had a score of -1e49, and the next plan asked for 1e50 draws."""
    bets = with_variance(some_bets(draws=15))
    counts = bets.fresh.counts
    sums = np.where(np.arange(counts.shape[-2])[:, None] % 2, counts, 0).astype(float)
    lost = replace(bets, fresh=replace(bets.fresh, sums=sums, squares=sums), contrast=np.full(len(bets.arm), -0.9))
    scores = MODEL.scores(lost)
    assert scores.min() == -40
    assert MODEL.payoff(lost).min() > -2000


def test_rates_of_0_and_1_have_a_variance_too():
    bets = with_variance(some_bets(draws=15))
    for sums in (np.zeros(bets.fresh.sums.shape), bets.fresh.counts.astype(float)):
        alike = Totals(counts=bets.fresh.counts, sums=sums, squares=sums)
        assert np.isfinite(MODEL.scores(replace(bets, fresh=alike, past=alike))).all()


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


@pytest.mark.parametrize("near", [1e-4, 1e-3, 0.01, 0.1])
@pytest.mark.parametrize(("ones", "others"), [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_restricted_rates_are_found_without_successes_too(ones, others, near):
    """Without any, a small tolerance had a variance of 0: two arms of rates below 1 % decided after one phase."""
    draws = 68.0
    shares, counts = np.array([[[1 / draws], [-1 / draws]]]), np.full((1, 2, 1), draws)
    observed = np.array([[[ones / draws], [others / draws]]])
    found = restricted_rates(shares, counts, observed, near)[0, :, 0]
    assert found[1] - found[0] == pytest.approx(max(near, others / draws), abs=1e-9)
    if ones == others:
        assert found == pytest.approx([0.0, near])


@pytest.mark.parametrize("rate", [None, 0.0005])
def test_rates_of_one_in_thousands_err_in_at_most_delta_just_beyond_the_tolerance(rate):
    model = BinaryNormal(rate=rate)
    problem = Problem(arms=2, weights=[[1.0]], noise=model, tolerance=1e-4, delta=0.1)
    instance = Instance(problem=problem, means=[[0.0006001], [0.0005]])
    found = simulate(make_policy("evidence", problem), instance, replications=1000, seed=20261119)
    assert found.finished.all()
    assert 0.03 < found.error_rate <= 0.1
