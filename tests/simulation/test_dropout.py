"""A share of the draws has no outcome: plans count on it where the policy takes other counts."""

import numpy as np

from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import phases, simulate


def instance(**settings):
    problem = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], price=2.0, **settings)
    return Instance(problem=problem, means=[[0.9, 0.8], [0.4, 0.3], [0.0, 0.1]])


def run(made, policy="evidence", **options):
    return simulate(make_policy(policy, made.problem), made, replications=60, seed=3, **options)


def test_of_what_is_asked_a_share_is_missing():
    made = instance(dropout=0.25)
    first = next(phases(make_policy("evidence", made.problem), made, seed=0))
    share = first.after.counts.sum() / first.quotas.sum()
    assert 0.6 < share < 0.9
    assert (first.after.counts <= first.quotas).all()


def test_who_drops_out_costs_as_much_and_the_answers_stay_right():
    found, whole = run(instance(dropout=0.25)), run(instance())
    assert found.correct.mean() >= 0.9
    assert np.allclose(found.money, found.costs * 2.0 / 0.75)
    assert found.rounds.mean() >= whole.rounds.mean()


def test_the_numbers_do_not_depend_on_the_chunks():
    made = instance(dropout=0.1)
    assert run(made, chunk=7).costs.tolist() == run(made).costs.tolist()


def test_where_counts_are_exact_the_missing_are_replaced():
    with_dropout, without = (run(instance(site_counts="exact", dropout=share)) for share in (0.25, 0.0))
    assert with_dropout.costs.tolist() == without.costs.tolist()
    assert np.allclose(with_dropout.money, without.money / 0.75)
