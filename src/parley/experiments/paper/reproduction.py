"""The paper's two tables again: the published figures, the algorithms as written, and evidence racing.

Every measured row is a mean over replications on the paper's synthetic instance (6 arms, 3 agents, personalized
weights). A table is a list of lines: cells that the paper published, and jobs that are measured, each once however many
tables show it.

>>> rows = measured("baseline", replications=20, seed=0)
>>> [(row.alpha, row.source) for row in rows][:3]
[(0.4, 'published'), (0.4, 'as written'), (0.4, 'local means')]

PF-UCB is run on its published instances too. Shi, Shen and Yang (AISTATS 2021) released a notebook with two instances
of four agents and nine arms. Published figures are read off its plots, within a few per cent: realised regret of all
agents, 10 runs, a radius that is half of the proven one. The means of the second instance, on which the enhanced form
is shown, are in a binary file; here they are as a public copy of the notebook prints them, to eight decimals.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from parley.bounds import bai, expected_samples, regret
from parley.experiments.paper.discrepancies import CappedWcpe, LocalMeansPfUcb
from parley.experiments.paper.published import ALPHAS, DELTAS, PUBLISHED_RUNS, TABLE1, TABLE2, Published
from parley.policies import Policy, make_policy
from parley.problem import Instance, Problem
from parley.simulation import simulate
from parley.study import parse_study
from parley.weights import personalized

__all__ = [
    "ALGORITHMS",
    "GAMES",
    "LINES",
    "NAMES",
    "PLAY_CITATION",
    "PLAY_RUNS",
    "Game",
    "Job",
    "Row",
    "jobs",
    "measure_all",
    "measure_play",
    "measured",
    "paper_instance",
    "play_bound",
    "play_lines",
    "rows_of",
]

ALGORITHMS = {"wcpe": "W-CPE-BAI", "pf-ucb-bai": "PF-UCB-BAI", "evidence": "evidence racing"}
# Where a job's figures come from -> how its policy is made.
SOURCES: dict[str, Callable[[str, Instance], Policy]] = {
    "as written": lambda name, instance: make_policy(name, instance.problem),
    "ours": lambda name, instance: make_policy(name, instance.problem),
    "local means": lambda _, instance: LocalMeansPfUcb(problem=instance.problem),
    "capped counts": lambda _, instance: CappedWcpe(problem=instance.problem),
}

NO_DELTA = 0.0  # of lines about play, which stops for a horizon and not for an error
Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """Something to measure: an algorithm by its registered name, how it is meant, and where."""

    policy: str
    source: str
    alpha: float
    delta: float
    replications: int
    seed: int
    game: str = ""  # of `play`, if it is about play


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table: an algorithm at one alpha and delta, printed by the paper or measured here."""

    algorithm: str
    source: str  # "published", or a key of SOURCES
    alpha: float
    delta: float
    replications: int
    cost: float  # mean samples
    cost_std: float
    rounds: float | None
    error_rate: float | None
    bound: float  # c* = T* log(1 / (2.4 delta)); the paper's own figure in its second table
    game: str = ""

    @property
    def ratio(self) -> float:
        """Mean samples over c*."""
        return self.cost / self.bound

    @property
    def standard_error(self) -> float:
        """Of the mean samples."""
        return self.cost_std / math.sqrt(self.replications)

    def distance(self, other: Row) -> float:
        """How far the two mean costs are apart, in standard errors of their difference."""
        return (self.cost - other.cost) / math.hypot(self.standard_error, other.standard_error)


@cache
def paper_instance(*, alpha: float, delta: float) -> Instance:
    """The instance behind both tables; alpha changes the weights, not the means."""
    study = parse_study(
        {
            "arms": 6,
            "agents": 3,
            "delta": delta,
            "weights": {"kind": "personalized", "alpha": alpha},
            "noise": {"kind": "gaussian", "scale": 1.0},
            "truth": {"generate": "paper", "seed": 0, "min_gap": 0.05},
        }
    )
    return study.require_truth()


Measured = tuple[str, str, float, float] | tuple[str, str, float, float, str]  # policy, source, alpha, delta, game
Line = Published | Measured


def _published(policy: str, alpha: float) -> list[Line]:
    return [cell for cell in TABLE1 if (cell.policy, cell.alpha) == (policy, alpha)]


def _table1() -> Iterable[Line]:
    for alpha in ALPHAS:
        for policy in ALGORITHMS:
            yield from _published(policy, alpha)
            yield policy, "ours" if policy == "evidence" else "as written", alpha, 0.1


def _table2() -> Iterable[Line]:
    for delta in DELTAS:
        yield from (cell for cell in TABLE2 if cell.delta == delta)
        yield "wcpe", "as written", 0.5, delta
        yield "evidence", "ours", 0.5, delta


