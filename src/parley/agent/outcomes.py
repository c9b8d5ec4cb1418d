"""Further outcomes of a draw at a site, besides the reward: their rules, and their values in a phase."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from parley.errors import InvalidInput
from parley.protocol.codec import Model
from parley.text.translation import Translatable
from parley.totals import Totals

GONE = "missing"  # marks an outcome that will not come, in forms and in tables of every language
PRIMARY = ""  # name of the reward among a person's outcomes


class OutcomeRules(Model):
    """The study's rules for one further outcome. `low` and `high` bound its values; None means no bound."""

    name: str
    question: str = ""  # the page's question; if empty, the page shows the name
    answers: tuple[str, ...] = ()  # the words for 1 and 0; yes and no if empty
    delay: float | None = None  # days from an assignment until the outcome is due; None: due with the reward
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()  # the only possible values, if they are few, such as 0 and 1
    whole: bool = False  # only whole numbers
    clip: tuple[float, float] | None = None
    grid: float = 1.0  # the step to which private sums are rounded
    sensitivity: int = 1  # in steps: how far one person's value can move a sum

    @property
    def words(self) -> str:
        """The label of the outcome on the page: its question, or else its name."""
        return self.question or self.name


@dataclass(frozen=True, kw_only=True)
class DrawnOutcome:
    """One further outcome of a phase's draws, including draws of people without a reward.

    `values` are the individual values by arm, if known: only these can be clipped, or summed without rounding.
    """

    name: str
    totals: Totals
    values: Sequence[Sequence[float]] = field(default=(), repr=False)
    missing: tuple[int, ...] = ()  # per arm: draws whose outcome will not come

    @classmethod
    def of(cls, name: str, drawn: Sequence[Sequence[float | None]]) -> Self:
        """Make the outcome from the values of every arm, where None is a missing value.

        >>> one = DrawnOutcome.of("harm", [[0.0, None, 1.0], []])
        >>> one.totals.counts.tolist(), one.totals.sums.tolist(), one.missing
        ([2, 0], [1.0, 0.0], (1, 0))
        """
        known = [[value for value in values if value is not None] for values in drawn]
        missing = tuple(len(values) - len(found) for values, found in zip(drawn, known, strict=True))
        return cls(name=name, totals=Totals.of(known), values=known, missing=missing if any(missing) else ())

    def clipped(self, clip: tuple[float, float] | None) -> Self:
        """The outcome with its values clipped to the study's range; unchanged if individual values are not known."""
        kept = clipped(clip, self.values)
        return replace(self, totals=Totals.of(kept), values=kept) if kept else self

    def without_small_cells(self, least: int) -> Self:
        """The outcome, with all values of an arm counted as missing if the arm has fewer than `least` values.

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
    """Find the rules of a further outcome by its name in the study.

    >>> outcome_named((OutcomeRules(name="harm"),), "Harm")
    Traceback (most recent call last):
    parley.errors.InvalidInput: outcome: found 'Harm'; allowed: harm, or leave the name out for the reward
    """
    for one in outcomes:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in outcomes)
    allowed = Translatable("{names}, or leave the name out for the reward", names=names)
    none = Translatable("none: this study measures only the reward")
    raise InvalidInput("outcome", found=repr(name)[:60], allowed=allowed if outcomes else none)


def columns_of(outcomes: Sequence[OutcomeRules], given: Mapping[str, str]) -> dict[str, str]:
    """Outcome -> its column in a table, in lower case: the column in `given`, or else the outcome's name.

    >>> columns_of((OutcomeRules(name="Harm"), OutcomeRules(name="pain")), {"pain": "VAS"})
    {'Harm': 'harm', 'pain': 'vas'}
    """
    for name in given:
        outcome_named(outcomes, name)
    return {one.name: given.get(one.name, one.name).lower() for one in outcomes}


def clipped(clip: tuple[float, float] | None, values: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    """Clip values to the study's range; with None, return them unchanged.

    >>> clipped((0.0, 10.0), [[12.0, 3.0], [-1.0]])
    [[10.0, 3.0], [0.0]]
    """
    if clip is None:
        return values
    low, high = clip
    return [[min(max(value, low), high) for value in row] for row in values]
