"""Figures of a sweep, for a paper: curves and boxes made from its results, and matplotlib figures made from these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.experiments.report_kit import charts
from parley.experiments.sweeps.results import Results, grouped, interval
from parley.problem import FloatArray, Problem
from parley.text.formatting import typed

# Titles of axes, with their meaning or unit.
TITLES = {
    "alpha": "alpha (share of its own reward in an agent's mix)",
    "delta": "delta (allowed probability of an error)",
    "K": "arms, K",
    "M": "agents, M",
    "N": "arms to find per agent, N",
    "noise.scale": "noise scale (standard deviation of a reward)",
    "horizon": "horizon T (draws per agent)",
    "truth.min_gap": "smallest gap allowed between mixed means (reward)",
}
LOGARITHMIC = ("delta", "horizon")  # axes with a logarithmic scale
MOST_HEAT_MAPS = 6
INSTANCES = ("seed", "truth.seed")  # axes of random instances: figures average over them


@dataclass(frozen=True)
class Curve:
    """One curve of a figure, with an interval at every point."""

    label: str
    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Boxes:
    """The costs of one policy, grouped by the values of an axis."""

    label: str
    groups: tuple[str, ...]  # names of the groups
    values: tuple[FloatArray, ...]  # a group's costs, one per replication


def drawn_axes(results: Results) -> list[str]:
    """The axes of the sweep that can be a figure's x axis: numeric, with more than one value, and not seeds."""
    frame = results.pandas()
    return [
        axis
        for axis in results.axes
        if axis not in (*INSTANCES, "policy")
        and pd.api.types.is_numeric_dtype(frame[axis])
        and frame[axis].nunique() > 1
    ]


def box_axis(results: Results) -> str | None:
    """The axis that groups boxplots: the first numeric axis, else the first other axis; None if there are no axes.

    Neither the policy nor seeds count as axes for this.
    """
    names = [axis for axis in results.axes if axis not in (*INSTANCES, "policy")]
    return next(iter([*drawn_axes(results), *names]), None)


def curves(results: Results, summary: pd.DataFrame, x: str, y: str, *, level: float = 0.95) -> list[Curve]:
    """Curves of `y`, such as cost or rounds, along the axis `x`: one curve per combination of the other axes.

    Points are averages over instances. With several instances, an interval describes the spread between them; with a
    single instance, the spread between its replications, as in the summary.
    """
    made = []
    others = [name for name in results.grouping if name not in (x, *INSTANCES)]
    for key, group in grouped(summary, others):
        points = [(place, part[y].mean(), *_between(part, y, level)) for place, part in group.groupby(x)]
        made.append(Curve(_label(others, key, summary), *np.array(points, dtype=np.float64).T))
    return made


def bound_curve(results: Results, summary: pd.DataFrame, x: str) -> list[Curve]:
    """Curves of the lower bound along the axis `x`: one per combination of the other axes that affect the bound."""
    known = summary.dropna(subset=["lower_bound"])
    others = [name for name in results.grouping if name not in (x, "policy", *INSTANCES) and known[name].nunique() > 1]
    made = []
    for key, group in grouped(known, others) if len(known) else ():
        label = ", ".join(filter(None, ("lower bound", _label(others, key, known))))
        made.append(_mean_curve(label, group, x, "lower_bound"))
    return made


def saving_curves(results: Results, x: str) -> list[Curve]:
    """Curves along the axis `x` of the lower bound with every agent alone, divided by the one with collaboration.

    The list is empty if the ratio does not depend on `x`.
    """
    rows = [
        {**cell.axes, "policy": cell.policy, "saving": one.isolated_bound / one.lower_bound}
        for cell, one in results.cells
        if one.isolated_bound and one.lower_bound
    ]
    frame = pd.DataFrame(rows)
    if frame.empty:
        return []
    others = [name for name in results.grouping if name not in (x, "policy", *INSTANCES)]
    made = [
        _mean_curve(_label(others, key, frame) or "T* alone / T* together", group, x, "saving")
        for key, group in grouped(frame, others)
    ]
    flat = all(np.ptp(curve.y) < 1e-3 * curve.y.max() for curve in made)
    return [] if flat else made  # a ratio that does not depend on x needs no figure


