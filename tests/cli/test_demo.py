"""`parley demo` on studies of one's own: what it says at the end is true whatever the study asks for."""

import json
import sys

import pytest

from parley.cli.main import run
from parley.experiments.demo import regret_figure

STUDY = """
arms = ["a", "b", "c", "d"]
agents = ["Paris", "Lille", "Lyon"]
delta = 0.1
largest_gap = 6.0
TERM

[noise]
kind = "gaussian"
scale = 1.0

[truth]
means = MEANS
"""
TIE = "[[0.5, 0.5, 0.5], [0.49, 0.49, 0.5], [-5.0, -5.0, -5.0], [0.48, 0.48, 0.5]]"
APART = "[[0.5, 0.5, 2.9], [0.49, 0.49, 0.1], [-3.0, -3.0, -3.0], [0.48, 0.48, 0.2]]"


@pytest.fixture
def demo(monkeypatch, capsys, tmp_path):
    def called(term, means, *more):
        file = tmp_path / "study.toml"
        file.write_text(STUDY.replace("TERM", term).replace("MEANS", means))
        page = tmp_path / "page.html"
        arguments = ["demo", "--study", str(file), "--replications", "4", "--output", str(page), *more]
        monkeypatch.setattr(sys, "argv", ["parley", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        assert ended.value.code in (0, None)
        return " ".join(capsys.readouterr().out.split()), page.read_text()

    return called


@pytest.mark.simulations
def test_within_a_tolerance_an_answer_is_good_and_no_bound_is_told(demo):
    told, page = demo("tolerance = 0.4", TIE)
    assert "all are within 0.4 of the best" in told
    assert "WRONG" not in told
    assert "is set aside for" in told
    assert "proven better than c" in told
    assert "than a" not in told.split("proven better", 1)[1].split("runs each")[0]
    assert "expect fewer" not in told + page
    assert "over the lower bound" not in told + page
    assert "An arm that is set aside may be just as good" in page
    assert json.loads(demo("tolerance = 0.4", TIE, "--json")[0])["correct"] is True


@pytest.mark.simulations
def test_a_budget_that_came_first_leaves_candidates_and_is_no_mistake(demo):
    told, page = demo('max_rounds = 2\nanswers = "each"', APART)
    assert "1 of 3 agents have their answer, and all are right; the others have candidates" in told
    assert "WRONG" not in told
    assert "expect fewer" not in told + page


@pytest.mark.simulations
def test_a_study_with_a_horizon_is_played(demo):
    told, page = demo("horizon = 2000", APART.replace("0.49, 0.49", "0.2, 0.2").replace("0.48, 0.48", "0.1, 0.1"))
    assert "C* log T" in told
    assert "evidence-regret" in told
    assert "regret" in page.lower()


@pytest.mark.simulations
def test_an_exact_study_tells_bound_and_every_arm_that_is_proven_worse(demo):
    told, page = demo("", APART.replace("0.49, 0.49", "0.2, 0.2").replace("0.48, 0.48", "-0.4, -0.4"))
    assert "all are right" in told
    assert "no algorithm can expect fewer than" in told
    assert "Lyon: a, proven better than" in told
    said = told.split("Lyon: a, proven better", 1)[1].split("4 runs each")[0]
    assert all(f"{arm}" in said for arm in ("b", "c", "d"))
    assert "bars are" not in page


def test_lines_of_regret_differ_by_more_than_colour_and_begin_where_there_is_something_to_see():
    curve = {"times": [1, 10, 100, 1000], "mean": [0.1, 1.0, 9.0, 40.0]}
    curve |= {"p10": curve["mean"], "p90": curve["mean"]}
    results = [{"policy": name, "regret": {"curve": curve}} for name in ("a", "b", "c", "d", "e")]
    panel = regret_figure(results, 50.0).axes[0]
    lines = panel.get_lines()
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == len(lines) == 6
    assert panel.get_xlim()[0] == 10
