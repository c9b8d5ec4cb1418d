"""The preprint: its tables, from files that commands of this repository wrote, and its PDF: `make paper`.

The tables are generated parts (`tools.generated`). The figure is drawn from a sweep that runs now. The PDF needs
pandoc, and LaTeX or a browser that prints; if one is missing, the command says so and does not fail.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "paper"
ENGINES = ("tectonic", "xelatex", "lualatex", "pdflatex")  # LaTeX engines, in order of preference
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")  # used without LaTeX
WIDTH = "150"  # width of the text in mm
KINDS = {  # kind of reward in docs/delta-correctness.json -> its description; a missing kind is an error
    "gaussian": "Gaussian",
    "gaussian 5 / 1 / 0.2": "Gaussian, a scale for each agent",
    "subgaussian": "sub-Gaussian",
    "bounded": "in a range",
    "variance": "in a range, variance learned",
    "variance 0.05": "in a range, small variance learned",
    "unknown": "Gaussian, scale unknown in every cell",
    "unknown per agent": "Gaussian, scale unknown by agent",
    "unknown, shared": "Gaussian, one unknown scale",
    "unknown, shared, guess 10": "Gaussian, one unknown scale, guessed too large",
    "binary 0.5": "yes or no, rate 0.5",
    "binary 0.1": "yes or no, rate 0.1",
    "binary 0.01": "yes or no, rate 0.01",
}


def costs() -> str:
    """The table of samples by delta: the lower bound, W-CPE as published and as written, evidence racing."""
    with (ROOT / "docs" / "reproduction" / "table2.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = ["| delta | lower bound | as published | as written | evidence racing | over the bound | rounds |"]
    lines.append("|---:|---:|---:|---:|---:|---:|---:|")
    for delta in dict.fromkeys(row["delta"] for row in rows):
        found = {row["source"]: row for row in rows if row["delta"] == delta}
        ours = found["ours"]
        samples = [float(found[source]["cost"]) for source in ("published", "as written", "ours")]
        cells = [f"{value:,.0f}" for value in (float(ours["bound"]), *samples)]
        cells += [f"{float(ours['ratio']):.2f}", f"{float(ours['rounds']):.2f}"]
        lines.append(f"| {float(delta):.10f}".rstrip("0") + f" | {' | '.join(cells)} |")
    return "\n".join(lines)


def errors() -> str:
    """The table of the largest measured error rates over delta at ties, with standard errors, by kind of reward."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in json.loads((ROOT / "docs" / "delta-correctness.json").read_text(encoding="utf-8")):
        delta, measured = row["tie"]["delta"], row["measured"]
        found.setdefault(row["tie"]["noise"], []).append((measured["agents_wrong"] / delta, measured["error"] / delta))
    lines = ["| rewards | ties measured | largest error over delta |", "|---|---:|---:|"]
    for kind, some in found.items():
        error, deviation = max(some)
        lines.append(f"| {KINDS[kind]} | {len(some)} | {error:.3f} ± {deviation:.3f} |")
    return "\n".join(lines)


def main() -> int:
    """Draw the figure, and make the PDF if pandoc is installed."""
    parley, sweep = [sys.executable, "-m", "parley"], ROOT / "build" / "paper" / "delta"
    words = ["sweep", "examples/sweeps/delta.toml", "--out", str(sweep), "--workers", "1"]
    subprocess.run([*parley, *words], cwd=ROOT, check=True)
    drawn = ["--format", "pdf", "--format", "svg", "--width", WIDTH, "--out", str(PAPER / "figures")]
    subprocess.run([*parley, "figures", str(sweep), *drawn], cwd=ROOT, check=True)
    print(make_pdf())
    return 0


def make_pdf() -> str:
    """Make paper/paper.pdf with LaTeX or a browser; returns a message with what was made or what is missing."""
    pandoc = shutil.which("pandoc")
    engine, browser = (next(filter(shutil.which, names), None) for names in (ENGINES, BROWSERS))
    if pandoc is None or not (engine or browser):
        missing = "pandoc" if pandoc is None else f"one of {', '.join(ENGINES + BROWSERS)}"
        return f"paper/paper.md and paper/figures are made. No PDF: {missing} is not installed."
    text, made = (PAPER / "paper.md").read_text(encoding="utf-8"), PAPER / "paper.pdf"
    command = [pandoc, "--from", "markdown", "--citeproc", "--standalone", "--metadata=author:The Parley developers"]
    if engine:
        command += [f"--pdf-engine={engine}", "--output", made.name]
        subprocess.run(command, cwd=PAPER, input=text, encoding="utf-8", check=True)
        return f"{made.relative_to(ROOT)}, by pandoc and {engine}"
    # A browser can show SVG, but not PDF.
    page = PAPER / "figures" / "paper.html"
    command += ["--self-contained", "--mathml", "--output", str(page)]
    subprocess.run(command, cwd=PAPER, input=text.replace(".pdf)", ".svg)"), encoding="utf-8", check=True)
    printed = [str(browser), "--headless", "--no-sandbox", "--no-pdf-header-footer", f"--print-to-pdf={made}"]
    subprocess.run([*printed, page.as_uri()], check=True, capture_output=True, timeout=120)
    return f"{made.relative_to(ROOT)}, by pandoc and {browser}"


if __name__ == "__main__":
    sys.exit(main())
