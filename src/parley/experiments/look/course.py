"""Figures as matplotlib `Figure` objects: nothing is shown, saved or kept in a global; the caller decides.

>>> from parley.policies import make_policy
>>> from parley.simulation import phases
>>> from parley.study import parse_study
>>> words = {"arms": 3, "agents": 2, "noise": {"scale": 1.0}, "truth": {"generate": "paper", "min_gap": 0.2}}
>>> study = parse_study(words)
>>> course = list(phases(make_policy("wcpe", study.problem), study.instance, seed=0))
>>> len(elimination_course(course, study.problem).axes)
2
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.errors import InvalidInput
from parley.experiments.look.axes import legend_below
from parley.experiments.look.palette import DASHES, MARKERS, Theme, theme_named
from parley.problem import Problem
from parley.simulation import Phase

__all__ = ["elimination_course"]

MOST_PANELS = 12  # agents shown side by side; more would be too small to read
MOST_TICKS = 7


def elimination_course(phases: Sequence[Phase], problem: Problem, *, theme: str = "light") -> Figure:
    """One run, a panel per agent: the estimated mixed mean of every arm until the phase that ruled it out (a cross)."""
    if not phases:
        raise InvalidInput("phases", found="none", allowed="at least one phase of a run")
    look = theme_named(theme)
    shown = min(problem.agent_count, MOST_PANELS)
    columns = min(shown, 3)
    rows = math.ceil(shown / columns)
    with look.context():
        figure = Figure(figsize=(1.2 + 3.4 * columns, 1.0 + 2.8 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for agent, panel in enumerate(panels[:shown]):
            _course_of(panel, phases, problem, agent, look)
        for panel in panels[shown:]:
            panel.set_axis_off()
        legend_below(figure, panels[0])
        hidden = problem.agent_count - shown
        title = "Course of one run: a cross marks the phase that ruled an arm out"
        figure.suptitle(f"{title} (first {shown} agents of {problem.agent_count})" if hidden else title, size=11)
    return figure


def _course_of(panel: Axes, phases: Sequence[Phase], problem: Problem, agent: int, look: Theme) -> None:
    numbers = np.array([phase.number for phase in phases])
    means = np.stack([problem.mixed(phase.after.means)[:, agent] for phase in phases])
    ruled_out = phases[-1].after.eliminated_in[:, agent]
    for arm, name in enumerate(problem.arms):
        last = int(ruled_out[arm]) or int(numbers[-1])
        seen = numbers <= last
        out = ruled_out[arm] > 0
        colour = look.colour(arm)
        panel.plot(
            numbers[seen],
            means[seen, arm],
            color=colour,
            linestyle=DASHES[arm // len(look.series) % len(DASHES)],
            marker=MARKERS[arm % len(MARKERS)],
            linewidth=1.2 if out else 2.6,
            label=name,
        )
        if out:
            end = means[numbers == last, arm]
            panel.plot(last, end, "x", color=look.ink, markersize=9, markeredgewidth=1.6, zorder=5)
    remaining = [name for arm, name in enumerate(problem.arms) if not ruled_out[arm]]
    answer = ", ".join(remaining) if len(remaining) == problem.top else f"{len(remaining)} arms left"
    panel.set_title(f"{problem.agents[agent]}: {answer}")
    ticks = phases[:: math.ceil(len(phases) / MOST_TICKS)]
    labels = [f"{phase.number}\n{_thousands(int(phase.after.counts.sum()))}" for phase in ticks]
    panel.set_xticks([phase.number for phase in ticks], labels)
    panel.set_xlim(numbers[0] - 0.25, numbers[-1] + 0.25)
    if panel.get_subplotspec().is_last_row():  # type: ignore[union-attr]
        panel.set_xlabel("phase, and samples drawn so far by all agents")
    if panel.get_subplotspec().is_first_col():  # type: ignore[union-attr]
        panel.set_ylabel("estimated mixed mean (reward)")


def _thousands(count: int) -> str:
    """A sample count short enough for an axis.

    >>> _thousands(950), _thousands(93_969), _thousands(2_400_000)
    ('950', '94.0k', '2.4M')
    """
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"
