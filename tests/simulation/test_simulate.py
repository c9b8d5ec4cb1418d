from itertools import pairwise

import numpy as np
import pytest
from tests.support import first_quick, paper_study, random_instance

from parley.errors import InvalidInput, TiedArms
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import Noise
from parley.simulation import phases, simulate, simulate_truths


@pytest.mark.parametrize("environment", first_quick("uniform", None, "bernoulli"))
def test_chunks_and_later_replications_change_no_number(environment):
    if environment is None:
        instance = paper_study().instance
    else:
        noise = Noise.bounded(low=0, high=1)
        instance = Instance(
            problem=Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], noise=noise),
            means=[[0.6, 0.1], [0.4, 0.5], [0, 0]],
        )
    policy = make_policy("wcpe", instance.problem)

    def run(count: int, chunk: int | None):
        return simulate(policy, instance, replications=count, seed=5, chunk=chunk, environment=environment)

    whole = run(700, None)
    for count, chunk in ((700, 1), (700, 300), (300, None)):
        part = run(count, chunk)
        assert (part.costs == whole.costs[:count]).all()
        assert (part.rounds == whole.rounds[:count]).all()
        assert (part.chosen == whole.chosen[:count]).all()
    other = simulate(policy, instance, replications=700, seed=6, environment=environment)
    assert (other.costs != whole.costs).any()


def test_a_single_run_is_replication_zero():
    instance = random_instance(3, arms=4, agents=3)
    policy = make_policy("wcpe", instance.problem)
    steps = list(phases(policy, instance, seed=9))
    outcome = simulate(policy, instance, replications=300, seed=9)
    assert steps[-1].after.counts.sum() == outcome.costs[0]
    assert len(steps) == outcome.rounds[0]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    for before, after in pairwise(steps):
        assert (before.after.counts == after.before.counts).all()


def test_mean_draws_add_up_to_the_mean_cost_and_progress_to_everything():
    instance = paper_study().instance
    done: list[int] = []
    outcome = simulate(
        make_policy("uniform", instance.problem), instance, replications=600, seed=0, chunk=256, progress=done.append
    )
    assert outcome.draws.sum() == pytest.approx(outcome.costs.mean())
    assert sum(done) == 600


def test_a_cap_stops_before_it_is_exceeded_and_says_so():
    instance = paper_study().instance
    policy = make_policy("wcpe", instance.problem)
    outcome = simulate(policy, instance, replications=500, seed=0, max_samples=60_000)
    assert 0 < outcome.finished.sum() < 500
    assert (outcome.costs <= 60_000).all()
    assert (outcome.chosen[~outcome.finished] == -1).all()
    assert not outcome.correct[~outcome.finished].any()
    assert outcome.error_rate == 0  # stopped is not mistaken


def test_a_tie_needs_a_cap_and_never_finishes():
    problem = Problem(arms=2, weights=np.eye(1))
    tied = Instance(problem=problem, means=[[0.5], [0.5]])
    policy = make_policy("wcpe", problem)
    with pytest.raises(TiedArms):
        simulate(policy, tied, replications=1, seed=0)
    outcome = simulate(policy, tied, replications=50, seed=0, max_samples=100_000)
    assert not outcome.finished.any()


def test_errors_are_counted():
    """Near-ties are often decided wrongly by what guarantees nothing; the rate is the share of wrong choices."""
    problem = Problem(arms=2, weights=[[1.0]], delta=0.9)
    instance = Instance(problem=problem, means=[[0.51], [0.5]])

    def errors(name, options, least, most):
        outcome = simulate(make_policy(name, problem, options, instance), instance, replications=2000, seed=0)
        assert outcome.finished.all()
        assert (outcome.mistaken == (outcome.chosen[:, 0, 0] == 1)).all()
        assert (outcome.correct == ~outcome.mistaken).all()
        assert outcome.error_rate == outcome.mistaken.mean()
        assert least < outcome.error_rate < most

    errors("oracle", {"size": "paper"}, 0.45, 0.55)
    errors(
        "wcpe", {"threshold": "heuristic"}, 0.22, 0.31
    )  # 0.266 in 10,000 runs of another seed; 0.01 standard error here
    errors("wcpe", {"threshold": "paper"}, -1, 0.02)


@pytest.mark.parametrize(
    ("changes", "says"), [({"replications": 0}, "replications"), ({"max_samples": 0}, "max_samples")]
)
def test_bad_arguments_are_named(changes, says):
    instance = paper_study().instance
    arguments = {"replications": 1, "seed": 0} | changes
    with pytest.raises(InvalidInput, match=says):
        simulate(make_policy("wcpe", instance.problem), instance, **arguments)


def test_a_policy_that_is_asked_another_question_is_refused():
    instance = paper_study().instance
    for changes in ({"weights": np.eye(3)}, {"top": 2}):
        policy = make_policy("evidence", instance.problem.with_(**changes))
        with pytest.raises(InvalidInput, match="with the weights of the instance"):
            simulate(policy, instance, replications=2, seed=0)


@pytest.mark.parametrize("policy", ["evidence", "wcpe", "uniform"])
def test_truths_in_one_batch_are_the_same_studies(policy):
    problem = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], delta=0.1, rate=[2.0, 3.0], max_samples=3000)
    truths = [Instance(problem=problem, means=[[gap, gap], [0.0, 0.1], [0.0, 0.0]]) for gap in (0.3, 0.9, 0.5)]
    chosen = make_policy(policy, problem)
    told: list[int] = []
    for chunk in (None, 1):
        together = simulate_truths(chosen, truths, replications=7, seed=4, chunk=chunk, progress=told.append)
        for place, (found, truth) in enumerate(zip(together, truths, strict=True)):
            alone = simulate(chosen, truth, replications=7, seed=4 + place)
            for name in ("costs", "rounds", "correct", "statuses", "chosen", "draws", "days"):
                assert (getattr(found, name) == getattr(alone, name)).all(), name
    assert sum(told) == 2 * 21
