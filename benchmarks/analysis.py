"""`parley analyze` on tables of people: time of the whole command by rows, compared with starting Python."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.common import ROOT, Section

SIZES = (4_000, 40_000, 400_000)


def write_table(path: Path, rows: int) -> None:
    """Write a table with four arms, three sites, a covariate, and skewed outcomes of which a third are 0."""
    rng = np.random.default_rng(0)
    arm, site, x = rng.integers(4, size=rows), rng.integers(3, size=rows), rng.lognormal(3.0, 0.5, rows)
    y = (rng.random(rows) < 0.67) * (x * rng.lognormal(0.0, 0.3, rows) + 3.0 * arm)
    lines = [f"{'PQR'[m]},{'abcd'[k]},{one:.3f},{two:.3f}" for m, k, one, two in zip(site, arm, x, y, strict=True)]
    path.write_text("\n".join(["site,arm,before,outcome", *lines]) + "\n", encoding="utf-8")


def seconds(*arguments: str) -> float:
    """CPU seconds of one command, which other work on the machine does not affect."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "parley", *arguments], check=True, capture_output=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def least(*arguments: str) -> float:
    """CPU seconds of the fastest of three runs."""
    return min(seconds(*arguments) for _ in range(3))


def sections() -> list[Section]:
    rows = []
    with TemporaryDirectory() as folder:
        page = ["--output", f"{folder}/page.html", "--json"]
        start = least("analyze", "--help")
        for size in SIZES:
            table = Path(folder) / f"{size}.csv"
            write_table(table, size)
            options = ["analyze", str(table), "--alpha", "0.5", "--covariate", "before", *page]
            plain, whole = least(*options, "--replications", "0"), least(*options)
            rows.append([f"{size:,}", f"{whole:.1f}", f"{whole / start:.1f}", f"{plain / start:.1f}"])
    return [
        Section(
            title="Analyse a table",
            words="`parley analyze` with a covariate: the whole command, its page included, in seconds of a processor. "
            "Ratios are to the start of the same program (`--help`).",
            columns=("rows", "seconds", "over the start", "without sequential studies"),
            rows=rows,
        )
    ]
