"""Where rewards come from: the sum of n draws in one go, exactly in law, never one by one.

An environment is a pure function of a random generator and the counts asked for, `(..., arm, agent)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from parley.errors import InvalidInput, UnknownName
from parley.problem import FloatArray, Instance, IntArray

__all__ = ["ENVIRONMENTS", "Environment", "bernoulli", "gaussian", "make_environment", "uniform"]

Environment: TypeAlias = Callable[[np.random.Generator, IntArray], FloatArray]

UNIFORM_BITS = 48  # of each uniform reward; what is cut off is below 2^-48 of the range
BITS = 0.5 ** np.arange(1, UNIFORM_BITS + 1)
SLICE = 2**14


def gaussian(instance: Instance) -> Environment:
    """Sums of Gaussian rewards: one Gaussian with mean n mu and variance n scale^2."""
    means, scale = instance.means, instance.problem.noise.scale

    def draw(generator: np.random.Generator, counts: IntArray) -> FloatArray:
        noise = generator.standard_normal(counts.shape)
        return np.asarray(counts * means + scale * np.sqrt(counts) * noise)

    return draw


def _range(instance: Instance) -> tuple[float, float]:
    noise = instance.problem.noise
    if noise.low is None or noise.high is None:
        raise InvalidInput("noise.kind", found=noise.kind, allowed="bounded (with low and high) for this environment")
    return noise.low, noise.high


def bernoulli(instance: Instance) -> Environment:
    """Rewards that are `low` or `high`: n draws are one binomial."""
    low, high = _range(instance)
    chances = np.clip((instance.means - low) / (high - low), 0, 1)

    def draw(generator: np.random.Generator, counts: IntArray) -> FloatArray:
        hits = generator.binomial(counts, chances)
        return np.asarray(counts * low + hits * (high - low))

    return draw


def uniform(instance: Instance) -> Environment:
    """Rewards uniform around their mean, as wide as [low, high] allows.

    A uniform number is a string of fair bits, so the sum of n of them is a weighted sum of independent binomials,
    one a bit: exact but for the bits cut off, whose mean is put back.
    """
    low, high = _range(instance)
    half = np.minimum(instance.means - low, high - instance.means)

    def draw(generator: np.random.Generator, counts: IntArray) -> FloatArray:
        total = np.empty(counts.size)
        for start in range(0, counts.size, SLICE):  # all bits of a value before the next value: see simulate.py
            part = counts.ravel()[start : start + SLICE]
            total[start : start + SLICE] = generator.binomial(part[:, None], 0.5, (len(part), UNIFORM_BITS)) @ BITS
        total += counts.ravel() * BITS[-1] / 2
        return np.asarray(counts * (instance.means - half) + 2 * half * total.reshape(counts.shape))

    return draw


ENVIRONMENTS: dict[str, Callable[[Instance], Environment]] = {
    "gaussian": gaussian,
    "bernoulli": bernoulli,
    "uniform": uniform,
}


def make_environment(instance: Instance, name: str | None = None) -> Environment:
    """By name; without one, Gaussian rewards, or two-valued ones where the noise is bounded."""
    chosen = name or ("bernoulli" if instance.problem.noise.kind == "bounded" else "gaussian")
    if chosen not in ENVIRONMENTS:
        raise UnknownName("environment", chosen, ENVIRONMENTS)
    return ENVIRONMENTS[chosen](instance)
