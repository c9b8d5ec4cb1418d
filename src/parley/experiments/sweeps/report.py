"""The interactive report of a sweep: one HTML file with everything in it, to open offline or to send to a colleague.

Charts are drawn by plotly.js, which stands in the page; they follow the reader's light or dark setting. Every chart has
a caption, and its numbers stand in a table too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from parley.errors import need
from parley.experiments.report_kit.charts import THEMES
from parley.experiments.report_kit.pages import render
from parley.experiments.report_kit.tables import Table
from parley.experiments.sweeps import figures
from parley.experiments.sweeps.results import Results, compare
from parley.problem import FloatArray, Problem
from parley.text.formatting import DASH, typed

SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
DASHES = ("solid", "dash", "dashdot", "dot")
COLOURS = 8  # of a theme; dashes change where they begin again
MARGIN = {"l": 70, "r": 20, "t": 20, "b": 60}
FEW, LEAST_HEIGHT, LINE = 6, 430, 14
LOGARITHMIC = {"type": "log", "dtick": "D2", "tickformat": ",.0f"}  # an axis of costs
FONT = {"family": "Inter, system-ui, sans-serif", "size": 14}


def lines(
    curves: Sequence[figures.Curve], *, x: str, y: str, bounds: Sequence[figures.Curve] = (), log_y: bool = False
) -> dict[str, Any]:
    """Curves with bands along an axis of the sweep, and bounds as dotted lines in ink."""
    data: list[dict[str, Any]] = []
    for place, curve in enumerate(curves):
        around = np.concatenate([curve.high, curve.low[::-1]])
        shared = {"legendgroup": curve.label, "meta": {"place": place}}
        if np.isfinite(around).all():
            band = {"x": [*curve.x, *curve.x[::-1]], "y": around.tolist(), "fill": "toself", "mode": "lines"}
            data.append(shared | band | {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"})
        look = {
            "marker": {"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 8},
            "line": {"dash": DASHES[place // COLOURS % len(DASHES)], "width": 2.2},
            "hovertemplate": "%{fullData.name}<br>%{x:.4~g}: %{y:,.5~g}<extra></extra>",
        }
        data.append(shared | _points(curve, "lines+markers") | look)
    for bound in bounds:
        look = {"line": {"dash": "dot", "width": 2}, "meta": {"place": -1}}
        hover = "lower bound<br>%{x:.4~g}: %{y:,.0f}<extra></extra>"
        data.append(_points(bound, "lines") | look | {"hovertemplate": hover})
    falling = x == "delta"
    along: dict[str, Any] = {"title": figures.TITLES.get(x, x), "autorange": "reversed" if falling else True}
    if x in figures.LOGARITHMIC:
        along |= {"type": "log", "dtick": 1, "tickformat": "~g" if falling else ",d"}
    return _chart_of(data, along, LOGARITHMIC | {"title": y} if log_y else {"title": y, "rangemode": "tozero"})


def _points(curve: figures.Curve, mode: str) -> dict[str, Any]:
    known = [value if np.isfinite(value) else None for value in curve.y.tolist()]
    return {"x": curve.x.tolist(), "y": known, "name": curve.label, "mode": mode}


def box_plots(made: Sequence[figures.Boxes], *, y: str) -> dict[str, Any]:
    """Boxes by group, a colour for every policy; drawn from quartiles, so that a page stays small."""
    data = []
    for place, one in enumerate(made):
        quartiles = np.array([np.quantile(values, [0.25, 0.5, 0.75]) for values in one.values])
        low, middle, high = quartiles.T
        reach = 1.5 * (high - low)
        inside = [
            values[(values >= down) & (values <= up)]
            for values, down, up in zip(one.values, low - reach, high + reach, strict=True)
        ]
        box = {"q1": low.tolist(), "median": middle.tolist(), "q3": high.tolist()}
        box["lowerfence"] = [float(values.min()) for values in inside]
        box["upperfence"] = [float(values.max()) for values in inside]
        data.append({"type": "box", "x": list(one.groups), "name": one.label, "meta": {"place": place}, **box})
    return _chart_of(data, {}, LOGARITHMIC | {"title": y}, boxmode="group")


def heat_maps(draws: Sequence[tuple[str, FloatArray]], problem: Problem) -> dict[str, Any]:
    """Arm x agent, one map at a time, chosen from a list: colour is the share of all draws, numbers are draws."""
    data = [
        {
            "type": "heatmap",
            "z": (100 * values / values.sum()).tolist(),
            "text": [[f"{value:,.0f}" for value in row] for row in values],
            "x": list(problem.agents),
            "y": list(problem.arms),
            "zmin": 0,
            "colorscale": "Cividis",
            "colorbar": {"title": {"text": "share of<br>draws (%)"}},
            "texttemplate": "%{text}" if values.size <= 120 else None,
            "hovertemplate": "%{y} by %{x}<br>%{text} draws, %{z:.1f}% of all<extra></extra>",
            "visible": place == 0,
            "name": title,
        }
        for place, (title, values) in enumerate(draws)
    ]
    buttons = [
        {"label": title, "method": "restyle", "args": [{"visible": [at == place for at in range(len(draws))]}]}
        for place, (title, _) in enumerate(draws)
    ]
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "font": {"color": "#1c1f24"}}
    room = {"updatemenus": [menu | {"bgcolor": "#ffffff"}], "margin": MARGIN | {"t": 60, "l": 110}}
    return _chart_of(data, {}, {"autorange": "reversed"}, **room)


def _chart_of(
    data: list[dict[str, Any]], along: dict[str, Any], upright: dict[str, Any], **layout: Any
) -> dict[str, Any]:
    """A chart as plotly.js reads it, with its two axes."""
    axes = {name: {"automargin": True} | axis for name, axis in (("xaxis", along), ("yaxis", upright))}
    for axis in axes.values():
        if "title" in axis:
            axis["title"] = {"text": axis["title"], "standoff": 12}
    named = sum(trace.get("showlegend", True) for trace in data)
    if named > FEW:  # the legend stands below, and takes its rows from the chart
        layout["height"] = LEAST_HEIGHT + LINE * named
    shared = {"margin": MARGIN, "font": FONT, "legend": {"orientation": "h", "y": -0.2}}
    return {"data": data, "layout": shared | layout | axes}


UNTIL = {"samples": "samples until every agent has its answer", "regret": "regret of all agents at the horizon"}
MOST_ROWS = 200  # of a table in the page; the rest is in the files
Columns = dict[str, tuple[str, str | None]]  # name in the frame -> title and format; None: a setting, as it is typed


def html_report(results: Results, summary: pd.DataFrame, *, command: str, level: float = 0.95) -> str:
    """The whole page; `command` is what made it. The summary is of this `level`, and so are all intervals."""
    need("plotly", extra="experiments", purpose="an interactive report")
    from plotly.offline import get_plotlyjs

    sections = {f"Along {x}": _along(results, summary, x, level) for x in figures.drawn_axes(results)}
    if made := figures.boxes(results, figures.box_axis(results)):
        caption = f"{results.unit.capitalize()} of every run: median, quartiles, whiskers to 1.5 times their distance."
        sections["Spread"] = [_chart(box_plots(made, y=UNTIL[results.unit]), caption, tall=True)]
    if draws := figures.last_draws(results):
        caption = "Mean draws of every arm by every agent in the last cell of a policy; the colour is the share of all."
        sections["Who draws what"] = [_chart(heat_maps([one[:2] for one in draws], draws[0][2]), caption, tall=True)]
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
        themes={
            name: {key: getattr(one, key) for key in ("ink", "ground", "faint", "muted", "series")}
            for name, one in THEMES.items()
        },
        plotly=Markup(get_plotlyjs()),
    )


def _chart(figure: dict[str, Any], caption: str, *, tall: bool = False) -> dict[str, Any]:
    return {"figure": figure, "caption": caption, "tall": tall}


def _along(results: Results, summary: pd.DataFrame, x: str, level: float) -> list[dict[str, Any]]:
    bands = f"bands are {100 * level:g}% intervals."

    def chart(name: str, caption: str, **more: Any) -> dict[str, Any]:
        unit = results.unit if name == "cost" else name
        drawn = lines(figures.curves(results, summary, x, name, level=level), x=x, y=f"mean {unit}", **more)
        return _chart(drawn, f"Mean {caption}; {bands}")

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
        charts.append(_chart(lines(saved, x=x, y="lower bound alone / together"), caption))
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
    """A ratio of means, said so that it is never below 1.

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
    """The first rows of a frame, and how many there are."""
    shown = frame.head(MOST_ROWS)
    cells = [[_cell(row[name], form) for name, (_, form) in columns.items()] for _, row in shown.iterrows()]
    return {"table": Table.of_text("", [title for title, _ in columns.values()], cells), "rows": len(frame)}


def _cell(value: Any, form: str | None) -> str:
    if form is not None:
        return DASH if pd.isna(value) else form.format(value)  # not stated in this cell
    return typed(value)
