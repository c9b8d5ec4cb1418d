"""Run a sweep: only the cells that are missing, each kept the moment it is done, whatever becomes of the rest.

Cells run in processes of this machine, on a Ray cluster or on a Dask cluster, all through joblib. A crew gives back
results as they come, in any order. When workers die it raises `WorkersLost`: the runner keeps what it has and asks
again for the rest. Results do not depend on the engine, because a cell holds all it needs.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from parley.errors import EngineFailed, InvalidInput, NoCluster, ParleyError, UnknownName, need
from parley.experiments.sweeps.storage import Folder
from parley.experiments.sweeps.sweep import Cell, Sweep, run_cell

__all__ = ["ENGINES", "Crew", "Engine", "Run", "WorkersLost", "Workload", "run_sweep", "workload"]

Task = TypeVar("Task")
Result = TypeVar("Result")
ANSWER_SECONDS = 5.0  # how long to wait for a cluster's first word
WAVE = 4  # tasks per worker and wave, for backends that only answer when all is done


class WorkersLost(ParleyError):
    """Workers died with tasks in hand; asking again for those is safe."""


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Workers that are ready: joblib's settings, their number, and what their death looks like."""

    workers: int
    settings: dict[str, Any]
    lost: tuple[type[BaseException], ...]
    streams: bool  # results one by one, or only wave by wave

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The function of every task, in any order."""
        joblib = need("joblib", extra="experiments", purpose="running a sweep")
        calls = [joblib.delayed(function)(task) for task in tasks]
        how = "generator_unordered" if self.streams else "list"
        try:
            with joblib.parallel_config(**self.settings):
                if self.streams:
                    yield from joblib.Parallel(n_jobs=self.workers, batch_size=1, return_as=how)(calls)
                    return
                with joblib.Parallel(n_jobs=self.workers, batch_size=1, return_as=how) as parallel:
                    for first in range(0, len(calls), WAVE * self.workers):
                        yield from parallel(calls[first : first + WAVE * self.workers])
        except self.lost as error:
            raise WorkersLost(str(error).partition("\n")[0]) from error


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Which engine, how many workers (None: all there are), and the address of a cluster that runs already.

    >>> with Engine(workers=1).open() as crew:
    ...     sorted(crew.map(abs, [-1, 2]))
    [1, 2]
    """

    name: str = "local"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise UnknownName("engine", self.name, ENGINES)
        if self.workers is not None and self.workers < 1:
            raise InvalidInput("workers", found=self.workers, allowed="at least 1")
        if self.address is not None and self.name == "local":
            raise InvalidInput("address", found=self.address, allowed="only with the engine ray or dask")

    @contextmanager
    def open(self) -> Iterator[Crew]:
        """Connect or start what is needed, and clean up after."""
        need("joblib", extra="experiments", purpose="running a sweep")
        with ExitStack() as stack:
            yield ENGINES[self.name](self, stack)


def _local(engine: Engine, stack: ExitStack) -> Crew:
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import ShutdownExecutorError, TerminatedWorkerError

    workers = engine.workers or os.cpu_count() or 1
    if workers > 1:  # what is in flight after an interruption must not hold up the way out
        stack.callback(lambda: get_reusable_executor().shutdown(wait=True, kill_workers=True))
    return Crew(
        workers=workers,
        settings={"backend": "loky", "inner_max_num_threads": 1},
        lost=(TerminatedWorkerError, ShutdownExecutorError),
        streams=True,
    )


def _ray(engine: Engine, stack: ExitStack) -> Crew:
    ray = need("ray", extra="ray", purpose="the engine ray")
    register = need("ray.util.joblib", extra="ray", purpose="the engine ray").register_ray
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    stack.enter_context(redirect_stdout(sys.stderr))  # Ray tells of lost workers there, whatever it is told
    if engine.address is not None:
        _knock(engine.address)
        try:
            ray.init(address=engine.address, **quiet)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise _no_cluster(engine.address, error) from None
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(num_cpus=engine.workers or os.cpu_count() or 1, include_dashboard=False, **quiet)
    stack.callback(ray.shutdown)
    register()
    found = max(1, int(ray.cluster_resources().get("CPU", 1)))
    wanted = min(engine.workers or found, found)
    actors = max(wanted, 2)  # joblib would leave a pool of one out altogether
    return Crew(
        workers=actors,
        settings={"backend": "ray", "ray_remote_args": {"num_cpus": wanted / actors}},
        lost=(ray.exceptions.RayError,),
        streams=False,
    )


