"""Charts of the pages: timelines of arms, the evidence against arms, answers under other weights, bars, and flows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from parley.experiments.report_kit.svg import (
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
from parley.text.formatting import number, real
from parley.text.status import ArmStatus
from parley.text.translation import gettext

LOUD = 8  # arms drawn with a colour, a shape and a label; further arms are drawn in grey
WIDTH = 480.0
MANY = 10  # phases beyond which intervals are drawn as bands: bars would overlap those of the next phase
NOTCHES = 5  # earlier phases that are marked, latest first: more notches would hide the bar


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of an agent over the decided phases; each sequence has one entry per phase."""

    name: str
    means: Sequence[float | None]
    lows: Sequence[float | None]  # of the intervals that hold jointly and at every phase
    highs: Sequence[float | None]
    scores: Sequence[float | None]
    status: ArmStatus = ArmStatus.OPEN
    dropped_in: int = 0  # the phase that ruled it out or set it aside; 0 if none
    first: int = 1  # the phase of the first entry, since only the latest phases of a long study are drawn

    @property
    def chosen(self) -> bool:
        """Whether the arm is an answer of its agent."""
        return self.status is ArmStatus.CHOSEN


def _loud(arms: Sequence[Arm]) -> list[int]:
    """Indices of the arms to highlight: arms that were not dropped, then those dropped last; best means break ties."""

    def rank(place: int) -> tuple[float, float]:
        arm = arms[place]
        return (-(arm.dropped_in or 10**9), -(arm.means[-1] if arm.means and arm.means[-1] is not None else -1e300))

    return sorted(sorted(range(len(arms)), key=rank)[:LOUD])


Point = tuple[int, float, float, float]  # phase, mean, and the ends of its interval


def _points(arm: Arm) -> list[Point]:
    """Points of the phases in which the arm was a candidate with data; without an interval, both ends are the mean."""
    last = arm.dropped_in or arm.first + len(arm.means)
    return [
        (phase, mean, mean if low is None else low, mean if high is None else high)
        for phase, (mean, low, high) in enumerate(zip(arm.means, arm.lows, arm.highs, strict=True), start=arm.first)
        if mean is not None and phase <= last
    ]


