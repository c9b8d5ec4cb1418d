"""Normal inference if rates move between phases: `python -m tools.correctness normal-drift`, into docs/appendix.

Errors of a single look are computed by enumerating outcomes, those of whole studies are counted. The rates of both arms
move alike, so the pair stays at the edge of its null: ruling out the better arm is an error in every phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tools.correctness.common import APPENDIX, SEED, in_parallel
from tools.correctness.mutants import VarianceOfThePast
from tools.correctness.normal import SingleBet, likely
from tools.pages import fill, table

from parley.policies import make_policy
from parley.problem import FloatArray, Problem
from parley.rewards import BinaryNormal
from parley.totals import Totals
from parley.weights import personalized

PAGE = APPENDIX / "drift.md"
DELTA = 0.1
MOST_PHASES, MOST_TIMES = 20, 60  # limits on phases, and on samples in first phases, since a tie never ends
HIGHEST = 0.95  # rates stop rising here, all arms alike
PASTS = 20


@dataclass(frozen=True, kw_only=True)
class Look:
    """A last look at two arms of one agent, whose rates were different before."""

    before: float
    now: float
    draws: int = 60
    past: int = 120
    tolerance: float = 0.0

    def rejected(self, model: BinaryNormal) -> float:
        """The probability that a true null is rejected at level DELTA, over random pasts."""
        generator, missing = np.random.default_rng(SEED), -math.log(DELTA)
        bet = SingleBet(rate=self.now, opponent=self.draws, arm=self.draws, past=self.past, tolerance=self.tolerance)
        sides = [likely(self.draws, self.now), likely(self.draws, self.now + self.tolerance)]
        chances = np.outer(sides[0][1], sides[1][1]).ravel()
        found = []
        for _ in range(PASTS):
            ones = generator.binomial(self.past, [self.before, self.before + self.tolerance])
            bets = bet.bets(ones, missing, sides[0][0], sides[1][0])
            found.append(float(chances[model.final_payoff(bets) >= missing].sum()))
        return float(np.mean(found))


WORLDS = {
    "rising": Look(before=0.05, now=0.25, tolerance=0.05),
    "flat": Look(before=0.1, now=0.1),
    "falling": Look(before=0.4, now=0.1, tolerance=0.05),
    "doubled": Look(before=0.05, now=0.1, draws=120),
}


@dataclass(frozen=True, kw_only=True)
class Moving:
    """Studies whose rates move; the first arm is the best, by exactly the tolerance."""

    rates: tuple[float, ...]
    move: Callable[[int, float], float]  # (phase, largest rate in the first phase) -> shift of all rates
    tolerance: float = 0.0
    agents: int = 1

    def errors(self, runs: int, seed: int = SEED) -> float:
        """The share of studies in which an agent rules out the first arm."""
        weights = personalized(self.agents, 0.5) if self.agents > 1 else [[1.0]]
        noise, arms = BinaryNormal(), len(self.rates)
        problem = Problem(arms=arms, weights=weights, noise=noise, delta=DELTA, tolerance=self.tolerance)
        policy, generator = make_policy("evidence", problem), np.random.default_rng(seed)
        state = policy.start((runs,))
        largest = MOST_TIMES * policy.plan(policy.start()).sum()
        for phase in range(MOST_PHASES):
            quotas = policy.plan(state)
            quotas[state.counts.sum(axis=(-2, -1)) > largest] = 0
            if not quotas.any():
                break
            sums = generator.binomial(quotas, self._at(phase)[:, None]).astype(np.float64)
            state = policy.update(state, Totals(counts=quotas, sums=sums))
        return float((~state.active[:, 0]).any(axis=-1).mean())

    def _at(self, phase: int) -> FloatArray:
        first, most = np.array(self.rates), max(self.rates)
        step = np.clip(self.move(phase, most), -min(self.rates), HIGHEST - most)
        return np.asarray(first + step)


def _rise(phase: int, _: float) -> float:
    return 0.1 * phase


def _fall(phase: int, _: float) -> float:
    return -0.1 * phase


def _season(phase: int, _: float) -> float:
    return 0.1 * (1 + math.sin(math.pi * phase / 2))


def _double(phase: int, rate: float) -> float:
    return rate * (2.0**phase - 1)


def _stay(_phase: int, _: float) -> float:
    return 0.0


MOVING: Mapping[str, Moving] = {
    "flat, tolerance": Moving(rates=(0.06, 0.0095), move=_stay, tolerance=0.05),
    "rising, tolerance": Moving(rates=(0.06, 0.0095), move=_rise, tolerance=0.05),
    "rising, tolerance, three arms": Moving(rates=(0.06, 0.0095, 0.0095), move=_rise, tolerance=0.05),
    "rising, tolerance, four sites": Moving(rates=(0.06, 0.0095), move=_rise, tolerance=0.05, agents=4),
    "falling, tolerance": Moving(rates=(0.66, 0.6095), move=_fall, tolerance=0.05),
    "season, tolerance": Moving(rates=(0.06, 0.0095), move=_season, tolerance=0.05),
    "flat": Moving(rates=(0.1, 0.1), move=_stay),
    "rising": Moving(rates=(0.02, 0.02), move=_rise),
    "falling": Moving(rates=(0.6, 0.6), move=_fall),
    "doubling": Moving(rates=(0.01, 0.01), move=_double),
    "season": Moving(rates=(0.05, 0.05), move=_season),
    "doubling, a third rare arm": Moving(rates=(0.05, 0.05, 0.002), move=_double),
    "season, four sites": Moving(rates=(0.05, 0.05), move=_season, agents=4),
}


def normal_drift(runs: int, workers: int) -> bool:
    """Rewrite both tables; returns whether no row is above delta by more than three standard errors."""
    looks = [
        [name, f"{look.before:g}", f"{look.now:g}", f"{look.tolerance:g}"]
        + [f"{look.rejected(model):.3f}" for model in (VarianceOfThePast(), BinaryNormal())]
        for name, look in WORLDS.items()
    ]
    found = dict(in_parallel(_errors, [(name, runs) for name in MOVING], workers))
    error = math.sqrt(DELTA * (1 - DELTA) / runs)
    rows = [[name, f"{moving.agents}", f"{found[name, runs]:.4f}"] for name, moving in MOVING.items()]
    one = table(["one look", "rate before", "now", "tolerance", "past and phase", "the phase alone"], looks)
    fill(PAGE, "normal", f"{one}\n\n{table([f'{runs:,} studies', 'M', 'errors'], rows)}")
    return all(share <= DELTA + 3 * error for share in found.values())


def _errors(task: tuple[str, int]) -> float:
    name, runs = task
    return MOVING[name].errors(runs)
