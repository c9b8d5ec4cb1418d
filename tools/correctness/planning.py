"""The tables of docs/appendix/planning.md, made with the commands that the page names.

`python -m tools.correctness planning` rewrites them in a few minutes on one core. `... powers` checks promised powers
on fresh studies, for six kinds of studies.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tools.correctness.common import APPENDIX, DOCS, SEED
from tools.pages import fill, read, table

from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.power import powered_budget
from parley.experiments.forecasts.scenarios import gap_scenario
from parley.problem import Problem
from parley.rewards import make_model

PAGE = APPENDIX / "planning.md"
STUDY = DOCS.parent / "examples" / "protocol.toml"
SHOWN = ("all arms tie", "gap 0.125", "gap 0.25", "prior, spread 1")  # truths of `--operating` that the page shows


def planning() -> bool:
    """Rewrite the tables; returns whether the output had every truth that the page shows."""
    found = _plan("--power", "0.9", "--gap", "0.25", "--gap", "0.2")["power"]["truths"]
    rows = [
        [
            f"gap {one['gap']:g}",
            f"{one['max_samples']:,}",
            _share(one["power"], one["standard_error"]),
            _mean(one["samples"]),
            f"{one['rounds']['mean']:.1f}",
            f"{one['fixed']['samples']:,}",
        ]
        for one in found
    ]
    fill(PAGE, "power", table(["truth", "max_samples", "power", "samples, mean", "rounds", "fixed size"], rows))
    truths = {one["scenario"]: one for one in _plan("--operating")["operating"]}
    rows = [
        [
            name,
            f"{point['max_samples']:,}",
            _share(point["power"], point["power_error"]),
            _share(point["fixed"]["power"], point["fixed"]["power_error"]),
            _mean(point["samples"]),
        ]
        for name in SHOWN
        for point in truths[name]["budgets"]
    ]
    fill(PAGE, "budgets", table(["truth", "samples at most", "power", "power, fixed size", "samples, mean"], rows))
    tie = truths[SHOWN[0]]
    text = f"Where all arms tie a study takes {_mean(tie['samples'])} samples on average, with a power of "
    text += f"{100 * tie['power']:.0f} %; the fixed size that is made for the tie takes {tie['fixed']['samples']:,}."
    fill(PAGE, "tie", text)
    print(read(PAGE))
    return set(SHOWN) <= truths.keys()


TWO_AGENTS = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], delta=0.1)
# Study to plan -> its gap.
POWERED = {
    "two arms": (Problem(arms=2, weights=[[1.0]], delta=0.05), 0.5),
    "three arms, two agents": (TWO_AGENTS, 0.4),
    "the same with a tolerance of 0.2": (TWO_AGENTS.with_(tolerance=0.2), 0.4),
    "rates, exact": (Problem(arms=2, weights=[[1.0]], noise=make_model(kind="binary", rate=0.25)), 0.2),
    "rates, normal": (
        Problem(arms=3, weights=[[1.0]], noise=make_model(kind="binary", rate=0.25, inference="normal")),
        0.2,
    ),
    "unknown scale": (Problem(arms=2, weights=[[1.0]], noise=make_model(kind="gaussian", scale="unknown")), 0.5),
}
WANTED, CHOSEN = 0.9, 1000  # the promised power; studies used to choose a budget, as in `parley plan --power`


def powers(replications: int) -> bool:
    """Rewrite the table of promised powers; returns whether fresh studies reach each of them."""
    rows, kept = [], True
    for name, (problem, gap) in POWERED.items():
        truth, chooser = gap_scenario(problem, gap), Planner(policy="evidence", options={}, replications=CHOSEN, seed=0)
        found = powered_budget(chooser, problem, truth, WANTED)
        judge = Planner(policy="evidence", options={}, replications=replications, seed=SEED)
        seen = judge.estimate(truth, problem.with_(max_samples=found.max_samples))
        said = found.document()
        rows.append(
            [
                f"{name}, gap {gap:g}",
                f"{found.max_samples:,}",
                _share(said["power"], said["standard_error"]),
                _share(seen.power, seen.standard_error(seen.correct)),
            ]
        )
        kept = kept and seen.power >= WANTED
        print(rows[-1], flush=True)
    fill(PAGE, "powers", table(["study", "max_samples", "power reported", f"by {replications:,} other studies"], rows))
    return kept


def _plan(*options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "parley", "plan", str(STUDY), *options, "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def _share(value: float, error: float) -> str:
    return f"{100 * value:.1f} ± {100 * error:.1f} %"


def _mean(figures: dict[str, float]) -> str:
    return f"{figures['mean']:,.0f} ± {figures['standard_error']:,.0f}"
