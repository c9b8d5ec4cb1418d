"""What the totals of one arm can be: exactly those that some rewards have, up to the rounding of whoever added them up.

Of n rewards with sum S, the squares are least when all are equal (S^2 / n) and, within [low, high], most when all but
one lie at an end (the sum of squares is convex, so its maximum is a corner). One reward has one square. Everything in
between can happen.
"""

from __future__ import annotations

import math

__all__ = ["flaw"]

ROUNDING = 1e-9  # relative to the sum of what was added up, in any order
OWN = 1e-15  # of the few operations here
UNDERFLOW = 1e-300  # a square below this may have become 0


def flaw(count: int, total: float, square: float, low: float | None, high: float | None) -> tuple[str, str] | None:
    """Which of "sums" and "squares" no `count` rewards can have, and what is possible; None if all is well.

    >>> flaw(10, 1.0, 1.0, 0.0, 1.0)
    >>> flaw(10, 1.0, 10.0, 0.0, 1.0)
    ('squares', 'at most 1, with the sum 1 of 10 rewards between 0 and 1')
    >>> flaw(1, 2.0, 1e6, None, None)
    ('squares', 'at most 4, with the sum 2 of 1')
    """
    if count == 0:
        wrong = "sums" if total != 0 else "squares" if square != 0 else None
        return (wrong, "0 where nothing was drawn") if wrong else None
    if square < 0 or abs(total) > math.sqrt(count) * _root(square, count) * (1 + ROUNDING):
        return "squares", f"at least sum^2 / count, with the sum {total:.9g} of {count}"
    if low is None or high is None:
        if count == 1 and _root(square, 0) > abs(total) * (1 + ROUNDING) + math.sqrt(UNDERFLOW):
            return "squares", f"at most {total * total:.9g}, with the sum {total:.9g} of 1"
        return None
    rewards = f"{count} rewards between {low:g} and {high:g}"
    largest = max(abs(low), abs(high))
    added = min(count * largest, math.sqrt(count) * _root(square, 0))  # no sum of absolute rewards exceeds it
    slack = ROUNDING * added + OWN * count * largest
    if not count * low - slack <= total <= count * high + slack:
        return "sums", rewards
    most = _most_square(count, total, low, high)
    if square > most + 2 * largest * slack + ROUNDING * square:
        return "squares", f"at most {most:.9g}, with the sum {total:.9g} of {rewards}"
    return None


def _root(square: float, count: int) -> float:
    """The root of a sum of squares, with what may have been lost of `count` of them."""
    return math.hypot(math.sqrt(square), math.sqrt(count * UNDERFLOW))


def _most_square(count: int, total: float, low: float, high: float) -> float:
    """The largest sum of squares: as many as fit at `high`, one in between, the rest at `low`.

    >>> _most_square(4, 2.5, 0.0, 1.0), _most_square(2, 0.0, -1.0, 1.0)
    (2.25, 2.0)
    """
    width = high - low
    above = min(max(total - count * low, 0.0), count * width)  # over what `count` times `low` gives
    whole = min(math.floor(above / width), count)
    rest = min(max(above - whole * width, 0.0), width)
    return count * low * low + 2 * low * above + whole * width * width + rest * rest
