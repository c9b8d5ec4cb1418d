"""The width of the joint anytime intervals at the end of the paper's instance: part of `make estimates`.

It is compared with the usual interval at the same level for a single number, and with the usual joint interval
(Bonferroni, for the same means and differences). Both hold only for a number of draws fixed in advance, which is not
the
case here.
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
    """Half-widths of differences to the leader, over those of the usual single interval."""
    widths, usual = found.lead.high - found.lead.low, pooled_errors(found)
    told = usual > 0
    return (widths[told] / 2) / (fixed_quantile(found.problem.delta) * usual[told])


def pooled_errors(found: Estimates) -> np.ndarray:
    """Usual standard errors of differences to the leader, from all draws of both arms; 0 for the leader."""
    variances = np.square(found.mean.error)
    others = np.take_along_axis(variances, found.leader[..., None, :], axis=-2)
    return np.where(found.lead.error > 0, np.sqrt(variances + others), 0.0)


def measure(runs: int = 20, delta: float = 0.1) -> dict[str, tuple[float, float]]:
    """Model -> mean ratio to the usual single interval, and to the usual joint interval."""
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
    """The three factors of the ratio to the usual interval, for a known scale.

    They are due to covering all numbers at once, to looking at any time, and to phases in which an arm and the leader
    were not both drawn.
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
