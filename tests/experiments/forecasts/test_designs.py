"""The textbook's designs: one site and two arms against published figures, whose source stands beside them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri

from parley.experiments.forecasts.designs import TextbookDesign, _Trial, crossing_probabilities, obrien_fleming
from parley.problem import Instance, Problem

PUBLISHED = json.loads(Path(__file__).with_name("obrien_fleming.json").read_text(encoding="utf-8"))


def test_critical_values_and_what_is_spent_are_those_of_rpact():
    known = PUBLISHED["rpact"]
    found = obrien_fleming(known["looks"], known["level"])
    assert found == pytest.approx(known["critical_values"], abs=2e-6)
    line = found[0]  # of the sums, whose first has one unit of information
    assert np.cumsum(crossing_probabilities(line, known["looks"])) == pytest.approx(known["spent"], abs=1e-7)


@pytest.mark.parametrize("alpha", [0.10, 0.05, 0.01])
def test_critical_values_are_those_of_the_tables(alpha):
    known = PUBLISHED["last_critical_values"]
    found = [obrien_fleming(looks, alpha / 2)[-1] for looks in known["looks"]]
    assert found == pytest.approx(known[f"two-sided {alpha:.2f}"], abs=1.1e-3)


@pytest.mark.parametrize("power", [0.8, 0.9])
def test_the_largest_size_is_that_of_the_tables(power):
    known = PUBLISHED["inflation"]
    for looks, inflation in zip(known["looks"], known[f"power {power}"], strict=True):
        line = obrien_fleming(looks, 0.025)[0]
        drift = brentq(lambda per: crossing_probabilities(line, looks, per).sum() - power, 0.1, 5.0)  # noqa: B023
        fixed = (ndtri(0.975) + ndtri(power)) ** 2
        assert looks * drift**2 / fixed == pytest.approx(inflation, abs=1.1e-3)


def test_levels_of_one_in_a_million_are_as_accurate():
    line = obrien_fleming(5, 1e-6)[0]
    assert crossing_probabilities(line, 5).sum() == pytest.approx(1e-6, rel=1e-6)


def test_simulated_sizes_of_one_site_and_two_arms_are_those_of_the_formulas():
    """The largest size within its Monte Carlo error of the fixed one times the table's inflation; the mean as well."""
    truth = Instance(problem=Problem(arms=2, weights=[[1.0]], delta=0.025), means=[[0.5], [0.0]])
    fixed = 2 * (ndtri(0.975) + ndtri(0.9)) ** 2 / 0.5**2
    line = obrien_fleming(5, 0.025)[0]
    found = TextbookDesign.of([truth], seed=4, looks=5).at(math.ceil(1.026 * fixed))
    assert found.power == pytest.approx(0.9, abs=0.02)
    chances = crossing_probabilities(line, 5, 0.5 * math.sqrt(found.per_cell / 10))
    spent = (chances * np.arange(1, 6)).sum() / 5 + 1 - chances.sum()
    assert found.mean / found.samples == pytest.approx(spent, abs=0.015)


def test_looks_name_bad_arms_no_more_often_than_delta_and_pay_for_every_comparison():
    problem = Problem(arms=4, weights=[[0.7, 0.2], [0.3, 0.8]], delta=0.1, tolerance=0.1)
    truth = Instance(problem=problem, means=np.array([[0.101, 0.101], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    trial = _Trial.of(truth, 3, 1, 5)
    assert trial.quantiles == pytest.approx(obrien_fleming(5, 0.1 / (2 * 3)))
    bad = np.zeros(trial.errors.shape[1], dtype=bool)
    for look in range(5):
        leaders, named = trial.answers(100, look)
        right = np.take_along_axis(np.broadcast_to(truth.good, trial.errors.shape[1:]), leaders, axis=-2)
        bad |= (named & ~right.all(axis=-2)).any(axis=-1)
    assert bad.mean() <= 0.1