def timeline_chart(
    arms: Sequence[Arm], label: str, *, within: tuple[float, float] | None = None, rates: bool = False
) -> Markup:
    """Draw mixed means with their intervals over the phases; the line of an arm ends where the arm was dropped.

    `within` is the range of a reward, if it has one: the axis stays inside this range. With `rates`, values are in per
    cent.
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
    aside = 8 + 2.5 * len(loud)  # room beside the first and the last phase, where marks are drawn side by side
    x = Scale(float(first), last, left + aside, right - aside) if phases > 1 else Scale(last - 1, last + 1, left, right)
    drawn = [
        line(left, y(value), right, y(value), "grid") + text(left - 8, y(value) + 4, label, "soft", "end")
        for value, label in zip(marks, words, strict=True)
    ]
    drawn.append(_phases(x, first, phases, bottom, height))
    quiet = [place for place in range(len(arms)) if place not in loud]
    drawn += [path([(x(phase), y(mean)) for phase, mean, *_ in every[place]], "quiet") for place in quiet]
    draw = _band if phases > MANY else _timeline
    drawn += [draw(every[place], order, len(loud), x, y) for order, place in enumerate(loud)]
    distinguished = zip(loud, names, strict=True)
    labels = [(name, arms[place].dropped_in, order, every[place]) for order, (place, name) in enumerate(distinguished)]
    drawn.append(_labels(labels, y, right, bottom))
    if quiet:
        drawn.append(
            text(WIDTH - 4, height - 4, gettext("and %(count)s more, in grey", count=number(len(quiet))), "soft", "end")
        )
    return svg(WIDTH, height, label, *drawn)


def _phases(x: Scale, first: int, phases: int, bottom: float, height: float) -> Markup:
    # Label at most about twelve phases, counting back from the last one, which always has a label.
    step, last = -(-phases // 12), first + phases - 1
    shown = [phase for phase in range(first, last + 1) if phase == last or (last - phase) % step == 0]
    labels = Markup("").join(text(x(phase), bottom + 18, number(phase), "soft", "middle") for phase in shown)
    return labels + text((x.start + x.end) / 2, height - 4, gettext("phase"), "soft", "middle")


def _timeline(points: Sequence[Point], order: int, count: int, x: Scale, y: Scale) -> Markup:
    room = (x.end - x.start) / (x.high - x.low or 1.0)
    # Arms are drawn side by side, so that their intervals do not hide each other.
    apart = min(5.0, 40.0 / max(count, 1), 0.7 * room / max(count, 1))
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
    """Draw an arm over many phases: like `_timeline`, but with its intervals as a band behind the line."""
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
    """Draw the evidence against every arm, and the threshold for ruling an arm out; notches mark earlier phases."""
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
    drawn.append(text(x(limit), top - 15, gettext("threshold: %(limit)s", limit=real(limit, 2)), "ink", "middle"))
    if len(arms) > len(loud):
        drawn.append(
            text(
                left,
                height - 6,
                gettext(
                    "and %(count)s more; their numbers are in the table below", count=number(len(arms) - len(loud))
                ),
                "soft",
            )
        )
    return svg(WIDTH, height, label, *drawn)


def _state(arm: Arm) -> str:
    """The text beside an arm's bar: its status, or its evidence; evidence that rounds to 0 or is negative is "none"."""
    if arm.chosen or arm.dropped_in:
        word = gettext(arm.status)
        return (
            f"{word} ★" if arm.chosen else gettext("%(status)s in phase %(phase)s", status=word, phase=arm.dropped_in)
        )
    if arm.status is ArmStatus.CLOSED:
        return gettext(arm.status)
    score = arm.scores[-1]
    return gettext("none") if score is not None and score < 0.005 else real(score, 2)


def _evidence(arm: Arm, order: int, x: Scale, limit: float, top: float, row: float) -> Markup:
    last = max(arm.dropped_in - arm.first + 1, 0) if arm.dropped_in else len(arm.scores)
    known = [min(max(score, 0.0), limit) for score in arm.scores[:last] if score is not None]
    known = known or [limit] if arm.dropped_in else known  # dropped before the first phase in the chart
    known = [] if arm.status is ArmStatus.CLOSED else known  # withdrawn or dormant: nothing was proven against it
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
    """Draw a thin bar for a share of evidence, from 0 to 1. Screen readers skip the bar: its number is beside it."""
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


def progress(observed: float, recruited: float, planned: float, due: float | None, label: str) -> Markup:
    """Draw a site's phase: draws observed (full), begun (pale), asked for (outlined), and expected by now (a tick)."""
    x = Scale(0.0, max(planned, recruited) or 1.0, 1.0, 159.0)
    drawn = [
        element("rect", x=x(0), y=4.5, width=x(planned) - x(0), height=9, class_="planned"),
        element("rect", x=x(0), y=4, width=x(recruited) - x(0), height=10, class_="begun"),
        element("rect", x=x(0), y=4, width=x(observed) - x(0), height=10, class_="spent"),
    ]
    if due is not None:
        drawn.append(line(x(due), 1, x(due), 17, "limit"))
    return element("svg", *drawn, class_="bullet progress", viewBox="0 0 160 18", role="img", aria_label=label)


def bullet(spent: float, planned: float, bound: float | None, largest: float, label: str) -> Markup:
    """Draw samples spent (full), samples planned (outlined), and the estimated lower bound (a tick)."""
    x = Scale(0.0, largest or 1.0, 0.0, 238.0)
    drawn = [
        element("rect", x=0, y=5, width=x(spent), height=10, class_="spent"),
        element("rect", x=x(spent), y=5.5, width=x(planned), height=9, class_="planned"),
    ]
    if bound is not None:
        drawn.append(line(x(bound), 1, x(bound), 19, "limit"))
    return element("svg", *drawn, class_="bullet", viewBox="0 0 240 20", role="img", aria_label=label)


