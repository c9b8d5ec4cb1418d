"""Charts of the pages as SVG: the drawing, bars and lines, intervals as a forest, the calendar of a study."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from parley.formatting import estimate_text, number, real, unit_of
from parley.status import ArmStatus

LOUD = 8  # arms that get a colour, a shape and a label; of more, the others stay in the background
WIDTH = 480.0
MANY = 10  # phases beyond which intervals are drawn as bands: bars would lie on those of the next phase
NOTCHES = 5  # of the phases before, the latest: more would hide the bar


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm of one agent over the decided phases: one entry a phase."""

    name: str
    means: Sequence[float | None]
    lows: Sequence[float | None]  # of the intervals that hold jointly and at every phase
    highs: Sequence[float | None]
    scores: Sequence[float | None]
    status: ArmStatus = ArmStatus.OPEN
    dropped_in: int = 0  # the phase that ruled it out or set it aside, else 0
    first: int = 1  # the phase of the first entry: of a long study only the latest are drawn

    @property
    def chosen(self) -> bool:
        """Whether it is an answer."""
        return self.status is ArmStatus.CHOSEN


def _loud(arms: Sequence[Arm]) -> list[int]:
    """The arms to tell apart: those that stayed longest, and of these the best."""

    def rank(place: int) -> tuple[float, float]:
        arm = arms[place]
        return (-(arm.dropped_in or 10**9), -(arm.means[-1] if arm.means and arm.means[-1] is not None else -1e300))

    return sorted(sorted(range(len(arms)), key=rank)[:LOUD])


Point = tuple[int, float, float, float]  # phase, mean, and the ends of its interval


def _points(arm: Arm) -> list[Point]:
    """The phases with data in which the arm was a candidate; without an interval the mean stands alone."""
    last = arm.dropped_in or arm.first + len(arm.means)
    return [
        (phase, mean, mean if low is None else low, mean if high is None else high)
        for phase, (mean, low, high) in enumerate(zip(arm.means, arm.lows, arm.highs, strict=True), start=arm.first)
        if mean is not None and phase <= last
    ]


def course_chart(
    arms: Sequence[Arm], label: str, *, within: tuple[float, float] | None = None, rates: bool = False
) -> Markup:
    """Mixed means with their intervals over the phases; a line ends where its arm was dropped.

    `within` is the range of a reward, where there is one: no axis goes beyond what can be. Rates are in per cent.
    """
    first, phases = arms[0].first, len(arms[0].means)
    every, loud = [_points(arm) for arm in arms], _loud(arms)
    ends = [end for points in every for point in points for end in point[1:]] or [0.0, 1.0]
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
        line(left, y(value), right, y(value), "grid") + text(left - 8, y(value) + 4, label, "soft", "end")
        for value, label in zip(marks, words, strict=True)
    ]
    drawn.append(_phases(x, first, phases, bottom, height))
    quiet = [place for place in range(len(arms)) if place not in loud]
    drawn += [path([(x(phase), y(mean)) for phase, mean, *_ in every[place]], "quiet") for place in quiet]
    draw = _band if phases > MANY else _course
    drawn += [draw(every[place], order, len(loud), x, y) for order, place in enumerate(loud)]
    distinguished = zip(loud, names, strict=True)
    labels = [(name, arms[place].dropped_in, order, every[place]) for order, (place, name) in enumerate(distinguished)]
    drawn.append(_labels(labels, y, right, bottom))
    if quiet:
        drawn.append(text(WIDTH - 4, height - 4, f"and {number(len(quiet))} more, in grey", "soft", "end"))
    return svg(WIDTH, height, label, *drawn)


