"""The rules that evidence racing is compared with, each against brute force or what is known of it."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from benchmarks.peer_races import elimination, geometric, kl_lucb
from benchmarks.peer_rules import (
    Bernoulli,
    Family,
    Normal,
    calibration,
    likelihood_ratios,
    optimal_shares,
    track_and_stop,
)

FAMILIES = pytest.mark.parametrize("family", [Bernoulli(), Normal(0.5)], ids=["bernoulli", "normal"])
MEANS = np.array([0.1, 0.9, 0.3])


def worth(family: Family, means: np.ndarray, shares: np.ndarray) -> float:
    """How fast the hardest rival of the best arm is told apart from it: what the shares should make largest."""
    best = int(np.argmax(means))
    rates = []
    for rival in set(range(len(means))) - {best}:
        pair = [best, rival]
        middle = (shares[pair] @ means[pair]) / shares[pair].sum()
        rates.append(float(shares[pair] @ family.divergence(means[pair], middle)))
    return min(rates)


@FAMILIES
def test_no_other_shares_are_better(family: Family) -> None:
    rng = np.random.default_rng(3)
    for means in rng.uniform(0.05, 0.95, (4, 5)):
        shares, _ = optimal_shares(family, means[None])
        others = shares[0] * np.exp(rng.choice([0.3, 0.03, 0.003], (400, 1)) * rng.standard_normal((400, 5)))
        best = max(worth(family, means, other / other.sum()) for other in others)
        assert best <= worth(family, means, shares[0]) * (1 + 1e-5)


@FAMILIES
def test_a_guess_from_the_draw_before_gives_the_same_shares(family: Family) -> None:
    means = np.array([[0.5, 0.3, 0.2]])
    _, guess = optimal_shares(family, means)
    moved = np.array([[0.502, 0.3, 0.2]])
    again, _ = optimal_shares(family, moved, guess, turns=2)
    assert np.allclose(again, optimal_shares(family, moved)[0], atol=1e-4)


def test_the_likelihood_ratio_of_two_normal_means() -> None:
    counts, sums = np.array([[4.0, 12.0]]), np.array([[4.0, 3.0]])
    leader, ratio = likelihood_ratios(Normal(2.0), counts, sums)
    assert leader.tolist() == [0]
    assert ratio[0, 1] == pytest.approx(4 * 12 / 16 * 0.75**2 / (2 * 4))


@pytest.mark.parametrize("x", [5.0, 12.0, 40.0])
def test_the_calibration_is_near_the_closed_form_of_its_paper(x: float) -> None:
    assert calibration(x) == pytest.approx(x + 4 * np.log(1 + x + np.sqrt(2 * x)), rel=0.1)


@FAMILIES
@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_exhaust_their_budget(family: Family, sign: int) -> None:
    means, budget = np.array([0.2, 0.5, 0.7]), np.array([0.01, 0.05, 0.02])
    found = family.upper(means, budget, sign)
    assert (sign * (found - means) > 0).all()
    assert np.allclose(family.divergence(means, found), budget, rtol=2e-3)


@FAMILIES
def test_who_keeps_its_promise_pays_the_lower_bound(family: Family) -> None:
    delta, best = 0.1, optimal_shares(family, MEANS[None])[0][0]
    least = (1 - 2 * delta) * np.log((1 - delta) / delta) / worth(family, MEANS, best)
    tracked = track_and_stop(family, MEANS, {"proven": family.threshold(3, delta)}, 20, 1)["proven"]
    others = [kl_lucb(family, MEANS, delta, 20, 1), elimination(family, MEANS, delta, geometric(5, 2), 40, 1)]
    for peer in (tracked, *others):
        assert peer.wrong.mean() <= delta
        assert peer.samples.mean() >= least
        assert (peer.rounds <= peer.samples).all()
    assert tracked.samples.mean() < 60 * least


@FAMILIES
def test_elimination_errs_at_a_tie_as_often_as_it_may(family: Family) -> None:
    tie = np.array([0.5, 0.5])
    peer = elimination(family, tie, 0.2, islice(geometric(20, 2), 8), 4_000, 2)
    assert 0.02 < peer.wrong.mean() < 0.2
