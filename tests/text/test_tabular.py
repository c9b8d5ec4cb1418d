"""Results as frames, tables of notebooks, short reprs and pictures: every kind the same way, from its columns."""

import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.support import paper_study

import parley
from parley.errors import InvalidInput, MissingPackage, UnknownName
from parley.experiments.forecasts.forecast import simulate_rest
from parley.experiments.forecasts.planning import Planner, make_plan
from parley.experiments.forecasts.scenarios import gap_scenario
from parley.text import tabular

STUDY = paper_study(0.5)
KINDS = ("problem", "instance", "bounds", "bound", "outcome", "draws", "regret", "plan", "forecast")


@pytest.fixture(scope="module")
def results():
    """One result of every kind."""
    problem, instance = STUDY.problem, STUDY.instance
    policy = parley.make_policy("evidence", problem)
    outcome = parley.simulate(policy, instance, replications=20, seed=0)
    bounds = parley.lower_bounds(instance)
    small = parley.Problem(arms=["<A>", "B"], agents=["Paris"], weights=[[1.0]])
    playing = small.with_(horizon=200)
    played = parley.Instance(problem=playing, means=[[1.0], [0.0]])
    planner = Planner(policy="evidence", options={}, replications=4, seed=0)
    first = next(iter(parley.phases(policy, instance, seed=0))).after
    return {
        "problem": problem,
        "instance": instance,
        "bounds": bounds,
        "bound": bounds.bai,
        "outcome": outcome,
        "draws": outcome.mean_draws,
        "regret": parley.simulate(parley.make_policy("evidence-regret", playing), played, replications=5, seed=0),
        "plan": make_plan(planner, small, [gap_scenario(small, 0.5), gap_scenario(small, 0.4)]),
        "forecast": simulate_rest(policy, first, continuations=6, seed=0),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_frame_a_table_a_line_and_a_picture(results, kind):
    result = results[kind]
    frame = result.to_frame("pandas")
    assert len(frame) == result.row_count > 0
    assert list(frame.columns) == list(result.columns())
    assert result.headline in repr(result)
    assert len(repr(result)) < 160

    html = result._repr_html_()
    assert html.count("<tr>") == 1 + min(result.row_count, tabular.MOST_ROWS)
    assert ("more row" in html) == (result.row_count > tabular.MOST_ROWS)
    assert "<A>" not in html, "names are escaped"

    panel = Figure().subplots()
    assert result.plot(axes=panel) is panel
    assert panel.get_title() == result.headline
    numbers = [name for name, column in frame.items() if column.dtype.kind in "ifb"]
    assert result.plot(numbers[-1], axes=Figure().subplots()) is not None
    with pytest.raises(InvalidInput, match="values: found 'colour'; allowed: a column of numbers: "):
        result.plot("colour", axes=panel)


@pytest.mark.engines
@pytest.mark.parametrize("kind", KINDS)
def test_pandas_and_polars_hold_the_same(results, kind):
    one, other = results[kind].to_frame("pandas"), results[kind].to_frame("polars")
    assert one.to_dict("list") == other.to_dict(as_series=False)


def test_the_numbers_are_those_of_the_result(results):
    outcome, instance, bounds = (results[kind] for kind in ("outcome", "instance", "bounds"))
    frame = outcome.to_frame()
    assert frame["cost"].tolist() == outcome.costs.tolist()
    assert frame["mistaken"].mean() == outcome.error_rate
    names = np.array(STUDY.problem.arms)
    for place, agent in enumerate(STUDY.problem.agents):
        assert frame[f"answer of {agent}"].tolist() == names[outcome.chosen[:, 0, place]].tolist()
    cells = instance.to_frame().set_index(["arm", "agent"])
    arm, agent = STUDY.problem.arms[4], STUDY.problem.agents[1]
    assert cells.loc[(arm, agent), "mixed_mean"] == instance.mixed_means[4, 1]
    weights = results["problem"].with_(weights=[[0.7, 0.2, 0.1], [0.3, 0.8, 0.4], [0.0, 0.0, 0.5]]).to_frame()
    pivot = weights.pivot_table(index="agent", columns="mix_of", values="weight", sort=False)
    assert pivot.to_numpy().tolist() == [[0.7, 0.2, 0.1], [0.3, 0.8, 0.4], [0.0, 0.0, 0.5]]
    assert bounds.to_frame().set_index("bound").loc["bai", "value"] == bounds.bai.value
    allocation = bounds.bai.to_frame().set_index(["arm", "agent"])["allocation"]
    assert allocation[arm, agent] == bounds.bai.allocation[4, 1]


def test_several_answers_are_joined_and_none_is_empty():
    problem = STUDY.problem.with_(top=2, max_samples=300)
    instance = parley.Instance(problem=problem, means=STUDY.instance.means)
    frame = parley.simulate(parley.make_policy("evidence", problem), instance, replications=8, seed=0).to_frame()
    first = frame[f"answer of {problem.agents[0]}"]
    for answer, finished in zip(first, frame["finished"], strict=True):
        assert len(answer.split(", ")) == 2 if finished else answer == ""
    assert not frame["finished"].all()


def test_without_either_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(tabular, "find_spec", lambda _: None)
    with pytest.raises(MissingPackage, match=re.escape("to_frame(): found no package pandas or polars; ")) as error:
        STUDY.problem.to_frame()
    assert "'.[experiments]'" in str(error.value)
    with pytest.raises(MissingPackage, match=re.escape("'.[polars]'")):
        STUDY.problem.to_frame("polars")
    with pytest.raises(UnknownName, match="package: found 'panda'; allowed: one of pandas, polars"):
        STUDY.problem.to_frame("panda")


def test_polars_is_taken_where_pandas_is_not_installed(monkeypatch):
    monkeypatch.setattr(tabular, "find_spec", lambda name: name == "polars")
    monkeypatch.setattr(tabular, "need", lambda name, **_: type("Package", (), {"DataFrame": lambda _: name}))
    assert STUDY.problem.to_frame() == "polars"


def test_a_huge_problem_shows_its_line_only():
    problem = parley.Problem(arms=2, weights=np.eye(400))
    assert problem._repr_html_().count("<td>") == 0
    assert "2 arms, 400 agents" in problem._repr_html_()


def test_nothing_heavy_is_imported_before_it_is_asked_for():
    code = (
        "import sys, parley; shown = parley.Problem(arms=2, weights=[[1.0]]); shown._repr_html_(); repr(shown); "
        "found = {'pandas', 'polars', 'matplotlib', 'html'} & set(sys.modules); assert not found - {'html'}, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
