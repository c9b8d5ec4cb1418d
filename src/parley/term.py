"""What a term of a study is, and the checks that a row can name. The rows stand in `parley.terms`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parley.checks import LARGEST_SCALE, SMALLEST_SCALE, FloatArray, number, positive, real_array, whole
from parley.errors import InvalidInput
from parley.keys import Key, full_name

__all__ = ["Names", "Term", "plain", "term"]
__all__ += ["above_zero", "arm_name", "at_least_zero", "choice", "counted", "fewer_than_arms", "or_none", "per_agent"]
__all__ += ["per_cell", "probability", "until"]

SMALLEST_DELTA = 1e-300

Names = tuple[str, ...]
Check = Callable[[str, Any, Names, Names], Any]  # key, value, arms, agents -> the value that a problem holds


@dataclass(frozen=True, kw_only=True)
class Term(Key):
    """One row: a key of the study file and where it stands, the default, the check, and the words for people."""

    name: str = ""  # of the attribute and in documents
    key: str = ""  # in the study file; the name where nothing else is said
    section: str = ""
    usual: Any
    check: Check
    told: str = ""  # a sentence on a value that is not the usual one; may name {value}, and {span} of many numbers
    always: bool = False  # written even where it is the usual one, as it was before there was a choice
    wish: bool = False  # who does not say that it honours it refuses a value that is not the usual one
    granted: tuple[Any, ...] = ()  # values that are no wish: everybody can do them
    before: Any = None  # what a document means that does not have it, where that is not the usual value
    needs: str = ""  # another term that must not be as usual where this one is not

    @property
    def place(self) -> str:
        """Its full name in the study file."""
        return full_name(self.section, self.key)

    def tell(self, value: Any) -> str:
        """The sentence on a value."""
        low, high = (0, 0) if isinstance(value, str) else (np.min(value), np.max(value))
        span = f"{low:,.10g}" if low == high else f"from {low:,.10g} to {high:,.10g}"
        shown = f"{value:,}" if type(value) is int and "{value}" in self.told else value
        return self.told.format(value=shown, span=span)


def term(usual: Any, kinds: tuple[type, ...], check: Check, meaning: str, *, default: str = "", **row: Any) -> Any:
    """A field of a dataclass with its row."""
    shown = default or str(usual)
    made = Term(usual=usual, kinds=kinds, check=check, meaning=meaning, default=shown, **row)
    return field(default=usual, metadata={"term": made})


def probability(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    """A probability that is neither nothing nor certainty."""
    found = number(key, value)
    if not SMALLEST_DELTA <= found < 1:
        allowed = f"a number strictly between 0 and 1 (at least {SMALLEST_DELTA:g})"
        raise InvalidInput(key, found=found, allowed=allowed)
    return found


def fewer_than_arms(key: str, value: Any, arms: Names, _agents: Names) -> int:
    """How many arms to find: not all of them."""
    return whole(key, value, 1, len(arms) - 1, f"at least 1 and less than the number of arms, {len(arms)}")


def arm_name(key: str, value: Any, arms: Names, _agents: Names) -> str:
    """The name of an arm."""
    if not isinstance(value, str) or value not in arms:
        some = ", ".join(arms[:20]) + (", ..." if len(arms) > 20 else "")
        raise InvalidInput(key, found=f"{value!r:.60}", allowed=f"the name of an arm: {some}")
    return value


def above_zero(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    """A number above 0."""
    return positive(key, value)


def at_least_zero(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    """A finite number that is not negative."""
    found = number(key, value)
    if not 0 <= found <= LARGEST_SCALE:
        raise InvalidInput(key, found=found, allowed=f"a number of at least 0 (at most {LARGEST_SCALE:g})")
    return found


def counted(least: int, most: int) -> Check:
    """A whole number within limits."""
    return lambda key, value, _arms, _agents: whole(key, value, least, most)


def choice(*words: str) -> Check:
    """One of a few words."""

    def check(key: str, value: Any, _arms: Names, _agents: Names) -> str:
        if not isinstance(value, str) or value not in words:
            raise InvalidInput(key, found=f"{value!r:.60}", allowed=" or ".join(f'"{word}"' for word in words))
        return value

    return check


def until(most: int, word: str) -> Check:
    """A whole number of at least 1, or one word."""

    def check(key: str, value: Any, _arms: Names, _agents: Names) -> int | str:
        if isinstance(value, str) or not isinstance(value, int | np.integer):
            if value == word:
                return word
            raise InvalidInput(key, found=f"{value!r:.60}", allowed=f'a whole number or "{word}"')
        return whole(key, value, 1, most)

    return check


def or_none(check: Check) -> Check:
    """Nothing, or what the check takes."""
    return lambda key, value, arms, agents: None if value is None else check(key, value, arms, agents)


def per_cell(key: str, value: Any, arms: Names, agents: Names) -> FloatArray:
    """Numbers of at least 0, `(arm, agent)`, from one number, one per agent, or a row per arm."""
    shape = (len(arms), len(agents))
    words = f"a number, {shape[1]} numbers (one per agent), or {shape[0]} rows (arms) of {shape[1]} numbers (agents)"
    return _broadcast(key, value, shape, words)


def per_agent(key: str, value: Any, _arms: Names, agents: Names) -> FloatArray:
    """Numbers of at least 0, `(agent,)`, from one number or one per agent."""
    return _broadcast(key, value, (len(agents),), f"a number or {len(agents)} numbers (one per agent)")


def _broadcast(key: str, value: Any, shape: tuple[int, ...], words: str) -> FloatArray:
    array = real_array(key, value, words)
    if array.shape not in (shape[place:] for place in range(len(shape) + 1)):
        raise InvalidInput(key, found=f"numbers of shape {array.shape}", allowed=words)
    possible = (array == 0) | ((array >= SMALLEST_SCALE) & (array <= LARGEST_SCALE))
    if not possible.all():
        wrong = array[~possible][0]
        allowed = f"0, or numbers from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}"
        raise InvalidInput(key, found=f"{wrong:g}", allowed=allowed)
    return np.broadcast_to(np.array(plain(array)), shape)  # a view: one price for a million cells is one number


def plain(value: Any) -> Any:
    """An array as a number where all entries agree, as one row where all rows do, else in full.

    >>> plain(np.full((2, 3), 5.0)), plain(np.array([[1.0, 2.0], [1.0, 2.0]]))
    (5.0, [1.0, 2.0])
    """
    if not isinstance(value, np.ndarray):
        return value
    while value.ndim and (value.strides[0] == 0 or (value == value[0]).all()):
        value = value[0]
    return value.tolist()
