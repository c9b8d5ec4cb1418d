"""The paper's two tables: the published figures, the algorithms as written, and evidence racing.

Every measured row is a mean over replications on the paper's synthetic instance (6 arms, 3 agents, personalized
weights). PF-UCB is also run on its own published instances, where the cost is regret. A table is a list of lines, each
a published cell or a job to measure. A job that is in several tables is measured once.

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

import numpy as np

from parley.bounds import bai, expected_samples, regret
from parley.edges.reproduction.discrepancies import CappedWcpe, LocalMeansPfUcb
from parley.edges.reproduction.published import (
    ALPHAS,
    DELTAS,
    PUBLISHED_RUNS,
    REGRET_INSTANCES,
    REGRET_RUNS,
    TABLE1,
    TABLE2,
    Published,
)
from parley.policies import Policy, make_policy
from parley.problem import Instance, Problem
from parley.simulation import simulate
from parley.study import parse_study
from parley.weights import personalized

ALGORITHMS = {
    "wcpe": "W-CPE-BAI",
    "pf-ucb-bai": "PF-UCB-BAI",
    "evidence": "evidence racing",
    "pf-ucb": "PF-UCB",
    "pf-ucb-enhanced": "enhanced PF-UCB",
    "evidence-regret": "evidence racing",
}
NO_DELTA = 0.0  # delta of lines about regret, whose runs end at a horizon and not at an error probability
MOST_REGRET_RUNS = 1_000  # enough, since regret varies far less between runs than samples do
# Options of the policies that are measured by their regret, by source.
REGRET_OPTIONS: dict[str, dict[str, Any]] = {
    "as written": {"radius": "proven"},
    "as released": {"radius": "released"},
    "ours": {},
    "ours, fewer rounds": {"rounds": 5},
}
Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A measurement to make: the algorithm, its variant, and the instance."""

    policy: str
    source: str  # the variant, such as "as written" or "ours"
    alpha: float
    delta: float
    instance: str = ""  # one of `REGRET_INSTANCES`; "" for the paper's instance


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table: an algorithm at one alpha and delta, published or measured."""

    policy: str
    source: str  # "published", or the source of a job
    alpha: float
    delta: float
    instance: str
    replications: int
    cost: float  # mean samples, or mean regret
    cost_std: float
    rounds: float | None
    error_rate: float | None
    bound: float  # c* = T* log(1 / (2.4 delta)), or the paper's own figure if it prints one; C* log T for regret

    @property
    def algorithm(self) -> str:
        """The algorithm's name for readers; a published algorithm has the name that its paper uses."""
        return ALGORITHMS[self.policy]

    @property
    def ratio(self) -> float:
        """The mean cost over the bound."""
        return self.cost / self.bound

    @property
    def standard_error(self) -> float:
        """Standard error of the mean cost."""
        return self.cost_std / math.sqrt(self.replications)

    def distance(self, other: Row) -> float:
        """The distance between two mean costs, in standard errors of their difference."""
        return (self.cost - other.cost) / math.hypot(self.standard_error, other.standard_error)


@cache
def paper_instance(*, alpha: float, delta: float) -> Instance:
    """The paper's instance, which both of its tables use; alpha changes the weights, not the means."""
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


@cache
def _regret_instance(name: str, alpha: float) -> Instance:
    published = REGRET_INSTANCES[name]
    means = np.array(published.means).T
    arms = tuple(f"arm {k + 1}" for k in range(len(means)))
    problem = Problem(arms=arms, weights=personalized(len(published.means), alpha), horizon=published.horizon)
    return Instance(problem=problem, means=means)


@cache
def lower_bound(*, alpha: float, delta: float, instance: str = "") -> float:
    """The lower bound of a row: c* of the paper's instance, or C* log T of an instance of `REGRET_INSTANCES`.

    >>> [round(lower_bound(alpha=0.5, delta=0.0, instance=name)) for name in ("performance", "enhancement")]
    [6400, 3290]
    """
    if not instance:
        return expected_samples(bai(paper_instance(alpha=alpha, delta=delta)), delta)
    constant = regret(_regret_instance(instance, alpha), accuracy=1e-6).value
    return constant * math.log(REGRET_INSTANCES[instance].horizon)


Line = Published | Job


def _published(policy: str, alpha: float) -> list[Line]:
    return [cell for cell in TABLE1 if (cell.policy, cell.alpha) == (policy, alpha)]


def _table1() -> Iterable[Line]:
    for alpha in ALPHAS:
        for policy in ("wcpe", "pf-ucb-bai", "evidence"):
            yield from _published(policy, alpha)
            yield Job(policy=policy, source="ours" if policy == "evidence" else "as written", alpha=alpha, delta=0.1)


