"""`parley report`: what a sweep found, as a table, an interactive page and figures."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from parley.cli.console import errors, json_option, print_json, screen, table, write_page
from parley.errors import InvalidInput
from parley.optional import need
from parley.words import real, typed

__all__ = ["command"]

MOST_LINES = 40


@click.command()
@click.argument("results", type=click.Path(file_okay=False, path_type=Path), metavar="RESULTS")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="The page; default: report.html in RESULTS."
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for every figure as PNG and SVG, light and dark.",
)
@click.option("--level", default=0.95, show_default=True, help="Of the confidence intervals.")
@click.option("--bootstrap", is_flag=True, help="Intervals by the bootstrap instead of Student's t.")
@json_option
def command(
    results: Path, output: Path | None, figures: Path | None, level: float, bootstrap: bool, as_json: bool
) -> None:
    """Summarise the RESULTS folder of a `parley sweep`, finished or not.

    Writes one HTML page with interactive charts that needs no network, and prints the summary.
    """
    for package in ("pandas", "pyarrow", "plotly"):
        need(package, extra="experiments", purpose="a report")
    from parley.experiments.sweeps.figures import sweep_figures
    from parley.experiments.sweeps.report import html_report
    from parley.experiments.sweeps.results import load_results, summary

    if not 0 < level < 1:
        raise InvalidInput("--level", found=level, allowed="a number strictly between 0 and 1")
    loaded = load_results(results)
    found = summary(loaded, level=level, method="bootstrap" if bootstrap else "t")
    made = shlex.join(["parley", "report", str(results)])
    page = write_page(str(output or results / "report.html"), html_report(loaded, found, command=made))
    files = []
    for name, draw in sweep_figures(loaded, found).items() if figures else ():
        assert figures is not None
        figures.mkdir(parents=True, exist_ok=True)
        for theme, suffix in {"light": "", "dark": "-dark"}.items():
            picture = draw(theme=theme)
            for kind in ("png", "svg"):
                files.append(figures / f"{name}{suffix}.{kind}")
                picture.savefig(files[-1], dpi=150, metadata={"Title": made})
    if as_json:
        rows = found.astype(object).where(found.notna(), None).to_dict(orient="records")
        print_json(
            {"sweep": loaded.name, "cells": len(loaded.cells), "missing": loaded.missing}
            | {"damaged": list(loaded.damaged), "summary": rows, "report": str(page), "figures": list(map(str, files))}
        )
        return
    billed = loaded.billed
    bound = "/ c*" if loaded.unit == "samples" else "/ C* log T"
    head = (*loaded.grouping, loaded.unit, "rounds", "errors", bound, *billed)
    shown = table(f"{loaded.name}: {len(loaded.cells):,} cells", *head)
    for _, row in found.head(MOST_LINES).iterrows():
        shown.add_row(
            *(typed(row[name]) for name in loaded.grouping),
            f"{row['cost']:,.0f} ({row['cost_low']:,.0f} to {row['cost_high']:,.0f})",
            f"{row['rounds']:.2f}",
            f"{row['error_rate']:.4f}",
            real(row["ratio"], 1),
            *(
                f"{row[name]:,.0f} (10% to 90%: {row[f'{name}_p10']:,.0f} to {row[f'{name}_p90']:,.0f})"
                for name in billed
            ),
        )
    screen.print(shown)
    if len(found) > MOST_LINES:
        screen.print(f"... and {len(found) - MOST_LINES:,} more cells in the page.")
    for name in loaded.damaged:
        errors.print(f"Damaged and left out: {name}", highlight=False)
    if loaded.missing:
        errors.print(f"{loaded.missing:,} cells are missing; run the sweep again to finish it.", highlight=False)
    screen.print(f"Report: {page} (open it in a browser)", soft_wrap=True)
    if files:
        screen.print(f"Figures: {len(files)} files in {figures}", highlight=False)
