"""Rewards that are sub-Gaussian with a known scale: the paper's assumption."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from parley.rewards.gaussian import Scaled
from parley.rewards.scales import SCALE
from parley.settings import Key


@dataclass(frozen=True, kw_only=True)
class SubGaussian(Scaled):
    """Tails no heavier than a Gaussian's of this scale; nothing else is known, so nothing is boosted.

    >>> SubGaussian().boosted
    False
    """

    kind: ClassVar[str] = "subgaussian"
    description: ClassVar[str] = "tails no heavier than a Gaussian's of that scale"
    keys: ClassVar[Mapping[str, Key]] = {"scale": SCALE}
