"""PF-UCB on its published instance again: regret of play, published, as written, as released, and ours.

The figures are those of the authors' released notebook (Shi, Shen, Yang, AISTATS 2021), read off its plot: realised
regret, 10 runs, four agents, nine arms, 10^6 draws each. Its radius is half of the proven one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from parley.bounds import regret
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import simulate
from parley.weights import personalized

__all__ = [
    "HORIZON",
    "NAMES",
    "PLAY_CITATION",
    "PLAY_RUNS",
    "PUBLISHED_PLAY",
    "measure_play",
    "play_bound",
    "play_lines",
]

PLAY_CITATION = (
    "C. Shi, C. Shen, J. Yang, Federated Multi-armed Bandits with Personalization, AISTATS 2021, its notebook"
)
HORIZON = 10**6
PLAY_RUNS, MOST_RUNS = 10, 1_000  # of the published figures; and of ours, which scatter far less than samples do
# alpha -> regret, within a few per cent
PUBLISHED_PLAY = {0.0: 23_200.0, 0.2: 15_400.0, 0.5: 29_600.0, 0.9: 15_700.0, 1.0: 7_450.0}
MEANS = (  # a row per agent
    (1, 0, 0, 0, 0.9, 0.4, 0.35, 0.35, 0.5),
    (0, 1, 0, 0, 0.3, 0.9, 0.35, 0.3, 0.5),
    (0, 0, 1, 0, 0.35, 0.35, 0.9, 0.3, 0.5),
    (0, 0, 0, 1, 0.4, 0.3, 0.35, 0.9, 0.5),
)
NAMES = {"pf-ucb": "PF-UCB", "pf-ucb-enhanced": "enhanced PF-UCB", "evidence-regret": "evidence racing"}
OPTIONS: dict[str, dict[str, Any]] = {
    "as written": {"radius": "proven"},
    "as released": {"radius": "released"},
    "ours": {},
    "ours, fewer rounds": {"rounds": 6},
}


@cache
def _instance(alpha: float) -> Instance:
    means = np.array(MEANS).T
    arms = tuple(f"arm {k + 1}" for k in range(len(means)))
    return Instance(problem=Problem(arms=arms, weights=personalized(len(MEANS), alpha), horizon=HORIZON), means=means)


@cache
def play_bound(alpha: float) -> float:
    """C* log T of the published instance.

    >>> round(play_bound(0.5))
    6400
    """
    return regret(_instance(alpha), accuracy=1e-6).value * math.log(HORIZON)


def play_lines() -> Iterable[tuple[str, str, float]]:
    """Policy, source and alpha of every line that is measured; the published one stands before them."""
    for alpha in PUBLISHED_PLAY:
        yield from (("pf-ucb", "as released", alpha), ("pf-ucb", "as written", alpha))
        yield from (("pf-ucb-enhanced", "as released", alpha), ("pf-ucb-enhanced", "as written", alpha))
        yield from (("evidence-regret", "ours", alpha), ("evidence-regret", "ours, fewer rounds", alpha))


def measure_play(policy: str, source: str, alpha: float, replications: int, seed: int) -> dict[str, float]:
    """Regret and rounds of one line, under the names of a table's row."""
    instance, runs = _instance(alpha), min(replications, MOST_RUNS)
    made = make_policy(policy, instance.problem, OPTIONS[source])
    outcome = simulate(made, instance, replications=runs, seed=seed)
    assert outcome.regret is not None
    totals = outcome.regret.totals
    return {
        "cost": float(totals.mean()),
        "cost_std": float(totals.std()),
        "rounds": float(outcome.rounds.mean()),
        "error_rate": outcome.error_rate,
        "bound": play_bound(alpha),
        "replications": runs,
    }
