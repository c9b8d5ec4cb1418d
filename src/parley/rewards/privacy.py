"""Private reports: the privacy that noise in sums provides, and noise for simulations.

Discrete Gaussian noise (Canonne, Kamath and Steinke 2020, arXiv 2004.00010) makes a report rho-zCDP (zero-concentrated
differential privacy: Bun and Steinke 2016) for every person in it. `docs/privacy.md` has the mechanism and the proofs.
"""

import numpy as np
from scipy.special import ndtri

from parley.rewards.base import RewardModel
from parley.totals import Totals
from parley.validation.checks import FloatArray, IntArray

DELTA = 1e-5  # the delta of the (epsilon, delta)-privacy that pages and reports state
ORDERS = 1 + np.geomspace(1e-4, 1e7, 20_001)  # Renyi orders; each gives a valid epsilon, and the smallest is used
FINE = 1000.0  # from this many grid steps per standard deviation on, a rounded normal is as good as a table
FARTHEST = 40.0  # standard deviations that the table covers: float64 has no probability left beyond


def epsilon(rho: float, delta: float = DELTA) -> float:
    """The smallest epsilon for which rho-zCDP implies (epsilon, delta)-differential privacy.

    The conversion, which OpenDP uses too, is from Canonne, Kamath and Steinke (2020, Corollary 13). It gives a slightly
    smaller epsilon than rho + 2 sqrt(rho log(1 / delta)).

    >>> [round(epsilon(rho), 2) for rho in (0.5, 0.05, 0.005)]
    [4.73, 1.31, 0.38]
    """
    order = ORDERS
    found = order * rho - np.log(order * delta) / (order - 1) + np.log1p(-1 / order)
    return max(float(found.min()), 0.0)


def with_noise(
    exact: Totals, generator: np.random.Generator, model: RewardModel, moved: FloatArray | float = 0.0
) -> Totals:
    """The totals that a report contains: private sums are rounded and get noise, and private squares are 0.

    `moved` shifts the noise by whole steps of the grid, to sample rare errors. Exact reports are returned unchanged.

    For simulations only: the noise is discrete Gaussian to floating-point precision, but its random numbers are not
    cryptographically secure. Sites draw their noise with OpenDP.

    >>> from parley.rewards import Binary
    >>> exact = Totals.of([[1.0, 0.0, 1.0], [], [0.0, 0.0]])
    >>> with_noise(exact, np.random.default_rng(1), Binary(rho=0.05)).sums.tolist()
    [2.0, 0.0, -3.0]
    """
    if model.rho is None:
        return exact
    grid = model.grid
    noise = _noise(generator, exact.counts, model.noise_variance, grid) + grid * moved
    return Totals(counts=exact.counts, sums=grid * np.round(exact.sums / grid) + noise, squares=np.zeros(noise.shape))


def _noise(generator: np.random.Generator, counts: IntArray, variance: float, grid: float) -> FloatArray:
    """Discrete Gaussian noise on multiples of `grid` for every cell with draws; 0 for cells without draws."""
    steps = variance**0.5 / grid
    # By inversion every cell uses one uniform number, so the noise of a replication does not depend on later ones.
    uniform = generator.random(counts.shape)
    if steps > FINE:
        drawn = np.round(steps * ndtri(np.maximum(uniform, 1e-300)))
    else:
        values = np.arange(-int(FARTHEST * steps + 1), int(FARTHEST * steps + 1) + 1)
        table = np.cumsum(np.exp(-0.5 * np.square(values / steps)))
        drawn = values[np.searchsorted(table, uniform * table[-1], side="right")]
    return np.where(counts > 0, grid * drawn, 0.0)
