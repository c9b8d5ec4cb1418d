"""Time as a price: how many draws a day each agent makes, what a day costs, and tolls that turn days into prices.

For any *shares* `s >= 0` that add up to 1, the toll `day_cost * s_n / rate_n` on every draw of agent n turns time into
prices, and the least cost at these prices is a lower bound (docs/prices.md). The solver moves shares and multipliers in
the same step: the bound that both prove, `sum sqrt((c + toll) (A lam))`, is concave in the two together.
"""

from dataclasses import dataclass

import numpy as np

from parley.errors import InvalidInput
from parley.problem import BoolArray, FloatArray, IntArray


def days_needed(draws: FloatArray | IntArray, rates: FloatArray) -> FloatArray:
    """`(...,)`: days that the slowest agent needs for `draws (..., arm, agent)`; infinite for draws at a rate of 0.

    >>> days_needed(np.array([[4, 6], [2, 6]]), np.array([1.0, 3.0])).tolist()
    6.0
    """
    return np.asarray(agent_days(draws, rates).max(axis=-1))


def agent_days(draws: FloatArray | IntArray, rates: FloatArray) -> FloatArray:
    """`(..., agent)`: the days that each agent needs."""
    loads = draws.sum(axis=-2)
    idle = np.where(loads > 0, np.inf, 0.0)
    return np.asarray(np.divide(loads, rates, out=idle, where=np.broadcast_to(rates > 0, loads.shape)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Pace:
    """`rates (agent,)` are draws a day; `day_cost` is the cost of a day, in the unit of the programs' costs."""

    rates: FloatArray
    day_cost: float

    def __post_init__(self) -> None:
        if self.rates.ndim != 1 or not (np.isfinite(self.rates) & (self.rates >= 0)).all():
            raise InvalidInput("rate", found=self.rates.tolist(), allowed="one finite number of at least 0 per agent")
        if not 0 < self.day_cost < np.inf:
            raise InvalidInput("day_cost", found=self.day_cost, allowed="a finite number above 0")

    def spent(self, draws: FloatArray | IntArray) -> FloatArray:
        """`(...,)`: the cost of the days that the draws take."""
        return self.day_cost * days_needed(draws, self.rates)

    def charged(self, costs: FloatArray, shares: FloatArray, touched: BoolArray) -> FloatArray:
        """`(programs, arm, agent)`: the costs with every agent's toll added; 0 where nothing is drawn."""
        tolls = self.day_cost * np.divide(shares, self.rates, out=np.zeros_like(shares), where=shares > 0)
        return np.where(touched, costs + tolls[:, None, :], 0.0)
