"""Questions beside the sites' own, and sites that ask nothing: the study file, the numerics, bad input."""

from pathlib import Path

import numpy as np
import pytest

from parley.bounds import lower_bounds
from parley.errors import InvalidInput, UnknownName
from parley.policies import make_policy
from parley.policies.evidence.plan import is_closed
from parley.problem import Instance, Problem
from parley.protocol import StudyMessage
from parley.simulation import phases, simulate
from parley.study import load_study, parse_study

SITES = ["Paris", "Lille", "Lyon"]
COUNTRY = {"name": "country", "weights": {"Paris": 0.3, "Lille": 0.4, "Lyon": 0.3}}
MEANS = [[0.9, 0.5, 0.1], [0.2, 0.6, 0.4], [0.0, 0.1, 0.2]]


def study(**more):
    return {"arms": ["A", "B", "C"], "agents": SITES, "questions": [COUNTRY], "truth": {"means": MEANS}} | more


def known(**more):
    return study(noise={"kind": "gaussian", "scale": 1.0}, **more)


def test_a_question_is_an_agent_that_only_asks():
    problem = parse_study(study()).problem
    assert problem.agents == (*SITES, "country")
    assert problem.sites == tuple(SITES)
    assert problem.askers == (*SITES, "country")
    assert problem.weights[:3, 3].tolist() == [0.3, 0.4, 0.3]
    assert not problem.weights[3].any()
    assert problem.question_count == 4


def test_a_study_without_questions_is_what_it_was():
    """Not a bit of a square W changes: the document has no new key, and the problem the matrix of the builder."""
    plain = {"arms": 3, "agents": 3, "weights": {"kind": "personalized", "alpha": 0.3}, "truth": {"generate": "paper"}}
    asked = plain | {"questions": [{"name": "all", "weights": "population", "shares": [1, 2, 1]}]}
    one, more = parse_study(plain), parse_study(asked)
    assert set(StudyMessage.of(one).to_json()).isdisjoint({"asks_only", "draws_only", "weight_steps"})
    assert (more.problem.weights[:3, :3] == one.problem.weights).all()
    assert (more.instance.means[:, :3] == one.instance.means).all()  # the truth of the sites is the same truth


@pytest.mark.parametrize("policy", ["evidence", "wcpe", "uniform", "oracle"])
def test_three_sites_and_the_country_are_answered_and_nobody_draws_for_the_country(policy):
    found = parse_study(known())
    chosen = make_policy(policy, found.problem, {}, found.instance)
    run = list(phases(chosen, found.instance, seed=1))
    assert all(not phase.quotas[:, 3].any() for phase in run)
    assert run[-1].after.finished
    outcome = simulate(chosen, found.instance, replications=20, seed=0)
    assert outcome.error_rate <= 0.1
    assert (outcome.statuses == "decided").all()
    assert outcome.draws[:, 3].sum() == 0


def test_policies_that_need_other_weights_say_so():
    with pytest.raises(InvalidInput, match="personalized weights"):
        make_policy("pf-ucb-bai", parse_study(known()).problem)


def test_bounds_of_a_question_that_another_asks_already_cost_nothing():
    alone = parse_study(known(questions=[])).instance
    copy = parse_study(known(questions=[{"name": "as Lille", "weights": {"Lille": 1.0}}])).instance
    asked = parse_study(known()).instance
    same, more = lower_bounds(copy), lower_bounds(asked)
    for name in ("bai", "bai_relaxed", "regret", "regret_relaxed"):
        assert getattr(same, name).value == pytest.approx(getattr(lower_bounds(alone), name).value, rel=1e-6)
        assert getattr(more, name).value >= getattr(same, name).value * (1 - 1e-6)
        assert getattr(more, name).gap < 1e-8
        assert not getattr(more, name).allocation[:, 3].any()


def test_sites_that_ask_nothing_cost_no_share_of_delta_and_are_drawn():
    only = parse_study(known(sites={"asks": False}))
    problem = only.problem
    assert problem.draws_only == tuple(SITES)
    assert problem.question_count == 1
    assert (problem.weights == problem.weights[:, 3:]).all()  # a copy of the one question, which costs nothing
    policy = make_policy("evidence", problem)
    assert policy.line == pytest.approx(np.log(1 / 0.1))
    last = list(phases(policy, only.instance, seed=0))[-1].after
    assert policy.statuses(last).tolist() == ["unasked"] * 3 + ["decided"]
    assert set(policy.arm_statuses(last)[:, 0]) == {"left"}
    assert last.counts[:, :3].all()


def test_one_site_of_several_may_ask_nothing():
    problem = parse_study(known(sites={"asks": [True, False, True]})).problem
    assert problem.draws_only == ("Lille",)
    assert problem.question_count == 3
    assert (problem.weights[:, 1] == problem.weights[:, 0]).all()


def test_what_is_stated_per_site_needs_no_value_for_a_question():
    document = known(sampling={"price": [1, 2, 3], "rate": [10, 3, 1], "delay": [0, 1, 2]})
    problem = parse_study(document | {"noise": {"kind": "gaussian", "scale": [1.0, 2.0, 3.0]}}).problem
    assert problem.rate[:3].tolist() == [10, 3, 1]
    assert problem.noise.variance[:3].tolist() == [1, 4, 9]
    with pytest.raises(InvalidInput, match=r"sampling\.rate: found 4 for 3 sites; allowed: one per site"):
        parse_study(known(sampling={"rate": [10, 3, 1, 1]}))


