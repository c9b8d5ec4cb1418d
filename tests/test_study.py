import re
from pathlib import Path

import numpy as np
import pytest
from tests.support import paper_study

from parley.bounds import Guarantee
from parley.errors import InvalidInput, InvalidStudy
from parley.policies import make_policy
from parley.study import NEIGHBOURS, SECTIONS, load_study, parse_study
from parley.weights import WEIGHT_KEYS

ROOT = Path(__file__).parents[1]
GOOD = {"arms": ["p", "A", "B"], "agents": ["Paris", "Lille"], "weights": {"kind": "personalized", "alpha": 0.5}}


PAST = [(site, arm, mean) for site in GOOD["agents"] for arm, mean in (("p", 20.0), ("A", 22.5), ("B", 10.0))]


def test_the_paper_instance_is_the_second_draw_of_its_recipe():
    generator = np.random.RandomState(0)
    generator.normal(0, 1, (6, 3))
    second = generator.normal(0, 1, (6, 3))
    for alpha in (0.4, 0.5, 0.6, 0.7):
        assert paper_study(alpha).instance.means == pytest.approx(second / np.linalg.norm(second))


def test_per_agent_random_alphas_are_reproducible():
    document = GOOD | {"weights": {"kind": "personalized", "alpha": "random", "seed": 3}}
    first, second = parse_study(document).problem.weights, parse_study(document).problem.weights
    assert (first == second).all()
    alphas = np.diag(first) - np.array([first[1, 0], first[0, 1]])
    assert alphas[0] != alphas[1]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"armz": 3}, "key: found 'armz'; allowed: one of agents, answers, arms"),
        (
            {"weights": {"kind": "personalized", "alpha": 0.5, "labels": ["a"]}},
            "'labels'; allowed: one of alpha, alpha_range",
        ),
        ({"weights": {"kind": "personalised"}}, "weights.kind: found 'personalised'; allowed: one of clusters"),
        ({"weights": {"kind": "clusters"}}, "weights.labels: found nothing"),
        ({"weights": {"kind": "matrix", "matrix": [[1, 0], [0.5, 1]]}}, "column 0 sums to 1.5"),
        ({"weights": {"kind": "matrix", "matrix": [[1, 0], [0.5]]}}, "rows of different lengths"),
        ({"weights": {"kind": "matrix", "file": "nowhere.csv"}}, "no file at nowhere.csv"),
        ({"weights": {"kind": "personalized", "alpha": "lots"}}, "weights.alpha: found 'lots'"),
        ({"weights": {"kind": "personalized", "alpha": 0.5, "seed": 1}}, "seed = 1 with alpha = 0.5"),
        ({"noise": {"kind": "gaussian", "sigma": 1}}, r"key in \[noise\]: found 'sigma'"),
        ({"noise": {"scale": "big"}}, "noise.scale: found 'big'; allowed: a number"),
        ({"delta": "small"}, "delta: found 'small'; allowed: a number"),
        ({"delta": True}, "delta: found True; allowed: a number"),
        ({"top": 1.5}, "top: found 1.5; allowed: a whole number"),
        ({"truth": {"generate": "magic"}}, "truth.generate: found 'magic'; allowed: one of paper"),
        ({"truth": {"seed": 1}}, "truth: found seed; allowed: means, generate or data"),
        ({"truth": {"means": [[0, 1]], "seed": 1}}, "only one of means, generate, data"),
        ({"truth": {"generate": "paper", "min_gap": 5.0}}, "which none of 10,000 random instances"),
        ({"agents": 0}, "agents: found 0"),
        ({"privacy": 5}, "privacy: found 5; allowed: a section"),
        ({"privacy": {"cell": 5}}, r"key in \[privacy\]: found 'cell'; allowed: one of minimum_cell"),
        ({"privacy": {"minimum_cell": 2.5}}, "privacy.minimum_cell: found 2.5; allowed: a whole number"),
        ({"privacy": {"minimum_cell": True}}, "privacy.minimum_cell: found True; allowed: a whole number"),
        ({"privacy": {"minimum_cell": 0}}, "minimum_cell: found 0; allowed: from 1 to 1,000,000"),
        ({"privacy": {"minimum_cell": 10**30}}, "minimum_cell: found a huge number; allowed: from 1"),
        ({"policy": {"name": 3}}, "policy.name: found 3; allowed: text"),
    ],
)
def test_bad_documents_are_named(changes, says):
    with pytest.raises(InvalidInput, match=says):
        parse_study(GOOD | changes)


@pytest.mark.parametrize("key", ["arms", "agents"])
def test_what_is_required_is_said(key):
    with pytest.raises(InvalidInput, match=f"{key}: found nothing"):
        parse_study({name: value for name, value in GOOD.items() if name != key})


def test_errors_of_a_file_start_with_its_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("arms = 2\nagents = [")
    with pytest.raises(InvalidStudy, match=r"mine.toml: TOML: found"):
        load_study(path)
    path.write_text("arms = 2\nagents = 2\ndelta = 7")
    with pytest.raises(InvalidStudy, match=r"mine.toml: delta: found 7.0"):
        load_study(path)
    with pytest.raises(InvalidInput, match="no file at"):
        load_study(tmp_path / "none.toml")


