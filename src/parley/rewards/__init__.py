"""Reward models, one file each: a model owns everything that depends on how rewards are distributed.

Other packages may provide models as classes under `[project.entry-points."parley.rewards"]`, named by their kind. Once
such a package is installed, its model is imported when a study asks for that kind.

>>> make_model(kind="bounded", low=0, high=1).largest_scale, make_model(scale="unknown").guess
(0.5, 1.0)
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parley.errors import InvalidInput, UnknownName
from parley.rewards.base import RewardModel
from parley.rewards.bets import Bets
from parley.rewards.binary import Binary
from parley.rewards.binary_normal import BinaryNormal
from parley.rewards.bounded import Bounded
from parley.rewards.bounded_variance import BoundedVariance
from parley.rewards.count import Count
from parley.rewards.gaussian import ClippedGaussian, Gaussian, SubGaussian
from parley.rewards.intervals import PhaseContrasts
from parley.rewards.plausibility import Flaw, Past
from parley.rewards.sampling import Sampler
from parley.rewards.unknown_scale import UnknownScale
from parley.settings import REQUIRED, Key
from parley.system.extensions import offered, offered_class, origin

__all__ = [
    "KINDS",
    "MODELS",
    "Bets",
    "Binary",
    "BinaryNormal",
    "Bounded",
    "BoundedVariance",
    "ClippedGaussian",
    "Count",
    "Flaw",
    "Gaussian",
    "Noise",
    "Past",
    "PhaseContrasts",
    "RewardModel",
    "Sampler",
    "SubGaussian",
    "UnknownScale",
    "make_model",
    "model_kinds",
    "noise_keys",
    "section_keys",
    "study_model",
]

# The registry. If several models share a kind, the first that describes the keys is used, so special models come first.
MODELS: tuple[type[RewardModel], ...] = (
    ClippedGaussian,
    UnknownScale,
    Gaussian,
    SubGaussian,
    BoundedVariance,
    Bounded,
    BinaryNormal,
    Binary,
    Count,
)
KINDS = {model.kind: model for model in MODELS}  # for a kind with several models, the last and most general model


GROUP = "parley.rewards"  # entry point group


def model_kinds() -> list[str]:
    """All kinds of rewards: Parley's own, and those that installed packages provide.

    >>> set(KINDS) <= set(model_kinds())
    True
    """
    return [*KINDS, *sorted(set(offered(GROUP)) - set(KINDS))]


def _models_of(kind: Any) -> tuple[type[RewardModel], ...]:
    """The models of a kind, the most general last; raise if the kind is unknown.

    A model of another package is imported here, and must implement all abstract methods.
    """
    if not isinstance(kind, str) or kind not in model_kinds():
        raise UnknownName("noise.kind", kind, model_kinds())
    found: type[RewardModel] | None = offered_class(GROUP, "noise.kind", kind, KINDS, RewardModel, "kind")
    if found is None:
        return tuple(model for model in MODELS if model.kind == kind)
    if missing := sorted(found.__abstractmethods__):
        where = f"{origin(offered(GROUP)[kind][0])}, which lacks {', '.join(missing)}"
        raise InvalidInput("noise.kind", found=where, allowed="a model that has all parts of parley.RewardModel")
    return (found,)


def make_model(*, kind: Any = "gaussian", **keys: Any) -> RewardModel:
    """Build the model that the keys of a study's [noise] describe; raise if a key belongs to another model."""
    models = _models_of(kind)
    for key, row in models[-1].keys.items():
        if row.default == REQUIRED and key not in keys:
            raise InvalidInput(f"noise.{key}", found="nothing", allowed=f"{row.allowed}: {row.plain[0]}")
    return next(model for model in models if model.describes(keys)).from_keys(keys)


def noise_keys() -> dict[str, Key]:
    """All keys of [noise]; the meaning of a key starts with the kinds of rewards that accept it.

    >>> noise_keys()["low"].meaning
    'bounded: the smallest reward'
    """
    kinds = ". ".join(f'`"{kind}"`: {model.description}' for kind, model in KINDS.items())
    made = {"kind": Key(kinds=(str,), meaning=kinds, default=f'`"{Gaussian.kind}"`', limits={"enum": list(KINDS)})}
    for name, row in {name: row for model in KINDS.values() for name, row in model.keys.items()}.items():
        whose = " and ".join(kind for kind, model in KINDS.items() if model.keys.get(name) == row)
        made[name] = replace(row, meaning=f"{whose}: {row.meaning}")
    return made


def section_keys(section: Mapping[str, Any]) -> dict[str, Key]:
    """The keys that this [noise] section may have, given its `kind`.

    They are Parley's own keys, or the keys of another package's model.
    """
    kind, known = section.get("kind"), noise_keys()
    if not isinstance(kind, str) or kind in KINDS or kind not in model_kinds():
        return known
    return {"kind": known["kind"], **_models_of(kind)[-1].keys}


def study_model(keys: Mapping[str, Any]) -> RewardModel:
    """Build the model of a study file's [noise]; keys that the file omits get the values that assume least.

    Stored documents and `Noise` in Python use other defaults: a scale of 1, or half the range.

    >>> study_model({}).document(), study_model({"kind": "bounded", "low": 0, "high": 1}).needs_squares
    ({'kind': 'gaussian', 'scale': 'unknown', 'guess': 1.0}, True)
    """
    general = _models_of(keys.get("kind", Gaussian.kind))[-1]
    return make_model(**dict(general.study_defaults) | dict(keys))


class Noise:
    """A reward model from the keys of a study file: `Noise(kind="subgaussian", scale=2.0)`; Gaussian by default.

    >>> Noise().largest_scale, Noise.bounded(low=0, high=1).kind
    (1.0, 'bounded')
    """

    def __new__(cls, **keys: Any) -> RewardModel:  # type: ignore[misc]
        """Return the reward model that the keys describe, rather than an instance of `Noise`."""
        return make_model(**keys)

    @staticmethod
    def bounded(*, low: float, high: float) -> Bounded:
        """A model of rewards in [low, high], with half the width of the range as scale."""
        return Bounded(low=low, high=high)
