"""Run the missing cells of a sweep; every cell is stored as soon as it is done, whatever happens to other cells."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from timeit import timeit

import numpy as np

from parley.errors import EngineFailed
from parley.experiments.sweeps.engines import Crew, Engine, WorkersLost
from parley.experiments.sweeps.storage import Folder
from parley.experiments.sweeps.sweep import Cell, Sweep, run_cell

MOST_LOSSES = 3  # losses of workers in a row, with no cell finished in between, after which a run fails
SAMPLED_CELLS = 12  # number of cells that are timed for an estimate
FEW, MORE = 8, 40  # two timings with these numbers of replications give a cell's start-up time and time per replication

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of running a sweep."""

    cells: int  # number of cells of the sweep
    done: int  # number of cells that this run finished
    damaged: tuple[Path, ...]  # damaged files, whose cells ran again
    losses: int  # how often workers died and the remaining cells were started again
    seconds: float
    results: Path  # the file with all rows


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The work that a run would do, and an estimate of its duration."""

    cells: int  # number of cells of the sweep
    missing: int  # number of cells to run
    damaged: tuple[Path, ...]  # damaged files, whose cells would run again
    seconds: float  # estimated computing time of one worker

    def lasting(self, workers: int) -> float:
        """The estimated duration in seconds with this number of workers."""
        return self.seconds / max(1, min(workers, self.missing))


def run_sweep(
    sweep: Sweep,
    folder: Folder,
    engine: Engine,
    *,
    command: str = "",
    extend: bool = False,
    started: Callable[[int, list[Path]], None] = lambda *_: None,
    progress: Progress = lambda _: None,
) -> Run:
    """Run the missing cells of a sweep and store their results in a folder.

    `started` is called before the first cell, with the number of cells already finished and the damaged files.
    `progress` is called with the number of cells that have just finished. An interruption loses only the cells in
    progress.
    """
    begun = perf_counter()
    with folder.locked():
        folder.claim(sweep, command=command, extend=extend)
        missing, damaged = folder.survey(sweep.cells)
        started(len(sweep.cells) - len(missing), damaged)
        losses = 0
        if missing:
            with engine.open() as crew:
                losses = _finish(crew, folder, missing, sweep.rows, progress)
        results = folder.path / "results.parquet"
        if missing or not results.exists():
            results = folder.write_together(sweep.cells)
    return Run(
        cells=len(sweep.cells),
        done=len(missing),
        damaged=tuple(damaged),
        losses=losses,
        seconds=perf_counter() - begun,
        results=results,
    )


def _finish(crew: Crew, folder: Folder, missing: list[Cell], rows: str, progress: Progress) -> int:
    """Run cells until none is missing; returns how often workers died meanwhile."""
    pending = {cell.key: cell for cell in missing}
    losses = in_a_row = 0
    while pending:
        try:
            for result in crew.map(run_cell, list(pending.values())):
                folder.write(pending.pop(result.key), result, rows=rows)
                progress(1)
                in_a_row = 0
        except WorkersLost as error:
            # Finished cells are already stored and no longer pending, so only the remaining cells run again.
            losses, in_a_row = losses + 1, in_a_row + 1
            if in_a_row >= MOST_LOSSES:
                raise EngineFailed(
                    f"workers died {in_a_row} times in a row without finishing a cell ({error}). "
                    f"{len(pending)} cells are missing; what is done is kept. Perhaps a cell needs more memory than "
                    "a worker has: try fewer workers"
                ) from error
    return losses


def workload(sweep: Sweep, folder: Folder) -> Workload:
    """Count the missing cells; estimate their computing time from a few replications of some cells in this process.

    Nothing is written.
    """
    missing, damaged = folder.survey(sweep.cells) if folder.manifest else (list(sweep.cells), [])
    # The cells to time are spread over the grid, since costs vary along its axes.
    chosen = missing[:: max(1, len(missing) // SAMPLED_CELLS)][:SAMPLED_CELLS]
    times = [_seconds(cell) for cell in chosen]
    total = float(np.mean(times)) * len(missing) if times else 0.0
    return Workload(cells=len(sweep.cells), missing=len(missing), damaged=tuple(damaged), seconds=total)


def _seconds(cell: Cell) -> float:
    """Estimate the duration of a cell in seconds, from its start-up time and its time per replication."""
    counts = (min(count, cell.replications) for count in (FEW, MORE))
    few, more = (timeit(partial(run_cell, replace(cell, replications=count)), number=1) for count in counts)
    if cell.replications <= MORE:
        return more
    each = max(more - few, 0.0) / (MORE - FEW)
    return more + each * (cell.replications - MORE)
