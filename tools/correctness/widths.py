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
    widths, quantile = found.lead.high - found.lead.low, fixed_quantile(found.problem)
    told = found.lead.error > 0
    return (widths[told] / 2) / (quantile * found.lead.error[told])


def measure(runs: int = 20, delta: float = 0.1) -> dict[str, tuple[float, float]]:
    """Model -> mean ratio to the usual interval, and to the usual one that holds jointly."""
    instance: Instance = paper_instance(alpha=0.5, delta=delta)
    table = {}
    for name, noise in MODELS.items():
        rng = np.random.default_rng(1)
        problem = instance.problem.with_(noise=make_model(**noise))
        each = np.mean([ratios(estimates(problem, run(problem, instance.means, rng))).mean() for _ in range(runs)])
        joint = -ndtri(np.exp(-joint_line(problem)) / 2) / fixed_quantile(problem)
        table[name] = (float(each), float(each / joint))
    return table
