"""What every reward model owes to those who ask it: the registry, its documents, its samples and its fairness."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.rewards.models import EXACT, MODELS

from parley import rewards
from parley.problem import Instance, Problem
from parley.rewards import Bets, make_model, noise_keys
from parley.rewards.bets import NOTHING, contrast_variance
from parley.totals import Totals

WEIGHTS = np.array([[0.7, 0.2], [0.3, 0.8]])
MEANS = np.array([[0.5, 0.3], [0.5, 0.3], [0.2, 0.6]])  # the first two arms tie for everybody
RUNS = 4000
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def sampled(model, counts, seed=0):
    draw = next(iter(model.samplers(MEANS).values()))()
    return draw(np.random.default_rng(seed), counts)


def test_every_model_of_the_registry_is_tried():
    missing = set(rewards.MODELS) - {type(model) for model in MODELS.values()}
    assert not missing, f"no row in tests/rewards/models.py: {', '.join(sorted(kind.__name__ for kind in missing))}"


@every_model
def test_its_document_gives_it_back_and_its_keys_are_documented(model):
    document = model.document()
    assert make_model(**document) == model
    assert set(document) <= set(noise_keys())


@every_model
def test_what_it_samples_is_what_a_report_may_hold(model):
    totals = sampled(model, np.full((20, 3, 2), 25))
    for count, total, square in zip(totals.counts.flat, totals.sums.flat, totals.squares.flat, strict=True):
        assert model.flaw(int(count), float(total), float(square)) is None
    assert set(model.values) <= {0.0, 1.0}
    model.check_means(MEANS)


@every_model
def test_it_asks_for_plausible_means_exactly_where_nothing_bounds_them(model):
    first = sampled(model, np.full((3, 2), 40))
    past = model.past(first, first, 1)
    assert (past is None) == (model.low is not None), "variance_ceiling() is None exactly where rewards have a range"
    if past is not None:
        again = sampled(model, np.full((3, 2), 40), seed=1)
        column = again.counts[:, 0].tolist(), again.sums[:, 0].tolist()
        assert model.implausible_mean(*column, past, 0, 1.0) is None


@every_model
def test_its_true_variances_are_those_of_its_samples(model):
    sums = sampled(model, np.full((RUNS, 3, 2), 10)).sums
    assert sums.var(axis=0) / 10 == pytest.approx(model.true_variances(MEANS), rel=0.12)
    if model.low is None:  # `parley plan --report` tries other true scales
        draw = next(iter(model.samplers(MEANS, 0.7).values()))()
        found = draw(np.random.default_rng(0), np.full((RUNS, 3, 2), 10)).sums.var(axis=0) / 10
        assert found == pytest.approx(np.full((3, 2), 0.7**2), rel=0.12), "samplers() draws with the true scale"
        assert model.true_variances(MEANS, 0.7) == pytest.approx(np.full((3, 2), 0.7**2)), "bound_variances()"


@every_model
@pytest.mark.parametrize(("draws", "scales"), [(12, 0.2), (1, 1.5)])  # one draw shows the law, many its sums
def test_a_tilt_is_an_exponential_change_of_measure(model, draws, scales):
    """E exp(tilt S) under the truth is exp(cumulant), and tilted means lie where its slope says."""
    law, counts = model.tilted_law(MEANS), np.full((RUNS, 3, 2), draws)
    tilt = np.zeros((RUNS, 3, 2))
    tilt[:, 0, 1] = scales / math.sqrt(model.true_variances(MEANS)[0, 1])
    plain = sampled(model, counts).sums[:, 0, 1]
    weights = np.exp(tilt[0, 0, 1] * plain)
    error = weights.std() / math.sqrt(RUNS)
    assert abs(weights.mean() - math.exp(law.cumulant(counts, tilt)[0])) < 5 * error, "not the law of samplers()"
    slope = (law.cumulant(counts, tilt + (tilt > 0) * 1e-6) - law.cumulant(counts, tilt)) / 1e-6
    found = law.draw(np.random.default_rng(1), counts, tilt).sums[:, 0, 1]
    assert abs(found.mean() - slope[0]) < 5 * found.std() / math.sqrt(RUNS) + 1e-3


def tied_bets(model, shift):
    """A bet of either agent on "the first arm beats the second", in thousands of runs; with a shift, from below."""
    problem = Problem(arms=3, weights=WEIGHTS, noise=model)
    past, fresh = (sampled(model, np.full((RUNS, 3, 2), size), seed) for size, seed in ((60, 2), (80, 3)))
    run, agent = (part.ravel() for part in np.meshgrid(np.arange(RUNS), [0, 1], indexing="ij"))
    first = np.zeros(2 * RUNS, dtype=np.int64)
    mixed = problem.mixed(fresh.means)
    bets = Bets(
        estimate=np.full(2 * RUNS, 0.15 + shift),
        error=np.full(2 * RUNS, 0.05),
        missing=np.full(2 * RUNS, math.log(20)),
        contrast=mixed[run, 0, agent] - mixed[run, 1, agent] + shift,
        shift=shift,
        variance=np.ones(2 * RUNS),
        replication=(run,),
        opponent=first,
        arm=first + 1,
        agent=agent,
        weights=WEIGHTS,
        past=past,
        fresh=fresh,
    )
    return replace(bets, variance=contrast_variance(bets, model.cell_variances(past)))


@pytest.mark.parametrize("model", EXACT.values(), ids=EXACT)
def test_its_payoffs_are_fair_at_a_tie_once_capped(model):
    bets = tied_bets(model, 0.0)
    for paid in (model.payoff(bets), model.final_payoff(bets)):
        if paid is not None:
            assert np.isfinite(paid).all()
            won = np.exp(np.minimum(paid, bets.missing))
            assert won.mean() <= 1 + 4 * won.std() / math.sqrt(RUNS)
            assert won.std() > 0, "a bet that never pays proves nothing"


@every_model
def test_a_shift_makes_a_tie_worth_betting_on(model):
    """With a tolerance a tie is no null any more: the same bet, shifted, wins."""
    plain, shifted = tied_bets(model, 0.0), tied_bets(model, 0.3)
    assert model.payoff(shifted).mean() > model.payoff(plain).mean() + 0.1
    last = model.final_payoff(shifted)
    assert last is None or (last > NOTHING).mean() > (model.final_payoff(plain) > NOTHING).mean()


@every_model
def test_an_interval_holds_the_truth_and_a_state_keeps_what_evidence_needs(model):
    truth = Instance(problem=Problem(arms=3, weights=WEIGHTS, noise=model), means=MEANS).mixed_means
    fresh = sampled(model, np.full((400, 3, 2), 60))
    kept = fresh if model.needs_squares else Totals(counts=fresh.counts, sums=fresh.sums)
    shown = model.summary(Totals.zero(fresh.counts.shape), kept, WEIGHTS)
    low, high = model.interval(type(shown)(**{name: part[None] for name, part in vars(shown).items()}), math.log(20))
    assert ((low <= truth) & (truth <= high)).mean() >= 0.95
    assert np.isfinite(high - low).all()
