"""The page of `parley demo --regret`: one game phase by phase, and regret over time, policy by policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from parley.experiments.look.page import page, picture, table
from parley.experiments.look.palette import DASHES, MARKERS, theme_named
from parley.problem import Problem

__all__ = ["regret_figure", "regret_page"]


def regret_figure(results: Sequence[Mapping[str, Any]], least: float, *, theme: str = "light") -> Figure:
    """Mean regret of all agents over time, with the band that holds 80 % of the runs; one line a policy."""
    look = theme_named(theme)
    with look.context():
        figure = Figure(figsize=(8.5, 4.6), layout="constrained")
        panel = figure.subplots()
        for place, result in enumerate(results):
            curve = result["regret"]["curve"]
            panel.plot(
                curve["times"],
                curve["mean"],
                color=look.colour(place),
                label=result["policy"],
                linestyle=DASHES[place % 3],  # dotted is the bound
                marker=MARKERS[place % len(MARKERS)],
                markevery=(2 + place, 8),  # curves that lie on each other show both
            )
            panel.fill_between(curve["times"], curve["p10"], curve["p90"], color=look.colour(place), alpha=0.18, lw=0)
        panel.axhline(least, color=look.ink, linestyle=":", label="C* log T at the horizon")
        panel.set(xscale="log", yscale="log", xlabel="draws per agent", ylabel="regret of all agents together")
        panel.set_ylim(bottom=max(least / 100, 1e-9))
        panel.set_xlim(left=first_seen(results, least / 100))
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        panel.legend(loc="upper left")
    return figure


def first_seen(results: Sequence[Mapping[str, Any]], floor: float) -> float:
    """The draws after which the first curve is above the floor of the figure: what comes before is empty."""
    curves = [result["regret"]["curve"] for result in results]
    seen = [time for curve in curves for time, mean in zip(curve["times"], curve["mean"], strict=True) if mean > floor]
    return max(min(seen, default=1.0), 1.0)


def regret_page(
    *,
    title: str,
    problem: Problem,
    guarantee: str,
    course: tuple[Sequence[str], Sequence[Sequence[str]]],
    comparison: tuple[Sequence[str], Sequence[Sequence[str]]],
    results: Sequence[Mapping[str, Any]],
    least: float,
    command: str,
) -> str:
    """The whole page."""
    return page(
        title,
        f"<p>{problem.arm_count} arms, {problem.agent_count} agents, {problem.horizon:,} draws each, and every one of "
        "them counts: a draw costs the gap between the mixed mean of the arm played and the agent's best.</p>"
        f"<p>{escape(guarantee.capitalize())}.</p>",
        "<h2>One game</h2>",
        table(*course),
        "<h2>Regret over time</h2>",
        picture(
            lambda theme: regret_figure(results, least, theme=theme),
            "Mean regret of every policy over time, with bands of 80 % of the runs",
        ),
        f"<p>No policy that is good on every instance stays below C* log T, here {least:,.0f}, for long horizons.</p>",
        table(*comparison),
        command=command,
    )
