"""Real workers and real clusters of two workers: the same numbers everywhere, and a worker killed in mid-sweep."""

import json
import socket
import sys

import pandas as pd
import pytest

from parley.errors import InvalidInput, MissingPackage, NoCluster, UnknownName
from parley.experiments.engines import Engine, WorkersLost
from parley.experiments.runner import run_sweep
from parley.experiments.storage import Folder
from parley.experiments.sweep import load_sweep

WORKERS = {"local": ("loky",), "dask": ("multiprocessing.spawn", "multiprocessing.forkserver"), "ray": ("ray::",)}


def _rows(folder):
    return pd.read_parquet(folder / "results.parquet").drop(columns="seconds")


@pytest.mark.parametrize("engine", ["local", "dask", "ray"])
def test_a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path, engine):
    # Cells slow enough to be caught at work.
    busy = sweep_file('delta = [0.1, 0.05, 0.02, 0.01, 0.005, 0.002]\n"truth.seed" = [0, 1, 2, 3]', replications=2500)
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


def test_workers_that_die_are_reported_as_lost():
    import os

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
