"""What the paper printed: both tables of its Appendix E (Réda, Vakili and Kaufmann, NeurIPS 2022), figure by figure.

Means over 100 runs, the spread as the paper gives it. Its rounds and standard deviations are rounded up to whole
numbers ("± 0" is what it prints). Nothing here is computed, and nothing here is used to compute anything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ALPHAS", "CITATION", "DELTAS", "PUBLISHED_RUNS", "TABLE1", "TABLE2", "Published"]

CITATION = "C. Réda, S. Vakili, E. Kaufmann, Near-Optimal Collaborative Learning in Bandits, NeurIPS 2022, Appendix E"
PUBLISHED_RUNS = 100
ALPHAS = (0.4, 0.5, 0.6, 0.7)
DELTAS = (0.1, 0.05, 0.01, 0.001, 0.0001, 0.00001)


@dataclass(frozen=True, kw_only=True)
class Published:
    """One cell of a published table."""

    policy: str  # by its name in Parley's registry
    alpha: float
    delta: float
    cost: float
    cost_std: float
    rounds: float | None = None  # the second table gives none
    error_rate: float | None = None
    bound: float | None = None  # c*, in the second table only
    game: str = ""  # of figures about play: on which instance

    @property
    def standard_error(self) -> float:
        """Of the mean cost, from the published standard deviation."""
        return self.cost_std / math.sqrt(PUBLISHED_RUNS)


def _first(alpha: float, policy: str, rounds: float, cost: float, cost_std: float) -> Published:
    return Published(policy=policy, alpha=alpha, delta=0.1, rounds=rounds, cost=cost, cost_std=cost_std, error_rate=0.0)


def _second(delta: float, cost: float, cost_std: float, bound: float) -> Published:
    return Published(policy="wcpe", alpha=0.5, delta=delta, cost=cost, cost_std=cost_std, bound=bound)


TABLE1 = (
    _first(0.4, "wcpe", 5, 87_918, 8_634),
    _first(0.4, "pf-ucb-bai", 12, 109_822, 30_335),
    _first(0.5, "wcpe", 5, 75_094, 7_596),
    _first(0.5, "pf-ucb-bai", 11, 73_561, 17_239),
    _first(0.6, "wcpe", 5, 78_334, 7_983),
    _first(0.6, "pf-ucb-bai", 11, 55_812, 14_793),
    _first(0.7, "wcpe", 5, 76_817, 10_953),
    _first(0.7, "pf-ucb-bai", 10, 45_765, 9_591),
)

TABLE2 = (
    _second(0.1, 75_094, 7_596, 1_104),
    _second(0.05, 75_992, 8_468, 1_639),
    _second(0.01, 80_457, 8_838, 2_875),
    _second(0.001, 110_888, 31_613, 4_643),
    _second(0.0001, 91_692, 9_121, 6_411),
    _second(0.00001, 96_942, 9_885, 8_180),
)
