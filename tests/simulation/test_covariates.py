"""Simulated outcomes with a covariate: exactly in law, independent of batches, and cheaper by what x explains."""

import numpy as np
import pytest

from parley.covariates import CovariateTruth
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.simulation.pairs import draw_pairs, tilted_pairs
from parley.simulation.rare import ruled_out_probability
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


@pytest.mark.simulations
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


TILTED = {
    "unknown scale": ({"scale": "unknown"}, "gaussian", {"center": 2.0}),
    "range": ({"kind": "bounded", "low": -1, "high": 2}, "lognormal", {"range": [-3.0, 3.0]}),
}


@pytest.mark.parametrize("name", TILTED)
def test_tilted_pairs_have_the_mean_and_scatter_that_their_cumulant_says(name):
    noise, law, keys = TILTED[name]
    instance = study([[0.8, 0.1], [0.2, -0.4], [0.5, 0.3]], law, noise=noise, **keys).require_truth()
    runs, people = 400, 300
    counts = np.full((runs, 3, 2), people)
    theta, x0 = np.tile([0.3, -0.4], (runs, 1)), np.tile([0.5, np.nan], (runs, 1))
    law_of = tilted_pairs(
        instance, np.broadcast_to(instance.means, counts.shape), np.full((runs, 1, 2), 0.7), theta, x0
    )
    tilt = np.broadcast_to([[0.2, -0.1], [-0.3, 0.4], [0.0, 0.1]], counts.shape)
    pairs = law_of.draw(np.random.default_rng(1), counts, tilt)
    found = pairs.adjusted(theta, x0)
    one = np.zeros(counts.shape)
    for cell in np.ndindex(3, 2):
        step = one.copy()
        step[:, *cell] = 1e-4
        up, down = (law_of.cumulant(counts, tilt + sign * step)[0] / people for sign in (1, -1))
        here = law_of.cumulant(counts, tilt)[0] / people
        error = np.sqrt(law_of.variances[0, *cell] / (runs * people))
        assert found.sums[:, *cell].sum() / (runs * people) == pytest.approx((up - down) / 2e-4, abs=5 * error)
        variance = found.scatter[:, *cell].sum() / (runs * (people - 1))
        assert variance == pytest.approx((up - 2 * here + down) / 1e-8, rel=0.05)
    untilted = law_of.draw(np.random.default_rng(2), counts, one).adjusted(theta, x0)
    np.testing.assert_allclose(untilted.scatter.mean(axis=0) / (people - 1), law_of.variances[0], rtol=0.05)
    drawn_too = draw_pairs(
        instance,
        np.random.default_rng(3),
        counts,
        np.broadcast_to(instance.means, counts.shape),
        np.full((runs, 1, 2), 0.7),
    )
    np.testing.assert_allclose(drawn_too.adjusted(theta, x0).means.mean(axis=0), untilted.means.mean(axis=0), atol=0.02)


@pytest.mark.simulations
@pytest.mark.parametrize("name", TILTED)
def test_rare_errors_of_studies_with_a_covariate_are_below_delta(name):
    """docs/covariates.md has the figures; delta 0.1 agrees with counting there."""
    noise, law, keys = TILTED[name]
    truth = {"means": [[0.5] * 2] * 3, "covariate": {"correlation": [[0.8, 0.1], [0.5, -0.4], [-0.2, 0.6]], "law": law}}
    more = {"covariate": {"name": "x", **keys}, "noise": noise, "delta": 1e-5, "answers": "each", "truth": truth}
    instance = parse_study(KEYS | more).require_truth()
    policy = make_policy("evidence", instance.problem)
    found = [ruled_out_probability(policy, instance, arm=0, agent=m, replications=1000, seed=1) for m in (0, 1)]
    assert 0 < sum(one.probability for one in found) <= 1e-5


def test_a_covariate_whose_outcomes_have_no_tilted_form_is_named():
    instance = study(0.5, "lognormal").require_truth()
    policy = make_policy("evidence", instance.problem)
    with pytest.raises(InvalidInput, match=r"truth.covariate.law: found 'lognormal'; allowed: \"gaussian\""):
        ruled_out_probability(policy, instance, arm=0, agent=0, replications=10, seed=1)
