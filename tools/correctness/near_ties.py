"""Evidence racing where errors are likeliest: gaps so small that a run rarely ends before its limit on samples.

Every pair of arms is then almost a true null, and the policy gets hundreds of times its first phase's samples to go
wrong. The tests run a few of these; `make correctness` measures exact ties of the same worlds
(`tools.correctness.ties`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parley.policies import Policy, make_policy
from parley.problem import Instance, Problem
from parley.rewards import Binary, BinaryNormal, Count, Noise, RewardModel, make_model
from parley.simulation import Outcome, simulate

GAP = 1e-4
CAP = 400  # limit on samples, in first phases
CHUNK = 4096  # replications at a time: arrays that fit a cache
MIX = [[0.7, 0.1, 0.3], [0.2, 0.6, 0.0], [0.1, 0.3, 0.7]]  # asymmetric, with a zero


@dataclass(frozen=True, kw_only=True)
class World:
    """A reward model, and where its near-ties lie."""

    model: RewardModel
    level: float = 0.5  # mean of all arms but the best
    gap: float = GAP
    scale: tuple[float, ...] = ()  # true scale of each agent


NOISES: dict[str, World] = {
    "gaussian": World(model=Noise()),
    "gaussian 5 / 1 / 0.2": World(model=Noise(scale=[5.0, 1.0, 0.2]), scale=(5.0, 1.0, 0.2)),
    "subgaussian": World(model=Noise(kind="subgaussian")),
    "bounded": World(model=Noise.bounded(low=0, high=1)),
    "unknown, shared": World(model=Noise(scale="unknown, shared")),
    "unknown, shared, guess 10": World(model=Noise(scale="unknown, shared", guess=10.0)),
    "unknown per agent": World(model=Noise(scale="unknown per agent"), scale=(5.0, 1.0, 0.2)),
    "unknown": World(model=Noise(scale="unknown"), scale=(5.0, 1.0, 0.2)),
    "variance": World(model=make_model(kind="bounded", low=0, high=1, method="variance")),
    "variance 0.05": World(model=make_model(kind="bounded", low=0, high=1, method="variance"), level=0.05, gap=1e-5),
    "binary 0.5": World(model=Binary()),
    "binary 0.1": World(model=Binary(rate=0.1), level=0.1, gap=2e-5),
    "binary 0.01": World(model=Binary(rate=0.01), level=0.01, gap=2e-6),
}

# The normal approximation, whose error rates are measured, not proven: see `tools.correctness.normal`.
NORMAL: dict[str, World] = {
    "normal 0.5": World(model=BinaryNormal()),
    "normal 0.25": World(model=BinaryNormal(rate=0.25), level=0.25),
    "normal 0.25, no rate": World(model=BinaryNormal(), level=0.25),
    "normal 0.1": World(model=BinaryNormal(rate=0.1), level=0.1),
    "normal 0.1, no rate": World(model=BinaryNormal(), level=0.1),
    "normal 0.9, no rate": World(model=BinaryNormal(), level=0.9),
    "normal 0.03": World(model=BinaryNormal(rate=0.03), level=0.03),
    "normal 0.01": World(model=BinaryNormal(rate=0.01), level=0.01),
}
# Counts of events, measured by `tools.correctness.counts`.
COUNTS: dict[str, World] = {
    f"count {mean:g}": World(model=Count(mean=mean), level=mean, gap=2e-4 * mean) for mean in (0.1, 1.0, 10.0)
}
WORLDS = NOISES | NORMAL | COUNTS


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One near-tie: N arms are minimally better than the others, for all agents."""

    arms: int
    agents: int
    top: int = 1
    delta: float = 0.1
    noise: str = "gaussian"  # of WORLDS
    mixed: bool = False

    @property
    def instance(self) -> Instance:
        weights, world = MIX if self.mixed else np.eye(self.agents), WORLDS[self.noise]
        problem = Problem(arms=self.arms, weights=weights, top=self.top, delta=self.delta, noise=world.model)
        means = np.full(problem.shape, world.level)
        means[: self.top] += world.gap
        return Instance(problem=problem, means=means, scale=list(world.scale[: self.agents]) or None)

    def run(
        self, replications: int, *, seed: int, make: Callable[[Problem], Policy] | None = None, cap: int = CAP
    ) -> Outcome:
        """Run replications of the policy that `make` builds; evidence racing by default."""
        policy = make(self.instance.problem) if make else make_policy("evidence", self.instance.problem)
        first = int(policy.plan(policy.start()).sum())
        return simulate(
            policy, self.instance, replications=replications, seed=seed, max_samples=cap * first, chunk=CHUNK
        )


def allowance(delta: float, replications: int, deviations: float = 3.0) -> float:
    """delta plus some binomial standard errors: what an error rate may reach by chance if the true one is delta."""
    return delta + deviations * math.sqrt(delta * (1 - delta) / replications)
