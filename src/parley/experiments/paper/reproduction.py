"""The paper's two tables again: the published figures, the algorithms as written, and evidence racing.

Every measured row is a mean over replications on the paper's synthetic instance (6 arms, 3 agents, personalized
weights). A table is a list of lines: cells that the paper published, and jobs that are measured, each once however many
tables show it.

>>> rows = measured("baseline", replications=20, seed=0)
>>> [(row.alpha, row.source) for row in rows][:3]
[(0.4, 'published'), (0.4, 'as written'), (0.4, 'local means')]
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from typing import Any

from parley.bounds import bai, expected_samples
from parley.experiments.paper.discrepancies import CappedWcpe, LocalMeansPfUcb
from parley.experiments.paper.play import GAMES, NAMES, PLAY_RUNS, measure_play, play_bound, play_lines
from parley.experiments.paper.published import ALPHAS, DELTAS, PUBLISHED_RUNS, TABLE1, TABLE2, Published
from parley.policies import Policy, make_policy
from parley.problem import Instance
from parley.simulation import simulate
from parley.study import parse_study

__all__ = ["ALGORITHMS", "LINES", "Job", "Row", "jobs", "measure_all", "measured", "paper_instance", "rows_of"]

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
