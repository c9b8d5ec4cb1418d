"""Power as an input: the smallest budget that has it, and what is said of one that has not."""

import json

import numpy as np
import pytest
from tests.cli.test_commands import EXAMPLES, parley
from tools.correctness.planning import POWERED

from parley.errors import InvalidInput
from parley.experiments.forecasts.forecast import launch_warning
from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.power import budget_warning, powered_budget, smallest_budget
from parley.experiments.forecasts.scenarios import gap_scenario, standard_error, tie_scenario
from parley.problem import Problem

pytestmark = pytest.mark.simulations

PROBLEM = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], delta=0.1)
PLANNER = Planner(policy="evidence", options={}, replications=200, seed=0)


def test_the_smallest_budget_has_the_power_and_two_per_cent_less_has_not():
    truth = gap_scenario(PROBLEM, 0.4)
    most, study = smallest_budget(PLANNER, PROBLEM, truth, 0.8)
    assert study.power >= 0.8
    assert study.samples.max() <= most
    less = PLANNER.estimate(truth, PROBLEM.with_(max_samples=round(0.98 * most)))
    assert less.power < 0.8


def test_more_power_and_smaller_gaps_need_more():
    def needed(gap: float, power: float) -> int:
        return smallest_budget(PLANNER, PROBLEM, gap_scenario(PROBLEM, gap), power)[0]

    assert needed(0.4, 0.5) < needed(0.4, 0.9) < needed(0.2, 0.9)


def test_a_study_that_errs_and_is_left_with_ties_does_not_stop_the_search():
    """Seed 1 has a study that rules out the best arm; the arms that are left are equal, and it never ends."""
    problem = Problem(arms=4, weights=0.5 * np.eye(3) + 0.5 / 3, delta=0.1)
    planner = Planner(policy="evidence", options={}, replications=1000, seed=1)
    truth = gap_scenario(problem, 0.02)
    with pytest.raises(InvalidInput, match="planned draws"):
        planner.estimate(truth, problem)
    assert smallest_budget(planner, problem, truth, 0.5, accuracy=0.2)[1].power >= 0.5


def test_a_tie_needs_a_tolerance_and_no_budget_has_more_power_than_none():
    with pytest.raises(InvalidInput, match="where arms tie, without a tolerance"):
        smallest_budget(PLANNER, PROBLEM, tie_scenario(PROBLEM), 0.9)
    tolerant = PROBLEM.with_(tolerance=0.3)
    assert smallest_budget(PLANNER, tolerant, tie_scenario(tolerant), 0.9)[1].power >= 0.9
    hurried = PROBLEM.with_(max_rounds=1)
    with pytest.raises(InvalidInput, match="what it has without max_samples and with max_rounds = 1"):
        smallest_budget(PLANNER, hurried, gap_scenario(hurried, 0.2), 0.9)
    for power in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidInput, match="strictly between 0 and 1"):
            smallest_budget(PLANNER, PROBLEM, gap_scenario(PROBLEM, 0.4), power)


def test_the_answer_stands_beside_the_fixed_size_of_the_same_power():
    found = powered_budget(PLANNER, PROBLEM, gap_scenario(PROBLEM, 0.4), 0.8)
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["gap"] == pytest.approx(0.4)
    assert document["max_samples"] == found.max_samples
    assert document["studies"] == 800, "of other seeds than those that the budget was chosen by"
    assert document["standard_error"] == pytest.approx(np.sqrt(found.study.power * (1 - found.study.power) / 800))
    assert document["power"] - 2 * document["standard_error"] >= 0.8
    assert document["samples"]["standard_error"] > 0
    assert document["fixed"]["power"] >= 0.8


@pytest.mark.parametrize("kind", POWERED)
def test_a_power_that_is_promised_is_one_that_other_studies_have(kind):
    problem, gap = POWERED[kind]
    truth = gap_scenario(problem, gap)
    most = powered_budget(PLANNER, problem, truth, 0.9).max_samples
    judge = Planner(policy="evidence", options={}, replications=4_000, seed=991)
    assert judge.estimate(truth, problem.with_(max_samples=most)).power >= 0.9


