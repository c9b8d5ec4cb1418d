"""What a study asks for is spelled once, in a row of `StudySettings`. `make generated` rewrites the docs' tables."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import parley
from parley.errors import InvalidInput
from parley.policies import POLICIES, make_policy
from parley.problem import Problem
from parley.protocol import StudyMessage
from parley.settings import SETTINGS
from parley.study import parse_study


def test_every_setting_has_words_and_a_default_that_it_takes():
    usual = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]])
    assert usual.non_default() == usual.descriptions() == {}
    assert usual.settings() == {name: row.default_value for name, row in SETTINGS.items()}
    for row in SETTINGS.values():
        assert row.meaning
        assert row.default
        seen = row.always_stored or row.name == "audience"  # by a heading, or by the words of every page
        assert row.sentence or seen, "what no heading shows is described where it is not the default"


def test_only_what_was_always_written_is_written_at_its_default():
    """A new setting changes no study's digest."""
    document = StudyMessage.of(parse_study({"arms": 3, "agents": 2})).to_json()
    first = {"name", "arms", "agents", "weights", "delta", "top", "largest_gap", "noise", "policy"}
    assert set(document) - {"schema"} == first


@pytest.mark.parametrize("key", ["terms", "tolerence"])
def test_a_document_with_an_unknown_key_is_refused_and_the_settings_are_listed(key):
    document = StudyMessage.of(parse_study({"arms": 3, "agents": 2})).to_json()
    with pytest.raises(InvalidInput, match=rf"{key}; allowed: .*minimum_cell") as caught:
        StudyMessage.from_json({**document, key: {}})
    assert "terms" not in caught.value.allowed


def test_a_problem_of_another_shape_keeps_its_settings():
    problem = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], delta=0.3, minimum_cell=7)
    other = problem.with_(weights=np.eye(4), agents=(), arms=5)
    assert other.non_default() == {"delta": 0.3, "minimum_cell": 7}


GOOD = {
    "arms": ["p", "A", "B"],
    "agents": 2,
    "noise": {"scale": 1.0},
    "weights": {"kind": "matrix", "matrix": [[0.7, 0.2], [0.3, 0.8]]},
}
# setting -> its place in the study file with a value, and the plain value that a problem and a document then have
TAKEN = [
    ("tolerance", {"tolerance": 1}, 1.0),
    ("max_samples", {"max_samples": 10_000}, 10_000),
    ("max_rounds", {"max_rounds": 3}, 3),
    ("control", {"control": "A"}, "A"),
    ("horizon", {"horizon": 500}, 500),
    ("horizon", {"horizon": "open"}, "open"),
    ("price", {"sampling": {"price": 3}}, 3.0),
    ("price", {"sampling": {"price": [1, 10]}}, [1.0, 10.0]),
    ("price", {"sampling": {"price": [[1, 10]] * 3}}, [1.0, 10.0]),
    ("price", {"sampling": {"price": [[2, 2]] * 3}}, 2.0),
    ("price", {"sampling": {"price": [[1, 10], [2, 10], [3, 10]]}}, [[1.0, 10.0], [2.0, 10.0], [3.0, 10.0]]),
    ("rho", {"privacy": {"rho": 0.05}, "noise": {"scale": 1.0, "clip": [-5, 5]}, "largest_gap": 1.0}, 0.05),
    ("rate", {"sampling": {"rate": [10, 3]}}, [10.0, 3.0]),
    ("rate", {"sampling": {"rate": 4}}, 4.0),
    ("site_counts", {"sites": {"counts": "flexible"}}, "flexible"),
    ("between", {"sites": {"between": "assign"}}, "assign"),
    ("grace_hours", {"sites": {"grace_hours": 24}}, 24.0),
    ("contact", {"sites": {"contact": "the trial office"}}, "the trial office"),
    ("key_pattern", {"sites": {"key_pattern": "BX-###"}}, "BX-###"),
    ("eligibility", {"sites": {"eligibility": ["Aged 18 or older?"]}}, ("Aged 18 or older?",)),
    ("masked", {"sites": {"masked": False}}, False),
    ("outcome_question", {"sites": {"question": "Closed after 14 days?"}}, "Closed after 14 days?"),
    ("outcome_words", {"sites": {"words": ["closed", "open"]}, "noise": {"kind": "binary"}}, ("closed", "open")),
    ("kits", {"sites": {"kits": True}}, True),
    ("show_answer", {"sites": {"show_answer": True}}, True),
]


