"""How wide the joint anytime intervals are at the end of the paper's instance: part of `make estimates`.

Against the usual interval at the same level, each by itself, and against the usual one that holds jointly (Bonferroni,
for the same means and differences): both for a number of draws fixed in advance, which nobody has here.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from tests.support import paper_study

from parley.estimates import Estimates, estimates, fixed_quantile, joint_line
from parley.policies import make_policy
from parley.problem import Problem
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
    widths, usual = found.lead.high - found.lead.low, pooled_errors(found)
    told = usual > 0
    return (widths[told] / 2) / (fixed_quantile(found.problem.delta) * usual[told])


def pooled_errors(found: Estimates) -> np.ndarray:
    """Usual standard errors of the differences to the leader, by all draws of either arm; 0 for the leader."""
    variances = np.square(found.mean.error)
    others = np.take_along_axis(variances, found.leader[..., None, :], axis=-2)
    return np.where(found.lead.error > 0, np.sqrt(variances + others), 0.0)


def measure(runs: int = 20, delta: float = 0.1) -> dict[str, tuple[float, float]]:
    """Model -> mean ratio to the usual interval, and to the usual one that holds jointly."""
    instance = paper_study(delta=delta).require_truth()
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
    instance = paper_study(delta=delta).require_truth()
    problem, rng = instance.problem.with_(noise=make_model(**MODELS["gaussian, known scale"])), np.random.default_rng(1)
    line, looks, common = joint_line(problem), [], []
    together = float(-ndtri(np.exp(-line) / 2))
    for _ in range(runs):
        found = estimates(problem, run(problem, instance.means, rng))
        pairs = found.every.against(found.leader)
        each, *_ = pairs.pooled(pairs.observed & (pairs.variance > 0))
        known = found.lead.error > 0
        root = np.sqrt(each.sum(axis=0)[known])
        looks.append(((found.lead.high - found.lead.low)[known] / 2 * root / together).mean())
        common.append((1 / root / pooled_errors(found)[known]).mean())
    return together / fixed_quantile(problem.delta), float(np.mean(looks)), float(np.mean(common))
