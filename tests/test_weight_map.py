"""Weights in doubt: the steps of the study file, and the map that is read from the answers."""

import numpy as np
import pytest
from click.testing import CliRunner
from tools.correctness.questions import claims_right, in_doubt

from parley.cli.bounds import bounds_command
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.policies.evidence.tolerance import log_parts
from parley.simulation import phases, simulate
from parley.study import parse_study, toml_text
from parley.weight_map import WeightMap, halfway, stated_alone, step_columns, weight_maps
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
        "A from alpha 0.0 to alpha 0.1, B at alpha 0.2, B from alpha 0.4 to alpha 0.5; the answer changes in between; "
        "for the other weights there is no answer"
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


FINER = DOUBT | {"steps": 3, "refine": 2}
PAIR = STUDY | {"noise": {"kind": "gaussian", "scale": 1.0}}


def test_finer_steps_halve_the_distance_and_the_site_asks_at_the_stated_middle():
    problem = problem_of(FINER)
    assert problem.weight_steps == tuple(f"alpha {alpha:g}" for alpha in np.linspace(0.3, 0.7, 9).round(3))
    assert problem.weights[:2, :2] == pytest.approx(personalized(2, 0.5))
    assert [problem.agents[place] for place in np.flatnonzero(problem.finer)][:3] == [
        "x, alpha 0.35", "x, alpha 0.4", "x, alpha 0.45",
    ]  # fmt: skip
    columns = step_columns(problem)
    coarse, fine = halfway(problem)
    assert coarse.tolist() == [columns[site, [step, step - 2, step + 2]].tolist() for step in (2, 6) for site in (0, 1)]
    assert fine.tolist()[0] == columns[0, [1, 0, 2]].tolist()
    even = problem_of(DOUBT | {"steps": 4, "refine": 1})
    assert even.weights[:2, :2] == pytest.approx(personalized(2, 0.3 + 0.4 / 3))
    assert stated_alone(problem).question_count == 2


def test_scenarios_have_finer_steps_between_them_too():
    scenarios = [{"name": "alone"}, {"name": "all", "kind": "population", "shares": [1, 3]}]
    problem = problem_of({"scenarios": scenarios, "refine": 1})
    assert problem.weight_steps == ("alone", "0.5 alone + 0.5 all", "all")
    middle = problem.weights[:2, step_columns(problem)[:, 1]]
    assert middle == pytest.approx((identity(2) + population([1, 3])) / 2)


def test_every_question_that_may_be_asked_has_its_share_of_delta_before_the_study():
    """The line M / delta, and what the pairs of a question start with: errors of all of them add up to delta."""
    problem = problem_of(FINER, noise=PAIR["noise"], largest_gap=2.0)
    policy = make_policy("evidence", problem)
    assert int(problem.finer.sum()) == 12
    spent = np.exp(log_parts(problem) - policy.line)[problem.questions]
    assert spent.sum() == pytest.approx(problem.delta)
    assert spent[problem.finer[problem.questions]].sum() == pytest.approx(0.2 * problem.delta)
    # The study is closed: before the first phase, the pairs of a column hold no more than that.
    others = ~np.eye(3, dtype=np.bool_)[..., None]
    held = np.where(others, np.exp(policy.start().log_pairs - policy.line), 0.0).sum(axis=-3).max(axis=-2)
    assert (held <= np.exp(log_parts(problem) - policy.line) * (1 + 1e-9)).all()


def run_of(weights, means, seed=1):
    study = parse_study(PAIR | {"weights": weights, "largest_gap": 6.0, "truth": {"means": means}})
    policy = make_policy("evidence", study.problem)
    run = list(phases(policy, study.instance, seed=seed))
    answered = np.isin(policy.statuses(run[-1].after), ["decided", "accepted"])
    return study.problem, policy, run, answered


def test_a_finer_step_is_told_where_its_neighbours_differ_and_follows_from_them_elsewhere():
    # For x: A is best at alpha 0.3, B at 0.7, and C midway; for y it is A throughout.
    problem, _, run, answered = run_of(DOUBT | {"steps": 2, "refine": 1}, [[-0.1, 3.9], [1.9, -2.1], [1.1, 1.1]])
    x, y = weight_maps(problem, run[-1].after.answers, answered)
    assert answered.all()
    assert x.steps == ("alpha 0.3", "alpha 0.5", "alpha 0.7")
    assert x.arms == (("A",), ("C",), ("B",))
    assert y.steps == ("alpha 0.3", "alpha 0.7")
    assert y.arms == (("A",), ("A",))


def test_a_finer_step_costs_no_draw_while_its_neighbours_have_no_answer():
    """Were it asked from the start, its smaller share of delta would make every study longer."""
    means = [[0.5, 0.5], [0.4, 0.3], [0.1, 0.1]]
    _, policy, run, _ = run_of(DOUBT | {"steps": 2, "refine": 1}, means)
    state = run[0].after
    losing = policy._worth_drawing(state, policy.contrasts(state)).losing.any(axis=(0, 1))
    assert losing[~policy.problem.finer].any()
    assert not losing[policy.problem.finer].any()
    answered_in = [int(np.flatnonzero([phase.after.active[:, place].sum() == 1 for phase in run])[0])
                   for place in range(policy.problem.agent_count)]  # fmt: skip
    for place, one, other in halfway(policy.problem)[0]:
        assert answered_in[place] <= max(answered_in[one], answered_in[other])
    assert (run[-1].after.active == run[-1].after.active[:, :1]).all()


def test_nothing_follows_for_weights_that_do_not_lie_between_those_of_the_neighbours():
    problem = problem_of(DOUBT | {"steps": 2, "refine": 1})
    moved = problem.weights.copy()
    place = int(np.flatnonzero(problem.finer)[0])
    moved[:2, place] = [0.0, 1.0]
    assert place in halfway(problem)[0][:, 0]
    assert place not in halfway(problem.with_(weights=moved))[0][:, 0]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (DOUBT | {"refine": 7}, "weights.refine: found 7"),
        (DOUBT | {"steps": 20, "refine": 4}, "weights.refine: found 4, which makes 305 of 20 steps"),
        ({"kind": "personalized", "alpha": 0.5, "refine": 1}, "weights.refine: found 1; allowed: only with"),
    ],
)
def test_finer_steps_that_cannot_be_are_named(weights, words):
    with pytest.raises(InvalidInput, match=words):
        parse_study(STUDY | {"weights": weights})


def test_a_problem_has_all_steps_that_its_halvings_make():
    with pytest.raises(InvalidInput, match=r"weight_refine: found 2 halvings of 3 steps, tolerance 0\.1"):
        problem_of(DOUBT | {"steps": 3}).with_(weight_refine=2)
    with pytest.raises(InvalidInput, match="tolerance 0; allowed"):
        problem_of(FINER).with_(tolerance=0.0)


def test_finer_steps_have_further_outcomes_and_bounds(tmp_path):
    """Neither knows a tolerance, without which there are no steps: theirs are those of the exact question."""
    harm = {"name": "harm", "kind": "binary", "better": "lower", "role": "guardrail", "margin": 0.1, "delta": 0.05}
    study = PAIR | {"weights": FINER, "control": "A", "outcomes": [harm]}
    policy = make_policy("evidence", parse_study(study).problem)
    assert policy.plan(policy.start()).any()
    file = tmp_path / "study.toml"
    file.write_text(toml_text(PAIR | {"weights": FINER, "truth": {"means": [[0.5, 0.4], [0.2, 0.1], [0.0, 0.3]]}}))
    told = CliRunner().invoke(bounds_command, [str(file), "--json"])
    assert told.exit_code == 0, told.output
