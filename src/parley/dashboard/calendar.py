"""When every site draws, at the rates that the study states: the phases as bars over the days."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from parley.dashboard.plot import Scale, clipped, element, line, svg, text, ticks
from parley.dashboard.words import number

__all__ = ["calendar_chart"]

WIDTH, LEFT, RIGHT, ROW, TOP = 720.0, 150.0, 704.0, 22.0, 22.0
COLOURS, LONGEST = 8, 20


def calendar_chart(
    agents: Sequence[str],
    rates: Sequence[float],
    drawn: Sequence[Sequence[float]],
    planned: Sequence[float],
    round_days: float,
) -> Markup:
    """A row per site, a bar per decided phase, outlined bars for the phase in progress; gaps wait for the slowest.

    `drawn` is `(phase, agent)` samples, `planned` those of the phase in progress (nothing once all is over).
    """
    phases = [*drawn, planned] if any(planned) else list(drawn)
    days = [[draws / rate if rate else 0.0 for draws, rate in zip(row, rates, strict=True)] for row in phases]
    begins = [0.0]
    for row in days:
        begins.append(begins[-1] + max(row) + round_days)
    x = Scale(0.0, begins[-1] or 1.0, LEFT, RIGHT)
    bottom = TOP + ROW * len(agents)
    made = [line(x(begin), TOP - 4, x(begin), bottom, "grid") for begin in begins[:-1]]
    free = LEFT
    for phase, begin in enumerate(begins[:-1], start=1):
        if x(begin) >= free:  # a label that would lie on the one before is left out
            made.append(text(x(begin), TOP - 9, f"phase {phase}", "soft"))
            free = x(begin) + 58
    for place, name in enumerate(agents):
        middle = TOP + ROW * place + ROW / 2
        made.append(text(LEFT - 10, middle + 4, clipped(name, LONGEST), "ink", "end"))
        for phase, row in enumerate(days):
            if row[place] > 0:
                made.append(
                    element(
                        "rect",
                        x=x(begins[phase]),
                        y=middle - 7,
                        width=x(row[place]) - x(0.0),
                        height=14,
                        class_="planned" if phase >= len(drawn) else f"s{phase % COLOURS}",
                    )
                )
    made += [text(x(day), bottom + 18, number(day), "soft", "middle") for day in ticks(0.0, begins[-1])]
    made.append(text(LEFT - 10, bottom + 18, "days", "soft", "end"))
    slow = agents[max(range(len(agents)), key=lambda place: sum(row[place] for row in days))] if agents else ""
    label = f"Phases by site over {number(begins[-1])} days at the stated rates; {slow} draws longest"
    return svg(WIDTH, bottom + 28, label, *made)
