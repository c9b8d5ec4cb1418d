"""The figures of the pages, each a function from numbers to SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from parley.dashboard.plot import SHAPES, Scale, element, line, mark, path, spread, svg, text, ticks
from parley.dashboard.words import number, real

__all__ = ["Arm", "bullet", "course_chart", "evidence_chart", "meter", "shortened"]

LOUD = 8  # arms that get a colour, a shape and a label; of more, the others stay in the background
WIDTH = 480.0
LONGEST = 16  # characters of a name in a figure


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm of one agent over the decided phases: one entry a phase."""

    name: str
    means: Sequence[float | None]
    radii: Sequence[float | None]
    scores: Sequence[float | None]
    out_in: int  # the phase that ruled it out, 0 while it is a candidate
    chosen: bool = False
    first: int = 1  # the phase of the first entry: of a long study only the latest are drawn


def shortened(name: str) -> str:
    """A name as far as a figure has room for it."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


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


def course_chart(arms: Sequence[Arm], label: str, *, within: tuple[float, float] | None = None) -> Markup:
    """Mixed means with their intervals over the phases; a line ends where its arm was ruled out.

    `within` is the range of a reward, where there is one: no axis goes beyond what can be.
    """
    first, phases = arms[0].first, len(arms[0].means)
    height, left, right, top, bottom = 300.0, 46.0, WIDTH - 132.0, 12.0, 258.0
    every = [_points(arm) for arm in arms]
    ends = [mean + sign * radius for points in every for _, mean, radius in points for sign in (-1, 1)] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    margin = (high - low) * 0.05 or 0.5
    low, high = low - margin, high + margin
    if within is not None:
        low, high = max(low, within[0]), min(high, within[1])
    y = Scale(low, high, bottom, top)
    last = float(first + phases - 1)
    x = Scale(float(first), last, left + 24, right - 24) if phases > 1 else Scale(last - 1, last + 1, left, right)
    loud = _loud(arms)
    drawn = [_axis(y, left, right), _phases(x, first, phases, bottom, height)]
    quiet = [place for place in range(len(arms)) if place not in loud]
    for place in quiet:
        drawn.append(path([(x(phase), y(mean)) for phase, mean, _ in every[place]], "quiet"))
    for order, place in enumerate(loud):
        drawn.append(_course(every[place], order, len(loud), x, y))
    drawn.append(_labels([(arms[place], order, every[place]) for order, place in enumerate(loud)], y, right, bottom))
    if quiet:
        drawn.append(text(right + 8, height - 8, f"and {number(len(quiet))} more, in grey", "soft"))
    return svg(WIDTH, height, label, *drawn)


def _axis(y: Scale, left: float, right: float) -> Markup:
    values = ticks(y.low, y.high)
    digits = 3 if y.high - y.low < 0.05 else 2
    return Markup("").join(
        line(left, y(value), right, y(value), "grid") + text(left - 8, y(value) + 4, real(value, digits), "soft", "end")
        for value in values
    )


def _phases(x: Scale, first: int, phases: int, bottom: float, height: float) -> Markup:
    step, last = -(-phases // 12), first + phases - 1
    shown = [phase for phase in range(first, last + 1) if phase == last or (last - phase) % step == 0]
    labels = Markup("").join(text(x(phase), bottom + 18, number(phase), "soft", "middle") for phase in shown)
    return labels + text((x.start + x.end) / 2, height - 4, "phase", "soft", "middle")


def _course(points: Sequence[tuple[int, float, float]], order: int, count: int, x: Scale, y: Scale) -> Markup:
    aside = (order - (count - 1) / 2) * min(5.0, 40.0 / max(count, 1))  # so that intervals do not hide each other
    class_, shape = f"s{order}", list(SHAPES)[order]
    places = [(x(phase) + aside, y(mean)) for phase, mean, _ in points]
    bars = [
        line(across, y(max(mean - radius, y.low)), across, y(min(mean + radius, y.high)), f"{class_} interval")
        for (across, _), (_, mean, radius) in zip(places, points, strict=True)
    ]
    marks = [mark(shape, across, down, 4.5, class_) for across, down in places]
    return Markup("").join([path(places, class_), *bars, *marks])


def _labels(
    named: Sequence[tuple[Arm, int, Sequence[tuple[int, float, float]]]], y: Scale, right: float, bottom: float
) -> Markup:
    with_data = [entry for entry in named if entry[2]]
    places = spread([y(points[-1][1]) for _, _, points in with_data], 17.0, y.end + 6, bottom - 4)
    told = []
    for (arm, order, _), down in zip(with_data, places, strict=True):
        ending = " ★" if arm.chosen else ""
        told.append(mark(list(SHAPES)[order], right + 14, down - 4, 4.5, f"s{order}"))
        told.append(text(right + 26, down, shortened(arm.name) + ending, "soft" if arm.out_in else "ink"))
    return Markup("").join(told)


def evidence_chart(arms: Sequence[Arm], limit: float, label: str) -> Markup:
    """How far the case against every arm has come, and the line at which it is out; notches are earlier phases."""
    loud = _loud(arms)
    row, left, right, top = 30.0, 136.0, WIDTH - 84.0, 30.0
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
        line(x(value), middle - height / 2 - 3, x(value), middle + height / 2 + 3, "notch") for value in known[:-1]
    ]
    state = "chosen ★" if arm.chosen else f"out in {arm.out_in}" if arm.out_in else real(arm.scores[-1], 2)
    drawn = [
        mark(list(SHAPES)[order], x.start - 14, middle, 4.5, f"s{order}"),
        text(x.start - 26, middle + 4, shortened(arm.name), "soft" if arm.out_in else "ink", "end"),
        bar,
        *notches,
        text(x.end + 10, middle + 4, state, "soft" if arm.out_in else "ink"),
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
