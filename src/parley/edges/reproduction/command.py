"""`parley reproduce`: reproduces the paper's tables, and explains the published figures."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from parley import __version__
from parley.cli.console import (
    json_option,
    print_json,
    progress_bar,
    screen,
    seed_option,
)
from parley.edges.reproduction.exhibits import EXHIBITS, Exhibit
from parley.edges.reproduction.reproduction import jobs, measure_all, rows_of
from parley.errors import InvalidInput

FOLDER = "parley-reproduction"


@click.command()
@click.argument("what", type=click.Choice([*EXHIBITS, "all"]), default="all")
@click.option("--replications", default=20_000, show_default=True, help="Independent runs of every cell.")
@seed_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=FOLDER,
    show_default=True,
    help="Folder for Markdown, CSV, PNG and SVG.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Processes to use; default: one per core.")
@json_option
def reproduce_command(what: str, replications: int, seed: int, out: Path, workers: int | None, as_json: bool) -> None:
    """Reproduce the paper's tables, with the published figures, the algorithms as written, and evidence racing.

    \b
    table1    costs and rounds for four levels of personalization
    table2    costs against the lower bound for six error levels
    baseline  shows why the published costs of PF-UCB-BAI are too high
    counts    shows why the published costs of W-CPE-BAI are too low
    pf-ucb    regret of PF-UCB on its published instances: published, as written, as released, ours
    all       all five
    """
    if replications < 2:
        raise InvalidInput("--replications", found=replications, allowed="at least 2: one run has no spread")
    names = list(EXHIBITS) if what == "all" else [what]
    wanted, cores = jobs(names), workers or os.cpu_count() or 1
    with progress_bar(f"reproduce {what}", len(wanted), hidden=as_json) as advance:
        found = measure_all(wanted, replications=replications, seed=seed, workers=cores, progress=advance)
    exhibits = [EXHIBITS[name](rows_of(name, found)) for name in names]
    out.mkdir(parents=True, exist_ok=True)
    made = f"parley reproduce {what} --replications {replications} --seed {seed}"
    files = [file for exhibit in exhibits for file in _write(exhibit, out, made)]
    if as_json:
        print_json(_document(exhibits, replications, seed, files))
        return
    for exhibit in exhibits:
        for one in exhibit.tables:
            screen.print(one)
        screen.print(exhibit.words, highlight=False)
        screen.print()
    screen.print(f"Tables and figures are in {out}{'/' if not str(out).endswith('/') else ''}; made by `{made}`.")


def _write(exhibit: Exhibit, out: Path, made: str) -> list[Path]:
    """Write an exhibit as Markdown, CSV, PNG and SVG; returns the files."""
    from parley.edges.reproduction.figures import draw_exhibit  # imports the drawing library, which is slow
    from parley.experiments.report_kit.charts import save_figure

    files = []
    for one in exhibit.tables:
        files += [out / f"{one.name}.md", out / f"{one.name}.csv"]
        note = f"\n\n{one.note}" if one.note else ""
        text = f"{one.title}\n\n{one.markdown()}\n\n{exhibit.words}{note}\n\nMade by `{made}`, Parley {__version__}.\n"
        files[-2].write_text(text, encoding="utf-8")
        files[-1].write_text(one.csv(), encoding="utf-8")
    return files + save_figure(partial(draw_exhibit, exhibit), out, exhibit.name, title=made)


def _document(exhibits: list[Exhibit], replications: int, seed: int, files: list[Path]) -> dict[str, Any]:
    document: dict[str, Any] = {"version": __version__, "replications": replications, "seed": seed}
    for exhibit in exhibits:
        document[exhibit.name] = {
            "tables": [{"title": one.title, "rows": one.records()} for one in exhibit.tables],
            "words": exhibit.words,
        }
    return document | {"files": [str(file) for file in files]}
