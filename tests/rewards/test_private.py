"""Evidence from private sums is fair to the last outcome: expectations over all rewards and all noise, added up."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from tests.support import first_quick

from parley.estimates import estimates
from parley.problem import Problem
from parley.rewards import Bets, Binary, BinaryNormal, Bounded, PhaseContrasts, RewardModel, make_model
from parley.rewards import bets as betting
from parley.rewards.intervals import _bets, stack_phases
from parley.rewards.privacy import with_noise
from parley.rewards.sampling import gaussian, two_valued
from parley.totals import Totals

RHOS = (5.0, 0.5, 0.05)


def chances(count: int, rate: float, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """Every private sum of so many zeros and ones that matters, and its chance."""
    variance = 1 / (2 * rho)
    noise = np.arange(-math.ceil(12 * math.sqrt(variance)), math.ceil(12 * math.sqrt(variance)) + 1)
    density = np.exp(-np.square(noise) / (2 * variance))
    law = np.convolve(binom.pmf(np.arange(count + 1), count, rate), density / density.sum())
    return np.arange(noise[0], count + noise[-1] + 1).astype(float), law


def every_outcome(counts, rates, rho):
    """`(outcome, arm, agent)` sums of two cells, and the chance of each."""
    (first, p), (second, q) = (chances(count, rate, rho) for count, rate in zip(counts, rates, strict=True))
    one, two = (part.ravel() for part in np.meshgrid(first, second, indexing="ij"))
    return np.stack([one, two], axis=-1)[..., None], np.outer(p, q).ravel()


def bets_on(sums, counts, past, model, *, gap=0.2, error=0.1, shift=0.0):
    """A bet on "the first arm beats the second" for every outcome; one agent."""
    size, place = len(sums), np.zeros(len(sums), dtype=np.int64)
    drawn = np.broadcast_to(np.array(counts)[:, None], sums.shape)
    earlier = Totals(counts=np.full(sums.shape, past[0]), sums=np.broadcast_to(np.array(past[1:])[:, None], sums.shape))
    problem = Problem(arms=2, weights=[[1.0]], noise=model, rho=model.rho)
    mixed = problem.mixed_variances(drawn, model.cell_variances(earlier))
    return Bets(
        estimate=np.full(size, gap + shift),
        error=np.full(size, error),
        missing=np.full(size, 5.0),
        contrast=sums[:, 0, 0] / counts[0] - sums[:, 1, 0] / counts[1] + shift,
        shift=shift,
        variance=mixed.sum(axis=(-2, -1)),
        replication=(np.arange(size),),
        opponent=place,
        arm=place + 1,
        agent=place,
        weights=np.ones((1, 1)),
        past=earlier,
        fresh=Totals(counts=drawn, sums=sums),
    )


CASES = [
    ((30, 30), (0.3, 0.3), (50, 20.0, 10.0)),
    ((40, 12), (0.05, 0.05), (80, 9.0, 2.0)),
    ((25, 25), (0.5, 0.6), (40, 25.0, 20.0)),
    ((6, 50), (0.95, 0.95), (20, 22.0, -3.0)),  # sums that only noise can make
]


@pytest.mark.parametrize("products", [False, True], ids=["cells", "products"])
@pytest.mark.parametrize("rho", first_quick(*RHOS))
@pytest.mark.parametrize(("counts", "rates", "past"), CASES)
def test_a_bet_on_private_rates_is_fair_with_its_toll_and_not_without(counts, rates, past, rho, products, monkeypatch):
    if products:
        monkeypatch.setattr(betting, "MANY_AGENTS", 1)
    sums, chance = every_outcome(counts, rates, rho)
    for shift in (0.0, 0.1):
        lower = (rates[0] - shift, rates[1]) if rates[0] > shift else (rates[0], rates[1] + shift)
        moved, likely = every_outcome(counts, lower, rho) if shift else (sums, chance)
        paid = Binary(rho=rho).payoff(bets_on(moved, counts, past, Binary(rho=rho), shift=shift))
        assert (likely * np.exp(paid)).sum() <= 1 + 1e-9


@pytest.mark.parametrize("rho", RHOS)
def test_without_the_toll_a_tie_would_pay(rho):
    """What these tests can see: a model that takes private sums for exact ones is not fair."""
    counts, rates, past = CASES[0]
    sums, chance = every_outcome(counts, rates, rho)
    bets = bets_on(sums, counts, past, Binary())
    careless = Binary()._logs
    part = next(betting.in_parts(bets))
    logs = careless(
        part, part.of(Binary().rates(bets.past)), part.of(bets.fresh.sums), np.full((len(sums), 3), 0.2), 0.0
    )
    assert (chance * np.exp(logs[:, 1])).sum() > 1 + 0.01 / rho


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize(("counts", "rates", "past"), CASES)
def test_a_bet_by_the_range_is_fair_with_noise(counts, rates, past, rho):
    sums, chance = every_outcome(counts, rates, rho)
    for model in (Bounded(low=0, high=1, rho=rho), make_model(scale=0.5, clip=[0, 1]).private(rho)):
        paid = model.payoff(bets_on(sums, counts, past, model))
        assert (chance * np.exp(paid)).sum() <= 1 + 1e-9


@pytest.mark.parametrize("model", [Binary(), Bounded(low=0, high=1)], ids=["binary", "bounded"])
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize(("counts", "rates", "past"), CASES)
def test_a_bound_on_a_gap_is_fair_with_noise(model, counts, rates, past, rho):
    """exp(signal - information gap) has expectation at most 1, or its mixture over stakes where V is known."""
    model = model.private(rho)
    sums, chance = every_outcome(counts, rates, rho)
    bets = bets_on(sums, counts, past, model)
    phase = PhaseContrasts(
        contrast=np.stack([bets.contrast, -bets.contrast], axis=-1)[:, None, :, None],
        variance=np.broadcast_to(bets.variance[:, None, None, None], (len(sums), 1, 2, 1)),
        observed=np.ones(sums.shape, dtype=np.bool_),
        opponents=np.broadcast_to(np.array([1, 0])[:, None], (len(sums), 1, 2, 1)),
        phase=np.ones(len(sums), dtype=np.int64),
        weights=np.ones((1, 1)),
        past=bets.past,
        fresh=bets.fresh,
        line=4.0,
        scale=0.2,
    )
    gap = np.array([rates[0] - rates[1], rates[1] - rates[0]])
    signal, information, bound = model.gap_bound(phase, np.zeros(sums.shape), np.zeros(sums.shape))
    if isinstance(model, Binary):
        fair = np.exp(signal[..., 0] - information[..., 0] * gap)
        assert (chance @ fair <= 1 + 1e-9).all()
    assert (chance @ (bound[..., 0] > gap) <= math.exp(-4.0) + 1e-12).all()


@pytest.mark.parametrize("rho", first_quick(*RHOS))
@pytest.mark.parametrize(("counts", "rates", "past"), CASES)
def test_an_interval_of_rates_is_what_fair_bets_leave(counts, rates, past, rho):
    model, line = Binary(rho=rho), 4.0
    sums, chance = every_outcome(counts, rates, rho)
    bets = bets_on(sums, counts, past, model)
    summary = stack_phases([model.summary(bets.past, bets.fresh, np.ones((1, 1)))])
    for shown, truth in (
        (summary, rates[0]),
        (summary.against(np.ones((len(sums), 1), dtype=np.int64)), rates[0] - rates[1]),
    ):
        each, first, *_ = shown.pooled(shown.observed & (shown.variance > 0))
        laid = _bets(shown, line, each, 32 * np.where(first > 0, first, 1.0))
        fair = np.exp(laid.won - laid.rate * truth)[:, :, 0, 0]
        assert fair @ chance == pytest.approx(np.minimum(fair @ chance, 0.95), rel=1e-9)
        assert (fair @ chance).sum() <= 0.95 + 1e-9, "the rest of the wealth is on the range alone"
        low, high = model.interval(shown, line)
        assert chance @ ((low > truth) | (high < truth))[:, 0, 0] <= math.exp(-line)


@pytest.mark.parametrize(
    "model",
    [Binary(), BinaryNormal(), Bounded(low=0, high=1), make_model(scale=0.3, clip=[0, 1])],
    ids=["binary", "normal", "bounded", "clipped"],
)
def test_intervals_of_private_studies_hold_the_truth_and_errors_are_those_of_the_noise(model):
    runs, phases = 400, (60, 90, 200)
    problem = Problem(arms=2, weights=[[0.7, 0.2], [0.3, 0.8]], noise=model, rho=0.05, delta=0.1)
    means = np.array([[0.3, 0.2], [0.25, 0.4]])
    draw = two_valued(means, 0.0, 1.0) if isinstance(model, Binary) else gaussian(means, 0.3)
    drawn = []
    for seed, size in enumerate(phases):
        exact = draw(np.random.default_rng(seed), np.full((runs, 2, 2), size))
        drawn.append(with_noise(exact, np.random.default_rng(100 + seed), problem.noise))
    found = estimates(problem, [replace(one, squares=None) for one in drawn])
    truth = problem.mixed(means)
    inside = (found.mean.low <= truth) & (truth <= found.mean.high)
    assert inside.all(axis=(-2, -1)).mean() >= 0.9
    lead = truth - np.take_along_axis(np.broadcast_to(truth, inside.shape), found.leader[:, None, :], axis=-2)
    assert ((found.lead.low <= lead) & (lead <= found.lead.high)).all(axis=(-2, -1)).mean() >= 0.9
    z = (found.mean.value - truth) / found.mean.error
    most = 1.0 if isinstance(model, Binary) else 0.95
    assert most - 0.25 < z.std() < 1.1, "without the noise the errors would be two thirds as large"


def test_rates_that_noise_hides_are_drawn_to_the_rate_over_all():
    past = Totals(counts=np.array([[20, 2000], [20, 2000]]), sums=np.array([[-30.0, 500.0], [45.0, 520.0]]))
    private, exact = Binary(rho=0.005).rates(past), Binary(rho=50.0).rates(past)
    assert ((private > 0.1) & (private < 0.8)).all()
    assert private[:, 1] == pytest.approx([0.25, 0.26], rel=0.03)
    assert exact[0, 0] < 0.02
    nothing = Binary(rho=0.005).rates(Totals.zero((2, 2)))
    assert ((nothing > 0) & (nothing < 1)).all()


def test_a_private_sum_is_rounded_and_what_that_may_lose_is_taken_off():
    model: RewardModel = Bounded(low=0, high=1, rho=0.05)
    fresh = Totals(counts=np.array([[10, 20]]), sums=np.array([[3.0, 4.0]]))
    lost = model.mixed_rounding(fresh, np.array([[0.5, 0.0], [0.5, 1.0]]))
    assert lost.tolist() == [[0.5 * model.grid / 10 + 0.5 * model.grid / 20, model.grid / 20]]
    assert Binary(rho=0.05).mixed_rounding(fresh, np.eye(2)) is None
    assert Bounded(low=0, high=1).mixed_rounding(fresh, np.eye(2)) is None
