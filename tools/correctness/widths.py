"""How wide the joint anytime intervals are at the end of the paper's instance: part of `make estimates`.

Against the usual interval at the same level, each by itself, and against the usual one that holds jointly (Bonferroni,
for the same means and differences): both for a number of draws fixed in advance, which nobody has here.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from parley.estimates import Estimates, estimates, fixed_quantile, joint_line
from parley.experiments.paper.reproduction import paper_instance
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.rewards.intervals import phase_reach, stack_phases
from parley.totals import Totals

MODELS = {
    "gaussian, known scale": {"kind": "gaussian", "scale": 1.0},
    "gaussian, unknown, shared": {"kind": "gaussian", "scale": "unknown, shared"},
    "gaussian, unknown scale": {"kind": "gaussian", "scale": "unknown"},
    "binary": {"kind": "binary"},
    "bounded": {"kind": "bounded", "low": -0.5, "high": 1.5, "method": "variance"},
}


def run(problem: Problem, means: np.ndarray, rng: np.random.Generator) -> list[Totals]:
    """The phases of one study."""
    policy = make_policy("evidence", problem, {})
    draw = next(iter(problem.noise.samplers(means).values()))()
    state, phases = policy.start(), []
    while not state.finished:
        phases.append(draw(rng, policy.plan(state)))
        state = policy.update(state, phases[-1])
    return phases


def ratios(found: Estimates) -> np.ndarray:
    """Half-widths of differences over the fixed-time ones, each by itself: those of arms that are not the leader."""
    widths, quantile = found.lead.high - found.lead.low, fixed_quantile(found.problem.delta)
    told = found.lead.error > 0
    return (widths[told] / 2) / (quantile * found.lead.error[told])


def measure(runs: int = 20, delta: float = 0.1) -> dict[str, tuple[float, float]]:
    """Model -> mean ratio to the usual interval, and to the usual one that holds jointly."""
    instance: Instance = paper_instance(alpha=0.5, delta=delta)
    table = {}
    for name, noise in MODELS.items():
        rng = np.random.default_rng(1)
        problem = instance.problem.with_(noise=make_model(**noise))
        means = (1 + instance.means) / 2 if problem.noise.means_are_rates else instance.means
        each = np.mean([ratios(estimates(problem, run(problem, means, rng))).mean() for _ in range(runs)])
        joint = -ndtri(np.exp(-joint_line(problem)) / 2) / fixed_quantile(problem.delta)
        table[name] = (float(each), float(each / joint))
    return table


def slack(runs: int = 20, delta: float = 0.1) -> tuple[float, float, float]:
    """What a known scale's ratio to the usual interval is made of: all numbers at once, looks at any time, and phases
    in which an arm and the leader were not both drawn.
    """
    instance: Instance = paper_instance(alpha=0.5, delta=delta)
    problem, rng = instance.problem.with_(noise=make_model(**MODELS["gaussian, known scale"])), np.random.default_rng(1)
    line, looks, common = joint_line(problem), [], []
    together = float(-ndtri(np.exp(-line) / 2))
    for _ in range(runs):
        phases = run(problem, instance.means, rng)
        found, past, seen = estimates(problem, phases), Totals.zero(phases[0].counts.shape), []
        for fresh in phases:
            seen.append(problem.noise.summary(past, fresh, problem.weights))
            past = past + fresh
        pairs = stack_phases(seen).against(found.leader)
        each, first = pairs.weights(pairs.observed & (pairs.variance > 0))
        known = found.lead.error > 0
        root = np.sqrt(each.sum(axis=0)[known])
        looks.append((phase_reach(each.sum(axis=0), first, line)[known] / root / together).mean())
        common.append((1 / root / found.lead.error[known]).mean())
    return together / fixed_quantile(problem.delta), float(np.mean(looks)), float(np.mean(common))
