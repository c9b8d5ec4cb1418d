"""The two sides of a bet, cell by cell: the opponent's draws and the arm's, at every agent that the mix weighs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parley.checks import FloatArray, IntArray
from parley.rewards.bets import Bets

__all__ = ["Sides", "in_parts"]

SIGNS = np.array([1.0, -1.0])[:, None]
PART = 2**17  # cells looked at together: arrays that fit a cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Sides:
    """Some bets, `(bet, side, agent)`: the opponent first."""

    chosen: slice  # which of the bets
    shares: FloatArray  # signed: +w / d for the opponent, -w / d for the arm; 0 without weight
    counts: FloatArray  # fresh draws; 0 without weight
    _place: tuple[IntArray, ...]

    def of(self, values: FloatArray) -> FloatArray:
        """`(..., arm, agent)` values as those of the bets' cells."""
        return np.asarray(values[self._place])


def in_parts(bets: Bets) -> Iterator[Sides]:
    """All bets, a part at a time."""
    size = max(1, PART // (2 * len(bets.weights)))
    for start in range(0, len(bets.arm), size):
        chosen = slice(start, start + size)
        arms = np.stack([bets.opponent[chosen], bets.arm[chosen]], axis=1)
        place = (*(axis[chosen, None] for axis in bets.replication), arms)
        weights = bets.weights.T[bets.agent[chosen]][:, None, :]
        counts = np.where(weights > 0, bets.fresh.counts[place], 0).astype(np.float64)
        shares = SIGNS * np.divide(weights, counts, out=np.zeros_like(counts), where=counts > 0)
        yield Sides(chosen=chosen, shares=shares, counts=counts, _place=place)
