"""Sweeps on a Ray or Dask cluster: a running cluster, given by its address, or a new cluster on this machine."""

import os
import socket
import sys
from contextlib import ExitStack, redirect_stdout
from urllib.parse import urlsplit

from parley.errors import InvalidInput, need
from parley.experiments.sweeps.engines import Crew, Engine

ANSWER_SECONDS = 5.0  # time to wait for a cluster's first answer


class NoCluster(InvalidInput):
    """Raised if no cluster answers at the given address, or the cluster has no workers."""


def on_ray(engine: Engine, stack: ExitStack) -> Crew:
    """Connect to a Ray cluster, or start one on this machine; returns its workers. Closing `stack` disconnects."""
    ray = need("ray", extra="ray", purpose="the engine ray")
    register = need("ray.util.joblib", extra="ray", purpose="the engine ray").register_ray
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    stack.enter_context(redirect_stdout(sys.stderr))  # Ray reports lost workers on stdout, whatever its log level
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
    # joblib does not use a pool of one worker: two actors then share the CPU of one.
    actors = max(wanted, 2)
    return Crew(
        workers=actors,
        settings={"backend": "ray", "ray_remote_args": {"num_cpus": wanted / actors}},
        lost=(ray.exceptions.RayError,),
        streams=False,
    )


def on_dask(engine: Engine, stack: ExitStack) -> Crew:
    """Connect to a Dask cluster, or start one on this machine; returns its workers. Closing `stack` disconnects."""
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


def _knock(address: str) -> None:
    """Raise unless a server listens at an address. Without this check, Ray and Dask would wait for minutes."""
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
