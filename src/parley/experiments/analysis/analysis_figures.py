"""Figures of an analysis: every agent's estimates with intervals, and the sizes of sequential studies."""

import math
from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from parley.experiments.analysis.fixed_size import Analysis
from parley.experiments.analysis.sequential import Sequential
from parley.experiments.report_kit import charts
from parley.experiments.report_kit.prose import words_of_reader

TITLES = {
    "mean": "Mixed means",
    "to_leader": "Differences to the best estimate",
    "to_control": "Differences to the control",
}
FILES = {"mean": "means", "to_leader": "differences-to-the-best", "to_control": "differences-to-the-control"}


def analysis_figures(found: Analysis, beside: Sequential | None) -> dict[str, Callable[..., Figure]]:
    """All figures of an analysis: file name -> a function that draws the figure in a theme."""
    kinds = [kind for kind in FILES if kind != "to_control" or found.problem.control is not None]
    figures: dict[str, Callable[..., Figure]] = {FILES[kind]: partial(forests, found, kind) for kind in kinds}
    return figures if beside is None else figures | {"sequential-studies": partial(needed, beside)}


def forests(found: Analysis, kind: str, *, theme: str = "light") -> Figure:
    """Draw a panel per agent, with every arm's estimate and its simultaneous interval."""
    agents = found.document()["agents"]
    shown = agents[: charts.MOST_PANELS]
    columns = charts.side_by_side(min(3, len(shown)))
    rows, arms = math.ceil(len(shown) / columns), found.problem.arms
    height = 0.8 + rows * (0.8 + 0.3 * len(arms))
    with charts.canvas(theme, 1.2 + 3.0 * columns, height) as (figure, style):
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for panel, agent in zip(panels, shown, strict=False):
            for place, arm in enumerate(agent["arms"]):
                low, value, high = (arm[kind][end] for end in ("low", "estimate", "high"))
                best = arm["arm"] in agent["chosen"]
                colour = style.colour(0) if best else style.muted
                panel.plot([low, high], [place, place], color=colour)
                panel.plot(value, place, "s" if best else "o", color=colour)
            if kind != "mean":
                panel.axvline(0, color=style.ink, linestyle=":", linewidth=1)
            panel.set_title(agent["agent"])
            panel.margins(y=0.2)
        for panel in panels[len(shown) :]:
            panel.set_axis_off()
        panels[0].set_yticks(range(len(arms)), arms)
        if not panels[0].yaxis_inverted():
            panels[0].invert_yaxis()
        level = 100 * (1 - found.problem.delta)
        hidden = f", first {len(shown)} of {len(agents)}" if len(agents) > len(shown) else ""
        charts.title_above(
            figure, f"{TITLES[kind]}: simultaneous {level:g} % intervals; squares mark the answer{hidden}"
        )
    return figure


def needed(found: Sequential, *, theme: str = "light") -> Figure:
    """Draw a histogram of the sizes of sequential studies on the table's rows, and the table's own size."""
    words = words_of_reader()
    with charts.canvas(theme, 6.4, 3.6) as (figure, style):
        panel, costs = figure.subplots(), found.outcome.costs
        panel.hist(costs, bins=math.ceil(2 * len(costs) ** (1 / 3)), color=style.colour(0), alpha=0.75)
        panel.axvline(found.rows, color=style.ink, linestyle="--", label=f"rows of the table: {found.rows:,}")
        panel.set(xlabel=words["draws"], ylabel="sequential studies")
        charts.sample_axis(panel, "x")
        charts.title_above(figure, "What sequential studies on these rows needed")
        charts.legend_below(figure, panel)
    return figure
