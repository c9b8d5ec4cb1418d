"""Yes or no: what the model asks for, what it makes of it, and that it pays."""

import numpy as np
import pytest

from parley.errors import InvalidInput
from parley.experiments.forecasts.scenarios import gap_scenario, prior_scenario, usual_gaps
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import Binary, Bounded, make_model
from parley.rewards.binary import log_ratios, null_reference, stake_limit
from parley.simulation import simulate
from parley.study import parse_study
from parley.totals import Totals

MEANS = [[0.05, 0.045], [0.04, 0.035], [0.04, 0.03]]
WEIGHTS = [[0.8, 0.3], [0.2, 0.7]]


def cost(model, **terms) -> tuple[float, float]:
    problem = Problem(arms=3, weights=WEIGHTS, noise=model, largest_gap=0.2, **terms)
    instance = Instance(problem=problem, means=MEANS)
    outcome = simulate(make_policy("evidence", problem), instance, replications=30, seed=4)
    return float(outcome.costs.mean()), outcome.error_rate


def test_small_rates_cost_far_less_than_half_the_range_would():
    binary, wrong = cost(Binary(rate=0.04))
    hoeffding, _ = cost(Bounded(low=0, high=1))
    assert wrong <= 0.1
    assert binary < hoeffding / 3


def test_it_needs_no_scale_and_says_what_a_rate_may_be():
    study = parse_study({"arms": 2, "agents": 1, "noise": {"kind": "binary", "rate": 0.04}})
    assert study.problem.noise == Binary(rate=0.04)
    assert make_model(**Binary().document()) == Binary()
    for wrong in (0, 1, -0.1, 2, float("nan")):
        with pytest.raises(InvalidInput, match=r"noise\.rate"):
            Binary(rate=wrong)
    with pytest.raises(InvalidInput, match="scale"):
        make_model(kind="binary", scale=0.2)


def test_estimated_rates_are_never_0_or_1_and_borrow_from_all():
    past = Totals(counts=np.array([[0, 10], [10, 1000]]), sums=np.array([[0.0, 0.0], [10.0, 30.0]]))
    rates = Binary(rate=0.04).rates(past)
    assert ((rates > 0) & (rates < 1)).all()
    assert rates[0, 0] == pytest.approx(40 / 1020, rel=0.01)
    assert rates[1, 1] == pytest.approx(0.03, rel=0.01)


def test_the_first_phase_is_sized_by_the_rate():
    def first(model):
        policy = make_policy("evidence", Problem(arms=2, weights=[[1.0]], noise=model))
        return int(policy.plan(policy.start()).sum())

    assert first(Binary()) == first(Bounded(low=0, high=1))
    assert first(Binary(rate=0.04)) == first(Binary())
    assert first(Binary(rate=0.001)) > 5 * first(Binary())


def test_the_reference_stays_within_the_largest_stake():
    """Few draws of an arm without a success: the bet should still win by what the opponent shows."""
    shares, counts = np.array([[[1 / 1900], [-1 / 400]]]), np.array([[[1900.0], [400.0]]])
    rates = np.array([[[0.004], [0.0005]]])
    reference, multiplier = null_reference(shares, counts, rates)
    assert multiplier <= stake_limit(shares, rates)
    grown, _ = log_ratios(shares, counts, counts * rates, counts * rates, reference, multiplier[:, None])
    assert grown > 0.5


def test_the_bound_on_a_gap_holds_for_nearly_all_and_is_worth_having():
    problem = Problem(arms=3, weights=WEIGHTS, noise=Binary(rate=0.04), delta=0.1, largest_gap=0.2)
    instance = Instance(problem=problem, means=MEANS)
    policy = make_policy("evidence", problem, {"precision": 0.00068})  # a large first phase, and fewer rounds
    draw = problem.noise.samplers(instance.means)["bernoulli"]()
    state, generator = policy.start((300,)), np.random.default_rng(2)
    for _ in range(12):
        state = policy.update(state, draw(generator, policy.plan(state)))
    losers = ~instance.best
    above = (state.gap_at_least > instance.gaps)[:, losers]
    assert above.any(axis=-1).mean() <= 0.1
    assert np.median(state.gap_at_least[:, losers]) > 0.05 * instance.gaps[losers].min()


def test_scenarios_of_a_plan_speak_of_rates_and_lifts():
    problem = Problem(arms=3, weights=WEIGHTS, noise=Binary(rate=0.05))
    assert usual_gaps(problem) == pytest.approx([0.02, 0.01, 0.005])
    scenario = gap_scenario(problem, 0.01)
    assert scenario.name == "5 % against 6 %, a lift of 20 %"
    assert scenario.means.min() == pytest.approx(0.05)
    assert usual_gaps(problem.with_(noise=Binary())) == [0.5, 0.25, 0.125]


def test_truths_to_plan_for_lie_around_the_rate_also_where_no_largest_gap_was_stated():
    problem = parse_study({"arms": 3, "agents": 2, "noise": {"kind": "binary", "rate": 0.04}}).problem
    assert problem.largest_gap == 1, "a guessed rate bounds nothing"
    spread = problem.noise.usual_spread(problem.largest_gap)
    few = {"heterogeneity": 0.5, "min_gap": 1e-3, "instances": 5, "seed": 0}
    means = prior_scenario(problem, spread=spread, **few).means
    assert means.min() >= 0.02 - 1e-12
    assert means.max() <= 0.06 + 1e-12
    with pytest.raises(InvalidInput, match=r"spread: found 0\.1 around 0\.04; allowed: at most 0\.08"):
        prior_scenario(problem, spread=0.1, **few)
