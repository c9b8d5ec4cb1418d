"""Published numbers, as printed: results to compare with, and two instances on which PF-UCB is run again.

`TABLE1` and `TABLE2` are the two tables in Appendix E of Réda, Vakili and Kaufmann (NeurIPS 2022): means over 100 runs,
with the spread as the paper states it. The paper rounds numbers of rounds, and standard deviations, up to whole numbers
(it prints "± 0").

`REGRET_INSTANCES` are the two instances, of four agents and nine arms, in the notebook that Shi, Shen and Yang (AISTATS
2021) released. The regret is read off the notebook's plots, within a few per cent. It is the realised regret of all
agents over 10 runs, with a confidence radius that is half of the proven one. The second instance demonstrates the
enhanced form. Its means are in a binary file of the release; the means here are those that a public copy of the
notebook prints, to eight decimals.
"""

from collections.abc import Mapping
from dataclasses import dataclass

CITATION = "C. Réda, S. Vakili, E. Kaufmann, Near-Optimal Collaborative Learning in Bandits, NeurIPS 2022, Appendix E"
PUBLISHED_RUNS = 100
ALPHAS = (0.4, 0.5, 0.6, 0.7)
DELTAS = (0.1, 0.05, 0.01, 0.001, 0.0001, 0.00001)


@dataclass(frozen=True, kw_only=True)
class Published:
    """One cell of a published table."""

    policy: str  # the policy's name in Parley's registry
    alpha: float
    delta: float
    cost: float
    cost_std: float
    rounds: float | None = None  # None in the second table, which has no rounds
    error_rate: float | None = None
    bound: float | None = None  # c*, in the second table only
    instance: str = ""  # one of `REGRET_INSTANCES`, whose cost is regret; "" for the paper's instance


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


REGRET_CITATION = (
    "C. Shi, C. Shen, J. Yang, Federated Multi-armed Bandits with Personalization, AISTATS 2021, its notebook"
)
REGRET_RUNS = 10


@dataclass(frozen=True, kw_only=True)
class RegretInstance:
    """A published instance of regret minimization, with its published results."""

    horizon: int
    means: tuple[tuple[float, ...], ...]  # a row per agent
    published: Mapping[float, Mapping[str, float]]  # alpha -> policy -> regret


def _means(printed: str) -> tuple[tuple[float, ...], ...]:
    """Parse a matrix that is written as in its source, so that both can be compared at a glance."""
    return tuple(tuple(map(float, row.split())) for row in printed.strip().splitlines())


REGRET_INSTANCES = {
    "performance": RegretInstance(
        horizon=10**6,
        means=_means("""
            1    0    0    0    0.9  0.4  0.35 0.35 0.5
            0    1    0    0    0.3  0.9  0.35 0.3  0.5
            0    0    1    0    0.35 0.35 0.9  0.3  0.5
            0    0    0    1    0.4  0.3  0.35 0.9  0.5
        """),
        published={
            0.0: {"pf-ucb": 23_200},
            0.2: {"pf-ucb": 15_400},
            0.5: {"pf-ucb": 29_600},
            0.9: {"pf-ucb": 15_700},
            1.0: {"pf-ucb": 7_450},
        },
    ),
    "enhancement": RegretInstance(
        horizon=500_000,
        means=_means("""
            0.96474458 0.09377086 0.85638765 0.55506951 0.20336919 0.32263036 0.06530855 0.35435463 0.30264855
            0.6808939  0.42081861 0.74369719 0.01659674 0.99540671 0.78499021 0.87432894 0.38923508 0.40590047
            0.99413358 0.44960078 0.93760862 0.53724053 0.35800793 0.55512393 0.3811849  0.09878918 0.95534792
            0.94559346 0.38608158 0.31329797 0.35656277 0.16833863 0.63256776 0.68181371 0.90621763 0.82996426
        """),
        published={0.5: {"pf-ucb": 15_200, "pf-ucb-enhanced": 13_100}},
    ),
}
