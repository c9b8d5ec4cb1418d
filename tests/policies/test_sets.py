"""Sets of N arms, against a reference that keeps the wealth of every set by itself."""

from itertools import combinations

import numpy as np
import pytest
from tests.policies.racing import racing
from tests.support import first_quick, random_weights

from parley.policies.evidence.wealth import Wealth, carried, scores
from parley.problem import Instance, Problem
from parley.rewards import Noise
from parley.simulation.simulate import make_environment

LINE = 3.0


class Slots:
    """The slots of one agent, by arm: which one a set has, and what is in it."""

    def __init__(self, wealth, opponents, ranks, top):
        self.wealth, self.opponents, self.ranks, self.top = wealth, opponents, ranks, top

    def of(self, chosen):
        """The place of a set's slot, None for the leaders' own."""
        rivals = [arm for arm, rank in enumerate(self.ranks) if rank >= 0 and arm not in chosen]
        last, first = max(chosen, key=lambda arm: self.ranks[arm]), min(rivals, key=lambda arm: self.ranks[arm])
        if self.ranks[last] < self.top:
            return None
        return self.opponents[:, last].tolist().index(first), last

    def value(self, chosen):
        place = self.of(chosen)
        leading = (self.ranks >= 0) & (self.ranks < self.top)
        return self.wealth[:, leading].min() if place is None else self.wealth[place]


def sets_of(active, top):
    return list(combinations(np.flatnonzero(active).tolist(), top))


def by_estimate(active, values):
    """The order that a state with these estimates has, and everybody's opponents."""
    return np.argsort(np.argsort(np.where(active, -values, np.inf), kind="stable"), kind="stable")


def opponents_of(rank, top):
    order, slot = np.argsort(rank), np.arange(top)
    return np.stack([np.sort(order[slot + (slot >= rank[arm])]) for arm in range(len(rank))], axis=-1)


@pytest.mark.parametrize(("arms", "top"), [(4, 2), (6, 2), (6, 3), (7, 4), (5, 4)])
def test_a_slot_begins_with_the_least_that_any_of_its_sets_had(arms, top):
    """Orders and wealth by chance, some slots on the line, arms ruled out before and since: against all sets."""
    rng = np.random.default_rng((arms, top))
    moved = 0
    for _ in range(60):
        then = np.ones(arms, dtype=bool)
        then[rng.permutation(arms)[: rng.integers(0, arms - top)]] = False
        active = then.copy()
        gone = rng.permutation(np.flatnonzero(then))[: rng.integers(0, then.sum() - top)]
        active[gone] = False
        order, rank = by_estimate(then, rng.random(arms)), by_estimate(active, rng.random(arms))
        old = Slots(rng.uniform(0, 1.3 * LINE, (top, arms)), opponents_of(order, top), np.where(then, order, -1), top)
        now = opponents_of(rank, top)
        wealth, ranks = (
            array[..., 0]
            for array in carried(
                _state(old.wealth, old.opponents, old.ranks, active), rank[:, None], now[..., None], LINE
            )
        )
        new = Slots(wealth, now, ranks, top)
        leaders = set(np.flatnonzero((ranks >= 0) & (ranks < top)))
        assert leaders == set(np.flatnonzero(active & (rank < top)))
        moved += leaders != set(np.flatnonzero(then & (order < top)))
        least: dict = {}
        for chosen in sets_of(active, top):
            had = old.value(chosen)
            key = new.of(chosen)
            least[key] = min(least.get(key, np.inf), np.inf if had >= LINE else had)
        for key, had in least.items():
            found = new.value(tuple(leaders)) if key is None else new.wealth[key]
            if leaders == set(np.flatnonzero(then & (order < top))):
                assert min(found, LINE) <= had  # nothing is recomputed while the leaders stay
            else:
                assert found == min(had, LINE)
        evidence = scores(_state(wealth, now, ranks, active))[:, 0]
        for arm in np.flatnonzero(active):
            having = [new.value(chosen) for chosen in sets_of(active, top) if arm in chosen]
            assert min(evidence[arm], LINE) == min(*having, LINE)
    assert moved > 20


def _state(wealth, opponents, ranks, active):
    arms = len(ranks)
    blank = np.zeros((arms, 1))
    return Wealth(
        phase=np.array(2), counts=blank.astype(int), sums=blank, active=active[:, None],
        dropped_in=blank.astype(int), finished=np.array(False), log_wealth=wealth[..., None],
        opponents=opponents[..., None], signal=blank, information=blank, gap_at_least=blank, ranks=ranks[:, None],
    )  # fmt: skip


@pytest.mark.parametrize(("arms", "top"), first_quick((4, 2), (6, 3)))
def test_no_slot_has_more_than_any_of_its_sets_and_no_arm_goes_before_all_its_sets(arms, top):
    """Whole runs near ties, where leaders change often: every set's own wealth, bet by bet."""
    weights = random_weights(np.random.default_rng(3), 2)
    problem = Problem(arms=arms, weights=weights, top=top, delta=0.3, noise=Noise(kind="subgaussian"))
    policy = racing(problem)
    changes = outs = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        instance = Instance(problem=problem, means=rng.normal(0, 0.06, problem.shape))
        draw = make_environment(instance)
        state = policy.start()
        exact = [dict.fromkeys(sets_of(np.ones(arms, dtype=bool), top), 0.0) for _ in range(2)]
        rejected: list[set] = [set(), set()]
        for _ in range(12):
            if state.finished:
                break
            fresh = draw(rng, policy.plan(state))
            contrasts, after = policy.contrasts(state), policy.update(state, fresh)
            for agent in range(2):
                active = state.active[:, agent]
                if state.phase == 0 or active.sum() <= top:
                    continue
                changes += (contrasts.ranks != state.ranks)[:, agent].any()
                before = Slots(
                    contrasts.wealth[..., agent], contrasts.opponents[..., agent], contrasts.ranks[:, agent], top
                )
                done = Slots(after.log_wealth[..., agent], before.opponents, before.ranks, top)
                for chosen in sets_of(active, top):
                    if chosen in rejected[agent]:
                        continue
                    assert before.value(chosen) <= exact[agent][chosen] + 1e-9
                    exact[agent][chosen] += done.value(chosen) - before.value(chosen)
                    if exact[agent][chosen] >= policy.line - 1e-9:
                        rejected[agent].add(chosen)
                for arm in np.flatnonzero(active & ~after.active[:, agent]):
                    outs += 1
                    assert all(c in rejected[agent] for c in sets_of(active, top) if arm in c)
            state = after
    assert changes > 12
    assert outs > 8
