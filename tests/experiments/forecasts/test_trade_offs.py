"""Days against money: the ends of the curve, what lies between, and the pictures."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from tests.support import paper_study

from parley.cli.main import main
from parley.costs import agent_days, phase_days, stated_rates
from parley.experiments.forecasts.plan_page import trade_off_figure, trade_off_table
from parley.experiments.forecasts.planning import (
    Planner,
    day_costs,
    has_trade_off,
    logistics,
    trade_off,
    trade_off_studies,
)
from parley.experiments.forecasts.scenarios import Scenario, with_weights
from parley.experiments.report_kit.svg import calendar_chart, clipped, phase_begins
from parley.problem import Problem

pytestmark = pytest.mark.simulations

RATES, PRICES = [1.0, 3.0, 10.0], [1.0, 10.0, 100.0]
STUDY = """
arms = 3
agents = 2
[weights]
kind = "personalized"
alpha = 0.4
[sampling]
price = [5, 1]
rate = [1, 4]
day_cost = 20
"""


def planner(**changes: object) -> Planner:
    return Planner(**({"policy": "evidence", "options": {}, "replications": 10, "seed": 3} | changes))


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario(name="the paper's", means=paper_study().instance.means[None])


def test_a_dearer_day_makes_a_faster_and_dearer_study(scenario):
    problem = paper_study().problem.with_(rate=RATES, price=PRICES, day_cost=70.0)
    counted = []
    points = trade_off(planner(progress=counted.append), problem, scenario)
    worths = [point.day_cost for point in points]
    assert worths == sorted(worths)
    assert (worths[0], worths[-1]) == (0.0, math.inf)
    assert [point.day_cost for point in points if point.own] == [70.0]
    days, money = ([point.study.summary()[part]["mean"] for point in points] for part in ("days", "money"))
    assert days[-1] < 0.8 * days[0]
    assert money[0] < 0.8 * money[-1]
    assert sum(counted) == trade_off_studies(planner(), problem, scenario) == 10 * len(points)
    timed = logistics(planner(replications=1), problem, scenario)
    assert len(trade_off_table("", timed).rows) == len(points)
    assert trade_off_figure(timed, theme="dark").axes[0].get_ylabel() == "money, mean"


def test_there_is_no_curve_where_there_is_nothing_to_trade(scenario):
    problem = paper_study().problem
    paced = problem.with_(rate=RATES)
    assert not has_trade_off("evidence", problem)
    assert not has_trade_off("wcpe", paced)
    assert not has_trade_off("evidence", paced.with_(price=0.0, day_cost=1.0))
    assert logistics(planner(), problem, scenario) is None
    assert trade_off(planner(policy="wcpe"), paced, scenario) == []
    assert day_costs(paced, scenario)[0] == 0.0


def test_a_calendar_has_every_site_draw_within_its_phase(scenario):
    problem = paper_study().problem.with_(rate=RATES, round_days=4.0)
    timeline = logistics(planner(policy="wcpe"), problem, scenario).timeline
    draws = agent_days(np.stack(timeline), stated_rates(problem))
    begins = np.array(phase_begins(draws.tolist(), problem.delay.tolist(), problem.round_days))
    assert (begins[:-1, None] + draws + 4.0 <= begins[1:, None] + 1e-9).all()
    assert np.diff(begins) == pytest.approx(phase_days(problem, np.stack(timeline)))
    late = problem.with_(delay=[7.0, 0.0, 0.0])
    assert np.diff(phase_begins(draws.tolist(), late.delay.tolist(), 4.0)) == pytest.approx(
        phase_days(late, np.stack(timeline))
    ), "a phase lasts until its last outcome is known"
    shown = calendar_chart(problem.agents, draws.tolist(), problem.delay.tolist(), problem.round_days)
    assert all(f">{clipped(name, 20)}</text>" in shown for name in problem.agents)


def test_a_site_that_cannot_recruit_is_not_asked_alone_at_no_speed():
    problem = Problem(arms=2, weights=[[1.0, 1.0], [0.0, 0.0]], rate=[4.0, 0.0])
    assert with_weights(problem, np.eye(2)).rate.tolist() == [4.0, 4.0]
    assert with_weights(problem, problem.weights).rate.tolist() == [4.0, 0.0]


def test_the_command_tells_money_days_and_the_trade(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    arguments = ["plan", str(tmp_path / "study.toml"), "--gap", "0.5", "--instances", "1", "--replications", "3"]
    result = CliRunner().invoke(main, [*arguments, "--json", "--output", str(tmp_path / "plan.html")])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    first = document["scenarios"][0]
    assert first["cost"]["mean"] > first["samples"]["mean"] > first["days"]["mean"] > 0
    assert document["trade"][0]["day_cost"] == 0
    assert document["trade"][-1]["day_cost"] is None
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    for title in ("Money and days", "Days against money", "Who draws when"):
        assert f"<h2>{title}</h2>" in page
