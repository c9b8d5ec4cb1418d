"""What a plan says of guardrails: chances of an alarm by harm, and of clearing an arm without any."""

import json

import numpy as np
import pytest
from tests.simulation.test_guarded import HARM

from parley import parse_study
from parley.cli.main import main
from parley.experiments.forecasts.harms import MARGINS, harm_chances
from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.scenarios import gap_scenario


def chances(stated=None, **outcome):
    document = {"arms": ["c", "a"], "agents": 2, "control": "c", "noise": {"kind": "binary"}}
    problem = parse_study(document | {"outcomes": [HARM | {"rate": 0.1} | outcome]}).problem
    planner = Planner(policy="evidence", options={}, replications=60, seed=1)
    return harm_chances(planner, problem, gap_scenario(problem, 0.1), {"harm": stated} if stated is not None else {})


@pytest.mark.simulations
def test_more_harm_is_found_more_often_and_none_is_cleared_more_often():
    found = chances()
    assert [one.margins for one in found] == list(MARGINS)
    assert found[0].alarm <= 0.1
    assert found[1].alarm <= 0.15
    assert found[3].alarm > 0.8 > found[1].alarm
    assert found[3].people is not None
    assert found[0].cleared > found[2].cleared == 0


def test_harm_beyond_the_range_is_left_out():
    assert [one.margins for one in chances(margin=0.4)] == [0.0, 1.0, 2.0]


@pytest.mark.simulations
def test_the_harm_of_the_control_is_what_is_stated_of_it():
    """Rare harm is found sooner than harm that half of the people have anyway."""
    rare, common = (chances(np.full((2, 2), rate))[2] for rate in (0.01, 0.5))
    assert rare.alarm > 2 * common.alarm
    assert rare.truth == common.truth


@pytest.mark.simulations
def test_a_limit_needs_no_control():
    document = {"arms": ["b", "a"], "agents": 2, "noise": {"kind": "binary"}}
    limited = {key: value for key, value in HARM.items() if key != "margin"} | {"limit": 0.2}
    problem = parse_study(document | {"outcomes": [limited]}).problem
    planner = Planner(policy="evidence", options={}, replications=60, seed=1)
    found = harm_chances(planner, problem, gap_scenario(problem, 0.1))
    assert [(one.margins, one.mean) for one in found] == [
        (0.0, pytest.approx(0.1)),
        (1.0, pytest.approx(0.2)),
        (2.0, pytest.approx(0.3)),
        (4.0, pytest.approx(0.5)),
    ]
    assert found[1].alarm <= 0.15
    assert found[3].alarm > 0.9
    assert found[0].cleared > 0.5 > found[1].cleared
    assert found[0].power > 0.9


@pytest.mark.simulations
def test_a_plan_has_them_on_its_page_and_in_its_json(tmp_path, capsys):
    study, page = tmp_path / "study.toml", tmp_path / "plan.html"
    rows = "\n".join(f"{key} = {value!r}" for key, value in HARM.items())
    study.write_text(f'arms = ["c", "a"]\nagents = 1\ncontrol = "c"\n[noise]\nkind = "binary"\n[[outcomes]]\n{rows}\n')
    few = ["--gap", "0.3", "--instances", "1", "--replications", "2", "--output", str(page), "--json"]
    main(["plan", str(study), *few], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)["guardrails"]
    assert [one["margins"] for one in found] == list(MARGINS)
    assert "an arm that harms by so many margins" in page.read_text()
