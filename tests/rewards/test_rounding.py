"""Rewards far from 0, added up one by one as agents may do: what rounding hides never becomes evidence."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri, stdtr
from tests.support import first_quick

from parley.estimates import estimates
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import Bets, BoundedVariance, UnknownScale
from parley.simulation import simulate
from parley.totals import Totals

FAR = [0.0, 1e4, 1e7, 3e7, 1e9]  # means, in standard deviations


def one_by_one(rewards):
    """The last of the running sums: every addition is rounded."""
    return float(np.cumsum(rewards)[-1])


def added_up(cells):
    """`(arm, 1)` totals of every arm's rewards."""
    return Totals(
        counts=np.array([[len(values)] for values in cells]),
        sums=np.array([[one_by_one(values)] for values in cells]),
        squares=np.array([[one_by_one(np.square(values))] for values in cells]),
    )


def exact(values):
    """Mean and scatter of the rewards as they are, without any rounding."""
    whole = [Fraction(float(value)) for value in values]
    mean = sum(whole) / len(whole)
    return mean, sum((value - mean) ** 2 for value in whole)


@pytest.mark.parametrize("mean", FAR)
def test_scatter_and_means_are_off_by_no_more_than_is_said(mean):
    generator = np.random.default_rng(3)
    for count in (2, 13, 700):
        for parts in (1, 5):
            values = mean + generator.standard_normal(count * parts)
            total = Totals.zero((1, 1))
            for part in np.split(values, parts):
                total = total + added_up([part])
            true_mean, scatter = exact(values)
            assert abs(Fraction(float(total.scatter[0, 0])) - scatter) <= Fraction(float(total.rounding[0, 0]))
            lost = float(total.mixed_rounding(np.eye(1))[0, 0])
            assert abs(Fraction(float(total.means[0, 0])) - true_mean) <= Fraction(lost)


@pytest.mark.parametrize("mean", first_quick(*reversed(FAR)))
def test_no_score_is_above_that_of_the_exact_rewards(mean):
    """So no payoff is either: it does not fall with the score."""
    generator, model = np.random.default_rng(4), UnknownScale()
    wins = 0
    for count in (12, 60, 300):
        for _ in range(15):
            cells = [mean + 0.3 + generator.standard_normal(count), mean + generator.standard_normal(count)]
            fresh = added_up(cells)
            bets = Bets(
                estimate=np.ones(1), error=np.ones(1), missing=np.full(1, 3.0), variance=np.ones(1), replication=(),
                contrast=np.array([float(fresh.means[0, 0] - fresh.means[1, 0])]), opponent=np.zeros(1, dtype=int),
                arm=np.ones(1, dtype=int), agent=np.zeros(1, dtype=int), weights=np.eye(1), past=fresh, fresh=fresh,
            )  # fmt: skip
            score = float(model.scores(bets)[0][0])
            (first, one), (second, other) = map(exact, cells)
            t = float(first - second) / np.sqrt(float(one + other) / (count - 1) / count)
            assert score <= max(-ndtri(stdtr(count - 1, -t)), 0.0)
            wins += score > 0
    assert (wins == 0) == (mean >= 1e7), "there rounding may be all of the scatter, and nothing can be won"


def wrong_at_a_tie(mean, runs, *, delta=0.05, phases=7):
    """How often one of two arms that are alike is ruled out, when agents add up one by one."""
    problem = Problem(arms=2, weights=np.eye(1), delta=delta, noise=UnknownScale(guess=1.0))
    policy, generator = make_policy("evidence", problem), np.random.default_rng(5)
    state = policy.start((runs,))
    for _ in range(phases):
        counts = policy.plan(state)
        sums, squares = np.zeros(counts.shape), np.zeros(counts.shape)
        for place in zip(*np.nonzero(counts), strict=True):
            values = mean + generator.standard_normal(counts[place])
            sums[place], squares[place] = one_by_one(values), one_by_one(np.square(values))
        state = policy.update(state, Totals(counts=counts, sums=sums, squares=squares))
    return float((state.active.sum(axis=-2) < 2).mean()), state


@pytest.mark.parametrize("mean", first_quick(1e7, 0.0, 3e7))
def test_a_tie_far_from_zero_is_no_more_often_decided_than_delta_says(mean):
    runs = 600
    assert wrong_at_a_tie(mean, runs)[0] <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)


def test_a_range_far_from_zero_ends_and_is_right():
    """Without its squares it is a range like any other: no dearer than half of it for a scale, or not much."""
    low, costs = 1e8, []
    for model in (BoundedVariance(low=low, high=low + 1), BoundedVariance(low=0, high=1)):
        problem = Problem(arms=2, weights=np.eye(1), noise=model, max_samples=100_000)
        instance = Instance(problem=problem, means=model.low + np.array([[0.7], [0.4]]))
        outcome = simulate(make_policy("evidence", problem), instance, replications=40, seed=2)
        assert outcome.finished.all()
        assert outcome.error_rate <= 0.1
        costs.append(outcome.costs.mean())
    assert costs[0] <= 1.5 * costs[1]


def test_estimates_without_scatter_to_be_seen_claim_nothing_and_others_hold():
    problem = Problem(arms=2, weights=np.eye(1), noise=UnknownScale())
    generator = np.random.default_rng(6)
    for mean, known in ((1e4, True), (1e9, False)):
        found = estimates(problem, [added_up(mean + generator.standard_normal((2, 50))) for _ in range(3)])
        assert np.isfinite(found.mean.low).all() == known
        assert (found.mean.low <= mean).all()
        assert (found.mean.high >= mean).all()
