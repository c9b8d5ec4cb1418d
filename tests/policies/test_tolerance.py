"""An arm within the tolerance is an answer: every study ends, bad answers stay below delta, and 0 changes nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.support import paper_study, random_weights

from parley import Instance, InvalidInput, Problem, make_policy, simulate
from parley.policies.evidence.tolerance import acceptance_line, claims
from parley.policies.evidence.wealth import Reign
from parley.simulation import phases
from parley.thresholds import radius
from parley.totals import Totals

COUNT = 400


def alone(means, tolerance, *, top=1, policy="evidence"):
    problem = Problem(arms=len(means), weights=[[1.0]], tolerance=tolerance, top=top)
    return make_policy(policy, problem), Instance(problem=problem, means=[[mean] for mean in means])


@pytest.mark.parametrize(
    ("means", "tolerance", "top", "most"),
    [
        ([0.5, 0.5, 0.2, 0.0], 0.1, 1, 5600),  # a tie
        ([0.5, 0.5, 0.5, 0.0], 0.2, 1, 2600),  # a triple tie
        ([0.9, 0.5, 0.5, 0.0], 0.2, 2, 2600),  # a tie at the boundary of the top 2
        ([0.5, 0.45, 0.4, 0.35, 0.3], 0.06, 1, 60_000),  # a chain: each within the tolerance of the next
    ],
)
def test_ties_and_chains_end_with_an_arm_that_is_good_enough(means, tolerance, top, most):
    policy, instance = alone(means, tolerance, top=top)
    outcome = simulate(policy, instance, replications=COUNT, seed=5)
    assert outcome.finished.all()
    assert outcome.error_rate <= 0.05
    assert outcome.costs.mean() <= most


def test_bad_answers_stay_below_delta_where_they_are_likeliest():
    policy, instance = alone([0.5, 0.39, 0.2, 0.0], 0.1)
    outcome = simulate(policy, instance, replications=3000, seed=6)
    assert 0 < outcome.error_rate <= 0.05, "the second arm is worse by a little more than the tolerance"


def test_bad_answers_just_beyond_the_tolerance_are_as_rare_as_counted():
    """0.82 % of 100,000 in docs/tolerance.md; with three times the tolerance it would be 15 %."""
    policy, instance = alone([0.5, 0.449, 0.0], 0.05)
    outcome = simulate(policy, instance, replications=2000, seed=6)
    assert 0 < outcome.error_rate <= 0.02


def test_a_tolerance_saves_samples_on_the_papers_instance():
    study = paper_study()
    costs = []
    for tolerance in (0.0, 0.1, 0.2):
        problem = study.problem.with_(tolerance=tolerance)
        instance = Instance(problem=problem, means=study.instance.means)
        costs.append(simulate(make_policy("evidence", problem), instance, replications=200, seed=1).costs.mean())
    assert costs[1] < 0.75 * costs[0]
    assert costs[2] < 0.5 * costs[0]


@pytest.mark.parametrize("name", ["evidence", "wcpe"])
def test_without_a_tolerance_no_state_speaks_of_it(name):
    state = make_policy(name, Problem(arms=3, weights=[[1.0]])).start()
    assert not {"accepted", "leaders", "reign", "log_acceptance"} & set(state.to_json())


@pytest.mark.parametrize("name", ["evidence", "wcpe"])
def test_who_accepted_is_told_apart_from_who_decided(name):
    problem = Problem(arms=3, weights=[[0.9, 0.2], [0.1, 0.8]], tolerance=0.25)
    instance = Instance(problem=problem, means=[[0.5, 0.9], [0.5, 0.1], [0.0, 0.0]])
    last = list(phases(make_policy(name, problem), instance, seed=2))[-1].after
    assert last.finished
    assert last.accepted.tolist() == [True, False]
    assert last.active.sum(axis=0).tolist() == [1, 1]


def test_policies_that_cannot_tolerate_refuse():
    with pytest.raises(InvalidInput, match="tolerance"):
        make_policy("pf-ucb-bai", Problem(arms=3, weights=[[1.0]], tolerance=0.1))


def test_the_wealth_of_a_reign_ends_with_it_and_the_next_pays_more():
    policy, instance = alone([0.5, 0.5, 0.1], 0.05)
    changes = 0
    for seed in range(30):
        previous = None
        for phase in phases(policy, instance, seed=seed):
            state = phase.after
            assert isinstance(state, Reign)
            if previous is not None and not np.array_equal(previous.leaders, state.leaders) and previous.reign[0] > 0:
                changes += 1
                assert state.reign[0] == previous.reign[0] + 1
                # No more than one phase's payoff is in it: what was won for other leaders is gone.
                alone_again = replace(previous, log_acceptance=np.full_like(previous.log_acceptance, -50.0))
                assert np.array_equal(policy.plan(alone_again), policy.plan(previous))
            previous = state
    assert changes > 5


def test_the_lines_of_all_reigns_spend_their_share_of_delta_and_no_more():
    problem = Problem(arms=2, weights=random_weights(np.random.default_rng(0), 3), delta=0.07)
    spent = 3 * np.exp(-acceptance_line(problem, np.arange(1, 200_001))).sum()
    assert spent == pytest.approx(0.035, rel=1e-4)
    assert spent <= 0.035


@pytest.mark.parametrize("ahead", [0.02, 0.03])
def test_a_reign_ends_when_another_arm_is_better_by_more_than_a_quarter_of_the_tolerance(ahead):
    problem = Problem(arms=3, weights=[[1.0]], tolerance=0.1)
    policy = make_policy("evidence", problem)
    counts = np.full((3, 1), 100)
    state = replace(
        policy.start(), phase=np.array(2), counts=counts, sums=counts * np.array([[0.5], [0.5 + ahead], [0.0]]),
        leaders=np.array([[True], [False], [False]]), reign=np.array([1]),
    )  # fmt: skip
    shown = claims(problem, state, policy.contrasts(state))
    assert shown.leaders[:, 0].tolist() == [ahead < 0.025, ahead > 0.025, False]
    assert shown.reign.tolist() == [1 if ahead < 0.025 else 2]


@pytest.mark.parametrize("name", ["evidence", "wcpe"])
def test_without_a_tolerance_nothing_of_it_is_run(name, monkeypatch):
    def never(*_, **__):
        raise AssertionError("nobody asked for a tolerance")

    for place in ("evidence.racing.claims", "evidence.racing.accept_leaders", "wcpe.accept", "wcpe.leading"):
        monkeypatch.setattr(f"parley.policies.{place}", never)
    study, last = paper_study(), []
    for asked in ({}, {"tolerance": 0.0}):
        problem = study.problem.with_(**asked)
        instance = Instance(problem=problem, means=study.instance.means)
        last.append(list(phases(make_policy(name, problem), instance, seed=4))[-1].after.to_json())
    assert last[0] == last[1]


def test_the_exact_race_and_the_reigns_share_delta():
    """One question, one arm: what the race and all reigns may err with is delta, and not more."""
    policy, _ = alone([0.5, 0.4, 0.0], 0.1)
    reigns = np.exp(-acceptance_line(policy.problem, np.arange(1, 200_001))).sum()
    assert math.exp(-policy.line) + reigns == pytest.approx(policy.problem.delta, rel=1e-4)


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_wcpe_accepts_where_no_interval_reaches_above_the_leaders_by_more(share):
    """The upper end of the second arm stands above the lower end of the leader by `share` times the tolerance."""
    count = 400
    plain = make_policy("wcpe", Problem(arms=2, weights=[[1.0]], delta=0.1))
    half = float(radius(plain.problem, np.full((2, 1), count), plain._beta)[0, 0])
    gap, tolerance = 0.05, (2 * half - 0.05) / share
    policy = make_policy("wcpe", Problem(arms=2, weights=[[1.0]], delta=0.1, tolerance=tolerance))
    sums = np.array([[gap * count], [0.0]])
    state = policy.update(policy.start(), Totals(counts=np.full((2, 1), count), sums=sums, squares=None))
    assert state.active.sum() == (1 if share < 1 else 2)
    assert bool(state.accepted[0]) == (share < 1)


def test_the_guarantee_says_within_what():
    problem = Problem(arms=2, weights=[[1.0]], delta=0.1, tolerance=0.05)
    assert make_policy("evidence", problem).guarantee == "all answers right within 0.05 with probability at least 0.9"
