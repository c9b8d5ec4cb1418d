"""SVG pictures without a plotting library: elements, scales, ticks, labels, marks, and the calendar of a study.

Colours and typefaces come from the page's style sheet. The calendar is in this module because both the dashboard and
the page of a plan contain it.
"""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from parley.text.formatting import number, real
from parley.text.translation import gettext

LETTER = 8.6  # width of a letter in a figure's units, at the size of figures on a phone


def element(name: str, *inside: str, **attributes: object) -> Markup:
    """An SVG element. Attributes and text are escaped; in attribute names, `_` becomes `-`, and `class_` is `class`.

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
    """An SVG picture of the given size, with `label` as its text alternative."""
    box = f"0 0 {_short(float(width))} {_short(float(height))}"
    return element("svg", *inside, class_=kind, viewBox=box, role="img", aria_label=label)


@dataclass(frozen=True)
class Scale:
    """Linear map from values to positions: `low` is drawn at `start`, and `high` at `end`.

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
    """Round numbers between `low` and `high` for the ticks of an axis, with at most `about` steps.

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


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers for a logarithmic axis: 1, 2 and 5 times powers of 10; over three decades, only powers of 10.

    >>> log_ticks(80, 3_000), log_ticks(0.02, 1e6)[:3]
    ([100.0, 200.0, 500.0, 1000.0, 2000.0], [0.1, 1.0, 10.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high < 1000 * low else (1,)
    every = [float(f"{factor}e{power}") for power in decades for factor in factors]
    return [value for value in every if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def tick_words(values: Sequence[float], *, rates: bool = False) -> list[str]:
    """Tick labels with enough decimals to distinguish them; rates are in per cent.

    >>> tick_words([0.03, 0.035]), tick_words([8e6, 1e7]), tick_words([0.03, 0.035], rates=True)
    (['0.030', '0.035'], ['8,000,000', '10,000,000'], ['3.0 %', '3.5 %'])
    """
    shown = [100 * value for value in values] if rates else list(values)
    step = min((after - before for before, after in pairwise(shown)), default=1.0)
    digits = next((count for count in range(9) if math.isclose(round(step, count), step, rel_tol=1e-6)), 9)
    return [real(value, digits) + (" %" if rates else "") for value in shown]


def breadth(words: str) -> float:
    """The approximate width of a label in a figure's units; a Chinese or Japanese character counts as two letters.

    >>> round(breadth("A"), 1), round(breadth("日"), 1)
    (8.6, 17.2)
    """
    return LETTER * sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in words)


def clipped(words: str, longest: int = 16) -> str:
    """Shorten a name to the width of `longest` letters; an ellipsis marks the cut.

    >>> clipped("combination"), clipped("variety one of the northern plain")
    ('combination', 'variety one of …')
    """
    if breadth(words) <= LETTER * longest:
        return words
    while breadth(words) > LETTER * (longest - 1):
        words = words[:-1]
    return words + "…"


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Positions for labels: in the order of the wanted positions, close to them, and at least `apart` from each other.

    >>> spread([10.0, 11.0, 50.0], 12.0, 0.0, 100.0)
    [10.0, 22.0, 50.0]
    """
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    places = [min(max(value, low), high) for value in wanted]
    # Labels are first pushed towards `high`; if the last label then lies beyond `high`, labels are pushed back.
    for before, after in pairwise(order):
        places[after] = max(places[after], places[before] + apart)
    if order and places[order[-1]] > high:
        places[order[-1]] = high
        for after, before in pairwise(order[::-1]):
            places[before] = min(places[before], places[after] - apart)
    return places


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
    """A mark, whose `shape` is a name in `SHAPES`, centred at (x, y)."""
    if shape == "circle":
        return element("circle", cx=x, cy=y, r=size, class_=class_)
    return area([(x + dx * size, y + dy * size) for dx, dy in SHAPES[shape]], class_)


def text(x: float, y: float, words: object, class_: str, anchor: str = "start") -> Markup:
    """A text label at (x, y); the words are escaped."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through the points, in their order."""
    return element("polyline", points=" ".join(f"{_short(x)},{_short(y)}" for x, y in points), class_=class_)


def area(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A filled polygon with the points as corners."""
    return element("polygon", points=" ".join(f"{_short(x)},{_short(y)}" for x, y in points), class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line from (x1, y1) to (x2, y2)."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


MOST_SITES = 40  # largest number of sites in a calendar; more rows would be too long to read


def phase_begins(days: Sequence[Sequence[float]], delay: Sequence[float], round_days: float) -> list[float]:
    """The days on which the phases begin, and the day on which the last phase ends.

    `days (phase, agent)` is how long each agent draws in each phase. Outcomes arrive `delay (agent,)` days later, and
    every round of communication takes `round_days`.

    >>> phase_begins([[4.0, 2.0], [4.0, 0.0]], delay=[0.0, 3.0], round_days=2.0)
    [0.0, 7.0, 13.0]
    """
    begins = [0.0]
    for row in days:
        outcomes = (drawing + late if drawing else 0.0 for drawing, late in zip(row, delay, strict=True))
        begins.append(begins[-1] + max(outcomes) + round_days)
    return begins


def calendar_chart(
    agents: Sequence[str],
    days: Sequence[Sequence[float]],
    delay: Sequence[float],
    round_days: float,
    *,
    decided: int | None = None,
) -> Markup:
    """The calendar of a study: a row per site, and a bar for the days on which a site draws in a phase.

    Gaps between bars are waits for the slowest site and for late outcomes. `days` is `(phase, agent)`. Only the first
    `decided` phases are decided; later phases are planned, so their bars are outlines.
    """
    width, left, right, row_height, top = 720.0, 150.0, 704.0, 22.0, 22.0
    begins = phase_begins(days, delay, round_days)
    shown = agents[:MOST_SITES]
    x, bottom = Scale(0.0, begins[-1] or 1.0, left, right), top + row_height * len(shown)
    made = [line(x(begin), top - 4, x(begin), bottom, "grid") for begin in begins[:-1]]
    free = left
    for phase, begin in enumerate(begins[:-1], start=1):
        if x(begin) >= free:  # skip a label that would overlap the one before
            made.append(text(x(begin), top - 9, gettext("phase %(phase)s", phase=phase), "soft"))
            free = x(begin) + 58
    for place, name in enumerate(shown):
        middle = top + row_height * (place + 0.5)
        made.append(text(left - 10, middle + 4, clipped(name, 20), "ink", "end"))
        for phase, row in enumerate(days):
            if row[place] > 0:
                outlined = decided is not None and phase >= decided
                class_ = "planned" if outlined else f"s{phase % len(SHAPES)}"
                bar = {"x": x(begins[phase]), "y": middle - 7, "width": x(row[place]) - x(0.0), "height": 14}
                made.append(element("rect", **bar, class_=class_))
    made += [text(x(day), bottom + 18, number(day), "soft", "middle") for day in ticks(0.0, begins[-1])]
    hidden = len(agents) - len(shown)
    days_word = gettext("and %(count)s more; days", count=number(hidden)) if hidden else gettext("days")
    made.append(text(left - 10, bottom + 18, days_word, "soft", "end"))
    taken = [sum(row[place] + delay[place] for row in days if row[place] > 0) for place in range(len(agents))]
    slow = agents[taken.index(max(taken))]
    label = gettext(
        "Phases by site over %(days)s days at the stated rates; %(slow)s takes longest",
        days=number(begins[-1]),
        slow=slow,
    )
    return svg(width, bottom + 28, label, *made)
