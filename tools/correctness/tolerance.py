"""Tolerance at full size: what it saves, and how often an answer is bad where that is likeliest.

`python -m tools.correctness tolerance` (make tolerance) runs block by block and can be resumed. It keeps its counts in
docs/tolerance.json and rewrites the tables in docs/appendix, which mark cells with missing replications.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.support import paper_study
from tools.correctness.common import APPENDIX, DOCS, SEED
from tools.correctness.near_ties import allowance
from tools.pages import fill, table

from parley.experiments.forecasts.designs import TextbookDesign
from parley.policies import make_policy
from parley.policies.evidence import tolerance as evidence_tolerance
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.weights import personalized

KNOWN, PAGE = DOCS / "tolerance.json", APPENDIX / "tolerance.md"
BLOCK = 5000
PAPER = {0.0: None, 0.02: None, 0.05: 4450, 0.1: 3350, 0.2: 2300}  # tolerance -> required limit on mean samples
TIED = {0.05: 4800, 0.1: 1550, 0.2: 740}
GOALS = {"normal": (8500, 6400, 3800, 1700), "exact": (13_700, 9950, 6050, 3000)}  # limits on people, gap by gap
MIX = [[0.8, 0.3], [0.2, 0.7]]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A study in which all agents have the same means of arms."""

    means: Sequence[float]
    tolerance: float = 0.05
    top: int = 1
    noise: dict[str, Any] = field(default_factory=lambda: {"kind": "gaussian", "scale": 1.0})
    weights: Sequence[Sequence[float]] = ((1.0,),)
    policy: str = "evidence"
    delta: float = 0.1

    @property
    def instance(self) -> Instance:
        problem = Problem(
            arms=len(self.means), weights=self.weights, top=self.top, delta=self.delta, tolerance=self.tolerance,
            noise=make_model(**self.noise),
        )  # fmt: skip
        return Instance(problem=problem, means=np.repeat(np.array(self.means)[:, None], len(self.weights), axis=1))


RANGE = {"kind": "bounded", "low": 0, "high": 1, "method": "variance"}
EDGES, CHAIN = (0.5, 0.449, 0.0), (0.5, 0.46, 0.42, 0.38, 0.34)
UNKNOWN, YES = {"kind": "gaussian", "scale": "unknown, shared"}, {"kind": "binary"}
NORMAL = {"kind": "binary", "inference": "normal"}
CELLS = {
    "just beyond the tolerance": Cell(means=EDGES),
    "a tie": Cell(means=(0.5, 0.5, 0.0)),
    "a triple tie": Cell(means=(0.5, 0.5, 0.5, 0.0)),
    "a chain, 0.04 apart": Cell(means=CHAIN),
    "eight arms, seven just beyond": Cell(means=(0.5, *[0.399] * 7), tolerance=0.1),
    "eight arms, a tie": Cell(means=(0.5,) * 8, tolerance=0.1),
    "top 2, a tie at its edge": Cell(means=(0.9, 0.5, 0.5, 0.0), top=2),
    "top 2, just beyond": Cell(means=(0.9, 0.5, 0.449), top=2),
    "top 2, a chain": Cell(means=CHAIN, top=2),
    "two agents, just beyond": Cell(means=EDGES, weights=MIX),
    "unknown scale, just beyond": Cell(means=EDGES, noise=UNKNOWN),
    "unknown scale, a chain": Cell(means=CHAIN, noise=UNKNOWN),
    "yes or no, just beyond": Cell(means=EDGES, noise=YES),
    "yes or no, a triple tie": Cell(means=(0.4, 0.4, 0.4, 0.1), noise=YES),
    "yes or no, a chain": Cell(means=CHAIN, noise=YES),
    "normal inference, just beyond": Cell(means=EDGES, noise=NORMAL),
    "normal inference, two arms, just beyond": Cell(means=(0.3, 0.249), noise=NORMAL),
    "normal inference, rare, just beyond": Cell(means=(0.1, 0.049, 0.02), noise=NORMAL),
    "in a range, just beyond": Cell(means=EDGES, noise=RANGE),
    "W-CPE, just beyond": Cell(means=EDGES, policy="wcpe"),
    "W-CPE, a chain": Cell(means=CHAIN, policy="wcpe"),
}
EDGE = CELLS["just beyond the tolerance"]
SAVINGS: list[tuple[str, Cell, int | None]] = [
    *(("a tie", Cell(means=(0.5, 0.5, 0.2, 0.0), tolerance=near), most) for near, most in TIED.items()),
    ("just beyond the tolerance", Cell(means=(0.5, 0.449, 0.2, 0.0)), 3000),
    ("a triple tie", CELLS["a triple tie"], 11_700),
    ("a chain, 0.04 apart", CELLS["a chain, 0.04 apart"], None),
    ("top 2, a tie at its edge", CELLS["top 2, a tie at its edge"], None),
]


