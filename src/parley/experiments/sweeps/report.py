"""The interactive report of a sweep: one HTML file with everything in it, to open offline or to send to a colleague.

Charts are drawn by plotly.js, which stands in the page; they follow the reader's light or dark setting. Every chart has
a caption, and its numbers stand in a table too.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from markupsafe import Markup

from parley.errors import need
from parley.experiments.report_kit.charts import THEMES
from parley.experiments.report_kit.pages import render
from parley.experiments.report_kit.tables import Table
from parley.experiments.sweeps import figures
from parley.experiments.sweeps.results import Results, compare
from parley.formatting import DASH, typed
from parley.problem import FloatArray, Problem

SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
DASHES = ("solid", "dash", "dashdot", "dot")
COLOURS = 8  # of a theme; dashes change where they begin again
MARGIN = {"l": 70, "r": 20, "t": 20, "b": 60}
FEW, LEAST_HEIGHT, LINE = 6, 430, 14
FONT = {"family": "Inter, system-ui, sans-serif", "size": 14}


def lines(
    curves: Sequence[figures.Curve],
    *,
    x: str,
    y: str,
    bounds: Sequence[figures.Curve] = (),
    log_x: bool = False,
    falling: bool = False,
    log_y: bool = False,
) -> dict[str, Any]:
    """Curves with bands, and bounds as dotted lines in ink."""
    figure = go.Figure()
    for place, curve in enumerate(curves):
        shared = {"legendgroup": curve.label, "meta": {"place": place}}
        around = np.concatenate([curve.high, curve.low[::-1]])
        if np.isfinite(around).all():
            figure.add_scatter(
                x=np.concatenate([curve.x, curve.x[::-1]]).tolist(),
                y=around.tolist(),
                fill="toself",
                mode="lines",
                line={"width": 0},
                showlegend=False,
                hoverinfo="skip",
                **shared,
            )
        figure.add_scatter(
            x=curve.x.tolist(),
            y=curve.y.tolist(),
            name=curve.label,
            mode="lines+markers",
            marker={"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 8},
            line={"dash": DASHES[place // COLOURS % len(DASHES)], "width": 2.2},
            hovertemplate="%{fullData.name}<br>%{x:.4~g}: %{y:,.5~g}<extra></extra>",
            **shared,
        )
    for bound in bounds:
        figure.add_scatter(
            x=bound.x.tolist(),
            y=bound.y.tolist(),
            name=bound.label,
            mode="lines",
            line={"dash": "dot", "width": 2},
            meta={"place": -1},
            hovertemplate="lower bound<br>%{x:.4~g}: %{y:,.0f}<extra></extra>",
        )
    figure.update_xaxes(title=x, type="log" if log_x else "linear", autorange="reversed" if falling else True)
    figure.update_yaxes(title=y, type="log" if log_y else "linear", rangemode="normal" if log_y else "tozero")
    if log_y:
        figure.update_yaxes(dtick="D2", tickformat=",.0f")
    if log_x:
        figure.update_xaxes(dtick=1, tickformat="~g" if falling else ",d")
    return _document(figure)


def box_plots(made: Sequence[figures.Boxes], *, y: str) -> dict[str, Any]:
    """Boxes by group, a colour for every policy; drawn from quartiles, so that a page stays small."""
    figure = go.Figure()
    for place, one in enumerate(made):
        quartiles = np.array([np.quantile(values, [0.25, 0.5, 0.75]) for values in one.values])
        reach = 1.5 * (quartiles[:, 2] - quartiles[:, 0])
        inside = [
            values[(values >= q[0] - r) & (values <= q[2] + r)]
            for values, q, r in zip(one.values, quartiles, reach, strict=True)
        ]
        figure.add_box(
            x=list(one.groups),
            q1=quartiles[:, 0].tolist(),
            median=quartiles[:, 1].tolist(),
            q3=quartiles[:, 2].tolist(),
            lowerfence=[float(values.min()) for values in inside],
            upperfence=[float(values.max()) for values in inside],
            name=one.label,
            meta={"place": place},
        )
    figure.update_layout(boxmode="group")
    figure.update_yaxes(title=y, type="log", dtick="D2", tickformat=",.0f")
    return _document(figure)


def heat_maps(draws: Sequence[tuple[str, FloatArray]], problem: Problem) -> dict[str, Any]:
    """Arm x agent, one map at a time, chosen from a list: colour is the share of all draws, numbers are draws."""
    figure = go.Figure()
    for place, (title, values) in enumerate(draws):
        figure.add_heatmap(
            z=(100 * values / values.sum()).tolist(),
            text=[[f"{value:,.0f}" for value in row] for row in values],
            x=list(problem.agents),
            y=list(problem.arms),
            zmin=0,
            colorscale="Cividis",
            colorbar={"title": "share of<br>draws (%)"},
            texttemplate="%{text}" if values.size <= 120 else None,
            hovertemplate="%{y} by %{x}<br>%{text} draws, %{z:.1f}% of all<extra></extra>",
            visible=place == 0,
            name=title,
        )
    buttons = [
        {"label": title, "method": "restyle", "args": [{"visible": [at == place for at in range(len(draws))]}]}
        for place, (title, _) in enumerate(draws)
    ]
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "font": {"color": "#1c1f24"}}
    figure.update_layout(updatemenus=[menu | {"bgcolor": "#ffffff"}], margin=MARGIN | {"t": 60, "l": 110})
    figure.update_yaxes(autorange="reversed")
    return _document(figure)


def _document(figure: go.Figure) -> dict[str, Any]:
    if figure.layout.margin.t is None:
        figure.update_layout(margin=MARGIN)
    named = sum(trace.showlegend is not False for trace in figure.data)
    if named > FEW:  # the legend stands below, and takes its rows from the chart
        figure.update_layout(height=LEAST_HEIGHT + LINE * named)
    figure.update_layout(template="none", font=FONT, legend={"orientation": "h", "y": -0.2})
    for axis in (figure.update_xaxes, figure.update_yaxes):
        axis(automargin=True, title_standoff=12)
    document: dict[str, Any] = json.loads(figure.to_json())
    return {"data": document["data"], "layout": document["layout"]}


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
    title, bands = figures.TITLES.get(x, x), f"bands are {100 * level:g}% intervals."
    scale: dict[str, Any] = {"log_x": x in figures.LOGARITHMIC, "falling": x == "delta"}
    costs = lines(
        figures.curves(results, summary, x, "cost", level=level),
        bounds=figures.bound_curve(results, summary, x),
        x=title,
        y=f"mean {results.unit}",
        log_y=True,
        **scale,
    )
    rounds = lines(figures.curves(results, summary, x, "rounds", level=level), x=title, y="mean rounds", **scale)
    charts = [
        _chart(costs, f"Mean {UNTIL[results.unit]}; {bands}"),
        _chart(rounds, f"Mean rounds of communication; {bands}"),
    ]
    for name in (name for name in results.other_costs if summary[name].notna().all()):
        drawn = lines(figures.curves(results, summary, x, name, level=level), x=title, y=f"mean {name}", **scale)
        charts.append(_chart(drawn, f"Mean {name} of a study; {bands}"))
    if saved := figures.saving_curves(results, x):
        caption = (
            "The lower bound with every agent alone (W = Id) over the one together: above 1, collaborating saves "
            f"{results.unit}; below, an agent that cares about others has to learn about them."
        )
        charts.append(_chart(lines(saved, x=title, y="lower bound alone / together", **scale), caption))
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