def _table2() -> Iterable[Line]:
    for delta in DELTAS:
        yield from (cell for cell in TABLE2 if cell.delta == delta)
        yield Job(policy="wcpe", source="as written", alpha=0.5, delta=delta)
        yield Job(policy="evidence", source="ours", alpha=0.5, delta=delta)


def _baseline() -> Iterable[Line]:
    for alpha in ALPHAS:
        yield from _published("pf-ucb-bai", alpha)
        for source in ("as written", "local means"):
            yield Job(policy="pf-ucb-bai", source=source, alpha=alpha, delta=0.1)


def _counts() -> Iterable[Line]:
    """The lines of the table about counts: every alpha at delta 0.1, then the other deltas at alpha 0.5."""
    for cell in (*(cell for cell in TABLE1 if cell.policy == "wcpe"), *(cell for cell in TABLE2 if cell.delta != 0.1)):
        yield cell
        for source in ("as written", "capped counts"):
            yield Job(policy="wcpe", source=source, alpha=cell.alpha, delta=cell.delta)


def _regret() -> Iterable[Line]:
    """The lines of the tables about regret: their cost is regret, their bound is C* log T, and delta is unused."""
    sources = {
        "pf-ucb": ("as released", "as written"),
        "pf-ucb-enhanced": ("as released", "as written"),
        "evidence-regret": ("ours", "ours, fewer rounds"),
    }
    for name, instance in REGRET_INSTANCES.items():
        for alpha, costs in instance.published.items():
            where: dict[str, Any] = {"alpha": alpha, "delta": NO_DELTA, "instance": name}
            for policy, cost in costs.items():
                yield Published(policy=policy, cost=cost, cost_std=0.0, **where)
            for policy, kinds in sources.items():
                yield from (Job(policy=policy, source=source, **where) for source in kinds)


LINES: dict[str, Callable[[], Iterable[Line]]] = {
    "table1": _table1,
    "table2": _table2,
    "baseline": _baseline,
    "counts": _counts,
    "pf-ucb": _regret,
}


def jobs(names: Iterable[str]) -> list[Job]:
    """The jobs to measure for the tables `names`, each job once."""
    return list(dict.fromkeys(line for name in names for line in LINES[name]() if isinstance(line, Job)))


def measure_all(
    wanted: Iterable[Job], *, replications: int, seed: int, workers: int = 1, progress: Progress | None = None
) -> dict[Job, Row]:
    """Measure jobs, in this process or in several processes; `progress` is called after each job."""
    advance = progress or (lambda _: None)
    found = {}
    if workers == 1:
        for job in wanted:
            found[job] = _measure(job, replications, seed)
            advance(1)
        return found
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(_measure, job, replications, seed): job for job in wanted}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            advance(1)
    return found


def rows_of(name: str, found: dict[Job, Row]) -> list[Row]:
    """The rows of a table, published and measured, in the order of its lines."""
    return [_printed(line) if isinstance(line, Published) else found[line] for line in LINES[name]()]


def measured(name: str, *, replications: int, seed: int) -> list[Row]:
    """Measure one table and return its rows."""
    return rows_of(name, measure_all(jobs([name]), replications=replications, seed=seed))


def _measure(job: Job, replications: int, seed: int) -> Row:
    if job.instance:
        instance = _regret_instance(job.instance, job.alpha)
        replications = min(replications, MOST_REGRET_RUNS)
    else:
        instance = paper_instance(alpha=job.alpha, delta=job.delta)
    outcome = simulate(_policy(job, instance.problem), instance, replications=replications, seed=seed)
    costs = outcome.costs if outcome.regret is None else outcome.regret.totals
    return Row(
        **vars(job),
        replications=replications,
        cost=float(costs.mean()),
        cost_std=float(costs.std()),
        rounds=float(outcome.rounds.mean()),
        error_rate=outcome.error_rate,
        bound=lower_bound(alpha=job.alpha, delta=job.delta, instance=job.instance),
    )


def _policy(job: Job, problem: Problem) -> Policy:
    if job.source == "local means":
        return LocalMeansPfUcb(problem=problem)
    if job.source == "capped counts":
        return CappedWcpe(problem=problem)
    return make_policy(job.policy, problem, REGRET_OPTIONS[job.source] if job.instance else {})


def _printed(cell: Published) -> Row:
    bound = cell.bound or lower_bound(alpha=cell.alpha, delta=cell.delta, instance=cell.instance)
    runs = REGRET_RUNS if cell.instance else PUBLISHED_RUNS
    return Row(**vars(cell) | {"source": "published", "replications": runs, "bound": bound})
