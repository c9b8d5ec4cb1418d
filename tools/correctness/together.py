"""Savings of a joint answer compared with separate answers of all agents: `python -m tools.correctness together`.

The instances are the paper's, and for each seed 100 random ones with 3, 10 and 20 agents: 3 to 12 arms, weights as in
`savings`, a smallest gap of at least 0.02 (0.01 with 20 agents), delta 0.05. Both rules use the same seeds.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from tests.support import paper_study
from tools.correctness.common import APPENDIX
from tools.pages import fill, table

from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import simulate

SEEDS, DELTA = (20261118, 20261217), 0.05  # neither was used for tuning
RANDOM = {3: (34, 0.02), 10: (33, 0.02), 20: (33, 0.01)}  # agents -> number of instances, smallest gap
PROMISED = {3: 0.88, 10: 0.95, 20: 1.0}  # agents -> geometric mean of samples relative to separate answers
HEADS = ("instances", "samples, each", "rounds", "samples, together", "rounds", "ratio", "least", "most", "wrong")


def random_instance(seed: int, agents: int, number: int) -> Instance:
    rng = np.random.default_rng((seed, agents, number))
    while True:
        weights = rng.dirichlet(np.full(agents, rng.choice([0.3, 1.0, 3.0])), size=agents).T
        weights += rng.choice([0.0, 0.5]) * np.eye(agents)
        problem = Problem(arms=int(rng.integers(3, 13)), weights=weights / weights.sum(axis=0), delta=DELTA)
        instance = Instance(problem=problem, means=rng.uniform(0, 1, problem.shape))
        if instance.smallest_gap >= RANDOM[agents][1]:
            return instance


def both(instance: Instance, replications: int, seed: int) -> list[float]:
    """Samples and rounds for separate answers, then for joint answers; and the share of wrong joint answers."""
    found = []
    for answers in ("each", "together"):
        policy = make_policy("evidence", instance.problem.with_(answers=answers))
        outcome = simulate(policy, instance, replications=replications, seed=seed)
        found += [float(outcome.costs.mean()), float(outcome.rounds.mean())]
    return [*found, outcome.error_rate]


def row(words: str, found: np.ndarray) -> list[str]:
    ratios, means = found[:, 2] / found[:, 0], np.exp(np.log(found[:, [0, 2]]).mean(axis=0))
    rounds, ratio = found[:, [1, 3]].mean(axis=0), np.exp(np.log(ratios).mean())
    error = np.log(ratios).std() / len(ratios) ** 0.5
    return [
        words,
        f"{means[0]:,.0f}",
        f"{rounds[0]:.2f}",
        f"{means[1]:,.0f}",
        f"{rounds[1]:.2f}",
        f"{ratio:.3f}" + (f" ± {error:.3f}" if len(ratios) > 1 else ""),
        *([f"{ratios.min():.2f}", f"{ratios.max():.2f}"] if len(ratios) > 1 else ["", ""]),
        f"{found[:, 4].mean():.4f}",
    ]


def together(replications: int) -> bool:
    """Fill the table of docs/appendix/evidence-racing.md; returns whether savings are as promised."""
    rows, kept = [], True
    for delta in (0.1, 1e-5):
        instance = paper_study(0.5, delta=delta).instance
        rows.append(row(f"paper, delta {delta:g}", np.array([both(instance, 10 * replications, SEEDS[-1])])))
        print(rows[-1], flush=True)
    for (agents, (count, _)), seed in product(RANDOM.items(), SEEDS):
        some = [both(random_instance(seed, agents, number), replications, number) for number in range(count)]
        rows.append(row(f"{count} random, M = {agents}, seed {seed}", np.array(some)))
        kept &= float(rows[-1][5].split()[0]) <= PROMISED[agents]
        print(rows[-1], flush=True)
    fill(APPENDIX / "evidence-racing.md", "together", table(HEADS, rows))
    return kept
