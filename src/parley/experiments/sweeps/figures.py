"""Figures of a sweep, for a paper: matplotlib `Figure` objects in a light or a dark theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.experiments.look.axes import delta_axis, legend_below, sample_axis
from parley.experiments.look.palette import DASHES, MARKERS, Theme, theme_named
from parley.experiments.sweeps.curves import (
    TITLES,
    Curve,
    bound_curve,
    box_axis,
    boxes,
    curves,
    drawn_axes,
    saving_curves,
)
from parley.experiments.sweeps.results import Results
from parley.problem import FloatArray, Problem

__all__ = [
    "allocation",
    "collaboration",
    "cost_against",
    "cost_and_rounds",
    "cost_boxes",
    "last_draws",
    "sweep_figures",
]

MOST_HEAT_MAPS = 6


def cost_against(results: Results, summary: pd.DataFrame, x: str, *, theme: str = "light") -> Figure:
    """Mean samples along an axis, with intervals and the lower bound where there is one."""
    look = theme_named(theme)
    with look.context():
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        panel = figure.subplots()
        drawn = curves(results, summary, x, "cost")
        _lines(panel, drawn, look)
        for bound in bound_curve(results, summary, x):
            panel.plot(bound.x, bound.y, color=look.ink, linestyle=":", label=bound.label)
        _along(panel, x, drawn)
        panel.set_yscale("log")
        sample_axis(panel)
        panel.set(title=f"{results.name}: {results.unit}", ylabel=f"mean {results.unit} (band: 95% interval)")
        legend_below(figure, panel)
    return figure


def cost_and_rounds(results: Results, summary: pd.DataFrame, x: str, *, theme: str = "light") -> Figure:
    """Mean samples and mean rounds along an axis, side by side."""
    look = theme_named(theme)
    with look.context():
        figure = Figure(figsize=(10.5, 4.6), layout="constrained")
        costs, rounds = figure.subplots(1, 2)
        drawn = curves(results, summary, x, "cost")
        _lines(costs, drawn, look)
        _lines(rounds, curves(results, summary, x, "rounds"), look)
        costs.set_yscale("log")
        sample_axis(costs)
        costs.set(title=results.unit.capitalize(), ylabel=f"mean {results.unit} (band: 95% interval)")
        rounds.set(title="Rounds of communication", ylabel="mean rounds (band: 95% interval)", ylim=(0, None))
        for panel in (costs, rounds):
            _along(panel, x, drawn)
        legend_below(figure, costs)
        figure.suptitle(results.name, size=11)
    return figure


def cost_boxes(results: Results, x: str | None, *, theme: str = "light") -> Figure:
    """Boxplots of the samples: quartiles, whiskers to 1.5 times their distance, every policy in its colour."""
    look = theme_named(theme)
    made = boxes(results, x)
    with look.context():
        figure = Figure(
            figsize=(max(6.0, 1.2 + 0.55 * sum(len(one.groups) for one in made)), 4.6), layout="constrained"
        )
        panel = figure.subplots()
        for place, one in enumerate(made):
            at = np.arange(len(one.groups)) * (len(made) + 1) + place
            colour = look.colour(place)
            drawn = panel.boxplot(
                list(one.values),
                positions=list(at),
                widths=0.75,
                patch_artist=True,
                label=one.label,
                medianprops={"color": look.ink, "linewidth": 1.6},
                flierprops={"marker": ".", "markersize": 2, "markeredgecolor": colour, "alpha": 0.4},
                whiskerprops={"color": colour},
                capprops={"color": colour},
            )
            for box in drawn["boxes"]:
                box.set(facecolor=colour, edgecolor=colour, alpha=0.75)
        middle = np.arange(len(made[0].groups)) * (len(made) + 1) + (len(made) - 1) / 2
        panel.set_xticks(middle, made[0].groups)
        panel.set_yscale("log")
        sample_axis(panel)
        panel.grid(axis="x", visible=False)
        panel.set(title=f"{results.name}: {results.unit} of every run", ylabel=results.unit)
        legend_below(figure, panel)
    return figure


def allocation(draws: Sequence[tuple[str, FloatArray]], problem: Problem, *, theme: str = "light") -> Figure:
    """Heat maps arm x agent, one for every (title, draws): colour is the share of all draws, numbers are draws."""
    look = theme_named(theme)
    shown = draws[:MOST_HEAT_MAPS]
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    arms, agents = problem.shape
    with look.context():
        size = (1.5 + columns * (0.9 + 0.75 * min(agents, 12)), 1.2 + rows * (0.9 + 0.42 * min(arms, 16)))
        figure = Figure(figsize=(max(size[0], 4.5), max(size[1], 3.2)), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        shares = [100 * values / values.sum() for _, values in shown]
        top = max(float(share.max()) for share in shares)
        image = None
        for panel, (title, values), share in zip(panels, shown, shares, strict=False):
            panel.grid(visible=False)
            image = panel.imshow(share, aspect="auto", cmap=look.heat, vmin=0, vmax=top)
            panel.set_title(title)
            panel.set_xticks(range(agents), problem.agents, rotation=30, ha="right")
            panel.set_yticks(range(arms), problem.arms)
            if values.size <= 60:
                for (arm, agent), value in np.ndenumerate(values):
                    ink = "#ffffff" if share[arm, agent] < 0.55 * top else "#14171c"
                    panel.text(agent, arm, f"{value:,.0f}", ha="center", va="center", color=ink, size=8)
        for panel in panels[len(shown) :]:
            panel.set_axis_off()
        if image is not None:
            figure.colorbar(image, ax=list(panels), label="share of all draws (%)", shrink=0.9)
        figure.suptitle("Who draws what: mean draws of an arm by an agent", size=11)
    return figure


def collaboration(results: Results, x: str, *, theme: str = "light") -> Figure:
    """How many times fewer samples are needed together than alone, by the lower bounds, along an axis."""
    look = theme_named(theme)
    with look.context():
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        panel = figure.subplots()
        drawn = saving_curves(results, x)
        _lines(panel, drawn, look)
        panel.axhline(1, color=look.ink, linestyle=":", label="no saving; below, together costs more")
        _along(panel, x, drawn)
        panel.set(title="What collaboration saves", ylabel="lower bound alone / lower bound together", ylim=(0, None))
        legend_below(figure, panel)
    return figure


def sweep_figures(results: Results, summary: pd.DataFrame) -> dict[str, Callable[..., Figure]]:
    """Every figure that these results allow: file name -> a function of `theme`."""
    made: dict[str, Callable[..., Figure]] = {}
    for x in drawn_axes(results):
        made[f"cost-against-{x}"] = partial(cost_against, results, summary, x)
        made[f"cost-and-rounds-{x}"] = partial(cost_and_rounds, results, summary, x)
        if saving_curves(results, x):
            made[f"collaboration-{x}"] = partial(collaboration, results, x)
    if results.per_replication:
        made["boxes"] = partial(cost_boxes, results, box_axis(results))
    chosen = last_draws(results)
    made["allocation"] = partial(allocation, [pair[:2] for pair in chosen], chosen[0][2])
    return made


def last_draws(results: Results) -> list[tuple[str, FloatArray, Problem]]:
    """The mean draws of every policy in its last cell that has the shape of the first: what a heat map shows."""
    found: dict[str, tuple[str, FloatArray, Problem]] = {}
    shape = None
    for cell, one in results.cells:
        values = np.array(one.draws)
        shape = shape or values.shape
        if values.shape == shape:
            found[cell.policy] = (cell.policy, values, cell.prepare()[1].problem)
    return list(found.values())


def _lines(panel: Axes, drawn: Sequence[Curve], look: Theme) -> None:
    for place, curve in enumerate(drawn):
        colour = look.colour(place)
        panel.plot(
            curve.x,
            curve.y,
            color=colour,
            marker=MARKERS[place % len(MARKERS)],
            linestyle=DASHES[place // len(look.series) % len(DASHES)],
            label=curve.label,
        )
        panel.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)


def _along(panel: Axes, x: str, drawn: Sequence[Curve]) -> None:
    panel.set_xlabel(TITLES.get(x, x))
    if x == "horizon":
        panel.set_xscale("log")
    if x == "delta":
        delta_axis(panel, sorted({float(value) for curve in drawn for value in curve.x}))
