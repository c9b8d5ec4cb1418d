"""Does the scatter that came contradict the scale that was stated? Evidence that may be looked at after every phase.

Around its own mean, a phase's cell of d Gaussian rewards scatters like scale^2 chi2 with d - 1 degrees of freedom,
whatever the past. So with q the scatter over the stated variance and nu the degrees of freedom, both added up over the
phases, the likelihood ratio of a variance (1 + rho) times as large,

    log e = rho / (1 + rho) * q / 2 - nu / 2 * log(1 + rho),

is the logarithm of a nonnegative martingale, and for rho > 0 of a supermartingale where the true scale is smaller. So
is a mixture over rho, which by Ville's inequality ever reaches 1 / level with probability at most the level. For
rewards that are only sub-Gaussian the same holds for rho > 0 with d in place of d - 1: the scatter around the sample
mean is at most that around the true one, and E exp(lam (x - mu)^2) <= (1 - 2 lam scale^2)^(-1/2).
"""

from __future__ import annotations

import numpy as np

from parley.checks import FloatArray

__all__ = ["log_evidence_of_scale"]

FACTORS = np.array([1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e4, 1e8])  # of the variance, equally weighed


def log_evidence_of_scale(scatter: FloatArray, degrees: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log e of "the scale is too small" and of "it is too large", for `scatter` in units of the stated variance.

    >>> few, many = (log_evidence_of_scale(np.array(4.0 * nu), np.array(nu))[0] for nu in (3.0, 300.0))
    >>> bool(few < np.log(100)), bool(many > np.log(100))
    (True, True)
    """

    def mixed(factors: FloatArray) -> FloatArray:
        logs = (1 - 1 / factors) * scatter[..., None] / 2 - degrees[..., None] / 2 * np.log(factors)
        return np.asarray(np.logaddexp.reduce(logs, axis=-1) - np.log(len(factors)))

    return mixed(FACTORS), mixed(1 / FACTORS)
