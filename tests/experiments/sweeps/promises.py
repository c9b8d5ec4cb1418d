"""What every engine is held to, on real workers and clusters; the default run tries some of it, `make engines` all."""

import json
import subprocess
import sys

import pandas as pd

from parley.experiments.sweeps.engines import Engine
from parley.experiments.sweeps.runner import run_sweep
from parley.experiments.sweeps.storage import Folder
from parley.experiments.sweeps.sweep import load_sweep

WORKERS = {"local": ("loky",), "dask": ("multiprocessing.spawn", "multiprocessing.forkserver"), "ray": ("ray::",)}


def rows(folder):
    return pd.read_parquet(folder / "results.parquet").drop(columns="seconds")


def a_sweep_of_a_few_cells_gives_the_numbers_of_one_process(parley, sweep_file, tmp_path, engine):
    small = sweep_file("delta = [0.1, 0.05]")
    run_sweep(load_sweep(small), Folder(path=tmp_path / "alone"), Engine(workers=1))
    run = parley("sweep", small, "--out", tmp_path / "out", "--engine", engine, "--workers", 2)
    status, _, err = run.finish()
    assert status == 0, err
    pd.testing.assert_frame_equal(rows(tmp_path / "out"), rows(tmp_path / "alone"))


def a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path, engine):
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
    pd.testing.assert_frame_equal(rows(folder), rows(alone))


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


def a_cluster_that_runs_already_is_used_and_left_running(parley, sweep_file, tmp_path, ray_environment, engine):
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
            pd.testing.assert_frame_equal(rows(folder), rows(tmp_path / "alone"))
        cluster.communicate("\n", timeout=60)