@pytest.mark.parametrize(("name", "keys", "value"), TAKEN)
def test_a_setting_is_read_kept_stored_and_described(name, keys, value, monkeypatch):
    study = parse_study(GOOD | keys | {"policy": {"name": "evidence"}})
    assert study.problem.non_default() == {name: value}
    assert list(study.problem.descriptions()) == [SETTINGS[name].place]
    monkeypatch.setattr(POLICIES["evidence"], "supports", frozenset())
    if SETTINGS[name].affects_decisions:
        with pytest.raises(InvalidInput, match=f"{SETTINGS[name].place}: .*since the policy evidence does not support"):
            StudyMessage.of(study)
    monkeypatch.setattr(POLICIES["evidence"], "supports", frozenset({name}))
    message = StudyMessage.of(study)
    again = StudyMessage.read(message.text)
    assert again == message
    assert again.to_json()[name] == (list(value) if isinstance(value, tuple) else value)
    assert again.problem.non_default() == {name: value}
    assert message.digest != StudyMessage.of(parse_study(GOOD)).digest


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("name", "keys"), [(name, keys) for name, keys, _ in TAKEN if SETTINGS[name].affects_decisions]
)
def test_every_policy_supports_a_setting_or_refuses_it_by_name(policy, name, keys):
    weights = {"weights": {"kind": "personalized", "alpha": 0.4}}  # which every policy knows
    playing = {"horizon": 500} if "horizon" in POLICIES[policy].supports else {}
    study = parse_study(GOOD | weights | playing | keys | {"truth": {"generate": "paper", "min_gap": 0.01}})
    if keys == {"horizon": "open"} and playing and policy != "evidence-regret":
        with pytest.raises(InvalidInput, match=f"a number of draws per agent, with the policy {policy}"):
            make_policy(policy, study.problem, {}, study.instance)
        return
    if name in POLICIES[policy].supports:
        assert make_policy(policy, study.problem, {}, study.instance).problem is study.problem
        return
    with pytest.raises(InvalidInput, match=f"the policy {policy} does not support {SETTINGS[name].place}"):
        make_policy(policy, study.problem, {}, study.instance)


