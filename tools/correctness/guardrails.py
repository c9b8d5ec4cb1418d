"""Guardrails: false alarms at the margin, counted and tilted, and how soon harm is found (make guardrails).

Rewrites two tables of docs/outcomes.md. Results of at least this size are not run again; docs/guardrails.json has them
with their number of runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from tools.correctness.common import DOCS, SEED, in_parallel
from tools.correctness.near_ties import MIX
from tools.pages import fill, table

from parley.outcomes import Outcome
from parley.policies import make_policy
from parley.policies.guardrails import Guardrail
from parley.problem import Problem
from parley.rewards import make_model
from parley.simulation.guarded import simulate_guarded
from parley.study import parse_study
from parley.totals import Totals

PAGE, KNOWN = DOCS / "outcomes.md", DOCS / "guardrails.json"
MODELS: dict[str, dict[str, Any]] = {
    "gaussian, known scale": {"kind": "gaussian", "scale": 0.5},
    "gaussian, a scale per arm and agent": {"kind": "gaussian", "scale": "unknown", "guess": 0.5},
    "gaussian, a scale per agent": {"kind": "gaussian", "scale": "unknown per agent", "guess": 0.5},
    "gaussian, one unknown scale": {"kind": "gaussian", "scale": "unknown, shared", "guess": 0.5},
    "subgaussian": {"kind": "subgaussian", "scale": 0.5},
    "bounded, variance": {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"},
    "bounded, hoeffding": {"kind": "bounded", "low": 0.0, "high": 1.0},
    "binary, exact": {"kind": "binary"},
    "binary, normal": {"kind": "binary", "inference": "normal"},
    "count": {"kind": "count"},
}
DRIFTS = {"steady": (0.0,) * 5, "drift": (0.0, 0.2, -0.1, 0.3, -0.15)}
PHASES, BASE, MARGIN, DELTA, RARE, CHUNK = (40, 50, 80, 120, 200), 0.3, 0.1, 0.1, 1e-5, 4000
# Four sites; the control harms 6 %, the margin is 2 %; the primary outcome has a gap of 0.05 around 30 %, tolerance
# 0.02.
WEIGHTS = {"one mix of all sites": {"kind": "population", "shares": [1, 1, 1, 1]},
           "half of the own site": {"kind": "personalized", "alpha": 0.5},
           "the own site alone": {"kind": "identity"}}  # fmt: skip
HARMS, SOON, OFTEN = (0.2, 0.1), 250, 0.9
Task = tuple[str, ...]


def guardrail(name: str, delta: float) -> Guardrail:
    noise = make_model(**MODELS[name])
    outcome = Outcome(name="harm", noise=noise, better="lower", role="guardrail", margin=MARGIN, delta=delta)
    problem = Problem(arms=["control", "a", "b"], weights=MIX, control="control", outcomes=(outcome,))
    return Guardrail.of(problem, outcome)


def at_margin(guard: Guardrail, shift: float) -> np.ndarray:
    """True means at which both arms harm by exactly the margin."""
    means = np.array([[BASE], [BASE + MARGIN], [BASE + MARGIN]]) + shift
    return np.broadcast_to(means, guard.problem.shape).copy()


def chunks(runs: int) -> Iterator[tuple[int, int]]:
    for number, first in enumerate(range(0, runs, CHUNK)):
        yield number, min(CHUNK, runs - first)


def counted(name: str, moves: str, runs: int) -> dict[str, float]:
    """The share of studies with an alarm, all of which are false."""
    guard, wrong = guardrail(name, DELTA), 0
    for number, size in chunks(runs):
        state = guard.start((size,))
        for phase, (count, shift) in enumerate(zip(PHASES, DRIFTS[moves], strict=True)):
            draw = next(iter(guard.problem.noise.samplers(at_margin(guard, shift)).values()))()
            generator = np.random.default_rng([SEED, number, phase])
            drawn = draw(generator, np.full((size, *guard.problem.shape), count))
            state = guard.update(state, drawn, alarms_only=True)
        wrong += int(state.alarmed.any(axis=-1).sum())
    return {"wrong": wrong / runs, "error": math.sqrt(max(wrong, 1)) / runs}


def tilted(name: str, moves: str, runs: int) -> dict[str, float]:
    """The probability of a false alarm on one arm at a tiny delta, relative to its share of that delta.

    The draws of the arm and of the control are tilted towards harm in one mix, or in the mean of all, just enough to
    prove it by a certain phase; every combination is used in equally many studies. At the alarm, a study is weighted by
    the mean of all tilted densities, so that no weight is large.
    """
    guard, found = guardrail(name, RARE), np.zeros(0)
    laws = [guard.problem.noise.tilted_law(at_margin(guard, move)) for move in DRIFTS[moves]]
    tilts = _tilts(guard, moves)
    ways = tilts.shape[1]
    for number, size in chunks(runs):
        state, log_density, weight = guard.start((size,)), np.zeros((ways, size)), np.zeros(size)
        for phase, (count, law) in enumerate(zip(PHASES, laws, strict=True)):
            counts = np.full((size, *guard.problem.shape), count)
            tilt = tilts[phase][np.arange(size) % ways]
            drawn: Totals = law.draw(np.random.default_rng([SEED, number, phase, 7]), counts, tilt)
            log_density += np.einsum("dka,ska->ds", tilts[phase], drawn.sums)
            log_density -= law.cumulant(np.full(tilts[phase].shape, count), tilts[phase])[:, None]
            state = guard.update(state, drawn, alarms_only=True)
            now = ways * np.exp(guard.alarm_line - np.logaddexp.reduce(log_density, axis=0))
            weight = np.where(state.raised_in[:, 1] == state.phase, now, weight)
        found = np.append(found, weight)
    return {"wrong": float(found.mean()), "error": float(found.std()) / math.sqrt(len(found))}


def _tilts(guard: Guardrail, moves: str) -> np.ndarray:
    """The tilts, `(phase, way, arm, agent)`."""
    cells = [guard.problem.noise.true_variances(at_margin(guard, move)) for move in DRIFTS[moves]]
    made = []
    for mix in guard.mixes.T:
        each = np.array([(mix**2 * (one[0] + one[1])).sum() / n for one, n in zip(cells, PHASES, strict=True)])
        for last in range(1, len(PHASES) + 1):
            harm = math.sqrt(2 * guard.alarm_line / (1 / each[:last]).sum())
            tilt = np.zeros((len(PHASES), *guard.problem.shape))
            tilt[:last, 1] = (harm / each / PHASES)[:last, None] * mix
            tilt[:, 0] = -tilt[:, 1]
            made.append(tilt)
    return np.stack(made, axis=1)


def found_in(weights: str, inference: str, harm: str, runs: int) -> dict[str, float]:
    """How often, and after how many people on it, a harmful arm is stopped; two arms, four sites."""
    outcome = {"name": "harm", "kind": "binary", "inference": inference, "role": "guardrail"}
    study = parse_study(
        {
            "arms": ["control", "a"],
            "agents": 4,
            "control": "control",
            "delta": 0.05,
            "tolerance": 0.02,
            "weights": WEIGHTS[weights],
            "noise": {"kind": "binary", "rate": 0.3},
            "outcomes": [outcome | {"better": "lower", "margin": 0.02, "delta": 0.05}],
            "truth": {"means": [[0.3] * 4, [0.35] * 4], "outcomes": {"harm": [[0.06] * 4, [float(harm)] * 4]}},
        }
    )
    policy = make_policy(study.policy, study.problem, study.options)
    found = simulate_guarded(policy, study.require_truth(), replications=runs, seed=SEED)
    alarmed, drawn = found.alarmed_in[:, 0, 1] > 0, found.drawn[:, 0, 1]
    return {
        "stopped": float(alarmed.mean()),
        "soon": float((alarmed & (drawn <= SOON)).mean()),
        "people": float(np.median(drawn[alarmed])) if alarmed.any() else 0.0,
    }


WORK: dict[str, tuple[Callable[..., dict[str, float]], int]] = {  # name -> (function, divisor of the number of runs)
    "counted": (counted, 1),
    "tilted": (tilted, 10),
    "found": (found_in, 100),
}


def tasks() -> list[Task]:
    made: list[Task] = [(what, name, moves) for what in ("counted", "tilted") for name in MODELS for moves in DRIFTS]
    return made + [
        ("found", weights, inference, str(harm))
        for harm in HARMS
        for weights in WEIGHTS
        for inference in ("exact", "normal")
    ]


def runs_of(task: Task, runs: int) -> int:
    return math.ceil(runs / WORK[task[0]][1])


def _run(task: Task, runs: int) -> dict[str, float]:
    wanted = runs_of(task, runs)
    return {"runs": wanted} | WORK[task[0]][0](*task[1:], runs=wanted)


def guardrails(runs: int, workers: int) -> bool:
    """Run all; returns whether false alarms are as rare as promised and large harm is found soon."""
    known: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    missing = [task for task in tasks() if known.get(" | ".join(task), {}).get("runs", 0) < runs_of(task, runs)]
    for task, found in in_parallel(partial(_run, runs=runs), missing, workers):
        known[" | ".join(task)] = found
        KNOWN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def of(*task: str) -> dict[str, float]:
        return known[" | ".join(task)]

    def over(found: dict[str, float], delta: float) -> str:
        return f"{found['wrong'] / delta:.3f} ± {found['error'] / delta:.3f}"

    rows = [
        [
            name,
            moves,
            f"{int(of('counted', name, moves)['runs']):,}",
            over(of("counted", name, moves), DELTA),
            f"{int(of('tilted', name, moves)['runs']):,}",
            over(of("tilted", name, moves), 1.0),
        ]
        for name in MODELS
        for moves in DRIFTS
    ]
    heads = ("outcome", "means", "studies", f"delta {DELTA:g}, counted", "tilted", f"{RARE:g}, tilted")
    fill(PAGE, "guardrails: alarms", table(heads, rows))
    heads = ("harm", "mixes", "inference", "studies", "stopped", f"within {SOON} people", "people, median")
    shown = []
    for task in tasks():
        if task[0] == "found":
            found, (weights, inference, harm) = of(*task), task[1:]
            shares = [f"{found['stopped']:.3f}", f"{found['soon']:.3f}", f"{found['people']:,.0f}"]
            shown.append([f"{float(harm):.0%}", weights, inference, f"{int(found['runs']):,}", *shares])
    fill(PAGE, "guardrails: found", table(heads, shown))
    fair = [of("counted", *cell) for cell in ((name, moves) for name in MODELS for moves in DRIFTS)]
    rare = [of("tilted", name, moves) for name in MODELS for moves in DRIFTS if name != "binary, normal"]
    counted_well = all(one["wrong"] <= DELTA + 3 * one["error"] for one in fair)
    soon = [of(*task)["soon"] for task in tasks() if task[0] == "found" and task[-1] == str(HARMS[0])]
    return counted_well and all(one["wrong"] <= 1 + 3 * one["error"] for one in rare) and min(soon) >= OFTEN
