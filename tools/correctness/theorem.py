"""How close evidence racing comes to the lower bound as delta goes to 0: `make theorem`, into docs/appendix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tests.support import paper_study
from tools.correctness.common import APPENDIX, in_parallel
from tools.correctness.savings import TOPS, Case
from tools.pages import fill, table

from parley.bounds.paper import bai, expected_samples
from parley.policies import make_policy
from parley.problem import Instance
from parley.simulation import simulate

DELTAS = (0.1, 1e-2, 1e-5, 1e-10, 1e-20, 1e-50, 1e-100, 1e-200, 1e-300)
SEED, INSTANCES, SHARE = 20261121, 20, 0.1  # random instances, and the share of the replications that each of them gets
PROMISED = {1e-20: 1.40, 1e-100: 1.16, 1e-300: 1.10}  # on the paper's instance
MOST_ROUNDS = 6.0


@dataclass(frozen=True)
class Ratio:
    """Mean samples over T* log(1 / (2.4 delta)), its standard error, and mean rounds."""

    ratio: float
    error: float
    rounds: float

    @classmethod
    def of(cls, instance: Instance, delta: float, replications: int, seed: int) -> Ratio:
        problem = instance.problem.with_(delta=delta)
        outcome = simulate(
            make_policy("evidence", problem),
            Instance(problem=problem, means=instance.means),
            replications=replications,
            seed=seed,
        )
        least = expected_samples(bai(instance), delta)
        error = float(outcome.costs.std()) / math.sqrt(replications) / least
        return cls(float(outcome.costs.mean()) / least, error, float(outcome.rounds.mean()))


@dataclass(frozen=True)
class Task:
    """One instance at one delta: the paper's, or a random one by number."""

    delta: float
    replications: int
    number: int | None = None

    def run(self) -> Ratio:
        if self.number is None:
            return Ratio.of(paper_study().instance, self.delta, self.replications, SEED)
        # Numbers divisible by three have N = 1.
        instance = Case(number=len(TOPS) * self.number, seed=SEED, replications=0).instance
        return Ratio.of(instance, self.delta, max(int(SHARE * self.replications), 2), SEED + self.number)


def theorem(replications: int, workers: int) -> bool:
    tasks = [Task(delta, replications, number) for delta in DELTAS for number in (None, *range(INSTANCES))]
    found = dict(in_parallel(Task.run, tasks, workers))
    rows, kept = [], True
    for delta in DELTAS:
        paper = found[Task(delta, replications)]
        random = [found[Task(delta, replications, number)] for number in range(INSTANCES)]
        ratios = [each.ratio for each in random]
        kept &= paper.ratio <= PROMISED.get(delta, math.inf) and paper.rounds <= MOST_ROUNDS
        rows.append(
            (
                f"{delta:g}",
                f"{paper.ratio:.3f} ± {paper.error:.3f}",
                f"{PROMISED[delta]:.2f}" if delta in PROMISED else "",
                f"{paper.rounds:.2f}",
                f"{(paper.ratio - 1) * math.sqrt(-math.log(delta)):.2f}",
                f"{np.exp(np.mean(np.log(ratios))):.3f}",
                f"{min(ratios):.3f} to {max(ratios):.3f}",
                f"{np.mean([each.rounds for each in random]):.2f}",
            )
        )
    columns = ("delta", "paper's instance", "asked: at most", "rounds", "(ratio - 1) sqrt(log(1 / delta))")
    columns += ("random, geometric mean", "least to most", "rounds")
    words = (
        f"{replications:,} replications on the paper's instance, {INSTANCES} random instances with "
        f"{max(int(SHARE * replications), 2):,} each, seed {SEED}, which was not used before."
    )
    text = f"{words}\n\n{table(columns, rows)}"
    fill(APPENDIX / "cost-theorem.md", "ratios", text)
    print(text)
    return kept
