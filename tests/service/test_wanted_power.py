"""A wanted power at full size: the other tests of forecasts take few studies."""

import pytest

from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.scenarios import gap_scenario
from parley.protocol import StudyMessage
from parley.service.forecasts import estimate
from parley.study import parse_study

SMALL = parse_study({"arms": 4, "agents": 3, "weights": {"kind": "personalized", "alpha": 0.5}})


@pytest.mark.simulations
def test_a_wanted_power_is_answered_with_the_smallest_budget_that_has_it():
    found = estimate(StudyMessage.of(SMALL), power=0.8, gap=1.0).budget
    assert found.wanted == 0.8
    assert found.power >= 0.8
    assert 0 < found.standard_error < 0.03
    assert found.samples <= found.max_samples
    planner = Planner(policy=SMALL.policy, options={}, replications=found.studies, seed=0)
    truth = gap_scenario(SMALL.problem, 1.0)
    least = planner.estimate(truth, SMALL.problem.with_(max_samples=round(0.9 * found.max_samples)))
    assert least.power < 0.8, "a smaller budget has it too"
    assert estimate(StudyMessage.of(SMALL)).budget is None
