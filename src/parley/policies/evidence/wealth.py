"""What evidence racing remembers between phases, and what the past fixes before one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from parley.policies.base import State
from parley.problem import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Wealth(State):
    """A state with the evidence so far; `opponents` is -1 before the first bets."""

    log_wealth: FloatArray  # (..., opponent, arm, agent)
    opponents: IntArray  # (..., opponent, arm, agent): arms of the last phase's bets, ascending
    signal: FloatArray  # (..., arm, agent): sum of smallest contrast / largest variance, for the bound on the gap
    information: FloatArray  # (..., arm, agent): sum of 1 / largest variance
    gap_at_least: FloatArray  # (..., arm, agent): the best such bound so far, at least 0
    ranks: IntArray | None = None  # (..., arm, agent): the last phase's order (see `sets`); -1 for who was out


@dataclass(frozen=True, kw_only=True)
class Contrasts:
    """What the past says before a phase, all `(..., opponent, arm, agent)`."""

    opponents: IntArray
    gap: FloatArray  # estimated from all data so far: opponent minus arm
    error: FloatArray  # its standard error
    wealth: FloatArray  # log, carried over from the last phase
    missing: FloatArray  # log wealth still needed
    live: BoolArray  # bets are placed
    losing: BoolArray  # live, and the arm looks like a loser: worth drawing for
    ranks: IntArray | None = None  # (..., arm, agent): the order by which slots speak for sets, where they do

    def take(self, chosen: IntArray) -> Self:
        """Some replications of a batch."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value[chosen] for name, value in kept.items() if value is not None})


def against(values: FloatArray, opponents: IntArray) -> FloatArray:
    """Opponent minus arm, `(..., opponent, arm, agent)`."""
    own = values[..., None, :, :]
    return np.asarray(np.take_along_axis(own, opponents, axis=-2) - own)


def both(values: FloatArray, opponents: IntArray) -> FloatArray:
    """Opponent plus arm, `(..., opponent, arm, agent)`."""
    own = values[..., None, :, :]
    return np.asarray(np.take_along_axis(own, opponents, axis=-2) + own)
