"""Evidence racing: replications per second compared with W-CPE, and the time of one phase as K and M grow."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from benchmarks.common import Section, in_process
from benchmarks.simulation import measured as simulated
from parley.policies import make_policy
from parley.problem import Problem
from parley.totals import Totals

SIZES = [(6, 3), (20, 10), (50, 10), (100, 10), (20, 50), (20, 200), (20, 1000), (100, 50)]


def measured(kind: str, *arguments: str) -> dict[str, float]:
    """One measurement, in a separate process: `replications POLICY COUNT` or `phase K M`."""
    if kind == "replications":
        policy, count = arguments
        return simulated(policy, "paper", "3", count)
    arms, agents = map(int, arguments)
    rng = np.random.default_rng(0)
    problem = Problem(arms=arms, weights=rng.dirichlet(np.ones(agents), size=agents).T, delta=0.05)
    means, policy = rng.uniform(0, 1, problem.shape), make_policy("evidence", problem)

    def rewards(quotas: np.ndarray) -> Totals:
        noise = rng.standard_normal(quotas.shape)
        return Totals(counts=quotas, sums=quotas * means + np.sqrt(quotas) * noise)

    begun = perf_counter()
    first = policy.plan(policy.start())
    state = policy.update(policy.start(), rewards(first))
    times = [perf_counter() - begun]
    begun = perf_counter()
    quotas = policy.plan(state)
    times.append(perf_counter() - begun)
    stats = rewards(quotas)
    begun = perf_counter()
    policy.update(state, stats)
    times.append(perf_counter() - begun)
    return dict(zip(("first", "plan", "update"), times, strict=True))


def replications() -> Section:
    done = {name: in_process("benchmarks.evidence", "replications", name, "4000") for name in ("evidence", "wcpe")}
    base = done["wcpe"]
    rows = [
        [
            name,
            f"{each['rate']:,.0f}",
            f"{each['rate'] / base['rate']:.2f} x",
            f"{each['cost']:,.0f}",
            f"{each['mebibytes']:,.0f}",
        ]
        for name, each in done.items()
    ]
    return Section(
        title="Replications per second on the paper's instance",
        words="6 arms, 3 agents, delta 0.1, 4,000 replications, one process and its peak memory. Evidence racing plans "
        "harder to draw less: it simulates fewer studies a second, each of them far cheaper to carry out.",
        columns=("policy", "studies per second", "over wcpe", "samples per study", "MiB"),
        rows=rows,
    )


def one_phase() -> Section:
    done = {size: in_process("benchmarks.evidence", "phase", *map(str, size)) for size in SIZES}
    smallest = done[SIZES[0]]["plan"]
    rows = [
        [
            f"{arms}",
            f"{agents:,}",
            *(f"{1000 * done[arms, agents][part]:,.0f}" for part in ("first", "plan", "update")),
            f"{done[arms, agents]['plan'] / smallest:,.1f} x",
            f"{arms * agents / (SIZES[0][0] * SIZES[0][1]):,.0f} x",
            f"{done[arms, agents]['mebibytes']:,.0f}",
        ]
        for arms, agents in SIZES
    ]
    return Section(
        title="One phase of a live study",
        words="Random asymmetric weights, means uniform in [0, 1], delta 0.05, one study. The first phase (planned and "
        "taken in), the plan of the second, from which nothing has been ruled out yet, and weighing its evidence.",
        columns=("K", "M", "first, ms", "plan, ms", "update, ms", "plan, over the first row", "K M", "MiB"),
        rows=rows,
    )


def sections() -> list[Section]:
    return [replications(), one_phase()]
