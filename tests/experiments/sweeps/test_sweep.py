"""Sweep files: what they multiply out to, and what they refuse."""

import copy

import pytest

from parley.errors import InvalidInput, InvalidStudy, UnknownName
from parley.experiments.sweeps.sweep import AXES, Cell, load_sweep, parse_sweep, run_cell

STUDY = {
    "arms": 4,
    "agents": 2,
    "largest_gap": 2.0,
    "weights": {"kind": "personalized", "alpha": 0.5},
    "noise": {"scale": 1.0},
    "policy": {"name": "wcpe", "accuracy": 1e-5},
    "truth": {"generate": "paper", "min_gap": 0.1},
}


def _sweep(axes, **more):
    return parse_sweep({"study": copy.deepcopy(STUDY), "axes": axes, **more})


def test_axes_multiply_out_in_the_order_of_the_file():
    sweep = _sweep({"delta": [0.1, 0.05], "alpha": [0.3, 0.6, 0.9]})
    assert [tuple(cell.axes.values()) for cell in sweep.cells] == [
        (delta, alpha) for delta in (0.1, 0.05) for alpha in (0.3, 0.6, 0.9)
    ]
    assert sweep.axes == ("delta", "alpha")
    assert sweep.cells[4].study["weights"]["alpha"] == 0.6


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ("alpha", [0.2, 0.8]),
        ("delta", [0.2, 0.01]),
        ("K", [3, 5]),
        ("M", [1, 3]),
        ("N", [1, 2]),
        ("policy", ["wcpe", "uniform", {"name": "wcpe", "threshold": "heuristic"}]),
        ("noise", ["gaussian", "subgaussian", {"kind": "bounded", "low": -1.0, "high": 1.0}]),
        ("seed", [0, 1]),
        ("weights", ["identity", {"label": "pooled", "kind": "population", "shares": [1, 2]}]),
        ("truth.min_gap", [0.1, 0.2]),
        ("largest_gap", [2, 4.0]),
        ("policy.accuracy", [1e-3, 1e-4]),
        ("weights.alpha", ["random", 0.5]),
    ],
)
def test_every_kind_of_axis_runs(axis, values):
    sweep = _sweep({axis: values}, replications=5)
    assert len({cell.key for cell in sweep.cells}) == len(values)
    for cell in sweep.cells:
        assert run_cell(cell).costs.samples.shape == (5,)


def test_sites_that_weigh_only_themselves_gain_nothing_whatever_a_covariate_explains():
    more = {"noise": {"scale": "unknown"}, "policy": {"name": "evidence"}, "weights": {"kind": "identity"}}
    more |= {"covariate": {"name": "age"}, "truth": STUDY["truth"] | {"covariate": {"correlation": 0.8}}}
    [cell] = parse_sweep({"study": copy.deepcopy(STUDY | more), "axes": {"delta": [0.1]}, "replications": 2}).cells
    found = run_cell(cell)
    assert found.isolated_bound == pytest.approx(found.lower_bound)


def test_the_short_names_are_tested():
    assert set(AXES) == {"alpha", "delta", "K", "M", "N", "policy", "noise", "seed", "weights"}


def test_options_of_one_policy_do_not_reach_another():
    sweep = _sweep({"policy": ["wcpe", "pf-ucb-bai"]})
    assert [cell.study["policy"] for cell in sweep.cells] == [
        {"name": "wcpe", "accuracy": 1e-5},
        {"name": "pf-ucb-bai"},
    ]
    assert [cell.policy for cell in sweep.cells] == ["wcpe", "pf-ucb-bai"]


def test_an_option_axis_reaches_the_policy_of_its_cell():
    sweep = _sweep({"policy.threshold": ["paper", "heuristic"], "policy": ["wcpe", "uniform"]})
    assert {cell.study["policy"]["threshold"] for cell in sweep.cells} == {"paper", "heuristic"}


def test_a_key_holds_everything_the_numbers_depend_on():
    cell = _sweep({"delta": [0.1]}).cells[0]
    same = {"study": cell.study, "axes": cell.axes, "replications": cell.replications, "seed": cell.seed}
    assert Cell(**same).key == cell.key
    for change in (
        {"seed": 1},
        {"replications": 7},
        {"environment": "gaussian"},
        {"max_samples": 10**9},
        {"study": {**cell.study, "delta": 0.2}},
    ):
        assert Cell(**{**same, **change}).key != cell.key
    assert Cell(**same, version="0.0.0").key != cell.key


