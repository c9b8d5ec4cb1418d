"""Private reports: the keys of a study, the mechanism's numbers, and noise in simulations."""

import numpy as np
import pytest

from parley.errors import InvalidInput
from parley.privacy import epsilon, with_noise
from parley.problem import Problem
from parley.protocol import StudyMessage
from parley.rewards import Binary, Bounded
from parley.study import parse_study
from parley.totals import Totals

STUDY = {"arms": 3, "agents": 2, "privacy": {"rho": 0.05}}
CLIPPED = {"scale": 1.0, "clip": [-3, 5]}


@pytest.mark.parametrize(
    ("noise", "variance", "grid", "ends"),
    [
        ({"kind": "binary"}, 10.0, 1.0, (0.0, 1.0)),
        ({"kind": "binary", "inference": "normal"}, 10.0, 1.0, (0.0, 1.0)),
        ({"kind": "bounded", "low": 0, "high": 1, "method": "hoeffding"}, 10.0, 2.0**-20, (0.0, 1.0)),
        (CLIPPED, 640.0, 2.0**-17, (-3.0, 5.0)),
    ],
)
def test_rho_says_how_much_noise_a_sum_has(noise, variance, grid, ends):
    problem = parse_study(STUDY | {"noise": noise}).problem
    assert (problem.rho, problem.noise_variance, problem.noise.grid, problem.reward_range) == (
        0.05,
        variance,
        grid,
        ends,
    )
    again = StudyMessage.read(StudyMessage.of(parse_study(STUDY | {"noise": noise})).text).problem
    assert (again.noise, again.noise_variance) == (problem.noise, variance)
    assert problem.with_(rho=None).noise_variance == 0
    assert problem.with_(rho=None).noise.document() == problem.noise.document()


def test_a_range_of_any_width_has_a_grid_of_whole_steps_and_a_little_more_noise():
    noise = parse_study(STUDY | {"noise": {"scale": 1.0, "clip": [0.0, 0.3]}}).problem.noise
    assert np.log2(noise.grid) == round(np.log2(noise.grid))
    assert 2**20 <= noise.sensitivity <= 2**21
    assert 0.3 <= noise.sensitivity * noise.grid < 0.3 + noise.grid
    assert noise.noise_variance >= 0.3**2 / (2 * 0.05)


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        ({}, "privacy.rho: found 0.05 with kind = 'gaussian', scale = 'unknown'.*squares"),
        ({"scale": 2.0}, "privacy.rho: found 0.05 with kind = 'gaussian', scale = 2.0; allowed: .*clip"),
        ({"kind": "subgaussian"}, "privacy.rho: found 0.05 with kind = 'subgaussian'"),
        ({"kind": "bounded", "low": 0, "high": 1}, 'privacy.rho: .*method = .variance.; allowed: .*"hoeffding"'),
        ({"clip": [0, 1]}, "noise.scale: found 'unknown'; allowed: a known scale with noise.clip"),
        ({"scale": 1.0, "clip": [1, 1]}, r"noise.clip: found \[1, 1\]; allowed: \[low, high\]"),
        ({"scale": 1.0, "clip": [1]}, r"noise.clip: found \[1\]; allowed: \[low, high\]"),
        ({"scale": 1.0, "clip": 3}, "noise.clip: found 3; allowed: a list"),
    ],
)
def test_rewards_whose_evidence_would_not_be_exact_refuse_rho(noise, says):
    with pytest.raises(InvalidInput, match=says):
        parse_study(STUDY | {"noise": noise})


@pytest.mark.parametrize("rho", [0.0, -1.0, 1e-9, 1000.0, float("nan"), True, "much"])
def test_rho_is_a_number_within_reason(rho):
    with pytest.raises(InvalidInput, match="rho"):
        Problem(arms=2, weights=[[1.0]], noise=parse_study(STUDY | {"noise": CLIPPED}).problem.noise, rho=rho)


def test_a_range_comes_with_clipping_and_scale_may_be_smaller_than_half_of_it():
    narrow = parse_study(STUDY | {"noise": {"scale": [1.0, 3.0], "clip": [0, 4]}}).problem.noise
    assert narrow.variance.tolist() == [1.0, 4.0]
    assert not narrow.boosted
    assert narrow.stated_variance is None


def test_epsilon_is_that_of_the_best_order_and_below_the_closed_form():
    for rho in (1e-6, 0.005, 0.05, 0.5, 5.0):
        for delta in (1e-3, 1e-5, 1e-9):
            found = epsilon(rho, delta)
            assert found < rho + 2 * np.sqrt(rho * np.log(1 / delta))
            # Delta of an epsilon, by the same inequality: no order makes it smaller than was asked for by much.
            order = 1 + np.geomspace(1e-3, 1e6, 100_001)
            least = ((order - 1) * (order * rho - found) + order * np.log1p(-1 / order) - np.log(order - 1)).min()
            assert least <= np.log(delta) + 1e-6
            assert found == 0 or least >= np.log(delta) - 1e-3


@pytest.mark.parametrize(("variance", "grid"), [(0.3, 1.0), (10.0, 1.0), (10.0, 2.0**-20)])
def test_simulated_noise_is_discrete_gaussian_on_the_grid(variance, grid):
    counts = np.ones(400_000, dtype=np.int64)
    exact = Totals(counts=counts, sums=np.full(counts.shape, 0.5), squares=np.full(counts.shape, 0.25))
    model = Binary(rho=1 / (2 * variance)) if grid == 1.0 else Bounded(low=0, high=1, rho=1 / (2 * variance))
    assert (model.grid, model.noise_variance) == (grid, pytest.approx(variance))
    noisy = with_noise(exact, np.random.default_rng(3), model)
    steps = (noisy.sums - grid * np.round(0.5 / grid)) / grid
    assert (steps == np.round(steps)).all()
    values = np.arange(-100, 101) if grid == 1.0 else np.zeros(1)
    density = np.exp(-np.square(values) / (2 * variance))
    true = (np.square(values) * density).sum() / density.sum() if grid == 1.0 else variance
    assert np.var(steps * grid) == pytest.approx(true, rel=0.02)
    assert not noisy.squares.any()
