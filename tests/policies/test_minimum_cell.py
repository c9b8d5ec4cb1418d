"""What a minimum cell must leave alone: the rounds and samples that are proven for W-CPE, and that a study goes on."""

import numpy as np
import pytest
from tests.support import random_instance

from parley.bounds import Guarantee
from parley.policies import make_policy
from parley.policies.wcpe import make_threshold, radius
from parley.problem import Instance, Problem
from parley.rewards import Noise
from parley.simulation import simulate
from parley.totals import Totals


@pytest.mark.parametrize("cell", [1, 300, 20_000])
@pytest.mark.parametrize("seed", range(3))
def test_w_cpe_keeps_its_bounds_on_rounds_and_samples(seed, cell):
    plain = random_instance(seed, arms=4, agents=3, top=1, min_gap=0.1)
    instance = Instance(problem=plain.problem.with_(minimum_cell=cell), means=plain.means)
    proven = Guarantee.of(instance)
    assert proven.rounds == Guarantee.of(plain).rounds
    outcome = simulate(make_policy("wcpe", instance.problem), instance, replications=100, seed=seed)
    assert outcome.rounds.max() <= proven.rounds
    assert outcome.costs.max() <= proven.samples
    assert outcome.error_rate <= 0.1


@pytest.mark.parametrize("cell", [1, 20])
def test_w_cpe_makes_intervals_as_narrow_as_proxy_gaps_whoever_is_raised(cell):
    """More draws by agent 1, whom agent 2 does not weigh, raise agent 2's threshold: it must draw more as well."""
    problem = Problem(arms=2, weights=[[0.01, 0.0], [0.99, 1.0]], minimum_cell=cell)
    policy, beta = make_policy("wcpe", problem), make_threshold("paper", problem)
    state = policy.start()
    assert (policy.plan(state) > [cell - 1, cell]).all(), "agent 2 is not raised itself"
    assert (policy.plan(state)[:, 0] == cell).all()
    for _ in range(6):
        quotas = policy.plan(state)
        after = policy.update(state, Totals(counts=quotas, sums=np.zeros(problem.shape)))
        assert (radius(problem, after.counts, beta) <= np.exp2(-state.halvings.astype(float))).all()
        state = after


@pytest.mark.parametrize("name", ["wcpe", "uniform"])
@pytest.mark.parametrize(("scale", "cell"), [(1e-3, 1), (1e-3, 20), (1.0, 10**6)])
def test_data_that_outrun_the_proxy_gaps_leave_no_phase_without_draws(name, scale, cell):
    """A live study would stall on a phase that asks nobody for anything."""
    problem = Problem(arms=2, weights=[[0.8, 0.3], [0.2, 0.7]], noise=Noise(scale=scale), minimum_cell=cell)
    policy, gap = make_policy(name, problem), 1e-6 * scale
    state = policy.start()
    for phase in range(8):
        quotas = policy.plan(state)
        assert quotas.any(), f"phase {phase + 1}"
        state = policy.update(state, Totals(counts=quotas, sums=quotas * np.array([[gap, gap], [0.0, 0.0]])))
    assert state.active.all()


def test_a_cell_that_nobody_needs_stays_empty():
    weights = [[0.0, 0.6, 0.0], [1.0, 0.4, 1.0], [0.0, 0.0, 0.0]]
    policy = make_policy("evidence", Problem(arms=3, weights=weights, minimum_cell=100))
    quotas = policy.plan(policy.start())
    assert (quotas[:, 2] == 0).all()
    assert (quotas[:, :2] >= 100).all()