def test_a_weights_file_counts_by_its_content(tmp_path):
    study = {**STUDY, "weights": {"kind": "matrix", "file": "w.csv"}}
    keys = []
    for content in ("0.7,0.3\n0.3,0.7\n", "0.6,0.4\n0.4,0.6\n"):
        (tmp_path / "w.csv").write_text(content)
        keys.append(parse_sweep({"study": study, "axes": {"delta": [0.1]}}, folder=tmp_path).cells[0].key)
    assert keys[0] != keys[1]
    axes = {"weights": ["identity", {"label": "file", "kind": "matrix", "file": "w.csv"}]}
    cell = parse_sweep({"study": study, "axes": axes}, folder=tmp_path).cells[1]
    assert cell.study["weights"] == {"kind": "matrix", "matrix": [[0.6, 0.4], [0.4, 0.6]]}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "study: found nothing"),
        ({"study": STUDY}, "axes: found none"),
        ({"study": STUDY, "axes": {}}, "axes: found none"),
        ({"study": STUDY, "axes": {"delta": []}}, "axes.delta: found an empty list"),
        ({"study": STUDY, "axes": {"delta": 0.1}}, "axes.delta: found 0.1; allowed: a list"),
        ({"study": STUDY, "axes": {"delta": ["small"]}}, "delta: found 'small'; allowed: a number"),
        ({"study": STUDY, "axes": {"delta": [0.1, 2.0]}}, "cell with delta = 2.0: delta: found 2.0"),
        ({"study": STUDY, "axes": {"delta": [0.1, 0.1]}}, "0.1 twice"),
        ({"study": STUDY, "axes": {"delta": [{"a": 1}]}}, "allowed: text, numbers"),
        ({"study": STUDY, "axes": {"epsilon": [1]}}, "axis: found 'epsilon'; allowed: one of K, M, N, alpha"),
        ({"study": STUDY, "axes": {"truth": [1]}}, "axis: found 'truth'"),
        ({"study": STUDY, "axes": {"weights.file": ["w.csv"]}}, "axis: found 'weights.file'"),
        ({"study": STUDY, "axes": {"truth.data": ["past.csv"]}}, "axis: found 'truth.data'"),
        ({"study": STUDY | {"truth": {"data": "past.csv"}}, "axes": {"delta": [0.1]}}, "truth.data: found 'past.csv'"),
        ({"study": STUDY, "axes": {"truth.colour": [1]}}, "axis: found 'truth.colour'"),
        ({"study": STUDY, "axes": {"policy.gain": [1]}}, "option of the policy wcpe: found 'gain'"),
        ({"study": STUDY, "axes": {"policy": ["best"]}}, "policy: found 'best'"),
        ({"study": STUDY, "axes": {"N": [1], "top": [1]}}, "N and top, which are the same"),
        ({"study": STUDY, "axes": {"delta": [0.1]}, "rows": "both"}, "rows: found 'both'"),
        ({"study": STUDY, "axes": {"delta": [0.1]}, "replications": 0}, "replications: found 0"),
        ({"study": STUDY, "axes": {"delta": [0.1]}, "replications": "many"}, "replications: found 'many'"),
        ({"study": STUDY, "axes": {"delta": [0.1]}, "speed": 1}, "key: found 'speed'"),
        ({"study": STUDY, "axes": {"delta": [0.1]}, "environment": "lunar"}, "environment: found 'lunar'"),
        (
            {"study": STUDY, "axes": {"delta": [0.1]}, "environment": "bernoulli"},
            "environment: found .bernoulli. for rewards of kind",
        ),
        ({"study": "nowhere.toml", "axes": {"delta": [0.1]}}, "no file at nowhere.toml"),
        ({"study": {"arms": 3, "agents": 2}, "axes": {"delta": [0.1]}}, "without a \\[truth\\]"),
        (
            {"study": STUDY, "axes": {"seed": list(range(1001)), "delta": [k / 2000 for k in range(1, 1001)]}},
            "1,001,000",
        ),
    ],
)
def test_what_a_sweep_refuses(document, message):
    with pytest.raises(InvalidInput, match=message):
        parse_sweep(document)


def test_errors_of_a_file_name_the_file(tmp_path):
    path = tmp_path / "odd.toml"
    path.write_text('study = "x.toml"\n[axes]\ngamma = [1]\n')
    with pytest.raises(InvalidStudy, match=r"odd.toml: study: found no file"):
        load_sweep(path)
    path.write_text("study = \n")
    with pytest.raises(InvalidStudy, match=r"odd.toml: TOML"):
        load_sweep(path)
    with pytest.raises(InvalidInput, match="no file at"):
        load_sweep(tmp_path / "none.toml")


def test_names_of_axes_are_listed():
    with pytest.raises(UnknownName, match=r"weights\.alpha"):
        _sweep({"": [1]})
