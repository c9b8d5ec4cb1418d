"""Real clusters of two workers: the same numbers everywhere, a worker killed in mid-sweep, addresses that are none.

Those that start a cluster take a minute each, and those with an address need its package (`make test-engines`).
"""

import socket
import sys

import pytest
from tests.experiments.sweeps import promises

from parley.edges.engines.clusters import NoCluster
from parley.errors import InvalidInput, MissingPackage, UnknownName
from parley.experiments.sweeps.engines import Engine


@pytest.mark.engines
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path, engine):
    promises.a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path, engine)


@pytest.mark.engines
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_cluster_that_runs_already_is_used_and_left_running(parley, sweep_file, tmp_path, ray_environment, engine):
    promises.a_cluster_that_runs_already_is_used_and_left_running(parley, sweep_file, tmp_path, ray_environment, engine)


@pytest.mark.engines
def test_ray_gives_the_same_numbers(parley, sweep_file, tmp_path):
    promises.a_sweep_of_a_few_cells_gives_the_numbers_of_one_process(parley, sweep_file, tmp_path, "ray")


@pytest.mark.engines
@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_an_address_that_does_not_answer(engine):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, and nobody listens
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(NoCluster, match=address), Engine(name=engine, address=address).open():
            pass


@pytest.mark.engines
@pytest.mark.parametrize("address", ["nonsense", "host:port", "tcp://"])
def test_an_address_that_is_none(address):
    with pytest.raises(InvalidInput, match="host:port"), Engine(name="dask", address=address).open():
        pass


def test_an_engine_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # how Python itself marks a package that cannot be imported
    with pytest.raises(MissingPackage, match=r"pip install '\.\[ray\]'"), Engine(name="ray").open():
        pass


def test_the_engines_are_known_by_name():
    with pytest.raises(UnknownName, match="dask, local, ray"):
        Engine(name="spark")
    with pytest.raises(InvalidInput, match="ray or dask"):
        Engine(address="127.0.0.1:1")
