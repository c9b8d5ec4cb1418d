"""Forest plots: estimates and intervals of one agent's arms, for the dashboard and the page of an analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from parley.experiments.report_kit.svg import (
    LETTER,
    Scale,
    breadth,
    clipped,
    element,
    line,
    mark,
    svg,
    text,
    tick_words,
    ticks,
)
from parley.text.formatting import estimate_text, number, real, unit_of
from parley.text.status import ArmStatus
from parley.text.translation import gettext

MOST = 24  # largest number of arms in a forest plot; the table beside it has all arms
CAP = 4.0  # half the height of the caps at an interval's ends
WORDS_ROOM, BAND, EDGE = (
    24.0,
    20.0,
    28.0,
)  # height of a row's words and of its interval; numbers closer than EDGE to either end would be cut off
LINE = 18.0  # height of a line of words below the axis
FOREST, ROW, TOP = 420.0, 48.0, 6.0  # narrow enough for a phone: names and numbers are above their intervals
Found = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Harm:
    """The values of a guardrail's outcome that count as harm: the values above a bound, or the values below it."""

    bound: float
    above: bool  # whether harm lies above the bound
    words: str  # describes the bound in a sentence

    def shade(self, x: Scale, top: float, height: float) -> Markup:
        """The shaded region of harm behind an arm's interval, as an SVG rectangle."""
        low, high = (x(self.bound), x.end) if self.above else (x.start, x(self.bound))
        return element("rect", x=low, y=top, width=max(high - low, 0.0), height=height, class_="harm")


def forest_chart(
    arms: Sequence[Found],
    kind: str,
    label: str,
    *,
    to: str | None = None,
    rates: bool = False,
    tolerance: float = 0.0,
    harm: Harm | None = None,
) -> Markup:
    """A forest plot of one agent's `arms`, given in the form in which the API returns them.

    `kind` selects the estimates: "mean", "to_leader" or "to_control". For differences, `to` is the arm to which the
    others are compared, and differences within the `tolerance` are shaded: such arms count as equally good. For a
    guardrail, `harm` is shaded.
    """
    shown = list(arms[:MOST]) if harm else _shown(arms)
    ends = [
        float(value)
        for arm in shown
        for name in ("estimate", "low", "high", "fixed_low", "fixed_high")
        if (value := arm[kind][name]) is not None
    ]
    within = 0.0 if to is None else tolerance
    ends = (ends if to is None else [*ends, -within, within]) or ([] if harm else [0.0, 1.0])
    ends += [harm.bound] if harm else []
    low, high = min(ends), max(ends)
    margin = (high - low) * 0.04 or 0.5
    x, bottom = Scale(low - margin, high + margin, 0.0, FOREST), TOP + ROW * len(shown)
    captions = _captions(to, within, rates=rates, harm=harm is not None)
    height = bottom + 26.0 + LINE * (len(captions) + (len(shown) < len(arms)))
    marks = ticks(x.low, x.high, 4)
    lines = [(x(value), "grid") for value in marks] + ([(x(0.0), "limit")] if to is not None else [])
    lines += [(x(harm.bound), "margin")] if harm else []
    points = rates and to is not None  # differences of rates: the caption names their unit, percentage points
    labels = tick_words([100 * value for value in marks] if points else marks, rates=rates and not points)
    words = zip(marks, labels, strict=True)
    band = {"x": x(-within), "width": x(within) - x(-within), "height": BAND, "class_": "equivalent"}
    drawn = [_tick(x(value), bottom + 18, shown_as) for value, shown_as in words]
    for place in range(len(shown)):  # shading and grid lines are only behind intervals, so that words stay legible
        begin = TOP + ROW * place + WORDS_ROOM
        drawn += [element("rect", y=begin, **band)] if within else []
        drawn += [harm.shade(x, begin, BAND)] if harm else []
        drawn += [line(across, begin, across, begin + BAND, class_) for across, class_ in lines]
    drawn += [_row(arm, kind, x, TOP + ROW * place, to, rates=rates) for place, arm in enumerate(shown)]
    drawn += [
        text(FOREST / 2, bottom + 37 + LINE * place, words, "soft", "middle") for place, words in enumerate(captions)
    ]
    if len(shown) < len(arms):
        drawn.append(
            text(
                0, height - 4, gettext("and %(count)s more, in the table", count=number(len(arms) - len(shown))), "soft"
            )
        )
    return svg(FOREST, height, label, *drawn, kind="figure forest")


