"""The forest plot: an arm a line, its estimate, the interval that may be reported, and the usual one behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from parley.dashboard.plot import Scale, clipped, element, line, mark, svg, text, tick_words, ticks
from parley.formatting import estimate_text, number

__all__ = ["MOST", "forest_chart"]

MOST = 24  # arms in one picture; the table has them all
WIDTH, LEFT, RIGHT, TOP, ROW = 560.0, 132.0, 366.0, 14.0, 27.0
CAP = 4.0  # half the height of an interval's ends
Found = Mapping[str, Any]


def forest_chart(arms: Sequence[Found], kind: str, label: str, *, to: str | None = None, rates: bool = False) -> Markup:
    """Of one agent's arms as the API tells them: `kind` is mean, to_leader or to_control, and `to` the arm at 0."""
    shown = _shown(arms)
    ends = [
        float(value)
        for arm in shown
        for name in ("estimate", "low", "high", "fixed_low", "fixed_high")
        if (value := arm[kind][name]) is not None
    ]
    ends = (ends if to is None else [*ends, 0.0]) or [0.0, 1.0]
    low, high = min(ends), max(ends)
    margin = (high - low) * 0.04 or 0.5
    x = Scale(low - margin, high + margin, LEFT, RIGHT)
    bottom = TOP + ROW * len(shown)
    height = bottom + (44.0 if len(shown) == len(arms) else 62.0)
    drawn = [_axis(x, bottom, rates=rates)]
    if to is not None:
        drawn.append(line(x(0.0), TOP - 8, x(0.0), bottom, "limit"))
    drawn += [_line(arm, kind, x, TOP + ROW * (place + 0.5), to, rates=rates) for place, arm in enumerate(shown)]
    what = "mixed mean" if to is None else f"difference to {clipped(to)}"
    drawn.append(text((LEFT + RIGHT) / 2, bottom + 37, what, "soft", "middle"))
    if len(shown) < len(arms):
        drawn.append(text(0, height - 4, f"and {number(len(arms) - len(shown))} more, in the table", "soft"))
    return svg(WIDTH, height, label, *drawn, kind="figure forest")


def _shown(arms: Sequence[Found]) -> list[Found]:
    """The arms by their estimates, the best first; of many those that are best."""

    def rank(arm: Found) -> float:
        value = arm["mean"]["estimate"]
        return -value if value is not None else float("inf")

    return sorted(arms, key=rank)[:MOST]


def _axis(x: Scale, bottom: float, *, rates: bool) -> Markup:
    places = ticks(x.low, x.high, 4)
    return Markup("").join(
        line(x(value), TOP - 8, x(value), bottom, "grid") + text(x(value), bottom + 18, told_as, "soft", "middle")
        for value, told_as in zip(places, tick_words(places, rates=rates), strict=True)
    )


def _line(arm: Found, kind: str, x: Scale, middle: float, to: str | None, *, rates: bool) -> Markup:
    found, soft = arm[kind], "ink" if arm["candidate"] or arm["chosen"] else "soft"
    past = "" if soft == "ink" else " past"
    star = " ★" if arm["chosen"] else ""
    name = text(LEFT - 12, middle + 4, clipped(arm["arm"]) + star, soft, "end")
    if arm["arm"] == to:
        return name + text(RIGHT + 12, middle + 4, "0, by definition", "soft")
    if found["estimate"] is None or found["low"] is None:
        return name + text(RIGHT + 12, middle + 4, "no data", "soft")
    low, high = x(found["low"]), x(found["high"])
    drawn = [
        name,
        line(x(found["fixed_low"]), middle, x(found["fixed_high"]), middle, f"s0 fixed{past}"),
        line(low, middle, high, middle, f"s0 whole{past}"),
        *(line(end, middle - CAP, end, middle + CAP, f"s0 whole{past}") for end in (low, high)),
        mark("star" if arm["chosen"] else "square", x(found["estimate"]), middle, 4.0, f"s0{past}"),
        text(RIGHT + 12, middle + 4, estimate_text(found, rates=rates), soft),
    ]
    return element("g", element("title", f"{arm['arm']}: {estimate_text(found, rates=rates)}"), *drawn)
