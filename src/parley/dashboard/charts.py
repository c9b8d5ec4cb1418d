"""Charts of the pages as SVG: bars and lines, intervals as a forest, and the calendar of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from parley.dashboard.plot import (
    SHAPES,
    Scale,
    area,
    breadth,
    clipped,
    element,
    line,
    mark,
    path,
    spread,
    svg,
    text,
    tick_words,
    ticks,
)
from parley.formatting import estimate_text, number, real

__all__ = ["MOST", "Arm", "bullet", "calendar_chart", "course_chart", "evidence_chart", "forest_chart", "meter"]

LOUD = 8  # arms that get a colour, a shape and a label; of more, the others stay in the background
WIDTH = 480.0
MANY = 10  # phases beyond which intervals are drawn as bands: bars would lie on those of the next phase
NOTCHES = 5  # of the phases before, the latest: more would hide the bar


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm of one agent over the decided phases: one entry a phase."""

    name: str
    means: Sequence[float | None]
    radii: Sequence[float | None]
    scores: Sequence[float | None]
    out_in: int  # the phase that ruled it out, 0 while it is a candidate
    chosen: bool = False
    let_go: bool = False  # not ruled out: its agent accepted another one, within the tolerance
    first: int = 1  # the phase of the first entry: of a long study only the latest are drawn


def _loud(arms: Sequence[Arm]) -> list[int]:
    """The arms to tell apart: those that stayed longest, and of these the best."""

    def rank(place: int) -> tuple[float, float]:
        arm = arms[place]
        return (-(arm.out_in or 10**9), -(arm.means[-1] if arm.means and arm.means[-1] is not None else -1e300))

    return sorted(sorted(range(len(arms)), key=rank)[:LOUD])


def _points(arm: Arm) -> list[tuple[int, float, float]]:
    """Phase, mean and radius, while the arm was a candidate."""
    last = arm.out_in or arm.first + len(arm.means)
    return [
        (phase, mean, radius or 0.0)
        for phase, (mean, radius) in enumerate(zip(arm.means, arm.radii, strict=True), start=arm.first)
        if mean is not None and phase <= last
    ]


def course_chart(
    arms: Sequence[Arm], label: str, *, within: tuple[float, float] | None = None, rates: bool = False
) -> Markup:
    """Mixed means with their intervals over the phases; a line ends where its arm was ruled out.

    `within` is the range of a reward, where there is one: no axis goes beyond what can be. Rates are in per cent.
    """
    first, phases = arms[0].first, len(arms[0].means)
    every, loud = [_points(arm) for arm in arms], _loud(arms)
    ends = [mean + sign * radius for points in every for _, mean, radius in points for sign in (-1, 1)] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    margin = (high - low) * 0.05 or 0.5
    low, high = low - margin, high + margin
    if within is not None:
        low, high = max(low, within[0]), min(high, within[1])
    marks = ticks(low, high)
    words = tick_words(marks, rates=rates)
    names = [clipped(arms[place].name) + (" ★" if arms[place].chosen else "") for place in loud]
    height, left, top, bottom = 300.0, 12 + max(map(breadth, words), default=0.0), 12.0, 258.0
    right = WIDTH - 30 - max(map(breadth, names))
    y, last = Scale(low, high, bottom, top), float(first + phases - 1)
    aside = 8 + 2.5 * len(loud)  # of the first and of the last phase, room for the marks beside each other
    x = Scale(float(first), last, left + aside, right - aside) if phases > 1 else Scale(last - 1, last + 1, left, right)
    drawn = [
        line(left, y(value), right, y(value), "grid") + text(left - 8, y(value) + 4, told, "soft", "end")
        for value, told in zip(marks, words, strict=True)
    ]
    drawn.append(_phases(x, first, phases, bottom, height))
    quiet = [place for place in range(len(arms)) if place not in loud]
    drawn += [path([(x(phase), y(mean)) for phase, mean, _ in every[place]], "quiet") for place in quiet]
    draw = _band if phases > MANY else _course
    drawn += [draw(every[place], order, len(loud), x, y) for order, place in enumerate(loud)]
    told_apart = zip(loud, names, strict=True)
    labels = [(name, arms[place].out_in, order, every[place]) for order, (place, name) in enumerate(told_apart)]
    drawn.append(_labels(labels, y, right, bottom))
    if quiet:
        drawn.append(text(WIDTH - 4, height - 4, f"and {number(len(quiet))} more, in grey", "soft", "end"))
    return svg(WIDTH, height, label, *drawn)


