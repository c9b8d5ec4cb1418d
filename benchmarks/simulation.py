"""Replications per second and memory of simulations, by the size of the problem."""

from __future__ import annotations

import numpy as np

from benchmarks.common import Section, in_process
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import simulate
from parley.study import parse_study


def paper_instance() -> Instance:
    document = {
        "arms": 6,
        "agents": 3,
        "weights": {"kind": "personalized", "alpha": 0.5},
        "noise": {"kind": "gaussian", "scale": 1.0},
        "truth": {"generate": "paper"},
    }
    return parse_study(document).require_truth()


def random_instance(arms: int, agents: int) -> Instance:
    rng = np.random.default_rng(0)
    while True:
        problem = Problem(arms=arms, weights=rng.dirichlet(np.ones(agents), size=agents).T)
        instance = Instance(problem=problem, means=rng.uniform(0, 1, (arms, agents)))
        if instance.smallest_gap > 1e-3:
            return instance


def measured(policy: str, arms: str, agents: str, replications: str) -> dict[str, float]:
    instance = paper_instance() if arms == "paper" else random_instance(int(arms), int(agents))
    made = make_policy(policy, instance.problem, instance=instance)
    simulate(made, instance, replications=50, seed=9)  # warm up
    outcome = simulate(made, instance, replications=int(replications), seed=0)
    return {
        "seconds": outcome.seconds,
        "rate": int(replications) / outcome.seconds,
        "cost": float(outcome.costs.mean()),
    }


CASES = [
    ("wcpe", "paper", "3", "50000"),
    ("pf-ucb-bai", "paper", "3", "50000"),
    ("uniform", "paper", "3", "50000"),
    ("oracle", "paper", "3", "50000"),
    ("wcpe", "10", "5", "2000"),
    ("wcpe", "20", "10", "500"),
    ("wcpe", "50", "20", "200"),
    ("wcpe", "paper", "3", "1000000"),
]


def sections() -> list[Section]:
    rows = []
    for policy, arms, agents, replications in CASES:
        done = in_process("benchmarks.simulation", policy, arms, agents, replications)
        size = "the paper's, 6 x 3" if arms == "paper" else f"{arms} x {agents}"
        rows.append([policy, size, f"{int(replications):,}", f"{done['rate']:,.0f}", f"{done['mebibytes']:,.0f}"])
    return [
        Section(
            title="Replications per second",
            words="One process, its peak memory. Random instances: asymmetric weights, means uniform in [0, 1].",
            columns=("policy", "K x M", "replications", "per second", "MiB"),
            rows=rows,
        )
    ]
