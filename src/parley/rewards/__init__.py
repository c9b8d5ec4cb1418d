"""What rewards are like: one file a model, which owns all that depends on it.

>>> make_model(kind="bounded", low=0, high=1).largest_scale, make_model(scale="unknown").guess
(0.5, 1.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parley.errors import UnknownName
from parley.rewards.base import RewardModel, Sampler
from parley.rewards.bets import Bets
from parley.rewards.binary import Binary
from parley.rewards.bounded import Bounded
from parley.rewards.bounded_variance import BoundedVariance
from parley.rewards.gaussian import Gaussian
from parley.rewards.intervals import Look
from parley.rewards.plausibility import Flaw, Past
from parley.rewards.subgaussian import SubGaussian
from parley.rewards.unknown_scale import UnknownScale
from parley.settings import Key

__all__ = [
    "MODELS",
    "Bets",
    "Binary",
    "Bounded",
    "BoundedVariance",
    "Flaw",
    "Gaussian",
    "Look",
    "Noise",
    "Past",
    "RewardModel",
    "Sampler",
    "SubGaussian",
    "UnknownScale",
    "make_model",
    "noise_keys",
    "study_model",
]

MODELS: dict[str, type[RewardModel]] = {model.kind: model for model in (Gaussian, SubGaussian, Bounded, Binary)}

STUDY_DEFAULTS: dict[str, dict[str, Any]] = {
    Gaussian.kind: {"scale": "unknown"},
    Bounded.kind: {"method": "variance"},
}
METHODS: dict[str, type[Bounded]] = {"variance": BoundedVariance, "hoeffding": Bounded}  # of rewards in a range


def make_model(*, kind: Any = "gaussian", **keys: Any) -> RewardModel:
    """The model that the keys of a study's [noise] describe; a key of another model is an error that says so."""
    if not isinstance(kind, str) or kind not in MODELS:
        raise UnknownName("noise.kind", kind, MODELS)
    if kind == Gaussian.kind and ("guess" in keys or isinstance(keys.get("scale"), str)):
        return UnknownScale.of(keys)
    if kind == Bounded.kind and "method" in keys:
        if keys["method"] not in METHODS:
            raise UnknownName("noise.method", keys["method"], METHODS)
        return METHODS[keys["method"]].of({key: value for key, value in keys.items() if key != "method"})
    return MODELS[kind].of(keys)


def noise_keys() -> dict[str, Key]:
    """The keys of [noise], each with the kinds that it belongs to: models that share a key share its row.

    >>> noise_keys()["rate"].meaning
    'binary: about how often a reward is 1; sizes the first phase only'
    """
    told = ". ".join(f'`"{kind}"`: {model.words}' for kind, model in MODELS.items())
    made = {"kind": Key(kinds=(str,), meaning=told, default=f'`"{Gaussian.kind}"`')}
    for name, row in {name: row for model in MODELS.values() for name, row in model.keys.items()}.items():
        whose = " and ".join(kind for kind, model in MODELS.items() if model.keys.get(name) == row)
        made[name] = replace(row, meaning=f"{whose}: {row.meaning}")
    return made


def study_model(keys: Mapping[str, Any]) -> RewardModel:
    """The model of a study file's [noise]: where it leaves something open, what assumes least.

    Stored documents and Python's `Noise` keep the meaning they always had: a scale of 1, half the range.

    >>> study_model({}).document(), study_model({"kind": "bounded", "low": 0, "high": 1}).needs_squares
    ({'kind': 'gaussian', 'scale': 'unknown', 'guess': 1.0}, True)
    """
    usual = STUDY_DEFAULTS.get(keys.get("kind", Gaussian.kind), {})
    return make_model(**usual | dict(keys))


class Noise:
    """A reward model in the words of a study file: `Noise(kind="subgaussian", scale=2.0)`; Gaussian unless told.

    >>> Noise().largest_scale, Noise.bounded(low=0, high=1).kind
    (1.0, 'bounded')
    """

    def __new__(cls, **keys: Any) -> RewardModel:  # type: ignore[misc]
        """A model, by its kind."""
        return make_model(**keys)

    @staticmethod
    def bounded(*, low: float, high: float) -> Bounded:
        """Rewards in [low, high]."""
        return Bounded(low=low, high=high)
