"""Ordered pairs against a judge that keeps every wealth in a dictionary; and what the proof asks for."""

from dataclasses import dataclass, replace
from itertools import combinations
from math import log
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from tests.support import first_quick, random_weights

from parley import Instance, Problem, Totals, make_policy, simulate
from parley.policies.evidence import plan, tolerance
from parley.policies.evidence.tolerance import Pairs, endowment, standing
from parley.rewards import Bets, make_model
from parley.simulation import phases

MODELS = {
    "gaussian": {"kind": "gaussian", "scale": 1.0},
    "unknown": {"kind": "gaussian", "scale": "unknown"},
    "binary": {"kind": "binary"},
    "bounded": {"kind": "bounded", "low": 0.0, "high": 1.0},
}


@dataclass
class Judge:
    """Tolerance by the book: one agent, one pair, one phase at a time."""

    problem: Problem

    def __post_init__(self):
        arms, agents = self.problem.shape
        self.counts, self.sums, self.squares = (np.zeros((arms, agents)) for _ in range(3))
        self.wealth, self.answers, self.phase = {}, {}, 0
        self.line = log(self.problem.question_count / self.problem.delta)

    def mixed(self, agent):
        return [
            sum(self.problem.weights[n, agent] * self.sums[k, n] / max(self.counts[k, n], 1) for n in self.agents)
            for k in self.arms
        ]

    def variance(self, counts, agent, arm):
        single = np.broadcast_to(self.problem.noise.cell_variances(self.totals), self.counts.shape)
        weights = self.problem.weights[:, agent]
        return sum(weights[n] ** 2 * single[arm, n] / max(counts[arm, n], 1) for n in self.agents)

    @property
    def totals(self):
        return Totals(counts=self.counts.astype(int), sums=self.sums, squares=self.squares)

    @property
    def arms(self):
        return range(self.problem.arm_count)

    @property
    def agents(self):
        return range(self.problem.agent_count)

    def settle(self, agent, i, j, fresh):
        """One bet on "j is not better than i by the tolerance or more"."""
        needed = [n for n in self.agents if self.problem.weights[n, agent] > 0]
        if any(fresh.counts[arm, n] == 0 for arm in (i, j) for n in needed):
            return
        have = self.wealth[agent, i, j]
        if have >= self.line:
            return
        mixed, means = self.mixed(agent), fresh.sums / np.maximum(fresh.counts, 1)
        y = sum(self.problem.weights[n, agent] * (means[i, n] - means[j, n]) for n in needed)
        past = self.variance(self.counts, agent, i) + self.variance(self.counts, agent, j)
        v = self.variance(fresh.counts, agent, i) + self.variance(fresh.counts, agent, j)
        estimate, one = mixed[i] - mixed[j] + self.problem.tolerance, np.ones(1)
        if estimate + 2 * past**0.5 <= 0:  # it looks too bad to bet
            return
        bets = Bets(
            estimate=one * estimate, error=one * past**0.5,
            missing=one * (self.line - have), contrast=one * (y + self.problem.tolerance),
            shift=self.problem.tolerance, variance=one * v, replication=(), opponent=np.array([i]), arm=np.array([j]),
            agent=np.array([agent]), weights=self.problem.weights, past=self.totals, fresh=fresh,
        )  # fmt: skip
        paid = float(self.problem.noise.payoff(bets)[0])
        on_line = self.problem.noise.boosted and paid >= self.line - have
        self.wealth[agent, i, j] = self.line if on_line else have + paid

    def shares(self, agent):
        """What the pairs of an agent start with, after the first phase."""
        mixed, top, count = self.mixed(agent), self.problem.top, self.problem.arm_count
        order = sorted(self.arms, key=lambda k: (-mixed[k], k))
        variance = {k: self.variance(self.counts, agent, k) for k in self.arms}

        def chance(better):
            return max(norm.cdf(better / (variance[k] + variance[last]) ** 0.5), 1e-4)

        inside, edge = {}, {}
        for k in self.arms:
            last = order[top - 1]
            inside[k] = chance(mixed[k] - mixed[last])
            last = order[top]
            edge[k] = max(inside[k] * chance(mixed[last] - mixed[k]), 1e-4)
        for k in self.arms:
            for j in (j for j in self.arms if j != k):
                if top == 1:
                    share = inside[k] / sum(inside[i] for i in self.arms if i != j)
                else:
                    taken = edge[k] / sum(sorted(edge.values())[top:])
                    missed = edge[j] / sum(sorted(edge[i] for i in self.arms if i != k)[-top:])
                    share = taken * missed
                self.wealth[agent, k, j] = log(0.9 * share + 0.1 / ((count - top) * top)) - 1e-9

    def update(self, fresh):
        if self.phase > 0:
            for agent in self.agents:
                if agent not in self.answers:
                    for i in self.arms:
                        for j in self.arms:
                            if i != j and self.counts[i].any() and self.counts[j].any():  # a new arm does not bet
                                self.settle(agent, i, j, fresh)
        self.counts, self.sums = self.counts + fresh.counts, self.sums + fresh.sums
        self.squares = self.squares + (0 if fresh.squares is None else fresh.squares)
        self.phase += 1
        for agent in self.agents:
            if self.phase == 1:
                self.shares(agent)
            elif agent not in self.answers:
                self.answer(agent)

    def answer(self, agent):
        """The N arms that stand on the line against most others, if they do against all outside."""
        mixed = self.mixed(agent)

        def beaten(i):
            return sum(self.wealth[agent, i, j] >= self.line for j in self.arms if j != i)

        found = sorted(self.arms, key=lambda i: (-beaten(i), -mixed[i], i))[: self.problem.top]
        outside = [j for j in self.arms if j not in found]
        if all(self.wealth[agent, i, j] >= self.line for i in found for j in outside):
            self.answers[agent] = set(found)


