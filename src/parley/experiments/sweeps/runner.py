"""Run a sweep: only the missing cells, each stored when it is done, whatever happens to the rest."""

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

MOST_LOSSES = 3  # losses of workers in a row, with no cell done in between
SAMPLED_CELLS = 12
FEW, MORE = 8, 40  # replications timed to see what a cell costs before its first one, and per replication

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of running a sweep."""

    cells: int  # of the sweep
    done: int  # of them, now
    damaged: tuple[Path, ...]  # files that were made again
    losses: int  # how often workers died and the remaining cells were started again
    seconds: float
    results: Path  # all rows in one file


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a run would do, and roughly how long it would take."""

    cells: int
    missing: int
    damaged: tuple[Path, ...]
    seconds: float  # of computing, by one worker

    def lasting(self, workers: int) -> float:
        """Seconds with this number of workers."""
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
    """Run the missing cells of a sweep into a folder.

    `started` is called before the first cell with the number of finished cells and the damaged files; `progress` with
    how many more are done. An interruption loses only the cells in progress.
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
    """Run cells until none is missing; returns how often workers were lost on the way."""
    pending = {cell.key: cell for cell in missing}
    losses = in_a_row = 0
    while pending:
        try:
            for result in crew.map(run_cell, list(pending.values())):
                folder.write(pending.pop(result.key), result, rows=rows)
                progress(1)
                in_a_row = 0
        except WorkersLost as error:
            losses, in_a_row = losses + 1, in_a_row + 1
            if in_a_row >= MOST_LOSSES:
                raise EngineFailed(
                    f"workers died {in_a_row} times in a row without finishing a cell ({error}). "
                    f"{len(pending)} cells are missing; what is done is kept. Perhaps a cell needs more memory than "
                    "a worker has: try fewer workers"
                ) from error
    return losses


def workload(sweep: Sweep, folder: Folder) -> Workload:
    """Count what is missing and time a few replications of some cells here; writes nothing."""
    missing, damaged = folder.survey(sweep.cells) if folder.manifest else (list(sweep.cells), [])
    chosen = missing[:: max(1, len(missing) // SAMPLED_CELLS)][:SAMPLED_CELLS]
    times = [_seconds(cell) for cell in chosen]
    total = float(np.mean(times)) * len(missing) if times else 0.0
    return Workload(cells=len(sweep.cells), missing=len(missing), damaged=tuple(damaged), seconds=total)


def _seconds(cell: Cell) -> float:
    """Rough duration of a cell: its start-up, and the time per replication."""
    counts = (min(count, cell.replications) for count in (FEW, MORE))
    few, more = (timeit(partial(run_cell, replace(cell, replications=count)), number=1) for count in counts)
    if cell.replications <= MORE:
        return more
    each = max(more - few, 0.0) / (MORE - FEW)
    return more + each * (cell.replications - MORE)
