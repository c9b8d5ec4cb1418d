"""Sweeps and commands as the tests of sweeps have them."""

from tests.experiments.sweeps.conftest import parley, ray_environment, sweep_file

__all__ = ["parley", "ray_environment", "sweep_file"]
