"""An unknown scale needs a handful of draws a cell, fewer where cells share it, and errors stay within delta."""

import numpy as np
import pytest
from tests.support import first_quick

from parley import Instance, Problem, make_policy, simulate
from parley.rewards import UnknownScale

TEN = np.arange(1.0, 11.0)[:, None]


def study(means, *, scale="unknown", true=1.0, near=1.0, agents=1, delta=0.05):
    means = np.repeat(np.reshape(means, (-1, 1)), agents, axis=1)
    weights = np.full((agents, agents), 1 / agents)
    problem = Problem(
        arms=len(means), weights=weights, tolerance=near, delta=delta, largest_gap=9.0, noise=UnknownScale(scale=scale)
    )
    return Instance(problem=problem, means=means, scale=true)


def run(instance, count, seed=3):
    return simulate(make_policy("evidence", instance.problem), instance, replications=count, seed=seed)


def test_ten_arms_far_apart_take_a_handful_of_draws_each():
    found = run(study(TEN), 300)
    assert found.finished.all()
    assert found.costs.mean() <= 80, "twelve draws a cell in every phase were 240"
    assert found.costs.max() <= 150


@pytest.mark.parametrize("scale", first_quick("unknown, shared", "unknown per agent"))
def test_cells_that_share_a_scale_need_fewer_draws_still(scale):
    own, shared = (run(study(TEN, scale=kind), 200).costs.mean() for kind in ("unknown", scale))
    assert shared <= 0.8 * own


def test_the_first_phase_takes_two_draws_a_cell_where_gaps_are_large():
    policy = make_policy("evidence", study(TEN).problem)
    assert policy.plan(policy.start()).tolist() == [[2]] * 10


@pytest.mark.parametrize(
    ("draws", "least"),
    [
        ([0.1], [3]),
        ([1.0], [4]),
        ([4.0], [7]),
        ([100.0], [104]),
        ([0.0], [0]),
        ([4.0, 4.0], [7, 7]),
        ([0.1, 30.0], [12, 40]),  # what the small cell lacks, the large one would have to make up for
    ],
)
def test_small_cells_get_as_many_draws_as_students_quantile_asks_for(draws, least):
    planned = np.array(draws)[None, None, :]
    assert UnknownScale().enough_draws(planned, np.array([2.2]))[0, 0].tolist() == least


def test_cells_that_share_a_scale_have_their_degrees_of_freedom_together():
    planned = np.full((1, 10, 2), 0.5)
    each = {kind: UnknownScale(scale=kind).enough_draws(planned, np.array([2.2])).max() for kind in SCALES}
    assert each == {"unknown": 4, "unknown per agent": 2, "unknown, shared": 2}


SCALES = ("unknown", "unknown per agent", "unknown, shared")


@pytest.mark.simulations
@pytest.mark.parametrize(
    ("means", "true", "near", "scale"),
    [
        ([0, 1.001], 1.0, 1.0, "unknown"),
        ([0, 3.001], 1.0, 3.0, "unknown"),  # two cells of some three draws
        ([0, 1.001], 1.0, 1.0, "unknown, shared"),
        ([0, 3.001, 0], 1.0, 3.0, "unknown per agent"),
        ([0, 1.001, 0, 0], np.array([[0.2], [1.0], [5.0], [1.0]]), 1.0, "unknown"),
        ([0, 3.001, 0], np.array([[3.0], [0.3], [1.0]]), 3.0, "unknown"),
    ],
)
def test_errors_stay_within_delta_in_tiny_cells_and_with_unequal_scales(means, true, near, scale):
    """Arms just beyond the tolerance: 20,000 studies, all of which end."""
    found = run(study(means, true=true, near=near, scale=scale), 20_000, seed=11)
    assert found.finished.all()
    assert found.error_rate <= 0.05


@pytest.mark.simulations
@pytest.mark.parametrize("true", [1.0, np.array([[0.2], [5.0]])])
def test_a_tie_without_a_tolerance_is_decided_no_more_often_than_delta_says(true):
    """Ten phases from two draws a cell on, 20,000 studies."""
    instance = study([0.0, 0.0], near=0.0, true=true)
    capped = Instance(problem=instance.problem.with_(max_rounds=10, max_samples=2000), means=instance.means, scale=true)
    found = run(capped, 20_000, seed=12)
    assert 0.01 <= found.finished.mean() <= 2 * 0.05, "whichever of the two is called the best"
