"""The paper's two tables again: the published figures, the algorithms as written, and evidence racing.

Every row is a mean over replications on the paper's synthetic instance (6 arms, 3 agents, personalized weights).

>>> rows = table_one(replications=20, seed=0, alphas=(0.5,))
>>> [(row.algorithm, row.source) for row in rows][:2]
[('W-CPE-BAI', 'published'), ('W-CPE-BAI', 'as written')]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parley.bounds import bai, expected_samples
from parley.experiments.discrepancies import CappedWcpe, LocalMeansPfUcb
from parley.experiments.published import ALPHAS, DELTAS, PUBLISHED_RUNS, TABLE1, TABLE2, Published
from parley.policies import POLICIES, Policy, make_policy
from parley.problem import Instance
from parley.simulation import Outcome, simulate
from parley.study import parse_study

__all__ = [
    "ALGORITHMS",
    "Row",
    "baseline_demonstration",
    "capped_demonstration",
    "paper_instance",
    "table_one",
    "table_two",
]

ALGORITHMS = {"wcpe": "W-CPE-BAI", "pf-ucb-bai": "PF-UCB-BAI", "evidence": "evidence racing"}
MEASURED = [name for name in ALGORITHMS if name in POLICIES]
SOURCES = {"wcpe": "as written", "pf-ucb-bai": "as written", "evidence": "ours"}

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table: an algorithm at one alpha and delta, printed by the paper or measured here."""

    algorithm: str
    source: str  # "published", "as written", "ours", or what a demonstration does
    alpha: float
    delta: float
    replications: int
    cost: float  # mean samples
    cost_std: float
    rounds: float | None
    error_rate: float | None
    bound: float  # c* = T* log(1 / (2.4 delta)); the paper's own figure in its second table

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


def paper_instance(*, alpha: float, delta: float) -> Instance:
    """The instance behind both tables; alpha changes the weights, not the means."""
    study = parse_study(
        {
            "arms": 6,
            "agents": 3,
            "delta": delta,
            "weights": {"kind": "personalized", "alpha": alpha},
            "truth": {"generate": "paper", "seed": 0, "min_gap": 0.05},
        }
    )
    return study.require_truth()


def table_one(
    *, replications: int, seed: int, alphas: Sequence[float] = ALPHAS, progress: Progress | None = None
) -> list[Row]:
    """Every algorithm at delta 0.1, for several levels of personalization."""
    rows = []
    for alpha in alphas:
        instance = paper_instance(alpha=alpha, delta=0.1)
        bound = _bound(instance)
        for name in MEASURED:
            rows += [_published(cell, bound) for cell in TABLE1 if (cell.policy, cell.alpha) == (name, alpha)]
            outcome = _run(make_policy(name, instance.problem), instance, replications, seed, progress)
            rows.append(_measured(outcome, ALGORITHMS[name], SOURCES[name], alpha, 0.1, bound))
    return rows


def table_two(
    *, replications: int, seed: int, deltas: Sequence[float] = DELTAS, progress: Progress | None = None
) -> list[Row]:
    """W-CPE-BAI and evidence racing at alpha 0.5, down to very small errors, against c*."""
    rows = []
    for delta in deltas:
        instance = paper_instance(alpha=0.5, delta=delta)
        bound = _bound(instance)
        rows += [_published(cell, bound) for cell in TABLE2 if cell.delta == delta]
        for name in (name for name in MEASURED if name != "pf-ucb-bai"):
            outcome = _run(make_policy(name, instance.problem), instance, replications, seed, progress)
            rows.append(_measured(outcome, ALGORITHMS[name], SOURCES[name], 0.5, delta, bound))
    return rows


def baseline_demonstration(
    *, replications: int, seed: int, alphas: Sequence[float] = ALPHAS, progress: Progress | None = None
) -> list[Row]:
    """PF-UCB-BAI published, as written, and with local means where mixed ones belong, which is what was published."""
    rows = []
    for alpha in alphas:
        instance = paper_instance(alpha=alpha, delta=0.1)
        bound = _bound(instance)
        rows += [_published(cell, bound) for cell in TABLE1 if (cell.policy, cell.alpha) == ("pf-ucb-bai", alpha)]
        variants: dict[str, Policy] = {
            "as written": make_policy("pf-ucb-bai", instance.problem),
            "local means": LocalMeansPfUcb(problem=instance.problem),
        }
        for source, policy in variants.items():
            outcome = _run(policy, instance, replications, seed, progress)
            rows.append(_measured(outcome, "PF-UCB-BAI", source, alpha, 0.1, bound))
    return rows


def capped_demonstration(*, replications: int, seed: int, cap: int, progress: Progress | None = None) -> list[Row]:
    """W-CPE-BAI published, as written, and with capped counts: over alpha at delta 0.1, over delta at alpha 0.5."""
    published = [cell for cell in TABLE1 if cell.policy == "wcpe"] + [cell for cell in TABLE2 if cell.delta != 0.1]
    rows = []
    for cell in published:
        instance = paper_instance(alpha=cell.alpha, delta=cell.delta)
        bound = _bound(instance)
        rows.append(_published(cell, bound))
        variants: dict[str, Policy] = {
            "as written": make_policy("wcpe", instance.problem),
            "capped counts": CappedWcpe(problem=instance.problem, cap=cap),
        }
        for source, policy in variants.items():
            outcome = _run(policy, instance, replications, seed, progress)
            rows.append(_measured(outcome, "W-CPE-BAI", source, cell.alpha, cell.delta, bound))
    return rows


def _bound(instance: Instance) -> float:
    return expected_samples(bai(instance), instance.problem.delta)


def _run(policy: Policy, instance: Instance, replications: int, seed: int, progress: Progress | None) -> Outcome:
    return simulate(policy, instance, replications=replications, seed=seed, progress=progress)


def _published(cell: Published, bound: float) -> Row:
    return Row(
        algorithm=ALGORITHMS[cell.policy],
        source="published",
        alpha=cell.alpha,
        delta=cell.delta,
        replications=PUBLISHED_RUNS,
        cost=cell.cost,
        cost_std=cell.cost_std,
        rounds=cell.rounds,
        error_rate=cell.error_rate,
        bound=cell.bound or bound,
    )


def _measured(outcome: Outcome, algorithm: str, source: str, alpha: float, delta: float, bound: float) -> Row:
    return Row(
        algorithm=algorithm,
        source=source,
        alpha=alpha,
        delta=delta,
        replications=len(outcome.costs),
        cost=float(outcome.costs.mean()),
        cost_std=float(outcome.costs.std()),
        rounds=float(outcome.rounds.mean()),
        error_rate=outcome.error_rate,
        bound=bound,
    )
