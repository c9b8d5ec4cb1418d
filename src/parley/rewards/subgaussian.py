"""Rewards that are sub-Gaussian with a known scale: the paper's assumption."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from parley.checks import FloatArray
from parley.keys import Key
from parley.rewards import sampling
from parley.rewards.base import RewardModel, Sampler, known_scale
from parley.rewards.gaussian import Gaussian

__all__ = ["SubGaussian"]


@dataclass(frozen=True, kw_only=True)
class SubGaussian(RewardModel):
    """Tails no heavier than a Gaussian's of this scale; nothing else is known, so nothing is boosted.

    >>> SubGaussian().boosted
    False
    """

    kind: ClassVar[str] = "subgaussian"
    words: ClassVar[str] = "tails no heavier than a Gaussian's of that scale"
    keys: ClassVar[Mapping[str, Key]] = Gaussian.keys
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", known_scale(self.scale))

    def samplers(self, means: FloatArray) -> Mapping[str, Callable[[], Sampler]]:
        return {"gaussian": lambda: sampling.gaussian(means, self.scale)}
