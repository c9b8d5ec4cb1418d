"""Gaussian rewards of unknown scale: Student's t of a phase as a normal score, and a bet that is fair for it.

Let Y be a contrast with variance V, and V^ an independent estimate that is a convex combination of V chi2_nu / nu. For
c > 0, r -> Phi(-c sqrt(r)) is convex, so P(Y / sqrt(V^) > c) is at most that of Student's t with the *smallest* degrees
of freedom nu of the combination (Mickey and Brown; Lawton), whatever the scales, wherever the true gap is at most 0.
The *score* z, the normal quantile of the t's distribution function, is then, above 0, stochastically at most N(0, 1).
So every payoff that does not decrease in z and is constant for z <= 0 is fair if it is fair for N(0, 1). We take the
mixture bet f of `parley.confidence.evidence` above 0 and its own average below,

    f(z) = sum p_i exp(u_i z - u_i^2 / 2) for z > 0,    2 sum p_i Phi(-u_i) for z <= 0,

which keeps its expectation, and below a cap its multiplier: one set of numbers for every nu.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtri, stdtr

from parley.checks import FloatArray
from parley.confidence.evidence import log_bet, log_boost

__all__ = ["log_floored_bet", "normal_score", "student_quantile_bound"]

SMALLEST_TAIL = 1e-290
LARGEST_EXPONENT = 600.0
ROUNDING = 1e-10  # taken off every score: Student's distribution function is good to a few units in 1e-13


def normal_score(t: FloatArray, degrees: FloatArray) -> FloatArray:
    """z with Phi(z) = P(Student's t <= t), rounded down; 0 for t <= 0 and without degrees of freedom.

    >>> normal_score(np.array([2.0, 2.0, -1.0]), np.array([10.0, 1e6, 5.0])).round(3).tolist()
    [1.79, 2.0, 0.0]
    """
    score = np.zeros(t.shape)
    told = (t > 0) & (degrees > 0)
    tail = stdtr(degrees[told], -t[told])
    score[told] = np.maximum(-ndtri(np.clip(tail, SMALLEST_TAIL, 0.5)) * (1 - ROUNDING) - ROUNDING, 0.0)
    return score


def log_floored_bet(
    z: FloatArray, stakes: FloatArray, log_shares: FloatArray, log_cap: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The log payoffs of scores, boosted: fair once capped at `log_cap`; and the logs of the multipliers.

    The multiplier of the plain bet keeps E min(b f, cap) <= 1. The average below 0 changes nothing as long as b f is
    below the cap there, so b is held to cap / f(0).
    """
    at_zero = log_bet(np.zeros(z.shape), stakes, log_shares)
    average = np.logaddexp.reduce(log_shares + np.log(2.0) + log_ndtr(-stakes), axis=-1)
    boost = np.minimum(log_boost(stakes, log_shares, log_cap), log_cap - at_zero)
    return np.where(z > 0, log_bet(np.maximum(z, 0.0), stakes, log_shares), average) + boost, boost


def student_quantile_bound(log_level: FloatArray | float, degrees: FloatArray) -> FloatArray:
    """c with P(Student's t > c) <= level, in closed form: the tail is at most (1 + c^2 / nu)^(-nu / 2) / 2.

    For P(t > c) = E Phi(-c sqrt(chi2 / nu)) and Phi(-x) <= exp(-x^2 / 2) / 2. Infinite without degrees of freedom.

    >>> student_quantile_bound(np.log(0.01), np.array([10.0, 1000.0, 0.0])).round(2).tolist()
    [3.44, 2.8, inf]
    """
    nu = np.maximum(degrees, 1e-300)
    excess = np.maximum(-2 * (log_level + np.log(2.0)) / nu, 0.0)
    return np.where(excess < LARGEST_EXPONENT, np.sqrt(nu * np.expm1(np.minimum(excess, LARGEST_EXPONENT))), np.inf)