def _phases(x: Scale, first: int, phases: int, bottom: float, height: float) -> Markup:
    step, last = -(-phases // 12), first + phases - 1
    shown = [phase for phase in range(first, last + 1) if phase == last or (last - phase) % step == 0]
    labels = Markup("").join(text(x(phase), bottom + 18, number(phase), "soft", "middle") for phase in shown)
    return labels + text((x.start + x.end) / 2, height - 4, "phase", "soft", "middle")


def _course(points: Sequence[Point], order: int, count: int, x: Scale, y: Scale) -> Markup:
    room = (x.end - x.start) / (x.high - x.low or 1.0)
    apart = min(5.0, 40.0 / max(count, 1), 0.7 * room / max(count, 1))  # so that intervals do not hide each other
    aside = (order - (count - 1) / 2) * apart
    class_, shape = f"s{order}", list(SHAPES)[order]
    places = [(x(phase) + aside, y(mean)) for phase, mean, *_ in points]
    bars = [
        line(across, y(max(low, y.low)), across, y(min(high, y.high)), f"{class_} interval")
        for (across, _), (_, _, low, high) in zip(places, points, strict=True)
    ]
    marks = [mark(shape, across, down, 4.5, class_) for across, down in places]
    return Markup("").join([path(places, class_), *bars, *marks])


def _band(points: Sequence[Point], order: int, count: int, x: Scale, y: Scale) -> Markup:  # noqa: ARG001
    """As `_course`, for many phases: the intervals as a band behind the line."""
    if not points:
        return Markup("")
    class_, shape = f"s{order}", list(SHAPES)[order]
    upper = [(x(phase), y(min(high, y.high))) for phase, _, _, high in points]
    lower = [(x(phase), y(max(low, y.low))) for phase, _, low, _ in points]
    places = [(x(phase), y(mean)) for phase, mean, *_ in points]
    return area([*upper, *lower[::-1]], f"{class_} band") + path(places, class_) + mark(shape, *places[-1], 4.5, class_)


def _labels(named: Sequence[tuple[str, int, int, Sequence[Point]]], y: Scale, right: float, bottom: float) -> Markup:
    with_data = [entry for entry in named if entry[3]]
    places = spread([y(points[-1][1]) for *_, points in with_data], 17.0, y.end + 6, bottom - 4)
    drawn = []
    for (name, dropped_in, order, _), down in zip(with_data, places, strict=True):
        drawn.append(mark(list(SHAPES)[order], right + 12, down - 4, 4.5, f"s{order}"))
        drawn.append(text(right + 23, down, name, "soft" if dropped_in else "ink"))
    return Markup("").join(drawn)


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
    if arm.chosen or arm.dropped_in:
        return "chosen ★" if arm.chosen else f"{arm.status} in {arm.dropped_in}"
    score = arm.scores[-1]
    return "none" if score is not None and score < 0.005 else real(score, 2)


def _evidence(arm: Arm, order: int, x: Scale, limit: float, top: float, row: float) -> Markup:
    last = max(arm.dropped_in - arm.first + 1, 0) if arm.dropped_in else len(arm.scores)
    known = [min(max(score, 0.0), limit) for score in arm.scores[:last] if score is not None]
    known = known or [limit] if arm.dropped_in else known  # out before the phases that are drawn
    score = known[-1] if known else 0.0
    middle = top + row / 2
    height, past = row * 0.44, " past" if arm.dropped_in else ""
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
        text(x.start - 22, middle + 4, clipped(arm.name), "soft" if arm.dropped_in else "ink", "end"),
        bar,
        *notches,
        text(x.end + 10, middle + 4, _state(arm), "soft" if arm.dropped_in else "ink"),
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
        line(x(value), TOP - 8, x(value), bottom, "grid") + text(x(value), bottom + 18, label, "soft", "middle")
        for value, label in zip(places, tick_words(places, rates=rates), strict=True)
    )


def _line(arm: Found, kind: str, x: Scale, middle: float, to: str | None, *, rates: bool) -> Markup:
    found, soft = arm[kind], "soft" if arm["dropped_in"] else "ink"
    chosen, shown = arm["status"] == ArmStatus.CHOSEN, estimate_text(found, unit=unit_of(kind, rates=rates))
    past = "" if soft == "ink" else " past"
    star = " ★" if chosen else ""
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
        mark("star" if chosen else "square", x(found["estimate"]), middle, 4.0, f"s0{past}"),
        text(RIGHT + 12, middle + 4, shown, soft),
    ]
    return element("g", element("title", f"{arm['arm']}: {shown}"), *drawn)


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


LETTER = 8.6  # of a figure's units, at the size that a phone shows


