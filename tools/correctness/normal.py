"""Error rates of `inference = "normal"`: of single bets by enumerating outcomes, of studies by counting and tilting.

`python -m tools.correctness normal` rewrites one section of docs/appendix in a few minutes on one core.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom
from tools.correctness.common import APPENDIX, SEED, in_parallel
from tools.correctness.near_ties import NORMAL
from tools.correctness.ties import Tie
from tools.pages import fill, part, table

from parley.problem import FloatArray, Instance, IntArray
from parley.rewards import Bets, BinaryNormal
from parley.totals import Totals
from parley.weights import personalized

PAGE = APPENDIX / "delta-correctness.md"
NAME = "normal"
SHAPES = ((2, 1, False), (5, 1, True), (2, 3, False))  # arms, agents, whether all tie
POOLED = ("normal 0.5", "normal 0.25, no rate", "normal 0.1, no rate")  # also with sites that share small cells
COUNTED, TILTED = (0.1, 0.01), (0.1, 0.01, 1e-5)  # deltas
PASTS = 20  # random pasts of a single bet
LEVELS = (0.1, 0.01, 0.001)
IMPOSSIBLE = 1e-16  # outcomes with a smaller probability are left out
WORST = 1.25  # limit on error rate / delta, up to chance; beyond it, the page would need a stronger warning


@dataclass(frozen=True, kw_only=True)
class SingleBet:
    """A bet on two arms of one agent that tie, up to a tolerance, with the numbers of fresh draws of both."""

    rate: float
    opponent: int
    arm: int
    past: int  # draws of each before the phase
    tolerance: float = 0.0

    def expected(self, level: float, *, final: bool, seed: int = SEED) -> float:
        """The expected capped payoff, averaged over pasts; a fair bet has at most 1. `level` is 1 / the missing wealth.

        The stake is that of a phase planned to reach the line.
        """
        generator, missing = np.random.default_rng(seed), -math.log(level)
        sides = [likely(self.opponent, self.rate), likely(self.arm, self.rate + self.tolerance)]
        chances = np.outer(sides[0][1], sides[1][1]).ravel()
        found = []
        for _ in range(PASTS):
            before = generator.binomial(self.past, [self.rate, self.rate + self.tolerance])
            model, bets = BinaryNormal(), self.bets(before, missing, sides[0][0], sides[1][0])
            paid = model.final_payoff(bets) if final else model.payoff(bets)
            found.append(float(chances @ np.exp(np.minimum(paid, missing))))
        return float(np.mean(found))

    def bets(self, before: IntArray, missing: float, opponent: IntArray, arm: IntArray) -> Bets:
        """A bet for every outcome, given the successes of the opponent and of the arm."""
        ones = np.meshgrid(opponent, arm, indexing="ij")
        sums = np.stack([side.ravel() for side in ones], axis=-1)[..., None].astype(np.float64)
        outcomes = len(sums)
        counts = np.broadcast_to(np.array([[self.opponent], [self.arm]]), sums.shape)
        past = Totals(
            counts=np.full(sums.shape, self.past),
            sums=np.broadcast_to(before[:, None].astype(np.float64), sums.shape),
        )
        variances = BinaryNormal().cell_variances(past)
        variance = (variances / counts).sum(axis=(-2, -1))
        gap = BinaryNormal().stake(np.array(missing), np.array(0.0)) * np.sqrt(variance)
        contrast = sums[:, 0, 0] / self.opponent - sums[:, 1, 0] / self.arm + self.tolerance
        first = np.zeros(outcomes, dtype=np.int64)
        return Bets(
            estimate=gap,
            error=0.3 * gap,
            missing=np.full(outcomes, missing),
            contrast=contrast,
            shift=self.tolerance,
            variance=variance,
            replication=(np.arange(outcomes),),
            opponent=first,
            arm=first + 1,
            agent=first,
            weights=np.array([[1.0]]),
            past=past,
            fresh=Totals(counts=counts, sums=sums),
        )


def likely(draws: int, rate: float) -> tuple[IntArray, FloatArray]:
    """Numbers of successes with their probabilities, without impossible ones."""
    ones = np.arange(draws + 1)
    chances = binom.pmf(ones, draws, rate)
    return ones[chances > IMPOSSIBLE], chances[chances > IMPOSSIBLE]


# Cells from the smallest planned size on, equal and unequal; the past is as large as the larger cell.
SINGLE = [
    SingleBet(rate=rate, opponent=small * more, arm=small * less, past=small * max(more, less), tolerance=tolerance)
    for rate, small in ((0.5, 10), (0.5, 30), (0.25, 10), (0.25, 30), (0.1, 10), (0.1, 60), (0.03, 200), (0.01, 600))
    for more, less, tolerance in ((1, 1, 0.0), (3, 1, 0.0), (1, 3, 0.0), (1, 1, rate / 5))
]


def normal(runs: int, workers: int) -> bool:
    """Measure and rewrite the section; returns whether no error rate exceeds WORST times delta."""
    single = [
        [f"{bet.rate:g}", f"{bet.opponent}", f"{bet.arm}", f"{bet.tolerance:g}"]
        + [f"{bet.expected(level, final=final):.2f}" for final in (False, True) for level in LEVELS]
        for bet in SINGLE
    ]
    found = dict(in_parallel(_measured, [(*task, runs) for task in _tasks()], workers))
    rows, good = [], True
    for tie in _ties():
        row = [tie.noise.removeprefix("normal "), f"{tie.arms}", _agents(tie), "all" if tie.all_tied else "two"]
        for delta in TILTED:
            for tilted in (False, True) if delta in COUNTED else (True,):
                wrong, error = found[replace(tie, delta=delta), tilted, runs]
                row.append(f"{wrong / delta:.2f} ± {error / delta:.2f}")
                good &= wrong - 3 * error <= WORST * delta
        rows.append(row)
    heads = ["rate", "K", "M", "tie"]
    for delta in TILTED:
        heads += [f"{delta:g}, counted"] * (delta in COUNTED) + [f"{delta:g}, tilted"]
    levels = [f"{kind}, {level:g}" for kind in ("bet", "last look") for level in LEVELS]
    text = TEXT.format(
        runs=runs,
        seed=SEED,
        pasts=PASTS,
        studies=table(heads, rows),
        bets=table(["rate", "opponent", "arm", "tolerance", *levels], single),
    )
    fill(PAGE, NAME, text)
    print(text)
    return good


def kept() -> str:
    """The current section, for the tool that rewrites the rest of the page."""
    return part(PAGE, NAME).rstrip("\n")


@dataclass(frozen=True, kw_only=True)
class PooledTie(Tie):
    """A tie of agents that give half or all of their weight equally to everybody."""

    own: float  # extra weight of an agent's own reward

    @property
    def instance(self) -> Instance:
        plain, weights = super().instance, personalized(self.agents, self.own)
        return replace(plain, problem=plain.problem.with_(weights=weights))


def _ties() -> Iterator[Tie]:
    for noise in NORMAL:
        for arms, agents, all_tied in SHAPES:
            yield Tie(noise=noise, arms=arms, agents=agents, top=1, all_tied=all_tied)
    for noise in POOLED:
        for agents, own in ((4, 0.5), (4, 0.0), (10, 0.0)):
            yield PooledTie(noise=noise, arms=5, agents=agents, top=1, all_tied=True, own=own)


def _agents(tie: Tie) -> str:
    if not isinstance(tie, PooledTie):
        return f"{tie.agents}"
    return f"{tie.agents}, " + ("half for all" if tie.own else "all for all")


def _tasks() -> Iterator[tuple[Tie, bool]]:
    for tie in _ties():
        for delta in TILTED:
            for tilted in (False, True) if delta in COUNTED else (True,):
                yield replace(tie, delta=delta), tilted


def _measured(task: tuple[Tie, bool, int]) -> tuple[float, float]:
    tie, tilted, runs = task
    found = tie.tilted(max(runs // 10, 100), SEED) if tilted else tie.counted(runs, SEED)
    asked = tie.agents if isinstance(tie, PooledTie) and not tie.own else 1  # they ask the same and err together
    return found.agents_wrong / asked, found.error / asked


TEXT = """
`inference = "normal"` of [binary rewards](../rewards.md) takes contrasts of rates for Gaussian ones, so its error is
not proven. `python -m tools.correctness normal --replications {runs}` measures it and rewrites this section. Errors
over delta as above, at ties of rates from 1 to 50 % and of 90 %: {runs:,} plain runs, a tenth of them tilted for every
agent, seed {seed}. `no rate` is a study that states none, whose first cells are the smallest. *Half for all*: agents
give half of the weight to all sites evenly, *all for all* all of it.

{studies}

A single bet, by adding up all outcomes of two cells that tie (with a tolerance: that lie apart by it), averaged over
{pasts} random pasts as large as the larger cell: the expectation of its payoff, capped at one over the level. An exact
payoff has at most 1. *Last look* is all in.

{bets}
"""