def _mean_curve(label: str, group: pd.DataFrame, x: str, y: str) -> Curve:
    """A curve of the means of `y` along `x`, with intervals of length 0."""
    means = group.groupby(x)[y].mean()
    values = means.to_numpy(np.float64)
    return Curve(label, means.index.to_numpy(np.float64), values, values, values)


def boxes(results: Results, x: str | None) -> list[Boxes]:
    """The costs of every policy, grouped by the values of the axis `x`, or in one group if `x` is None.

    The list is empty if the results have one row per cell, since boxes need all replications.
    """
    if not results.per_replication:
        return []
    frame = results.costs()
    made = []
    for policy, group in frame.groupby("policy", sort=False):
        parts = [(f"{x} = {typed(value)}", part) for value, part in group.groupby(x)] if x else [("all cells", group)]
        names, groups = zip(*parts, strict=True)
        made.append(Boxes(str(policy), names, tuple(part["cost"].to_numpy(np.float64) for part in groups)))
    return made


def _between(part: pd.DataFrame, y: str, level: float) -> tuple[float, float]:
    if len(part) == 1:
        return float(part[f"{y}_low"].iloc[0]), float(part[f"{y}_high"].iloc[0])
    return interval(part[y].to_numpy(np.float64), level=level)


def _label(names: Sequence[str], key: Sequence[Any], frame: pd.DataFrame) -> str:
    """The label of a curve: its policy, and its values on all other axes with more than one value."""
    parts = [
        str(value) if name == "policy" else f"{name} = {typed(value)}"
        for name, value in zip(names, key, strict=True)
        if name == "policy" or frame[name].nunique() > 1
    ]
    return ", ".join(reversed(parts))


def cost_against(
    results: Results, summary: pd.DataFrame, x: str, *, level: float = 0.95, theme: str = "light"
) -> Figure:
    """Plot the mean cost along an axis, with intervals and, if known, the lower bound."""
    with charts.canvas(theme, 7.2, 4.6) as (figure, style):
        panel = figure.subplots()
        _costs(panel, results, summary, x, level, style)
        for bound in bound_curve(results, summary, x):
            panel.plot(bound.x, bound.y, color=style.ink, linestyle=":", label=bound.label)
        charts.sample_axis(panel)
        panel.set_title(f"{results.name}: {results.unit}")
        charts.legend_below(figure, panel)
    return figure


