"""Sweeps in one process and in two, and the start-up time of engines."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.common import Section
from parley.experiments.sweeps.engines import Engine
from parley.experiments.sweeps.runner import run_sweep
from parley.experiments.sweeps.storage import Folder
from parley.experiments.sweeps.sweep import Sweep, parse_sweep

STUDY = {
    "arms": 6,
    "agents": 3,
    "weights": {"kind": "personalized", "alpha": 0.5},
    "noise": {"kind": "gaussian", "scale": 1.0},
    "truth": {"generate": "paper"},
}
REPEATS = 1


def sweep(replications: int) -> Sweep:
    axes = {"delta": [0.1, 0.05, 0.02, 0.01], "alpha": [0.4, 0.5, 0.6, 0.7], "policy": ["wcpe", "pf-ucb-bai"]}
    return parse_sweep({"study": STUDY, "replications": replications, "axes": axes})


def seconds(made: Sweep, engine: Engine) -> tuple[float, float]:
    """Wall-clock seconds, and CPU seconds of this process and of finished workers."""
    with tempfile.TemporaryDirectory() as folder:
        begun, used = perf_counter(), _processor_seconds()
        run_sweep(made, Folder(path=Path(folder) / "results"), engine)
        return perf_counter() - begun, _processor_seconds() - used


def _processor_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def sections() -> list[Section]:
    long, short = sweep(10_000), sweep(10)
    engines = {
        "local, 1 process": Engine(workers=1),
        "local, 2 processes": Engine(workers=2),
        "dask, 2 workers": Engine(name="dask", workers=2),
        "ray, 2 workers": Engine(name="ray", workers=2),
    }
    # In turns, so that a busy moment of the machine affects all engines alike; the fastest run of each counts.
    turns = [
        {name: (*seconds(long, one), seconds(short, one)[0]) for name, one in engines.items()} for _ in range(REPEATS)
    ]
    best = {name: tuple(min(turn[name][part] for turn in turns) for part in range(3)) for name in engines}
    alone = best["local, 1 process"][0]
    rows = [
        (
            name,
            f"{whole:.1f}",
            f"{alone / whole:.2f} x",
            f"{used:.1f}" if name.startswith("local") else "",
            f"{start:.1f}",
        )
        for name, (whole, used, start) in best.items()
    ]
    return [
        Section(
            title="Engines",
            words="A sweep of 32 cells of 10,000 replications on the paper's instance, files and start included. "
            "The last column is the same sweep with 10 replications a cell: what an engine costs to start and to stop.",
            columns=("engine", "seconds", "against one process", "processor seconds", "seconds with nothing to do"),
            rows=rows,
        )
    ]