def element(name: str, *inside: str, **attributes: object) -> Markup:
    """An element; attributes and text are escaped, `_` stands for `-` and `class_` for `class`.

    >>> str(element("text", "<b>", x=1.23456, text_anchor="end"))
    '<text x="1.23" text-anchor="end">&lt;b&gt;</text>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(map(escape, inside))}</{name}>")  # every part is escaped above


def _short(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def svg(width: float, height: float, label: str, *inside: str, kind: str = "figure") -> Markup:
    """A picture with words for those who do not see it."""
    box = f"0 0 {_short(float(width))} {_short(float(height))}"
    return element("svg", *inside, class_=kind, viewBox=box, role="img", aria_label=label)


@dataclass(frozen=True)
class Scale:
    """From values to places.

    >>> Scale(0.0, 10.0, 100.0, 200.0)(2.5)
    125.0
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        width = self.high - self.low or 1.0
        return self.start + (value - self.low) / width * (self.end - self.start)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within a range.

    >>> ticks(-0.13, 0.52)
    [0.0, 0.2, 0.4]
    """
    if not high > low:
        return [low]
    raw = (high - low) / about
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    digits = max(0, 1 - math.floor(math.log10(step)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, digits) + 0.0 for place in range(first, last + 1)]


def tick_words(values: Sequence[float], *, rates: bool = False) -> list[str]:
    """The ticks of an axis with the decimals that tell them apart; rates in per cent.

    >>> tick_words([0.03, 0.035]), tick_words([8e6, 1e7]), tick_words([0.03, 0.035], rates=True)
    (['0.030', '0.035'], ['8,000,000', '10,000,000'], ['3.0 %', '3.5 %'])
    """
    shown = [100 * value for value in values] if rates else list(values)
    step = min((after - before for before, after in pairwise(shown)), default=1.0)
    digits = next((count for count in range(9) if math.isclose(round(step, count), step, rel_tol=1e-6)), 9)
    return [real(value, digits) + (" %" if rates else "") for value in shown]


def breadth(words: str) -> float:
    """About how wide a label is; a character of Chinese or Japanese counts twice.

    >>> round(breadth("A"), 1), round(breadth("日"), 1)
    (8.6, 17.2)
    """
    return LETTER * sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in words)


def clipped(words: str, longest: int = 16) -> str:
    """A name as far as there is room for it in a figure.

    >>> clipped("combination"), clipped("variety one of the northern plain")
    ('combination', 'variety one of …')
    """
    if breadth(words) <= LETTER * longest:
        return words
    while breadth(words) > LETTER * (longest - 1):
        words = words[:-1]
    return words + "…"


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Places for labels, as near as possible to those wanted, in their order, and no closer than `apart`.

    >>> spread([10.0, 11.0, 50.0], 12.0, 0.0, 100.0)
    [10.0, 22.0, 50.0]
    """
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    places = [min(max(value, low), high) for value in wanted]
    for before, after in pairwise(order):
        places[after] = max(places[after], places[before] + apart)
    if order and places[order[-1]] > high:
        places[order[-1]] = high
        for after, before in pairwise(order[::-1]):
            places[before] = min(places[before], places[after] - apart)
    return places


def _polygon(x: float, y: float, size: float, corners: Sequence[tuple[float, float]], class_: str) -> Markup:
    points = " ".join(f"{_short(x + dx * size)},{_short(y + dy * size)}" for dx, dy in corners)
    return element("polygon", points=points, class_=class_)


_STAR = [
    (math.sin(turn * math.pi / 5) * radius, -math.cos(turn * math.pi / 5) * radius)
    for turn, radius in ((turn, 1.5 if turn % 2 == 0 else 0.65) for turn in range(10))
]
_CROSS = [(-1.2, -0.5), (-0.5, -1.2), (0, -0.7), (0.5, -1.2), (1.2, -0.5), (0.7, 0), (1.2, 0.5), (0.5, 1.2), (0, 0.7)]
_CROSS += [(-0.5, 1.2), (-1.2, 0.5), (-0.7, 0)]
SHAPES: dict[str, Sequence[tuple[float, float]]] = {
    "circle": (),
    "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    "triangle": [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
    "diamond": [(0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)],
    "wedge": [(0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
    "bar": [(-1.2, -0.45), (1.2, -0.45), (1.2, 0.45), (-1.2, 0.45)],
    "cross": _CROSS,
    "star": _STAR,
}


def mark(shape: str, x: float, y: float, size: float, class_: str) -> Markup:
    """A mark by its shape's name."""
    if shape == "circle":
        return element("circle", cx=x, cy=y, r=size, class_=class_)
    return _polygon(x, y, size, SHAPES[shape], class_)


def text(x: float, y: float, words: object, class_: str, anchor: str = "start") -> Markup:
    """A label."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return element("polyline", points=" ".join(f"{_short(x)},{_short(y)}" for x, y in points), class_=class_)


def area(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """What lies between points."""
    return element("polygon", points=" ".join(f"{_short(x)},{_short(y)}" for x, y in points), class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)
