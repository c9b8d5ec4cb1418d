import json

import numpy as np
import pytest
from tests.cli.test_commands import EXAMPLES, parley

from parley.errors import InvalidInput
from parley.experiments.forecasts.planning import Planner, make_plan, plan_studies
from parley.experiments.forecasts.scenarios import along_weights, gap_scenario, prior_scenario
from parley.problem import Instance, Problem
from parley.rewards import Noise
from parley.weights import personalized

pytestmark = pytest.mark.simulations

PROBLEM = Problem(arms=4, weights=personalized(3, 0.5), delta=0.1)


@pytest.mark.parametrize("top", [1, 2, 3])
def test_a_gap_scenario_has_that_gap_for_every_agent(top):
    problem = PROBLEM.with_(top=top, weights=[[0.7, 0.1, 0.2], [0.2, 0.6, 0.5], [0.1, 0.3, 0.3]])
    (instance,) = gap_scenario(problem, 0.3).instances(problem)
    assert instance.gaps == pytest.approx(np.full((4, 3), 0.3))


def test_scenarios_of_bounded_rewards_stay_within_bounds():
    problem = PROBLEM.with_(noise=Noise.bounded(low=0, high=1))
    for scenario in (gap_scenario(problem, 1.0), prior(problem, instances=20)):
        assert scenario.means.min() >= 0
        assert scenario.means.max() <= 1
        scenario.instances(problem)


def prior(problem: Problem, *, heterogeneity: float = 0.5, instances: int = 5, seed: int = 0):
    return prior_scenario(
        problem, spread=1.0, heterogeneity=heterogeneity, min_gap=0.05, instances=instances, seed=seed
    )


def test_the_prior_keeps_its_smallest_gap_and_its_seed():
    first, again, other = prior(PROBLEM), prior(PROBLEM), prior(PROBLEM, seed=1)
    assert (first.means == again.means).all()
    assert (first.means != other.means).any()
    assert all(instance.smallest_gap >= 0.05 for instance in first.instances(PROBLEM))


def test_heterogeneity_runs_from_identical_agents_to_independent_ones():
    same, different = prior(PROBLEM, heterogeneity=0.0), prior(PROBLEM, heterogeneity=1.0)
    assert np.ptp(same.means, axis=2).max() == pytest.approx(0)
    assert np.ptp(different.means, axis=2).min() > 0


def test_the_weights_axis_ends_with_everyone_alone():
    for weights, name in ((personalized(3, 0.2), "alpha"), (np.full((3, 3), [[0.5], [0.3], [0.2]]), "own reward")):
        axis, problems = along_weights(PROBLEM.with_(weights=weights))
        assert name in axis
        assert problems[-1][1].weights == pytest.approx(np.eye(3))


def test_identical_agents_save_by_collaborating_and_smaller_delta_costs_more():
    told: list[int] = []
    planner = Planner(policy="wcpe", options={}, replications=30, seed=0, progress=told.append)
    scenarios = [gap_scenario(PROBLEM, 0.5)]
    plan = make_plan(planner, PROBLEM, scenarios)
    assert sum(told) == plan_studies(planner, PROBLEM, scenarios)
    assert plan.alone[0].samples.mean() > 1.5 * plan.scenarios[0].samples.mean()
    costs = [estimate.samples.mean() for _, estimate in plan.by_level]
    assert costs == sorted(costs)
    assert plan.scenarios[0].per_agent.sum() == pytest.approx(plan.scenarios[0].samples.mean())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gap_scenario(PROBLEM, 0), "gap: found 0"),
        (lambda: gap_scenario(PROBLEM, 2), "at most largest_gap = 1"),
        (lambda: prior(PROBLEM, heterogeneity=1.5), "heterogeneity: found 1.5"),
        (lambda: prior(PROBLEM, instances=0), "instances: found 0"),
        (
            lambda: prior_scenario(PROBLEM, spread=0.01, heterogeneity=0, min_gap=0.5, instances=1, seed=0),
            "no draw of 10,000",
        ),
    ],
)
def test_bad_scenarios_are_named(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()


def test_the_command_plans_a_study_without_truth(tmp_path):
    study = str(EXAMPLES / "three-centres.toml")
    few = ("--instances", "2", "--replications", "2", "--gap", "0.5")
    done = parley("plan", study, *few, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [scenario["scenario"] for scenario in document["scenarios"]] == ["gap 0.5", "prior, spread 1"]
    assert len(document["scenarios"][0]["per_agent"]) == 3
    page = (tmp_path / "parley-plan.html").read_text()
    assert page.count("<svg") == 2
    assert "Lille" in page
    shown = parley("plan", study, *few, "--operating", cwd=tmp_path)
    assert "What moves the cost" in shown.stdout
    table = shown.stdout.partition("Operating characteristics")[2].partition("What moves")[0]
    assert "gap 0.5" in table
    assert "fixed size that does for all" in table
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= 80
    assert "Operating characteristics" in (tmp_path / "parley-plan.html").read_text()
    refused = parley("plan", study, "--policy", "oracle")
    assert refused.returncode == 2
    assert "without knowing the truth" in refused.stderr


def test_estimates_hold_the_error_that_was_promised():
    problem = Problem(arms=2, weights=np.eye(1), delta=0.2)
    planner = Planner(policy="wcpe", options={}, replications=200, seed=1)
    estimate = planner.estimate(gap_scenario(problem, 0.4), problem)
    assert estimate.error_rate <= 0.2
    assert estimate.unfinished == 0
    assert isinstance(gap_scenario(problem, 0.4).instances(problem)[0], Instance)
