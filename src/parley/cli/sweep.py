"""`parley sweep`: thousands of cells, interrupted and resumed at will."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from parley.cli.console import errors, json_option, print_json, progress_bar, screen
from parley.experiments.sweeps.engines import ENGINES, Engine
from parley.experiments.sweeps.sweep import load_sweep
from parley.optional import need

__all__ = ["command"]


@click.command()
@click.argument("sweep", type=click.Path(dir_okay=False), metavar="SWEEP")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the results; default: parley-results/ and the sweep's file name.",
)
@click.option("--engine", default="local", show_default=True, metavar="NAME", help=f"One of {', '.join(ENGINES)}.")
@click.option("--workers", type=int, help="Processes or cluster workers to use; default: all there are.")
@click.option("--address", help="Address of a Ray or Dask cluster that is running; default: start one here.")
@click.option("--extend", is_flag=True, help="Add cells to a folder whose sweep had fewer values on its axes.")
@click.option("--dry-run", is_flag=True, help="Say how many cells there are and how long they take; run nothing.")
@json_option
def command(
    sweep: str,
    out: Path | None,
    engine: str,
    workers: int | None,
    address: str | None,
    extend: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run every cell of SWEEP that is not done yet, and keep each as it comes.

    SWEEP is a TOML file that names a base study and axes (see examples/sweeps/). A second run does only what is
    missing; an interruption loses the cells in flight and no others; a damaged file is named and made again.
    """
    need("pyarrow", extra="experiments", purpose="running a sweep")
    from parley.experiments.sweeps.runner import run_sweep, workload
    from parley.experiments.sweeps.storage import Folder

    chosen = Engine(name=engine, workers=workers, address=address)
    loaded = load_sweep(sweep)
    folder = Folder(path=out or Path("parley-results") / Path(sweep).stem)
    if dry_run:
        _dry_run(loaded.name, workload(loaded, folder), chosen, as_json)
        return
    made = shlex.join(["parley", "sweep", sweep, "--out", str(folder.path)])
    seen: dict[str, Any] = {"done": 0}

    def started(cells: int, missing: int, damaged: tuple[Path, ...]) -> None:
        seen.update(cells=cells, missing=missing)
        for path in damaged:
            errors.print(f"Damaged, will be made again: {path}", highlight=False, soft_wrap=True)
        if not as_json and missing < cells:
            errors.print(f"{cells - missing:,} of {cells:,} cells are done already.", highlight=False)

    try:
        with progress_bar(loaded.name, len(loaded.cells), hidden=as_json) as advance:

            def step(done: int) -> None:
                if not seen["done"]:
                    advance(seen["cells"] - seen["missing"])
                seen["done"] += done
                advance(done)

            run = run_sweep(loaded, folder, chosen, command=made, extend=extend, started=started, progress=step)
    except KeyboardInterrupt:
        kept = seen.get("cells", 0) - seen.get("missing", 0) + seen["done"]
        errors.print(f"{kept:,} of {len(loaded.cells):,} cells are kept. Run the same command again to go on.")
        raise click.exceptions.Abort from None
    document = {
        "sweep": loaded.name,
        "folder": str(folder.path),
        "results": str(run.results),
        "cells": run.cells,
        "run": run.done,
        "damaged": [str(path) for path in run.damaged],
        "workers_lost": run.losses,
        "engine": engine,
        "seconds": run.seconds,
    }
    if as_json:
        print_json(document)
        return
    screen.print(
        f"{loaded.name}: {run.cells:,} cells, {run.done:,} of them run now in {run.seconds:,.1f} s "
        f"({engine}{f'; workers were lost {run.losses} times' if run.losses else ''}).",
        highlight=False,
    )
    screen.print(f"All rows are in {run.results}. See them with `parley report {folder.path}`.", highlight=False)


def _dry_run(name: str, guess: Any, engine: Engine, as_json: bool) -> None:
    import os

    workers = engine.workers or os.cpu_count() or 1
    seconds = guess.lasting(workers)
    if as_json:
        print_json(
            {
                "sweep": name,
                "cells": guess.cells,
                "missing": guess.missing,
                "damaged": [str(path) for path in guess.damaged],
                "workers": workers,
                "seconds": seconds,
            }
        )
        return
    screen.print(
        f"{name}: {guess.cells:,} cells, {guess.missing:,} of them to run; about {_duration(seconds)} "
        f"with {workers} workers like this machine's.",
        highlight=False,
    )
    for path in guess.damaged:
        screen.print(f"Damaged, would be made again: {path}", highlight=False)


def _duration(seconds: float) -> str:
    """A time that people can picture.

    >>> _duration(4.2), _duration(200), _duration(9000)
    ('4 s', '3.3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