def _captions(to: str | None, within: float, *, rates: bool, harm: bool) -> list[str]:
    """The captions of the axis and the shading: one line, or two if one would be wider than the picture."""
    what = gettext("mixed mean") if to is None else gettext("difference from %(arm)s", arm=clipped(to, 24))
    what += gettext(", in points") if rates and to is not None else ""
    shaded = ""
    if within:
        room = gettext("%(points)s points", points=f"{100 * within:g}") if rates else real(within)
        shaded += gettext("; shaded: within %(tolerance)s", tolerance=room)
    shaded += gettext("; shaded: harm") if harm else ""
    return [what + shaded] if breadth(what + shaded) <= FOREST else [what, *filter(None, [shaded.lstrip("; ")])]


def _tick(across: float, y: float, words: str) -> Markup:
    """A number on the axis, aligned so that it stays inside the picture at either end."""
    if across < EDGE:
        return text(0, y, words, "soft")
    return text(FOREST, y, words, "soft", "end") if across > FOREST - EDGE else text(across, y, words, "soft", "middle")


def _shown(arms: Sequence[Found]) -> list[Found]:
    """Up to MOST arms with the best estimates, best first."""

    def rank(arm: Found) -> float:
        value = arm["mean"]["estimate"]
        return -value if value is not None else float("inf")

    return sorted(arms, key=rank)[:MOST]


def _row(arm: Found, kind: str, x: Scale, top: float, to: str | None, *, rates: bool) -> Markup:
    """The row of an arm: its name and numbers, and below them its interval."""
    found, soft = arm[kind], "soft" if arm["dropped_in"] else "ink"
    past = "" if soft == "ink" else " past"
    chosen, words = arm["status"] == ArmStatus.CHOSEN, estimate_text(found, unit=unit_of(kind, rates=rates))
    # An arm with few draws may have an interval but no estimate yet, or an estimate but no interval.
    known = arm["arm"] != to and None not in (found["estimate"], found["low"], found["high"])
    if not known:
        words = gettext("0, by definition") if arm["arm"] == to else gettext("no data")
    beside = (" ★" if chosen else "") + arm.get("beside", "")
    room = int((FOREST - breadth(words + beside)) / LETTER) - 1  # between the name and its numbers
    drawn = [
        text(0, top + 15, clipped(arm["arm"], min(20, max(room, 3))) + beside, soft),
        text(FOREST, top + 15, words, soft, "end"),
    ]
    if known:
        low, high, middle = x(found["low"]), x(found["high"]), top + WORDS_ROOM + BAND / 2
        drawn += [
            line(x(found["fixed_low"]), middle, x(found["fixed_high"]), middle, f"s0 fixed{past}"),
            line(low, middle, high, middle, f"s0 whole{past}"),
            *(line(end, middle - CAP, end, middle + CAP, f"s0 whole{past}") for end in (low, high)),
            mark("star" if chosen else "square", x(found["estimate"]), middle, 4.0, f"s0{past}"),
        ]
    return element("g", element("title", f"{arm['arm']}: {words}"), *drawn)


def margin_bar(found: Found, harm: Harm, ends: Sequence[float]) -> Markup:
    """A small picture of an interval and a guardrail's bound, for one row of a table.

    `ends` are the ends of the intervals of all rows, so that all rows have the same scale.
    """
    low, high = min([*ends, harm.bound]), max([*ends, harm.bound])
    margin = (high - low) * 0.08 or 1.0
    x = Scale(low - margin, high + margin, 0.0, 100.0)
    drawn = [harm.shade(x, 0.0, 10.0), line(x(harm.bound), 0, x(harm.bound), 10, "margin")]
    if None not in (found.get("estimate"), found.get("low"), found.get("high")):
        drawn.append(line(x(found["low"]), 5, x(found["high"]), 5, "s0 whole"))
        drawn.append(mark("square", x(found["estimate"]), 5, 2.0, "s0"))
    return element("svg", *drawn, class_="figure guard", viewBox="0 0 100 10", aria_hidden="true")