def _dask(engine: Engine, stack: ExitStack) -> Crew:
    need("dask", extra="dask", purpose="the engine dask")
    distributed = need("distributed", extra="dask", purpose="the engine dask")
    if engine.address is not None:
        _knock(engine.address)
        try:
            client = distributed.Client(engine.address, timeout=ANSWER_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise _no_cluster(engine.address, error) from None
    else:
        cluster = distributed.LocalCluster(
            n_workers=engine.workers or os.cpu_count() or 1,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs="CRITICAL",
        )
        stack.callback(cluster.close)
        client = distributed.Client(cluster, set_as_default=False)
    stack.callback(client.close)
    found = sum(client.nthreads().values())
    if not found:
        raise NoCluster("address", found=f"a scheduler without workers at {engine.address}", allowed="running workers")
    return Crew(
        workers=min(engine.workers or found, found),
        settings={"backend": "dask", "client": client},
        lost=(distributed.KilledWorker, distributed.CancelledError, distributed.comm.CommClosedError),
        streams=True,
    )


ENGINES: dict[str, Callable[[Engine, ExitStack], Crew]] = {"local": _local, "ray": _ray, "dask": _dask}


def _knock(address: str) -> None:
    """See that somebody listens at an address before a library waits for minutes."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None:
        raise InvalidInput("address", found=repr(address), allowed="host:port, ray://host:port or tcp://host:port")
    try:
        socket.create_connection((host, port), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: BaseException) -> NoCluster:
    return NoCluster(
        "address",
        found=f"no cluster at {address} ({str(error).partition(chr(10))[0]})",
        allowed="the address of a cluster that is running and can be reached from here",
        hint="Without an address, a cluster on this machine is started",
    )


MOST_LOSSES = 3  # in a row, with no cell done in between
SAMPLED_CELLS = 12
FEW, MORE = 8, 40  # replications timed to see what a cell costs before its first one, and per replication

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run of a sweep did."""

    cells: int  # of the sweep
    done: int  # of them, now
    damaged: tuple[Path, ...]  # files that were made again
    losses: int  # times that workers died and the rest was asked for again
    seconds: float
    results: Path  # all rows in one file


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a run would do, and about how long it would take."""

    cells: int
    missing: int
    damaged: tuple[Path, ...]
    seconds: float  # of computing, by one worker

    def lasting(self, workers: int) -> float:
        """Seconds with so many workers."""
        return self.seconds / max(1, min(workers, self.missing))


def run_sweep(
    sweep: Sweep,
    folder: Folder,
    engine: Engine,
    *,
    command: str = "",
    extend: bool = False,
    started: Callable[[int, int, tuple[Path, ...]], None] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run what is missing of a sweep into a folder.

    `started` is told how many cells there are, how many are missing, and which files are damaged, before the first
    cell; `progress` how many more are done. Interrupted, it loses the cells in flight and no others.
    """
    begun = perf_counter()
    with folder.locked():
        folder.claim(sweep, command=command, extend=extend)
        missing, damaged = folder.survey(sweep.cells)
        if started is not None:
            started(len(sweep.cells), len(missing), tuple(damaged))
        losses = 0
        if missing:
            with engine.open() as crew:
                losses = _finish(crew, folder, missing, sweep.rows, progress or _silent)
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
    """Count what is missing and time a few replications of some cells, here; nothing is written."""
    missing, damaged = folder.survey(sweep.cells) if folder.manifest else (list(sweep.cells), [])
    chosen = missing[:: max(1, len(missing) // SAMPLED_CELLS)][:SAMPLED_CELLS]
    times = [_seconds(cell) for cell in chosen]
    total = float(np.mean(times)) * len(missing) if times else 0.0
    return Workload(cells=len(sweep.cells), missing=len(missing), damaged=tuple(damaged), seconds=total)


def _seconds(cell: Cell) -> float:
    """About how long a cell takes: what it costs to begin, and what every replication adds."""
    few, more = (_timed(replace(cell, replications=min(count, cell.replications))) for count in (FEW, MORE))
    if cell.replications <= MORE:
        return more
    each = max(more - few, 0.0) / (MORE - FEW)
    return more + each * (cell.replications - MORE)


def _timed(cell: Cell) -> float:
    begun = perf_counter()
    run_cell(cell)
    return perf_counter() - begun


def _silent(_: int) -> None:
    return
