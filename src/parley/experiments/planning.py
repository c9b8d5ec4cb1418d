"""Before a study is launched: what it will cost, by simulating plausible truths.

A *scenario* is a set of plausible instances. A gap scenario is the hardest instance with a given gap: every arm outside
the top N is worse by just that gap, for every agent. A prior scenario draws local means at random: each arm has a level
common to all agents, and each agent differs from it by a share `heterogeneity` of the spread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import FloatArray, Instance, IntArray, Problem
from parley.simulation import simulate
from parley.weights import identity, personalized

__all__ = [
    "Estimate",
    "Plan",
    "Planner",
    "Scenario",
    "along_weights",
    "gap_scenario",
    "make_plan",
    "prior_scenario",
    "studies_of",
]

DELTAS = (0.1, 0.05, 0.01, 0.001)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
CAP = 100  # a study that costs this many times the worst one together is stopped: its cost is a lower bound
MAX_DRAWS = 10_000  # per instance, before a smallest gap is taken to be out of reach


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Plausible truths under one name: local means `(instance, arm, agent)`."""

    name: str
    means: FloatArray

    def instances(self, problem: Problem) -> list[Instance]:
        """The same means asked another question: another delta, other weights."""
        return [Instance(problem=problem, means=means) for means in self.means]


def gap_scenario(problem: Problem, gap: float) -> Scenario:
    """Every arm outside the top N is worse by `gap`, the same for all agents.

    >>> gap_scenario(Problem(arms=3, weights=np.eye(1)), 0.2).means.round(1).tolist()
    [[[0.1], [-0.1], [-0.1]]]
    """
    if not 0 < gap <= problem.largest_gap:
        raise InvalidInput("gap", found=gap, allowed=f"above 0 and at most largest_gap = {problem.largest_gap:g}")
    means = np.full((1, *problem.shape), _centre(problem) - gap / 2)
    means[:, : problem.top] += gap
    return Scenario(name=f"gap {gap:g}", means=means)


def prior_scenario(
    problem: Problem, *, spread: float, heterogeneity: float, min_gap: float, instances: int, seed: int
) -> Scenario:
    """Random means: a common level per arm, uniform over `spread`, and each agent's own, mixed by `heterogeneity`.

    Draws whose smallest gap is below `min_gap` are drawn again: no study can be planned for a tie.
    """
    for key, value, allowed in (
        ("spread", spread, 0 < spread < np.inf),
        ("heterogeneity", heterogeneity, 0 <= heterogeneity <= 1),
        ("min_gap", min_gap, 0 < min_gap < np.inf),
        ("instances", instances, instances >= 1),
    ):
        if not allowed:
            raise InvalidInput(key, found=value, allowed="above 0 (heterogeneity: between 0 and 1)")
    generator = np.random.default_rng(seed)
    kept = [_draw(problem, generator, spread, heterogeneity, min_gap) for _ in range(instances)]
    return Scenario(name=f"prior, spread {spread:g}", means=np.stack(kept))


def _draw(
    problem: Problem, generator: np.random.Generator, spread: float, heterogeneity: float, min_gap: float
) -> FloatArray:
    half = spread / 2
    for _ in range(MAX_DRAWS):
        common = generator.uniform(-half, half, (problem.arm_count, 1)) * (1 - heterogeneity)
        own = generator.uniform(-half, half, problem.shape) * heterogeneity
        means: FloatArray = _centre(problem) + common + own
        if Instance(problem=problem, means=means).smallest_gap >= min_gap:
            return means
    raise InvalidInput(
        "min_gap",
        found=f"{min_gap:g}, which none of {MAX_DRAWS:,} draws from the prior reached",
        allowed="a smaller gap",
    )


def _centre(problem: Problem) -> float:
    noise = problem.noise
    return 0.0 if noise.low is None or noise.high is None else (noise.low + noise.high) / 2


