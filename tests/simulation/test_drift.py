"""Means that move between phases: every arm of a site alike, the same in every way to run a study."""

import numpy as np
import pytest

from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Drift
from parley.rewards import Binary, Gaussian
from parley.simulation import phase_totals, phases, simulate
from parley.study import parse_study

MEANS = [[0.5, 0.4], [0.3, 0.1], [0.1, 0.2]]
STUDY = {"arms": 3, "agents": 2, "noise": {"kind": "gaussian", "scale": 1.0}}


def drifting(**truth):
    return parse_study(STUDY | {"truth": {"means": MEANS} | truth})


def shifts(drift, phase, noise=None, count=1000):
    generators = [np.random.default_rng(step) for step in range(phase)]
    return drift.shifts(generators, count, np.array(MEANS), noise or Gaussian())


def test_a_walk_begins_where_it_is_and_spreads_with_the_root_of_the_phases():
    walk = Drift(step=0.5)
    assert not shifts(walk, 0).any()
    for phase in (1, 4, 9):
        found = shifts(walk, phase)
        assert found.shape == (1000, 1, 2)  # no arm has a step of its own
        assert found.std() == pytest.approx(0.5 * phase**0.5, rel=0.05)
        assert abs(np.corrcoef(found[:, 0, 0], found[:, 0, 1])[0, 1]) < 0.1  # every site walks by itself


def test_given_steps_add_up_and_a_season_comes_back():
    assert [float(shifts(Drift(given=(0.5, -0.2)), phase)[0, 0, 0]) for phase in range(4)] == [0.0, 0.5, 0.3, 0.3]
    wave = [float(shifts(Drift(season=2.0, season_phases=4), phase)[0, 0, 0]) for phase in range(5)]
    assert wave == pytest.approx([0.0, 2.0, 0.0, -2.0, 0.0], abs=1e-12)


def test_rates_stay_rates_and_keep_their_differences():
    found = np.array(MEANS) + shifts(Drift(step=3.0), 2, Binary())
    assert found.min() == 0.0
    assert found.max() == 1.0
    assert np.allclose(found - found[:, :1], (np.array(MEANS) - np.array(MEANS)[:1])[None])


def test_rewards_follow_the_drift():
    still, moved = (drifting(drift=steps).require_truth() for steps in ([], [10.0]))
    counts = np.full((3, 2), 50)
    assert np.array_equal(*(phase_totals(truth, seed=1, phase=0, counts=counts).sums for truth in (still, moved)))
    before, after = (phase_totals(truth, seed=1, phase=1, counts=counts).sums for truth in (still, moved))
    assert np.allclose(after - before, 500.0)


def test_one_run_is_the_first_of_many_whatever_the_chunks():
    study = drifting(drift=0.7, season=0.5, season_phases=3)
    policy = make_policy("evidence", study.problem)
    single = list(phases(policy, study.instance, seed=5))[-1].after
    many = simulate(policy, study.instance, replications=300, seed=5)
    assert many.costs[0] == single.counts.sum()
    assert np.array_equal(many.costs, simulate(policy, study.instance, replications=300, seed=5, chunk=1).costs)


@pytest.mark.parametrize(
    ("truth", "key"),
    [
        ({"drift": -0.1}, "truth.drift"),
        ({"drift": ["much"]}, "truth.drift"),
        ({"drift": float("nan")}, "truth.drift"),
        ({"season": 1.0, "season_phases": 1}, "truth.season_phases"),
        ({"drift": 0.1, "seed": 3}, "truth"),
    ],
)
def test_what_is_no_drift_is_refused(truth, key):
    with pytest.raises(InvalidInput, match=f"^{key}: found"):
        drifting(**truth)


def test_a_study_that_plays_takes_none():
    with pytest.raises(InvalidInput, match=r"truth\.drift: found drift in a study with a horizon"):
        parse_study(STUDY | {"horizon": 1000, "truth": {"means": MEANS, "drift": 0.1}})
    assert parse_study(STUDY | {"horizon": 1000, "truth": {"means": MEANS, "drift": 0.0}}).instance.drift is None
