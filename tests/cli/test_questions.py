"""What commands say of questions and of weights in doubt."""

import json
from pathlib import Path

import pytest

from parley.cli.main import main

COUNTRY = Path(__file__).parents[2] / "examples" / "country.toml"
DOUBT = """
arms = ["A", "B"]
agents = ["x", "y"]
tolerance = 0.3
[weights]
kind = "personalized"
alpha_range = [0.2, 0.8]
steps = 3
[noise]
scale = 1.0
[truth]
means = [[0.9, 0.1], [0.2, 0.4]]
"""


def said(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    told = capsys.readouterr()
    assert ended.value.code == 0, told.err
    return told.out


@pytest.fixture
def doubt(tmp_path):
    path = tmp_path / "doubt.toml"
    path.write_text(DOUBT, encoding="utf-8")
    return path


def test_bounds_have_what_doubt_costs(capsys, doubt):
    found = json.loads(said(capsys, "bounds", doubt, "--json"))
    assert found["bai"]["value"] > found["without_doubt"]["value"] > 0
    assert "doubt about the weights costs" in said(capsys, "bounds", doubt)


def test_bounds_show_an_allocation_of_sites_alone(capsys):
    shown = said(capsys, "bounds", COUNTRY, "--allocation")
    assert "3 arms, 3 agents, 1 further question" in shown
    assert "country" not in shown.split("Optimal allocation")[1]


@pytest.mark.simulations
def test_a_run_ends_with_the_map_and_the_answers_of_questions(capsys, doubt, tmp_path):
    page = tmp_path / "demo.html"
    found = json.loads(said(capsys, "demo", "--study", doubt, "--replications", 1, "--output", page, "--json"))
    assert [one["agent"] for one in found["map"]] == ["x", "y"]
    assert found["map"][0]["steps"][1]["arms"] == found["answers"]["x"]
    found = json.loads(said(capsys, "demo", "--study", COUNTRY, "--replications", 1, "--output", page, "--json"))
    assert "map" not in found
    assert found["answers"]["country"]
    assert "further question" in page.read_text(encoding="utf-8")


@pytest.mark.simulations
def test_a_plan_has_the_cost_without_doubt(capsys, doubt, tmp_path):
    words = ("plan", doubt, "--replications", 2, "--instances", 1, "--gap", 0.5, "--output", tmp_path / "p.html")
    found = json.loads(said(capsys, *words, "--json"))
    assert found["without_doubt"]["cost"]["mean"] > 0
    assert len(found["scenarios"][0]["per_agent"]) == 6
