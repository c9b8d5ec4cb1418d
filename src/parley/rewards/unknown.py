"""Gaussian rewards whose scale nobody knows: one for all, one per agent, or one per arm and agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from parley.checks import FloatArray, positive
from parley.confidence.evidence import LARGEST_STAKE
from parley.confidence.student import log_floored_bet, normal_score
from parley.errors import InvalidInput
from parley.rewards import sampling
from parley.rewards.base import RewardModel, Sampler
from parley.rewards.bets import BOLDNESS, LOG_SHARES, Bets, wagers
from parley.rewards.doubts import LEVEL, ROUNDING, largest_variance
from parley.rewards.gap_bounds import Bound, Look, student_bound
from parley.rewards.intervals import Interval, Seen, student_interval
from parley.rewards.products import at_bets, contrast_variance
from parley.rewards.scales import Scale, squared_scale
from parley.totals import Totals

__all__ = ["SCOPES", "UnknownScale"]

SCOPES = {  # what may be pooled -> the axes of (arm, agent) that share a scale
    "unknown": (-2, -1),
    "unknown per agent": (-2,),
    "unknown per cell": (),
}
PRIOR = 4.0  # degrees of freedom that an estimate to plan by borrows from the wider one
LEAST_DRAWS = {"unknown": 2, "unknown per agent": 4, "unknown per cell": 12}
TINY = 1e-280


@dataclass(frozen=True, kw_only=True)
class UnknownScale(RewardModel):
    """`guess` sizes the first phase and nothing else; what is simulated is the truth's scale, or the guess.

    >>> UnknownScale().document()
    {'kind': 'gaussian', 'scale': 'unknown', 'guess': 1.0}
    """

    kind: ClassVar[str] = "gaussian"
    boosted: ClassVar[bool] = True
    bound_words: ClassVar[str] = ""
    needs_squares: ClassVar[bool] = True
    scale: str = "unknown"
    guess: float = 1.0

    def __post_init__(self) -> None:
        if self.scale not in SCOPES:
            allowed = f"a number, a row, a matrix, or one of {', '.join(SCOPES)}"
            raise InvalidInput("noise.scale", found=repr(self.scale), allowed=allowed)
        object.__setattr__(self, "guess", positive("noise.guess", self.guess))

    def require_scale(self, who: str) -> None:
        raise InvalidInput(
            "noise.scale",
            found=f'"{self.scale}"',
            allowed=f"a known scale (a number, a row or a matrix): {who} has intervals of known width",
            hint='State the scale under [noise], or use the policy "evidence"',
        )

    @property
    def variance(self) -> float:
        """There is none to be had: whoever needs a known scale is told so."""
        self.require_scale("this policy")
        raise AssertionError  # never reached

    @property
    def largest_scale(self) -> float:
        return float(np.sqrt(self.variance))

    @property
    def first_variance(self) -> float:
        return self.guess**2

    @property
    def least_draws(self) -> int:  # type: ignore[override]
        """Of every cell that a plan needs: without degrees of freedom there is no evidence."""
        return LEAST_DRAWS[self.scale]

    def cell_variances(self, past: Totals) -> FloatArray:
        """Each group's own, drawn towards that of the next wider one; the guess where nothing was drawn."""
        scatter, degrees = past.scatter, np.maximum(past.counts - 1, 0).astype(np.float64)
        each: FloatArray = np.full(past.counts.shape, self.first_variance)
        for axes, prior in (((-2, -1), 1e-9), ((-2,), PRIOR), ((), PRIOR)):
            pooled, nu = _pooled(scatter, axes), _pooled(degrees, axes)
            each = (pooled + prior * each) / (nu + prior)
            if axes == SCOPES[self.scale]:
                break
        return np.maximum(np.broadcast_to(each, past.counts.shape), TINY)

    def fresh_variances(self, fresh: Totals) -> tuple[FloatArray, FloatArray]:
        """`(..., arm, agent)` each: a cell's variance by the phase alone, and the degrees of freedom of it."""
        axes = SCOPES[self.scale]
        degrees = _pooled(np.maximum(fresh.counts - 1, 0).astype(np.float64), axes)
        variances = _pooled(fresh.scatter, axes) / np.maximum(degrees, 1.0)
        return np.broadcast_to(variances, fresh.counts.shape), np.broadcast_to(degrees, fresh.counts.shape)

    def payoff(self, bets: Bets) -> FloatArray:
        """The bet on Student's t, by its normal score; it abstains without degrees of freedom.

        Stakes come from the past's scale; V is estimated by the phase alone, independent of its means.
        """
        stakes = np.minimum(BOLDNESS * wagers(bets) / np.sqrt(bets.variance)[:, None], LARGEST_STAKE)
        variances, degrees = self.fresh_variances(bets.fresh)
        least = self._least(degrees, bets.weights)
        estimated = contrast_variance(bets, variances)
        told = estimated > TINY
        nu = np.where(told, np.minimum(*at_bets(bets, least, least)), 0.0)
        t = bets.contrast / np.sqrt(np.where(told, estimated, 1.0))
        paid, _ = log_floored_bet(normal_score(t, nu), stakes, LOG_SHARES, bets.missing)
        return np.where(nu > 0, paid, 0.0)

    def _fresh_mixed(self, fresh: Totals, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`(..., arm, agent)` each: a mixed mean's variance by the phase alone, and its least degrees of freedom."""
        variances, degrees = self.fresh_variances(fresh)
        reciprocals = np.divide(1.0, fresh.counts, out=np.zeros(variances.shape), where=fresh.counts > 0)
        least = self._least(degrees, weights)
        return (variances * reciprocals) @ np.square(weights), least

    def seen(self, past: Totals, fresh: Totals, weights: FloatArray) -> Seen:
        """A phase weighs by its draws alone: no scale is known, and none is needed."""
        known = super().seen(Totals.zero(past.counts.shape), fresh, weights)
        estimated, degrees = self._fresh_mixed(fresh, weights)
        return replace(known, estimated=estimated, degrees=degrees)

    def interval(self, seen: Seen, line: float) -> Interval:
        return student_interval(seen, line)

    def gap_bound(self, look: Look, signal: FloatArray, information: FloatArray) -> Bound:
        mixed, least = self._fresh_mixed(look.fresh, look.weights)
        estimated = look.both(mixed)
        pair = np.minimum(least[..., None, :, :], np.take_along_axis(least[..., None, :, :], look.opponents, axis=-2))
        return student_bound(look, signal, information, estimated=estimated, degrees=pair.min(axis=-3))

    def _least(self, degrees: FloatArray, weights: FloatArray) -> FloatArray:
        """`(..., arm, agent m)`: the smallest degrees of freedom among the agents that m weighs."""
        if self.scale == "unknown":
            return degrees
        least, weighed = np.empty(degrees.shape), weights > 0
        for arm in range(degrees.shape[-2]):  # one at a time: agent by agent is large enough
            least[..., arm, :] = np.where(weighed, degrees[..., arm, :, None], np.inf).min(axis=-2)
        return least

    def estimated_scale(self, past: Totals) -> FloatArray:
        return np.sqrt(self.cell_variances(past))

    def ceiling(self, past: Totals, phases: int) -> FloatArray:
        """By the scatter of the past around its own mean: no less than that of each phase, of which it has the degrees
        of freedom.
        """
        axes = SCOPES[self.scale]
        scatter = past.scatter + ROUNDING * past.require_squares()
        degrees = np.maximum(past.counts - phases, 0).astype(np.float64)
        level = LEVEL / 4 / past.counts.size
        most = largest_variance(_pooled(scatter, axes), _pooled(degrees, axes), level)
        return np.broadcast_to(most, past.counts.shape)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        return squared_scale(self.guess if scale is None else scale)

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        true = np.array(self.guess if scale is None else scale)
        return {"gaussian": lambda: sampling.gaussian(means, float(true) if true.ndim == 0 else true)}


def _pooled(values: FloatArray, axes: tuple[int, ...]) -> FloatArray:
    return np.asarray(values.sum(axis=axes, keepdims=True)) if axes else values
