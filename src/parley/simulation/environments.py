"""Where rewards come from: the reward model's own sampler, or another that fits it, by name."""

from __future__ import annotations

from parley.errors import InvalidInput, UnknownName
from parley.problem import Instance
from parley.rewards import Sampler

__all__ = ["ENVIRONMENTS", "Environment", "make_environment"]

Environment = Sampler
ENVIRONMENTS = ("gaussian", "bernoulli", "uniform")


def make_environment(instance: Instance, name: str | None = None) -> Environment:
    """By name; without one, the usual of the reward model: Gaussian rewards, or two-valued ones in a range.

    >>> import numpy as np
    >>> from parley.problem import Problem
    >>> draw = make_environment(Instance(problem=Problem(arms=2, weights=[[1.0]]), means=[[0.9], [0.1]]))
    >>> draw(np.random.default_rng(0), np.array([[0], [3]])).counts.tolist()
    [[0], [3]]
    """
    model = instance.problem.noise
    known = model.samplers(instance.means, instance.scale)
    if name is None:
        return next(iter(known.values()))()
    if name not in ENVIRONMENTS:
        raise UnknownName("environment", name, ENVIRONMENTS)
    if name not in known:
        raise InvalidInput(
            "environment",
            found=f"{name!r} for rewards of kind {model.kind!r}",
            allowed=f"{' or '.join(known)} (others need a bounded kind, with low and high)",
        )
    return known[name]()
