"""How the rewards of an arm scatter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from parley.checks import LARGEST_SCALE, number, positive
from parley.errors import InvalidInput, UnknownName

__all__ = ["Noise", "NoiseKind"]

NoiseKind = Literal["gaussian", "subgaussian", "bounded"]
NOISE_KINDS = ("gaussian", "subgaussian", "bounded")


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How rewards scatter around their mean: `scale` is the sub-Gaussian parameter (a standard deviation).

    >>> Noise().variance
    1.0
    >>> Noise.bounded(low=0, high=1).scale
    0.5
    """

    kind: NoiseKind = "gaussian"
    scale: float = 1.0
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in NOISE_KINDS:
            raise UnknownName("noise.kind", self.kind, NOISE_KINDS)
        if self.kind == "bounded":
            if self.low is None or self.high is None:
                found = f"{self.low}, {self.high}"
                raise InvalidInput("noise.low, noise.high", found=found, allowed="two numbers with low < high")
            low, high = number("noise.low", self.low), number("noise.high", self.high)
            if not (low < high and max(abs(low), abs(high)) <= LARGEST_SCALE):
                raise InvalidInput(
                    "noise.low, noise.high", found=f"{low}, {high}", allowed="two numbers with low < high"
                )
            half = (high - low) / 2
            if self.scale not in (1.0, half):
                found = f"{self.scale} with kind 'bounded'"
                raise InvalidInput("noise.scale", found=found, allowed="nothing: half of high - low is the scale")
            object.__setattr__(self, "scale", half)
        elif self.low is not None or self.high is not None:
            raise InvalidInput(
                "noise.low, noise.high",
                found=f"{self.low}, {self.high} with kind {self.kind!r}",
                allowed="only with kind 'bounded'",
            )
        object.__setattr__(self, "scale", positive("noise.scale", self.scale))

    @classmethod
    def bounded(cls, *, low: float, high: float) -> Noise:
        """Rewards in [low, high]: sub-Gaussian with scale (high - low) / 2."""
        return cls(kind="bounded", low=low, high=high)

    @property
    def variance(self) -> float:
        """The square of the scale: how noise enters every formula."""
        return self.scale**2
