"""Real workers and real clusters of two workers: the same numbers everywhere, and a worker killed in mid-sweep."""

import json
import os
import socket
import subprocess
import sys

import pandas as pd
import pytest

from parley.errors import InvalidInput, MissingPackage, NoCluster, UnknownName
from parley.experiments.sweeps.engines import Engine, WorkersLost
from parley.experiments.sweeps.runner import run_sweep
from parley.experiments.sweeps.storage import Folder
from parley.experiments.sweeps.sweep import load_sweep

WORKERS = {"local": ("loky",), "dask": ("multiprocessing.spawn", "multiprocessing.forkserver"), "ray": ("ray::",)}


def _rows(folder):
    return pd.read_parquet(folder / "results.parquet").drop(columns="seconds")


@pytest.mark.parametrize("engine", ["local", "dask", "ray"])
def test_a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path, engine):
    # Cells slow enough to be caught at work.
    busy = sweep_file('delta = [0.1, 0.05, 0.02, 0.01, 0.005, 0.002]\n"truth.seed" = [0, 1, 2, 3]', replications=1200)
    alone, folder = tmp_path / "alone", tmp_path / engine
    run_sweep(load_sweep(busy), Folder(path=alone), Engine(workers=1))
    run = parley("sweep", busy, "--out", folder, "--engine", engine, "--workers", 2, "--json")
    assert 1 <= run.wait_for_cells(folder, 1) < 24
    victims = run.workers(*WORKERS[engine])
    assert victims, "no worker in sight"
    victims[-1].kill()
    status, out, err = run.finish()
    assert status == 0, err
    assert json.loads(out)["cells"] == 24
    assert len(list((folder / "cells").iterdir())) == 24  # each once, and nothing else
    pd.testing.assert_frame_equal(_rows(folder), _rows(alone))


RUNS = {"dask": 2, "ray": 1}
CLUSTERS = {
    "dask": """
from distributed import LocalCluster
cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
address = cluster.scheduler_address""",
    "ray": """
import ray
address = ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR").address_info["gcs_address"]""",
}


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_cluster_that_runs_already_is_used_and_left_running(parley, sweep_file, tmp_path, ray_environment, engine):
    small = sweep_file("delta = [0.1, 0.05, 0.02]")
    run_sweep(load_sweep(small), Folder(path=tmp_path / "alone"), Engine(workers=1))
    script = f"if __name__ == '__main__':{CLUSTERS[engine]}\nprint(address, flush=True)\ninput()".replace(
        "\n", "\n    "
    )
    (tmp_path / "cluster.py").write_text(script)
    with subprocess.Popen(
        [sys.executable, tmp_path / "cluster.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ray_environment,
    ) as cluster:
        address = cluster.stdout.readline().strip()
        for number in range(RUNS[engine]):  # a second one finds the cluster as the first left it
            folder = tmp_path / f"run {number}"
            run = parley("sweep", small, "--out", folder, "--engine", engine, "--address", address)
            status, _, err = run.finish()
            assert status == 0, err
            pd.testing.assert_frame_equal(_rows(folder), _rows(tmp_path / "alone"))
        cluster.communicate("\n", timeout=60)


def test_workers_that_die_are_reported_as_lost():
    with Engine(workers=2).open() as crew, pytest.raises(WorkersLost):
        list(crew.map(os._exit, [1]))


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_an_address_that_does_not_answer(engine):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, and nobody listens
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(NoCluster, match=address), Engine(name=engine, address=address).open():
            pass


@pytest.mark.parametrize("address", ["nonsense", "host:port", "tcp://"])
def test_an_address_that_is_none(address):
    with pytest.raises(InvalidInput, match="host:port"), Engine(name="dask", address=address).open():
        pass


def test_an_engine_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # how Python itself marks a package that cannot be imported
    with pytest.raises(MissingPackage, match=r"pip install 'parley\[ray\]'"), Engine(name="ray").open():
        pass


def test_engines_are_known_by_name():
    with pytest.raises(UnknownName, match="dask, local, ray"):
        Engine(name="spark")
    with pytest.raises(InvalidInput, match="at least 1"):
        Engine(workers=0)
    with pytest.raises(InvalidInput, match="ray or dask"):
        Engine(address="127.0.0.1:1")