def _baseline() -> Iterable[Line]:
    for alpha in ALPHAS:
        yield from _published("pf-ucb-bai", alpha)
        yield "pf-ucb-bai", "as written", alpha, 0.1
        yield "pf-ucb-bai", "local means", alpha, 0.1


def _counts() -> Iterable[Line]:
    """Over alpha at delta 0.1, then over the other deltas at alpha 0.5."""
    for cell in (*(cell for cell in TABLE1 if cell.policy == "wcpe"), *(cell for cell in TABLE2 if cell.delta != 0.1)):
        yield cell
        yield "wcpe", "as written", cell.alpha, cell.delta
        yield "wcpe", "capped counts", cell.alpha, cell.delta


def _played() -> Iterable[Line]:
    """Regret of play, on other instances: here `cost` is regret, the bound is C* log T, and delta means nothing."""
    for game, alpha, policy, source in play_lines():
        if source == "published":
            cost = GAMES[game].published[alpha][policy]
            yield Published(policy=policy, alpha=alpha, delta=NO_DELTA, cost=cost, cost_std=0.0, game=game)
        else:
            yield policy, source, alpha, NO_DELTA, game


LINES: dict[str, Callable[[], Iterable[Line]]] = {
    "table1": _table1,
    "table2": _table2,
    "baseline": _baseline,
    "counts": _counts,
    "pf-ucb": _played,
}


def jobs(names: Iterable[str], *, replications: int, seed: int) -> list[Job]:
    """What some tables need measured, each once."""
    lines = (line for name in names for line in LINES[name]() if not isinstance(line, Published))
    return list(dict.fromkeys(_job(line, replications, seed) for line in lines))


def measure_all(wanted: list[Job], *, workers: int = 1, progress: Progress | None = None) -> dict[Job, Row]:
    """Measure jobs, in this process or in several; `progress` is told of every one that is done."""
    told = progress or (lambda _: None)
    found = {}
    if workers == 1:
        for job in wanted:
            found[job] = _measure(job)
            told(1)
        return found
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(_measure, job): job for job in wanted}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            told(1)
    return found


def rows_of(name: str, found: dict[Job, Row], *, replications: int, seed: int) -> list[Row]:
    """The lines of a table, with what was measured in its places."""
    return [
        _printed(line) if isinstance(line, Published) else found[_job(line, replications, seed)]
        for line in LINES[name]()
    ]


def measured(name: str, *, replications: int, seed: int) -> list[Row]:
    """One table, measured here and now."""
    found = measure_all(jobs([name], replications=replications, seed=seed))
    return rows_of(name, found, replications=replications, seed=seed)


def _job(line: Measured, replications: int, seed: int) -> Job:
    policy, source, alpha, delta, *game = line
    where = game[0] if game else ""
    return Job(policy=policy, source=source, alpha=alpha, delta=delta, replications=replications, seed=seed, game=where)


def _measure(job: Job) -> Row:
    if job.policy in NAMES:
        figures: dict[str, Any] = measure_play(job.game, job.policy, job.source, job.alpha, job.replications, job.seed)
        figures |= {"source": job.source, "alpha": job.alpha, "delta": job.delta, "game": job.game}
        return Row(algorithm=NAMES[job.policy], **figures)
    instance = paper_instance(alpha=job.alpha, delta=job.delta)
    policy = SOURCES[job.source](job.policy, instance)
    outcome = simulate(policy, instance, replications=job.replications, seed=job.seed)
    return Row(
        algorithm=ALGORITHMS[job.policy],
        source=job.source,
        alpha=job.alpha,
        delta=job.delta,
        replications=job.replications,
        cost=float(outcome.costs.mean()),
        cost_std=float(outcome.costs.std()),
        rounds=float(outcome.rounds.mean()),
        error_rate=outcome.error_rate,
        bound=_bound(job.alpha, job.delta),
    )


@cache
def _bound(alpha: float, delta: float) -> float:
    return expected_samples(bai(paper_instance(alpha=alpha, delta=delta)), delta)


def _printed(cell: Published) -> Row:
    play = cell.policy in NAMES
    return Row(
        algorithm=(NAMES if play else ALGORITHMS)[cell.policy],
        source="published",
        alpha=cell.alpha,
        delta=cell.delta,
        replications=PLAY_RUNS if play else PUBLISHED_RUNS,
        cost=cell.cost,
        cost_std=cell.cost_std,
        rounds=cell.rounds,
        error_rate=cell.error_rate,
        bound=cell.bound or (play_bound(cell.game, cell.alpha) if play else _bound(cell.alpha, cell.delta)),
        game=cell.game,
    )


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