def test_a_weights_file_is_found_beside_the_study(tmp_path):
    (tmp_path / "w.csv").write_text("0.9,0.4\n0.1,0.6\n")
    (tmp_path / "s.toml").write_text('arms = 2\nagents = 2\n[weights]\nkind = "matrix"\nfile = "w.csv"\n')
    assert load_study(tmp_path / "s.toml").problem.weights[0, 1] == pytest.approx(0.4)


def test_a_minimum_cell_is_of_the_problem_and_one_unless_asked():
    assert parse_study(GOOD).problem.minimum_cell == parse_study(GOOD | {"privacy": {}}).problem.minimum_cell == 1
    assert parse_study(GOOD | {"privacy": {"minimum_cell": 5}}).problem.minimum_cell == 5


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"budget": 900}, "Did you mean max_samples?"),
        ({"epsilon": 0.1}, "Did you mean tolerance?"),
        ({"alpha": 0.05}, "Did you mean delta, or alpha in [weights]?"),
        ({"N": 2}, "Did you mean top, or max_samples?"),
        ({"sigma": 1.0}, "Did you mean scale in [noise]?"),
        ({"minimum_cell": 5}, "Did you mean minimum_cell in [privacy]?"),
        ({"noise": {"sigma": 1.0}}, "Did you mean scale?"),
        ({"truth": {"top": 1, "generate": "paper"}}, "Did you mean top, outside of any section?"),
        ({"margin": 0.02}, "Did you mean tolerance, or margin in [[outcomes]]?"),
        ({"dleta": 0.1}, "Did you mean delta?"),
    ],
)
def test_a_key_that_people_guess_names_the_one_that_is_meant(changes, hint):
    with pytest.raises(InvalidInput, match="found") as error:
        parse_study(GOOD | changes)
    assert error.value.hint == hint


def test_an_option_that_is_a_key_elsewhere_is_sent_there():
    problem = parse_study(GOOD).problem
    with pytest.raises(InvalidInput, match=r"option of the policy evidence.*Did you mean tolerance, outside of any"):
        make_policy("evidence", problem, {"epsilon": 0.1})


def test_what_neighbours_call_a_key_leads_to_one_that_is_there():
    for word, places in NEIGHBOURS.items():
        assert word == word.lower()
        for place in places:
            section, _, key = place.rpartition(".")
            assert key in SECTIONS[section], (word, place)
            assert word != key or section, f"{word} is a key itself"


def test_the_largest_gap_is_learned_from_means_that_are_stated():
    far = {"means": [[120.0, 80.0], [90.0, 70.0], [100.0, 95.3]]}
    for weights in ({"kind": "identity"}, {"kind": "personalized", "alpha": 0.3}):
        study = parse_study(GOOD | {"weights": weights, "noise": {"scale": 1.0}, "truth": far})
        assert study.problem.largest_gap == 30.0, "the range of an agent's means, whatever the weights"
        assert study.instance.problem is study.problem
        assert Guarantee.of(study.instance).rounds > 0
    near = {"means": [[0.2, 0.3], [0.1, 0.0], [0.0, 0.1]]}
    assert parse_study(GOOD | {"truth": near}).problem.largest_gap == 1.0, "nothing changes where nothing was wrong"
    bounded = {"kind": "bounded", "low": 0.0, "high": 200.0}
    assert parse_study(GOOD | {"truth": far, "noise": bounded}).problem.largest_gap == 200.0


def test_the_largest_gap_is_learned_from_the_range_of_past_data(tmp_path):
    rows = [f"{site},{arm},{mean + step}" for site, arm, mean in PAST for step in (-1.0, 0.0, 1.0)]
    (tmp_path / "past.csv").write_text("\n".join(["site,arm,y", *rows]) + "\n", encoding="utf-8")
    columns = {"agent": "site", "arm": "arm", "outcome": "y"}
    study = parse_study(GOOD | {"truth": {"data": "past.csv", "columns": columns}}, folder=tmp_path)
    assert study.problem.largest_gap == 13.0, "the mean of B is 12.5 below that of A in Paris"


def test_a_largest_gap_that_is_too_small_says_what_it_is_and_what_would_do():
    means = [[2.31, 0.0], [0.0, 0.1], [0.0, 0.2]]
    document = GOOD | {"weights": {"kind": "identity"}, "largest_gap": 0.5, "truth": {"means": means}}
    with pytest.raises(InvalidInput, match=r"largest_gap: found 0.5 with means that are 2.31 apart") as error:
        parse_study(document)
    assert "how far apart the mixed means of two arms can be" in error.value.hint
    assert "Leave it out" in error.value.hint
    assert error.value.hint.endswith("largest_gap = 2.4 would do")
    assert parse_study(document | {"largest_gap": 2.4}).problem.largest_gap == 2.4


def test_a_study_without_truth_says_what_is_missing():
    with pytest.raises(InvalidInput, match="a study without a"):
        parse_study(GOOD).require_truth()


def test_every_key_is_documented():
    page = (ROOT / "docs" / "study-file.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_.]+)` \|", page, flags=re.MULTILINE))
    keys = {f"{section}.{key}" if section else key for section, keys in SECTIONS.items() for key in keys}
    assert documented == keys - {"weights", "noise", "outcomes", "policy", "privacy", "truth"}
    assert all(f'`"{kind}"`' in page for kind in WEIGHT_KEYS)
