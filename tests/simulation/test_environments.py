import numpy as np
import pytest

from parley.errors import InvalidInput, UnknownName
from parley.noise import Noise
from parley.problem import Instance, Problem
from parley.simulation import make_environment

MEANS = [[0.3, 0.5], [0.8, 0.9]]
COUNTS = np.array([[1, 7], [50, 0]])
RUNS = 20_000


def instance(noise: Noise) -> Instance:
    return Instance(problem=Problem(arms=2, weights=np.eye(2), noise=noise), means=MEANS)


@pytest.mark.parametrize(
    ("name", "noise", "variance"),
    [
        ("gaussian", Noise(scale=2.0), np.full((2, 2), 4.0)),
        ("bernoulli", Noise.bounded(low=0, high=1), np.array(MEANS) * (1 - np.array(MEANS))),
        ("uniform", Noise.bounded(low=0, high=1), np.minimum(MEANS, 1 - np.array(MEANS)) ** 2 / 3),
    ],
)
def test_sums_have_the_mean_and_variance_of_that_many_draws(name, noise, variance):
    draw = make_environment(instance(noise), name)
    sums = draw(np.random.default_rng(0), np.broadcast_to(COUNTS, (RUNS, 2, 2)))
    error = np.sqrt(COUNTS * variance / RUNS)
    assert (np.abs(sums.mean(axis=0) - COUNTS * MEANS) <= 5 * error).all()
    assert sums.var(axis=0) == pytest.approx(COUNTS * variance, rel=0.06)
    assert (sums[:, 1, 1] == 0).all()


def test_one_uniform_draw_is_uniform():
    draw = make_environment(instance(Noise.bounded(low=0, high=1)), "uniform")
    values = draw(np.random.default_rng(0), np.ones((RUNS, 2, 2), dtype=np.int64))[:, 0, 0]
    assert values.min() >= 0
    assert values.max() <= 0.6
    shares, _ = np.histogram(values, bins=10, range=(0, 0.6))
    assert shares == pytest.approx(np.full(10, RUNS / 10), rel=0.15)


def test_bounded_noise_means_two_valued_rewards_unless_told_otherwise():
    draw = make_environment(instance(Noise.bounded(low=-1, high=1)))
    values = draw(np.random.default_rng(0), np.ones((100, 2, 2), dtype=np.int64))
    assert set(np.unique(values)) == {-1.0, 1.0}


def test_wrong_environments_are_named():
    with pytest.raises(UnknownName, match="environment: found 'real'; allowed: one of bernoulli, gaussian, uniform"):
        make_environment(instance(Noise()), "real")
    with pytest.raises(InvalidInput, match="bounded"):
        make_environment(instance(Noise()), "bernoulli")