def figures(replications: int = 1000) -> list[list[str]]:
    """Rows for the paper's instance and a tie, by tolerance."""
    plain = paper_study(delta=0.1).require_truth()
    cases: list[tuple[str, Instance, int | None]] = [
        ("the paper's", Instance(problem=plain.problem.with_(tolerance=near), means=plain.means), most)
        for near, most in PAPER.items()
    ]
    cases += [(name, cell.instance, most) for name, cell, most in SAVINGS]
    rows = []
    for name, instance, most in cases:
        found = simulate(make_policy("evidence", instance.problem), instance, replications=replications, seed=SEED)
        error = found.costs.std() / math.sqrt(replications)
        rows.append([name, f"{instance.problem.tolerance:g}", f"{found.costs.mean():,.0f} ± {error:,.0f}"])
        rows[-1] += [f"{found.rounds.mean():.1f}", f"{most:,}" if most else "", f"{100 * found.error_rate:.1f}"]
        print(rows[-1], flush=True)
    return rows


def hospitals(gaps: Sequence[float], inference: str, budget: int | None = None) -> Instance:
    """Four hospitals, three arms, 0/1 outcomes with rates of 25 % plus these gaps."""
    problem = Problem(
        arms=3, weights=personalized(4, 0.5), tolerance=0.05, delta=0.05, max_samples=budget,
        noise=make_model(kind="binary", inference=inference),
    )  # fmt: skip
    return Instance(problem=problem, means=np.repeat(0.25 + np.array(gaps)[:, None], 4, axis=1))


def trial(replications: int = 1000) -> dict[str, list[list[str]]]:
    """People that the trial takes without a budget, by gap; and its power with one, at rates of 22, 26 and 34 %."""
    found: dict[str, list[list[str]]] = {"trial": [], "power": []}
    for inference, aims in GOALS.items():
        for gap, most in zip((0.0, 0.025, 0.05, 0.1), aims, strict=True):
            instance = hospitals((gap, 0.0, 0.0), inference)
            run = simulate(make_policy("evidence", instance.problem), instance, replications=replications, seed=SEED)
            error = run.costs.std() / math.sqrt(replications)
            row = [inference, f"{gap:g}", f"{run.costs.mean():,.0f} ± {error:,.0f}", f"{run.rounds.mean():.1f}"]
            found["trial"].append([*row, f"{most:,}", f"{100 * run.error_rate:.1f}"])
            print(found["trial"][-1], flush=True)
        for budget in (1000, 1992, 3000, 3996):
            instance = hospitals((-0.03, 0.01, 0.09), inference, budget)
            run = simulate(make_policy("evidence", instance.problem), instance, replications=replications, seed=SEED)
            power = float((run.finished & ~run.mistaken).mean())
            error = math.sqrt(power * (1 - power) / replications)
            row = [inference, f"{budget:,}", f"{power:.3f} ± {error:.3f}", f"{run.costs.mean():,.0f}"]
            row += [f"{run.costs.mean() / budget:.2f}", f"{run.rounds.mean():.1f}"]
            fixed = TextbookDesign.of([instance], seed=SEED).within(budget)
            found["power"].append([*row, f"{fixed.power:.3f} ± {fixed.power_error:.3f}"])
            print(found["power"][-1], flush=True)
    return found


