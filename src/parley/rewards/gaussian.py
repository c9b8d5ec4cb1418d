"""Gaussian, clipped Gaussian or sub-Gaussian rewards of known scale: one number, one per agent, or one per cell."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.errors import InvalidInput
from parley.rewards import sampling
from parley.rewards.base import KnownVariance
from parley.rewards.bets import Bets, log_bet, log_boost, log_final_payoff
from parley.rewards.intervals import ALL, ContrastSummary, Interval, staked_interval
from parley.rewards.sampling import Sampler, TiltedLaw
from parley.rewards.scales import GUESS, SCALE, Scale, checked_scale, fitting, squared_scale
from parley.settings import Key
from parley.system.once import once
from parley.validation.checks import LARGEST_SCALE, FloatArray, number

CLIP = Key(
    kinds=(list,),
    meaning="[low, high]: sites clip every reward to this range, for [private reports](privacy.md); answers are then "
    "about the means of clipped rewards. Needs a known scale",
    default="no range",
)


@dataclass(frozen=True, kw_only=True)
class Scaled(KnownVariance):
    """Base class of models whose scale the study states."""

    scale: Scale = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale("noise.scale", self.scale))

    @once
    def variance(self) -> FloatArray | float:
        return squared_scale(self.scale)

    @property
    def stated_variance(self) -> FloatArray | float:
        return self.variance

    @property
    def largest_scale(self) -> float:
        return float(np.max(self.scale))

    def check_shape(self, shape: tuple[int, int]) -> None:
        fitting("noise.scale", self.scale, shape)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        return squared_scale(self.scale if scale is None else scale)

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        true = np.array(self.scale if scale is None else scale)
        return {"gaussian": lambda: sampling.gaussian(means, float(true) if true.ndim == 0 else true)}


@dataclass(frozen=True, kw_only=True)
class SubGaussian(Scaled):
    """Rewards whose tails are no heavier than Gaussian tails of this scale, as in the paper; payoffs are not boosted.

    >>> SubGaussian().boosted
    False
    """

    kind: ClassVar[str] = "subgaussian"
    description: ClassVar[str] = "tails no heavier than a Gaussian's of that scale"
    label: ClassVar[str] = "a number without heavy tails"
    observed: ClassVar[str] = "a number, with errors whose tails are no heavier than a Gaussian's"
    keys: ClassVar[Mapping[str, Key]] = {"scale": SCALE}


@dataclass(frozen=True, kw_only=True)
class Gaussian(Scaled):
    """Exactly Gaussian rewards, for which payoffs may be boosted.

    >>> Gaussian(scale=2.0).variance, Gaussian().document()
    (4.0, {'kind': 'gaussian', 'scale': 1.0})
    >>> Gaussian(scale=[0.5, 1.5]).document()
    {'kind': 'gaussian', 'scale': [0.5, 1.5]}
    """

    kind: ClassVar[str] = "gaussian"
    description: ClassVar[str] = "of known or unknown scale"
    label: ClassVar[str] = "a measurement, roughly bell-shaped"
    observed: ClassVar[str] = "a number, with Gaussian errors"
    keys: ClassVar[Mapping[str, Key]] = {"scale": SCALE, "guess": GUESS, "clip": CLIP}
    study_defaults: ClassVar[Mapping[str, Any]] = {"scale": "unknown"}
    boosted: ClassVar[bool] = True
    assumes_gaussian: ClassVar[bool] = True
    bound_note: ClassVar[str] = ""

    def difference_interval(self, summary: ContrastSummary, line: float) -> Interval:
        """Intervals for differences from boosted bets; see `parley.rewards.intervals.staked_interval`."""
        observed = summary.observed & (summary.variance > 0)  # an arm's contrast with itself has no variance

        def payoff(score: FloatArray, stake: FloatArray, missing: FloatArray) -> FloatArray:
            return log_bet(score, stake[..., None], ALL) + log_boost(stake[..., None], ALL, missing)

        root = np.sqrt(np.where(observed, summary.variance, 1.0))
        return staked_interval(summary, line, observed=observed, root=root, score=lambda t: t, payoff=payoff)

    def final_payoff(self, bets: Bets) -> FloatArray:
        return log_final_payoff(bets.contrast / np.sqrt(bets.variance), bets.missing, bets.kept)


@dataclass(frozen=True, kw_only=True)
class ClippedGaussian(Scaled):
    """Gaussian rewards clipped to a range; all results are about the means of clipped rewards.

    Clipping moves no two rewards farther apart. So a clipped reward is sub-Gaussian around its own mean, both with the
    scale before clipping (Gaussian concentration, with constant 1) and with half the range (Hoeffding). Clipped rewards
    are no longer Gaussian, so payoffs are not boosted.

    >>> ClippedGaussian(scale=2.0, clip=[0, 10]).document()
    {'kind': 'gaussian', 'scale': 2.0, 'clip': [0.0, 10.0]}
    >>> ClippedGaussian(scale=2.0, clip=[0, 10]).variance, ClippedGaussian(scale=2.0, clip=[0, 2]).variance
    (4.0, 1.0)
    """

    kind: ClassVar[str] = "gaussian"
    observed: ClassVar[str] = "a number, with Gaussian errors"
    private_form: ClassVar[str] = 'kind "gaussian" with clip and a scale'
    clip: tuple[float, float]

    def __post_init__(self) -> None:
        allowed = "[low, high]: two numbers with low < high"
        if isinstance(self.scale, str):
            raise InvalidInput("noise.scale", found=repr(self.scale), allowed="a known scale with noise.clip")
        if not isinstance(self.clip, list | tuple) or len(self.clip) != 2:
            raise InvalidInput("noise.clip", found=f"{self.clip!r:.60}", allowed=allowed)
        low, high = (number("noise.clip", end) for end in self.clip)
        if not (low < high and max(abs(low), abs(high)) <= LARGEST_SCALE):
            raise InvalidInput("noise.clip", found=f"[{low:g}, {high:g}]", allowed=allowed)
        super().__post_init__()
        object.__setattr__(self, "clip", (low, high))

    @classmethod
    def describes(cls, keys: Mapping[str, Any]) -> bool:
        return "clip" in keys

    @property
    def low(self) -> float:  # type: ignore[override]
        return self.clip[0]

    @property
    def high(self) -> float:  # type: ignore[override]
        return self.clip[1]

    @property
    def variance(self) -> FloatArray | float:
        widest = ((self.high - self.low) / 2) ** 2
        stated = squared_scale(self.scale)
        return min(stated, widest) if isinstance(stated, float) else np.minimum(stated, widest)

    @property
    def largest_scale(self) -> float:
        return float(np.sqrt(np.max(self.variance)))

    @property
    def stated_variance(self) -> None:  # type: ignore[override]
        """None: clipped rewards vary less than stated, so data cannot contradict the scale."""

    def first_sizes(self, largest_gap: float, gap: float) -> tuple[FloatArray | float, float]:  # noqa: ARG002
        """Sizes for a gap that exceeds neither the scale nor half the range: a range can far exceed the scatter."""
        return self.first_variance, min(gap, self.largest_scale)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        return self.variance if scale is None else np.minimum(squared_scale(scale), np.max(self.variance))

    def true_variances(self, means: FloatArray, scale: Scale | None = None) -> FloatArray:
        return np.broadcast_to(self.bound_variances(means, scale), means.shape)

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        """One sampler, of unclipped Gaussian rewards with the given means: the hardest that the guarantee covers."""
        root = np.sqrt(self.bound_variances(means, scale))
        return {"gaussian": lambda: sampling.gaussian(means, root)}

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        return sampling.tilted_gaussian(means, self.true_variances(means, scale))
