"""Products with powers of the weights: never above the exact payoff, and next to it where stakes are small."""

from dataclasses import replace

import numpy as np
import pytest

from parley.rewards import Bets, Binary, BoundedVariance
from parley.rewards import bets as by_products
from parley.rewards.bets import contrast_variance, in_parts, staked_gaps
from parley.rewards.binary import log_rate_products, log_ratios
from parley.rewards.bounded_variance import log_spread_bet, log_spread_products, spread_stakes
from parley.totals import Totals


def some_bets(*, draws: int, agents: int = 5, seed: int = 0) -> Bets:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(agents, 0.8), size=agents).T
    weights[0, 1] = 0.0
    weights /= weights.sum(axis=0)
    counts = rng.integers(draws // 2, draws, (2, 4, agents))
    means = rng.uniform(0.1, 0.4, (2, 4, agents))
    past = Totals(counts=counts, sums=rng.binomial(counts, means).astype(float), squares=None)
    past = Totals(counts=counts, sums=past.sums, squares=past.sums)
    hits = rng.binomial(counts, means).astype(float)
    fresh = Totals(counts=counts, sums=hits, squares=hits)
    size = 60
    replication, agent = rng.integers(0, 2, size), rng.integers(0, agents, size)
    opponent = rng.integers(0, 4, size)
    arm = (opponent + rng.integers(1, 4, size)) % 4
    mixed, before = fresh.means @ weights, past.means @ weights
    at = (replication, opponent, agent), (replication, arm, agent)
    return Bets(
        estimate=before[at[0]] - before[at[1]],
        error=np.full(size, 0.02),
        missing=np.full(size, 3.0),
        contrast=mixed[at[0]] - mixed[at[1]],
        variance=np.ones(size),
        replication=(replication,),
        opponent=opponent,
        arm=arm,
        agent=agent,
        weights=weights,
        past=past,
        fresh=fresh,
    )


@pytest.mark.parametrize("draws", [30, 300, 3000])
def test_rates_by_products_are_the_ratios_with_the_estimate_as_reference(draws):
    model = Binary()
    bets = some_bets(draws=draws)
    rates, gaps = model.rates(bets.past), staked_gaps(bets)
    variance = contrast_variance(bets, model.cell_variances(bets.past))
    paid, _ = log_rate_products(bets, rates, gaps, variance)
    reach = by_products.farthest(bets, *[bets.fresh.per_draw * np.maximum(rates, 1 - rates)] * 2)
    stakes = np.minimum(gaps / variance[:, None], by_products.REACH / reach[:, None])
    (part,) = in_parts(bets)
    counts, ones = part.counts, part.of(bets.fresh.sums) * (part.counts > 0)
    exact, _ = log_ratios(part.shares, counts, ones, counts * part.of(rates), part.of(rates), stakes)
    assert (paid <= exact + 1e-9).all()
    assert paid == pytest.approx(exact, rel=1e-3, abs=0.02)


@pytest.mark.parametrize("draws", [30, 300, 3000])
def test_scatter_by_products_is_never_above_the_bet_by_cells(draws):
    model = BoundedVariance(low=0, high=1)
    bets = some_bets(draws=draws, seed=1)
    references, variances = model.references(bets.past), model.cell_variances(bets.past)
    around, gaps = model._around(bets.fresh, references), staked_gaps(bets)
    variance = contrast_variance(bets, variances)
    paid, _ = log_spread_products(bets, references, around, bets.fresh.counts * variances, gaps, variance)
    falls = [np.maximum(references, 1e-6), np.maximum(1 - references, 1e-6)]
    reach = by_products.farthest(bets, *(bets.fresh.per_draw * fall for fall in falls))[:, None]
    stakes = np.minimum(gaps / (variance[:, None] + gaps * reach), by_products.REACH / reach)
    (part,) = in_parts(bets)
    exact = log_spread_bet(part.shares, bets.contrast, part.of(around) * (part.counts > 0), part.of(references), stakes)
    assert (paid <= exact + 1e-9).all()
    assert paid == pytest.approx(exact, rel=1e-3, abs=0.02)
    assert (spread_stakes(part.shares, part.of(references), gaps, variance) >= stakes - 1e-9).all()


@pytest.mark.parametrize("model", [Binary(), BoundedVariance(low=0, high=1)], ids=lambda model: model.kind)
def test_many_agents_and_few_are_paid_about_alike(model, monkeypatch):
    bets = some_bets(draws=2000, agents=6, seed=2)
    cells = model.cell_variances(bets.past)
    bets = replace(bets, variance=contrast_variance(bets, cells))
    by_cells = model.payoff(bets)
    monkeypatch.setattr("parley.rewards.bets.MANY_AGENTS", 1)
    assert model.payoff(bets) == pytest.approx(by_cells, rel=0.2, abs=0.2)


@pytest.mark.parametrize("ignored", [0, 3])
def test_the_least_is_taken_over_the_agents_that_are_weighed(ignored):
    rng = np.random.default_rng(ignored)
    values, weights = rng.integers(1, 50, (2, 3, 6)).astype(float), rng.dirichlet(np.ones(6), size=6).T
    weights[rng.integers(0, 6, ignored), rng.integers(0, 6, ignored)] = 0.0
    for m in range(6):
        expected = values[..., weights[:, m] > 0].min(axis=-1)
        assert np.array_equal(by_products.least_weighed(values, weights)[..., m], expected)
