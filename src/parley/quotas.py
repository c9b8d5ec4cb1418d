"""From a real-valued allocation to exact integer counts."""

from collections.abc import Callable

import numpy as np

from parley.errors import InvalidInput
from parley.problem import FloatArray, IntArray

LARGEST_COUNT = 2.0**53  # beyond this float64 no longer tells whole numbers apart


def whole_counts(values: FloatArray) -> IntArray:
    """Round up to whole draws. A number that no study could draw is an error, never an overflow.

    >>> whole_counts(np.array([0.0, 1.2])).tolist()
    [0, 2]
    """
    largest = float(np.max(values, initial=0.0))
    if not largest <= LARGEST_COUNT:
        raise InvalidInput(
            "planned draws",
            found=f"{largest:.3g} of one arm by one agent",
            allowed="at most 2^53",
            hint="No study could tell gaps this small apart; set max_samples",
        )
    return np.ceil(values).astype(np.int64)


def raise_cells(quotas: IntArray, minimum: int) -> IntArray:
    """Raise cells of 1 to `minimum` - 1 draws to `minimum`; a cell of 0 stays 0.

    >>> raise_cells(np.array([0, 1, 4, 9]), 5).tolist()
    [0, 5, 5, 9]
    """
    return np.where(quotas > 0, np.maximum(quotas, minimum), quotas)


def cut_to(quotas: IntArray, left: IntArray, minimum: int = 1) -> IntArray:
    """Cut quotas `(..., arm, agent)` to `left (...)` draws in total, in the same proportions.

    A cell that falls below the minimum becomes 0. If no cell would remain, the largest takes what is left.

    >>> cut_to(np.array([[10, 20], [30, 0]]), np.array(7)).tolist()
    [[1, 2], [4, 0]]
    >>> cut_to(np.array([[10, 20], [30, 0]]), np.array(7), minimum=5).tolist()
    [[0, 0], [7, 0]]
    """
    total = quotas.sum(axis=(-2, -1))
    over = total > left
    if not over.any():
        return quotas
    share = np.minimum(left / np.maximum(total, 1), 1.0)[..., None, None]
    flat = np.floor(quotas * share).astype(np.int64).reshape(*total.shape, -1)
    rest = (quotas * share).reshape(flat.shape) - flat
    # The draws lost by rounding down go to the largest remainders.
    places = np.argsort(np.argsort(-rest, axis=-1, kind="stable"), axis=-1, kind="stable")
    flat = flat + (places < np.maximum(left - flat.sum(axis=-1), 0)[..., None]) * (rest > 0)
    flat = np.where(flat >= minimum, flat, 0)
    largest = np.argmax(quotas.reshape(flat.shape), axis=-1)[..., None]
    lone = np.minimum(np.take_along_axis(quotas.reshape(flat.shape), largest, axis=-1), left[..., None])
    single = np.zeros_like(flat)
    np.put_along_axis(single, largest, np.where(lone >= minimum, lone, 0), axis=-1)
    flat = np.where(flat.any(axis=-1, keepdims=True), flat, single)
    return np.where(over[..., None, None], flat.reshape(quotas.shape), quotas)


def smallest_counts(
    counts: IntArray, allocation: FloatArray, threshold: Callable[[IntArray], FloatArray], minimum_cell: int = 1
) -> IntArray:
    """The smallest integers `n >= max(counts, 1)` with `n >= allocation * threshold(n)`, all `(..., arm, agent)`.

    W-CPE asks for the fewest further draws that meet this (Algorithm 1). `threshold` is `(..., arm, 1)` and does not
    decrease in any count, so the points that meet it form a lattice: its least element is the limit of
    `n <- max(counts, ceil(allocation * threshold(n)))` from below, and it minimises every count at once. The points
    where each `n - counts` is also 0 or at least `minimum_cell` form a lattice too. Raising cells afterwards would be
    wrong: more draws by one agent raise the threshold, and with it what the others need.

    >>> n = np.array([[1, 1]])
    >>> beta = lambda n: np.log(4.0 + n.sum(axis=-1, keepdims=True))
    >>> smallest_counts(n, np.array([[2.0, 0.5]]), beta).tolist()
    [[5, 2]]
    >>> smallest_counts(n, np.array([[2.0, 0.5]]), beta, minimum_cell=20).tolist()
    [[21, 21]]
    """
    if (allocation < 0).any() or not np.isfinite(allocation).all():
        raise InvalidInput("allocation", found=allocation.min(), allowed="finite numbers of at least 0")
    first = np.maximum(counts, 1)
    least = counts + raise_cells(first - counts, minimum_cell)
    while True:
        needed = np.maximum(first, whole_counts(allocation * threshold(least)))
        following = counts + raise_cells(needed - counts, minimum_cell)
        if (following == least).all():
            return following
        least = following
