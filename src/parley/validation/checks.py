"""Checks of numbers, matrices and names that a user may have typed. Every error names the key."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

LARGEST_COUNT = 2**53  # float64, and so every JSON reader, represents whole numbers exactly up to here
BETWEEN = "a number strictly between 0 and 1"
IN_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", list: "a list"}

# Beyond these limits, squares and reciprocals leave the range in which float64 arithmetic is reliable.
SMALLEST_SCALE, LARGEST_SCALE = 1e-60, 1e60

# A column typed by hand may be off by rounding. A larger error is a mistake that the user wants to know about.
COLUMN_SUM_TOLERANCE = 1e-6


def number(key: str, value: Any) -> float:
    """Check that a value is a number, and return it as a float."""
    if isinstance(value, bool | str) or value is None:
        raise InvalidInput(key, found=repr(value), allowed=IN_WORDS[float])
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            key, found=f"something that is not a number ({type(value).__name__})", allowed=IN_WORDS[float]
        ) from None


def positive(key: str, value: Any) -> float:
    """Check a number that can serve as a scale: above 0, and safe in float64 arithmetic."""
    scale = number(key, value)
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise InvalidInput(key, found=scale, allowed=f"a number above 0, from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}")
    return scale


def above_zero(key: str, value: Any) -> float:
    """Check a finite number above 0.

    >>> above_zero("loss", 0)
    Traceback (most recent call last):
    parley.errors.InvalidInput: loss: found 0; allowed: a finite number above 0
    """
    if not 0 < number(key, value) < np.inf:
        raise InvalidInput(key, found=value, allowed="a finite number above 0")
    return float(value)


def within(key: str, value: Any, least: float, most: float, allowed: str = "") -> float:
    """Check a number from `least` to `most`; `allowed` replaces these limits in the error."""
    found = number(key, value)
    if not least <= found <= most:
        raise InvalidInput(key, found=found, allowed=allowed or f"a number from {least:g} to {most:,.10g}")
    return found


def share(key: str, value: Any, least: float = 0.0) -> float:
    """Check a probability or share strictly between 0 and 1, and at least `least`.

    >>> share("level", 1)
    Traceback (most recent call last):
    parley.errors.InvalidInput: level: found 1.0; allowed: a number strictly between 0 and 1
    """
    found = number(key, value)
    if not (0 < found < 1 and found >= least):
        raise InvalidInput(key, found=found, allowed=BETWEEN + (f" (at least {least:g})" if least else ""))
    return found


def switch(key: str, value: Any) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise InvalidInput(key, found=f"{value!r:.60}", allowed=IN_WORDS[bool])
    return value


def whole(key: str, value: Any, least: int, most: int, allowed: str = "") -> int:
    """Check a whole number from `least` to `most`; `allowed` replaces these limits in the error.

    >>> whole("top", 3, 1, 5)
    3
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidInput(key, found=f"{value!r:.60}", allowed=IN_WORDS[int])
    count = int(value)
    if not least <= count <= most:
        shown = str(count) if abs(count) < 2**63 else "a huge number"
        raise InvalidInput(key, found=shown, allowed=allowed or f"from {least:,} to {most:,}")
    return count


def real_array(key: str, value: Any, allowed: str) -> FloatArray:
    """Check real numbers and return them as float64. Text, booleans and complex numbers are refused."""
    try:
        array = np.array(value)
        if array.dtype.kind not in "iuf":
            raise ValueError("not real numbers")
        return array.astype(np.float64, copy=False)  # `np.array` has copied it
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(key, found="rows of different lengths or not numbers", allowed=allowed) from None


def real_matrix(key: str, value: Any, shape: str) -> FloatArray:
    """Check a matrix of finite numbers; `shape` is the description of the allowed shape in errors."""
    matrix = real_array(key, value, shape)
    if matrix.ndim != 2:
        raise InvalidInput(key, found=f"{matrix.ndim} dimension(s)", allowed=shape)
    if not np.isfinite(matrix).all():
        where = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidInput(
            key,
            found=f"{matrix[tuple(where)]} in row {where[0]}, column {where[1]}",
            allowed="finite numbers",
        )
    return matrix


def names(key: str, value: int | Sequence[str], prefix: str) -> tuple[str, ...]:
    """Check distinct names; if only a number of names is given, make them from `prefix` ("arm 1", "arm 2", ...)."""
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | Sequence) or isinstance(value, str):
        raise InvalidInput(key, found=repr(value), allowed="a whole number or a list of names")
    if isinstance(value, int):
        if value < 1:
            raise InvalidInput(key, found=value, allowed="at least 1")
        return tuple(f"{prefix} {i + 1}" for i in range(value))
    for name in value:
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput(key, found=repr(name), allowed="names that are non-empty text")
    if len(set(value)) != len(value):
        twice = next(name for name in value if list(value).count(name) > 1)
        raise InvalidInput(key, found=f"the name {twice!r} twice", allowed="distinct names")
    return tuple(value)


def mixing_weights(value: Any) -> FloatArray:
    """Check a square matrix in which each column holds the weights of one mix, and make every column sum to 1."""
    weights = real_matrix("weights", value, "a square matrix of numbers, one row and one column per agent")
    if weights.shape[0] != weights.shape[1] or weights.size == 0:
        raise InvalidInput(
            "weights",
            found=f"a matrix of {weights.shape[0]} x {weights.shape[1]}",
            allowed="a square matrix, one row and one column per agent",
        )
    if (weights < 0).any():
        row, column = np.argwhere(weights < 0)[0]
        raise InvalidInput(
            "weights",
            found=f"{weights[row, column]} in row {row}, column {column}",
            allowed="weights of at least 0",
        )
    sums = weights.sum(axis=0)
    off = np.abs(sums - 1) > COLUMN_SUM_TOLERANCE
    if off.any():
        column = int(np.argmax(off))
        raise InvalidInput(
            "weights",
            found=f"column {column} sums to {sums[column]:.9g}",
            allowed="columns that sum to 1 (column m holds the weights of agent m's mix)",
            hint="Rows that sum to 1 mean the matrix is transposed" if np.allclose(weights.sum(axis=1), 1) else None,
        )
    # A column that sums to 1 up to rounding stays as it is: a problem made from another problem's weights (`with_`, a
    # stored study) must have the same bits, and dividing again would change them.
    rounding = len(weights) * np.finfo(np.float64).eps
    return np.where(np.abs(sums - 1) <= rounding, weights, weights / sums)


def is_loopback(host: str) -> bool:
    """Whether a host name or IP address is the loopback address of this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
