"""Base class of models of sub-Gaussian rewards whose variance is known before the first draw.

A subclass needs only `variance`, its keys and its samplers: contrasts have known variances, bets and intervals have
closed forms, and lower bounds are those of Gaussian rewards. If rewards have a range, simulated rewards lie at its two
ends, where the variance is largest.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from parley.rewards import intervals, sampling
from parley.rewards.base import RewardModel
from parley.rewards.bets import Bets, at_bets, contrast_payoff
from parley.rewards.intervals import Bound, ContrastSummary, Interval, PhaseContrasts
from parley.rewards.sampling import Sampler, TiltedLaw
from parley.rewards.scales import Scale
from parley.totals import Totals
from parley.validation.checks import FloatArray


@dataclass(frozen=True, kw_only=True)
class KnownVariance(RewardModel):
    """Base of models of sub-Gaussian rewards with known variance; a subclass adds `variance`, keys and samplers."""

    knows_scale: ClassVar[bool] = True

    @property
    @abstractmethod
    def variance(self) -> FloatArray | float:
        """The square of the sub-Gaussian scale: a number, or an array that broadcasts to `(arm, agent)`."""

    @property
    def first_variance(self) -> FloatArray | float:
        return self.variance

    def cell_variances(self, past: Totals) -> FloatArray | float:  # noqa: ARG002
        return self.variance

    def payoff(self, bets: Bets) -> FloatArray:
        lost = self.mixed_rounding(bets.fresh, bets.weights)
        if lost is not None:
            bets = replace(bets, contrast=bets.contrast - sum(at_bets(bets, lost, lost)))
        return contrast_payoff(bets, boosted=self.boosted)

    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        phase = self.rounded_down(phase)
        # The gap is at least s if every opponent is better by s, so the least favourable opponent counts.
        widest = phase.variance.max(axis=-3)
        signal = signal + np.where(phase.observed, phase.contrast.min(axis=-3) / widest, 0.0)
        information = information + np.where(phase.observed, 1 / widest, 0.0)
        return signal, information, gap_lower_bound(signal, information, line=phase.line, scale=phase.scale)

    def interval(self, summary: ContrastSummary, line: float) -> Interval:
        return intervals.gaussian_interval(summary, line)

    def variance_ceiling(self, past: Totals, phases: int) -> FloatArray | None:  # noqa: ARG002
        return None if self.in_range else np.broadcast_to(self.variance, past.counts.shape)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        return self.variance

    @property
    def bound_note(self) -> str:
        return f"for Gaussian rewards of scale {self.largest_scale:g}; others can be easier"

    def true_variances(self, means: FloatArray, scale: Scale | None = None) -> FloatArray:
        """`(arm, agent)`: variances of rewards at the two ends of the range; without a range, those of lower bounds."""
        if self.low is None or self.high is None:
            return super().true_variances(means, scale)
        return np.asarray((means - self.low) * (self.high - means))

    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        return sampling.gaussian(means, scale)

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        """The tilted law of two-valued rewards if they have a range, else of Gaussian rewards.

        Models with other samplers override this method.
        """
        if self.low is None or self.high is None:
            return sampling.tilted_gaussian(means, self.true_variances(means, scale))
        return sampling.tilted_two_valued(means, self.low, self.high)


def gap_lower_bound(signal: FloatArray, information: FloatArray, *, line: float, scale: float) -> FloatArray:
    """An anytime-valid lower bound on a gap from `signal` = sum Y / V and `information` = sum 1 / V over phases.

    exp(lam (signal - s information) - lam^2 information / 2) is a supermartingale if the gap is s, and so is its
    mixture over lam ~ |N(0, scale^2)|. Ville's inequality for that mixture at level exp(-line), solved for s, gives the
    bound in closed form. The bound is -inf without information.

    >>> gap_lower_bound(np.array([500.0, 0.0]), np.array([1000.0, 0.0]), line=3.0, scale=0.2).round(3).tolist()
    [0.4, -inf]
    """
    weight = scale**2 * information
    height = np.sqrt(2 * line + np.log1p(weight))
    lower = signal - height * np.sqrt(1 + weight) / scale
    return np.asarray(np.divide(lower, information, out=np.full(lower.shape, -np.inf), where=information > 0))
