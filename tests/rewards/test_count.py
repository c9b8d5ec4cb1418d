"""Counts of events: the payoff is fair to the last outcome, bounds and intervals hold, and what no counts can be is
refused."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import poisson
from tests.support import first_quick

from parley.bounds import bai, bounds_are_exact, regret
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.protocol import StudyMessage
from parley.protocol.report_checks import added_scatter, scale_warnings
from parley.rewards import Bets, Count, PhaseContrasts, bets, make_model, sampling
from parley.rewards.count import count_flaw, growing_stakes, largest_mean, log_power_products, log_powers
from parley.simulation import simulate
from parley.study import parse_study
from parley.totals import Totals

WEIGHTS = np.array([[0.7, 0.2], [0.3, 0.8]])
MEANS = np.array([[0.9, 1.4], [0.6, 1.1]])
DRAWS = np.array([[2, 1], [1, 3]])
EVERY = np.arange(40)


def shares_of(agent):
    return (np.array([1.0, -1.0])[:, None] * WEIGHTS[:, agent] / DRAWS)[None]


@pytest.mark.parametrize("agent", [0, 1])
@pytest.mark.parametrize("shift", [0.0, 0.3])
@pytest.mark.parametrize("moved", [0.0, 0.8])  # drift: every arm of a site alike
def test_the_expectation_of_a_payoff_is_exp_of_stake_times_contrast(agent, shift, moved):
    shares, stake = shares_of(agent), np.array([[0.4]])
    laws = [poisson.pmf(EVERY, draws * (mean + moved)) for draws, mean in zip(DRAWS.flat, MEANS.flat, strict=True)]
    # Each cell by itself: the factors are independent, so the expectation is the product of theirs.
    expected = 1.0
    for place, law in enumerate(laws):
        cell = np.zeros((len(EVERY), 2, 2))
        cell.reshape(len(EVERY), 4)[:, place] = EVERY
        once = 0.0 if place else shift  # of the whole bet
        logs = log_powers(np.repeat(shares, len(EVERY), 0), cell, np.repeat(stake, len(EVERY), 0), once)
        expected *= float(law @ np.exp(logs)[:, 0])
    theta = float(WEIGHTS[:, agent] @ (MEANS[0] - MEANS[1]))
    assert expected == pytest.approx(math.exp(stake[0, 0] * (theta + shift)), rel=1e-9)


def test_stakes_keep_every_factor_positive_and_grow_fastest():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 60, (50, 2, 3)).astype(float)
    weights = rng.dirichlet(np.ones(3), 50)[:, None, :]
    shares = np.array([1.0, -1.0])[:, None] * weights / counts
    rates = rng.uniform(0.05, 3.0, (50, 2, 3))
    gap = (counts * shares * rates).sum(axis=(1, 2))
    gaps = np.maximum(gap[:, None] + np.array([-0.1, 0.0, 0.1]), 0.0)
    stakes = growing_stakes(shares, counts, rates, gaps, 0.0)
    factors = 1 + stakes[:, None, None, :] * shares[..., None]
    assert (factors >= 0.1 - 1e-12).all()

    def growth(stake):
        return np.einsum("bsn,bsn->b", counts * rates, np.log(1 + stake[:, None, None] * shares))

    best = growth(stakes[:, 1])
    inside = (gap > 0) & (stakes[:, 1] < 0.89 / (-shares).max(axis=(1, 2)))
    for factor in (0.8, 1.2):
        other = np.minimum(factor * stakes[:, 1], 0.99 / (-shares).max(axis=(1, 2)))
        assert (growth(other)[inside] <= best[inside] + 1e-9).all()


def many_agents(agents, runs=200, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(agents), agents).T
    past, fresh = (
        sampling.poisson(np.full((2, agents), 0.7))(rng, np.full((runs, 2, agents), size)) for size in (30, 40)
    )
    run, first = np.arange(runs), np.zeros(runs, dtype=np.int64)
    mixed = fresh.means @ weights
    made = Bets(
        estimate=np.full(runs, 0.1), error=np.full(runs, 0.05), missing=np.full(runs, 3.0),
        contrast=mixed[:, 0, 0] - mixed[:, 1, 0], variance=np.ones(runs), replication=(run,), opponent=first,
        arm=first + 1, agent=first, weights=weights, past=past, fresh=fresh,
    )  # fmt: skip
    variance = bets.contrast_variance(made, Count().cell_variances(past))
    return Bets(**{**vars(made), "variance": variance})


def test_products_over_many_agents_are_at_most_the_payoff_and_close_to_it():
    made = many_agents(70)
    gaps = bets.staked_gaps(made)
    products = log_power_products(made, gaps)
    reach = bets.farthest(made, made.fresh.per_draw, made.fresh.per_draw)
    stakes = np.minimum(gaps / made.variance[:, None], bets.REACH / reach[:, None])
    (part,) = bets.in_parts(made)
    exact = log_powers(part.shares, part.of(made.fresh.sums), stakes)
    assert (products <= exact + 1e-12).all()
    assert products == pytest.approx(exact, abs=1e-3)


def test_a_bound_on_a_gap_holds_and_is_no_idle_one():
    means, runs = np.array([[1.2, 0.9], [0.7, 0.5]]), 4000
    past, fresh = (sampling.poisson(means)(np.random.default_rng(seed), np.full((runs, 2, 2), 60)) for seed in (1, 2))
    opponents = np.broadcast_to(np.array([1, 0])[None, :, None], (1, 2, 2))[None].repeat(runs, 0)
    mixed, variances = fresh.means @ WEIGHTS, (Count().cell_variances(past) / 60) @ WEIGHTS**2
    phase = PhaseContrasts(
        contrast=mixed[:, None, ::-1] - mixed[:, None], variance=(variances[:, None, ::-1] + variances[:, None]),
        observed=np.ones((runs, 2, 2), bool), opponents=opponents, phase=np.ones(runs, int), weights=WEIGHTS, past=past,
        fresh=fresh, line=math.log(20), scale=0.5,
    )  # fmt: skip
    _, _, lower = Count().gap_bound(phase, np.zeros((runs, 2, 2)), np.zeros((runs, 2, 2)))
    gaps = (means[::-1] - means) @ WEIGHTS
    assert (lower > gaps).mean(axis=0).max() <= 0.05
    assert (lower[:, 1] > 0).mean() > 0.3


def test_intervals_hold():
    means = np.array([[1.2, 0.9], [1.0, 0.8]])
    fresh = sampling.poisson(means)(np.random.default_rng(0), np.full((2000, 2, 2), 30))
    shown = Count().summary(Totals.zero(fresh.counts.shape), fresh, WEIGHTS)
    stacked = type(shown)(**{name: part[None] for name, part in vars(shown).items()})
    differences = stacked.against(np.array([1, 1]))
    for summary, truth in ((stacked, means @ WEIGHTS), (differences, (means - means[1]) @ WEIGHTS)):
        low, high = Count().interval(summary, math.log(20))
        missed = ((truth < low - 1e-9) | (truth > high + 1e-9)).mean()
        assert missed <= 0.05
        assert (high - low)[:, 0].mean() < 2.5


@pytest.mark.parametrize(
    ("count", "total", "square", "wrong"),
    [
        (5, 7.0, 11.0, None),
        (5, 7.0, 49.0, None),
        (0, 0.0, 0.0, None),
        (5, -1.0, 1.0, "sums"),
        (5, 7.5, 20.25, "sums"),
        (5, 7.0, 12.0, "squares"),  # as odd as the sum
        (5, 7.0, 9.0, "squares"),
        (5, 7.0, 51.0, "squares"),
        (0, 1.0, 1.0, "sums"),
        (3, float(2**54), 1e33, "sums"),
    ],
)
def test_what_no_counts_can_have_is_refused(count, total, square, wrong):
    found = count_flaw(count, total, square)
    assert (found and found[0]) == wrong


def test_the_largest_mean_is_hardly_ever_exceeded():
    rng, level = np.random.default_rng(0), 0.01
    sums = rng.poisson(np.array([0.1, 1.0, 10.0]) * 50, (20_000, 3)).astype(float)
    assert (largest_mean(sums, np.full(3, 50.0), level) < [0.1, 1.0, 10.0]).mean() <= level
    assert np.isinf(largest_mean(np.zeros(1), np.zeros(1), level)).all()


@pytest.mark.parametrize("mean", [0.03, 0.3, 1.0, 30.0, 5000.0])
def test_samples_have_the_moments_of_their_law(mean):
    counts = np.full((4000, 1, 1), 12)
    for draw, variance in (
        (sampling.poisson(np.array([[mean]])), mean),
        (sampling.negative_binomial(np.array([[mean]]), 0.5), mean + 0.5 * mean**2),
    ):
        totals = draw(np.random.default_rng(1), counts)
        assert totals.means.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / 48_000))
        assert (totals.scatter / 11).mean() == pytest.approx(variance, rel=0.15)
        assert all(count_flaw(12, *cell) is None for cell in zip(totals.sums.flat, totals.squares.flat, strict=True))


def test_exact_bounds_are_those_of_poisson_counts():
    """Two arms, one agent: share s of the draws, kl to the common mean that is hardest to tell."""
    problem = Problem(arms=2, weights=[[1.0]], noise=Count())
    instance = Instance(problem=problem, means=[[0.5], [0.3]])
    assert bounds_are_exact(instance)

    def rate(share):
        common = share * 0.5 + (1 - share) * 0.3
        return sum(part * (q * math.log(q / common) - q + common) for part, q in ((share, 0.5), (1 - share, 0.3)))

    best = max(rate(share) for share in np.linspace(0.01, 0.99, 9801))
    assert bai(instance).value == pytest.approx(1 / best, rel=1e-4)
    assert regret(instance).value > 0
    mixed = Instance(
        problem=Problem(arms=3, weights=WEIGHTS, noise=Count()), means=[[0.5, 0.7], [0.3, 0.4], [0.2, 0.3]]
    )
    found = bai(mixed)
    assert 0 <= found.gap <= 1e-5


def phases_of(draw, runs, phases=3, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        scatter = None
        for _, size in zip(range(phases), itertools.count(40, 60), strict=False):
            scatter = added_scatter(draw(rng, np.full((2, 2), size)), scatter)
        yield scatter


@pytest.fixture(scope="module")
def study():
    document = {"arms": ["A", "B"], "agents": ["x", "y"], "noise": {"kind": "count"}, "policy": {"name": "evidence"}}
    return StudyMessage.of(parse_study(document))


@pytest.mark.parametrize("mean", first_quick(0.02, 0.1, 1.0, 10.0))
def test_poisson_counts_give_no_warning(study, mean):
    draw = sampling.poisson(np.full((2, 2), mean))
    warned = sum(bool(scale_warnings(study, scatter)) for scatter in phases_of(draw, 300))
    assert warned <= 9  # the level is 0.01: 10 or more of 300 have a chance below 1e-3


@pytest.mark.parametrize(("mean", "dispersion"), [(0.5, 5.0), (1.0, 1.0), (10.0, 0.5)])
def test_overdispersion_is_told_and_unknown_scale_recommended(study, mean, dispersion):
    draw = sampling.negative_binomial(np.full((2, 2), mean), dispersion)
    told = [scale_warnings(study, scatter) for scatter in phases_of(draw, 20)]
    assert sum(map(bool, told)) >= 19
    assert all(
        'kind = "gaussian" with an unknown scale allows any ratio' in warning for found in told for warning in found
    )
    assert any("times their mean" in found[0] for found in told if found)


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        ({"kind": "count", "mean": 0}, r"noise.mean: found 0.*above 0"),
        ({"kind": "count", "mean": -1.0}, r"noise.mean: found -1.*above 0"),
        ({"kind": "count", "low": 0}, r"key in \[noise\] with kind 'count': found 'low'"),
        ({"kind": "count", "scale": 1.0}, "scale"),
    ],
)
def test_keys_are_checked(noise, says):
    with pytest.raises(InvalidInput, match=says):
        make_model(**noise)


def test_a_mean_below_zero_a_scale_and_a_policy_that_needs_one_are_refused():
    with pytest.raises(InvalidInput, match=r"means: found -0.1; allowed: means of at least 0"):
        parse_study({"arms": 2, "agents": 1, "noise": {"kind": "count"}, "truth": {"means": [[0.4], [-0.1]]}})
    stated = {"means": [[0.4], [0.1]], "scale": 1.0}
    problem = Problem(arms=2, weights=[[1.0]], noise=Count())
    with pytest.raises(InvalidInput, match=r"truth\.scale"):
        Count().samplers(np.array(stated["means"]), 1.0)
    with pytest.raises(InvalidInput, match=r"noise.kind: found 'count'; allowed: rewards whose largest scale is known"):
        make_policy("wcpe", problem)
    with pytest.raises(InvalidInput, match=r"privacy\.rho"):
        Problem(arms=2, weights=[[1.0]], noise=Count(), rho=0.1)


@pytest.mark.parametrize("mean", [0.1, 10.0])
def test_a_tolerance_ends_ties_of_counts(mean):
    problem = Problem(
        arms=2, weights=WEIGHTS, noise=Count(mean=mean), tolerance=0.4 * mean, delta=0.1, largest_gap=mean
    )
    instance = Instance(problem=problem, means=np.full((2, 2), mean))
    outcome = simulate(make_policy("evidence", problem), instance, replications=50, seed=2)
    assert outcome.finished.all()
