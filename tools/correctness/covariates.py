"""Savings from a covariate, and error rates at ties: `python -m tools.correctness covariates` (make covariates).

Rewrites tables of docs/covariates.md. An interrupted run is resumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tools.correctness.common import DOCS, SEED, in_parallel
from tools.pages import fill, table

from parley.covariates import CovariateTruth, Slopes
from parley.policies import EvidenceRacing, make_policy
from parley.policies.base import State
from parley.problem import Instance, IntArray, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.simulation.pairs import draw_pairs
from parley.simulation.rare import ruled_out_probability
from parley.study import parse_study

PAGE, RESULTS = DOCS / "covariates.md", DOCS / "covariates.json"
CORRELATIONS = (0.0, 0.3, 0.5, 0.7, 0.9)
STUDIES = 1000
# What the study states: only the name; also the slope, from past data; also the correlation.
WAYS: dict[str, Callable[[float], dict[str, Any]]] = {
    "nothing: theta is learned": lambda _: {},
    "`theta`": lambda rho: {"theta": rho, "center": 0.0},
    "`theta` and `correlation`": lambda rho: {"theta": rho, "center": 0.0, "correlation": rho},
}
# Promised: largest ratio of samples to those without a covariate, for correlations 0, 0.3, ...
MOST = {
    "nothing: theta is learned": (1.01, 0.96, 0.84, 0.69, 0.46),
    "`theta`": (1.01, 0.93, 0.81, 0.60, 0.33),
}
README = {
    "arms": 6,
    "agents": 3,
    "delta": 0.1,
    "weights": {"kind": "personalized", "alpha": 0.5},
    "noise": {"scale": "unknown", "guess": 1.0},
}
DELTA, RARE, CHUNK = 0.1, 1e-5, 4096
TILTED = 5_000  # studies per site
FEWER = 4  # phases, if people are drawn one by one
RANGE = {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"}
NORMAL = {"kind": "binary", "inference": "normal"}
UNKNOWN = {"scale": "unknown"}
# Ten times the best theta, with the wrong sign at one site.
BAD = {"theta": [5.0, -5.0], "center": 0.0}
BAD_RATE = {"theta": [2.5, -2.5], "center": 0.0}
CLIPPED = {"range": [-3.0, 3.0]}
BAD_RANGE = CLIPPED | {"theta": [1.5, -1.5]}


def samples(task: tuple[str, float]) -> tuple[float, float]:
    """Mean samples of README's instance and their standard error; x moves by a standard deviation per phase."""
    way, rho = task
    known = {"covariate": {"name": "x", **WAYS[way](rho)}} if way else {}
    truth = {"covariate": {"correlation": rho, "drift": 1.0}} if way else {}
    study = parse_study(README | known | {"truth": {"generate": "paper", "scale": 1.0, **truth}})
    found = simulate(make_policy("evidence", study.problem), study.require_truth(), replications=STUDIES, seed=SEED)
    return float(found.costs.mean()), float(found.costs.std() / math.sqrt(STUDIES))


@dataclass(frozen=True, kw_only=True)
class Uneven(EvidenceRacing):
    """A policy that draws 100 people of the first arm and 20 of each other arm in every phase."""

    def wanted(self, state: State) -> IntArray:
        counts = np.full(state.counts.shape, 20)
        counts[..., 0, :] = 100
        return np.where(state.finished[..., None, None], 0, counts)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A tie of all arms whose slopes differ between arms and sites."""

    words: str
    noise: dict[str, Any]
    covariate: dict[str, Any] = field(default_factory=dict)
    law: str = "gaussian"
    drift: float = 1.0
    uneven: bool = False
    exact: bool = True  # whether the guarantee is exact; if not, the error rate is only reported
    phases: int = 8  # after which every study is stopped, since a tie would go on forever
    runs: float = 1.0  # factor on the number of runs

    @property
    def instance(self) -> Instance:
        noise = make_model(**self.noise)
        keys = {f"covariate_{key}": value for key, value in self.covariate.items()}
        problem = Problem(
            arms=3, weights=[[0.8, 0.3], [0.2, 0.7]], delta=DELTA, noise=noise, covariate="x", answers="each", **keys
        )
        slopes = np.array([[0.8, 0.1], [0.5, -0.4], [-0.2, 0.6]])
        truth = CovariateTruth(correlation=slopes, drift=self.drift, law=self.law)
        return Instance(
            problem=problem, means=np.full((3, 2), 0.5), scale=None if noise.in_range else 1.0, covariate=truth
        )


def _ten_times(words: str, noise: dict[str, Any], covariate: dict[str, Any], **more: Any) -> Iterator[Cell]:
    """Cells with a bad theta, with the policy's own draws and with 100 against 20 draws."""
    words += ", theta ten times its best value"
    yield Cell(words=words, noise=noise, covariate=covariate, **more)
    uneven = more | {"phases": Cell.phases, "uneven": True}
    yield Cell(words=f"{words}, 100 against 20 draws", noise=noise, covariate=covariate, **uneven)


