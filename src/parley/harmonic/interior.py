"""Newton's method for the few small harmonic programs whose rows are almost copies of each other.

The multiplicative method of `parley.harmonic` crawls on those (one random program in thousands). A primal-dual
interior point method does not: with `y = 1/x` and slacks `s = 1 - A^T y` it solves `c / y^2 = A lam`, `lam s = mu` for
mu shrinking to 0; each step is one system `diag(2 c / y^3) + A diag(lam / s) A^T`. What comes out is only a
proposal: the caller's certificate decides whether it is any better.
"""

from __future__ import annotations

import numpy as np

from parley.problem import FloatArray

__all__ = ["newton_polish"]

STEPS = 60
TO_BOUNDARY = 0.99
SHRINK_MU = 0.1


def newton_polish(matrix: FloatArray, costs: FloatArray, allocation: FloatArray, dual: FloatArray) -> FloatArray:
    """Better multipliers for one program with b = 1: `matrix (variable, row)`, a feasible allocation, `dual > 0`.

    >>> matrix, costs = np.array([[1.0, 0.9], [0.9, 1.0]]), np.ones(2)
    >>> dual = newton_polish(matrix, costs, np.full(2, 2.0), np.array([3.0, 1.0]))
    >>> (dual / dual.sum()).round(6).tolist()
    [0.5, 0.5]
    """
    y = 0.99 / allocation  # strictly inside
    lam: FloatArray = dual * (np.sqrt(costs * (matrix @ dual)).sum() / dual.sum()) ** 2  # so that A lam = c x^2
    slack = 1 - matrix.T @ y
    lam = np.maximum(lam, 1e-12 * lam.max())
    for _ in range(STEPS):
        mu = SHRINK_MU * float(lam @ slack) / len(lam)
        if mu <= 1e-18 * float((costs / y).sum()):
            break
        system = np.diag(2 * costs / y**3) + (matrix * (lam / slack)) @ matrix.T
        scale = 1 / np.sqrt(np.diag(system))  # y may span many orders: solve in balanced units
        balanced = system * scale[:, None] * scale
        try:
            move = scale * np.linalg.solve(balanced, scale * (costs / y**2 - matrix @ (mu / slack)))
        except np.linalg.LinAlgError:
            break  # as far as float64 goes: the certificate tells how far that is
        lam_move = mu / slack - lam + lam / slack * (matrix.T @ move)
        slack_move = -(matrix.T @ move)
        primal = _longest(np.concatenate([y, slack]), np.concatenate([move, slack_move]))
        y, slack = y + primal * move, slack + primal * slack_move
        lam = lam + _longest(lam, lam_move) * lam_move
    return lam


def _longest(values: FloatArray, move: FloatArray) -> float:
    """The longest step in (0, 1] that keeps `values` positive."""
    shrinking = move < 0
    if not shrinking.any():
        return 1.0
    return min(1.0, TO_BOUNDARY * float((values[shrinking] / -move[shrinking]).min()))
