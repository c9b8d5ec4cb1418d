"""Outcomes that come late: every phase waits for those of its last draws, and is long enough to be worth it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from parley.cli.main import main
from parley.costs import phase_days
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import simulate

MEANS = [[0.9, 0.1], [0.3, 0.8], [0.1, 0.2]]
PROBLEM = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], rate=[5.0, 2.0])


def outcome(problem, **options):
    policy = make_policy("evidence", problem, {"rounds": 5, **options})
    return simulate(policy, Instance(problem=problem, means=MEANS), replications=40, seed=3)


def test_a_short_delay_adds_itself_to_every_phase_and_changes_no_draw():
    at_once, late = outcome(PROBLEM), outcome(PROBLEM.with_(delay=1.0))
    assert np.array_equal(at_once.costs, late.costs)
    assert np.allclose(late.days - at_once.days, 1.0 * at_once.rounds)


def test_where_the_delay_is_long_no_later_phase_is_too_short_to_be_worth_it():
    """A quarter of the delay: here 5.25 days, in which the slower site alone draws 10."""
    at_once, late = outcome(PROBLEM), outcome(PROBLEM.with_(delay=21.0))
    assert (late.costs > at_once.costs).any()
    assert late.costs.mean() > at_once.costs.mean()  # what a longer phase draws now may save another one later
    assert (late.days >= 21.0 * late.rounds + 5.25 * (late.rounds - 1)).all()


def test_the_slowest_outcome_ends_a_phase_and_who_draws_nothing_delays_nobody():
    problem = PROBLEM.with_(delay=[30.0, 1.0])
    draws = np.array([[0, 10], [0, 10], [0, 0]])
    assert phase_days(problem, draws) == 10 + 1
    assert phase_days(problem, draws + np.array([[5, 0], [0, 0], [0, 0]])) == 1 + 30


def test_long_delays_make_for_fewer_rounds():
    """A round that costs two months is worth more draws."""
    patient, hurried = (make_policy("evidence", PROBLEM.with_(delay=days)) for days in (1.0, 400.0))
    first = [policy.plan(policy.start()).sum() for policy in (patient, hurried)]
    assert first[1] > first[0]


@pytest.mark.simulations
def test_parley_plan_takes_a_delay(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        'arms = 3\nagents = 2\n[weights]\nkind = "personalized"\nalpha = 0.5\n[sampling]\nrate = [5, 2]\n'
        '[noise]\nscale = 1.0\n[policy]\nname = "uniform"\n'
    )

    def days(*more):
        arguments = ["plan", str(study), "--json", "--gap", "0.5", "--instances", "1", "--replications", "2", *more]
        found = CliRunner().invoke(main, [*arguments, "--output", str(tmp_path / "plan.html")], catch_exceptions=False)
        document = json.loads(found.output)
        return document["delay"], json.dumps(document)

    none, at_once = days()
    delay, late = days("--delay", "30")
    assert (none, delay) == (0.0, 30.0)
    assert late != at_once.replace('"delay": 0.0', '"delay": 30.0')
