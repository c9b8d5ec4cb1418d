"""The report of a sweep: one self-contained HTML file, to open offline or to send to a colleague.

Charts are SVG. They follow the reader's light or dark setting, and display their numbers on hover. Every chart has a
caption, and its numbers are also in a table.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from markupsafe import Markup

from parley.experiments.report_kit.pages import render
from parley.experiments.report_kit.svg import (
    SHAPES,
    Scale,
    area,
    breadth,
    clipped,
    element,
    line,
    log_ticks,
    mark,
    path,
    svg,
    text,
    ticks,
)
from parley.experiments.report_kit.tables import Table
from parley.experiments.sweeps import figures
from parley.experiments.sweeps.results import Results, compare
from parley.problem import FloatArray, Problem
from parley.text.formatting import DASH, typed

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720.0, 92.0, 704.0, 30.0, 340.0
LEGEND = 20.0  # height of a line of the legend
MOST_TICKS = 9
MOST_NUMBERS = 120  # largest number of cells of a heat map that have room for their numbers
NAMES = list(SHAPES)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis of a chart: maps values to positions, linearly or logarithmically."""

    scale: Scale
    logarithmic: bool

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float, *, logarithmic: bool, zero: bool = False) -> Self:
        """An axis that fits all finite `values` between two positions; with `zero`, a linear axis includes 0."""
        known = [math.log10(value) if logarithmic else value for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(known), max(known)
        margin = 0.04 * (high - low) or 0.5
        low = min(low, 0.0) if zero and not logarithmic else low - margin
        return cls(scale=Scale(low, high + margin, start, end), logarithmic=logarithmic)

    def __call__(self, value: float) -> float:
        return self.scale(math.log10(value) if self.logarithmic else value)

    def ticks(self) -> list[float]:
        """Round numbers for the ticks of the axis."""
        low, high = self.scale.low, self.scale.high
        return log_ticks(10**low, 10**high) if self.logarithmic else ticks(low, high)


def line_chart(
    curves: Sequence[figures.Curve],
    *,
    x: str,
    y: str,
    label: str,
    bounds: Sequence[figures.Curve] = (),
    log_y: bool = False,
) -> Markup:
    """A chart of curves with bands along an axis of the sweep; bounds are dotted lines, and hovering shows numbers."""
    every = [*curves, *bounds]
    upright = [float(value) for curve in every for ends in (curve.y, curve.low, curve.high) for value in ends]
    rise = Axis.over(upright, BOTTOM, TOP, logarithmic=log_y, zero=True)
    values = sorted({float(value) for curve in every for value in curve.x})
    ends = (RIGHT, LEFT) if x == "delta" else (LEFT, RIGHT)  # the smallest delta is on the right
    along = Axis.over(values, *ends, logarithmic=x in figures.LOGARITHMIC)
    drawn = [*_frame(rise, y)]
    shown = values if len(values) <= MOST_TICKS else along.ticks()
    drawn += [text(along(value), BOTTOM + 18, typed(value), "soft", "middle") for value in shown]
    drawn.append(text((LEFT + RIGHT) / 2, BOTTOM + 40, figures.TITLES.get(x, x), "ink", "middle"))
    for place, curve in enumerate(curves):
        class_ = f"s{place % len(NAMES)}"
        known = [(at, *found) for at, *found in zip(curve.x, curve.y, curve.low, curve.high, strict=True)]
        known = [row for row in known if all(map(math.isfinite, row))]
        upper, lower = (
            [(along(at), rise(high)) for at, *_, high in known],
            [(along(at), rise(low)) for at, _, low, _ in known],
        )
        drawn.append(area([*upper, *lower[::-1]], f"{class_} band"))
        points = [(along(at), rise(value)) for at, value in zip(curve.x, curve.y, strict=True) if math.isfinite(value)]
        drawn.append(path(points, f"{class_} d{place // len(NAMES) % 4}"))
        numbers = ((at, value) for at, value in zip(curve.x, curve.y, strict=True) if math.isfinite(value))
        for (across, down), (at, value) in zip(points, numbers, strict=True):
            words = f"{curve.label}, {x} = {typed(float(at))}: {value:,.5g}"
            drawn.append(_titled(mark(NAMES[place % len(NAMES)], across, down, 4.5, class_), words))
    for bound in bounds:
        points = [(along(at), rise(value)) for at, value in zip(bound.x, bound.y, strict=True) if math.isfinite(value)]
        spoken = "; ".join(f"{typed(float(at))}: {value:,.0f}" for at, value in zip(bound.x, bound.y, strict=True))
        drawn.append(_titled(path(points, "bound"), f"{bound.label}. {spoken}"))
    legend, height = _legend([curve.label for curve in curves], [bound.label for bound in bounds], BOTTOM + 64)
    return svg(WIDTH, height, label, *drawn, *legend)


def box_chart(made: Sequence[figures.Boxes], *, y: str, label: str) -> Markup:
    """A chart of boxplots by group, with a colour per policy.

    Boxes end at the quartiles; whiskers extend by up to 1.5 times the distance between the quartiles.
    """
    groups = list(dict.fromkeys(name for one in made for name in one.groups))  # an unfinished policy has fewer groups
    rise = Axis.over([float(end) for one in made for some in one.values for end in (some.min(), some.max())],
                     BOTTOM, TOP, logarithmic=True)  # fmt: skip
    room = (RIGHT - LEFT) / len(groups)
    width = min(0.8 * room / len(made), 60.0)
    drawn = [*_frame(rise, y)]
    for at, name in enumerate(groups):
        middle = LEFT + room * (at + 0.5)
        drawn.append(text(middle, BOTTOM + 18, clipped(name, max(int(room / 9), 4)), "soft", "middle"))
        for place, one in enumerate(made):
            if name not in one.groups:
                continue
            runs = one.values[one.groups.index(name)]
            low, median, high = np.quantile(runs, [0.25, 0.5, 0.75]).tolist()
            inside = runs[np.abs(runs - (low + high) / 2) <= 2 * (high - low)]  # whiskers of 1.5 times their distance
            centre, class_ = middle + width * (place - (len(made) - 1) / 2), f"s{place % len(NAMES)}"
            box = {"x": centre - 0.42 * width, "width": 0.84 * width, "y": rise(high), "height": rise(low) - rise(high)}
            words = f"{one.label}, {name}: median {median:,.0f}, half of the runs from {low:,.0f} to {high:,.0f}"
            whiskers = line(centre, rise(float(inside.min())), centre, rise(float(inside.max())), class_)
            cut = line(box["x"], rise(median), box["x"] + box["width"], rise(median), "ink")
            drawn.append(_titled(whiskers + element("rect", class_=class_, **box) + cut, words))
    legend, height = _legend([one.label for one in made], [], BOTTOM + 44)
    return svg(WIDTH, height, label, *drawn, *legend)


def heat_map(title: str, draws: FloatArray, problem: Problem) -> Markup:
    """A heat map of draws, with a row per arm and a column per agent; shades are shares of all draws."""
    arms, agents = draws.shape
    left, row = 150.0, 26.0
    room, shares = (RIGHT - left) / agents, draws / draws.sum()
    drawn = [text(left + room * (m + 0.5), 16, clipped(name, max(int(room / 9), 3)), "soft", "middle") for m, name in
             enumerate(problem.agents)]  # fmt: skip
    for k, arm in enumerate(problem.arms):
        drawn.append(text(left - 10, 24 + row * (k + 0.65), clipped(arm), "ink", "end"))
        for m, agent in enumerate(problem.agents):
            shade = float(shares[k, m] / shares.max())
            cell = {"x": left + room * m + 1, "y": 24 + row * k + 1, "width": room - 2, "height": row - 2}
            made = element("rect", class_="s0", fill_opacity=0.05 + 0.6 * shade, **cell)
            if draws.size <= MOST_NUMBERS:
                made += text(left + room * (m + 0.5), 24 + row * (k + 0.65), f"{draws[k, m]:,.0f}", "ink", "middle")
            words = f"{arm} by {agent}: {draws[k, m]:,.0f} draws, {100 * shares[k, m]:.1f} % of all"
            drawn.append(_titled(made, words))
    return svg(WIDTH, 30 + row * arms, f"{title}: mean draws of every arm by every agent", *drawn)


def _titled(drawn: Markup, words: str) -> Markup:
    """An SVG element with a text that appears on hover."""
    return element("g", drawn, element("title", words))


def _frame(rise: Axis, title: str) -> Iterator[Markup]:
    for value in rise.ticks():
        yield line(LEFT, rise(value), RIGHT, rise(value), "grid")
        yield text(LEFT - 8, rise(value) + 4, typed(value) if value < 1 else f"{value:,.10g}", "soft", "end")
    yield text(4, 14, title, "ink")


def _legend(labels: Sequence[str], bounds: Sequence[str], top: float) -> tuple[list[Markup], float]:
    """The marks and labels of a legend, as many per line as fit, and the position of its lower edge."""
    drawn, across, down = [], LEFT, top
    for place, name in enumerate([*labels, *bounds]):
        if across > LEFT and across + 34 + breadth(name) > WIDTH:
            across, down = LEFT, down + LEGEND
        curve = place < len(labels)
        sign = mark(NAMES[place % len(NAMES)], across + 8, down - 4, 4.5, f"s{place % len(NAMES)}")
        drawn += [
            sign if curve else line(across, down - 4, across + 16, down - 4, "bound"),
            text(across + 22, down, name, "ink"),
        ]
        across += 40 + breadth(name)
    return drawn, down + 12


UNTIL = {"samples": "samples until every agent has its answer", "regret": "regret of all agents at the horizon"}
MOST_ROWS = 200  # largest number of rows of a table in the page; the files have all rows
Columns = dict[str, tuple[str, str | None]]  # name in the frame -> title and format; None: a setting, as users type it


def html_report(results: Results, summary: pd.DataFrame, *, command: str, level: float = 0.95) -> str:
    """The whole page of a sweep; it names the `command` that made it. All intervals have confidence `level`."""
    sections = {f"Along {x}": _along(results, summary, x, level) for x in figures.drawn_axes(results)}
    if made := figures.boxes(results, figures.box_axis(results)):
        caption = f"{results.unit.capitalize()} of every run: median, quartiles, whiskers to 1.5 times their distance."
        sections["Spread"] = [(box_chart(made, y=UNTIL[results.unit], label=caption), caption)]
    if draws := figures.last_draws(results):
        caption = "Mean draws of every arm by every agent in the last cell of a policy; the colour is the share of all."
        maps = [(title, heat_map(title, values, problem)) for title, values, problem in draws]
        folded = Markup("").join(
            element("details", element("summary", title), drawn, open="" if not place else None)
            for place, (title, drawn) in enumerate(maps)
        )
        sections["Who draws what"] = [(folded, caption)]
    return render(
        "sweep",
        title=f"Parley: {results.name}",
        command=command,
        facts={
            "Cells": f"{len(results.cells):,}",
            "Replications": f"{int(summary['replications'].sum()):,} in all",
            "Axes": ", ".join(f"{axis} ({summary[axis].nunique()})" for axis in results.axes),
            "Results by": results.command or "(not recorded)",
            "Parley": results.version,
        },
        unit=results.unit,
        best=summary.sort_values("ratio").iloc[0] if summary["ratio"].notna().any() else None,
        worst_error=summary["error_rate"].max(),
        missing=results.missing,
        damaged=results.damaged,
        sections=sections,
        comparison=_comparison(results, level),
        level=f"{100 * level:g}%",
        cells=_long_table(summary, _summary_columns(results)),
    )


def _along(results: Results, summary: pd.DataFrame, x: str, level: float) -> list[tuple[Markup, str]]:
    bands = f"bands are {100 * level:g}% intervals."

    def chart(name: str, caption: str, **more: Any) -> tuple[Markup, str]:
        unit, caption = results.unit if name == "cost" else name, f"Mean {caption}; {bands}"
        made = figures.curves(results, summary, x, name, level=level)
        return line_chart(made, x=x, y=f"mean {unit}", label=caption, **more), caption

    charts = [
        chart("cost", UNTIL[results.unit], bounds=figures.bound_curve(results, summary, x), log_y=True),
        chart("rounds", "rounds of communication"),
    ]
    charts += [chart(name, f"{name} of a study") for name in results.other_costs if summary[name].notna().all()]
    if saved := figures.saving_curves(results, x):
        caption = (
            "The lower bound with every agent alone (W = Id) over the one together: above 1, collaborating saves "
            f"{results.unit}; below, an agent that cares about others has to learn about them."
        )
        charts.append((line_chart(saved, x=x, y="lower bound alone / together", label=caption), caption))
    return charts


def _comparison(results: Results, level: float) -> dict[str, Any] | None:
    if not results.per_replication or results.pandas()["policy"].nunique() < 2:
        return None
    made = compare(results, level=level)
    made["saving"] = [_times(value) for value in made["saving"]]
    columns: Columns = {
        **{name: (name, None) for name in results.grouping},
        "saving": (f"{results.unit}, beside it", None),
        "difference": ("mean difference", "{:+,.0f}"),
        "difference_low": ("from", "{:+,.0f}"),
        "difference_high": ("to", "{:+,.0f}"),
        "cheaper": ("cheaper in", "{:.1%}"),
        "wilcoxon_p_holm": ("p (Wilcoxon, Holm)", "{:.2g}"),
    }
    return _long_table(made, columns) | {"against": made["against"].iloc[0]}


def _times(saving: float) -> str:
    """A ratio of mean costs in words, as "less" or "more", with a number that is never below 1.

    >>> _times(3.2), _times(0.8)
    ('3.20 x less', '1.25 x more')
    """
    return f"{saving:,.2f} x less" if saving >= 1 else f"{1 / saving:,.2f} x more"


def _summary_columns(results: Results) -> Columns:
    costs = {
        f"{name}{part}": (title.format(name), "{:,.0f}")
        for name in results.other_costs
        for part, title in {"": "{}, mean", "_p10": "10%", "_p90": "90%"}.items()
    }
    return {
        **{name: (name, None) for name in results.grouping},
        "replications": ("replications", "{:,}"),
        "cost": (f"{results.unit}, mean", "{:,.0f}"),
        "cost_low": ("from", "{:,.0f}"),
        "cost_high": ("to", "{:,.0f}"),
        "cost_std": ("std", "{:,.0f}"),
        "rounds": ("rounds", "{:.2f}"),
        "error_rate": ("error rate", "{:.4f}"),
        "ratio": ("over the bound", "{:.1f}"),
        **costs,
    }


def _long_table(frame: pd.DataFrame, columns: Columns) -> dict[str, Any]:
    """A table of the first MOST_ROWS rows of a frame, and the number of all its rows."""
    shown = frame.head(MOST_ROWS)
    cells = [[_cell(row[name], form) for name, (_, form) in columns.items()] for _, row in shown.iterrows()]
    return {"table": Table.of_text("", [title for title, _ in columns.values()], cells), "rows": len(frame)}


def _cell(value: Any, form: str | None) -> str:
    if form is not None:
        return DASH if pd.isna(value) else form.format(value)  # not stated in this cell
    return typed(value)
