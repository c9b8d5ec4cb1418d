"""Plans by money and time: cheaper and faster where it was asked for, and the same bits where it was not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import first_quick, paper_study, random_instance

from parley.bounds import expected_samples
from parley.bounds.prices import time
from parley.costs import CostModel, money_of, phase_days
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import phases, simulate

RATES, PRICES = [1.0, 3.0, 10.0], [1.0, 10.0, 100.0]
ASKED = {"rate": RATES, "day_cost": 100.0}


def with_terms(instance: Instance, **terms: object) -> Instance:
    return Instance(problem=instance.problem.with_(**terms), means=instance.means)


def run(instance: Instance, name: str = "evidence", replications: int = 200, **options: object):
    policy = make_policy(name, instance.problem, options, instance)
    return simulate(policy, instance, replications=replications, seed=5)


@pytest.mark.parametrize("name", ["evidence", "oracle", "wcpe"])
@pytest.mark.parametrize("terms", [{"price": 7.0}, {"rate": RATES}, {"rate": RATES, "price": 0.1}])
def test_what_asks_for_no_other_plan_gets_the_same_bits(name, terms):
    plain = paper_study().instance
    before, after = run(plain, name, 10), run(with_terms(plain, **terms), name, 10)
    assert (before.costs == after.costs).all()
    assert (before.draws == after.draws).all()
    assert after.money == pytest.approx(before.costs * terms.get("price", 1.0))
    assert (after.days is None) == ("rate" not in terms)


@pytest.mark.simulations
def test_a_plan_by_time_is_faster_and_a_plan_by_money_cheaper_in_no_more_rounds():
    plain = paper_study().instance
    known = run(with_terms(plain, rate=RATES))
    faster = run(with_terms(plain, **ASKED))
    assert faster.days.mean() <= 0.88 * known.days.mean()
    assert faster.rounds.mean() <= known.rounds.mean() + 0.05
    cheaper = run(with_terms(plain, price=PRICES))
    assert cheaper.money.mean() <= 0.93 * (known.draws * PRICES).sum()
    assert cheaper.rounds.mean() <= known.rounds.mean() + 0.05
    for outcome in (faster, cheaper):
        assert outcome.error_rate <= 0.1


@pytest.mark.simulations
@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6), st.sampled_from(["evidence", "oracle"]))
def test_multiplying_all_prices_changes_no_decision(seed, factor, name):
    instance = random_instance(seed, arms=4, agents=3, min_gap=0.1)
    rng = np.random.default_rng(seed)
    prices, day_cost = 10.0 ** rng.uniform(-1, 1, (4, 3)), float(rng.choice([0.0, rng.uniform(0.1, 100)]))
    stated = {"rate": rng.uniform(1, 10, 3), "price": prices, "day_cost": day_cost}
    same = stated | {"price": factor * prices, "day_cost": factor * day_cost}
    before, after = (run(with_terms(instance, **terms), name, 6) for terms in (stated, same))
    assert (before.costs == after.costs).all()
    assert (before.draws == after.draws).all()
    assert after.money == pytest.approx(factor * before.money)


def test_only_ratios_of_prices_are_kept_and_they_have_the_same_bits():
    problem, rng = paper_study().problem, np.random.default_rng(0)
    for _ in range(50):
        prices, factor = rng.uniform(0.01, 10, 3), 10.0 ** rng.uniform(-6, 6)
        before, after = (
            CostModel.of(problem.with_(price=prices * times, rate=RATES, day_cost=7.0 * times)) for times in (1, factor)
        )
        assert before.prices.tobytes() == after.prices.tobytes()
        assert before.pace.day_cost == after.pace.day_cost


def test_the_bill_of_a_run_is_that_of_its_phases():
    instance = with_terms(paper_study().instance, price=PRICES, round_days=2.5, **ASKED)
    policy = make_policy("evidence", instance.problem)
    told = list(phases(policy, instance, seed=5))
    outcome = run(instance, replications=3)
    assert outcome.money[0] == pytest.approx(sum(float(money_of(instance.problem, phase.quotas)) for phase in told))
    days = [(phase.quotas.sum(axis=0) / RATES).max() + 2.5 for phase in told]
    assert outcome.days[0] == pytest.approx(sum(days))
    assert [float(phase_days(instance.problem, phase.quotas)) for phase in told] == pytest.approx(days)


def test_growth_is_about_what_was_spent_in_days_and_money():
    instance = with_terms(paper_study().instance, price=PRICES, **ASKED)
    cost_model = CostModel.of(instance.problem)
    policy = make_policy("evidence", instance.problem, {"growth": 1.5, "smallest_growth": 1.5})
    for phase in list(phases(policy, instance, seed=1))[1:4]:
        fresh, before = cost_model.spent(phase.quotas), cost_model.spent(phase.before.counts)
        assert fresh == pytest.approx(0.5 * before, rel=0.1)  # rounded up to whole draws, and at least one of each


def test_a_site_that_cannot_recruit():
    weights = np.array([[0.7, 0.4, 0.5], [0.3, 0.6, 0.5], [0.0, 0.0, 0.0]])
    with pytest.raises(
        InvalidInput, match=r"sampling.rate: found 0 for agent 2, whose rewards have weight in some mix"
    ):
        Problem(arms=3, weights=weights, rate=[1, 0, 1])
    problem = Problem(arms=3, weights=weights, rate=[1, 2, 0], day_cost=10.0)
    instance = Instance(problem=problem, means=[[0.9, 0.8, 0.0], [0.2, 0.4, 0.0], [0.1, 0.3, 0.0]])
    for name in ("evidence", "oracle"):
        outcome = run(instance, name, 20)
        assert (outcome.draws[:, 2] == 0).all()
        assert np.isfinite(outcome.days).all()
        assert outcome.finished.all()
    with pytest.raises(
        InvalidInput, match=r"sampling.rate: found 0 for agent 3; allowed: a rate above 0: the policy wcpe"
    ):
        make_policy("wcpe", problem)


def test_the_oracle_takes_the_fastest_proportions():
    instance = with_terms(paper_study().instance, price=0, rate=RATES, day_cost=1.0)
    outcome = run(instance, "oracle", 20, size="paper")
    assert outcome.days.max() <= 1.02 * expected_samples(time(instance), 0.1)
    assert (
        run(with_terms(instance, price=1.0, day_cost=0.0), "oracle", 20, size="paper").days.min() > outcome.days.max()
    )


@pytest.mark.parametrize("day_cost", [0.0, 100.0])
def test_the_dearer_a_round_the_fewer_there_are(day_cost):
    problem = paper_study().problem.with_(rate=RATES, day_cost=day_cost)
    ends = [problem.with_(round_days=days) for days in (0.01, 20, 200, 1000, 1e6)]
    taken = [make_policy("evidence", asked)._rounds for asked in ends]
    assert taken == sorted(taken, reverse=True)
    assert (taken[0], taken[-1]) == (8, 3)
    assert make_policy("evidence", problem)._rounds == 5
    assert make_policy("evidence", ends[-1], {"rounds": 6})._rounds == 6


@pytest.mark.simulations
def test_rounds_that_follow_from_their_price_make_the_study_shorter():
    instance = with_terms(paper_study().instance, round_days=1600.0, **ASKED)
    chosen, usual, most = (run(instance, replications=100, **options) for options in ({}, {"rounds": 5}, {"rounds": 8}))
    assert chosen.days.mean() < 0.9 * usual.days.mean() < usual.days.mean() < most.days.mean()


@pytest.mark.simulations
def test_playing_while_learning_counts_prices_beside_gaps():
    plain = with_terms(paper_study().instance, horizon=100_000)
    prices = np.array([[1.0]] * 3 + [[6.0]] * 3) * np.ones(3)
    stated = with_terms(plain, price=prices)
    losses = plain.mixed_means.max(axis=0) - plain.mixed_means + np.where(plain.best, 0.0, prices)
    paid = []
    for problem in (plain.problem, stated.problem):
        outcome = simulate(make_policy("evidence-regret", problem), stated, replications=400, seed=2)
        paid.append((outcome.draws * losses).sum())
    assert paid[1] < 0.97 * paid[0]
    assert outcome.study_costs.money == pytest.approx(outcome.money)


@pytest.mark.parametrize(("worth", "share", "cost"), first_quick((1.0, 0.95, 0.75), (1e9, 0.8, 0.9)))
def test_playing_explores_less_where_a_site_is_expensive(worth, share, cost):
    """With everything explored for, others explore more instead; by default much is then not worth its price at all."""
    plain = with_terms(paper_study().instance, horizon=100_000)
    stated = with_terms(plain, price=np.array([1.0, 1.0, 20.0]))
    paid, shares = [], []
    for problem in (plain.problem, stated.problem):
        policy = make_policy("evidence-regret", problem, {"worth": worth})
        outcome = simulate(policy, stated, replications=400, seed=2)
        explored = np.where(plain.best, 0.0, outcome.draws).sum(axis=0)
        shares.append(explored[2] / explored.sum())
        paid.append((explored * [1.0, 1.0, 20.0]).sum())
    assert shares[1] < share * shares[0]
    assert paid[1] < cost * paid[0], paid


def test_a_late_phase_is_worth_its_round():
    """However little is missing, a phase draws for a quarter of the days that its round takes anyway."""
    problem = Problem(arms=2, weights=[[1.0]], delta=0.1, rate=10.0)
    slow = problem.with_(round_days=1.0, delay=30.0)
    days, plain = [], []
    for asked, found in ((slow, days), (problem, plain)):
        instance = Instance(problem=asked, means=[[3.0], [0.0]])
        for seed in range(20):
            run = list(phases(make_policy("evidence", asked, {"rounds": 5}), instance, seed=seed))
            found += [phase.quotas.sum() / 10.0 for phase in run[1:]]
    assert min(days) >= 31 / 4
    assert min(plain) < 31 / 8, "without days of its own a round may be as short as what is missing"