def rewards(rng, kind, counts):
    means = rng.uniform(0.2, 0.8, counts.shape)
    if kind == "binary":
        sums = rng.binomial(counts, means).astype(float)
        return Totals(counts=counts, sums=sums, squares=sums)
    if kind == "bounded":
        sums = counts * rng.uniform(0.3, 0.7, counts.shape)
        return Totals(counts=counts, sums=sums, squares=None)
    noise = rng.normal(0, 1, counts.shape) * np.sqrt(counts)
    sums = counts * means + noise
    scatter = rng.chisquare(np.maximum(counts - 1, 1)) * (counts > 1)
    return Totals(counts=counts, sums=sums, squares=sums**2 / np.maximum(counts, 1) + scatter)


@pytest.mark.parametrize("seeds", first_quick(range(4), range(4, 20)), ids=["few", "more"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_state_is_that_of_the_judge(kind, seeds):
    for seed in seeds:
        compare(kind, np.random.default_rng(seed))


def compare(kind, rng):
    arms, agents, top = (int(rng.integers(least, most + 1)) for least, most in ((2, 5), (2, 3), (1, 3)))
    problem = Problem(
        arms=arms, weights=random_weights(rng, agents), top=min(top, arms - 1), delta=float(rng.uniform(0.05, 0.4)),
        tolerance=float(rng.uniform(0.05, 0.5)), noise=make_model(**MODELS[kind]),
    )  # fmt: skip
    if plan.is_closed(problem) or plan.ends_surely(problem):  # the twin knows those, and the judge does not
        return
    policy, judge = make_policy("evidence", problem), Judge(problem)
    with patch.object(plan, "size_of_ties", lambda *_: None):  # the judge knows no last look
        assert policy.largest_size is None
    state = policy.start()
    for _ in range(5):
        if state.finished:
            break
        counts = rng.integers(15, 120, problem.shape) * (rng.random(problem.shape) > 0.1)  # some cells stay empty
        fresh = rewards(rng, kind, counts)
        judge.update(fresh)
        state = policy.update(state, fresh)
        for (agent, i, j), wealth in judge.wealth.items():
            assert state.log_pairs[i, j, agent] == pytest.approx(wealth, abs=1e-9)
        for agent in range(agents):
            left = set(np.flatnonzero(state.active[:, agent]))
            assert left == judge.answers.get(agent, set(range(arms)))
            assert bool(state.accepted[agent]) == (agent in judge.answers)


@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(1, 7))
def test_the_shares_against_every_possible_top_n_add_up_to_at_most_one(seed, arms, top):
    rng = np.random.default_rng(seed)
    problem = Problem(arms=arms, weights=random_weights(rng, 2), top=min(top, arms - 1))
    mixed, variances = rng.normal(0, rng.choice([0.01, 1.0, 100.0]), (arms, 2)), rng.uniform(1e-6, 1, (arms, 2))
    every = np.broadcast_to(np.arange(arms)[:, None], (arms, 2))
    shares = np.exp(endowment(problem, mixed, variances, every))
    for best in combinations(range(arms), problem.top):
        others = [arm for arm in range(arms) if arm not in best]
        assert (shares[np.ix_(others, best)].sum(axis=(0, 1)) <= 1).all()
        assert (shares[np.ix_(others, best)] >= 0.09 / (len(others) * problem.top)).all()


def test_the_phase_that_chooses_the_shares_settles_no_pair():
    """Whatever the first phase shows, what pairs start with is spent on shares and is no evidence."""
    noise = make_model(kind="subgaussian", scale=1.0)  # no closed study, whose first phase is evidence
    problem = Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]], tolerance=0.5, noise=noise)
    policy = make_policy("evidence", problem)
    counts = np.full((2, 2), 10_000)
    state = policy.update(policy.start(), Totals(counts=counts, sums=counts * [[1.0], [0.0]]))
    assert state.active.all()
    assert np.exp(state.log_pairs[:, :, 0]).round(6).tolist() == [[1.0, 1.0], [1.0, 1.0]], "two arms: all of it"
    three = make_policy("evidence", problem.with_(arms=3))
    counts = np.full((3, 2), 10_000)
    state = three.update(three.start(), Totals(counts=counts, sums=counts * [[1.0], [0.0], [0.0]]))
    assert state.active.all()
    assert (np.exp(state.log_pairs[:, 0, 0]) <= 1).all()


