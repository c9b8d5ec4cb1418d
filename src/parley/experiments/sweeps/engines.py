"""Where cells run: processes of this machine, a Ray cluster or a Dask cluster, all through joblib.

A crew gives back results as they come, in any order. When workers die it raises `WorkersLost`: the caller keeps what it
has and asks again for the rest. Results do not depend on the engine, because a cell holds all it needs.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from parley.errors import InvalidInput, NoCluster, ParleyError, UnknownName, need

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
    stack.enter_context(redirect_stdout(sys.stderr))  # Ray writes about lost workers to stdout, whatever its log level
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
    """Check that a server listens at an address before a library waits for minutes."""
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
