"""The least money and the fewest days: the figures of the design, closed forms, and laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import instances, paper_study

from parley.bounds import bai, regret
from parley.bounds.prices import cost, priced_bounds, regret_and_money, time, time_and_money
from parley.costs import days_needed
from parley.errors import InvalidInput, TiedArms
from parley.problem import Instance, Problem

LAWS = settings(deadline=None, max_examples=12)


def with_settings(instance: Instance, **settings: object) -> Instance:
    return Instance(problem=instance.problem.with_(**settings), means=instance.means)


def test_the_papers_instance_with_rates_and_with_prices():
    instance = with_settings(paper_study().instance, rate=[1, 3, 10], price=[1, 10, 100])
    fewest = bai(instance).allocation
    fastest, cheapest = time(instance), cost(instance)
    assert fastest.value == pytest.approx(219.4859, abs=1e-4)
    assert days_needed(fewest, instance.problem.rate) == pytest.approx(267.006, abs=1e-3)
    assert cheapest.value / (fewest * instance.problem.price).sum() == pytest.approx(0.8763, abs=1e-4)
    assert max(fastest.gap, cheapest.gap) <= 1e-9


def test_one_agent_has_a_closed_form():
    instance = Instance(problem=Problem(arms=2, weights=[[1.0]], rate=4, price=3.0), means=[[1.0], [0.5]])
    assert time(instance).value == pytest.approx(8)  # (1 + 1)^2 * 2 / gap^2 draws, four a day
    assert cost(instance).value == pytest.approx(96)
    assert regret_and_money(instance).value == pytest.approx(
        2 / 0.25 * 3.5
    )  # each draw of the worse arm: gap and price


@LAWS
@given(instances(), st.integers(0, 2**32 - 1))
def test_bounds_lie_where_they_must(instance, seed):
    rng = np.random.default_rng(seed)
    agents = instance.problem.agent_count
    rates, prices = rng.uniform(1, 10, agents), 10.0 ** rng.uniform(-1, 1, instance.problem.shape)
    stated = with_settings(instance, rate=rates, price=prices, day_cost=float(rng.uniform(0.1, 10)))
    fewest, made = bai(instance), priced_bounds(stated, accuracy=1e-8)
    assert made["cost"].value <= (fewest.allocation * prices).sum() * (1 + 1e-7)
    assert made["cost"].value >= fewest.value * prices.min() * (1 - 1e-7)
    assert made["time"].value <= days_needed(fewest.allocation, rates) * (1 + 1e-7)
    assert made["time"].value >= fewest.value / rates.sum() * (1 - 1e-7)
    together = stated.problem.day_cost * made["time"].value + made["cost"].value
    assert made["time_and_money"].value >= together * (1 - 1e-7), "both at once cost no less than each alone"
    single = with_settings(instance, top=1)
    if not single.tied:
        assert made["regret_and_money"].value >= regret(single).value * (1 - 1e-7)


@LAWS
@given(instances(), st.floats(0.01, 100))
def test_units_do_not_matter(instance, factor):
    agents = instance.problem.agent_count
    prices, rates = np.linspace(1, 5, agents), np.linspace(2, 9, agents)
    before = with_settings(instance, price=prices, rate=rates)
    dearer, faster = with_settings(before, price=prices * factor), with_settings(before, rate=rates * factor)
    assert cost(dearer).value == pytest.approx(cost(before).value * factor, rel=1e-7)
    assert time(faster).value == pytest.approx(time(before).value / factor, rel=1e-7)
    assert cost(with_settings(instance, price=factor)).value == pytest.approx(bai(instance).value * factor, rel=1e-7)


def test_what_is_not_stated_is_not_bounded():
    instance = paper_study().instance
    assert priced_bounds(instance) == {}
    assert set(priced_bounds(with_settings(instance, rate=2))) == {"time"}
    assert set(priced_bounds(with_settings(instance, price=[1, 2, 3]))) == {"cost", "regret_and_money"}
    free = with_settings(instance, price=0, rate=[1, 2, 3], day_cost=1.0)
    assert set(priced_bounds(free)) == {"time", "time_and_money", "regret_and_money"}
    assert time_and_money(free).value == pytest.approx(time(free).value)
    with pytest.raises(InvalidInput, match=r"sampling.rate: found nothing"):
        time(instance)
    tied = Instance(problem=Problem(arms=3, weights=np.eye(1), rate=1), means=[[1.0], [1.0], [0.0]])
    with pytest.raises(TiedArms):
        time(tied)