def block(cell: Cell, place: int, size: int = BLOCK) -> dict[str, float]:
    """Run one block of replications of a cell."""
    begun, instance = time.process_time(), cell.instance
    found = simulate(
        make_policy(cell.policy, instance.problem), instance, replications=size, seed=SEED + place, chunk=size
    )
    return {
        "replications": size,
        "bad": int(found.mistaken.sum()),
        "samples": float(found.costs.sum()),
        "rounds": int(found.rounds.sum()),
        "unfinished": int((~found.finished).sum()),
        "seconds": time.process_time() - begun,
    }


def mutants(size: int = 4000) -> dict[str, float]:
    """The rates of bad answers of broken rules, in the cell where bad answers are likeliest."""
    plain = evidence_tolerance.no_pairs

    def too_much(*arguments: Any) -> dict[str, Any]:
        found = plain(*arguments)
        return found | {"log_pairs": np.full_like(found["log_pairs"], math.log(4))}

    wider = replace(EDGE, tolerance=3 * EDGE.tolerance).instance
    shares = {"as it is": block(EDGE, 0, size)["bad"] / size}
    with patch.object(evidence_tolerance, "no_pairs", too_much):
        shares["every pair starts with 4"] = block(EDGE, 0, size)["bad"] / size
    found = simulate(make_policy("evidence", wider.problem), wider, replications=size, seed=SEED, chunk=size)
    shares["three times the tolerance"] = float((found.chosen != 0).any(axis=(1, 2)).mean())
    return shares


def tolerance(replications: int, seconds: float, *, first: bool, top: int | None = None) -> bool:
    """Run for `seconds`; with `first` also figures and mutants; with `top` only cells that look for so many arms."""
    begun = time.monotonic()
    known: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    if first or "figures" not in known:
        known |= {"figures": figures(), "mutants": mutants(), **trial()}
        _write(known, replications)
    while (name := _next(known, replications, top)) and time.monotonic() - begun < seconds:
        told = known.setdefault("cells", {}).setdefault(name, dict.fromkeys(("replications", "bad"), 0))
        more = block(CELLS[name], told["replications"] // BLOCK)
        known["cells"][name] = {key: told.get(key, 0) + value for key, value in more.items()}
        print(name, known["cells"][name], flush=True)
        _write(known, replications)
    return all(
        cell["bad"] <= allowance(CELLS[name].delta, cell["replications"]) * cell["replications"]
        for name, cell in known.get("cells", {}).items()
    )


def _next(known: dict[str, Any], replications: int, top: int | None) -> str | None:
    """The cell with the fewest replications so far; None when all are complete."""
    done = {name: known.get("cells", {}).get(name, {}).get("replications", 0) for name in CELLS}
    left = {name: size for name, size in done.items() if size < replications and top in (None, CELLS[name].top)}
    return min(left, key=left.__getitem__, default=None)


def _write(known: dict[str, Any], replications: int) -> None:
    KNOWN.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    head = ["truth", "tolerance", "samples, mean", "rounds", "goal, at most", "bad answers, %"]
    fill(PAGE, "figures", table(head, known["figures"]))
    head = ["inference", "gap", "people, mean", "rounds", "goal, at most", "bad answers, %"]
    fill(PAGE, "trial", table(head, known["trial"]))
    head = ["inference", "people at most", "power", "people, mean", "of the budget", "rounds", "power, fixed size"]
    fill(PAGE, "power", table(head, known["power"]))
    counted = known.get("cells", {})
    rows = [_row(name, counted[name], replications) for name in CELLS if name in counted]
    fill(PAGE, "cells", table(["truth", "replications", "bad answers, %", "samples", "rounds", "unfinished"], rows))
    rows = [[name, f"{100 * share:.2f}"] for name, share in known["mutants"].items()]
    fill(PAGE, "mutants", table(["rule", "bad answers, %"], rows))


def _row(name: str, cell: dict[str, float], replications: int) -> list[str]:
    size = int(cell["replications"])
    run = f"{size:,}" + ("" if size >= replications else f" (not yet {replications:,})")
    share = f"{100 * cell['bad'] / size:.3f}"
    return [
        name,
        run,
        share,
        f"{cell['samples'] / size:,.0f}",
        f"{cell['rounds'] / size:.1f}",
        f"{int(cell['unfinished'])}",
    ]
