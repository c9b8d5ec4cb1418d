"""A study beside other designs: what is recommended and why, and that all of them keep the same promise."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from parley.cli.main import main
from parley.costs import StudyCosts
from parley.errors import InvalidInput
from parley.experiments.forecasts.comparison import Compared, Comparison, Designs, Peer, compare, compared_studies
from parley.experiments.forecasts.designs import DesignSize
from parley.experiments.forecasts.plan_page import beside_table, designs_table, versus_table
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.power import powered_budget, smallest_budget
from parley.experiments.forecasts.scenarios import Scenario, gap_scenario, tie_scenario
from parley.problem import Problem
from parley.rewards import make_model

PLANNER = Planner(policy="evidence", options={}, replications=200, seed=3)
WEIGHTS = [[0.7, 0.2], [0.3, 0.8]]
RATES = make_model(kind="binary", rate=0.3)


def study(samples, *, power=1.0, wrong=0.0, rounds=6, studies=200):
    place = np.arange(studies)
    return ScenarioCost(
        scenario="gap 0.2",
        study_costs=StudyCosts(samples=np.full(studies, samples)),
        rounds=np.full(studies, rounds),
        per_agent=np.ones(1),
        correct=place < power * studies,
        mistaken=place < wrong * studies,
        truths=1,
        unfinished=0,
    )


def design(name, mean, *, rounds=5.0, power=1.0):
    figures = DesignSize(
        per_cell=10,
        samples=2 * mean,
        mean=mean,
        mean_error=1.0,
        rounds=rounds,
        power=power,
        power_error=0.01,
        wrong=0.0,
    )
    return Peer(name=name, label=f"the design {name}", figures=figures)


def beside(studies, *peers, errors=None):
    designs = Designs(seed=0, looks=5, runs=100, zone=0.0, estimated=False, per_cell={})
    row = Compared(truth="gap 0.2", studies=studies, peers=peers)
    return Comparison(
        delta=0.05, control=None, rows=[row], designs=designs, error_truth="just beyond", errors=errors or {}
    )


def test_normal_inference_is_recommended_if_it_saves_and_errs_no_more_than_delta():
    good = {"normal": study(800), "exact": study(1000)}
    found = beside(good, errors={"normal": study(900, wrong=0.02, studies=1000), "exact": study(900)})
    name, why = found.inference
    assert name == "normal"
    assert "0.80 times as many samples" in why
    assert "wrong in 2.0 %" in why
    assert "under just beyond" in why
    bad = beside(good, errors={"normal": study(900, wrong=0.06), "exact": study(900)})
    assert bad.inference[0] == "exact"
    assert "wrong in 6.0 %" in bad.inference[1]
    few = beside(good, errors={"normal": study(900, wrong=0.02, studies=50), "exact": study(900)})
    assert few.inference[0] == "exact", "one of 50 does not show that it errs in at most delta"
    assert beside({"normal": study(990), "exact": study(1000)}).inference[0] == "exact", "saves little"
    limited = {"normal": study(1000, power=0.9), "exact": study(1000, power=0.6)}
    assert beside(limited).inference[0] == "normal", "more power for the same budget"


def test_without_a_choice_of_inference_nothing_is_said_of_it():
    found = beside({"evidence": study(800)}, design("fixed", 1000))
    assert found.inference == ("evidence", "")
    assert [sentence.split(":")[0] for sentence in found.sentences] == ["Recommended design"]
    assert found.design[0] == "this study"
    assert "the nearest, the design fixed, takes 1.25 times as many" in found.design[1]


def test_another_design_is_recommended_where_it_takes_clearly_less_and_only_a_practical_one_of_the_same_power():
    mine = {"normal": study(1000), "exact": study(1500)}
    found = beside(mine, design("fixed", 1300), design("dropping", 800))
    assert found.design == (
        "the design dropping",
        "on average over these truths, it takes 0.80 times as many samples as this study with normal inference",
    )
    assert [(peer.name, ratio) for _, peer, ratio in found.behind] == [("dropping", 1.25)]
    close = beside(mine, design("dropping", 970))
    assert close.design[0] == "this study"
    assert not close.behind
    looking = beside(mine, design("kn", 500, rounds=300.0))
    assert looking.design[0] == "this study"
    assert (
        "the design kn takes fewer samples: 500 in 300.0 looks; this study takes 2.00 times as many"
        in looking.sentences[-1]
    )
    weak = beside(mine, design("sequential", 500, power=0.8))
    assert weak.design[0] == "this study"
    alone = beside(mine)
    assert alone.design[0] == "this study"
    assert json.dumps(alone.document(), allow_nan=False)


@pytest.mark.simulations
def test_all_designs_keep_the_promise_and_those_with_a_size_have_one_for_all_truths():
    problem = Problem(arms=3, weights=WEIGHTS, tolerance=0.1, delta=0.1, noise=RATES)
    counted, told = [], []
    planner = replace(PLANNER, progress=counted.append, announced=told.append)
    truths = [tie_scenario(problem, 0.3), gap_scenario(problem, 0.1), gap_scenario(problem, 0.3)]
    known = [(truth, PLANNER.estimate(truth, problem)) for truth in truths]
    found = compare(planner, problem, known)
    assert sum(counted) == compared_studies(planner, problem, [200] * 3) == 3 * 200 + 2 * 1000
    assert told[-1] == "other designs"
    assert any("gap" in what or "against" in what for what in told)
    assert list(found.errors) == ["exact", "normal"]
    names = ["fixed", "sequential", "dropping", "bechhofer", "kn", "kn_looks"]
    for row in found.rows:
        assert list(row.studies) == ["exact", "normal"]
        assert [peer.name for peer in row.peers] == names
        for peer in row.peers:
            assert peer.figures.wrong <= 0.1
            assert peer.figures.power >= (row.studies["exact"].power - 0.02 if peer.name in names[:3] else 0.9)
            assert peer.figures.mean <= peer.figures.samples
    for name in names[:4]:
        assert len({row.figures(name).per_cell for row in found.rows}) == 1, "sized once"
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert {"truths", "errors", "inference", "inference_reason", "design", "design_reason", "behind"} <= set(document)
    assert {"name", "label", "ratio", "samples", "mean", "power", "wrong"} <= set(document["truths"][0]["peers"][0])
    assert len(designs_table("", found).rows) == 3 * (2 + len(names))
    assert len(beside_table("", found).rows) == 3


@pytest.mark.simulations
@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"top": 2, "tolerance": 0.2}, {"fixed", "sequential"}),
        ({}, {"fixed", "sequential", "dropping"}),
        ({"tolerance": 0.2}, {"fixed", "sequential", "dropping", "bechhofer", "kn", "kn_looks"}),
        ({"noise": RATES, "rho": 0.05}, {"fixed", "sequential"}),
    ],
)
def test_a_design_that_promises_nothing_here_is_left_out(settings, names):
    problem = Problem(arms=4, weights=WEIGHTS, **settings)
    truth = gap_scenario(problem, 0.4)
    few = replace(PLANNER, replications=40)
    found = compare(few, problem, [(truth, few.estimate(truth, problem))])
    assert {peer.name for peer in found.rows[0].peers} == names


@pytest.mark.simulations
def test_where_the_scale_is_unknown_kn_estimates_it():
    def mean(noise):
        problem = Problem(arms=3, weights=[[1.0]], tolerance=0.2, noise=noise)
        truth = gap_scenario(problem, 0.4)
        few = replace(PLANNER, replications=40)
        return compare(few, problem, [(truth, few.estimate(truth, problem))]).rows[0].figures("kn").mean

    unknown, known = (mean(make_model(kind="gaussian", scale=scale)) for scale in ("unknown", 1.0))
    assert unknown > 1.1 * known


@pytest.mark.simulations
def test_superiority_over_the_control_is_shown_for_whoever_has_a_better_arm_and_hardly_ever_for_others():
    problem = Problem(arms=["usual", "a", "b"], weights=WEIGHTS, delta=0.1, control="usual")
    planner = replace(PLANNER, versus_control=True)
    better = planner.estimate(gap_scenario(problem, 0.5), problem)
    assert better.superior.mean() > 0.95
    assert (better.superior >= better.correct).all(), "without a tolerance an answer proves it"
    assert not better.falsely.any()
    # Of two truths the second has a control that is as good as the best: there every claim is false.
    means = np.stack([gap_scenario(problem, 0.5).means[0], [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]])
    both = planner.estimate(Scenario(name="both", means=means), problem.with_(max_samples=3000))
    first, second = np.split(both.superior, 2)
    assert first.mean() > 0.95
    assert not second.any()
    assert not both.falsely[:200].any()
    assert both.falsely.mean() <= 0.1
    tolerant = planner.estimate(gap_scenario(problem, 0.5), problem.with_(tolerance=0.2))
    assert tolerant.superior.mean() < tolerant.power == 1.0
    assert PLANNER.estimate(gap_scenario(problem, 0.5), problem).superior is None
    (row,) = versus_table("", [better]).rows
    assert row[2].startswith("0.0 % (at most")


@pytest.mark.simulations
def test_a_budget_to_show_superiority_is_smaller_than_one_for_all_answers():
    problem = Problem(arms=["usual", "a", "b", "c"], weights=[[1.0]], delta=0.1, control="usual")
    means = np.array([[[0.0], [0.6], [0.5], [0.0]]])
    truth, planner = Scenario(name="apart", means=means), replace(PLANNER, versus_control=True)
    found = powered_budget(planner, problem, truth, 0.8)
    assert found.max_samples < 0.5 * smallest_budget(PLANNER, problem, truth, 0.8)[0]
    document = found.document()
    assert document["power"] == document["superior"] >= 0.8
    assert document["fixed"]["power"] >= 0.8
    # One test at delta over the three treatments, of a difference of 0.6 and another of 0.5.
    assert 20 < document["fixed"]["per_cell"] < 60
    with pytest.raises(InvalidInput, match="without a tolerance, or with a smaller one, it proves more"):
        powered_budget(planner, problem.with_(tolerance=0.4), truth, 0.8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["four-hospitals.toml", "--versus", "nobody"], "`control`, or one of usual care, A, B"),
        (["three-centres.toml", "--versus", "control"], 'a study without a control; .* control = "ARM"'),
        (["play.toml", "--versus", "control"], "a study that ends with answers"),
        (
            ["four-hospitals.toml", "--versus", "B", "--power", "0.9"],
            "which no arm beats under the study's truth",
        ),
    ],
)
def test_what_cannot_be_beaten_is_refused_before_anything_is_simulated(words, message, tmp_path):
    study_file = f"examples/{words[0]}"
    with pytest.raises(InvalidInput, match=message):
        main(["plan", study_file, *words[1:], "--output", str(tmp_path / "plan.html")])


NONE = np.zeros(200, dtype=np.bool_)
STATES = {
    "one inference, no other design": ({"evidence": study(800)}, ()),
    "one inference, beaten": ({"evidence": study(800)}, (design("kn", 500, rounds=300.0), design("fixed", 600))),
    "two inferences": ({"normal": study(800, power=0.9, wrong=0.1), "exact": study(900)}, (design("fixed", 1000),)),
    "superiority shown": ({"evidence": replace(study(800), superior=~NONE, falsely=NONE)}, (design("fixed", 1000),)),
    "superiority never shown": ({"evidence": replace(study(800), superior=NONE, falsely=~NONE)}, ()),
}


@pytest.mark.parametrize("state", STATES)
def test_tables_sentences_and_json_tell_every_state(state):
    studies, peers = STATES[state]
    found = beside(studies, *peers, errors={"normal": study(900), "exact": study(900)} if len(studies) > 1 else {})
    rows = designs_table("", found).rows
    assert len(rows) == len(studies) + len(peers)
    (row,) = beside_table("", found).rows
    assert row[-1] == ("–" if not peers else f"{found.rows[0].best.label}: {found.rows[0].best.figures.mean:,.0f}")
    assert all(sentence.endswith(".") for sentence in found.sentences)
    assert any(sentence.startswith("Recommended design: ") for sentence in found.sentences)
    assert json.dumps(found.document(), allow_nan=False)
    shown = [row[1] for row in versus_table("", found.claiming).rows]
    assert shown == {"superiority shown": ["100.0 ± 0.0 %"], "superiority never shown": ["0.0 ± 0.0 %"]}.get(state, [])


@pytest.mark.simulations
def test_the_command_tells_superiority_and_other_designs_on_the_screen_on_the_page_and_in_json(tmp_path, capsys):
    file, page = tmp_path / "study.toml", tmp_path / "plan.html"
    file.write_text('arms = ["usual", "new"]\nagents = 1\ncontrol = "usual"\n[noise]\nkind = "binary"\nrate = 0.3\n')

    def said(*words):
        with pytest.raises(SystemExit) as ended:
            main(["plan", str(file), "--gap", "0.2", "--instances", "2", "--output", str(page), *words])
        assert ended.value.code == 0
        return capsys.readouterr().out

    text = said("--versus", "control")
    assert "Superiority over usual" in text
    assert "Recommended inference" in text
    assert {"Beside other designs", "Superiority over usual"} <= set(re.findall(r"<h2>([^<]+)</h2>", page.read_text()))
    document = json.loads(said("--versus", "usual", "--operating", "--json"))
    assert document["versus"] == "usual"
    row = document["operating"][0]
    assert row["superior"] >= row["power"] > 0.9
    assert document["comparison"]["truths"][0]["inference"]["normal"]["superior"] > 0.9
    plain = json.loads(said("--json"))
    assert plain["versus"] is None
    assert "superior" not in plain["comparison"]["truths"][0]["inference"]["exact"]
    assert "Superiority over" not in page.read_text()
    power = json.loads(said("--versus", "control", "--power", "0.8", "--json"))["power"]
    assert (power["versus"], power["power"] >= 0.8) == ("usual", True)
