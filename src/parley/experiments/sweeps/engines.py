"""Engines run the cells of a sweep through joblib: in processes on this machine, or on a cluster that an edge offers.

A `Crew` yields results as they finish, in any order. If workers die, it raises `WorkersLost`: the caller keeps the
results so far and runs the remaining cells again. Results do not depend on the engine, because a cell contains all the
data it needs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from parley.errors import InvalidInput, ParleyError, UnknownName, need
from parley.hooks import edges

Task = TypeVar("Task")
Result = TypeVar("Result")
WAVE = 4  # tasks per worker in each call, for backends that return results only when all tasks are done


class WorkersLost(ParleyError):
    """Workers died with tasks in progress; it is safe to run these tasks again."""


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Workers that are ready to run tasks through joblib."""

    workers: int  # number of workers
    settings: dict[str, Any]  # for `joblib.parallel_config`
    lost: tuple[type[BaseException], ...]  # exceptions that mean that workers died
    streams: bool  # whether results arrive one by one rather than in waves of WAVE tasks per worker

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run `function` on every task and yield the results in any order; raise `WorkersLost` if workers die."""
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
    """The choice of an engine: its name, its number of workers, and the address of a running cluster.

    If `workers` is None, the engine uses all available workers.

    >>> with Engine(workers=1).open() as crew:
    ...     sorted(crew.map(abs, [-1, 2]))
    [1, 2]
    """

    name: str = "local"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        known = engines()
        if self.name not in known:
            raise UnknownName("engine", self.name, known)
        if self.workers is not None and self.workers < 1:
            raise InvalidInput("workers", found=self.workers, allowed="at least 1")
        if self.address is not None and self.name == "local":
            others = " or ".join(name for name in known if name != "local") or "of a cluster"
            raise InvalidInput("address", found=self.address, allowed=f"only with the engine {others}")

    @contextmanager
    def open(self) -> Iterator[Crew]:
        """A context with a crew: start workers or connect to a cluster, and clean up afterwards."""
        need("joblib", extra="experiments", purpose="running a sweep")
        with ExitStack() as stack:
            yield engines()[self.name](self, stack)


def _local(engine: Engine, stack: ExitStack) -> Crew:
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import ShutdownExecutorError, TerminatedWorkerError

    workers = engine.workers or os.cpu_count() or 1
    if workers > 1:  # after an interruption, kill workers instead of waiting for the cells in progress
        stack.callback(lambda: get_reusable_executor().shutdown(wait=True, kill_workers=True))
    # Each worker uses a single thread, because the workers together already use all processors.
    return Crew(
        workers=workers,
        settings={"backend": "loky", "inner_max_num_threads": 1},
        lost=(TerminatedWorkerError, ShutdownExecutorError),
        streams=True,
    )


def engines() -> dict[str, Callable[[Engine, ExitStack], Crew]]:
    """All engines by name: processes on this machine, and the clusters that edges provide."""
    return {"local": _local} | {name: opened for edge in edges() for name, opened in edge.engines().items()}
