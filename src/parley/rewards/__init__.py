"""What rewards are like: one file a model, which owns all that depends on it.

>>> make_model(kind="bounded", low=0, high=1).scale
0.5
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parley.errors import UnknownName
from parley.keys import Key
from parley.rewards.base import Bets, RewardModel, Sampler
from parley.rewards.binary import Binary
from parley.rewards.bounded import Bounded
from parley.rewards.gap_bounds import Look
from parley.rewards.gaussian import Gaussian
from parley.rewards.subgaussian import SubGaussian

__all__ = [
    "MODELS",
    "Bets",
    "Binary",
    "Bounded",
    "Gaussian",
    "Look",
    "Noise",
    "RewardModel",
    "Sampler",
    "SubGaussian",
    "make_model",
    "noise_keys",
]

MODELS: dict[str, type[RewardModel]] = {model.kind: model for model in (Gaussian, SubGaussian, Bounded, Binary)}


def make_model(*, kind: Any = "gaussian", **keys: Any) -> RewardModel:
    """The model that the keys of a study's [noise] describe; a key of another model is an error that says so."""
    if not isinstance(kind, str) or kind not in MODELS:
        raise UnknownName("noise.kind", kind, MODELS)
    return MODELS[kind].of(keys)


def noise_keys() -> dict[str, Key]:
    """The keys of [noise], each with the kinds that it belongs to: models that share a key share its row.

    >>> noise_keys()["scale"].meaning
    'gaussian and subgaussian: the standard deviation'
    """
    told = ". ".join(f'`"{kind}"`: {model.words}' for kind, model in MODELS.items())
    made = {"kind": Key(kinds=(str,), meaning=told, default=f'`"{Gaussian.kind}"`')}
    for name, row in {name: row for model in MODELS.values() for name, row in model.keys.items()}.items():
        whose = " and ".join(kind for kind, model in MODELS.items() if model.keys.get(name) == row)
        made[name] = replace(row, meaning=f"{whose}: {row.meaning}")
    return made


class Noise:
    """A reward model in the words of a study file: `Noise(kind="subgaussian", scale=2.0)`; Gaussian unless told.

    >>> Noise().scale, Noise.bounded(low=0, high=1).kind
    (1.0, 'bounded')
    """

    def __new__(cls, **keys: Any) -> RewardModel:  # type: ignore[misc]
        """A model, by its kind."""
        return make_model(**keys)

    @staticmethod
    def bounded(*, low: float, high: float) -> Bounded:
        """Rewards in [low, high]."""
        return Bounded(low=low, high=high)