def _phases(x: Scale, first: int, phases: int, bottom: float, height: float) -> Markup:
    step, last = -(-phases // 12), first + phases - 1
    shown = [phase for phase in range(first, last + 1) if phase == last or (last - phase) % step == 0]
    labels = Markup("").join(text(x(phase), bottom + 18, number(phase), "soft", "middle") for phase in shown)
    return labels + text((x.start + x.end) / 2, height - 4, "phase", "soft", "middle")


def _course(points: Sequence[tuple[int, float, float]], order: int, count: int, x: Scale, y: Scale) -> Markup:
    room = (x.end - x.start) / (x.high - x.low or 1.0)
    apart = min(5.0, 40.0 / max(count, 1), 0.7 * room / max(count, 1))  # so that intervals do not hide each other
    aside = (order - (count - 1) / 2) * apart
    class_, shape = f"s{order}", list(SHAPES)[order]
    places = [(x(phase) + aside, y(mean)) for phase, mean, _ in points]
    bars = [
        line(across, y(max(mean - radius, y.low)), across, y(min(mean + radius, y.high)), f"{class_} interval")
        for (across, _), (_, mean, radius) in zip(places, points, strict=True)
    ]
    marks = [mark(shape, across, down, 4.5, class_) for across, down in places]
    return Markup("").join([path(places, class_), *bars, *marks])


def _band(points: Sequence[tuple[int, float, float]], order: int, count: int, x: Scale, y: Scale) -> Markup:  # noqa: ARG001
    """As `_course`, for many phases: the intervals as a band behind the line."""
    if not points:
        return Markup("")
    class_, shape = f"s{order}", list(SHAPES)[order]
    upper = [(x(phase), y(min(mean + radius, y.high))) for phase, mean, radius in points]
    lower = [(x(phase), y(max(mean - radius, y.low))) for phase, mean, radius in points]
    places = [(x(phase), y(mean)) for phase, mean, _ in points]
    return area([*upper, *lower[::-1]], f"{class_} band") + path(places, class_) + mark(shape, *places[-1], 4.5, class_)


def _labels(
    named: Sequence[tuple[str, int, int, Sequence[tuple[int, float, float]]]], y: Scale, right: float, bottom: float
) -> Markup:
    with_data = [entry for entry in named if entry[3]]
    places = spread([y(points[-1][1]) for *_, points in with_data], 17.0, y.end + 6, bottom - 4)
    told = []
    for (name, out_in, order, _), down in zip(with_data, places, strict=True):
        told.append(mark(list(SHAPES)[order], right + 12, down - 4, 4.5, f"s{order}"))
        told.append(text(right + 23, down, name, "soft" if out_in else "ink"))
    return Markup("").join(told)


def evidence_chart(arms: Sequence[Arm], limit: float, label: str) -> Markup:
    """How far the case against every arm has come, and the line at which it is out; notches are earlier phases."""
    loud = _loud(arms)
    names, states = [clipped(arms[place].name) for place in loud], [_state(arms[place]) for place in loud]
    row, top = 30.0, 30.0
    left, right = 32 + max(map(breadth, names)), WIDTH - 14 - max(map(breadth, states))
    height = top + row * len(loud) + (26.0 if len(arms) > len(loud) else 8.0)
    x = Scale(0.0, limit * 1.02, left, right)
    drawn = [line(left, top - 6, left, top + row * len(loud), "grid")]
    for order, place in enumerate(loud):
        drawn.append(_evidence(arms[place], order, x, limit, top + row * order, row))
    drawn.append(line(x(limit), top - 10, x(limit), top + row * len(loud), "limit"))
    drawn.append(text(x(limit), top - 15, f"out at {real(limit, 2)}", "ink", "middle"))
    if len(arms) > len(loud):
        drawn.append(
            text(left, height - 6, f"and {number(len(arms) - len(loud))} more, among the numbers below", "soft")
        )
    return svg(WIDTH, height, label, *drawn)


def _state(arm: Arm) -> str:
    """What stands beside the bar; evidence that is not above 0 is none."""
    if arm.chosen or arm.out_in:
        return "chosen ★" if arm.chosen else f"{'let go' if arm.let_go else 'out'} in {arm.out_in}"
    score = arm.scores[-1]
    return "none" if score is not None and score < 0.005 else real(score, 2)


def _evidence(arm: Arm, order: int, x: Scale, limit: float, top: float, row: float) -> Markup:
    last = max(arm.out_in - arm.first + 1, 0) if arm.out_in else len(arm.scores)
    known = [min(max(score, 0.0), limit) for score in arm.scores[:last] if score is not None]
    known = known or [limit] if arm.out_in else known  # out before the phases that are drawn
    score = known[-1] if known else 0.0
    middle = top + row / 2
    height, past = row * 0.44, " past" if arm.out_in else ""
    bar = element(
        "rect",
        x=x.start,
        y=middle - height / 2,
        width=max(x(score) - x.start, 0.0),
        height=height,
        class_=f"s{order}{past}",
    )
    notches = [
        line(x(value), middle - height / 2 - 3, x(value), middle + height / 2 + 3, "notch")
        for value in known[:-1][-NOTCHES:]
    ]
    drawn = [
        mark(list(SHAPES)[order], x.start - 12, middle, 4.5, f"s{order}"),
        text(x.start - 22, middle + 4, clipped(arm.name), "soft" if arm.out_in else "ink", "end"),
        bar,
        *notches,
        text(x.end + 10, middle + 4, _state(arm), "soft" if arm.out_in else "ink"),
    ]
    return Markup("").join(drawn)


def meter(share: float) -> Markup:
    """A thin bar: how far the evidence has come, from 0 to 1. The number stands beside it."""
    width = 100 * min(max(share, 0.0), 1.0)
    return element(
        "svg",
        element("rect", x=0, y=0, width=100, height=4, class_="rail"),
        element("rect", x=0, y=0, width=width, height=4, class_="fill"),
        class_="meter",
        viewBox="0 0 100 4",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def bullet(spent: float, planned: float, bound: float | None, largest: float, label: str) -> Markup:
    """Samples spent (full), planned (outlined), and the lower-bound estimate (a tick)."""
    x = Scale(0.0, largest or 1.0, 0.0, 238.0)
    drawn = [
        element("rect", x=0, y=5, width=x(spent), height=10, class_="spent"),
        element("rect", x=x(spent), y=5.5, width=x(planned), height=9, class_="planned"),
    ]
    if bound is not None:
        drawn.append(line(x(bound), 1, x(bound), 19, "limit"))
    return element("svg", *drawn, class_="bullet", viewBox="0 0 240 20", role="img", aria_label=label)


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
