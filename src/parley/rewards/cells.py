"""What the totals of one arm can be: exactly those that some rewards have, up to the rounding of whoever added them up.

Of n rewards with sum S, the squares are least when all are equal (S^2 / n) and, within [low, high], most when all but
one lie at an end (the sum of squares is convex, so its maximum is a corner). One reward has one square. Everything in
between can happen, up to rewards so large that a study could not add them up.
"""

from __future__ import annotations

import math

__all__ = ["LARGEST_REWARD", "Flaw", "flaw", "rough_flaw", "two_valued_flaw"]

Flaw = tuple[str, str]  # which of "sums" and "squares" cannot be, and what can

LARGEST_REWARD = 1e70  # scales are up to 1e60; fourth powers, and sums of a whole study's, are still numbers
ROUNDING = 1e-9  # relative to the sum of what was added up, in any order
EPSILON = 2.3e-16  # of one addition; within bounds far from 0, a billionth would be more than the whole range
OWN = 1e-15  # of the few operations here
UNDERFLOW = 1e-300  # a square below this may have become 0


def flaw(count: int, total: float, square: float, low: float | None, high: float | None) -> Flaw | None:
    """Which of "sums" and "squares" no `count` rewards can have, and what is possible; None if all is well.

    >>> flaw(10, 1.0, 1.0, 0.0, 1.0)
    >>> flaw(10, 1.0, 10.0, 0.0, 1.0)
    ('squares', 'at most 1, with the sum 1 of 10 rewards between 0 and 1')
    >>> flaw(1, 2.0, 1e6, None, None)
    ('squares', 'at most 4, with the sum 2 of 1')
    """
    if count == 0:
        return _nothing_drawn(total, square)
    if square > count * LARGEST_REWARD**2:
        return "squares", f"those of {count} rewards, none beyond {LARGEST_REWARD:g}"
    rounding = ROUNDING if low is None or high is None else min(ROUNDING, (count + 64) * EPSILON)
    if square < 0 or abs(total) > math.sqrt(count) * _root(square, count) * (1 + rounding):
        return "squares", f"at least sum^2 / count, with the sum {total:.9g} of {count}"
    if low is None or high is None:
        if count == 1 and _root(square, 0) > abs(total) * (1 + ROUNDING) + math.sqrt(UNDERFLOW):
            return "squares", f"at most {total * total:.9g}, with the sum {total:.9g} of 1"
        return None
    rewards = f"{count} rewards between {low:g} and {high:g}"
    largest = max(abs(low), abs(high))
    added = min(count * largest, math.sqrt(count) * _root(square, 0))  # no sum of absolute rewards exceeds it
    slack = rounding * added + OWN * count * largest
    if not count * low - slack <= total <= count * high + slack:
        return "sums", rewards
    most = _most_square(count, total, low, high)
    if square > most + 2 * largest * slack + rounding * square:
        return "squares", f"at most {most:.9g}, with the sum {total:.9g} of {rewards}"
    return None


def two_valued_flaw(count: int, total: float, square: float) -> Flaw | None:
    """The same of rewards that are 0 or 1: their sum is a whole number, exactly, and each is its own square.

    >>> two_valued_flaw(10, 3.0, 3.0), two_valued_flaw(10, 2.5, 2.5)
    (None, ('sums', 'a whole number from 0 to 10'))
    >>> two_valued_flaw(10, 3.0, 2.0)
    ('squares', '3, the sum: 0 and 1 are their own squares')
    """
    if not 0 <= total <= count or total != math.floor(total):
        return "sums", f"a whole number from 0 to {count}"
    if square != total:
        return "squares", f"{total:.9g}, the sum: 0 and 1 are their own squares"
    return None


def rough_flaw(count: int, total: float, square: float, low: float | None, high: float | None) -> Flaw | None:
    """As `flaw`, the way it was asked before records had salts: what was taken then stands.

    >>> rough_flaw(10, 1.0, 10.0, 0.0, 1.0), rough_flaw(1, 2.0, 1e6, None, None)
    (None, None)
    >>> rough_flaw(10, 11.0, 11.0, 0.0, 1.0)
    ('squares', 'at least sum^2 / count, with the sum 11 of 10')
    """
    if count == 0:
        return _nothing_drawn(total, square)
    if square < 0 or abs(total) > _largest_sum(count, square):
        return "squares", f"at least sum^2 / count, with the sum {total:.9g} of {count}"
    if low is None or high is None:
        return None
    largest = max(abs(low), abs(high))
    slack = ROUNDING * count * largest
    rewards = f"{count} rewards between {low:g} and {high:g}"
    if not count * low - slack <= total <= count * high + slack:
        return "sums", rewards
    if square > (count * largest + slack) * largest:
        return "squares", f"{rewards}, each squared"
    return None


def _nothing_drawn(total: float, square: float) -> Flaw | None:
    wrong = "sums" if total != 0 else "squares" if square != 0 else None
    return (wrong, "0 where nothing was drawn") if wrong else None


def _largest_sum(count: int, square: float) -> float:
    """Cauchy-Schwarz, |sum x| <= sqrt(n) sqrt(sum x^2), with room for rounding. No finite square overflows it.

    >>> _largest_sum(100, 1e308) < 1e200
    True
    """
    return math.sqrt(count) * math.hypot(math.sqrt(square), math.sqrt(ROUNDING)) * (1 + ROUNDING)


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