SMALLEST_PART = 0.004  # share of a bar; smaller parts would be narrower than a line and are not drawn
MAP_ROW = 40.0  # the height of a site's row in a map of answers
BAND = 26.0  # the height of an agent's row in the chart of robustness
# robustness -> height and class of its bar in the row of an agent
STANDINGS = {"holds": (16.0, "s0"), "proven": (10.0, "s0"), "leads": (4.0, "s0 past"), "other": (1.0, "s1")}


def standing_chart(found: Mapping[str, Any], label: str) -> Markup:
    """Draw how robust each agent's answer is to other weights.

    Each agent has a row: the taller its bar at some weights, the more robust its answer there. A line marks the weights
    of the study.
    """
    agents, values = found["agents"], [step["value"] for step in found["agents"][0]["steps"]]
    names = [clipped(f"{agent['agent']}: {', '.join(agent['arms'])}", 22) for agent in agents]
    left, top, bottom = 14 + max(map(breadth, names)), 6.0, 6.0 + BAND * len(agents)
    x = Scale(values[0], values[-1], left, max(WIDTH, left + 200.0) - 14)
    # Each step's bar reaches halfway to its neighbours.
    ends = [values[0], *((one + other) / 2 for one, other in pairwise(values)), values[-1]]
    drawn = []
    for row, (agent, name) in enumerate(zip(agents, names, strict=True)):
        middle = top + BAND * (row + 0.5)
        drawn.append(text(left - 10, middle + 4, name, "ink", "end"))
        for step, (low, high) in zip(agent["steps"], pairwise(ends), strict=True):
            height, class_ = STANDINGS[step["standing"]]
            size = {"x": x(low), "y": middle - height / 2, "width": x(high) - x(low), "height": height}
            drawn.append(element("rect", **size, class_=class_))
        drawn.append(line(x(agent["stated"]), middle - BAND / 2, x(agent["stated"]), middle + BAND / 2, "limit"))
    marks = ticks(values[0], values[-1], 4)
    drawn += [
        text(x(value), bottom + 18, words, "soft", "middle")
        for value, words in zip(marks, tick_words(marks), strict=True)
    ]
    return svg(x.end + 14, bottom + 28, label, *drawn)


def map_chart(maps: Sequence[Mapping[str, Any]], label: str) -> Markup:
    """Draw which answer holds at which weights: a row per site, a dot per step of the weights.

    A bar joins neighbouring steps with the same answer, with a gap where the answer changes. Every step in any site's
    map has a column. Some sites have finer steps than others, and a site has no dot at a step that its map lacks.
    """
    named = {one["questions"].index(step["question"]): step["step"] for one in maps for step in one["steps"]}
    steps = [named[place] for place in sorted(named)]
    names = [clipped(one["agent"], 22) for one in maps]
    every = list(dict.fromkeys(", ".join(step["arms"]) for one in maps for step in one["steps"] if step["arms"]))
    left, top = 34 + max(map(breadth, names)), 6.0
    bottom = top + MAP_ROW * len(maps)
    x = Scale(0.0, len(steps) - 1.0, left, max(WIDTH, left + 60.0 * len(steps)) - 44)
    drawn = []
    for row, (one, name) in enumerate(zip(maps, names, strict=True)):
        middle = top + MAP_ROW * (row + 0.6)
        drawn.append(text(left - 24, middle + 4, name, "ink", "end"))
        for found in one["ranges"]:
            answer, first, last = ", ".join(found["arms"]), steps.index(found["from"]), steps.index(found["to"])
            class_ = f"s{every.index(answer) % len(SHAPES)}"
            size = {"x": x(first) - 6, "y": middle - 6, "width": x(last) - x(first) + 12, "height": 12, "rx": 6}
            drawn.append(element("rect", **size, class_=class_))
            drawn.append(text((x(first) + x(last)) / 2, middle - 11, clipped(answer, 20), "soft", "middle"))
        drawn += [
            mark("circle", x(place), middle, 2.0, "paper")
            if step["arms"]
            else mark("bar", x(place), middle, 4.0, "soft")
            for place, step in ((steps.index(step["step"]), step) for step in one["steps"])
        ]
    drawn += [text(x(place), bottom + 18, clipped(step, 14), "soft", "middle") for place, step in enumerate(steps)]
    return svg(x.end + 44, bottom + 28, label, *drawn)


