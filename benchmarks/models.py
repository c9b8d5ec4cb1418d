"""Every reward model: studies per second on the paper's instance, and one phase with a thousand agents."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from benchmarks.common import Section, in_process
from benchmarks.simulation import paper_instance
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.simulation.simulate import make_environment

MODELS: dict[str, dict[str, Any]] = {
    "gaussian": {"kind": "gaussian", "scale": 1.0},
    "gaussian, 0.5 / 1 / 1.5 by agent": {"kind": "gaussian", "scale": [0.5, 1.0, 1.5]},
    "gaussian, unknown, shared": {"kind": "gaussian", "scale": "unknown, shared"},
    "gaussian, unknown per agent": {"kind": "gaussian", "scale": "unknown per agent"},
    "gaussian, unknown": {"kind": "gaussian", "scale": "unknown"},
    "subgaussian": {"kind": "subgaussian", "scale": 1.0},
    "bounded, hoeffding": {"kind": "bounded", "low": -1.0, "high": 1.0, "method": "hoeffding"},
    "bounded, variance": {"kind": "bounded", "low": -1.0, "high": 1.0, "method": "variance"},
    "binary": {"kind": "binary"},
}
ASKED = 1000  # required studies per second
ARMS, AGENTS = 20, 1000


def measured(kind: str, name: str, count: str = "0") -> dict[str, float]:
    """One measurement, in a separate process: `studies MODEL COUNT` or `phase MODEL`."""
    return _studies(name, int(count)) if kind == "studies" else _phase(name)


def _studies(name: str, count: int) -> dict[str, float]:
    paper, model = paper_instance(), make_model(**MODELS[name])
    means = (1 + paper.means) / 2 if model.low == 0 else paper.means
    instance = Instance(problem=paper.problem.with_(noise=model), means=means)
    policy = make_policy("evidence", instance.problem)
    simulate(policy, instance, replications=50, seed=9)  # warm up
    begun = process_time()
    outcome = simulate(policy, instance, replications=count, seed=0)
    rate = count / (process_time() - begun)
    return {"rate": rate, "cost": float(outcome.costs.mean()), "rounds": float(outcome.rounds.mean())}


def _phase(name: str) -> dict[str, float]:
    rng, stated = np.random.default_rng(0), dict(MODELS[name])
    if isinstance(stated.get("scale"), list):
        stated["scale"] = np.linspace(0.5, 1.5, AGENTS).tolist()
    weights = rng.dirichlet(np.ones(AGENTS), size=AGENTS).T
    problem = Problem(arms=ARMS, weights=weights, delta=0.05, noise=make_model(**stated))
    draw = make_environment(Instance(problem=problem, means=rng.uniform(0, 1, problem.shape)))
    policy, times = make_policy("evidence", problem), {}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        begun = process_time()
        result = work()
        times[part] = process_time() - begun
        return result

    quotas = timed("first", lambda: policy.plan(policy.start()))
    state = policy.update(policy.start(), draw(rng, quotas))
    quotas = timed("plan", lambda: policy.plan(state))
    fresh = draw(rng, quotas)
    timed("weigh", lambda: policy.update(state, fresh))
    return times


def studies(count: int = 4000) -> Section:
    rows = []
    for name in MODELS:
        done = in_process("benchmarks.models", "studies", name, str(count))
        told = [f"{done['rate']:,.0f}", f"{ASKED:,}", f"{done['cost']:,.0f}", f"{done['rounds']:.2f}"]
        rows.append([name, *told, f"{done['mebibytes']:,.0f}"])
    return Section(
        title="Studies a second, by reward model",
        words=f"Evidence racing on the paper's instance (6 x 3, alpha 0.5, delta 0.1), {count:,} replications "
        "in one process, per second of processor time; its peak memory. Bounded rewards lie in [-1, 1]; for `binary` "
        "the rates are (1 + mean) / 2.",
        columns=("model", "studies a second", "asked: at least", "samples", "rounds", "MiB"),
        rows=rows,
    )


def one_phase() -> Section:
    rows = []
    for name in MODELS:
        done = in_process("benchmarks.models", "phase", name)
        parts = [done[part] for part in ("first", "plan", "weigh")]
        rows.append([name, *(f"{1000 * part:,.0f}" for part in (*parts, sum(parts[1:]))), f"{done['mebibytes']:,.0f}"])
    return Section(
        title=f"One phase of {AGENTS:,} agents x {ARMS} arms, by reward model",
        words="Random asymmetric weights, means uniform in [0, 1], delta 0.05, one study, milliseconds of processor "
        "time: planning the first phase, planning the second, from which nothing has been ruled out, and weighing it.",
        columns=("model", "first plan, ms", "plan, ms", "weigh, ms", "plan and weigh, ms", "MiB"),
        rows=rows,
    )


def sections() -> list[Section]:
    return [studies(), one_phase()]
