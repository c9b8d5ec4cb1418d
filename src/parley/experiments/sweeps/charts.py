"""Charts for the interactive report, as plain plotly documents; colours are put in by the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from parley.experiments.sweeps.curves import Boxes, Curve
from parley.problem import FloatArray, Problem

__all__ = ["box_plots", "heat_maps", "lines"]

SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
DASHES = ("solid", "dash", "dashdot", "dot")
COLOURS = 8  # of a theme; dashes change where they begin again
MARGIN = {"l": 70, "r": 20, "t": 20, "b": 60}
FEW, LEAST_HEIGHT, LINE = 6, 430, 14
FONT = {"family": "Inter, system-ui, sans-serif", "size": 14}


def lines(
    curves: Sequence[Curve],
    *,
    x: str,
    y: str,
    bounds: Sequence[Curve] = (),
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


def box_plots(made: Sequence[Boxes], *, y: str) -> dict[str, Any]:
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
