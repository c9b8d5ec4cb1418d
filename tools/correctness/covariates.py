"""What a covariate saves, and errors at ties: `python -m tools.correctness covariates` (make covariates), into
docs/covariates.md. It goes on where it stopped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tools.correctness.common import DOCS, SEED, fill, in_parallel, table

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
# What the study knows: nothing but the name; the slope, by history; the correlation too.
WAYS: dict[str, Callable[[float], dict[str, Any]]] = {
    "nothing: theta is learned": lambda _: {},
    "`theta`": lambda rho: {"theta": rho, "center": 0.0},
    "`theta` and `correlation`": lambda rho: {"theta": rho, "center": 0.0, "correlation": rho},
}
# Not above, of the samples without a covariate, for 0, 0.3, ...: what is promised.
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
FEWER = 4  # phases where people are drawn one by one
RANGE, NORMAL, UNKNOWN = (
    {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"},
    "normal",
    {"scale": "unknown"},
)


def samples(task: tuple[str, float]) -> tuple[float, float]:
    """Mean samples of README's instance, and their standard error; x moves by a standard deviation a phase."""
    way, rho = task
    known = {"covariate": {"name": "x", **WAYS[way](rho)}} if way else {}
    truth = {"covariate": {"correlation": rho, "drift": 1.0}} if way else {}
    study = parse_study(README | known | {"truth": {"generate": "paper", "scale": 1.0, **truth}})
    found = simulate(make_policy("evidence", study.problem), study.require_truth(), replications=STUDIES, seed=SEED)
    return float(found.costs.mean()), float(found.costs.std() / math.sqrt(STUDIES))


@dataclass(frozen=True, kw_only=True)
class Uneven(EvidenceRacing):
    """Draws 100 people of the first arm and 20 of the others in every phase."""

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
    exact: bool = True  # whether the guarantee is; otherwise it is measured and told
    phases: int = 8  # of every study, since a tie goes on for ever
    runs: float = 1.0  # of those asked for

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


BAD = {"theta": [5.0, -5.0], "center": 0.0}  # ten times the best one, and in the wrong direction at one site
CELLS = (
    Cell(words="range, theta learned", noise=RANGE, covariate={"range": [-3.0, 3.0]}, phases=FEWER),
    Cell(words="range, x skewed", noise=RANGE, covariate={"range": [-3.0, 3.0]}, law="lognormal", phases=FEWER),
    Cell(
        words="range, x skewed, theta ten times its best value",
        noise=RANGE,
        covariate={"range": [-3.0, 3.0], "theta": [1.5, -1.5]},
        law="lognormal",
        phases=FEWER,
    ),
    Cell(
        words="range, the same, 100 against 20 draws",
        noise=RANGE,
        covariate={"range": [-3.0, 3.0], "theta": [1.5, -1.5]},
        law="lognormal",
        uneven=True,
    ),
    Cell(words="unknown scale, theta learned", noise=UNKNOWN),
    Cell(words="unknown scale, 100 against 20 draws", noise=UNKNOWN, uneven=True),
    Cell(words="unknown scale, theta ten times its best value", noise=UNKNOWN, covariate=BAD),
    Cell(words="unknown scale, the same, 100 against 20 draws", noise=UNKNOWN, covariate=BAD, uneven=True),
    Cell(
        words="unknown scale, x lognormal, theta learned",
        noise=UNKNOWN,
        law="lognormal",
        exact=False,
        phases=FEWER,
        runs=0.5,
    ),
    Cell(
        words="unknown scale, x lognormal, theta ten times its best value",
        noise=UNKNOWN,
        covariate=BAD,
        law="lognormal",
        exact=False,
        phases=FEWER,
        runs=0.5,
    ),
    Cell(
        words="the same, 100 against 20 draws",
        noise=UNKNOWN,
        covariate=BAD,
        law="lognormal",
        uneven=True,
        exact=False,
        runs=0.5,
    ),
    Cell(
        words="the same, 100 against 20 draws, x clipped to 3 standard deviations",
        noise=UNKNOWN,
        covariate=BAD | {"range": [-3.0, 3.0]},
        law="lognormal",
        uneven=True,
        exact=False,
        runs=0.5,
    ),
    Cell(
        words="yes or no, normal inference, theta learned",
        noise={"kind": "binary", "inference": NORMAL},
        exact=False,
        phases=FEWER,
        runs=0.5,
    ),
    Cell(
        words="yes or no, normal inference, x lognormal, theta ten times its best value",
        noise={"kind": "binary", "inference": NORMAL},
        covariate={"theta": [2.5, -2.5], "center": 0.0},
        law="lognormal",
        exact=False,
        phases=FEWER,
        runs=0.5,
    ),
)


def wrong(cell: Cell, runs: int) -> tuple[int, float, float]:
    """How many studies; for how many agents, on average, the first of the tied arms was ruled out; and its error."""
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
            state = policy.update(state, pairs.adjusted(*rule.fixed(slopes)))
            slopes, moved = slopes.added(pairs), moved + truth.drift * rng.standard_normal(moved.shape)
        agents = (~state.active[:, 0]).sum(axis=-1)
        lost, squares = lost + float(agents.sum()), squares + float(np.square(agents).sum())
    mean = lost / wanted
    return wanted, mean, math.sqrt(max(squares / wanted - mean**2, 0.0) / wanted)


def rare_error(runs: int) -> tuple[float, float]:
    """Unknown scale with a Gaussian x and a theta that is stated: y' is Gaussian, and its scatter is known per cell. So
    tilted draws of it are those of a study without a covariate, whose arms scatter so.
    """
    instance = Cell(words="", noise=UNKNOWN, covariate=BAD).instance
    rule, truth = instance.problem.adjustment, instance.covariate
    assert rule is not None
    assert rule.theta is not None
    assert truth is not None
    left = 1 - np.square(truth.correlation) + np.square(truth.correlation - rule.theta)
    problem = Problem(arms=3, weights=instance.problem.weights, delta=RARE, noise=make_model(**UNKNOWN), answers="each")
    same = Instance(problem=problem, means=instance.means, scale=np.sqrt(left).tolist())
    policy = make_policy("evidence", problem)
    assert isinstance(policy, EvidenceRacing)
    found = [
        ruled_out_probability(policy, same, arm=0, agent=agent, replications=runs, seed=SEED).require_believable()
        for agent in range(2)
    ]
    return sum(one.probability for one in found), math.hypot(*(one.standard_error for one in found))


def covariates(runs: int, workers: int) -> bool:
    """All tables into the page; whether all is as promised."""
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
    if "rare" not in known:
        known["rare"] = rare_error(20_000)
        _keep(known)
    _fill(known)
    saved = all(
        _share(known, way, rho)[0] <= most for way in MOST for rho, most in zip(CORRELATIONS, MOST[way], strict=True)
    )
    held = all(errors[cell.words][1] <= DELTA + 2 * errors[cell.words][2] for cell in CELLS if cell.exact)
    return saved and held and known["rare"][0] <= RARE


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
        ties.append([cell.words, "exact" if cell.exact else "approximate", f"{runs:,}", f"{mean:.4f} ± {error:.4f}"])
    fill(PAGE, "ties", table(["tie", "guarantee", "studies", "best arm excluded, of 0.1"], ties))
    value, error = known["rare"]
    fill(PAGE, "rare", f"{value:.2g} ± {error:.1g}")
