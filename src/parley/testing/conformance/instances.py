"""Random instances for tests: general, asymmetric weights, and means whose gaps are not too small."""

import numpy as np

from parley.problem import Instance, Problem
from parley.rewards import Noise
from parley.validation.checks import FloatArray


def named(arms: int) -> tuple[str, ...]:
    """Names for `arms` arms: "arm 1", "arm 2", and so on."""
    return tuple(f"arm {place}" for place in range(1, arms + 1))


def random_weights(generator: np.random.Generator, agents: int) -> FloatArray:
    """Random column-stochastic weights with some zeros; asymmetric, because symmetric ones would hide a transposition.

    >>> random_weights(np.random.default_rng(0), 3).sum(axis=0).round(12).tolist()
    [1.0, 1.0, 1.0]
    """
    weights = generator.dirichlet(np.full(agents, 0.7), size=agents).T
    weights[generator.random(weights.shape) < 0.2] = 0
    # The diagonal keeps the sum of every column above 0, so that columns can be normalized.
    weights[np.arange(agents), np.arange(agents)] += 0.05
    return np.asarray(weights / weights.sum(axis=0))


def random_instance(
    seed: int, *, arms: int, agents: int, top: int = 1, min_gap: float = 0.02, delta: float = 0.05, scale: float = 1.0
) -> Instance:
    """A random instance with Gaussian rewards and means in [0, 1], redrawn until every gap is at least `min_gap`.

    >>> random_instance(0, arms=4, agents=2, min_gap=0.1).smallest_gap >= 0.1
    True
    """
    generator = np.random.default_rng(seed)
    while True:
        weights = random_weights(generator, agents)
        problem = Problem(arms=named(arms), weights=weights, top=top, delta=delta, noise=Noise(scale=scale))
        instance = Instance(problem=problem, means=generator.uniform(0, 1, (arms, agents)))
        if instance.smallest_gap >= min_gap:
            return instance
