"""Sweeps on clusters: a minute a piece, since each starts one (`make test-engines`)."""

import pytest
from tests.experiments.sweeps import promises

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("engine", ["local", "dask", "ray"])
def test_a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path, engine):
    promises.a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path, engine)


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_cluster_that_runs_already_is_used_and_left_running(parley, sweep_file, tmp_path, ray_environment, engine):
    promises.a_cluster_that_runs_already_is_used_and_left_running(parley, sweep_file, tmp_path, ray_environment, engine)
