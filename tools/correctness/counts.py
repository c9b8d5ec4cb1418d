"""Counts of events: error rates at ties, the cost of the model, and the effect of overdispersion (make counts).

Rewrites three tables of docs/appendix. Results of at least this size are not run again; docs/counts.json has them with
their number of runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tools.correctness.common import APPENDIX, DOCS, SEED, in_parallel
from tools.correctness.near_ties import MIX
from tools.correctness.ties import Tie
from tools.pages import fill, table

from parley.policies import make_policy
from parley.problem import Problem
from parley.protocol.report_checks import LEVEL
from parley.rewards import RewardModel, Sampler, make_model, sampling
from parley.rewards.plausibility import log_evidence_of_overdispersion, shared_draws

PAGE, KNOWN = APPENDIX / "rewards.md", DOCS / "counts.json"
MEANS, TILTED, AGENTS = (0.1, 1.0, 10.0), (1e-5, 1e-10), 3
COSTED = {0.1: 0.05, 1.0: 0.3, 2.0: 0.4, 10.0: 1.0}  # mean -> lead of the best arm
EFFECTS = [[1.0, 0.9, 1.1], [0.0, 0.1, 0.0], [-0.3, -0.2, -0.1], [-0.5, -0.6, -0.4]]
DISPERSIONS = (0.0, 0.5, 1.0, 2.0, 5.0)
MOST = 200  # limit on samples at ties of overdispersed counts, in first phases
KINDS = {  # kind of tie -> arms, N, whether sites drift
    "N = 1, two of 3 arms tie": {"arms": 3, "top": 1},
    "N = 2, two of 4 arms tie": {"arms": 4, "top": 2},
    "N = 2, drift": {"arms": 4, "top": 2, "drift": 0.5},
}
Task = tuple[str, ...]


@dataclass(frozen=True)
class Studies:
    """How studies ended, one entry per study."""

    samples: np.ndarray
    rounds: np.ndarray
    warned: np.ndarray  # whether overdispersion was reported
    active: np.ndarray  # (run, arm, agent)


def tie(mean: float, kind: str, delta: float) -> Tie:
    return Tie(noise=f"count {mean:g}", agents=AGENTS, delta=delta, **KINDS[kind])  # type: ignore[arg-type]


def counted(mean: str, kind: str, runs: int) -> dict[str, float]:
    found = tie(float(mean), kind, 0.1).counted(runs, SEED)
    return {"wrong": found.agents_wrong, "error": found.error}


def tilted(mean: str, kind: str, delta: str, runs: int) -> dict[str, float]:
    """The error rate from `runs` tilted runs per agent."""
    found = tie(float(mean), kind, float(delta)).tilted(runs, SEED)
    return {"wrong": found.agents_wrong, "error": found.error}


def models(mean: float, means: np.ndarray) -> dict[str, RewardModel]:
    scale = np.sqrt(means).tolist()
    return {
        "count": make_model(kind="count", mean=mean),
        "count, no mean stated": make_model(kind="count"),
        "subgaussian": make_model(kind="subgaussian", scale=scale),
        "unknown": make_model(scale="unknown", guess=math.sqrt(mean)),
    }


def studies(model: RewardModel, means: np.ndarray, weights: Any, draw: Sampler, runs: int, most: int) -> Studies:
    """Run studies whose rewards are counts under any reward model; stopped after the samples of `most` first phases."""
    problem = Problem(arms=len(means), weights=weights, noise=model, largest_gap=model.usual_gap)
    policy, generator = make_policy("evidence", problem), np.random.default_rng(SEED)
    limit = most * int(policy.plan(policy.start()).sum())
    found = Studies(*np.zeros((3, runs)), np.zeros((runs, *problem.shape), dtype=bool))
    state, members = policy.start((runs,)), np.arange(runs)
    excess, spread = np.zeros((2, runs, *problem.shape))
    while len(members):
        fresh = draw(generator, policy.plan(state))
        more = shared_draws(fresh)
        excess, spread, state = excess + more[0], spread + more[1], policy.update(state, fresh)
        over = state.finished | (state.counts.sum(axis=(-2, -1)) > limit)
        ended = members[over]
        found.samples[ended], found.rounds[ended] = state.counts[over].sum(axis=(-2, -1)), state.phase[over]
        found.warned[ended], found.active[ended] = _warned(excess[over], spread[over]), state.active[over]
        state, members, excess, spread = state.take(~over), members[~over], excess[~over], spread[~over]
    return found


def costed(mean: str, name: str, runs: int) -> dict[str, float]:
    level = float(mean)
    means = level + COSTED[level] * np.array(EFFECTS)
    found = studies(models(level, means)[name], means, MIX, sampling.poisson(means), runs, 10**6)
    wrong = (np.argmax(found.active, axis=1) != np.argmax(means @ MIX, axis=0)).any(axis=-1).mean()
    error = float(found.samples.std()) / math.sqrt(runs)
    every = {"samples": found.samples.mean(), "error": error, "rounds": found.rounds.mean(), "wrong": wrong}
    return {key: float(value) for key, value in every.items()}


def dispersed(mean: str, dispersion: str, name: str, runs: int) -> dict[str, float]:
    """Error rate for two tied arms of one agent at delta 0.1, and the share of studies with a warning."""
    level, more = float(mean), float(dispersion)
    means = np.full((2, 1), level)
    draw = sampling.negative_binomial(means, more) if more else sampling.poisson(means)
    found = studies(models(level, means)[name], means, [[1.0]], draw, runs, MOST)
    wrong = float((~found.active[:, 0, 0]).mean())  # the first arm is one of the best
    return {"wrong": wrong, "warned": float(found.warned.mean())}


def _warned(excess: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Whether there would be a warning, by the rule of `protocol.report_checks`."""
    line = math.log(excess.shape[-2] * excess.shape[-1] + excess.shape[-1] + 1) - math.log(LEVEL)
    together = log_evidence_of_overdispersion(excess.sum(axis=(-2, -1)), spread.sum(axis=(-2, -1)))
    each = log_evidence_of_overdispersion(excess, spread).max(axis=(-2, -1))
    return np.maximum(together, each) >= line


