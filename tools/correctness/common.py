"""Shared by the long measurements: running in parallel, and paths of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

DOCS = Path(__file__).parents[2] / "docs"
APPENDIX = DOCS / "appendix"
SEED = 2026
Task, Result = TypeVar("Task"), TypeVar("Result")


def in_parallel(run: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Result]]:
    """Results in the order of completion, each with its task; prints the progress."""
    with ProcessPoolExecutor(workers) as pool:
        waiting = {pool.submit(run, task): task for task in tasks}
        for done, future in enumerate(as_completed(waiting), start=1):
            print(f"{done}/{len(tasks)} {future.result()}", flush=True)
            yield waiting[future], future.result()
