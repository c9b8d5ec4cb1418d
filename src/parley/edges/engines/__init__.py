"""Engines that run sweeps on clusters: Dask and Ray. Sweeps in processes of one machine need no edge."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from parley.hooks import Edge

if TYPE_CHECKING:
    from parley.experiments.sweeps.engines import Crew, Engine


class Engines(Edge):
    """Adds the engines Dask and Ray."""

    name = "engines"
    summary = "sweeps on clusters: sweep --engine dask, sweep --engine ray"
    docs = "experiments.md#sweeps"
    extras = (("ray", "sweep --engine ray"), ("dask", "sweep --engine dask"))

    def engines(self) -> "Mapping[str, Callable[[Engine, ExitStack], Crew]]":
        from parley.edges.engines import clusters

        return {"ray": clusters.on_ray, "dask": clusters.on_dask}


edge = Engines()
