"""Simulated outcomes with a covariate: exactly in law, independent of batches, and cheaper by what x explains."""

import numpy as np
import pytest

from parley.covariates import CovariateTruth
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.simulation.pairs import draw_pairs
from parley.study import parse_study

KEYS = {
    "arms": 3,
    "agents": 2,
    "weights": {"kind": "matrix", "matrix": [[0.8, 0.3], [0.2, 0.7]]},
    "noise": {"scale": "unknown"},
}
MEANS = [[0.9, 0.8], [0.4, 0.2], [0.1, 0.3]]


def study(rho=0.6, law="gaussian", drift=0.0, noise=None, **covariate):
    truth = {"means": MEANS, "covariate": {"correlation": rho, "law": law, "drift": drift}}
    return parse_study(
        KEYS | {"noise": noise or KEYS["noise"], "covariate": {"name": "x", **covariate}, "truth": truth}
    )


def drawn(instance, people=400, runs=300, moved=0.0):
    rng = np.random.default_rng(5)
    counts = np.full((runs, *instance.means.shape), people)
    means = np.broadcast_to(instance.means, counts.shape)
    return draw_pairs(instance, rng, counts, means, np.full((runs, 1, 2), moved))


@pytest.mark.parametrize(
    ("noise", "covariate", "law"),
    [
        (None, {}, "gaussian"),
        (None, {}, "lognormal"),
        (None, {"range": [-40.0, 40.0]}, "gaussian"),
        ({"kind": "bounded", "low": -1, "high": 2}, {"range": [-40.0, 40.0]}, "gaussian"),
        ({"kind": "binary"}, {"range": [0.0, 10.0]}, "gaussian"),
    ],
)
def test_means_scatters_and_correlations_are_those_of_the_truth(noise, covariate, law):
    instance = study(0.3, law, noise=noise, **covariate).require_truth()
    pairs = drawn(instance)
    n = pairs.totals.counts.sum(axis=0)
    np.testing.assert_allclose(pairs.totals.sums.sum(axis=0) / n, instance.means, atol=0.02)
    xx, xy, yy = (part.sum(axis=0) / (n - 300) for part in (pairs.xx, pairs.xy, pairs.yy))
    np.testing.assert_allclose(yy, instance.problem.noise.true_variances(instance.means, instance.scale), rtol=0.03)
    np.testing.assert_allclose(xy / np.sqrt(xx * yy), 0.3, atol=0.03)
    np.testing.assert_allclose(pairs.yy, pairs.totals.scatter, rtol=1e-6, atol=1e-6)


def test_the_fast_way_has_the_law_of_person_by_person():
    """Gaussian pairs by one Wishart matrix a cell, and by single people (a range that clips nobody)."""
    fast, slow = drawn(study(-0.7).require_truth(), 6), drawn(study(-0.7, range=[-60, 60]).require_truth(), 6)
    for name, unit in (("xx", 400.0), ("xy", 20.0), ("yy", 1.0)):
        one, two = getattr(fast, name), getattr(slow, name) / unit
        assert one.mean() == pytest.approx(two.mean(), abs=0.35)
        assert one.std() == pytest.approx(two.std(), rel=0.12)


def test_a_mean_of_x_that_moves_moves_all_arms_of_a_site_alike():
    instance = study([[0.8, 0.1], [0.2, -0.4], [0.5, 0.3]]).require_truth()
    still, moved = drawn(instance).totals.means, drawn(instance, moved=2.0).totals.means
    by = (moved - still).mean(axis=0)
    np.testing.assert_allclose(by, np.broadcast_to(by[:1], by.shape), atol=1e-9)
    assert by[0, 0] == pytest.approx(1.0)


def test_chunks_and_further_replications_change_nothing():
    found = study(drift=1.0)
    policy = make_policy("evidence", found.problem)
    few = simulate(policy, found.instance, replications=20, seed=3)
    many = simulate(policy, found.instance, replications=300, seed=3, chunk=256)
    assert few.costs.tolist() == many.costs[:20].tolist()


def test_what_x_explains_need_not_be_drawn():
    """The README's instance; docs/covariates.md has the figures of a thousand studies."""
    keys = {"arms": 6, "agents": 3, "weights": {"kind": "personalized", "alpha": 0.5}, "noise": {"scale": "unknown"}}
    known = {"name": "x", "theta": 0.9, "center": 0}
    ways = ({"name": "x"}, known, known | {"correlation": 0.9})
    costs = []
    for rho, way in ((0.0, {"name": "x"}), *((0.9, way) for way in ways)):
        truth = {"generate": "paper", "covariate": {"correlation": rho, "drift": 1.0}}
        found = parse_study(keys | {"covariate": way, "truth": truth})
        costs.append(
            simulate(make_policy("evidence", found.problem), found.instance, replications=100, seed=1).costs.mean()
        )
    shares = np.array(costs[1:]) / costs[0]
    assert shares[0] < 0.46
    assert shares[1] < 0.33
    assert shares[2] < 0.25


def test_a_truth_says_how_x_goes_with_outcomes_by_arm_and_site():
    problem = Problem(arms=2, weights=[[1.0]], noise=make_model(scale="unknown"), covariate="x")
    with pytest.raises(InvalidInput, match="numbers between -1 and 1"):
        Instance(problem=problem, means=[[1.0], [0.0]], covariate=CovariateTruth(correlation=[0.1, 0.2, 0.3]))
