"""Real workers, lost ones, and names of engines."""

import os

import pytest
from tests.experiments.sweeps import promises

from parley.errors import InvalidInput, UnknownName
from parley.experiments.sweeps.engines import Engine, WorkersLost


@pytest.mark.engines
def test_a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path):
    promises.a_worker_killed_in_mid_sweep_costs_no_cell(parley, sweep_file, tmp_path, "local")


@pytest.mark.engines
def test_workers_that_die_are_reported_as_lost():
    with Engine(workers=2).open() as crew, pytest.raises(WorkersLost):
        list(crew.map(os._exit, [1]))


def test_engines_are_known_by_name():
    with pytest.raises(UnknownName, match="local"):
        Engine(name="spark")
    with pytest.raises(InvalidInput, match="at least 1"):
        Engine(workers=0)
    with pytest.raises(InvalidInput, match="only with the engine"):
        Engine(address="127.0.0.1:1")
