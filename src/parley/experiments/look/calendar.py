"""When every site draws: the phases of one study as bars over the days, and what waits for the slowest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from parley.currency import phase_days, stated_rates
from parley.experiments.look.palette import theme_named
from parley.harmonic.pace import agent_days
from parley.problem import FloatArray, IntArray, Problem

__all__ = ["calendar", "phase_calendar"]

MOST_SITES = 40  # more bars would be too thin to read


def calendar(problem: Problem, quotas: Sequence[IntArray]) -> tuple[FloatArray, FloatArray]:
    """When every phase begins, `(phase,)`, and how long every agent draws in it, `(phase, agent)`, in days.

    >>> problem = Problem(arms=2, weights=np.eye(2), rate=[1.0, 4.0], round_days=2)
    >>> begins, draws = calendar(problem, [np.array([[3, 0], [1, 8]])] * 2)
    >>> begins.tolist(), draws.tolist()
    ([0.0, 6.0], [[4.0, 2.0], [4.0, 2.0]])
    """
    each = np.stack(list(quotas))
    lasts = phase_days(problem, each)
    return np.concatenate([[0.0], np.cumsum(lasts)[:-1]]), agent_days(each, stated_rates(problem))


def phase_calendar(problem: Problem, quotas: Sequence[IntArray], *, theme: str = "light") -> Figure:
    """A row per site, a bar per phase; thin lines are where phases begin, gaps are waiting."""
    look = theme_named(theme)
    begins, draws = calendar(problem, quotas)
    shown, end = min(problem.agent_count, MOST_SITES), float(begins[-1] + phase_days(problem, quotas[-1]))
    with look.context():
        figure = Figure(figsize=(11, 1.5 + 0.36 * shown), layout="constrained")
        panel = figure.subplots()
        for phase, begin in enumerate(begins):
            panel.barh(range(shown), draws[phase, :shown], left=begin, height=0.62, color=look.colour(phase))
            panel.axvline(begin, color=look.muted, linewidth=0.8)
        panel.set_yticks(range(shown), problem.agents[:shown])
        ticks = _apart(begins, end / 14)
        panel.set_xticks(begins[ticks], [f"{begins[phase]:,.0f}\nphase {phase + 1}" for phase in ticks], size=8)
        panel.invert_yaxis()
        panel.grid(visible=False)
        panel.set_xlabel("day on which a phase begins")
        panel.set_xlim(0, end)
        hidden = problem.agent_count - shown
        more = f" (first {shown} sites of {problem.agent_count})" if hidden else ""
        panel.set_title(f"One study of {end:,.0f} days, by site: bars are draws, gaps wait for the slowest{more}")
    return figure


def _apart(places: FloatArray, least: float) -> list[int]:
    """Which places to label, so that no two labels lie on each other."""
    chosen = [0]
    for place in range(1, len(places)):
        if places[place] - places[chosen[-1]] >= least:
            chosen.append(place)
    return chosen
