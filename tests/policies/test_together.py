"""One joint answer of all agents: every joint answer, one by one, against what the policy says of all at once."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from tests.policies.racing import racing
from tests.support import first_quick, random_weights

from parley import Instance, Problem, Totals
from parley.policies.evidence.racing import EvidenceRacing
from parley.policies.evidence.wealth import Wealth
from parley.rewards import Binary, Gaussian, RewardModel, SubGaussian
from parley.simulation import simulate

SEED = 20261117


class Judge:
    """The wealth of every set of every agent, kept by itself, and of every joint answer, one by one."""

    def __init__(self, policy: EvidenceRacing) -> None:
        self.policy, self.problem = policy, policy.problem
        arms, top = range(self.problem.arm_count), self.problem.top
        self.sets = [frozenset(chosen) for chosen in combinations(arms, top)]
        self.agents = np.flatnonzero(self.problem.questions).tolist()
        self.wealth = {(m, one): 0.0 for m in self.agents for one in self.sets}
        self.vectors = list(product(self.sets, repeat=len(self.agents)))
        self.rejected: set[tuple[frozenset[int], ...]] = set()
        self.log_shares: np.ndarray | None = None  # those of the first phase

    def slot(self, before: Wealth, m: int, members: frozenset[int]) -> tuple[int, int] | None:
        """The slot and the arm that a set of candidates bets in; None for sets with an arm that is out."""
        contrasts, top = self.policy.contrasts(before), self.problem.top
        if not before.active[sorted(members), m].all():
            return None
        if contrasts.ranks is None:
            return 0, next(iter(members))
        candidates = np.flatnonzero(before.active[:, m])
        order = sorted(candidates.tolist(), key=lambda arm: contrasts.ranks[arm, m])
        last = [arm for arm in order if arm in members][-1]
        first = next(arm for arm in order if arm not in members)
        if members == frozenset(order[:top]):
            wealth = contrasts.wealth[:, order[:top], m]
            slot, place = np.unravel_index(np.argmin(wealth), wealth.shape)
            return int(slot), order[place]
        return int(np.flatnonzero(contrasts.opponents[:, last, m] == first)[0]), last

    def share(self, m: int, members: frozenset[int]) -> float:
        assert self.log_shares is not None
        return float(np.exp(max(self.log_shares[arm, m] for arm in members)))

    def log_wealth(self, vector: tuple[frozenset[int], ...]) -> float:
        """Of a joint answer: the mean of what its sets have, by their shares."""
        pairs = list(zip(self.agents, vector, strict=True))
        shares = np.array([self.share(m, members) for m, members in pairs])
        logs = np.array([self.wealth[pair] for pair in pairs])
        return float(np.log(shares @ np.exp(logs) / shares.sum()))

    def take(self, before: Wealth, after: Wealth) -> None:
        """What a phase brings; nothing that the policy says may be more than what the joint answers have."""
        contrasts = self.policy.contrasts(before)
        if self.log_shares is None:
            self.log_shares = after.log_shares
        for m in self.agents:
            if before.active[:, m].sum() <= self.problem.top:
                continue
            for members in self.sets:
                place = self.slot(before, m, members)
                if place is not None:
                    slot, arm = place
                    assert contrasts.wealth[slot, arm, m] <= self.wealth[m, members] + 1e-9, "a slot has too much"
                    self.wealth[m, members] += after.log_wealth[slot, arm, m] - contrasts.wealth[slot, arm, m]
        if before.phase > 0:
            self.rejected |= {one for one in self.vectors if self.log_wealth(one) >= self.policy.line - 1e-9}
        for place, m in enumerate(self.agents):
            for vector in self.vectors:
                if not after.active[sorted(vector[place]), m].all():
                    assert vector in self.rejected, "an arm is out that a joint answer has which is not rejected"


def judged(policy: EvidenceRacing, means: np.ndarray, rng: np.random.Generator, phases: int = 40) -> Judge:
    judge, state, noise = Judge(policy), policy.start(), policy.problem.noise
    while not state.finished and state.phase < phases:
        counts = policy.plan(state)
        if isinstance(noise, Binary):
            sums = rng.binomial(counts, means).astype(np.float64)
        else:
            sums = counts * means + np.sqrt(counts) * rng.standard_normal(counts.shape)
        after = policy.update(
            state, Totals(counts=counts, sums=sums, squares=sums if isinstance(noise, Binary) else None)
        )
        judge.take(state, after)
        state = after
    if state.finished:
        answer = tuple(frozenset(np.flatnonzero(state.active[:, m]).tolist()) for m in judge.agents)
        assert judge.rejected >= set(judge.vectors) - {answer}, "all joint answers but one are rejected"
    return judge


@pytest.mark.simulations
@pytest.mark.parametrize("noise", [Gaussian(), SubGaussian(scale=1.0), Binary()])
@pytest.mark.parametrize(("arms", "agents", "top"), [(3, 3, 1), (2, 4, 1), (4, 2, 2), (4, 3, 2)])
def test_nothing_is_said_that_the_joint_answers_do_not_have(arms, agents, top, noise):
    for seed in range(4):
        rng = np.random.default_rng((SEED, seed))
        weights = random_weights(rng, agents)
        if seed == 3 and agents > 2:
            weights[:, 1] = weights[:, 0]
        problem = Problem(arms=arms, weights=weights, top=top, noise=noise, delta=0.1)
        judged(racing(problem), rng.uniform(0.2, 0.8, problem.shape), rng)


@pytest.mark.parametrize("noise", first_quick(Gaussian(), Binary()))
def test_at_a_tie_the_true_joint_answer_is_rejected_in_a_share_delta_of_studies_at_most(noise):
    """One agent's arms tie, the others' are clear: the tie is the only thing that keeps the answer open."""
    weights = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    means = np.array([[0.5, 0.8, 0.2], [0.5, 0.2, 0.8], [0.1, 0.2, 0.2]])
    means[1, 0] += 1e-7 - (means @ weights)[1, 0] + (means @ weights)[0, 0] - 2e-7
    problem = Problem(arms=3, weights=weights, delta=0.2, noise=noise)
    policy, count = racing(problem), 1500
    outcome = simulate(policy, Instance(problem=problem, means=means), replications=count, seed=SEED, max_samples=8000)
    assert 0.02 < outcome.error_rate <= 0.2 + 2 * np.sqrt(0.2 * 0.8 / count)


def test_agents_that_answer_each_are_as_they_were():
    """Samples of the policy as it is without joint answers; whoever changes a plan or a stake writes them anew."""
    rng = np.random.default_rng(5)
    for top, noise, known in TODAY:
        weights = rng.random((4, 4)) + np.eye(4)
        weights /= weights.sum(axis=0)
        problem = Problem(arms=5, weights=weights, top=top, noise=noise, delta=0.05, answers="each")
        instance = Instance(problem=problem, means=rng.random((5, 4)))
        assert simulate(racing(problem), instance, replications=4, seed=9).costs.tolist() == known


TODAY: list[tuple[int, RewardModel, list[int]]] = [
    (1, Gaussian(scale=0.5), [404822, 411961, 220684, 229386]),
    (2, Gaussian(scale=0.5), [26794, 29426, 16437, 15615]),
    (1, Binary(), [189415, 276554, 118854, 186385]),
]


def test_one_question_has_nothing_to_share():
    alike = Problem(arms=3, weights=np.full((2, 2), 0.5))
    assert not racing(alike).together
    assert racing(alike).line == racing(alike.with_(answers="each")).line


def test_an_agent_is_settled_first_and_final_when_all_are():
    problem = Problem(arms=2, weights=np.eye(2))
    policy = racing(problem)
    state = policy.start()
    rng = np.random.default_rng(SEED)
    means, seen = np.array([[0.9, 0.5], [0.1, 0.4]]), []
    while not state.finished:
        counts = policy.plan(state)
        state = policy.update(
            state, Totals(counts=counts, sums=counts * means + np.sqrt(counts) * rng.standard_normal(counts.shape))
        )
        seen.append(policy.statuses(state).tolist())
    assert ["settled", "open"] in seen
    assert seen[-1] == ["decided", "decided"]
    assert state.dropped_in.max(axis=0).tolist() == [state.phase, state.phase]


def test_what_is_settled_is_drawn_no_more():
    problem = Problem(arms=2, weights=np.eye(2))
    policy = racing(problem)
    means = [[0.9, 0.5], [0.75, 0.45]]
    state = policy.update(policy.start(), totals(means, 200))
    state = policy.update(state, totals(means, 1000))
    assert policy.statuses(state).tolist() == ["settled", "open"]
    assert not policy.plan(state)[:, 0].any()
    assert policy.plan(state)[:, 1].all()


def totals(means: list[list[float]], count: int) -> Totals:
    counts = np.full((2, 2), count)
    return Totals(counts=counts, sums=counts * np.array(means))
