"""Weights in doubt: the steps of the study file, and the map that is read from the answers."""

import numpy as np
import pytest
from tools.correctness.questions import claims_right, in_doubt

from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.simulation import phases, simulate
from parley.study import parse_study
from parley.weight_map import WeightMap, stated_alone, step_columns, weight_maps
from parley.weights import identity, personalized, population

STUDY = {"arms": ["A", "B", "C"], "agents": ["x", "y"], "tolerance": 0.1}
DOUBT = {"kind": "personalized", "alpha_range": [0.3, 0.7], "steps": 5}


def problem_of(weights, **more):
    return parse_study(STUDY | {"weights": weights} | more).problem


def test_every_site_asks_at_every_step_and_at_the_middle_by_itself():
    problem = problem_of(DOUBT)
    assert problem.weight_steps == ("alpha 0.3", "alpha 0.4", "alpha 0.5", "alpha 0.6", "alpha 0.7")
    assert problem.question_count == 10
    columns = step_columns(problem)
    assert columns[:, 2].tolist() == [0, 1]
    for step, alpha in enumerate((0.3, 0.4, 0.5, 0.6, 0.7)):
        assert problem.weights[:2, columns[:, step]] == pytest.approx(personalized(2, alpha))
    assert problem.agents[columns[1, 4]] == "y, alpha 0.7"


def test_questions_and_sites_that_ask_nothing_go_with_doubt():
    country = {"name": "country", "weights": {"x": 0.5, "y": 0.5}}
    problem = problem_of(DOUBT, questions=[country], sites={"asks": [True, False]})
    assert problem.agents[:3] == ("x", "y", "country")
    assert [problem.agents[place] for place in step_columns(problem)[0]][1:3] == ["x, alpha 0.4", "x"]
    assert len(step_columns(problem)) == 1
    assert problem.question_count == 6


def test_without_doubt_a_site_asks_at_the_middle_only():
    problem = problem_of(DOUBT)
    single = stated_alone(problem)
    assert single.question_count == 2
    assert (single.weights[:, :2] == problem.weights[:, :2]).all()


def test_scenarios_are_steps_in_their_order():
    scenarios = [{"name": "alone"}, {"name": "all", "kind": "population", "shares": [1, 3]}]
    problem = problem_of({"scenarios": scenarios})
    columns = step_columns(problem)
    assert problem.weight_steps == ("alone", "all")
    assert (problem.weights[:2, columns[:, 0]] == identity(2)).all()
    assert (problem.weights[:2, columns[:, 1]] == population([1, 3])).all()


WRONG = [
    (DOUBT | {"alpha_range": [0.7, 0.3]}, {}, r"weights.alpha_range: found \[0.7, 0.3\]; allowed: two numbers"),
    (DOUBT | {"alpha": 0.5}, {}, "weights.alpha_range: found alpha too"),
    (DOUBT | {"steps": 1}, {}, "weights.steps: found 1"),
    ({"alpha_range": [0.1, 0.2]}, {}, "weights.alpha_range: found kind = 'identity'"),
    ({"kind": "personalized", "alpha": 0.5, "steps": 3}, {}, "weights.steps: found 3; allowed: only with alpha_range"),
    (DOUBT, {"tolerance": 0.0}, "weights.alpha_range: found no tolerance"),
    ({"scenarios": [{"name": "a"}]}, {}, "weights.scenarios: found 1 entry"),
    ({"scenarios": [{"name": "a"}, {"name": "a"}]}, {}, "weights.scenarios.name: found the name 'a' twice"),
    ({"scenarios": [{"name": "a"}, {"name": "b"}], "kind": "identity"}, {}, "weights.kind: found weights beside"),
    ({"scenarios": [{"name": "a"}, {"name": "b"} | DOUBT]}, {}, "weights.scenarios.alpha_range: found a range"),
    ({"scenarios": [{"name": "a"}, {"name": "b"}]}, {"tolerance": 0.0}, "weights.scenarios: found no tolerance"),
]


@pytest.mark.parametrize(("weights", "more", "words"), WRONG)
def test_what_is_wrong_is_named(weights, more, words):
    with pytest.raises(InvalidInput, match=words):
        parse_study(STUDY | {"weights": weights} | more)


def map_of(*arms):
    steps = tuple(f"alpha 0.{place}" for place in range(len(arms)))
    return WeightMap(agent="x", questions=steps, steps=steps, arms=tuple(one and (one,) for one in arms))


def test_a_map_claims_nothing_between_neighbours_that_differ():
    found = map_of("A", "A", "B", None, "B", "B")
    assert [(one.first, one.last, one.arms) for one in found.ranges] == [
        (0, 1, ("A",)),
        (2, 2, ("B",)),
        (4, 5, ("B",)),
    ]
    assert str(found.words) == (
        "A from alpha 0.0 to alpha 0.1, B at alpha 0.2, B from alpha 0.4 to alpha 0.5; it changes in between; "
        "elsewhere there is no answer"
    )
    assert found.to_json()["ranges"][0] == {"from": "alpha 0.0", "to": "alpha 0.1", "arms": ["A"]}


def test_a_map_with_one_answer_says_so():
    assert str(map_of("A", "A").words) == "A from alpha 0.0 to alpha 0.1"
    assert str(map_of(None, None).words) == "no answer yet"


def test_a_run_gives_a_map_of_every_site_that_is_right_everywhere():
    study = in_doubt("it changes twice, C is best midway")
    policy = make_policy("evidence", study.problem)
    last = list(phases(policy, study.instance, seed=3))[-1].after
    answered = np.isin(policy.statuses(last), ["decided", "accepted"])
    maps = weight_maps(study.problem, last.answers, answered)
    assert [one.agent for one in maps] == ["Paris", "Lille", "Lyon"]
    paris = [one.arms for one in maps[0].ranges]
    assert paris[0] == ("A",)
    assert ("C",) in paris
    assert paris[-1] == ("B",)
    chosen = np.where(answered, last.answers.argmax(axis=0), -1)[None]
    assert claims_right(study.problem, study.instance.means, chosen).all()
    # The judge is not blind: with two steps, A at one end and B at the other, whoever fills the middle is wrong.
    wrong = chosen.copy()
    wrong[0, step_columns(study.problem)[0]] = 1
    assert not claims_right(study.problem, study.instance.means, wrong).any()


@pytest.mark.simulations
@pytest.mark.parametrize("truth", ["it changes once", "it changes twice, C is best midway"])
def test_maps_are_right_at_every_alpha(truth):
    """`make questions` counts 20,000."""
    study = in_doubt(truth)
    outcome = simulate(make_policy("evidence", study.problem), study.instance, replications=300, seed=0)
    assert outcome.finished.all()
    assert claims_right(study.problem, study.instance.means, outcome.chosen[:, 0]).mean() >= 0.9
