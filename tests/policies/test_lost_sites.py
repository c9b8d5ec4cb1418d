"""A site that draws no more: who does not need it goes on, the rest is blocked, and no study runs away."""

from dataclasses import replace

import numpy as np
import pytest
from tools.correctness.savings import told_apart

from parley import Instance, Problem, Totals, make_policy, simulate
from parley.policies import option_names
from parley.text.status import OutcomeStatus

# Agents 0 and 1 weigh agent 2; agents 3 and 4 ask each other only.
WEIGHTS = np.array(
    [
        [0.6, 0.2, 0.1, 0.0, 0.0],
        [0.2, 0.6, 0.1, 0.0, 0.0],
        [0.2, 0.2, 0.8, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.7, 0.4],
        [0.0, 0.0, 0.0, 0.3, 0.6],
    ]
)
MEANS = np.array([[0.5] * 5, [0.45] * 5, [0.1] * 5])


def run(policy, phases, seed=0):
    """So many phases with Gaussian rewards."""
    generator = np.random.default_rng(seed)
    state = policy.start()
    plans = []
    for _ in range(phases):
        quotas = policy.plan(state)
        if not quotas.any():
            break
        plans.append(quotas)
        sums = quotas * MEANS + np.sqrt(quotas) * generator.standard_normal(quotas.shape)
        state = policy.update(state, Totals(counts=quotas, sums=sums, squares=sums**2 + quotas))
    return state, plans


@pytest.mark.parametrize("name", ["evidence", "wcpe"])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_who_does_not_need_the_lost_site_gets_an_answer_and_the_study_ends(name, before):
    problem = Problem(arms=3, weights=WEIGHTS)
    policy = make_policy(name, problem)
    generator = np.random.default_rng(3)
    state = policy.start()
    alone = replace(policy, idle=(2,))
    for phase in range(60):
        quotas = (policy if phase < before else alone).plan(state)
        if phase >= before:
            assert not quotas[:, 2].any()
        if not quotas.any():
            break
        sums = quotas * MEANS + np.sqrt(quotas) * generator.standard_normal(quotas.shape)
        state = policy.update(state, Totals(counts=quotas, sums=sums, squares=sums**2 + quotas))
    else:
        pytest.fail("it runs away")
    left = state.active.sum(axis=0)
    assert (left[3:] == 1).all(), "those who ask each other only"
    assert not state.finished
    assert alone.blocked(state).tolist() == [*(left[:3] > 1), False, False]
    assert alone.blocked(state).any()


def test_nothing_is_drawn_for_who_is_blocked():
    policy = replace(make_policy("evidence", Problem(arms=3, weights=WEIGHTS)), idle=(2,))
    _, plans = run(policy, 4)
    assert all((plan[:, :3] == 0).all() for plan in plans[1:]), "agents 0 to 2 matter to blocked questions only"


@pytest.mark.parametrize("name", ["evidence", "wcpe", "uniform", "pf-ucb-bai"])
def test_with_everybody_blocked_nothing_is_asked(name):
    problem = Problem(arms=3, weights=np.full((3, 3), 0.2) + 0.4 * np.eye(3))
    policy = make_policy(name, problem)
    state, _ = policy.start(), None
    quotas = policy.plan(state)
    state = policy.update(state, Totals(counts=quotas, sums=np.zeros(quotas.shape), squares=quotas.astype(float)))
    lost = replace(policy, idle=(1,))
    for _ in range(40):
        quotas = lost.plan(state)
        if not quotas.any():
            return
        state = policy.update(state, Totals(counts=quotas, sums=np.zeros(quotas.shape), squares=quotas.astype(float)))
    pytest.fail("it runs away")


def test_being_idle_is_no_option_of_a_policy():
    assert "idle" not in option_names("evidence")


def test_agents_with_the_same_weights_pay_for_one_question():
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    problem = Problem(arms=4, weights=np.tile(shares[:, None], 4), delta=0.05)
    instance = Instance(problem=problem, means=np.array([[0.5] * 4, [0.2] * 4, [0.1] * 4, [0.0] * 4]))
    apart = told_apart(instance)  # weights that differ in the ninth decimal place: four questions
    assert (problem.question_count, apart.problem.question_count) == (1, 4)
    costs = []
    for asked in (instance, apart):
        outcome = simulate(make_policy("evidence", asked.problem), asked, replications=300, seed=1)
        costs.append(outcome.costs.mean())
        assert outcome.error_rate <= 0.05
        assert (outcome.chosen == outcome.chosen[:, :, :1]).all(), "the same question has the same answer"
    assert costs[0] < 0.85 * costs[1]


def test_blocked_is_an_end():
    assert not OutcomeStatus.BLOCKED.answered
