"""Means that the stated model rules out: a report that holds one waits for an administrator (`protocol.admission`).

Rewards of a cell (an arm at an agent) have one mean, and scatter by a scale that is stated, or that the past bounds.
So with probability 1 - LEVEL, over all cells and all phases of a study at once:

- a phase's mean of d draws is within `scale * sqrt(2 log(2 / a) / d)` of the cell's, where phase p has the share
  `a = LEVEL / 2 * 6 / (pi^2 p^2)` over the number of cells (a sub-Gaussian tail, given the past);
- the mean of all n draws before is within `scale * sqrt((n + 1) (log(n + 1) - 2 log b)) / n` of it, however many the
  past let be drawn, with `b = LEVEL / 4` over the number of cells (Robbins' mixture: it holds for every n at once);
- where the scale is not stated, it is at most `ceiling` (`largest_variance`), with the rest of LEVEL.

A report is held where no mean fits a cell's draws before and now, with a quarter of the scale for sites that change.
The first report of a cell has nothing before it. There the means of one agent's arms are compared: no two of them lie
further apart than FAR times the scale, or FAR times the largest gap that the study allows for. Without any scale, in
the first phase of a study that states none, that is the only word there is, and it is a loose one: GUESSED times what
was guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from parley.checks import FloatArray
from parley.totals import Totals

__all__ = ["LEVEL", "ROUNDING", "Doubt", "Past", "doubt", "largest_variance"]

LEVEL = 1e-6  # chance that any report at all is held, in a whole study whose model is right
FAR = 100.0  # arms of one agent do not differ by more, in scales or largest gaps
GUESSED = 1e6  # nor by more than this, in guessed scales or largest gaps, where no scale is known yet
DRIFT = 0.25  # of the scale: a site's people change with the seasons
ROUNDING = 1e-9  # of sums, in any order

# Factors below 1 by which a variance may be smaller than claimed; the evidence for each is a martingale.
FACTORS = np.array([0.9, 0.75, 0.5, 0.25, 0.1, 0.01])


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What is wrong with a report: the mean of `arm`, and what it is too far from."""

    arm: int
    mean: float
    against: float  # the mean that it was compared with
    other: int | None  # of that arm in the same report; None: of the same arm before
    allowed: float  # as far as it may be from it

    def words(self, arms: tuple[str, ...]) -> str:
        """In words.

        >>> Doubt(arm=0, mean=1e11, against=0.5, other=1, allowed=100.0).words(("placebo", "drug"))
        'the mean 1e+11 of placebo is further from the one of drug, 0.5, than 100, which the stated model allows'
        """
        whose = "it had before" if self.other is None else f"of {arms[self.other]}"
        return (
            f"the mean {self.mean:.6g} of {arms[self.arm]} is further from the one {whose}, {self.against:.6g}, than "
            f"{self.allowed:.3g}, which the stated model allows"
        )


def largest_variance(scatter: FloatArray, degrees: FloatArray, level: float) -> FloatArray:
    """What a variance is at most, by a scatter that is at least chi-squared of these degrees; inf where they are few.

    For f < 1 the likelihood ratio of a variance f times as large, `nu/2 log(1/f) - (1/f - 1) q/2` with q the scatter
    over the variance, is the logarithm of a martingale: so q is never below `(nu log(1/f) - 2 line) / (1/f - 1)`.

    >>> [round(float(v), 2) for v in largest_variance(np.array([5.0, 1000.0]), np.array([5.0, 1000.0]), 1e-6)]
    [inf, 1.3]
    """
    line = math.log(len(FACTORS) / level)
    least = (degrees[..., None] * np.log(1 / FACTORS) - 2 * line) / (1 / FACTORS - 1)
    best = least.max(axis=-1)
    return np.where(best > 0, scatter / np.where(best > 0, best, 1.0), np.inf)


@dataclass(frozen=True, kw_only=True, eq=False)
class Past:
    """What the decided phases say of every cell: made once a phase, asked with every report."""

    totals: Totals  # (arm, agent)
    ceiling: FloatArray  # (arm, agent): what variances are at most, inf where nobody knows
    phases: int

    def cells(self, agent: int) -> Iterator[tuple[int, float, float]]:
        """One agent's draws, mean and largest scale, arm by arm."""
        counts, sums = self.totals.counts[:, agent].tolist(), self.totals.sums[:, agent].tolist()
        for count, total, most in zip(counts, sums, self.ceiling[:, agent].tolist(), strict=True):
            yield count, total / max(count, 1), math.sqrt(most)


class _Arm(NamedTuple):
    """An arm of a report: its mean, and how far from it the true one may lie."""

    place: int
    mean: float
    scale: float  # inf where nobody knows
    radius: float
    drawn: int  # before
    was: float  # its mean then


def doubt(
    counts: Sequence[int], sums: Sequence[float], past: Past, agent: int, *, guess: float, largest_gap: float
) -> Doubt | None:
    """What a report of an agent, arm by arm, holds that cannot be after the `past`; None if nothing.

    `guess` is a scale to begin with. Plain numbers: a report has few arms, and the hot path asks.
    """
    cells = past.ceiling.size
    share = LEVEL / 2 / cells * 6 / (math.pi * (past.phases + 1)) ** 2
    wide = math.sqrt(2 * math.log(2 / share))
    arms = [
        _Arm(place, total / count, scale, scale * wide / math.sqrt(count), drawn, was)
        for place, (count, total, (drawn, was, scale)) in enumerate(zip(counts, sums, past.cells(agent), strict=True))
        if count
    ]
    known = [arm for arm in arms if arm.scale < math.inf]
    largest = max((arm.scale for arm in known), default=0.0)
    return (
        _moved(known, LEVEL / 4 / cells)  # first: what an arm was before tells people more than another arm
        or _apart(known, FAR * max(largest, largest_gap))
        or _apart(
            [arm._replace(radius=0.0) for arm in arms if arm.scale == math.inf], GUESSED * max(guess, largest_gap)
        )
    )


def _apart(arms: list[_Arm], reach: float) -> Doubt | None:
    """Two arms of one report, too far from each other. The one that is off is the one far from the middle,
    or of two the larger one."""
    if len(arms) < 2:
        return None
    high, low = max(arms, key=lambda arm: arm.mean - arm.radius), min(arms, key=lambda arm: arm.mean + arm.radius)
    allowed = reach + high.radius + low.radius + ROUNDING * (abs(high.mean) + abs(low.mean))
    if high.mean - low.mean <= allowed:
        return None
    means = sorted(arm.mean for arm in arms)
    middle = means[len(means) // 2] / 2 + means[(len(means) - 1) // 2] / 2
    off, other = sorted((high, low), key=lambda arm: (abs(arm.mean - middle), abs(arm.mean)), reverse=True)
    return Doubt(arm=off.place, mean=off.mean, against=other.mean, other=other.place, allowed=allowed)


def _moved(arms: list[_Arm], level: float) -> Doubt | None:
    """An arm whose mean is not the one it had."""
    for arm in arms:
        if not arm.drawn:
            continue
        n = arm.drawn
        earlier = arm.scale * math.sqrt((n + 1) * (math.log(n + 1) - 2 * math.log(level))) / n
        allowed = arm.radius + earlier + DRIFT * arm.scale + ROUNDING * (abs(arm.mean) + abs(arm.was))
        if abs(arm.mean - arm.was) > allowed:
            return Doubt(arm=arm.place, mean=arm.mean, against=arm.was, other=None, allowed=allowed)
    return None