ROUGH = {"exact": False, "runs": 0.04}
SKEWED = {"law": "lognormal"}
CELLS = (
    Cell(words="range, theta learned", noise=RANGE, covariate=CLIPPED),
    Cell(words="range, x skewed, theta learned", noise=RANGE, covariate=CLIPPED, **SKEWED),
    *_ten_times("range, x skewed", RANGE, BAD_RANGE, **SKEWED),
    Cell(words="unknown scale, theta learned", noise=UNKNOWN),
    Cell(words="unknown scale, theta learned, 100 against 20 draws", noise=UNKNOWN, uneven=True),
    *_ten_times("unknown scale", UNKNOWN, BAD),
    Cell(words="unknown scale, x lognormal, theta learned", noise=UNKNOWN, phases=FEWER, **SKEWED, **ROUGH),
    *_ten_times("unknown scale, x lognormal", UNKNOWN, BAD, phases=FEWER, **SKEWED, **ROUGH),
    *_ten_times("unknown scale, x lognormal in `range`", UNKNOWN, BAD | CLIPPED, phases=FEWER, **SKEWED, **ROUGH),
    Cell(words="yes or no, normal inference, theta learned", noise=NORMAL, **ROUGH),
    *_ten_times("yes or no, normal inference, x lognormal", NORMAL, BAD_RATE, **SKEWED, **ROUGH),
)
# Cells whose errors at a tiny delta are estimated by tilted draws. If a bad theta makes the range wide, errors are too
# rare even for that.
TILTED_CELLS = [cell for cell in CELLS if cell.exact and not cell.uneven and cell.covariate is not BAD_RANGE]


def wrong(cell: Cell, runs: int) -> tuple[int, float, float]:
    """The number of studies; the mean number of agents that ruled out the first tied arm; its standard error."""
    instance = cell.instance
    rule, truth = instance.problem.adjustment, instance.covariate
    assert rule is not None
    assert truth is not None
    policy = Uneven(problem=instance.problem) if cell.uneven else make_policy("evidence", instance.problem)
    wanted, lost, squares = int(runs * cell.runs), 0.0, 0.0
    for first in range(0, wanted, CHUNK):
        count = min(CHUNK, wanted - first)
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(SEED, spawn_key=(first,))))
        state, slopes, moved = policy.start((count,)), Slopes.none((count, 2)), np.zeros((count, 1, 2))
        for _ in range(cell.phases):
            quotas = policy.plan(state)
            means = np.broadcast_to(instance.means, quotas.shape)
            pairs = draw_pairs(instance, rng, quotas, means, moved)
            totals, slopes = rule.reported(slopes, pairs)
            state, moved = policy.update(state, totals), moved + truth.drift * rng.standard_normal(moved.shape)
        agents = (~state.active[:, 0]).sum(axis=-1)
        lost, squares = lost + float(agents.sum()), squares + float(np.square(agents).sum())
    mean = lost / wanted
    return wanted, mean, math.sqrt(max(squares / wanted - mean**2, 0.0) / wanted)


def rare_error(cell: Cell) -> tuple[float, float]:
    """The error rate at a delta of 1e-5 and its standard error, by importance sampling."""
    instance = cell.instance
    same = replace(instance, problem=replace(instance.problem, delta=RARE))
    policy = make_policy("evidence", same.problem)
    assert isinstance(policy, EvidenceRacing)
    found = [
        ruled_out_probability(policy, same, arm=0, agent=agent, replications=TILTED, seed=SEED).require_believable()
        for agent in range(2)
    ]
    return sum(one.probability for one in found), math.hypot(*(one.standard_error for one in found))


def covariates(runs: int, workers: int) -> bool:
    """Rewrite all tables of the page; returns whether all promises are kept."""
    tasks = [("", 0.0), *((way, rho) for way in WAYS for rho in CORRELATIONS)]
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    spent = known.setdefault("samples", {})
    for (way, rho), found in in_parallel(samples, [task for task in tasks if _key(task) not in spent], workers):
        spent[_key((way, rho))] = found
        _keep(known)
    errors = known.setdefault("ties", {})
    for cell in CELLS:
        if errors.get(cell.words, [0])[0] < int(runs * cell.runs):
            errors[cell.words] = wrong(cell, runs)
            print(cell.words, errors[cell.words], flush=True)
            _keep(known)
    rare = known.setdefault("tilted", {})
    for cell in TILTED_CELLS:
        if cell.words not in rare:
            rare[cell.words] = rare_error(cell)
            print(cell.words, rare[cell.words], flush=True)
            _keep(known)
    _fill(known)
    saved = all(
        _share(known, way, rho)[0] <= most for way in MOST for rho, most in zip(CORRELATIONS, MOST[way], strict=True)
    )
    held = all(errors[cell.words][1] <= DELTA + 2 * errors[cell.words][2] for cell in CELLS if cell.exact)
    return saved and held and all(rare[cell.words][0] <= RARE for cell in TILTED_CELLS)


def _key(task: tuple[str, float]) -> str:
    return f"{task[0]} {task[1]:g}"


def _keep(known: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _share(known: dict[str, Any], way: str, rho: float) -> tuple[float, float]:
    base, found = known["samples"][_key(("", 0.0))], known["samples"][_key((way, rho))]
    share = found[0] / base[0]
    return share, share * math.hypot(found[1] / found[0], base[1] / base[0])


def _fill(known: dict[str, Any]) -> None:
    rows = [
        [way, *(f"{share:.2f} ± {off:.2f}" for share, off in (_share(known, way, rho) for rho in CORRELATIONS))]
        for way in WAYS
    ]
    fill(PAGE, "samples", table(["the study knows", *(f"correlation {rho:g}" for rho in CORRELATIONS)], rows))
    ties = []
    for cell in CELLS:
        runs, mean, error = known["ties"][cell.words]
        value, off = known["tilted"].get(cell.words, (None, None))
        tilted = "" if value is None else f"{value:.1e} ± {off:.0e}"
        kind = "exact" if cell.exact else "approximate"
        ties.append([cell.words, kind, f"{runs:,}", f"{mean:.4f} ± {error:.4f}", tilted])
    head = ["tie", "guarantee", "studies", "best arm excluded, of 0.1", "of 1e-5, by tilted draws"]
    fill(PAGE, "ties", table(head, ties))
