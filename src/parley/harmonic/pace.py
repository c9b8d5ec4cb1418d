"""Time as a price: how many draws a day every agent can make, what a day is worth, and the tolls that settle both.

The cheapest mix of time and money minimises `day_cost * t + sum_i c_i x_i`, where agent n needs
`sum_k x_kn / rate_n <= t` days. For any *shares* `s >= 0` that add up to 1, the toll `day_cost * s_n / rate_n` on every
draw of agent n turns time into prices: `day_cost * t + sum c x >= sum (c + toll) x` for every plan that fits into t
days, so the least cost at these prices is a lower bound, and any feasible plan with its own slowest agent is an upper
one. At the optimum only agents who hold the study up bear a toll. `parley.harmonic` moves shares and multipliers in the
same step: the bound that both prove, `sum sqrt((c + toll) (A lam))`, is concave in the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.errors import InvalidInput
from parley.harmonic.multipliers import Multipliers
from parley.problem import BoolArray, FloatArray, IntArray

__all__ = ["Pace", "Tolls", "agent_days", "days_needed"]

EXPONENT = 1.0  # of the shares: 2 would settle them in one step if the multipliers stood still, which they do not
COLDEST = 1e-6  # of the largest: shares of a warm start that have all but vanished may matter again


def days_needed(draws: FloatArray | IntArray, rates: FloatArray) -> FloatArray:
    """`(...,)`: what the slowest agent needs for `draws (..., arm, agent)`; infinite where a rate of 0 is drawn on.

    >>> days_needed(np.array([[4, 6], [2, 6]]), np.array([1.0, 3.0])).tolist()
    6.0
    """
    return np.asarray(agent_days(draws, rates).max(axis=-1))


def agent_days(draws: FloatArray | IntArray, rates: FloatArray) -> FloatArray:
    """`(..., agent)`: the days that every agent needs by itself."""
    loads = draws.sum(axis=-2)
    idle = np.where(loads > 0, np.inf, 0.0)
    return np.asarray(np.divide(loads, rates, out=idle, where=np.broadcast_to(rates > 0, loads.shape)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Pace:
    """`rates (agent,)`: draws a day; `day_cost`: what a day is worth, in the unit of the programs' costs."""

    rates: FloatArray
    day_cost: float

    def __post_init__(self) -> None:
        if self.rates.ndim != 1 or not (np.isfinite(self.rates) & (self.rates >= 0)).all():
            raise InvalidInput("rate", found=self.rates.tolist(), allowed="one finite number of at least 0 per agent")
        if not 0 < self.day_cost < np.inf:
            raise InvalidInput("day_cost", found=self.day_cost, allowed="a finite number above 0")

    def spent(self, draws: FloatArray | IntArray) -> FloatArray:
        """`(...,)`: what the days of some draws are worth."""
        return self.day_cost * days_needed(draws, self.rates)

    def charged(self, costs: FloatArray, shares: FloatArray, touched: BoolArray) -> FloatArray:
        """`(programs, arm, agent)`: the costs with every agent's toll on top, 0 where nothing is drawn."""
        tolls = self.day_cost * np.divide(shares, self.rates, out=np.zeros_like(shares), where=shares > 0)
        return np.where(touched, costs + tolls[:, None, :], 0.0)


@dataclass
class Tolls:
    """The shares in the making, `(programs, agent)`."""

    pace: Pace
    shares: Multipliers

    @classmethod
    def start(cls, pace: Pace, touched: BoolArray, shares: FloatArray | None = None) -> Tolls:
        """Equal shares for all who draw, or those of a similar batch."""
        if touched.ndim != 3 or touched.shape[-1] != len(pace.rates):
            allowed = f"programs that are (arm, agent) with {touched.shape[-1]} agents"
            raise InvalidInput("rate", found=f"{len(pace.rates)} rates", allowed=allowed)
        used = touched.any(axis=1)
        cannot = used.any(axis=0) & (pace.rates == 0)
        if cannot.any():
            raise InvalidInput(
                "rate",
                found=f"0 for agent {int(np.argmax(cannot)) + 1}, whose draws somebody's mix needs",
                allowed="a rate above 0 for every agent with a weight",
            )
        wanted = np.asarray(used, dtype=np.float64)
        if shares is None:
            return cls(pace, Multipliers.start(wanted, wanted, exponent=EXPONENT))
        warm = np.asarray(np.maximum(shares, COLDEST * shares.max(axis=-1, keepdims=True)) * wanted)
        return cls(pace, Multipliers.start(warm, wanted, exponent=EXPONENT))

    def charged(self, costs: FloatArray, touched: BoolArray) -> FloatArray:
        return self.pace.charged(costs, self.shares.values, touched)

    def move(self, allocation: FloatArray, steps: int) -> None:
        """Who needs longer than the others, weighed by the shares, bears more."""
        days = agent_days(allocation, self.pace.rates)
        usual = (self.shares.values * days).sum(axis=-1, keepdims=True)
        self.shares.move(np.log(days / usual, out=np.zeros_like(days), where=days > 0), steps)

    def take(self, chosen: BoolArray) -> Tolls:
        return Tolls(self.pace, self.shares.take(chosen))
