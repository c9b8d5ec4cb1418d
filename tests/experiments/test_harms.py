"""What a plan says of guardrails: chances of an alarm by harm, and of clearing an arm without any."""

from tests.simulation.test_guarded import HARM

from parley import parse_study
from parley.experiments.forecasts.harms import MARGINS, harm_chances
from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.scenarios import gap_scenario


def chances(**outcome):
    document = {"arms": ["c", "a"], "agents": 2, "control": "c", "noise": {"kind": "binary"}}
    problem = parse_study(document | {"outcomes": [HARM | {"rate": 0.1} | outcome]}).problem
    planner = Planner(policy="evidence", options={}, replications=60, seed=1)
    return harm_chances(planner, problem, gap_scenario(problem, 0.1))


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
