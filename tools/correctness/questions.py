"""Questions beside the sites' own: `python -m tools.correctness questions` (make questions), into docs/weights.md.

Measures error rates if only one question ties, whether maps of weights in doubt are right at every alpha of a grid, and
the cost of a further question, with a chart. An interrupted run is resumed: rows of docs/questions.json with enough
studies are kept.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tools.correctness.common import DOCS, SEED, in_parallel
from tools.pages import fill, table

from parley.bounds import bai
from parley.experiments.report_kit.charts import canvas
from parley.policies import make_policy
from parley.problem import BoolArray, FloatArray, Instance, IntArray, Problem
from parley.simulation import simulate
from parley.study import Study, parse_study
from parley.weight_map import stated_alone, step_columns
from parley.weights import personalized

PAGE, FIGURES, PICTURE = DOCS / "weights.md", DOCS / "questions.json", DOCS / "images" / "question-cost.png"
DELTA, GRID, LOW, HIGH = 0.1, 101, 0.3, 0.7
REFINE, FEWER = (0, 2), 40  # halvings tried; finer steps take longer, so they get fewer studies
SITES = ["Paris", "Lille", "Lyon"]
COUNTRY = {"name": "country", "weights": {"Paris": 0.3, "Lille": 0.4, "Lyon": 0.3}}
SCALES: dict[str, dict[str, Any]] = {
    "gaussian, known scale": {"kind": "gaussian", "scale": 1.0},
    "gaussian, unknown scale": {"kind": "gaussian", "scale": "unknown"},
}
ARMS = ["placebo", "A", "B", "C"]
# The best arm of Paris from alpha 0.3 to 0.7; in README's study no best arm changes.
TRUTHS = {
    "README's, it changes nowhere": [[0.1, 0.0, 0.2], [0.5, 0.6, 0.4], [0.3, 0.9, 0.2], [0.2, 0.1, 0.1]],
    "it changes once": [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.9, -0.3, -0.3], [0.1, 0.1, 0.1]],
    "it changes twice, C is best midway": [[0.0, 0.0, 0.0], [-0.4, 1.85, 1.85], [1.1, -1.15, -1.15], [0.5, 0.5, 0.5]],
}


def tied(noise: str, runs: int) -> dict[str, Any]:
    """The share of wrong studies if two arms almost tie for the country and differ clearly for the sites."""
    means = np.array([[0.7, 0.1, 0.1], [0.2, 0.6, 0.4], [0.0, 0.0, 0.0]])
    shares = np.array(list(COUNTRY["weights"].values()))  # type: ignore[attr-defined]
    means[1] += (means[0] - means[1]) @ shares - 1e-7
    asked = {"arms": ["A", "B", "C"], "agents": SITES, "questions": [COUNTRY], "delta": DELTA, "max_rounds": 12}
    study = parse_study(asked | {"noise": SCALES[noise], "truth": {"means": means.tolist()}})
    assert study.instance is not None
    found = simulate(make_policy("evidence", study.problem), study.instance, replications=runs, seed=SEED)
    return {"noise": noise, "studies": runs, "wrong": float(found.mistaken.mean())}


def in_doubt(truth: str, refine: int = 0) -> Study:
    """README's study with alpha in doubt, under one of the truths."""
    weights = {"kind": "personalized", "alpha_range": [LOW, HIGH], "steps": 5, "refine": refine}
    asked = {"arms": ARMS, "agents": SITES, "delta": DELTA, "tolerance": 0.1, "weights": weights}
    known = {"noise": SCALES["gaussian, known scale"], "largest_gap": 4.0}
    return parse_study(asked | known | {"truth": {"means": TRUTHS[truth]}})


def claims_right(problem: Problem, means: FloatArray, chosen: IntArray) -> BoolArray:
    """`(study,)`: whether the maps are right at every alpha of the grid; `chosen (study, agent)` is -1 if open.

    An independent implementation from the docs: it shares only the order of questions with `parley.weight_map`. Finer
    steps count as steps; those that follow from their neighbours have the same answer.
    """
    columns = step_columns(problem)
    sites, steps = columns.shape
    right = np.ones(len(chosen), dtype=np.bool_)
    local = means[:, :sites]
    for alpha in np.linspace(LOW, HIGH, GRID):
        mixed = local @ personalized(sites, alpha)
        good = mixed >= mixed.max(axis=0) - problem.tolerance
        place = (alpha - LOW) / (HIGH - LOW) * (steps - 1)
        before, after = int(np.floor(place + 1e-9)), int(np.ceil(place - 1e-9))
        for site in range(sites):
            one, other = chosen[:, columns[site, before]], chosen[:, columns[site, after]]
            claimed = (one == other) & (one >= 0)
            right &= ~claimed | good[one, site]
    return right


def studies_of(refine: int, runs: int) -> int:
    return runs // FEWER if refine else runs


