"""Scales in the forms that a study file allows (a number, a row per agent, or a matrix), and their keys in [noise]."""

from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.settings import NUMBER, Key
from parley.validation.checks import LARGEST_SCALE, FloatArray, positive

SCALE = Key(
    kinds=(int, float, list, str),
    meaning="the standard deviation: a number, a row per agent, or a matrix with a row per arm. Gaussian also "
    '`"unknown"` (one scale per arm and agent), `"unknown per agent"` or `"unknown, shared"`',
    default='gaussian: `"unknown"`; subgaussian: 1.0',
)
GUESS = Key(
    kinds=NUMBER,
    meaning="about the standard deviation, where it is not known; sizes the first phase only",
    default="gaussian: 1.0; bounded: a quarter of the range",
)

# A number, a row per agent, or a matrix with a row per arm; tuples, because they compare and hash.
Scale = float | tuple[float, ...] | tuple[tuple[float, ...], ...]
ALLOWED = "a number, a row (one per agent) or a matrix (a row per arm), all above 0"


def checked_scale(key: str, value: Any) -> Scale:
    """Check a stated scale and return its shortest form: a number if all values are equal, a row if all rows are.

    >>> checked_scale("noise.scale", [[1, 2], [1, 2]])
    (1.0, 2.0)
    """
    if not isinstance(value, list | tuple | np.ndarray):
        return positive(key, value)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(key, found=repr(value)[:80], allowed=ALLOWED) from None
    if not (array.ndim in (1, 2) and array.size and ((array > 0) & (array <= LARGEST_SCALE)).all()):
        raise InvalidInput(key, found=repr(value)[:80], allowed=ALLOWED)
    while array.ndim and (array == array[0]).all():
        array = array[0]
    if array.ndim == 0:
        return float(array)
    return tuple(array.tolist()) if array.ndim == 1 else tuple(map(tuple, array.tolist()))


def in_lists(value: Any) -> Any:
    """Convert nested tuples to lists, ready for JSON; other values are returned unchanged."""
    return list(map(in_lists, value)) if isinstance(value, tuple) else value


def squared_scale(scale: Scale) -> FloatArray | float:
    """The square of a scale: a float for a single number, else an array that broadcasts to `(arm, agent)`."""
    return scale**2 if isinstance(scale, float) else np.square(np.array(scale))


def fitting(key: str, scale: Scale, shape: tuple[int, int]) -> None:
    """Raise unless a scale is a number or has one number per agent, or per arm and agent, of a problem of `shape`."""
    found = np.shape(scale)
    if found not in ((), shape[1:], shape):
        sizes = " x ".join(map(str, found))
        allowed = f"a number, {shape[1]} in a row (one per agent), or {shape[0]} rows (arms) of {shape[1]}"
        raise InvalidInput(key, found=f"{sizes} numbers", allowed=allowed)


def no_scale(kind: str, scale: Scale | None) -> None:
    """Raise if a truth states a scale, for rewards whose means determine the variance."""
    if scale is not None:
        found = f"{in_lists(scale)} with rewards of kind {kind!r}"
        raise InvalidInput(
            "truth.scale", found=found, allowed="nothing: the scatter follows from the means and the range"
        )