def test_prices_and_rates_are_arrays_that_cannot_be_changed():
    problem = parse_study(GOOD | {"sampling": {"price": [1, 10], "rate": 4}}).problem
    assert problem.price.tolist() == [[1.0, 10.0]] * 3
    assert problem.rate.tolist() == [4.0, 4.0]
    for array in (problem.price, problem.rate):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7
    assert parse_study(GOOD).problem.price.tolist() == [[1.0, 1.0]] * 3
    assert pickle.loads(pickle.dumps(problem)).non_default() == problem.non_default()
    assert problem.with_(price=2.0, weights=np.eye(4), agents=(), arms=5).price.shape == (5, 4)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"tolerance": -0.1}, "tolerance: found -0.1; allowed: a number of at least 0"),
        ({"tolerance": float("nan")}, "tolerance: found nan"),
        ({"max_samples": 0}, "max_samples: found 0; allowed: from 1 to"),
        ({"max_samples": 1e6}, "max_samples: found 1000000.0; allowed: a whole number"),
        ({"max_rounds": True}, "max_rounds: found True; allowed: a whole number"),
        ({"control": "placebo"}, "control: found 'placebo'; allowed: the name of an arm: p, A, B"),
        ({"audience": "trail"}, 'audience: found \'trail\'; allowed: "trial" or "experiment" or "bandit"'),
        ({"dormant": ["C"]}, "dormant: found 'C'; allowed: the name of an arm: p, A, B"),
        ({"dormant": ["A", "A"]}, r"dormant: found \['A', 'A'\]; allowed: a list of names of arms, each once"),
        ({"dormant": "A"}, "dormant: found 'A'; allowed: a list"),
        ({"dormant": ["A", "B"]}, "dormant: found A, B, 1 of 3 arms open; allowed: at least 2 open arms"),
        ({"horizon": "long"}, "horizon: found 'long'; allowed: a whole number or \"open\""),
        ({"horizon": -3}, "horizon: found -3; allowed: from 1"),
        ({"sampling": {"price": [1, 2, 3]}}, r"price: found numbers of shape \(3,\); allowed: a number, 2 numbers"),
        ({"sampling": {"price": [[1, 2], [3]]}}, "price: found rows of different lengths"),
        ({"sampling": {"price": 0}}, "price: found 0; allowed: numbers above 0, or 0 together with sampling.day_cost"),
        ({"sampling": {"price": "dear"}}, "sampling.price: found 'dear'; allowed: a number or a list"),
        ({"sampling": {"rate": [[1, 2]] * 3}}, r"rate: found numbers of shape \(3, 2\); allowed: a number or 2"),
        ({"sampling": {"rate": [-1, 2]}}, "rate: found -1; allowed: 0, or numbers from 1e-60"),
        ({"sampling": {"rate": [float("inf"), 2]}}, "rate: found inf"),
        ({"sampling": {"day_cost": 5}}, "sampling.day_cost: found 5.0; allowed: 0.0 without sampling.rate"),
        ({"sampling": {"round_days": 2.5}}, "sampling.round_days: found 2.5; allowed: 0.0 without sampling.rate"),
        (
            {"sampling": {"speed": 5}},
            r"key in \[sampling\]: found 'speed'; allowed: one of day_cost, delay, dropout, price, price_unit",
        ),
        ({"sites": {"counts": "any"}}, 'sites.counts: found \'any\'; allowed: "exact" or "flexible"'),
        ({"sites": {"between": "any"}}, "sites.between: found 'any'; allowed: "),
        ({"sites": {"grace_hours": -1}}, "sites.grace_hours: found -1.0; allowed: a number from 0 to 720"),
        ({"sites": {"contact": "a\nb"}}, "sites.contact: found 'a.*; allowed: one line of 1 to 200 characters"),
        ({"sites": {"key_pattern": "BX-001"}}, "sites.key_pattern: found 'BX-001'; allowed: a key with # for every"),
        ({"sites": {"masked": 0}}, "sites.masked: found 0; allowed: true or false"),
        ({"sites": {"eligibility": [" "]}}, r"sites.eligibility: found .*; allowed: up to 10 questions of up to 200"),
        ({"sites": {"words": ["y", "n"]}}, "sites.words: found .*; allowed: nothing: these outcomes are not 0 or 1"),
        (
            {"sites": {"words": ["closed", "Closed"]}, "noise": {"kind": "binary"}},
            "sites.words: found .*; allowed: two different words of up to 40 characters, for 1 and for 0",
        ),
        ({"sites": {"show_answer": 1}}, "sites.show_answer: found 1; allowed: true or false"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(keys, says):
    with pytest.raises(InvalidInput, match=says):
        parse_study(GOOD | keys)


@pytest.mark.parametrize("wrong", [[], {}, [None], [[[1.0]]], "x", True, -1, 10**400])
@pytest.mark.parametrize("name", SETTINGS)
def test_no_odd_value_on_the_wire_is_taken_or_crashes(name, wrong):
    """Of those below, a setting of free text takes only the text, and a switch only `true`: as they are."""
    document, kinds = StudyMessage.of(parse_study(GOOD)).to_json(), SETTINGS[name].kinds
    try:
        message = StudyMessage.from_json({**document, name: wrong})
    except InvalidInput:
        return
    assert kinds == (type(wrong),), "nothing but what its row says"
    if kinds == (list,):  # of names: none are as usual
        assert (wrong, message.problem.settings()[name]) == ([], SETTINGS[name].default_value)
        return
    assert type(wrong) in (str, bool), "numbers and lists have bounds"
    assert message.problem.settings()[name] == wrong
    if wrong == SETTINGS[name].default_value:
        return
    said = message.problem.descriptions()[SETTINGS[name].place]
    assert said if wrong is True else wrong in said, "that a switch is on goes without its value"


def test_a_switch_and_a_free_text_can_be_settings():
    rows = [replace(SETTINGS["control"], sentence="it is {value}", kinds=(kind,)) for kind in (bool, str)]
    assert [row.describe(value) for row, value in zip(rows, (True, "x"), strict=True)] == ["it is True", "it is x"]


@pytest.mark.parametrize("keys", [{"tolerance": 0.1}])
def test_a_lower_bound_is_not_given_for_another_question(keys):
    study = parse_study(GOOD | keys | {"truth": {"generate": "paper", "min_gap": 0.01}})
    with pytest.raises(InvalidInput, match="the lower bound does not support"):
        parley.lower_bounds(study.instance)


def test_many_numbers_are_described_by_their_span_and_equal_ones_once():
    price = SETTINGS["price"]
    assert price.describe(np.array([[2.0, 40.0]])) == "a draw costs from 2 to 40"
    assert price.describe(np.array([[3.0, 3.0]])) == price.describe(3.0) == "a draw costs 3"
    assert "from 1 to 30" in SETTINGS["delay"].describe(np.array([1.0, 30.0]))


@pytest.mark.parametrize(
    ("policy", "keys", "says"),
    [
        (
            "wcpe",
            {"horizon": 500},
            "horizon: found 500; allowed: no value, since the policy wcpe does not support horizon",
        ),
        ("oracle", {"tolerance": 0.1}, "tolerance: found 0.1; allowed: 0.0, since the policy oracle does not support"),
        (
            "oracle",
            {"sites": {"counts": "flexible"}},
            "found 'flexible'; allowed: 'exact' or no value, since the policy",
        ),
    ],
)
def test_a_refusal_reads_as_a_sentence(policy, keys, says):
    study = parse_study(GOOD | keys | {"truth": {"generate": "paper", "min_gap": 0.01}})
    with pytest.raises(InvalidInput) as caught:
        make_policy(policy, study.problem, {}, study.instance)
    assert says in str(caught.value)