def test_the_error_over_several_truths_is_that_of_the_truths():
    same, apart = np.tile([0.0, 1.0], 8), np.repeat([0.0, 1.0], 8)
    assert standard_error(same, 1) == standard_error(apart, 1) == 0.125
    assert standard_error(same, 2) == 0
    assert standard_error(apart, 2) == 0.5


def test_a_budget_that_cannot_decide_is_named_with_the_one_that_can():
    truth = gap_scenario(PROBLEM, 0.2)

    def said(problem: Problem) -> str:
        return budget_warning(PLANNER, problem, [(truth, PLANNER.estimate(truth, problem))])

    enough = smallest_budget(PLANNER, PROBLEM, truth, 0.5)[0]
    warning = said(PROBLEM.with_(max_samples=enough // 3))
    assert f"max_samples = {enough // 3} " in warning
    assert f"The smallest max_samples with a power of a half there is about {enough}." in warning
    assert "under gap 0.2" in warning
    assert not said(PROBLEM.with_(max_samples=enough))
    assert not said(PROBLEM), "no budget, nothing to say"
    assert "No max_samples gives a power of one half there while max_rounds = 1." in said(PROBLEM.with_(max_rounds=1))


def test_whoever_launches_is_warned_in_time_and_only_about_budgets():
    assert "likely to end without all answers" in launch_warning("evidence", {}, PROBLEM.with_(max_samples=40))
    assert launch_warning("evidence", {}, PROBLEM) == ""
    assert launch_warning("evidence", {}, PROBLEM.with_(max_samples=10**6)) == ""
    large = Problem(arms=200, weights=np.eye(100), max_samples=10**6)
    assert "parley plan does this" in launch_warning("evidence", {}, large)


def test_the_command_answers_with_a_budget(tmp_path):
    study = str(EXAMPLES / "three-centres.toml")
    done = parley("plan", study, "--power", "0.9", "--gap", "0.5", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["power"]
    assert (answer["wanted"], answer["gap"]) == (0.9, pytest.approx(0.5))
    assert answer["power"] >= 0.9
    assert 0 < answer["standard_error"] < 0.01
    assert 0 < answer["samples"]["mean"] <= answer["max_samples"]
    assert [one["max_samples"] for one in answer["truths"]] == [answer["max_samples"]]
    shown = parley("plan", study, "--power", "0.9", "--gap", "0.5", cwd=tmp_path)
    assert f"max_samples = {answer['max_samples']}" in shown.stdout
    assert not list(tmp_path.iterdir()), "an answer, not a page"
    refused = parley("plan", study, "--power", "0.9", "--gap", "0", cwd=tmp_path)
    assert refused.returncode == 2
    assert "no budget can distinguish" in refused.stderr


def test_the_plan_warns_of_a_budget_that_cannot_decide(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        (EXAMPLES / "three-centres.toml").read_text().replace("\n[weights]", "max_samples = 60\n\n[weights]")
    )
    few = ("--instances", "2", "--replications", "20", "--gap", "0.5")
    done = parley("plan", str(study), *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "With max_samples = 60 this study is likely to end without all answers" in done.stderr
    assert "likely to end without all answers" in (tmp_path / "parley-plan.html").read_text()
    document = json.loads(parley("plan", str(study), *few, "--json", cwd=tmp_path).stdout)
    assert "max_samples = 60" in document["warning"]
    assert document["largest_size"] == 60
    assert "ever more than 60 samples, whatever the truth." in " ".join(done.stdout.split())
    page = " ".join((tmp_path / "parley-plan.html").read_text().split())
    assert (
        "6 looks are planned, including the first phase; further looks follow if the planned ones do not suffice"
        in page
    )
    assert "never more than 60 samples, whatever the truth." in page
