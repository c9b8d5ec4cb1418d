"""How wide a confidence interval must be: the paper's beta, PF-UCB's radius, and a heuristic without a guarantee.

The appendix proof of the paper's confidence lemma shows a second factor 2 under the root; `beta` already holds it:
`radius = scale * sqrt(beta(n_k) * sum_n w_nm^2 / n_kn)`.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import zeta

from parley.errors import UnknownName
from parley.problem import FloatArray, IntArray, Problem

Threshold = Callable[[IntArray], FloatArray]  # counts (..., arm, agent) to beta (..., arm, 1)

THRESHOLDS = {
    "paper": "time-uniform, delta-correct (Lemma 2 of the paper)",
    "heuristic": "the authors' experimental threshold: NO GUARANTEE on the error",
}


@lru_cache(maxsize=1024)
def mixture_constant(delta: float, arms: int, agents: int) -> float:
    """g_M(delta / (K M)) of Lemma 2: `M * C(log(K M / delta) / M)`, C a minimum over lambda in (1/2, 1).

    Any lambda gives a valid (larger) threshold, so a numerical minimum errs on the safe side.
    """
    from scipy.optimize import minimize_scalar  # imported here because it is slow to import and rarely needed

    x = math.log(arms * agents / delta) / agents

    def objective(lam: float) -> float:
        g = 2 * lam - 2 * lam * math.log(4 * lam) + math.log(zeta(2 * lam)) - 0.5 * math.log(1 - lam)
        return (g + x) / lam

    best = minimize_scalar(objective, bounds=(0.5 + 1e-9, 1 - 1e-12), method="bounded", options={"xatol": 1e-12})
    return agents * float(best.fun)


def make_threshold(name: str, problem: Problem) -> Threshold:
    """The beta of a registered name, as a function of the counts of each arm.

    >>> beta = make_threshold("paper", Problem(arms=6, weights=np.eye(3), delta=0.1))
    >>> beta(np.ones((6, 3), dtype=np.int64)).shape
    (6, 1)
    """
    if name not in THRESHOLDS:
        raise UnknownName("threshold", name, THRESHOLDS)
    if name == "heuristic":
        return lambda counts: 2 * np.log((1 + np.log(counts.sum(axis=-1, keepdims=True))) / problem.delta)
    constant = mixture_constant(problem.delta, *problem.shape)

    def paper(counts: IntArray) -> FloatArray:
        iterated = np.log(4 + np.log(counts)).sum(axis=-1, keepdims=True)
        return np.asarray(2 * (constant + 2 * iterated))

    return paper


def radius(problem: Problem, counts: IntArray, threshold: Threshold) -> FloatArray:
    """Omega of Definition 2, `(..., arm, agent)`: half the width of the interval of a mixed mean; huge without data."""
    return np.asarray(np.sqrt(threshold(np.maximum(counts, 1)) * problem.mixed_variances(counts)))


def pf_ucb_radius(problem: Problem, effort: FloatArray, phase: IntArray) -> FloatArray:
    """B_r of PF-UCB-BAI (Appendix E), beta = 2: `sqrt(2 log(K M zeta(2) r^2 / delta) / (M F(r)))`, phases from 1."""
    arms, agents = problem.shape
    logs = np.log(arms * agents * zeta(2) * np.square(phase.astype(np.float64)) / problem.delta)
    return np.asarray(problem.noise.largest_scale * np.sqrt(2 * logs / (agents * effort)))