def cost_and_rounds(
    results: Results, summary: pd.DataFrame, x: str, *, level: float = 0.95, theme: str = "light"
) -> Figure:
    """Plot the mean cost and the mean rounds along an axis, in two panels."""
    columns = charts.side_by_side(2)
    with charts.canvas(theme, 5.25 * columns, 9.2 / columns) as (figure, style):
        costs, rounds = figure.subplots(2 // columns, columns)
        _costs(costs, results, summary, x, level, style)
        charts.sample_axis(costs)
        costs.set_title(results.unit.capitalize())
        _lines(rounds, curves(results, summary, x, "rounds", level=level), x, style)
        rounds.set(title="Rounds of communication", ylabel=f"mean rounds {_band(level)}", ylim=(0, None))
        charts.legend_below(figure, costs)
        charts.title_above(figure, results.name)
    return figure


def _costs(panel: Axes, results: Results, summary: pd.DataFrame, x: str, level: float, style: charts.Theme) -> None:
    _lines(panel, curves(results, summary, x, "cost", level=level), x, style)
    panel.set(ylabel=f"mean {results.unit} {_band(level)}", yscale="log")


def _band(level: float) -> str:
    return f"(band: {100 * level:g}% interval)"


def cost_boxes(results: Results, x: str | None, *, theme: str = "light") -> Figure:
    """Draw boxplots of the costs of all runs, grouped by an axis, with a colour per policy."""
    made = boxes(results, x)
    with charts.canvas(theme, max(6.0, 1.2 + 0.55 * sum(len(one.groups) for one in made)), 4.6) as (figure, style):
        panel = figure.subplots()
        for place, one in enumerate(made):
            at = np.arange(len(one.groups)) * (len(made) + 1) + place
            colour = style.colour(place)
            charts.draw_boxes(panel, one.values, at.tolist(), colour=colour, style=style, label=one.label, widths=0.75)
        middle = np.arange(len(made[0].groups)) * (len(made) + 1) + (len(made) - 1) / 2
        panel.set_xticks(middle, made[0].groups)
        panel.set_yscale("log")
        charts.sample_axis(panel)
        panel.grid(axis="x", visible=False)
        panel.set(title=f"{results.name}: {results.unit} of every run", ylabel=results.unit)
        charts.legend_below(figure, panel)
    return figure


def allocation(draws: Sequence[tuple[str, FloatArray]], problem: Problem, *, theme: str = "light") -> Figure:
    """Draw a heat map of draws by arm and agent for each pair (title, draws); colours are shares of all draws."""
    shown = draws[:MOST_HEAT_MAPS]
    columns = charts.side_by_side(min(4, len(shown)))
    rows = -(-len(shown) // columns)
    arms, agents = problem.shape
    width, height = 1.5 + columns * (0.9 + 0.75 * min(agents, 12)), 1.2 + rows * (0.9 + 0.42 * min(arms, 16))
    with charts.canvas(theme, max(width, 4.5), max(height, 3.2)) as (figure, _):
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        shares = [100 * values / values.sum() for _, values in shown]
        top = max(float(share.max()) for share in shares)
        image = None
        for panel, (title, values), share in zip(panels, shown, shares, strict=False):
            whole = np.rint(values)
            image = charts.draw_heat_map(panel, whole, problem.arms, problem.agents, shades=share, top=top)
            panel.set_title(title)
        for panel in panels[len(shown) :]:
            panel.set_axis_off()
        if image is not None:
            figure.colorbar(image, ax=list(panels), label="share of all draws (%)", shrink=0.9)
        charts.title_above(figure, "Who draws what: mean draws of an arm by an agent")
    return figure


def collaboration(results: Results, x: str, *, theme: str = "light") -> Figure:
    """Plot along an axis how many times fewer samples agents need together than alone, judged by the lower bounds."""
    with charts.canvas(theme, 7.2, 4.4) as (figure, style):
        panel = figure.subplots()
        _lines(panel, saving_curves(results, x), x, style)
        panel.axhline(1, color=style.ink, linestyle=":", label="no saving; below, together costs more")
        panel.set(title="What collaboration saves", ylabel="lower bound alone / lower bound together", ylim=(0, None))
        charts.legend_below(figure, panel)
    return figure


def sweep_figures(results: Results, summary: pd.DataFrame, *, level: float = 0.95) -> dict[str, Callable[..., Figure]]:
    """All figures that the results allow: file name -> a function of `theme` that draws the figure.

    `level` is the confidence of the intervals in `summary`.
    """
    made: dict[str, Callable[..., Figure]] = {}
    for x in drawn_axes(results):
        made[f"cost-against-{x}"] = partial(cost_against, results, summary, x, level=level)
        made[f"cost-and-rounds-{x}"] = partial(cost_and_rounds, results, summary, x, level=level)
        if saving_curves(results, x):
            made[f"collaboration-{x}"] = partial(collaboration, results, x)
    if results.per_replication:
        made["boxes"] = partial(cost_boxes, results, box_axis(results))
    chosen = last_draws(results)
    made["allocation"] = partial(allocation, [pair[:2] for pair in chosen], chosen[0][2])
    return made


def last_draws(results: Results) -> list[tuple[str, FloatArray, Problem]]:
    """For heat maps, every policy's name, mean draws and problem, from its last cell.

    Cells whose number of arms or agents differs from that of the first cell are skipped.
    """
    found: dict[str, tuple[str, FloatArray, Problem]] = {}
    shape = None
    for cell, one in results.cells:
        values = np.array(one.draws)
        shape = shape or values.shape
        if values.shape == shape:
            found[cell.policy] = (cell.policy, values, cell.prepare()[1].problem)
    return list(found.values())


def _lines(panel: Axes, drawn: Sequence[Curve], x: str, style: charts.Theme) -> None:
    """Plot curves with their bands along an axis of the sweep."""
    for place, curve in enumerate(drawn):
        colour = style.colour(place)
        panel.plot(
            curve.x,
            curve.y,
            color=colour,
            marker=charts.MARKERS[place % len(charts.MARKERS)],
            linestyle=charts.DASHES[place // len(style.series) % len(charts.DASHES)],
            label=curve.label,
        )
        panel.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    panel.set_xlabel(TITLES.get(x, x))
    if x == "horizon":
        panel.set_xscale("log")
    if x == "delta":
        charts.delta_axis(panel, sorted({float(value) for curve in drawn for value in curve.x}))
