"""The cost of draws in money and days, and the cost model that compares plans.

A study states what a draw costs (`price`), how many draws an agent can make a day (`rate`), what a day costs
(`day_cost`), how many days a round takes besides its draws (`round_days`) and how many days after a draw its outcome is
known (`delay`). Plans are compared by `day_cost * days + sum price * draws`, which is the number of draws if a study
states none of these settings.

Time has a price too. For any *shares* `s >= 0` that add up to 1, the toll `day_cost * s_n / rate_n` on every draw of
agent n turns time into prices, and the least cost at these prices is a lower bound on the cost of any plan
(docs/planning.md). The solver updates shares and multipliers `lam` in the same step: the bound that they prove,
`sum sqrt((c + toll) (A lam))`, is jointly concave in shares and multipliers. Here `c` are the costs of draws, and `A`
is the matrix of the programs (`parley.harmonic.solver`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.validation.checks import above_zero

DIGITS = 12  # significant digits of relative prices, so that multiplying all prices by a number changes no plan


def days_needed(draws: FloatArray | IntArray, rates: FloatArray) -> FloatArray:
    """`(...,)`: days that the slowest agent needs for `draws (..., arm, agent)`; infinite for draws at a rate of 0.

    >>> days_needed(np.array([[4, 6], [2, 6]]), np.array([1.0, 3.0])).tolist()
    6.0
    """
    return np.asarray(agent_days(draws, rates).max(axis=-1))


def agent_days(draws: FloatArray | IntArray, rates: FloatArray) -> FloatArray:
    """`(..., agent)`: days that each agent needs for `draws (..., arm, agent)`; infinite for draws at a rate of 0."""
    loads = draws.sum(axis=-2)
    idle = np.where(loads > 0, np.inf, 0.0)
    return np.asarray(np.divide(loads, rates, out=idle, where=np.broadcast_to(rates > 0, loads.shape)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Pace:
    """The time cost of draws: `rates (agent,)` in draws a day, and `day_cost` in the unit of the solver's costs."""

    rates: FloatArray
    day_cost: float

    def __post_init__(self) -> None:
        if self.rates.ndim != 1 or not (np.isfinite(self.rates) & (self.rates >= 0)).all():
            raise InvalidInput("rate", found=self.rates.tolist(), allowed="one finite number of at least 0 per agent")
        above_zero("day_cost", self.day_cost)

    def spent(self, draws: FloatArray | IntArray) -> FloatArray:
        """`(...,)`: the cost of the days that the draws take."""
        return self.day_cost * days_needed(draws, self.rates)

    def charged(self, costs: FloatArray, shares: FloatArray, touched: BoolArray) -> FloatArray:
        """`(programs, arm, agent)`: the cost of a draw, including its agent's toll; 0 where `touched` is False."""
        # Without a share there is no toll, even at a rate of 0.
        tolls = self.day_cost * np.divide(shares, self.rates, out=np.zeros_like(shares), where=shares > 0)
        return np.where(touched, costs + tolls[:, None, :], 0.0)


def money_of(problem: Problem, draws: FloatArray | IntArray) -> FloatArray:
    """`(...,)`: the money that `draws (..., arm, agent)` cost at the stated prices.

    >>> money_of(Problem(arms=2, weights=np.eye(2), price=[1.0, 10.0]), np.array([[3, 0], [1, 2]])).tolist()
    24.0
    """
    return np.asarray((draws * problem.price).sum(axis=(-2, -1)))


def phase_days(problem: Problem, draws: FloatArray | IntArray) -> FloatArray:
    """`(...,)`: the days that a phase with these draws takes at the stated rates, plus `round_days`.

    >>> problem = Problem(arms=2, weights=np.eye(2), rate=[1.0, 4.0], round_days=2)
    >>> phase_days(problem, np.array([[3, 0], [1, 8]])).tolist()
    6.0

    The outcomes of an agent's last draws come `delay` days later:

    >>> phase_days(problem.with_(delay=[0.0, 5.0]), np.array([[3, 0], [1, 8]])).tolist()
    9.0
    """
    each = agent_days(draws, stated_rates(problem))
    return np.asarray((each + np.where(each > 0, problem.delay, 0.0)).max(axis=-1) + problem.round_days)


