"""Kullback-Leibler divergences of rewards whose mean determines the distribution, for exact lower bounds."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parley.validation.checks import FloatArray

SMALLEST = 1e-12  # means stay this far from 0 and from the largest possible mean, so that logarithms are finite


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """The divergence of a family of rewards, kl(mean, other), and the minimiser x of kl(mean, x) + price * x."""

    largest: float  # largest possible mean
    between: Callable[[FloatArray, FloatArray], FloatArray]  # kl(mean, other)
    moved: Callable[[FloatArray, FloatArray], FloatArray]  # the x that minimises kl(mean, x) + price * x

    def inside(self, means: FloatArray) -> FloatArray:
        """Means clipped to lie strictly between 0 and the largest possible mean."""
        return np.clip(means, SMALLEST, self.largest - SMALLEST)


def _between_rates(means: FloatArray, others: FloatArray) -> FloatArray:
    return np.asarray(means * np.log(means / others) + (1 - means) * np.log((1 - means) / (1 - others)))


def _moved_rates(means: FloatArray, price: FloatArray) -> FloatArray:
    """The minimiser for rates: the root x in [0, 1] of (mean - x) / (x (1 - x)) = price."""
    root = np.sqrt(np.maximum(np.square(1 + price) - 4 * price * means, 0.0))
    return np.clip(2 * means / np.maximum(1 + price + root, 1e-300), 1e-300, 1 - 1e-16)


def _between_counts(means: FloatArray, others: FloatArray) -> FloatArray:
    return np.asarray(means * np.log(means / others) - means + others)


def _moved_counts(means: FloatArray, price: FloatArray) -> FloatArray:
    """The minimiser for counts, mean / (1 + price); a huge number for prices of at most -1, which have no minimiser."""
    return np.asarray(means / np.maximum(1 + price, 1e-30))


BERNOULLI = Divergence(largest=1.0, between=_between_rates, moved=_moved_rates)
POISSON = Divergence(largest=np.inf, between=_between_counts, moved=_moved_counts)
