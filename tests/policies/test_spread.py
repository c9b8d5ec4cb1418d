"""How far apart arms are: what the model says of ties and gaps, and that it treats arms alike."""

import numpy as np
import pytest

from parley.policies.evidence.spread import Spread

EVERY = np.ones((8, 1), dtype=np.bool_)
ODDS = 50.0


def of(estimates, draws, known=EVERY):
    x = np.reshape(np.asarray(estimates, dtype=np.float64), (-1, 1))
    return Spread.of(x, np.full(x.shape, 1 / draws), known, 0.1), x


def leads(estimates, draws, known=EVERY):
    spread, x = of(estimates, draws, known)
    return spread.leads(x, np.full(x.shape, 1 / draws), 1 / 1000, ODDS)[:, 0]


def test_ties_are_told_from_gaps_by_all_arms_together():
    def alike(means):
        rng = np.random.default_rng(3)
        return np.mean([of(means + rng.normal(0, 60**-0.5, 8), 60)[0].alike(1.0)[0] for _ in range(200)])

    assert alike(np.zeros(8)) > 0.6
    assert alike(np.array([0.5, *[0.0] * 7])) < 0.3
    assert alike(np.linspace(0.7, 0.0, 8)) < 0.05


def test_chances_to_lead_add_up_and_follow_the_arms():
    estimates = np.array([0.4, 0.1, -0.2, 0.0, 0.3, 0.05, -0.1, 0.2])
    found = leads(estimates, 60)
    assert found.sum() == pytest.approx(1, abs=0.02)  # by quadrature
    assert found.argmax() == 0
    order = np.random.default_rng(1).permutation(8)
    assert leads(estimates[order], 60) == pytest.approx(found[order], rel=1e-9)
    assert leads(estimates + 7.0, 60) == pytest.approx(found, rel=1e-6)


def test_with_few_draws_all_arms_may_lead_and_in_the_end_the_best_estimate_does():
    estimates = np.array([0.09, *[0.0] * 7])
    assert leads(estimates, 10)[0] < 0.15
    assert leads(np.array([0.5, *[0.0] * 7]), 1000)[0] > 0.999


def test_given_a_spread_means_are_shrunk_as_bayes_says():
    spread, x = of([0.4, 0.0], 25, EVERY[:2])
    prior, error = (4.0 * 0.1) ** 2, 1 / 25
    share = prior / (prior + error)
    assert spread.means[4, :, 0] == pytest.approx(0.2 + share * (x[:, 0] - 0.2))
    assert spread.variances[4, :, 0] == pytest.approx(share * error + (1 - share) ** 2 * (prior + error) / 2)


def test_arms_that_are_closed_or_not_drawn_are_ignored():
    known = EVERY.copy()
    known[[2, 5]] = False
    estimates = np.array([0.4, 0.1, 9.0, 0.0, 0.3, -9.0, -0.1, 0.2])
    found, kept = leads(estimates, 60, known), np.flatnonzero(known[:, 0])
    assert (found[[2, 5]] == 0).all()
    assert found[kept] == pytest.approx(leads(estimates[kept], 60, EVERY[:6]), rel=1e-9)
    assert of(estimates, 60, known)[0].alike(1.0) == pytest.approx(of(estimates[kept], 60, EVERY[:6])[0].alike(1.0))