def round_overhead(problem: Problem) -> float:
    """Days that one more round adds, however few its draws: `round_days` plus the longest delay.

    >>> round_overhead(Problem(arms=2, weights=np.eye(2), rate=1.0, round_days=2, delay=[3.0, 10.0]))
    12.0
    """
    return problem.round_days + float(problem.delay[problem.weights.any(axis=1)].max())


def stated_rates(problem: Problem) -> FloatArray:
    """`(agent,)`: the stated draws a day; raises `InvalidInput` if the study states no rates."""
    if problem.rate is None:
        raise InvalidInput("sampling.rate", found="nothing", allowed="draws a day, one number or one per agent")
    return problem.rate


@dataclass(frozen=True, kw_only=True, eq=False)
class CostModel:
    """Prices of draws, relative to the largest price, and the time cost of draws in the same unit.

    >>> CostModel.of(Problem(arms=2, weights=np.eye(2), price=7.0)).prices is None
    True
    """

    prices: FloatArray | None  # (arm, agent); None if days cost nothing and all draws cost the same
    pace: Pace | None  # None if days cost nothing

    @classmethod
    def of(cls, problem: Problem) -> CostModel:
        """The cost model of a problem; only ratios of costs matter."""
        # Agents without weight draw nothing, so their prices do not matter. If all draws are free, a day is the unit.
        drawn = problem.weights.any(axis=1)
        largest = float(problem.price[:, drawn].max())
        unit = largest if largest > 0 else problem.day_cost
        prices = _rounded(problem.price / unit)
        pace = None
        if problem.day_cost > 0 and problem.rate is not None:
            pace = Pace(rates=problem.rate, day_cost=float(_rounded(np.asarray(problem.day_cost / unit))))
        return cls(prices=None if pace is None and (prices[:, drawn] == 1).all() else prices, pace=pace)

    def spent(self, draws: FloatArray | IntArray) -> FloatArray:
        """`(...,)`: the cost of `draws (..., arm, agent)`, with days counted as if all draws were in one phase."""
        if self.prices is None:
            return np.asarray(draws.sum(axis=(-2, -1)))
        money = (draws * self.prices).sum(axis=(-2, -1))
        return np.asarray(money if self.pace is None else money + self.pace.spent(draws))


def _rounded(values: FloatArray) -> FloatArray:
    """Round to `DIGITS` significant digits."""
    size = np.floor(np.log10(values, out=np.zeros_like(values), where=values > 0))
    scale = 10.0 ** (DIGITS - 1 - size)
    return np.asarray(np.rint(values * scale) / scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyCosts:
    """Costs of several simulated studies, one entry per study; None for a kind of cost that the problem does not have.

    >>> StudyCosts(samples=np.array([10, 30]), days=np.array([1.0, 2.0])).summary()["days"]
    {'mean': 1.5, 'p10': 1.1, 'p50': 1.5, 'p90': 1.9}
    """

    samples: IntArray
    money: FloatArray | None = None
    days: FloatArray | None = None
    regret: FloatArray | None = None

    @classmethod
    def join(cls, many: Sequence[StudyCosts]) -> StudyCosts:
        """Concatenate the costs of several batches of studies of the same problem."""
        joined: dict[str, Any] = {name: np.concatenate([one.parts[name] for one in many]) for name in many[0].parts}
        return cls(**joined)

    @property
    def parts(self) -> dict[str, IntArray | FloatArray]:
        """The costs that the problem has, by name: samples always, then any of money, days and regret."""
        named = {"samples": self.samples, "money": self.money, "days": self.days, "regret": self.regret}
        return {name: values for name, values in named.items() if values is not None}

    def summary(self) -> dict[str, dict[str, float]]:
        """The mean and the 10 %, 50 % and 90 % quantiles of each cost."""
        return {name: _spread(values) for name, values in self.parts.items()}


def _spread(values: IntArray | FloatArray) -> dict[str, float]:
    low, middle, high = (round(float(value), 9) for value in np.quantile(values, (0.1, 0.5, 0.9)))
    return {"mean": float(values.mean()), "p10": low, "p50": middle, "p90": high}
