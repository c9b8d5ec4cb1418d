"""Rewards that sites adjust for a covariate before they report them: y' = y - theta (x - x0).

Here y is the outcome and x the covariate; theta and x0 are fixed before the phase (`parley.covariates`).

If y lies in a range, y' lies in a wider range, whatever theta and the distribution of x are, so inference stays exact.
Without a range, y' is taken as Gaussian, with one scale per cell, because slopes, and therefore variances, may differ
between arms. An adjusted 0/1 outcome is no longer 0 or 1: it is treated as a reward in a range or, with normal
inference, as Gaussian with a variance that each phase estimates. Expectations before a study and simulations use the
model of the outcomes y.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.errors import InvalidInput
from parley.rewards.base import RewardModel
from parley.rewards.binary_normal import PLANNED_DRAWS
from parley.rewards.bounded import Bounded
from parley.rewards.bounded_variance import BoundedVariance
from parley.rewards.sampling import Sampler, TiltedLaw
from parley.rewards.scales import Scale
from parley.rewards.unknown_scale import UnknownScale
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import FloatArray, IntArray

ALLOWED = (
    'rewards in a range (kind "bounded" or "binary"), or kind "gaussian" with scale = "unknown": adjusted outcomes may '
    "scatter by more than a scale that is stated, and those of two arms by different scales"
)

MOST_LEFT = 0.75  # largest share of variance assumed to remain: whoever states a slope expects it to help


@dataclass(frozen=True, kw_only=True)
class _OfOutcomes(RewardModel):
    """Base class of models of adjusted rewards; `outcome` is the model of the outcomes before adjustment."""

    divergence: ClassVar[None] = None
    bound_note: ClassVar[str] = "for Gaussian rewards of the scatter that the covariate leaves, its slope known"
    first_left: float = 1.0  # share of the outcomes' variance expected to remain in the first phase; sizes that phase

    @property
    def stated(self) -> RewardModel:
        assert self.outcome is not None
        return self.outcome

    @property
    def first_variance(self) -> Any:
        return self.stated.first_variance * self.first_left

    def first_sizes(self, largest_gap: float, gap: float) -> tuple[FloatArray | float, float]:
        variance, gap = self.stated.first_sizes(largest_gap, gap)
        return variance * self.first_left, gap

    def kept_squares(self, past: Totals, fresh: Totals) -> FloatArray:
        """Sums of squares, rescaled to the scatter expected in the next phase, in which the site uses a new theta."""
        both, left = past + fresh, 1.0 if fresh.left is None else fresh.left
        scatter = left * (past.scatter + fresh.scatter) * _again(past.counts, fresh.counts)
        return np.asarray(np.square(both.sums) / np.maximum(both.counts, 1) + scatter)

    @property
    def usual_gap(self) -> float:
        return self.stated.usual_gap

    def usual_gaps(self, largest_gap: float) -> list[float]:
        return self.stated.usual_gaps(largest_gap)

    def usual_spread(self, largest_gap: float) -> float:
        return self.stated.usual_spread(largest_gap)

    @property
    def usual_mean(self) -> float:
        return self.stated.usual_mean

    def scenario(self, gap: float) -> tuple[str, float]:
        return self.stated.scenario(gap)

    def other_guesses(self) -> list[tuple[str, str, Any]]:
        """Alternatives to the guesses about the outcomes, as unadjusted models, which `Problem` then adjusts."""
        return self.stated.other_guesses()

    def check_means(self, means: FloatArray) -> None:
        self.stated.check_means(means)

    @property
    def free_scale(self) -> bool:
        return self.stated.free_scale

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        return self.stated.samplers(means, scale)

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        return self.stated.tilted_law(means, scale)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:
        return self.stated.bound_variances(means, scale)

    def true_variances(self, means: FloatArray, scale: Scale | None = None) -> FloatArray:
        return self.stated.true_variances(means, scale)


@dataclass(frozen=True, kw_only=True)
class AdjustedVariance(_OfOutcomes, BoundedVariance):
    """Adjusted rewards in a range wider than the outcomes' range; their variance is learned.

    >>> from parley.rewards import Binary
    >>> adjusted_model(Binary(), 0.5).ends, adjusted_model(Binary(), 0.5).document()
    ((-0.5, 1.5), {'kind': 'binary'})
    """


@dataclass(frozen=True, kw_only=True)
class AdjustedRange(_OfOutcomes, Bounded):
    """Adjusted rewards in a range wider than the outcomes' range, with half the width of the wider range as scale."""


@dataclass(frozen=True, kw_only=True)
class AdjustedScale(_OfOutcomes, UnknownScale):
    """Adjusted Gaussian rewards with an unknown scale per cell."""

    def variance_ceiling(self, past: Totals, phases: int) -> None:  # type: ignore[override]
        """None: earlier phases were adjusted with another theta, so they do not bound the next phase's variance."""


@dataclass(frozen=True, kw_only=True)
class AdjustedNormal(AdjustedScale):
    """Adjusted 0/1 rewards with normal inference: each phase estimates its variances, as for an unknown scale."""

    assumes_gaussian: ClassVar[bool] = False  # normality is not assumed: the guarantee calls it an approximation
    bet_draws: ClassVar[int] = PLANNED_DRAWS
    guarantee_note: ClassVar[str] = Translatable("approximately (normal approximation of adjusted rates)")


def _again(past: IntArray, fresh: IntArray) -> FloatArray:
    """Degrees of freedom around a common mean, divided by those around separate means of past and fresh draws."""
    apart = np.maximum(past - 1, 0) + np.maximum(fresh - 1, 0)
    return np.where(apart > 0, np.maximum(past + fresh - 1, 0) / np.maximum(apart, 1), 0.0)


def adjusted_model(model: RewardModel, moves: float, *, squares: bool = True, first_left: float = 1.0) -> RewardModel:
    """The model of rewards that the adjustment shifts by up to `moves` (infinite if unknown). Raise if no model fits.

    `squares` says whether reports contain sums of squares, which private reports do not. `first_left` is the share of
    variance that is expected to remain in the first phase.

    >>> from parley.rewards import Gaussian
    >>> adjusted_model(Gaussian(), 1.0)
    Traceback (most recent call last):
    parley.errors.InvalidInput: covariate: found rewards with kind = 'gaussian', scale = 1.0; allowed: rewards in a
        range (kind "bounded" or "binary"), or kind "gaussian" with scale = "unknown": adjusted outcomes may scatter by
        more than a scale that is stated, and those of two arms by different scales
    """
    form = model.adjusted_form
    if not form or model.shared_axes:
        found = ", ".join(f"{key} = {value!r}" for key, value in model.document().items())
        raise InvalidInput("covariate", found=f"rewards with {found}"[:160], allowed=ALLOWED)
    left: dict[str, Any] = {"first_left": first_left, "outcome": model}
    if isinstance(model, UnknownScale):
        return AdjustedScale(scale=model.scale, guess=model.guess, **left)
    if form == "normal":
        return AdjustedNormal(guess=float(np.max(model.first_variance)) ** 0.5, **left)
    low, high = model.ends
    wider = {"low": low - moves, "high": high + moves, **left}
    if form == "half the range" or not squares:
        return AdjustedRange(**wider)
    return AdjustedVariance(**wider, guess=getattr(model, "guess", None))
