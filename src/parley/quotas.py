"""From a real-valued allocation to exact integer counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parley.errors import InvalidInput
from parley.problem import FloatArray, IntArray

__all__ = ["smallest_counts", "whole_counts"]

LARGEST_COUNT = 2.0**53  # beyond this float64 no longer tells whole numbers apart


def whole_counts(values: FloatArray) -> IntArray:
    """Round up to whole draws; a number that no study could draw is an error, never an overflow.

    >>> whole_counts(np.array([0.0, 1.2])).tolist()
    [0, 2]
    """
    largest = float(np.max(values, initial=0.0))
    if not largest <= LARGEST_COUNT:
        raise InvalidInput(
            "planned draws",
            found=f"{largest:.3g} of one arm by one agent",
            allowed="at most 2^53",
            hint="The gaps are too small to be told apart by any study; set a sample cap",
        )
    return np.ceil(values).astype(np.int64)


def smallest_counts(counts: IntArray, allocation: FloatArray, threshold: Callable[[IntArray], FloatArray]) -> IntArray:
    """The smallest integers `n >= counts` with `n >= allocation * threshold(n)`, all `(..., arm, agent)`.

    W-CPE asks for the fewest further draws that meet this (Algorithm 1). `threshold` is `(..., arm, 1)` and does not
    decrease in any count, so the points that meet it form a lattice: its least element is the limit of
    `n <- max(counts, ceil(allocation * threshold(n)))` from below, and it minimises every count at once.

    >>> n = np.array([[1, 1]])
    >>> smallest_counts(n, np.array([[2.0, 0.5]]), lambda n: np.log(4.0 + n.sum(axis=-1, keepdims=True))).tolist()
    [[5, 2]]
    """
    if (allocation < 0).any() or not np.isfinite(allocation).all():
        raise InvalidInput("allocation", found=allocation.min(), allowed="finite numbers of at least 0")
    least = counts
    while True:
        following = np.maximum(counts, whole_counts(allocation * threshold(least)))
        if (following == least).all():
            return following
        least = following
