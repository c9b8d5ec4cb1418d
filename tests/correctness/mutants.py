"""Evidence racing broken on purpose: if the tests of its error rate could not tell, they would prove nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from parley.confidence.evidence import LARGEST_STAKE, log_bet, log_boost
from parley.policies.evidence_plan import Contrasts
from parley.policies.evidence_racing import EvidenceRacing
from parley.policies.wealth import Wealth
from parley.problem import FloatArray, IntArray
from parley.rewards import Bets, Binary, BoundedSpread, UnknownScale
from parley.rewards.bets import BOLDNESS, LOG_SHARES, wagers
from parley.totals import Totals


class OpponentsAfterTheData(EvidenceRacing):
    """Every arm meets whoever the phase's own draws make look best; estimates still come from before."""

    def _weigh(self, state: Wealth, stats: Totals, contrasts: Contrasts) -> Wealth:
        seen = replace(state, counts=state.counts + stats.counts, sums=state.sums + stats.sums)
        opponents = self.contrasts(seen).opponents
        mixed = self.problem.mixed(state.means)[..., None, :, :]
        gap = np.take_along_axis(mixed, opponents, axis=-2) - mixed
        return super()._weigh(state, stats, replace(contrasts, opponents=opponents, gap=gap))


class ThresholdWithoutAgents(EvidenceRacing):
    """The line is log(N / delta): right for one agent only."""

    @property
    def line(self) -> float:
        return math.log(self.problem.top / self.problem.delta)


class VarianceUnderstated(EvidenceRacing):
    """A third of the variance is overlooked."""

    def _variances(self, counts: IntArray, past: Totals) -> FloatArray:
        return super()._variances(counts, past) * 2 / 3


class RatesAfterTheData(Binary):
    """Reference and stakes are made of estimates that hold the phase's own draws."""

    def payoff(self, bets: Bets) -> FloatArray:
        seen = bets.past + bets.fresh
        mixed = seen.means @ bets.weights
        sides = (mixed[(*bets.replication, arm, bets.agent)] for arm in (bets.opponent, bets.arm))
        return super().payoff(replace(bets, past=seen, estimate=next(sides) - next(sides)))


class PooledOverUnequalCells(UnknownScale):
    """Every cell has a scale of its own, and one is estimated for all, with all degrees of freedom."""

    def fresh_variances(self, fresh: Totals) -> tuple[FloatArray, FloatArray]:
        return UnknownScale(scale="unknown").fresh_variances(fresh)


class FloorLeftOut(UnknownScale):
    """Below 0 the bet pays what it pays at 0, but its multiplier is that of a bet that goes on falling."""

    def payoff(self, bets: Bets) -> FloatArray:
        stakes = np.minimum(BOLDNESS * wagers(bets) / np.sqrt(bets.variance)[:, None], LARGEST_STAKE)
        z = np.maximum(bets.contrast / np.sqrt(bets.variance), 0.0)
        return log_bet(z, stakes, LOG_SHARES) + log_boost(stakes, LOG_SHARES, bets.missing)


class StakesBeyondTheLimit(BoundedSpread):
    """Stakes as if there were no limit, and a toll that goes no further than the limit."""

    def payoff(self, bets: Bets) -> FloatArray:
        with patch("parley.rewards.spread.spread_stakes", _without_limit):
            return super().payoff(bets)


def _without_limit(_shares: FloatArray, _reference: FloatArray, gaps: FloatArray, variance: FloatArray) -> FloatArray:
    return gaps / variance[:, None]
