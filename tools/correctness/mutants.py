"""Evidence racing with deliberate flaws; tests of its error rate must detect them, or they prove nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from tools.correctness.ties import Maker, Tie

from parley.policies.evidence.racing import EvidenceRacing
from parley.policies.evidence.wealth import Contrasts, Wealth
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.rewards import Bets, Binary, BinaryNormal, BoundedVariance, Gaussian, RewardModel, UnknownScale
from parley.rewards import bets as betting
from parley.rewards.bets import LOG_SHARES, boosted_stakes, log_bet, log_boost
from parley.totals import Totals


class OpponentsAfterTheData(EvidenceRacing):
    """Opponents are chosen by the phase's own draws; estimates still come from earlier phases."""

    def weigh(self, state: Wealth, stats: Totals, contrasts: Contrasts) -> Wealth:
        seen = replace(state, counts=state.counts + stats.counts, sums=state.sums + stats.sums)
        opponents = self.contrasts(seen).opponents
        mixed = self.problem.mixed(state.means)[..., None, :, :]
        gap = np.take_along_axis(mixed, opponents, axis=-2) - mixed
        return super().weigh(state, stats, replace(contrasts, opponents=opponents, gap=gap))


class ThresholdWithoutAgents(EvidenceRacing):
    """The line is log(N / delta), which is right for one agent only."""

    @property
    def line(self) -> float:
        return math.log(self.problem.top / self.problem.delta)


class VarianceUnderstated(EvidenceRacing):
    """Variances are a third too small."""

    def variances(self, counts: IntArray, past: Totals, releases: IntArray | int = 1) -> FloatArray:
        return super().variances(counts, past, releases) * 2 / 3


class TwiceTheMultiplier(Gaussian):
    """A bet is multiplied by twice the factor that the cap allows."""

    def payoff(self, bets: Bets) -> FloatArray:
        return super().payoff(bets) + math.log(2)


class RatesAfterTheData(Binary):
    """References and stakes use estimates that include the phase's own draws."""

    def payoff(self, bets: Bets) -> FloatArray:
        seen = bets.past + bets.fresh
        mixed = seen.means @ bets.weights
        sides = (mixed[(*bets.replication, arm, bets.agent)] for arm in (bets.opponent, bets.arm))
        return super().payoff(replace(bets, past=seen, estimate=next(sides) - next(sides)))


class PooledOverUnequalCells(UnknownScale):
    """Cells have different scales, but one scale is estimated for all, with all degrees of freedom."""

    def fresh_variances(self, fresh: Totals) -> tuple[FloatArray, FloatArray]:
        return UnknownScale(scale="unknown, shared").fresh_variances(fresh)


class FloorLeftOut(UnknownScale):
    """Below 0 the payoff is constant, but its multiplier is that of a payoff that keeps decreasing."""

    def payoff(self, bets: Bets) -> FloatArray:
        stakes = boosted_stakes(bets)
        z = np.maximum(bets.contrast / np.sqrt(bets.variance), 0.0)
        return log_bet(z, stakes, LOG_SHARES) + log_boost(stakes, LOG_SHARES, bets.missing)


class VarianceAtTheEstimates(BinaryNormal):
    """The normal approximation uses the variance at the estimated rates alone, and plans allow cells of any size."""

    bet_draws = 1

    def approximates(self, bets: Bets) -> BoolArray:
        return np.ones(len(bets.arm), dtype=bool)

    def scores(self, bets: Bets) -> FloatArray:
        with patch("parley.rewards.binary_normal.restricted_rates", lambda _shares, _counts, rates, _shift: rates):
            return super().scores(bets)


class VarianceOfThePast(BinaryNormal):
    """The normal approximation uses the variance from all rates so far, as if they never moved."""

    def scores(self, bets: Bets) -> FloatArray:
        pooled = bets.past + bets.fresh
        rates = self.rates(pooled)
        variance = betting.contrast_variance(bets, rates * (1 - rates))
        return bets.contrast / np.sqrt(variance)


class StakesBeyondTheLimit(BoundedVariance):
    """Stakes are not limited, but what is subtracted for them stops growing at the limit."""

    def payoff(self, bets: Bets) -> FloatArray:
        with patch("parley.rewards.bounded_variance.spread_stakes", _without_limit):
            return super().payoff(bets)


def _without_limit(_shares: FloatArray, _reference: FloatArray, gaps: FloatArray, variance: FloatArray) -> FloatArray:
    return gaps / variance[:, None]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A flaw, and a tie at which it must raise the error rate above delta."""

    words: str
    make: Maker
    tie: Tie


def _model(broken: RewardModel) -> Maker:
    """Evidence racing with `rounds = 8` and a broken model: flaws show best if phases are many and small."""
    precision, growth, optimism, caution = EvidenceRacing.tempers[8]
    return lambda problem: EvidenceRacing(
        problem=problem.with_(noise=broken),
        precision=precision,
        growth=growth,
        optimism=optimism * broken.optimism,
        caution=caution * broken.caution,
    )


def _tie(noise: str = "gaussian", *, arms: int = 5, agents: int = 1) -> Tie:
    return Tie(noise=noise, arms=arms, agents=agents, top=1, all_tied=arms > 2)


def _policy(kind: type[EvidenceRacing]) -> Maker:
    def make(problem: Problem) -> EvidenceRacing:
        return kind(problem=problem)

    return make


MUTANTS = (
    Mutant(words="opponents chosen after the data", make=_policy(OpponentsAfterTheData), tie=_tie()),
    Mutant(words="a line without the agents", make=_policy(ThresholdWithoutAgents), tie=_tie(agents=3)),
    Mutant(words="a third of the variance overlooked", make=_policy(VarianceUnderstated), tie=_tie()),
    Mutant(words="twice the multiplier", make=_model(TwiceTheMultiplier()), tie=_tie(arms=2)),
    Mutant(words="floor left out", make=_model(FloorLeftOut()), tie=_tie("unknown, shared", arms=2)),
    Mutant(
        words="scale pooled over unequal cells",
        make=_model(PooledOverUnequalCells(scale="unknown")),
        tie=replace(_tie("unknown", arms=2, agents=3), mixed=False),
    ),
    Mutant(words="reference after the data", make=_model(RatesAfterTheData(rate=0.1)), tie=_tie("binary 0.1")),
    Mutant(
        words="stakes beyond the limit",
        make=_model(StakesBeyondTheLimit(low=0, high=1, guess=0.1)),
        tie=_tie("variance 0.05"),
    ),
    Mutant(
        words="the variance of rates at their estimates",
        make=_model(VarianceAtTheEstimates()),
        tie=_tie("normal 0.1, no rate"),
    ),
)
