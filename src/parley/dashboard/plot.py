"""What the figures are made of: SVG elements, scales, ticks, marks that can be told apart without colour.

Colours are classes that the style sheet fills, light and dark; nothing here carries a style of its own, so that the
pages' Content-Security-Policy needs no exception.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from parley.formatting import real

__all__ = ["SHAPES", "Scale", "breadth", "clipped", "element", "mark", "spread", "svg", "tick_words", "ticks"]

LETTER = 8.6  # of a figure's units, at the size that a phone shows


def element(name: str, *inside: str, **attributes: object) -> Markup:
    """An element; attributes and text are escaped, `_` stands for `-` and `class_` for `class`.

    >>> str(element("text", "<b>", x=1.23456, text_anchor="end"))
    '<text x="1.23" text-anchor="end">&lt;b&gt;</text>'
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>{''.join(map(escape, inside))}</{name}>")  # every part is escaped above


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
