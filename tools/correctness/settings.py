"""Variants of evidence racing that were tried and rejected: `python -m tools.correctness settings`.

Each is compared with the standard policy for N = 1, with the same seeds, on the paper's instance and on random
instances that were not used for tuning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import logsumexp
from tests.support import paper_study
from tools.correctness.common import APPENDIX
from tools.correctness.savings import TOPS, Case
from tools.pages import fill, table

from parley.policies.evidence.racing import EvidenceRacing
from parley.policies.evidence.wealth import Contrasts, Wealth
from parley.problem import Instance, Problem
from parley.simulation import simulate
from parley.totals import Totals

SEED, PAPER_SEED, INSTANCES, REPLICATIONS = 20261116, 77, 60, 20
PAPER = {"paper, delta 0.1": 0.1, "paper, delta 1e-5": 1e-5}
RANDOM = "random"


@dataclass(frozen=True, kw_only=True)
class FirstPhaseBets(EvidenceRacing):
    """A variant whose first phase is evidence: part of the wealth bets equally on all opponents, at fixed gaps.

    This is fair: under the null of an arm every opponent's payoff is fair, so their mean is, with or without the rest.
    """

    share: float = 0.1
    sizes: tuple[float, ...] = (0.15, 0.3, 0.6)  # fixed gaps, relative to the largest gap

    def weigh(self, state: Wealth, fresh: Totals, contrasts: Contrasts) -> Wealth:
        after = super().weigh(state, fresh, contrasts)
        first = (state.phase == 0)[..., None, None, None]
        paid = np.logaddexp(np.log1p(-self.share), np.log(self.share) + self._mean_payoff(fresh, state.totals))
        capped = np.minimum(paid, self.line - 1e-6)[..., None, :, :]
        return replace(after, log_wealth=np.where(first, after.log_wealth + capped, after.log_wealth))

    def _mean_payoff(self, fresh: Totals, past: Totals) -> np.ndarray[Any, np.dtype[np.float64]]:
        """`(..., arm, agent)`: the log of the mean over all opponents and gaps."""
        means = self.problem.mixed(np.where(fresh.counts > 0, fresh.means, 0.0))
        variances = self.variances(fresh.counts, past)
        y = means[..., :, None, :] - means[..., None, :, :]  # opponent minus arm
        v = variances[..., :, None, :] + variances[..., None, :, :]
        gaps = self.problem.largest_gap * np.array(self.sizes).reshape(-1, *[1] * y.ndim)
        paid = logsumexp(gaps * y / v - gaps**2 / (2 * v), axis=0) - np.log(len(self.sizes))
        itself = np.eye(self.problem.arm_count, dtype=np.bool_)[..., None]
        others = logsumexp(np.where(itself, -np.inf, paid), axis=-3)
        return np.asarray(others - np.log(self.problem.arm_count - 1))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A variant: how its policy is made, and which constants are changed while it runs."""

    words: str
    make: Callable[..., EvidenceRacing] = EvidenceRacing
    changed: Callable[[], Any] = nullcontext


def _with(name: str, value: float) -> Callable[[], Any]:
    return partial(patch, f"parley.{name}", value)


SETTINGS = [
    *(
        Setting(words=f"the first phase bets, share {share:g}", make=partial(FirstPhaseBets, share=share))
        for share in (0.05, 0.1, 0.3)
    ),
    Setting(words="the same, one gap of 0.5, share 0.1", make=partial(FirstPhaseBets, sizes=(0.5,))),
    *(Setting(words=f"stakes times {b:g}, not 1.2", changed=_with("rewards.bets.BOLDNESS", b)) for b in (1.1, 1.3)),
    *(
        Setting(words=f"least margin {m:g}, not 0.25", changed=_with("policies.evidence.plan.LEAST_MARGIN", m))
        for m in (0.0, 0.4)
    ),
]


@contextmanager
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def cases(replications: int) -> Iterator[tuple[str, Instance, int, int]]:
    """Column of the table, instance, replications and seed of every case."""
    for words, delta in PAPER.items():
        yield words, paper_study(0.5, delta=delta).instance, replications, PAPER_SEED
    for number in range(0, INSTANCES * len(TOPS), len(TOPS)):  # those with N = 1
        yield RANDOM, Case(number=number, seed=SEED, replications=REPLICATIONS).instance, REPLICATIONS, number


def measured(make: Callable[..., EvidenceRacing], replications: int) -> dict[str, np.ndarray[Any, Any]]:
    """Mean log samples and rounds of every instance, by column of the table."""

    def one(problem: Problem, instance: Instance, runs: int, seed: int) -> tuple[float, float]:
        with _quiet():
            outcome = simulate(make(problem=problem), instance, replications=runs, seed=seed)
        return float(np.log(outcome.costs.mean())), float(outcome.rounds.mean())

    found: dict[str, list[tuple[float, float]]] = {}
    for column, instance, runs, seed in cases(replications):
        found.setdefault(column, []).append(one(instance.problem, instance, runs, seed))
    return {column: np.array(values) for column, values in found.items()}


def settings(replications: int) -> bool:
    """Fill the table of docs/appendix/evidence-racing.md."""
    usual, rows = measured(EvidenceRacing, replications), []
    for setting in SETTINGS:
        with setting.changed():
            found = measured(setting.make, replications)
        row = [setting.words]
        for column, values in found.items():
            change = values - usual[column]
            error = f" ± {change[:, 0].std() / len(change) ** 0.5:.3f}" if len(change) > 1 else ""
            row += [f"{np.exp(change[:, 0].mean()):.3f}{error}", f"{change[:, 1].mean():+.2f}"]
        rows.append(row)
        print(row, flush=True)
    columns = [word for column in (*PAPER, RANDOM) for word in (column, "rounds")]
    fill(APPENDIX / "evidence-racing.md", "settings", table(("setting", *columns), rows))
    return True
