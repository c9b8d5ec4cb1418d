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

DOCS = Path(__file__).parents[2] / "docs"
SEED = 2026
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.correctness", description=__doc__)
    parser.add_argument("what", choices=("ties",))
    parser.add_argument("--replications", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    np.seterr(all="raise", under="ignore")
    return 0 if ties(arguments.replications, arguments.workers) else 1


if __name__ == "__main__":
    sys.exit(main())
