"""Evidence racing: what it certifies, and what it survives."""

import json

import numpy as np
import pytest
from tests.policies.racing import after_first_phase, racing, tie
from tests.support import first_quick, paper_study, random_instance

from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.policies.evidence.wealth import Wealth
from parley.problem import Instance, Problem
from parley.rewards import Noise
from parley.simulation import phases, simulate
from parley.totals import Totals

SEED = 4


@pytest.mark.parametrize(("gap", "top"), first_quick((1e-6, 2), (1e-3, 1), (1e-3, 2), (1e-6, 1)))
def test_tiny_gaps_end(gap, top):
    means = np.array([[0.5, 0.1], [0.5 - gap, 0.1 + gap], [0.1, 0.0], [0.2, 0.05]])
    means[2] += 0.9 * (top - 1)
    problem = Problem(arms=4, weights=[[1.0, 0.3], [0.0, 0.7]], top=top)
    outcome = simulate(racing(problem), Instance(problem=problem, means=means), replications=20, seed=SEED)
    assert outcome.finished.all()
    assert outcome.rounds.max() <= 60
    assert (outcome.costs > 1 / gap**2).mean() >= 0.9, "the others have an answer by luck, which delta allows"


def test_more_samples_than_can_be_counted_are_refused_not_wrapped_around():
    problem = Problem(arms=2, weights=[[1.0]])
    instance = Instance(problem=problem, means=[[1e-12], [0.0]])
    with pytest.raises(InvalidInput, match=r"planned draws: found .* in all; allowed: at most 2\^62.*sample cap"):
        simulate(racing(problem), instance, replications=1, seed=0)
    loud = problem.with_(noise=Noise(scale=1e12))
    with pytest.raises(InvalidInput, match="planned draws"):
        racing(loud).plan(racing(loud).start())


def test_a_tie_runs_into_the_cap_and_says_so():
    instance = tie(arms=3)
    outcome = simulate(racing(instance.problem), instance, replications=100, seed=SEED, max_samples=200_000)
    assert (~outcome.finished).mean() >= 0.5
    assert (outcome.chosen[~outcome.finished] == -1).all()
    assert (outcome.costs <= 200_000).all()


def test_delta_as_small_as_a_number_can_be():
    problem = Problem(arms=2, weights=[[1.0]], delta=1e-300)
    instance = Instance(problem=problem, means=[[1.0], [0.0]])
    outcome = simulate(racing(problem), instance, replications=20, seed=0)
    assert outcome.finished.all()
    assert outcome.correct.all()


def test_wealth_survives_data_that_contradict_everything():
    """A site that turns round: stakes were high, and all is lost; the study goes on without a NaN."""
    policy = racing(tie(arms=2).problem)
    state = after_first_phase(policy, [50.0, 0.0])
    counts = np.full((2, 1), 10_000)
    turned = Totals(counts=counts, sums=counts * np.array([[0.0], [40.0]]))
    state = policy.update(state, turned)
    assert np.isfinite(state.log_wealth).all()
    assert state.log_wealth[0, 1, 0] < -1000
    assert (policy.plan(state) > 0).all()
    state = policy.update(state, turned)
    assert state.finished
    assert state.answers[:, 0].tolist() == [False, True]


def test_the_certificate_says_what_decided():
    problem = Problem(arms=5, weights=[[0.8, 0.4], [0.2, 0.6]], top=2)
    instance = Instance(problem=problem, means=[[1.5, 1.5], [0.5, 0.46], [0.46, 0.5], [-1.0, -1.0], [0.0, -1.0]])
    policy, arms, changed = racing(problem), problem.arms, 0
    for seed in range(4):
        steps = list(phases(policy, instance, seed=seed))
        last = steps[-1].after
        document = json.loads(json.dumps(policy.certificate(last), allow_nan=False))
        assert document["line"] == policy.line
        for m, agent in enumerate(document["agents"]):
            assert agent["chosen"] == [arm["arm"] for arm in agent["arms"] if arm["status"] == "chosen"]
            for k, arm in enumerate(agent["arms"]):
                if arm["status"] == "chosen":
                    assert arm["gap_at_least"] == 0
                    assert arm["log_wealth"] < policy.line
                    continue
                assert arm["log_wealth"] == policy.line
                assert arm["gap_at_least"] == last.gap_at_least[k, m]
                deciding = steps[arm["dropped_in"] - 1]
                assert not deciding.after.active[k, m]
                assert deciding.before.active[k, m]
                met = policy.contrasts(deciding.before).opponents[:, k, m]
                assert arm["opponents"] == [arms[place] for place in met], "those it met when it went out"
                changed += (policy.contrasts(steps[-1].before).opponents[:, k, m] != met).any()
    assert changed, "others look best by the end, and the certificate does not name them"


@pytest.mark.parametrize("top", first_quick(1, 2))
def test_all_bounds_on_gaps_hold_together(top):
    """At every phase at once, for all losers of all agents: wrong in at most a share delta of the runs."""
    instance = random_instance(8 + top, arms=4, agents=3, top=top, min_gap=0.05, delta=0.2)
    policy, count = racing(instance.problem.with_(answers="each")), 400
    rng, state = np.random.default_rng(SEED), policy.start((count,))
    while not state.finished.all():
        quotas = policy.plan(state)
        sums = quotas * instance.means + np.sqrt(quotas) * rng.standard_normal(quotas.shape)
        state = policy.update(state, Totals(counts=quotas, sums=sums))
    assert isinstance(state, Wealth)  # and gap_at_least is the largest of all phases
    losers = ~instance.best
    wrong = ((state.gap_at_least > instance.gaps) & losers).any(axis=(-2, -1))
    assert wrong.mean() <= 0.2
    assert (state.gap_at_least[:, losers] > 0).mean() > 0.15, "and they say something"


def test_the_certificate_tells_the_bounds_that_the_evidence_gives():
    study = paper_study()
    policy = make_policy("evidence", study.problem)
    last = list(phases(policy, study.instance, seed=SEED))[-1].after
    told = policy.certificate(last)["agents"]
    bounds = np.array([[arm["gap_at_least"] for arm in agent["arms"]] for agent in told]).T
    assert np.array_equal(bounds, np.where(last.dropped_in > 0, last.gap_at_least, 0.0))
    assert bounds.max() > 0
    assert (bounds <= study.instance.gaps).all()