@pytest.mark.simulations
def test_no_wealth_begins_anew_when_another_arm_leads():
    # Of 17 arms: a closed study, of fewer, moves shares from pair to pair.
    problem = Problem(arms=17, weights=[[1.0]], tolerance=0.05)
    means = [[0.5], [0.5], *([0.1] for _ in range(15))]
    policy, instance = make_policy("evidence", problem), Instance(problem=problem, means=means)
    changes = 0
    for seed in range(30):
        for phase in phases(policy, instance, seed=seed):
            before, after = phase.before, phase.after
            if before.phase == 0:
                continue
            first, then = (standing(problem, one, policy.line)[:, 0].argmax() for one in (before, after))
            changes += first != then
            idle = replace(after, sums=after.sums[::-1].copy())  # other leaders, the same wealth
            nothing = Totals(counts=np.zeros_like(after.counts), sums=np.zeros_like(after.sums))
            if not after.finished:
                assert np.array_equal(policy.update(idle, nothing).log_pairs, after.log_pairs)
    assert changes > 5


def test_an_arm_may_be_drawn_for_any_pair_and_a_pair_on_the_line_asks_for_nothing():
    problem = Problem(arms=3, weights=[[1.0]], tolerance=0.1)
    policy = make_policy("evidence", problem)
    counts = np.full((3, 1), 200)
    state = policy.update(policy.start(), Totals(counts=counts, sums=counts * [[0.5], [0.45], [0.0]]))
    wealth = state.log_pairs.copy()
    wealth[0, 2, 0] = policy.line
    state = replace(state, log_pairs=wealth.copy())
    assert (policy.plan(state)[:, 0] > 0).tolist() == [True, True, False]
    wealth[1, 2, 0], wealth[1, 0, 0] = policy.line, policy.line
    state = policy.update(state, Totals(counts=np.zeros_like(counts), sums=np.zeros((3, 1))))
    assert state.active.all()
    found = policy.update(replace(state, log_pairs=wealth), Totals(counts=0 * counts, sums=np.zeros((3, 1))))
    assert found.active[:, 0].tolist() == [False, True, False], "the second arm stands on the line against all others"
    assert found.accepted.tolist() == [True]


@pytest.mark.simulations
def test_a_study_whose_budget_came_first_keeps_the_leader_and_what_it_has_not_covered():
    problem = Problem(arms=4, weights=[[1.0]], tolerance=0.05, max_samples=2500)
    instance = Instance(problem=problem, means=[[0.5], [0.5], [0.0], [-0.2]])
    policy = make_policy("evidence", problem)
    kept = []
    for seed in range(40):
        last = list(phases(policy, instance, seed=seed))[-1].after
        if not last.accepted[0]:
            assert policy.statuses(last)[0] == "exhausted"
            kept.append(last.active[:, 0])
            assert ((last.dropped_in > 0) == ~last.active).all()
    assert len(kept) > 10
    assert np.mean([one[:2].all() and not one[2:].any() for one in kept]) > 0.9


@pytest.mark.parametrize("top", first_quick(2, 1))
def test_with_many_arms_some_have_rows_and_one_that_looks_best_later_gets_one(top, monkeypatch):
    monkeypatch.setattr(tolerance, "MOST_ARMS", 10)
    monkeypatch.setattr(tolerance, "ROWS", 8)
    monkeypatch.setattr(tolerance, "FREE", 3)
    rng = np.random.default_rng(0)
    means = np.concatenate([[1.0, 0.9], rng.uniform(0, 0.5, 18)])[:, None] * [[1.0, 0.8]]
    problem = Problem(arms=20, weights=[[0.8, 0.3], [0.2, 0.7]], tolerance=0.2, top=top)
    outcome = simulate(
        make_policy("evidence", problem), Instance(problem=problem, means=means), replications=60, seed=3
    )
    assert outcome.finished.all()
    assert outcome.error_rate <= 0.1
    policy = make_policy("evidence", problem)
    with patch.object(plan, "size_of_ties", lambda *_: None):
        assert policy.largest_size is None
    counts = np.full((20, 2), 50)
    state = policy.update(policy.start(), Totals(counts=counts, sums=50 * means))
    assert isinstance(state, Pairs)
    rows = np.array(state.rows)
    assert len(np.unique(rows[:, 0])) == rows.shape[0] - 3
    late = next(k for k in range(20) if k not in rows[:, 0])
    counts[late] = 5000
    sums = np.where(np.arange(20)[:, None] == late, 3.0, means) * counts
    state = policy.update(state, Totals(counts=counts, sums=sums))
    assert late in state.rows[:, 0]
    place = int(np.flatnonzero(state.rows[:, 0] == late)[0])
    others = np.delete(state.log_pairs[place, :, 0], late)
    assert np.allclose(others, log(0.1 / ((20 - top) * top))), "it starts with its even share"