def test_the_wire_and_the_file_are_one_problem(tmp_path):
    path = tmp_path / "country.toml"
    path.write_text(
        'arms = ["A", "B"]\nagents = ["Paris", "Lyon"]\n[sites]\nasks = [true, false]\n'
        '[[questions]]\nname = "country"\nweights = "population"\nshares = [3, 1]\n'
    )
    loaded = load_study(path)
    message = StudyMessage.of(loaded)
    again = StudyMessage.read(message.text)
    assert again == message
    assert again.problem.asks_only == ("country",)
    assert again.problem.draws_only == ("Lyon",)
    assert (again.problem.weights == loaded.problem.weights).all()
    assert "country" in again.problem.descriptions()["questions"]


WRONG = [
    ({"questions": [COUNTRY | {"weights": {"Paris": 0.3}}]}, "weights of the question 'country': found a sum of 0.3"),
    ({"questions": [COUNTRY | {"weights": {"Paris": 1.5, "Lyon": -0.5}}]}, "found -0.5"),
    ({"questions": [COUNTRY | {"weights": {"Nice": 1.0}}]}, "found 'Nice', which is not a site; allowed: Paris, Lille"),
    ({"questions": [COUNTRY | {"name": "Lyon"}]}, "questions.name: found 'Lyon', which is a site too"),
    ({"questions": [COUNTRY, COUNTRY]}, "questions.name: found 'country', which is another question too"),
    ({"questions": [{"weights": {"Paris": 1}}]}, "questions.name: found nothing"),
    ({"questions": [{"name": "x"}]}, "weights of the question 'x': found nothing"),
    ({"questions": [{"name": "x", "weights": "population"}]}, "found no shares"),
    ({"questions": [{"name": "x", "weights": "population", "shares": [1, 2]}]}, "found 2 shares"),
    ({"questions": ["x"]}, "questions: found 'x'"),
    ({"questions": [], "sites": {"asks": False}}, "questions: found nobody who asks"),
    ({"sites": {"asks": [True]}}, "sites.asks: found 1 for 3 sites"),
    ({"horizon": 100}, "questions: found 'country' in a study with a horizon"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_what_is_wrong_is_named(wrong, words):
    with pytest.raises(InvalidInput) as caught:
        parse_study(study() | wrong)
    assert words in str(caught.value)


def test_an_unknown_key_or_word_is_named():
    with pytest.raises(UnknownName, match=r"key in \[questions\]: found 'weight'"):
        parse_study(study(questions=[COUNTRY | {"weight": 1}]))
    with pytest.raises(UnknownName, match="found 'equal'; allowed: one of population"):
        parse_study(study(questions=[COUNTRY | {"weights": "equal"}]))


def test_nobody_weighs_a_question():
    weights = [[1.0, 0.5], [0.0, 0.5]]
    with pytest.raises(InvalidInput, match="weights: found weight on 'agent 2', which only asks"):
        Problem(arms=2, weights=weights, asks_only=["agent 2"])


def test_the_example_is_such_a_study():
    """One file that shows all of it, and that docs/weights.md names."""
    found = load_study(Path(__file__).parents[1] / "examples" / "country.toml")
    assert found.problem.asks_only == ("country",)
    assert isinstance(found.instance, Instance)


@pytest.mark.simulations
def test_at_a_tie_of_one_question_alone_errors_stay_below_delta():
    """Two arms tie for the country and for nobody else; whoever rules one out is not wrong, whoever errs at a site is.

    `make questions` counts 20,000; here, and with the tie broken by a hair, a few.
    """
    means = np.array([[0.6, 0.4, 0.1], [0.4, 0.5, 0.4], [0.0, 0.0, 0.0]])
    shares = np.array([0.3, 0.4, 0.3])
    means[1] += (means[0] - means[1]) @ shares - 1e-4
    found = parse_study(known(truth={"means": means.tolist()}, max_samples=20_000))
    outcome = simulate(make_policy("evidence", found.problem), found.instance, replications=400, seed=0)
    assert outcome.error_rate <= 0.1


def test_joint_answers_and_closed_studies_count_distinct_questions():
    """A copy of another's question costs nothing; a new one has a share of delta, or is part of the joint answer."""
    copy = {"name": "as Lille", "weights": {"Lille": 1.0}}
    for more, count in (([], 3), ([copy], 3), ([copy, COUNTRY], 4)):
        each = make_policy("evidence", parse_study(known(questions=more, answers="each")).problem)
        closed = make_policy("evidence", parse_study(known(questions=more, tolerance=0.1, max_rounds=4)).problem)
        assert not each.together
        assert is_closed(closed.problem)
        assert each.line == closed.line == pytest.approx(np.log(count / 0.1))
        assert make_policy("evidence", parse_study(known(questions=more)).problem).line == pytest.approx(
            np.log(1 / 0.1)
        )
    alone = known(questions=[COUNTRY, COUNTRY | {"name": "again"}], sites={"asks": False})
    assert not make_policy("evidence", parse_study(alone).problem).together, "one question has no joint answer"


@pytest.mark.parametrize("more", [{}, {"tolerance": 0.1, "max_rounds": 4}])
def test_joint_and_closed_studies_answer_the_question(more):
    found = parse_study(known(**more))
    outcome = simulate(make_policy("evidence", found.problem), found.instance, replications=40, seed=2)
    assert outcome.error_rate <= 0.1
    assert np.isin(outcome.statuses, ["decided", "accepted"]).all()
