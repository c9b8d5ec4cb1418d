"""Gaussian rewards of a known scale: one for all, one per agent, or one per arm and agent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.checks import FloatArray
from parley.rewards import sampling
from parley.rewards.base import RewardModel
from parley.rewards.bets import Bets
from parley.rewards.intervals import ALL, ContrastSummary, Interval, staked_interval
from parley.rewards.payoffs import log_bet, log_boost, log_final_payoff
from parley.rewards.sampling import Sampler
from parley.rewards.scales import GUESS, SCALE, Scale, checked_scale, fitting, plain_scale, squared_scale
from parley.settings import Key
from parley.totals import Totals


@dataclass(frozen=True, kw_only=True)
class Scaled(RewardModel):
    """What models with a stated scale share."""

    scale: Scale = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale("noise.scale", self.scale))

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "scale": plain_scale(self.scale)}

    @property
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

    def variance_ceiling(self, past: Totals, phases: int) -> FloatArray:  # noqa: ARG002
        return np.broadcast_to(self.variance, past.counts.shape)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        return squared_scale(self.scale if scale is None else scale)

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        true = np.array(self.scale if scale is None else scale)
        return {"gaussian": lambda: sampling.gaussian(means, float(true) if true.ndim == 0 else true)}


@dataclass(frozen=True, kw_only=True)
class Gaussian(Scaled):
    """Exactly Gaussian: payoffs may be boosted.

    >>> Gaussian(scale=2.0).variance, Gaussian().document()
    (4.0, {'kind': 'gaussian', 'scale': 1.0})
    >>> Gaussian(scale=[0.5, 1.5]).document()
    {'kind': 'gaussian', 'scale': [0.5, 1.5]}
    """

    kind: ClassVar[str] = "gaussian"
    description: ClassVar[str] = "of known or unknown scale"
    keys: ClassVar[Mapping[str, Key]] = {"scale": SCALE, "guess": GUESS}
    study_defaults: ClassVar[Mapping[str, Any]] = {"scale": "unknown"}
    boosted: ClassVar[bool] = True
    assumes_gaussian: ClassVar[bool] = True
    bound_note: ClassVar[str] = ""

    def difference_interval(self, summary: ContrastSummary, line: float) -> Interval:
        """By boosted bets: see `parley.rewards.intervals.staked_interval`."""
        observed = summary.observed & (summary.variance > 0)  # that of an arm to itself has none

        def payoff(score: FloatArray, stake: FloatArray, missing: FloatArray) -> FloatArray:
            return log_bet(score, stake[..., None], ALL) + log_boost(stake[..., None], ALL, missing)

        root = np.sqrt(np.where(observed, summary.variance, 1.0))
        return staked_interval(summary, line, observed=observed, root=root, score=lambda t: t, payoff=payoff)

    def final_payoff(self, bets: Bets) -> FloatArray:
        return log_final_payoff(bets.contrast / np.sqrt(bets.variance), bets.missing)
