"""What a reward model is: all that depends on how rewards scatter, and nothing else asks for its name.

A model says what its keys in a study file are, how uncertain a mean is, what a phase's bet pays, what a report may
hold and how to simulate. Policies, bounds, the protocol and the simulator ask it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from parley.checks import FloatArray
from parley.errors import InvalidInput, UnknownName
from parley.rewards import plausibility, sampling
from parley.rewards.bets import Bets, contrast_payoff
from parley.rewards.intervals import Bound, Interval, Look, Seen, gaussian_interval, known_variance_bound
from parley.rewards.payoffs import stake_that_crosses
from parley.rewards.plausibility import Doubt, Flaw, Past, doubt
from parley.rewards.sampling import Sampler
from parley.rewards.scales import Scale
from parley.settings import Key
from parley.totals import Totals

__all__ = ["RewardModel", "Sampler"]


@dataclass(frozen=True, kw_only=True)
class RewardModel(ABC):
    """How rewards scatter around their mean."""

    kind: ClassVar[str]
    words: ClassVar[str]  # what it is, for the docs of the study file
    keys: ClassVar[Mapping[str, Key]]  # of [noise], the kind left out
    boosted: ClassVar[bool] = False  # whether payoffs are capped at the line and multiplied beforehand
    needs_squares: ClassVar[bool] = False  # whether evidence needs sums of squares; then a state keeps them
    two_valued: ClassVar[bool] = False  # 0 or 1: bounds are exact
    optimism: ClassVar[float] = 1.0  # times the policy's: what is not boosted gains more by planning in smaller steps
    caution: ClassVar[float] = 1.0
    least_draws: ClassVar[int] = 1  # of every cell that a plan needs
    low: ClassVar[float | None] = None  # where all rewards lie, if they do
    high: ClassVar[float | None] = None

    @classmethod
    def of(cls, keys: Mapping[str, Any]) -> Self:
        """From the keys of a study's [noise], the kind left out."""
        known = [field.name for field in fields(cls)]
        for key in keys:
            if key not in known:
                raise UnknownName(f"key in [noise] with kind {cls.kind!r}", key, ("kind", *known))
        return cls(**keys)

    def document(self) -> dict[str, Any]:
        """The keys of [noise], ready to be stored: `make_model(**document)` gives back the same model."""
        return {"kind": self.kind} | {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    @abstractmethod
    def variance(self) -> FloatArray | float:
        """One for all, or what broadcasts to `(arm, agent)`: the square of the sub-Gaussian scale."""

    @property
    @abstractmethod
    def largest_scale(self) -> float:
        """The largest sub-Gaussian scale, a standard deviation."""

    @property
    def stated_variance(self) -> FloatArray | float | None:
        """What the data can contradict: the square of a stated scale; None where none is stated."""
        return None

    def require_scale(self, who: str) -> None:  # noqa: B027
        """Raise where no scale is known that could serve `who`."""

    def fit(self, shape: tuple[int, int]) -> None:  # noqa: B027
        """Raise unless the model fits a problem of this shape."""

    @property
    def first_variance(self) -> FloatArray | float:
        """One, or `(arm, agent)`: the variance by which the first phase is sized."""
        return self.variance

    def first_gap(self, largest_gap: float) -> float:
        """The gap of which the first phase's standard errors are a share."""
        return largest_gap

    @property
    def usual_gap(self) -> float:
        """What no gap exceeds, if the study does not say."""
        return 1.0 if self.low is None or self.high is None else self.high - self.low

    def usual_gaps(self, largest_gap: float) -> list[float]:
        """The gaps to try a study on where nobody named any: a half, a quarter and an eighth of the largest."""
        return [largest_gap / 2, largest_gap / 4, largest_gap / 8]

    def usual_spread(self, largest_gap: float) -> float:
        """How far apart arms may be in truths to try a study on."""
        return largest_gap

    def scenario(self, gap: float) -> tuple[str, float]:
        """What a truth with this gap is called, and the mean of the arms that are not the best."""
        return f"gap {gap:g}", self.usual_mean - gap / 2

    @property
    def usual_mean(self) -> float:
        """Where scenarios without a known truth are put."""
        return 0.0 if self.low is None or self.high is None else (self.low + self.high) / 2

    def cell_variances(self, past: Totals) -> FloatArray | float:  # noqa: ARG002
        """`(..., arm, agent)` or one number: the variance of a reward, known, or as the past tells."""
        return self.variance

    def payoff(self, bets: Bets) -> FloatArray:
        """The log of what every bet pays; at least `bets.missing` means that its slot reaches the line."""
        return contrast_payoff(bets, boosted=self.boosted)

    def stake(self, missing: FloatArray, margin: FloatArray) -> FloatArray:
        """Gap over standard deviation at which a phase wins what is missing; only to plan by."""
        return stake_that_crosses(missing, margin, boosted=self.boosted)

    def gap_bound(self, look: Look, signal: FloatArray, information: FloatArray) -> Bound:
        """Signal and information after a phase, and what they say that every gap is at least, `(..., arm, agent)`."""
        return known_variance_bound(look, signal, information)

    def seen(self, past: Totals, fresh: Totals, weights: FloatArray) -> Seen:
        """What a phase shows of every mixed mean, `(..., arm, agent)`; what weighs it is fixed by past and counts."""
        counts = fresh.counts
        reciprocals = np.divide(1.0, counts, out=np.zeros(counts.shape), where=counts > 0)
        nothing = np.zeros(counts.shape)
        return Seen(
            contrast=fresh.means @ weights,
            variance=(self.cell_variances(past) * reciprocals) @ np.square(weights),
            told=(counts == 0).astype(np.float64) @ (weights > 0).astype(np.float64) == 0,
            toll=nothing,
            third=nothing,
            fourth=nothing,
            reach=nothing,
            estimated=nothing,
            degrees=nothing,
        )

    def interval(self, seen: Seen, line: float) -> Interval:
        """Where contrasts lie, by all phases that `seen` holds; `line` is the log of one over the level."""
        return gaussian_interval(seen, line)

    def true_variances(self, means: FloatArray, scale: Scale | None = None) -> FloatArray:
        """`(arm, agent)`: of rewards with these true means, as the usual sampler draws them."""
        if self.low is None or self.high is None:
            return np.broadcast_to(self.bound_variances(means, scale), means.shape)
        return np.asarray((means - self.low) * (self.high - means))

    def flaw(self, count: int, total: float, square: float) -> Flaw | None:
        """What a report's cell holds that no `count` rewards can have; None if all is well."""
        return plausibility.flaw(count, total, square, self.low, self.high)

    def rough_flaw(self, count: int, total: float, square: float) -> Flaw | None:
        """The same, as logs are judged that were written before `flaw` was asked."""
        return plausibility.rough_flaw(count, total, square, self.low, self.high)

    def check_means(self, means: FloatArray) -> None:
        """Raise unless true means can be these."""
        if self.low is None or self.high is None:
            return
        outside = (means < self.low) | (means > self.high)
        if outside.any():
            raise InvalidInput(
                "means",
                found=f"{means[outside][0]:.9g}",
                allowed=f"means between noise.low = {self.low:g} and noise.high = {self.high:g}",
            )

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        """What bounds go by: of rewards with these true means, and a true scale where one is told."""
        return self.variance

    @property
    def bound_words(self) -> str:
        """Of whose rewards the lower bounds are, where not of the study's own."""
        return f"for Gaussian rewards of scale {self.largest_scale:g}; others can be easier"

    def estimated_scale(self, past: Totals) -> FloatArray | None:  # noqa: ARG002
        """`(..., arm, agent)`: what the past says of a scale that is not known; None where there is nothing to say."""
        return None

    def ceiling(self, past: Totals, phases: int) -> FloatArray | None:  # noqa: ARG002
        """`(arm, agent)`: what variances are at most after so many phases, inf where nobody knows; None with bounds."""
        return None

    def past(self, totals: Totals, phases: int) -> Past | None:
        """What so many decided phases say of every cell, to hold reports against; None where rewards have bounds."""
        ceiling = self.ceiling(totals, phases)
        return None if ceiling is None else Past(totals=totals, ceiling=ceiling, phases=phases)

    def doubt(
        self, counts: Sequence[int], sums: Sequence[float], past: Past, agent: int, largest_gap: float
    ) -> Doubt | None:
        """What an agent's report, arm by arm, holds that the model rules out; None if nothing."""
        most = self.first_variance
        guess = math.sqrt(most if isinstance(most, float) else np.max(most))
        return doubt(counts, sums, past, agent, guess=guess, largest_gap=largest_gap)

    def imagined(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        """How a forecast draws: rewards with means and a scale that were guessed, `(..., arm, agent)`."""
        return sampling.gaussian(means, scale)

    @abstractmethod
    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        """How to simulate rewards with true `means (arm, agent)`, by name, the usual one first."""
