"""What evidence racing remembers between phases."""

from __future__ import annotations

from dataclasses import dataclass

from parley.policies.base import State
from parley.problem import BoolArray, FloatArray, IntArray

__all__ = ["Reign", "Wealth"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Wealth(State):
    """A state with the evidence so far; `opponents` is -1 before the first bets."""

    log_wealth: FloatArray  # (..., opponent, arm, agent)
    opponents: IntArray  # (..., opponent, arm, agent): arms of the last phase's bets, ascending
    signal: FloatArray  # (..., arm, agent): sum of smallest contrast / largest variance, for the bound on the gap
    information: FloatArray  # (..., arm, agent): sum of 1 / largest variance
    gap_at_least: FloatArray  # (..., arm, agent): the best such bound so far, at least 0
    ranks: IntArray | None = None  # (..., arm, agent): the last phase's order (`policies.sets`); -1 for who was out


@dataclass(frozen=True, kw_only=True, eq=False)
class Reign(Wealth):
    """With a tolerance: also who leads, since how many changes, and the evidence that nobody is better by more."""

    leaders: BoolArray  # (..., arm, agent): who led in the last phase
    reign: IntArray  # (..., agent): the number of the present leaders, 0 before the first bets
    log_acceptance: FloatArray  # (..., opponent, arm, agent): of an arm that does not lead against every leader
