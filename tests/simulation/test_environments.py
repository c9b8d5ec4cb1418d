import numpy as np
import pytest

from parley.errors import InvalidInput, UnknownName
from parley.problem import Instance, Problem
from parley.rewards import Count, Noise, RewardModel
from parley.rewards.sampling import ONE_BY_ONE, uniform
from parley.simulation import make_environment

MEANS = [[0.3, 0.5], [0.8, 0.9]]
COUNTS = np.array([[1, 7], [50, 0]])
RUNS = 20_000


def instance(noise: RewardModel) -> Instance:
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
    drawn = draw(np.random.default_rng(0), np.broadcast_to(COUNTS, (RUNS, 2, 2)))
    sums, squares = drawn.sums, drawn.squares
    error = np.sqrt(COUNTS * variance / RUNS)
    assert (np.abs(sums.mean(axis=0) - COUNTS * MEANS) <= 5 * error).all()
    assert sums.var(axis=0) == pytest.approx(COUNTS * variance, rel=0.06)
    assert (sums[:, 1, 1] == 0).all()
    assert (squares[:, 1, 1] == 0).all()
    expected = COUNTS * (np.square(MEANS) + variance)
    assert (np.abs(squares.mean(axis=0) - expected) <= 5 * squares.std(axis=0) / np.sqrt(RUNS) + 1e-9).all()
    assert squares[:, 0, 0] == pytest.approx(sums[:, 0, 0] ** 2), "a single draw has the square of its sum"
    scatter = np.where(COUNTS > 1, (COUNTS - 1) * variance, 0.0)
    assert drawn.scatter.mean(axis=0) == pytest.approx(scatter, rel=0.05, abs=1e-9)


def test_one_uniform_draw_is_uniform():
    draw = make_environment(instance(Noise.bounded(low=0, high=1)), "uniform")
    values = draw(np.random.default_rng(0), np.ones((RUNS, 2, 2), dtype=np.int64)).sums[:, 0, 0]
    assert values.min() >= 0
    assert values.max() <= 0.6
    shares, _ = np.histogram(values, bins=10, range=(0, 0.6))
    assert shares == pytest.approx(np.full(10, RUNS / 10), rel=0.15)


def test_bounded_noise_means_two_valued_rewards_unless_told_otherwise():
    draw = make_environment(instance(Noise.bounded(low=-1, high=1)))
    values = draw(np.random.default_rng(0), np.ones((100, 2, 2), dtype=np.int64))
    assert set(np.unique(values.sums)) == {-1.0, 1.0}


def test_wrong_environments_are_named():
    with pytest.raises(UnknownName, match="environment: found 'real'; allowed: one of bernoulli, gaussian, uniform"):
        make_environment(instance(Noise()), "real")
    with pytest.raises(UnknownName, match=r"negative-binomial, poisson, uniform\. Did you mean poisson"):
        make_environment(instance(Count()), "poison")
    with pytest.raises(InvalidInput, match="bounded"):
        make_environment(instance(Noise()), "bernoulli")


def unit(counts, runs=4000):
    draw = uniform(np.array([[0.5]]), 0.0, 1.0)
    drawn = draw(np.random.default_rng(3), np.full((runs, 1, 1), counts))
    return drawn.sums[:, 0, 0], drawn.squares[:, 0, 0]


@pytest.mark.parametrize("count", [ONE_BY_ONE, ONE_BY_ONE + 1, 5000])
def test_many_uniform_draws_have_the_moments_of_single_ones(count):
    sums, squares = unit(count)
    covariance = np.cov(sums, squares) / count
    assert covariance == pytest.approx(np.array([[1 / 12, 1 / 12], [1 / 12, 4 / 45]]), rel=0.12)
    assert abs(sums.mean() / count - 1 / 2) < 5 * np.sqrt(1 / 12 / count / len(sums))
    assert abs(squares.mean() / count - 1 / 3) < 5 * np.sqrt(4 / 45 / count / len(sums))
    assert (sums**2 <= count * squares).all()


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "uniform"])
def test_the_first_replication_draws_the_same_however_many_follow(name):
    draw = make_environment(instance(Noise.bounded(low=0, high=1)), name)
    counts = np.array([[1, 700], [50, 0]])
    alone = draw(np.random.default_rng(1), counts[None])[0]
    among = draw(np.random.default_rng(1), np.stack([counts, 3 * counts, counts]))[0]
    assert alone == among
