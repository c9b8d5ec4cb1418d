"""Further outcomes of a draw at a site, beside the reward: what a value of each may be, and what was drawn of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from parley.errors import InvalidInput
from parley.protocol.codec import Model
from parley.text.translation import Translatable
from parley.totals import Totals

GONE = "missing"  # in a form, and in a table of any language
PRIMARY = ""  # the name of the reward, among the outcomes of a person


class OutcomeRules(Model):
    """What the study says about one of its further outcomes; `low` and `high` bound a value, where the study does."""

    name: str
    question: str = ""  # what the page asks; empty: the name
    answers: tuple[str, ...] = ()  # the words for 1 and for 0; without them yes and no
    delay: float | None = None  # days from an assignment until it is due; None: as the reward
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()  # the only ones there are, where there are few: 0 and 1
    whole: bool = False  # whole numbers
    clip: tuple[float, float] | None = None
    grid: float = 1.0  # the step of private sums
    sensitivity: int = 1  # in steps: what another value of one person moves a sum by, at most

    @property
    def words(self) -> str:
        """What the page calls it."""
        return self.question or self.name


@dataclass(frozen=True, kw_only=True)
class DrawnOutcome:
    """One further outcome of the draws of a phase. Its draws are those of the rewards, and of people without one.

    With the single `values` by arm, where they are known: a study may clip them, and adds them up without rounding.
    """

    name: str
    totals: Totals
    values: Sequence[Sequence[float]] = field(default=(), repr=False)
    missing: tuple[int, ...] = ()  # per arm: draws of which this outcome will not come

    @classmethod
    def of(cls, name: str, drawn: Sequence[Sequence[float | None]]) -> Self:
        """From the values of every arm, None for a missing one.

        >>> one = DrawnOutcome.of("harm", [[0.0, None, 1.0], []])
        >>> one.totals.counts.tolist(), one.totals.sums.tolist(), one.missing
        ([2, 0], [1.0, 0.0], (1, 0))
        """
        known = [[value for value in values if value is not None] for values in drawn]
        missing = tuple(len(values) - len(found) for values, found in zip(drawn, known, strict=True))
        return cls(name=name, totals=Totals.of(known), values=known, missing=missing if any(missing) else ())

    def clipped(self, clip: tuple[float, float] | None) -> Self:
        """The same, with its values within the range that the study clips them to."""
        kept = clipped(clip, self.values)
        return replace(self, totals=Totals.of(kept), values=kept) if kept else self

    def without_small_cells(self, least: int) -> Self:
        """The same, where of an arm with fewer values than `least` none is told: all of them count as missing.

        >>> DrawnOutcome.of("harm", [[0.0, None, 1.0], [1.0]]).without_small_cells(2).missing
        (1, 1)
        """
        counts = self.totals.counts
        small = (counts > 0) & (counts < least)
        if not small.any():
            return self
        gone = zip(self.missing or (0,) * len(counts), np.where(small, counts, 0).tolist(), strict=True)
        squares = self.totals.squares
        return replace(
            self,
            totals=Totals(
                counts=np.where(small, 0, counts),
                sums=np.where(small, 0.0, self.totals.sums),
                squares=None if squares is None else np.where(small, 0.0, squares),
            ),
            values=[[] if hidden else row for hidden, row in zip(small, self.values, strict=True)]
            if self.values
            else (),
            missing=tuple(before + more for before, more in gone),
        )


def outcome_named(outcomes: Sequence[OutcomeRules], name: str) -> OutcomeRules:
    """The rules of an outcome, by its name as the study has it.

    >>> outcome_named((OutcomeRules(name="harm"),), "Harm")
    Traceback (most recent call last):
    parley.errors.InvalidInput: outcome: found 'Harm'; allowed: harm, or none for the reward
    """
    for one in outcomes:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in outcomes)
    allowed = Translatable("{names}, or none for the reward", names=names)
    none = Translatable("none: this study has the reward alone")
    raise InvalidInput("outcome", found=repr(name)[:60], allowed=allowed if outcomes else none)


def columns_of(outcomes: Sequence[OutcomeRules], given: Mapping[str, str]) -> dict[str, str]:
    """The column of a table that has each outcome: as it is named, unless another is given; in small letters.

    >>> columns_of((OutcomeRules(name="Harm"), OutcomeRules(name="pain")), {"pain": "VAS"})
    {'Harm': 'harm', 'pain': 'vas'}
    """
    for name in given:
        outcome_named(outcomes, name)
    return {one.name: given.get(one.name, one.name).lower() for one in outcomes}


def clipped(clip: tuple[float, float] | None, values: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    """The same values, within the range that the study clips them to.

    >>> clipped((0.0, 10.0), [[12.0, 3.0], [-1.0]])
    [[10.0, 3.0], [0.0]]
    """
    if clip is None:
        return values
    low, high = clip
    return [[min(max(value, low), high) for value in row] for row in values]