WORK: dict[str, tuple[Callable[..., dict[str, float]], int]] = {  # name -> (function, divisor of the number of runs)
    "counted": (counted, 1),
    "tilted": (tilted, AGENTS),
    "costed": (costed, 40),
    "dispersed": (dispersed, 20),
}
MODELS = ("count", "count, no mean stated", "subgaussian", "unknown")


def tasks() -> list[Task]:
    """All tasks, those with a promise first."""
    means = list(map(str, MEANS))
    made: list[Task] = [("counted", mean, kind) for mean in means for kind in KINDS]
    made += [("tilted", mean, kind, str(delta)) for mean in means for kind in KINDS for delta in TILTED]
    made += [("costed", str(mean), name) for mean in COSTED for name in MODELS]
    return made + [
        ("dispersed", mean, str(more), name) for mean in means for more in DISPERSIONS for name in MODELS[::3]
    ]


def runs_of(task: Task, runs: int) -> int:
    return math.ceil(runs / WORK[task[0]][1])


def _run(task: Task, runs: int) -> dict[str, float]:
    wanted = runs_of(task, runs)
    return {"runs": wanted} | WORK[task[0]][0](*task[1:], runs=wanted)


def counts(runs: int, workers: int) -> bool:
    """Run all; returns whether no tie errs more often than delta and counts cost at most 1.1 times `subgaussian`."""
    known: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    missing = [task for task in tasks() if known.get(" | ".join(task), {}).get("runs", 0) < runs_of(task, runs)]
    for task, found in in_parallel(partial(_run, runs=runs), missing, workers):
        known[" | ".join(task)] = found
        KNOWN.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")

    def of(*task: Any) -> dict[str, float]:
        return known[" | ".join(map(str, task))]

    rows = []
    for mean in MEANS:
        for kind in KINDS:
            found, rare = of("counted", mean, kind), {delta: of("tilted", mean, kind, delta) for delta in TILTED}
            each_agent = min(each["runs"] for each in rare.values())
            ran = [f"{int(runs):,}" for runs in (found["runs"], AGENTS * each_agent)]
            over = [_over(each, delta) for delta, each in rare.items()]
            rows.append([f"{mean:g}", kind, *ran, _over(found, 0.1), *over])
    heads = ("mean", "tie", "studies", "tilted", "delta 0.1, counted", *(f"{delta:g}, tilted" for delta in TILTED))
    fill(PAGE, "counts: ties", table(heads, rows))
    costs = [[f"{mean:g}", *(_cost(of, mean, name) for name in MODELS)] for mean in COSTED]
    fill(PAGE, "counts: cost", table(("mean", *MODELS), costs))
    heads = (
        "mean",
        "dispersion",
        "variance over mean",
        "`count`: error over delta",
        "warned",
        "unknown scale: error over delta",
    )
    fill(PAGE, "counts: dispersion", table(heads, [_dispersed(of, m, more) for m in MEANS for more in DISPERSIONS]))
    fair = True
    for task in tasks():
        if task[0] in ("counted", "tilted"):
            delta = float(task[3]) if task[0] == "tilted" else 0.1
            fair &= of(*task)["wrong"] <= delta + 3 * of(*task)["error"]
    samples = {(mean, name): of("costed", mean, name)["samples"] for mean in COSTED for name in MODELS}
    return fair and all(samples[mean, "count"] <= 1.1 * samples[mean, "subgaussian"] for mean in COSTED if mean >= 2)


def _over(found: dict[str, float], delta: float) -> str:
    return f"{found['wrong'] / delta:.3f} ± {found['error'] / delta:.3f}"


def _cost(of: Callable[..., dict[str, float]], mean: float, name: str) -> str:
    found, base = of("costed", mean, name), of("costed", mean, "subgaussian")["samples"]
    samples, error = found["samples"], found["error"]
    return f"{samples:,.0f} ± {error:,.0f} ({samples / base:.2f}), {found['rounds']:.1f} rounds"


def _dispersed(of: Callable[..., dict[str, float]], mean: float, more: float) -> list[str]:
    found, other = of("dispersed", mean, more, "count"), of("dispersed", mean, more, "unknown")
    errors = [f"{each['wrong'] / 0.1:.2f}" for each in (found, other)]
    return [f"{mean:g}", f"{more:g}", f"{1 + more * mean:g}", errors[0], f"{100 * found['warned']:.0f} %", errors[1]]
