"""Rewards in a range: sub-Gaussian with half the width of the range as scale (Hoeffding)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from parley.errors import InvalidInput
from parley.rewards import sampling
from parley.rewards.base import KnownVariance
from parley.rewards.sampling import Sampler
from parley.rewards.scales import GUESS, Scale, no_scale
from parley.settings import NUMBER, REQUIRED, Key
from parley.validation.checks import LARGEST_SCALE, FloatArray, number


@dataclass(frozen=True, kw_only=True)
class Bounded(KnownVariance):
    """Rewards in [low, high], with half the width of the range as sub-Gaussian scale.

    >>> Bounded(low=-1, high=3).variance
    4.0
    """

    kind: ClassVar[str] = "bounded"
    description: ClassVar[str] = "rewards between low and high"
    label: ClassVar[str] = "a number between two limits"
    observed: ClassVar[str] = "a number in a known range"
    keys: ClassVar[Mapping[str, Key]] = {
        "guess": GUESS,
        "method": Key(
            kinds=(str,),
            meaning='`"variance"` learns the scatter there is; `"hoeffding"` takes half the range for it',
            default='`"variance"`',
        ),
        "low": Key(kinds=NUMBER, meaning="the smallest reward", default=REQUIRED),
        "high": Key(kinds=NUMBER, meaning="the largest reward", default=REQUIRED),
    }
    study_defaults: ClassVar[Mapping[str, Any]] = {"method": "variance"}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"method": ("variance", "hoeffding")}
    private_form: ClassVar[str] = 'kind "bounded" with method "hoeffding"'
    adjusted_form: ClassVar[str] = "half the range"
    low: float  # type: ignore[misc]
    high: float  # type: ignore[misc]

    def __post_init__(self) -> None:
        low, high = number("noise.low", self.low), number("noise.high", self.high)
        if not (low < high and max(abs(low), abs(high)) <= LARGEST_SCALE):
            raise InvalidInput("noise.low, noise.high", found=f"{low}, {high}", allowed="two numbers with low < high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:
        if "scale" in keys:
            found = f"{keys['scale']} with kind {cls.kind!r}"
            raise InvalidInput("noise.scale", found=found, allowed="nothing: half of high - low is the scale")
        return super().from_keys(keys)

    @property
    def largest_scale(self) -> float:
        return (self.high - self.low) / 2

    @property
    def variance(self) -> float:
        return self.largest_scale**2

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        no_scale(self.kind, scale)
        return {
            "bernoulli": lambda: sampling.two_valued(means, self.low, self.high),
            "uniform": lambda: sampling.uniform(means, self.low, self.high),
            "gaussian": lambda: sampling.gaussian(means, self.largest_scale),
        }
