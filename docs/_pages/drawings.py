"""Diagrams that GitHub draws from text are drawn by the build instead: no script, nothing from another host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from parley.experiments.report_kit.charts import theme_named

__all__ = ["draw_diagrams"]

MERMAID = re.compile(r"```mermaid\nstateDiagram-v2\n(.*?)```", flags=re.DOTALL)
# Where each stage stands; a stage that is not here is put below the others.
PLACES = {
    "running": (0, 2),
    "closing": (2.6, 2),
    "paused": (1.3, 0.9),
    "finished": (4.6, 2.6),
    "stalled": (4.6, 1.2),
    "cancelled": (1.3, -0.3),
}

ALT = "the stages and how they follow each other; the table below has every move"


def draw_diagrams(app: Any, name: str, source: list[str]) -> None:
    """Before a page is read: a state diagram in it becomes a picture, with the moves as a table below."""
    found = MERMAID.search(source[0])
    if not found:
        return
    moves = re.findall(r"^\s+(\S+) --> (\S+): (.+)$", found[1], flags=re.MULTILINE)
    folder = Path(app.srcdir) / "images" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        _draw(moves, theme).savefig(folder / f"{name}-{theme}.svg", metadata={"Date": None})
    pictures = "\n".join(
        f"```{{image}} images/generated/{name}-{theme}.svg\n:class: only-{theme}\n:alt: {ALT}\n```"
        for theme in ("light", "dark")
    )
    rows = "\n".join(f"| {start.replace('[*]', '(new)')} | {end} | {events} |" for start, end, events in moves)
    source[0] = MERMAID.sub(lambda _: f"{pictures}\n\n| from | to | events |\n|---|---|---|\n{rows}\n", source[0])


def _draw(moves: list[tuple[str, str, str]], theme: str) -> Figure:
    look = theme_named(theme)
    stages = list(dict.fromkeys(stage for start, end, _ in moves for stage in (start, end) if stage != "[*]"))
    places = {stage: PLACES.get(stage, (number, -1)) for number, stage in enumerate(stages)}
    with look.context(), mpl.rc_context({"svg.hashsalt": "parley"}):
        figure = Figure(figsize=(8, 4.6), layout="tight")
        axes = figure.subplots()
        axes.set_axis_off()
        boxes = {}
        for stage, (x, y) in places.items():
            shape = {"boxstyle": "round,pad=0.04", "fc": look.ground, "ec": look.ink, "lw": 1.2, "zorder": 3}
            boxes[stage] = axes.add_patch(FancyBboxPatch((x - 0.4, y - 0.16), 0.8, 0.32, **shape))
            axes.text(x, y, stage, ha="center", va="center", zorder=4, fontsize=10)
        pairs = dict.fromkeys((start, end) for start, end, _ in moves if start not in (end, "[*]"))
        for start, end in pairs:
            style = {"arrowstyle": "-|>", "color": look.ink, "lw": 1.1, "shrinkA": 3, "shrinkB": 3}
            style["connectionstyle"] = f"arc3,rad={0.18 if (end, start) in pairs else 0.06}"
            joined = style | {"patchA": boxes[start], "patchB": boxes[end]}
            axes.annotate("", places[end], places[start], arrowprops=joined)
        axes.set_xlim(-0.6, 5.2)
        axes.set_ylim(min(y for _, y in places.values()) - 0.35, 3.0)
    return figure
