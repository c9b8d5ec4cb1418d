"""The long versions: `python -m tests.correctness ties` (make correctness), `... savings` (make savings).

Each prints a table and rewrites a page of docs/. Exit code 1 when something is not as promised.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from tests.correctness.near_ties import CAP, GAP, Cell, allowance, every_cell
from tests.correctness.savings import DELTA, LEAST_GAP, PROMISED, TOPS, Case, geometric_mean, kept

DOCS = Path(__file__).parents[2] / "docs"
SEED = 2026
INSTANCES = 200
Task, Result = TypeVar("Task"), TypeVar("Result")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def in_parallel(run: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> list[Result]:
    results = []
    with ProcessPoolExecutor(workers) as pool:
        for done, result in enumerate(pool.map(run, tasks), start=1):
            print(f"{done}/{len(tasks)} {result}", flush=True)
            results.append(result)
    return results


class Ties:
    """Runs one cell; a class, so that it can be sent to another process."""

    def __init__(self, replications: int) -> None:
        self.replications = replications

    def __call__(self, cell: Cell) -> tuple[float, float, float, float]:
        outcome = cell.run(self.replications, seed=SEED)
        return outcome.error_rate, float(outcome.rounds.mean()), float(outcome.finished.mean()), outcome.seconds


def ties(replications: int, workers: int) -> bool:
    cells = every_cell()
    results = in_parallel(Ties(replications), cells, workers)
    rows, broken = [], []
    for cell, (rate, rounds, finished, seconds) in zip(cells, results, strict=True):
        error = math.sqrt(max(rate, 1 / replications) * (1 - rate) / replications)
        sharp = cell.noise == "gaussian" and cell.arms == 2 and cell.agents == 1
        if rate > allowance(cell.delta, replications) or (sharp and rate < cell.delta / 2):
            broken.append(cell)
        size = (f"{cell.arms}", f"{cell.agents}", f"{cell.top}", "mix" if cell.mixed else "identity")
        shares = (f"{rate / cell.delta:.2f}", f"{error / cell.delta:.2f}", f"{rounds:.1f}", f"{100 * finished:.1f} %")
        rows.append((cell.noise, *size, f"{cell.delta:g}", f"{rate:.5f}", *shares, f"{seconds:.0f}"))
    columns = ("noise", "K", "M", "N", "weights", "delta", "error rate", "over delta", "±", "rounds", "ended", "s")
    page = f"""# Delta-correctness, tried hard

`make correctness` runs evidence racing where errors are likeliest and rewrites this page. In every cell the top N arms
are better than the others by {GAP:g}, for every agent, so that nearly nothing can be told apart; a run stops before the
phase that would exceed {CAP} times its first phase. *Error rate* is the share of {replications:,} replications (seed
{SEED}) in which some agent lost one of its true top arms, whether or not the run ended; ± is its standard error, over
delta. *Ended* is the share of runs that found every answer within the cap. Bounded rewards are 0 or 1.

{table(columns, rows)}

Error rates above delta plus three standard errors, or below half of delta for boosted Gaussian evidence with two arms
and one agent (the test is sharp, not just safe): {", ".join(str(cell) for cell in broken) or "none"}.

A test of the test: `tests/correctness/test_near_ties.py` breaks the policy in four ways, each of which must push an
error rate above delta. [Evidence racing](evidence-racing.md) has the proof.
"""
    (DOCS / "delta-correctness.md").write_text(page, encoding="utf-8")
    print(page)
    return not broken


def savings(replications: int, workers: int) -> bool:
    cases = [Case(number=number, seed=SEED, replications=replications) for number in range(INSTANCES)]
    found = in_parallel(Case.run, cases, workers)
    rows = []
    for top in TOPS:
        some = [saving for saving in found if saving.top == top]
        factors = [saving.factor for saving in some]
        rounds, wcpe_rounds, wrong, wcpe_wrong = (
            [getattr(saving, name) for saving in some]
            for name in ("rounds", "wcpe_rounds", "mistaken", "wcpe_mistaken")
        )
        means = (f"{geometric_mean(some):.1f}", f"{PROMISED[top]:g}", f"{min(factors):.1f}", f"{max(factors):.1f}")
        middles = (f"{np.median(rounds):.2f}", f"{np.median(wcpe_rounds):.2f}", f"{max(rounds):.1f}")
        rates = (f"{np.mean(wrong):.4f}", f"{np.mean(wcpe_wrong):.4f}")
        rows.append((f"{top}", f"{len(some)}", *means, *middles, *rates, "yes" if kept(found, top) else "NO"))
    columns = (
        "N", "instances", "saving, geometric mean", "asked", "least", "most", "rounds, median", "W-CPE's",
        "most rounds", "wrong", "W-CPE's", "as promised",
    )  # fmt: skip
    page = f"""# What evidence racing saves

`make savings` runs evidence racing and W-CPE on {INSTANCES} random instances and rewrites this page: 3 to 20 arms, 2 to
10 agents, random column-stochastic weights, means uniform in [0, 1], smallest gap at least {LEAST_GAP:g}, Gaussian
noise of scale 1, delta {DELTA:g}; {replications} replications of each policy on each instance, seed {SEED}. *Saving* is
W-CPE's mean samples over those of evidence racing. As promised: fewer samples on every instance, a geometric mean of
at least what was asked, median rounds no more than W-CPE's. This seed was not used to choose the defaults.

{table(columns, rows)}
"""
    (DOCS / "savings.md").write_text(page, encoding="utf-8")
    print(page)
    return all(kept(found, top) for top in TOPS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.correctness", description=__doc__)
    parser.add_argument("what", choices=WORK)
    parser.add_argument("--replications", type=int, help="100,000 for ties, 20 for savings unless told")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    np.seterr(all="raise", under="ignore")
    work, usual = WORK[arguments.what]
    return 0 if work(arguments.replications or usual, arguments.workers) else 1


WORK = {"ties": (ties, 100_000), "savings": (savings, 20)}

if __name__ == "__main__":
    sys.exit(main())
