"""`parley sweep` runs thousands of cells, and can be resumed; `parley report` and `parley figures` show the results."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parley.cli.console import errors, json_option, print_json, progress_bar, say, show_table, write_page
from parley.errors import need
from parley.experiments.sweeps.engines import Engine, engines
from parley.experiments.sweeps.sweep import load_sweep
from parley.system.files import write_whole
from parley.text.formatting import plural, real, typed
from parley.validation.checks import share

if TYPE_CHECKING:
    from parley.experiments.sweeps.runner import Workload

MOST_LINES = 40  # lines of the summary on a screen
LEVEL = 0.95  # default level of the confidence intervals


@click.command()
@click.argument("sweep", type=click.Path(dir_okay=False), metavar="SWEEP")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the results; default: parley-results/ and the sweep's file name.",
)
@click.option("--engine", default="local", show_default=True, metavar="NAME", help=f"One of {', '.join(engines())}.")
@click.option("--workers", type=int, help="Processes or cluster workers to use; default: all available.")
@click.option("--address", help="Address of the running cluster of an engine; default: start one here.")
@click.option("--extend", is_flag=True, help="Add cells to a folder whose sweep had fewer values on its axes.")
@click.option("--dry-run", is_flag=True, help="Print how many cells there are and how long they take; run nothing.")
@json_option
def sweep_command(
    sweep: str,
    out: Path | None,
    engine: str,
    workers: int | None,
    address: str | None,
    extend: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run every cell of SWEEP that is not done yet, and store the result of each as soon as it is done.

    SWEEP is a TOML file that names a base study and axes (see examples/sweeps/). A second run computes only missing
    cells. An interruption loses only the cells in progress. A damaged result file is reported and computed again.
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
    kept = 0
    try:
        with progress_bar(loaded.name, len(loaded.cells), hidden=as_json) as advance:

            def step(done: int) -> None:
                nonlocal kept
                kept += done
                advance(done)

            def started(done: int, damaged: list[Path]) -> None:
                for path in damaged:
                    errors.print(f"Damaged, will be made again: {path}", highlight=False, soft_wrap=True)
                if not as_json and done:
                    errors.print(f"{done:,} of {len(loaded.cells):,} cells are done already.", highlight=False)
                step(done)

            run = run_sweep(loaded, folder, chosen, command=made, extend=extend, started=started, progress=step)
    except KeyboardInterrupt:
        errors.print(f"{kept:,} of {len(loaded.cells):,} cells are kept. Run the same command again to go on.")
        raise click.exceptions.Abort from None
    if as_json:
        print_json(
            {"sweep": loaded.name, "folder": str(folder.path), "results": str(run.results), "cells": run.cells}
            | {"run": run.done, "damaged": list(map(str, run.damaged)), "workers_lost": run.losses}
            | {"engine": engine, "seconds": run.seconds}
        )
        return
    lost = f"; workers were lost {plural(run.losses, 'time')}" if run.losses else ""
    say(
        f"{loaded.name}: {plural(run.cells, 'cell')}, {run.done:,} of them run now in {run.seconds:,.1f} s "
        f"({engine}{lost})."
    )
    say(f"All rows are in {run.results}. See them with `parley report {folder.path}`.")


def _dry_run(name: str, guess: Workload, engine: Engine, as_json: bool) -> None:
    workers = engine.workers or os.cpu_count() or 1
    seconds = guess.lasting(workers)
    if as_json:
        damaged = list(map(str, guess.damaged))
        document = {"sweep": name, "cells": guess.cells, "missing": guess.missing, "damaged": damaged}
        print_json(document | {"workers": workers, "seconds": seconds})
        return
    say(
        f"{name}: {plural(guess.cells, 'cell')}, {guess.missing:,} of them to run; about {_duration(seconds)} "
        f"with {plural(workers, 'worker')} like this machine's."
    )
    for path in guess.damaged:
        say(f"Damaged, would be computed again: {path}")


def _duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours, whichever is easiest to picture.

    >>> _duration(4.2), _duration(200), _duration(9000)
    ('4 s', '3.3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@click.command()
@click.argument("results", type=click.Path(file_okay=False, path_type=Path), metavar="RESULTS")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="The page; default: report.html in RESULTS."
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write every figure to this folder, as PNG and SVG, light and dark.",
)
@click.option("--level", default=LEVEL, show_default=True, help="Level of the confidence intervals.")
@click.option("--bootstrap", is_flag=True, help="Intervals by the bootstrap instead of Student's t.")
@json_option
def report_command(
    results: Path, output: Path | None, figures: Path | None, level: float, bootstrap: bool, as_json: bool
) -> None:
    """Summarise the RESULTS folder of a `parley sweep`, finished or not.

    The command writes one HTML page with charts, which needs no network, and prints the summary.
    """
    for package in ("pandas", "pyarrow"):
        need(package, extra="experiments", purpose="a report")
    from parley.experiments.report_kit.charts import save_figure
    from parley.experiments.sweeps.figures import sweep_figures
    from parley.experiments.sweeps.report import html_report
    from parley.experiments.sweeps.results import load_results, summary

    share("--level", level)
    loaded = load_results(results)
    found = summary(loaded, level=level, method="bootstrap" if bootstrap else "t")
    options = ["--level", f"{level:g}"] * (level != LEVEL) + ["--bootstrap"] * bootstrap
    made = shlex.join(["parley", "report", str(results), *options])
    page = write_page(str(output or results / "report.html"), html_report(loaded, found, command=made, level=level))
    drawn = sweep_figures(loaded, found, level=level) if figures else {}
    files = [file for name, draw in drawn.items() if figures for file in save_figure(draw, figures, name, title=made)]
    if as_json:
        summaries = found.astype(object).where(found.notna(), None).to_dict(orient="records")
        document = {"sweep": loaded.name, "cells": len(loaded.cells), "missing": loaded.missing}
        document |= {"damaged": list(loaded.damaged), "summary": summaries, "report": str(page)}
        print_json(document | {"figures": list(map(str, files))})
        return
    other_costs = loaded.other_costs
    bound = "/ c*" if loaded.unit == "samples" else "/ C* log T"
    head = (*loaded.grouping, loaded.unit, "rounds", "errors", bound, *other_costs)
    rows = [
        (
            *(typed(row[name]) for name in loaded.grouping),
            f"{row['cost']:,.0f} ({row['cost_low']:,.0f} to {row['cost_high']:,.0f})",
            f"{row['rounds']:.2f}",
            f"{row['error_rate']:.4f}",
            real(row["ratio"], 1),
            *(
                f"{row[name]:,.0f} (10% to 90%: {row[f'{name}_p10']:,.0f} to {row[f'{name}_p90']:,.0f})"
                for name in other_costs
            ),
        )
        for _, row in found.head(MOST_LINES).iterrows()
    ]
    show_table(f"{loaded.name}: {plural(len(loaded.cells), 'cell')}", head, rows)
    if len(found) > MOST_LINES:
        say(f"... and {plural(len(found) - MOST_LINES, 'more cell', 'more cells')} in the page.")
    for name in loaded.damaged:
        errors.print(f"Damaged and left out: {name}", highlight=False)
    if loaded.missing:
        missing = plural(loaded.missing, "cell is", "cells are")
        errors.print(f"{missing} missing; run the sweep again to finish it.", highlight=False)
    say(f"Report: {page} (open it in a browser)")
    if files:
        say(f"Figures: {plural(len(files), 'file')} in {figures}")


@click.command()
@click.argument("results", type=click.Path(file_okay=False, path_type=Path), metavar="RESULTS")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the figures; default: figures in RESULTS.",
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(["pdf", "svg", "png"]),
    multiple=True,
    default=["pdf"],
    show_default=True,
    help="Format of the files; may be repeated.",
)
@click.option(
    "--width",
    type=click.FloatRange(min=40, max=1000),
    help="Width of a figure in mm, such as 85 for a column or 178 for a page, with text of 8 points; default: each "
    "figure's own.",
)
@click.option("--level", default=LEVEL, show_default=True, help="Level of the confidence intervals.")
@json_option
def figures_command(
    results: Path, out: Path | None, formats: tuple[str, ...], width: float | None, level: float, as_json: bool
) -> None:
    """Draw every figure of a `parley sweep` for a paper, from its RESULTS folder.

    Fonts are embedded. The file summary.csv, next to the figures, has the numbers that they show.
    """
    for package in ("pandas", "pyarrow"):
        need(package, extra="experiments", purpose="figures of a sweep")
    from parley.experiments.report_kit.charts import column_width, save_figure
    from parley.experiments.sweeps.figures import sweep_figures
    from parley.experiments.sweeps.results import load_results, summary

    share("--level", level)
    loaded = load_results(results)
    found = summary(loaded, level=level)
    folder = out or results / "figures"
    options = [word for kind in formats for word in ("--format", kind)]
    options += [] if width is None else ["--width", f"{width:g}"]
    options += ["--level", f"{level:g}"] * (level != LEVEL)
    made = shlex.join(["parley", "figures", str(results), *options])
    with column_width(None if width is None else width / 25.4):
        files = [
            file
            for name, draw in sweep_figures(loaded, found, level=level).items()
            for file in save_figure(draw, folder, name, title=made, formats=formats, themes={"light": ""})
        ]
    write_whole(folder / "summary.csv", found.to_csv(index=False).encode())
    if as_json:
        print_json({"sweep": loaded.name, "figures": list(map(str, files)), "summary": str(folder / "summary.csv")})
        return
    say(f"Figures: {plural(len(files), 'file')} in {folder}, and their numbers in summary.csv")