def mix_chart(names: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]], label: str) -> Markup:
    """Draw a bar per question, divided into the shares of the agents whose results count. Wide shares have a label."""
    shown = [clipped(name, 18) for name, _ in rows]
    left, top, height = 14 + max(map(breadth, shown)), 6.0, 28.0
    width = max(WIDTH, left + 260.0)
    x, drawn = Scale(0.0, 1.0, left, width - 8), list[Markup]()
    for row, (name, (_, shares)) in enumerate(zip(shown, rows, strict=True)):
        begin, y = 0.0, top + height * row
        drawn.append(text(left - 10, y + 16, name, "ink", "end"))
        for place, share in enumerate(shares):
            if share < SMALLEST_PART:
                continue
            across = x(begin + share) - x(begin)
            part = {"x": x(begin), "y": y, "width": max(across - 1.5, 0.5), "height": 22.0}
            drawn.append(element("rect", **part, class_=f"s{place % len(SHAPES)} part"))
            if breadth(names[place]) + 8 <= across:
                drawn.append(text(x(begin) + 6, y + 16, names[place], "on"))
            begin += share
    return svg(width, top + height * len(rows), label, *drawn)


WIDE, ROOM, LINE = 640.0, 12.0, 17.0  # the flow chart's width, the space around its boxes, the height of a text line
BESIDE = 4  # boxes in a row


def flow_chart(
    trunk: Sequence[tuple[Sequence[str], Sequence[str]]], leaves: Sequence[Sequence[str]], label: str
) -> Markup:
    """Draw how many draws were planned, assigned and counted, like CONSORT's flow of participants.

    `trunk` has the boxes of the main column, each with the box beside it (empty: no box). `leaves` has a box per arm. A
    box is a list of text lines.
    """
    drawn, top, middle, width = list[Markup](), 1.0, 151.0, 300.0
    for place, (box, aside) in enumerate(trunk):
        if place:
            drawn.append(line(middle, top - 2 * ROOM, middle, top, "way"))
        height = max(len(box), len(aside)) * LINE + ROOM
        drawn.append(_box(box, 1, top, width, height))
        if aside:
            drawn.append(line(1 + width, top + height / 2, WIDE - width - 1, top + height / 2, "way"))
            drawn.append(_box(aside, WIDE - width - 1, top, width, height))
        top += height + 2 * ROOM
    each = (WIDE - 2 - ROOM * (BESIDE - 1)) / BESIDE
    for begin in range(0, len(leaves), BESIDE):
        row = leaves[begin : begin + BESIDE]
        height = max(map(len, row)) * LINE + ROOM
        drawn += [_box(box, 1 + place * (each + ROOM), top, each, height) for place, box in enumerate(row)]
        top += height + ROOM
    return svg(WIDE, top, label, *drawn, kind="figure flow")


def _box(lines: Sequence[str], left: float, top: float, width: float, height: float) -> Markup:
    """Draw a box with its first line emphasized; long names are cut off with dots, since tables have them in full."""
    words = [
        text(left + 8, top + 18 + LINE * place, clipped(one, int(width / 7.2)), "soft" if place else "ink")
        for place, one in enumerate(lines)
    ]
    return element("g", element("rect", x=left, y=top, width=width, height=height, class_="box"), *words)
