"""PF-UCB on its published instances again: regret of play, published, as written, as released, and ours.

Shi, Shen and Yang (AISTATS 2021) released a notebook with two instances of four agents and nine arms. Published figures
are read off its plots, within a few per cent: realised regret of all agents, 10 runs, a radius that is half of the
proven one. The means of the second instance, on which the enhanced form is shown, are in a binary file; here they are
as a public copy of the notebook prints them, to eight decimals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from parley.bounds import regret
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import simulate
from parley.weights import personalized

__all__ = ["GAMES", "NAMES", "PLAY_CITATION", "PLAY_RUNS", "Game", "measure_play", "play_bound", "play_lines"]

PLAY_CITATION = (
    "C. Shi, C. Shen, J. Yang, Federated Multi-armed Bandits with Personalization, AISTATS 2021, its notebook"
)
PLAY_RUNS, MOST_RUNS = 10, 1_000  # of the published figures; and of ours, which scatter far less than samples do
NAMES = {"pf-ucb": "PF-UCB", "pf-ucb-enhanced": "enhanced PF-UCB", "evidence-regret": "evidence racing"}
OPTIONS: dict[str, dict[str, Any]] = {
    "as written": {"radius": "proven"},
    "as released": {"radius": "released"},
    "ours": {},
    "ours, fewer rounds": {"rounds": 5},
}


@dataclass(frozen=True, kw_only=True)
class Game:
    """A published instance, and what was published of it."""

    horizon: int
    means: tuple[tuple[float, ...], ...]  # a row per agent
    published: Mapping[float, Mapping[str, float]]  # alpha -> policy -> regret


GAMES = {
    "performance": Game(
        horizon=10**6,
        means=(
            (1, 0, 0, 0, 0.9, 0.4, 0.35, 0.35, 0.5),
            (0, 1, 0, 0, 0.3, 0.9, 0.35, 0.3, 0.5),
            (0, 0, 1, 0, 0.35, 0.35, 0.9, 0.3, 0.5),
            (0, 0, 0, 1, 0.4, 0.3, 0.35, 0.9, 0.5),
        ),
        published={
            0.0: {"pf-ucb": 23_200},
            0.2: {"pf-ucb": 15_400},
            0.5: {"pf-ucb": 29_600},
            0.9: {"pf-ucb": 15_700},
            1.0: {"pf-ucb": 7_450},
        },
    ),
    "enhancement": Game(
        horizon=500_000,
        means=(
            (
                0.96474458,
                0.09377086,
                0.85638765,
                0.55506951,
                0.20336919,
                0.32263036,
                0.06530855,
                0.35435463,
                0.30264855,
            ),
            (0.6808939, 0.42081861, 0.74369719, 0.01659674, 0.99540671, 0.78499021, 0.87432894, 0.38923508, 0.40590047),
            (0.99413358, 0.44960078, 0.93760862, 0.53724053, 0.35800793, 0.55512393, 0.3811849, 0.09878918, 0.95534792),
            (
                0.94559346,
                0.38608158,
                0.31329797,
                0.35656277,
                0.16833863,
                0.63256776,
                0.68181371,
                0.90621763,
                0.82996426,
            ),
        ),
        published={0.5: {"pf-ucb": 15_200, "pf-ucb-enhanced": 13_100}},
    ),
}


@cache
def _instance(game: str, alpha: float) -> Instance:
    played = GAMES[game]
    means = np.array(played.means).T
    arms = tuple(f"arm {k + 1}" for k in range(len(means)))
    problem = Problem(arms=arms, weights=personalized(len(played.means), alpha), horizon=played.horizon)
    return Instance(problem=problem, means=means)


@cache
def play_bound(game: str, alpha: float) -> float:
    """C* log T of a published instance.

    >>> round(play_bound("performance", 0.5)), round(play_bound("enhancement", 0.5))
    (6400, 3290)
    """
    return regret(_instance(game, alpha), accuracy=1e-6).value * math.log(GAMES[game].horizon)


def play_lines() -> Iterable[tuple[str, float, str, str]]:
    """Game, alpha, policy and source of every line; those that were published stand first."""
    for name, game in GAMES.items():
        for alpha, told in game.published.items():
            yield from ((name, alpha, policy, "published") for policy in told)
            yield from ((name, alpha, "pf-ucb", source) for source in ("as released", "as written"))
            yield from ((name, alpha, "pf-ucb-enhanced", source) for source in ("as released", "as written"))
            yield from ((name, alpha, "evidence-regret", source) for source in ("ours", "ours, fewer rounds"))


def measure_play(game: str, policy: str, source: str, alpha: float, replications: int, seed: int) -> dict[str, float]:
    """Regret and rounds of one line, under the names of a table's row."""
    instance, runs = _instance(game, alpha), min(replications, MOST_RUNS)
    made = make_policy(policy, instance.problem, OPTIONS[source])
    outcome = simulate(made, instance, replications=runs, seed=seed)
    assert outcome.regret is not None
    totals = outcome.regret.totals
    return {
        "cost": float(totals.mean()),
        "cost_std": float(totals.std()),
        "rounds": float(outcome.rounds.mean()),
        "error_rate": outcome.error_rate,
        "bound": play_bound(game, alpha),
        "replications": runs,
    }
