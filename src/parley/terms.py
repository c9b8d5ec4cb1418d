"""The terms of a study: all that is asked beside its arms, agents, weights and rewards, each spelled once.

A row of `Terms` is an attribute of every `Problem`, a key of the study file, a key of the wire message and of the
stored document, a line of the API's view, of the dashboard's form and of docs/study-file.md. A new term is one row
here, and the place that uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from parley.checks import number, positive, whole
from parley.errors import InvalidInput
from parley.keys import NUMBER, Key, full_name

__all__ = ["TERMS", "Term", "Terms"]

SMALLEST_DELTA = 1e-300
LARGEST_CELL = 1_000_000

Names = tuple[str, ...]
Check = Callable[[str, Any, Names, Names], Any]  # key, value, arms, agents -> the value that a problem holds


@dataclass(frozen=True, kw_only=True)
class Term(Key):
    """One row: the key of the study file and where it stands there, the default, the check, and the words for people.

    >>> TERMS["minimum_cell"].place, TERMS["minimum_cell"].usual
    ('privacy.minimum_cell', 1)
    """

    name: str = ""  # of the attribute and in documents
    key: str = ""  # in the study file; the name where nothing else is said
    section: str = ""
    usual: Any
    check: Check
    told: str = ""  # a sentence on a value that is not the usual one; may name {value}, {low} and {high}
    always: bool = False  # written even where it is the usual one, as it was before there was a choice
    wish: bool = False  # a policy must say that it honours it; others refuse a value that is not the usual one

    @property
    def place(self) -> str:
        """Its full name in the study file."""
        return full_name(self.section, self.key)

    def tell(self, value: Any) -> str:
        """The sentence on a value."""
        numbers = np.ravel(value) if np.ndim(value) or isinstance(value, int | float) else np.zeros(1)
        return self.told.format(value=value, low=numbers.min(), high=numbers.max())


def _term(usual: Any, kinds: tuple[type, ...], check: Check, meaning: str, *, default: str = "", **row: Any) -> Any:
    shown = default or str(usual)
    made = Term(usual=usual, kinds=kinds, check=check, meaning=meaning, default=shown, **row)
    return field(default=usual, metadata={"term": made})


def _delta(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    delta = number(key, value)
    if not SMALLEST_DELTA <= delta < 1:
        allowed = f"a number strictly between 0 and 1 (at least {SMALLEST_DELTA:g})"
        raise InvalidInput(key, found=delta, allowed=allowed)
    return delta


def _top(key: str, value: Any, arms: Names, _agents: Names) -> int:
    return whole(key, value, 1, len(arms) - 1, f"at least 1 and less than the number of arms, {len(arms)}")


def _scale(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    return positive(key, value)


def _from(least: int, most: int) -> Check:
    return lambda key, value, _arms, _agents: whole(key, value, least, most)


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The rows. The order is that of the tables in the docs."""

    delta: float = _term(
        0.1, NUMBER, _delta, "largest probability that any agent's answer is wrong, between 0 and 1", always=True
    )
    top: int = _term(
        1, (int,), _top, "N: find each agent's N best arms; at least 1, less than the number of arms", always=True
    )
    largest_gap: float = _term(
        1.0, NUMBER, _scale, "no gap between mixed means can be larger; sets the scale at which W-CPE starts",
        always=True,
    )  # fmt: skip
    minimum_cell: int = _term(
        1, (int,), _from(1, LARGEST_CELL),
        "whoever is asked to draw an arm in a phase is asked for at least this many draws of it, so that no reported "
        f"sum covers fewer; a whole number from 1 to {LARGEST_CELL:,}",
        section="privacy", told="no cell of a phase has fewer than {value:,} draws",
    )  # fmt: skip

    def _check_terms(self, arms: Names, agents: Names) -> None:
        for row in TERMS.values():
            object.__setattr__(self, row.name, row.check(row.name, getattr(self, row.name), arms, agents))

    def terms(self) -> dict[str, Any]:
        """Every term as plain JSON, by name; an array in the fewest numbers that say the same."""
        return {name: _plain(getattr(self, name)) for name in TERMS}

    def unusual(self) -> dict[str, Any]:
        """The terms that are not as usual, plain, by name: none for a study that asks for nothing special."""
        return {name: value for name, value in self.terms().items() if value != TERMS[name].usual}

    def stored(self) -> dict[str, Any]:
        """What a document holds: a term at its default is left out, so that older documents keep their digest."""
        unusual = self.unusual()
        return {name: value for name, value in self.terms().items() if TERMS[name].always or name in unusual}

    def told(self) -> dict[str, str]:
        """Key of the study file -> a sentence, for every unusual term that a reader should hear of."""
        rows = ((TERMS[name], value) for name, value in self.unusual().items())
        return {row.place: row.tell(value) for row, value in rows if row.told}


def _plain(value: Any) -> Any:
    """An array as a number where all entries agree, as one row where all rows do, else in full."""
    while isinstance(value, np.ndarray) and value.ndim and (value == value[0]).all():
        value = value[0]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


TERMS: dict[str, Term] = {
    row.name: replace(row.metadata["term"], name=row.name, key=row.metadata["term"].key or row.name)
    for row in fields(Terms)
}