def mapped(row: tuple[str, int], runs: int) -> dict[str, Any]:
    """How often all claims of a map are right, and its cost relative to alpha = 0.5 alone; `row` is (truth, refine)."""
    truth, refine = row
    runs = studies_of(refine, runs)
    study = in_doubt(truth, refine)
    assert study.instance is not None
    problem, instance = study.problem, study.instance
    found = simulate(make_policy("evidence", problem), instance, replications=runs, seed=SEED)
    single = Instance(problem=stated_alone(problem), means=instance.means)
    alone = simulate(make_policy("evidence", single.problem), single, replications=min(runs, 2000), seed=SEED)
    paris = found.chosen[:, 0, step_columns(problem)[0]]
    return {
        "truth": truth,
        "refine": refine,
        "studies": runs,
        "right": float(claims_right(problem, instance.means, found.chosen[:, 0]).mean()),
        "answers of Paris": float((np.diff(paris, axis=1) != 0).sum(axis=1).mean() + 1),
        "samples": float(found.costs.mean()),
        "samples, alpha 0.5 alone": float(alone.costs.mean()),
        "ratio": float(found.costs.mean() / alone.costs.mean()),
    }


def further(points: int = 21) -> list[dict[str, float]]:
    """T* of the paper's instance with a fourth question, from agent 1's question (0) to agent 2's reward alone (1)."""
    document: dict[str, Any] = {"arms": 6, "agents": 3, "delta": DELTA}
    document |= {"weights": {"kind": "personalized", "alpha": 0.5}}
    document |= {"noise": SCALES["gaussian, known scale"], "truth": {"generate": "paper"}}
    first = parse_study(document)
    assert first.instance is not None
    document["truth"] = {"means": first.instance.means.tolist()}  # else the recipe draws until all gaps are wide
    own, end = first.problem.weights[:, 0], np.array([0.0, 1.0, 0.0])
    least, made = bai(first.instance).value, []
    for share in np.linspace(0.0, 1.0, points):
        weights = dict(zip(first.problem.agents, ((1 - share) * own + share * end).tolist(), strict=True))
        asked = parse_study(document | {"questions": [{"name": "further", "weights": weights}]})
        assert asked.instance is not None
        if not asked.instance.tied:
            made.append({"share": float(share), "ratio": bai(asked.instance).value / least})
    return made


def picture(points: list[dict[str, float]]) -> Figure:
    with canvas("light", 6.4, 3.6) as (figure, style):
        panel = figure.subplots()
        values = [one["share"] for one in points], [one["ratio"] for one in points]
        panel.plot(*values, "o-", color=style.colour(0))
        panel.set(
            xlabel="weights of the further question: 0 are agent 1's, 1 is agent 2's reward alone",
            ylabel="T* over that of three questions",
            yscale="log",
            title="What a further question costs",
        )
    return figure


def questions(runs: int, workers: int, *, anew: bool = False) -> bool:
    """Make all tables and the chart; returns whether no error rate is above delta."""
    points = further()
    picture(points).savefig(PICTURE, dpi=110)
    known: dict[str, Any] = {} if anew or not FIGURES.exists() else json.loads(FIGURES.read_text("utf-8"))
    ties = {one["noise"]: one for one in known.get("ties", ()) if one["studies"] == runs}
    for noise, tie in in_parallel(partial(tied, runs=runs), [one for one in SCALES if one not in ties], workers):
        ties[noise] = tie
        write(ties, {}, points)
    tasks = [(truth, refine) for refine in REFINE for truth in TRUTHS]
    maps = {
        (one["truth"], one["refine"]): one
        for one in known.get("maps", ())
        if one.get("refine") in REFINE and one["studies"] == studies_of(one["refine"], runs)
    }
    for task, row in in_parallel(partial(mapped, runs=runs), [one for one in tasks if one not in maps], workers):
        maps[task] = row
        write(ties, maps, points)
    rows = [maps[task] for task in tasks]
    return all(one["wrong"] <= DELTA for one in ties.values()) and all(one["right"] >= 1 - DELTA for one in rows)


def write(ties: dict[str, Any], maps: dict[tuple[str, int], Any], points: list[dict[str, float]]) -> None:
    """Write the tables and the chart, as far as results are known."""
    rows = [maps[truth, refine] for refine in REFINE for truth in TRUTHS if (truth, refine) in maps]
    known = {"ties": [*ties.values()], "maps": rows, "further": points}
    FIGURES.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    shown = [[one["noise"], f"{one['studies']:,}", f"{one['wrong']:.4f}"] for one in sorted(ties.values(), key=str)]
    fill(PAGE, "question ties", table(["rewards", "studies", "wrong"], shown))
    cells = [
        [
            one["truth"],
            str(one["refine"]),
            f"{one['studies']:,}",
            f"{one['right']:.4f}",
            f"{one['answers of Paris']:.2f}",
            f"{one['samples']:,.0f}",
            f"{one['samples, alpha 0.5 alone']:,.0f}",
            f"{one['ratio']:.2f}",
        ]
        for one in rows
    ]
    head = ["truth, for Paris", "refine", "studies", "map right", "answers on it", "samples"]
    head += ["alpha 0.5 alone", "ratio"]
    fill(PAGE, "maps", table(head, cells))
