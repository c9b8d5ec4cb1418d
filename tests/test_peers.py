"""The rules that evidence racing is compared with, each against brute force or what is known of it."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from benchmarks.peer_federated import balanced_shares, fed_elim, het_ts
from benchmarks.peer_races import Batches, batched, elimination, geometric, kl_lucb
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


def test_batches_answer_by_a_test_or_by_their_way_out() -> None:
    constants = Batches.as_proven(1e-3, 3).kinder(20)
    for eliminating in (False, True):
        peer = batched(Normal(0.5), MEANS, 1e-3, constants, 400, 1, eliminating=eliminating)
        assert peer.wrong.mean() <= 1e-3
        assert (peer.rounds >= 2).all()
        assert 0 < (peer.rounds == 2).mean() < 1
        if not eliminating:
            assert (peer.samples[peer.rounds == 3] >= 3 * constants.last).all()
    assert Batches.as_proven(np.exp(-(np.e**2)), 5).shift == pytest.approx(0.5)


def test_the_way_out_of_opt_bbai_keeps_its_half_of_delta_near_a_tie() -> None:
    """With a second batch of nothing the test always fails, and only the elimination answers."""
    tie = np.array([0.402, 0.4, 0.398, 0.396])
    constants = Batches(first=1, most=1, last=1, shift=0.0, power=1.0)
    peer = batched(Normal(0.5), tie, 0.4, constants, 2_000, 3, eliminating=True)
    assert 0 < peer.wrong.mean() < 0.2


def smallest_worth(gaps: np.ndarray, access: np.ndarray, shares: np.ndarray) -> float:
    """How fast the hardest arm is told apart, its leader's variance left aside: what balanced shares make largest."""
    inverse = np.divide(1.0, shares, where=access, out=np.zeros_like(shares)).sum(axis=1)
    return float((np.square(gaps * access.sum(axis=1)) / inverse).min())


def test_no_other_shares_of_clients_are_better() -> None:
    rng = np.random.default_rng(5)
    access = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    for gaps in rng.uniform(0.1, 1.0, (4, 4)):
        shares = balanced_shares(gaps[None], access)[0]
        assert np.allclose(shares.sum(axis=0), 1)
        best = smallest_worth(gaps, access, shares)
        for scale in rng.choice([0.3, 0.03, 0.003], 300):
            other = shares * np.exp(scale * rng.standard_normal(shares.shape))
            assert smallest_worth(gaps, access, other / other.sum(axis=0)) <= best * (1 + 1e-6)


def test_fed_elim_finds_every_best_arm_and_talks_at_powers_of_two() -> None:
    means = np.array([[0.0, 2.0], [3.0, 0.0], [2.0, 1.5]])
    rare, often = (fed_elim(means, 0.1, 40, 2, sparsely=sparsely) for sparsely in (True, False))
    assert rare.wrong.sum() == often.wrong.sum() == 0
    assert rare.rounds.max() <= 1 + np.log2(rare.time.max())
    assert often.samples.mean() <= rare.samples.mean() <= 2.5 * often.samples.mean()
    assert rare.numbers.mean() < often.numbers.mean()


@pytest.mark.simulations
def test_fed_elim_keeps_delta_where_clients_disagree() -> None:
    means = np.array([[1.0, 0.0], [0.0, 0.6]])
    assert fed_elim(means, 0.5, 100, 7).wrong.mean() < 0.5


def test_het_ts_answers_every_group_by_what_its_clients_share() -> None:
    access = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]], dtype=bool)
    means = np.where(access, [[4.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [0.0, 1.0, 1.0]], 0.0)
    peer = het_ts(means, access, 0.1, 0.5, 10, 4)
    assert peer.wrong.sum() == 0
    assert (peer.time * 3 == peer.samples).all()
    assert (peer.numbers == peer.rounds * 7).all()
