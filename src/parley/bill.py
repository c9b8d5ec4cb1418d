"""What some studies cost: samples and, where they are stated, money (prices), days (rates) and regret (a horizon)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.problem import FloatArray, IntArray

__all__ = ["Bill"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Bill:
    """One entry per study; None is what the problem does not state.

    >>> Bill(samples=np.array([10, 30]), days=np.array([1.0, 2.0])).told()["days"]
    {'mean': 1.5, 'p10': 1.1, 'p50': 1.5, 'p90': 1.9}
    """

    samples: IntArray
    money: FloatArray | None = None
    days: FloatArray | None = None
    regret: FloatArray | None = None

    @classmethod
    def join(cls, bills: Sequence[Bill]) -> Bill:
        """The studies of several bills of one problem."""
        money = [bill.money for bill in bills if bill.money is not None]
        days = [bill.days for bill in bills if bill.days is not None]
        regret = [bill.regret for bill in bills if bill.regret is not None]
        return cls(
            samples=np.concatenate([bill.samples for bill in bills]),
            money=np.concatenate(money) if money else None,
            days=np.concatenate(days) if days else None,
            regret=np.concatenate(regret) if regret else None,
        )

    @property
    def parts(self) -> dict[str, IntArray | FloatArray]:
        """What is stated, by name: samples always, then money, days and regret."""
        named = {"samples": self.samples, "money": self.money, "days": self.days, "regret": self.regret}
        return {name: values for name, values in named.items() if values is not None}

    def told(self) -> dict[str, dict[str, float]]:
        """What to expect of each part: the mean, and what one study in ten stays below, the middle, nine in ten."""
        return {name: _spread(values) for name, values in self.parts.items()}


def _spread(values: IntArray | FloatArray) -> dict[str, float]:
    low, middle, high = (round(float(value), 9) for value in np.quantile(values, (0.1, 0.5, 0.9)))
    return {"mean": float(values.mean()), "p10": low, "p50": middle, "p90": high}
