"""Operating characteristics: power, cost, and the two designs they are compared with."""

import json

import numpy as np
import pytest
from scipy.special import ndtri

from parley.errors import InvalidInput
from parley.experiments.forecasts.designs import TextbookDesign, _Trial
from parley.experiments.forecasts.plan_page import budget_figure, budget_table, operating_table
from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.power import (
    BUDGETS,
    STUDIES,
    characteristics,
    operating_document,
    operating_scenarios,
    operating_studies,
)
from parley.experiments.forecasts.scenarios import gap_scenario
from parley.problem import Instance, Problem
from parley.rewards import Binary

pytestmark = pytest.mark.simulations

WEIGHTS = [[0.7, 0.2], [0.3, 0.8]]


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_the_fixed_size_is_that_of_the_textbook(tolerance):
    """One test at level delta: n = 2 (z + z')^2 / (gap + tolerance)^2 draws an arm."""
    problem = Problem(arms=2, weights=[[1.0]], delta=0.05, tolerance=tolerance)
    found = TextbookDesign.of(gap_scenario(problem, 0.5).instances(problem), seed=1).smallest(0.9)
    exact = 2 * (ndtri(0.95) + ndtri(0.9)) ** 2 / (0.5 + tolerance) ** 2
    assert found.per_cell == pytest.approx(exact, rel=0.08)
    assert found.samples == 2 * found.per_cell
    assert found.power >= 0.9


def test_the_fixed_size_of_a_private_study_has_the_noise_of_one_report_a_cell():
    """(2 v / n + 2 s^2 / n^2) (z + z')^2 = gap^2, with v = 0.25 - 0.0025 or so and s^2 = 1 / (2 rho)."""
    problem = Problem(arms=2, weights=[[1.0]], delta=0.05, noise=Binary(), rho=0.0005)
    truth = Instance(problem=problem, means=[[0.6], [0.4]])
    size = TextbookDesign.of([truth], seed=1).smallest(0.9).per_cell
    z = ndtri(0.95) + ndtri(0.9)
    assert 2 * 0.24 / size + 2 * 1000 / size**2 == pytest.approx((0.2 / z) ** 2, rel=0.12)
    exact = (
        TextbookDesign.of([Instance(problem=problem.with_(rho=None), means=truth.means)], seed=1).smallest(0.9).per_cell
    )
    assert size > 1.3 * exact


def test_a_fixed_size_names_bad_arms_no_more_often_than_delta_and_pays_for_every_comparison():
    problem = Problem(arms=4, weights=WEIGHTS, delta=0.1, tolerance=0.1)
    truth = Instance(problem=problem, means=np.array([[0.101, 0.101], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    trial = _Trial.of(truth, 3, 1, 1)
    assert trial.quantiles[0] == pytest.approx(-ndtri(0.1 / (2 * 3)))
    for draws in (20, 500):
        leaders, named = trial.answers(draws)
        bad = ~np.take_along_axis(np.broadcast_to(truth.good, trial.errors.shape[1:]), leaders, axis=-2).all(axis=-2)
        assert (bad & named).any(axis=-1).mean() <= 0.1


def test_where_no_size_would_do_there_is_none():
    problem = Problem(arms=2, weights=[[1.0]], delta=0.1)
    tie = Instance(problem=problem, means=np.zeros((2, 1)))
    assert TextbookDesign.of([tie], seed=0).smallest(0.9) is None


def test_ties_are_tried_where_a_study_can_end_and_a_horizon_is_refused():
    problem = Problem(arms=3, weights=WEIGHTS)
    assert list(operating_scenarios(problem, [0.4, 0.2])) == [0.2, 0.4]
    assert list(operating_scenarios(problem.with_(max_samples=500), [0.4])) == [0.0, 0.4]
    assert list(operating_scenarios(problem.with_(tolerance=0.1), [0.4])) == [0.0, 0.1, 0.2, 0.4]
    with pytest.raises(InvalidInput, match="horizon"):
        operating_scenarios(problem.with_(horizon=1000), [0.4])


def test_a_study_has_its_power_and_every_figure_is_told():
    problem = Problem(arms=3, weights=WEIGHTS, delta=0.1, tolerance=0.2, max_samples=4000, rate=[5.0, 3.0])
    counted: list[int] = []
    planner = Planner(policy="evidence", options={}, replications=1, seed=0, progress=counted.append)
    truths = operating_scenarios(problem, [0.5])
    found = characteristics(planner, problem, truths)
    assert sum(counted) == operating_studies(planner, truths) == (2 + BUDGETS) * STUDIES * len(truths)
    last = found[-1]
    assert (last.gap, last.study.power) == (0.5, pytest.approx(1.0, abs=0.02))
    assert last.fixed is not None
    assert last.alone.samples.mean() > last.study.samples.mean()
    assert found[0].study.error_rate == 0, "whatever is named at a tie is good"
    document = json.loads(json.dumps(operating_document(found), allow_nan=False))
    assert {"gap", "power", "wrong", "unanswered", "samples", "rounds", "days", "fixed", "alone"} < set(document[0])
    table = operating_table("", found)
    assert len(table.head) == 12
    assert len(table.rows) == len(found)


def test_power_by_budget_stands_beside_the_fixed_size_of_the_same_budget():
    problem = Problem(arms=3, weights=WEIGHTS, delta=0.1, max_samples=500)
    planner = Planner(policy="evidence", options={}, replications=1, seed=0)
    (tie, wide) = characteristics(planner, problem, operating_scenarios(problem, [0.8]))
    budgets = [point.max_samples for point in wide.budgets]
    assert budgets == sorted(budgets) == [point.max_samples for point in tie.budgets]
    assert next(point.study for point in wide.budgets if point.max_samples == 500) is wide.study
    powers = [point.study.power for point in wide.budgets]
    assert powers[0] < 0.5
    assert powers[-1] > 0.9
    for point in wide.budgets:
        assert point.study.samples.max() <= point.max_samples
        assert point.max_samples - 6 < point.fixed.samples <= point.max_samples
    document = operating_document([wide])[0]["budgets"][-1]
    assert document["power_error"] == pytest.approx(np.sqrt(powers[-1] * (1 - powers[-1]) / STUDIES))
    assert {"max_samples", "power", "samples", "fixed"} < set(document)
    assert document["samples"]["standard_error"] > 0
    assert len(budget_table("", [tie, wide]).rows) == 2 * len(budgets)
    assert len(budget_figure([tie, wide]).axes) == 2
