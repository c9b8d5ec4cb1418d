"""Gaussian rewards of a known common scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from parley.checks import FloatArray
from parley.keys import NUMBER, Key
from parley.rewards import sampling
from parley.rewards.base import RewardModel, Sampler, known_scale

__all__ = ["Gaussian"]


@dataclass(frozen=True, kw_only=True)
class Gaussian(RewardModel):
    """Exactly Gaussian: payoffs may be boosted.

    >>> Gaussian(scale=2.0).variance, Gaussian().document()
    (4.0, {'kind': 'gaussian', 'scale': 1.0})
    """

    kind: ClassVar[str] = "gaussian"
    words: ClassVar[str] = "known standard deviation"
    keys: ClassVar[Mapping[str, Key]] = {"scale": Key(kinds=NUMBER, meaning="the standard deviation", default="1.0")}
    boosted: ClassVar[bool] = True
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", known_scale(self.scale))

    def samplers(self, means: FloatArray) -> Mapping[str, Callable[[], Sampler]]:
        return {"gaussian": lambda: sampling.gaussian(means, self.scale)}
