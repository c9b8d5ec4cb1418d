"""Evidence racing against W-CPE on random instances: `make savings` runs 200, the tests a dozen.

An instance has 3 to 20 arms, 2 to 10 agents, random column-stochastic weights (from almost everything on one agent to
almost equal, half of them with extra weight on the agent itself), means uniform in [0, 1], and a smallest gap of at
least 0.02. With population weights, ten agents have the same column, or columns that differ in the ninth decimal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import Outcome, simulate
from parley.weights import population

DELTA, LEAST_GAP, TOPS = 0.05, 0.02, (1, 2, 3)
POPULATION = 10  # agents
PROMISED = {1: 15.0, 2: 8.0, 3: 8.0}  # geometric-mean saving by N


@dataclass(frozen=True, kw_only=True)
class Saving:
    """The result for one instance."""

    top: int
    samples: float
    apart_samples: float  # population weights: samples if all questions were distinct; else `samples`
    wcpe_samples: float
    rounds: float
    wcpe_rounds: float
    mistaken: float
    wcpe_mistaken: float

    @property
    def factor(self) -> float:
        return self.wcpe_samples / self.samples

    @property
    def left(self) -> float:
        """The samples relative to those with distinct questions."""
        return self.samples / self.apart_samples


@dataclass(frozen=True, kw_only=True)
class Case:
    """One of the random instances, by number."""

    number: int
    seed: int
    replications: int
    population: bool = False

    @property
    def instance(self) -> Instance:
        rng = np.random.default_rng((self.seed, self.number))
        top = TOPS[self.number % len(TOPS)]
        while True:
            arms, agents = int(rng.integers(max(3, top + 1), 21)), int(rng.integers(2, 11))
            weights = rng.dirichlet(np.full(agents, rng.choice([0.3, 1.0, 3.0])), size=agents).T
            weights += rng.choice([0.0, 0.5]) * np.eye(agents)
            if self.population:
                weights = population(rng.dirichlet(np.full(POPULATION, 3.0)))
            problem = Problem(arms=arms, weights=weights / weights.sum(axis=0), top=top, delta=DELTA)
            instance = Instance(problem=problem, means=rng.uniform(0, 1, problem.shape))
            if instance.smallest_gap >= LEAST_GAP:
                return instance

    def run(self) -> Saving:
        instance = self.instance

        def outcome(policy: str, asked: Instance = instance) -> Outcome:
            made = make_policy(policy, asked.problem)
            return simulate(made, asked, replications=self.replications, seed=self.number)

        ours, theirs = outcome("evidence"), outcome("wcpe")
        apart = outcome("evidence", told_apart(instance)) if self.population else ours
        return Saving(
            top=instance.problem.top,
            samples=float(ours.costs.mean()),
            apart_samples=float(apart.costs.mean()),
            wcpe_samples=float(theirs.costs.mean()),
            rounds=float(ours.rounds.mean()),
            wcpe_rounds=float(theirs.rounds.mean()),
            mistaken=ours.error_rate,
            wcpe_mistaken=theirs.error_rate,
        )


def told_apart(instance: Instance) -> Instance:
    """The same questions with weights that differ so little that only the number of questions changes."""
    nudged = instance.problem.weights + 1e-9 * np.eye(instance.problem.agent_count)
    return Instance(problem=instance.problem.with_(weights=nudged / nudged.sum(axis=0)), means=instance.means)


def geometric_mean(savings: list[Saving], of: str = "factor") -> float:
    """The geometric mean of the factors saved."""
    return float(np.exp(np.mean([np.log(getattr(saving, of)) for saving in savings])))


def kept(savings: list[Saving], top: int) -> bool:
    """Whether the promise for N = top holds: always cheaper, by enough on average, in no more rounds."""
    some = [saving for saving in savings if saving.top == top]
    rounds, wcpe_rounds = np.median([(saving.rounds, saving.wcpe_rounds) for saving in some], axis=0)
    return min(saving.factor for saving in some) > 1 and geometric_mean(some) >= PROMISED[top] and rounds <= wcpe_rounds