def along_weights(problem: Problem) -> tuple[str, list[tuple[float, Problem]]]:
    """The problem from much collaboration to none: by alpha where weights are personalized, else closer to oneself.

    Gives the name of what moves, and each of its values with the problem it makes; 1 is everyone alone.
    """
    agents, weights = problem.agent_count, problem.weights
    alpha = float(weights[0, 0] - weights[-1, 0]) if agents > 1 else 1.0
    if np.allclose(weights, personalized(agents, min(max(alpha, 0.0), 1.0)), rtol=0, atol=1e-9):
        return "alpha", [(share, problem.with_(weights=personalized(agents, share))) for share in SHARES]
    return "share of one's own reward added to the mix", [
        (share, problem.with_(weights=share * identity(agents) + (1 - share) * weights)) for share in SHARES
    ]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a scenario costs; one entry per simulated study."""

    scenario: str
    samples: IntArray
    rounds: IntArray
    per_agent: FloatArray  # (agent,): mean draws
    error_rate: float
    unfinished: int  # stopped by the cap: their samples are a lower bound

    def quantiles(self, *levels: float) -> list[float]:
        """Quantiles of the samples."""
        return [float(value) for value in np.quantile(self.samples, levels)]


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Who will run the study, and how many simulated studies an estimate rests on."""

    policy: str
    options: Mapping[str, Any]
    replications: int  # of every instance of a scenario
    seed: int
    progress: Callable[[int], None] | None = None

    def estimate(self, scenario: Scenario, problem: Problem, *, max_samples: int | None = None) -> Estimate:
        """Simulate the studies of one scenario; the cap keeps a near-tie of one instance from running for ever."""
        outcomes = [
            simulate(
                make_policy(self.policy, problem, self.options, instance),
                instance,
                replications=self.replications,
                seed=self.seed + place,
                max_samples=max_samples,
                progress=self.progress,
            )
            for place, instance in enumerate(scenario.instances(problem))
        ]
        return Estimate(
            scenario=scenario.name,
            samples=np.concatenate([outcome.costs for outcome in outcomes]),
            rounds=np.concatenate([outcome.rounds for outcome in outcomes]),
            per_agent=np.mean([outcome.draws.sum(axis=0) for outcome in outcomes], axis=0),
            error_rate=float(np.mean([outcome.error_rate for outcome in outcomes])),
            unfinished=sum(int((~outcome.finished).sum()) for outcome in outcomes),
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything `parley plan` tells."""

    scenarios: Sequence[Estimate]
    alone: Sequence[Estimate]  # the same scenarios with every agent on its own
    by_delta: Sequence[tuple[float, Estimate]]  # the reference scenario
    by_weights: Sequence[tuple[float, Estimate]]  # the reference scenario, from much collaboration to none
    weights_axis: str  # what moves in `by_weights`


def make_plan(planner: Planner, problem: Problem, scenarios: Sequence[Scenario]) -> Plan:
    """Estimate every scenario, alone and together; the last one serves to vary delta and the weights."""
    together = [planner.estimate(scenario, problem) for scenario in scenarios]
    alone_problem = problem.with_(weights=identity(problem.agent_count))
    caps = [CAP * int(estimate.samples.max()) for estimate in together]
    reference, cap = scenarios[-1], caps[-1]
    axis, problems = along_weights(problem)
    return Plan(
        scenarios=together,
        alone=[
            planner.estimate(scenario, alone_problem, max_samples=limit)
            for scenario, limit in zip(scenarios, caps, strict=True)
        ],
        by_delta=[(delta, planner.estimate(reference, problem.with_(delta=delta))) for delta in DELTAS],
        by_weights=[(value, planner.estimate(reference, moved, max_samples=cap)) for value, moved in problems],
        weights_axis=axis,
    )


def studies_of(planner: Planner, scenarios: Sequence[Scenario]) -> int:
    """How many studies `make_plan` simulates: what a progress bar counts to."""
    instances = [len(scenario.means) for scenario in scenarios]
    return planner.replications * (2 * sum(instances) + (len(DELTAS) + len(SHARES)) * instances[-1])
