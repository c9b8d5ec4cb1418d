"""The terms of a study: all that is asked beside its arms, agents, weights and rewards, each spelled once.

A row of `Terms` is an attribute of every `Problem`, a key of the study file, a key of the wire message and of the
stored document, a line of the API's view, of the dashboard's form and of docs/study-file.md. A new term is one row
here, and the place that uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from parley.checks import FloatArray
from parley.errors import InvalidInput
from parley.keys import NUMBER
from parley.term import (
    Names,
    Term,
    above_zero,
    arm_name,
    at_least_zero,
    choice,
    counted,
    fewer_than_arms,
    or_none,
    per_agent,
    per_cell,
    plain,
    probability,
    term,
    until,
)

__all__ = ["TERMS", "Terms"]

LARGEST_CELL = 1_000_000
LARGEST_COUNT = 2**53  # what every reader of JSON tells apart
NUMBERS = (int, float, list)


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The rows. The order is that of the tables in the docs."""

    # fmt: off
    delta: float = term(
        0.1, NUMBER, probability, "largest probability that any agent's answer is wrong, between 0 and 1", always=True,
    )
    top: int = term(
        1, (int,), fewer_than_arms, "N: find each agent's N best arms; at least 1, less than the number of arms",
        always=True,
    )
    largest_gap: float = term(
        1.0, NUMBER, above_zero, "no gap between mixed means can be larger; sets the scale at which W-CPE starts",
        always=True,
    )
    tolerance: float = term(
        0.0, NUMBER, at_least_zero, "an arm within it of the best (of the N-th best) is an answer too; at least 0",
        told="an arm within {value:g} of the best is an answer", wish=True,
    )
    max_samples: int | None = term(
        None, (int,), or_none(counted(1, LARGEST_COUNT)), "draws in all after which the study ends, decided or not",
        default="no limit", told="it ends after {value:,} samples at most", wish=True,
    )
    max_rounds: int | None = term(
        None, (int,), or_none(counted(1, LARGEST_CELL)), "phases after which the study ends, decided or not",
        default="no limit", told="it ends after {value:,} rounds at most", wish=True,
    )
    control: str | None = term(
        None, (str,), or_none(arm_name), "the arm with which the others are compared in estimates",
        default="none", told="arms are compared with {value}", wish=True,
    )
    horizon: int | str | None = term(
        None, (int, str), or_none(until(LARGEST_COUNT, "open")),
        'draws per agent, all of which count: play while learning; `"open"`: nobody knows yet how many',
        default="none: find the answer and stop", told="agents play while they learn (horizon {value})", wish=True,
    )
    minimum_cell: int = term(
        1, (int,), counted(1, LARGEST_CELL),
        "whoever is asked to draw an arm in a phase is asked for at least this many draws of it, so that no reported "
        f"sum covers fewer; a whole number from 1 to {LARGEST_CELL:,}",
        section="privacy", told="no cell of a phase has fewer than {value:,} draws",
    )
    price: FloatArray = term(
        1.0, NUMBERS, per_cell, "what a draw costs: a number, one per agent, or a row per arm with a column per agent; "
        "0 only together with `day_cost`",
        section="sampling", told="a draw costs {span}",
    )
    rate: FloatArray | None = term(
        None, NUMBERS, or_none(per_agent), "draws a day: a number, or one per agent; 0 only for who has no weight",
        default="not known", section="sampling", told="agents make {span} draws a day",
    )
    day_cost: float = term(
        0.0, NUMBER, at_least_zero, "what a day of the study is worth, in the unit of `price`; needs `rate`",
        section="sampling", told="a day costs {value:,.10g}", needs="rate",
    )
    round_days: float = term(
        0.0, NUMBER, at_least_zero, "days that a round takes beside its draws: to collect, decide and start again; "
        "needs `rate`",
        section="sampling", told="a round takes {value:,.10g} days beside its draws", needs="rate",
    )
    delay: FloatArray = term(
        0.0, NUMBERS, per_agent, "days from a draw to its outcome: a number, or one per agent; a phase waits for the "
        "outcomes of its last draws; needs `rate`",
        section="sampling", told="days from a draw to its outcome: {span}", needs="rate",
    )
    site_counts: str | None = term(
        None, (str,), or_none(choice("exact", "flexible")),
        '`"exact"`: a report has the counts that the plan asks for. `"flexible"`: it may have others, with a '
        "[reason that is not in the rewards](site.md#other-counts-than-planned)",
        default='`"flexible"` where the policy\'s guarantee stays, else `"exact"`', section="sites", key="counts",
        wish=True, granted=("exact",), told="the counts of reports are {value}",
    )
    between: str = term(
        "outside", (str,), choice("outside", "leading"),
        'who comes to a site when its phase needs nobody more stays `"outside"` of the study, or gets the `"leading"` '
        "arm of the plan without being counted",
        default='`"outside"`', section="sites", told="who comes between phases gets the plan's {value} arm",
    )
    rules: int = term(
        3, (int,), counted(1, 3),
        "the edition of Parley's rules that decides. 1 is what studies follow that were stored before there was a "
        "choice; since 2 agents with the same weights pay for one question, and plans know who is frozen; since 3 an "
        "agent's leaders go on leading until another arm is better by a quarter of the tolerance, the top N are tested "
        "as one set (one arm: as before), and a report with a mean that the stated model rules out is held",
        told="it follows edition {value} of the rules", before=1,
    )
    # fmt: on

    def _check_terms(self, arms: Names, agents: Names) -> None:
        for row in TERMS.values():
            object.__setattr__(self, row.name, row.check(row.place, getattr(self, row.name), arms, agents))
        unusual = self.unusual()
        for row in map(TERMS.__getitem__, unusual):
            if row.needs and row.needs not in unusual:
                allowed = f"{row.usual} without {TERMS[row.needs].place}"
                raise InvalidInput(row.place, found=unusual[row.name], allowed=allowed)
        if self.day_cost == 0 and np.any(np.equal(plain(self.price), 0)):
            allowed = "numbers above 0, or 0 together with sampling.day_cost: what is free would be drawn without end"
            raise InvalidInput("sampling.price", found=0, allowed=allowed)

    def terms(self) -> dict[str, Any]:
        """Every term as plain JSON, by name; an array in the fewest numbers that say the same."""
        return {name: plain(getattr(self, name)) for name in TERMS}

    def unusual(self) -> dict[str, Any]:
        """The terms that are not as usual, plain, by name: none for a study that asks for nothing special."""
        return {name: value for name, value in self.terms().items() if value != TERMS[name].usual}

    def stored(self) -> dict[str, Any]:
        """What a document holds: a term at its default is left out, so that older documents keep their digest."""
        silent = {row.name: row.usual if row.before is None else row.before for row in TERMS.values() if not row.always}
        return {name: value for name, value in self.terms().items() if name not in silent or value != silent[name]}

    def refuse(self, who: str, honours: frozenset[str], hint: str | None = None) -> None:
        """What was asked for is done or refused, never passed over: raise for a wish that `who` does not honour."""
        for name, value in self.unusual().items():
            if TERMS[name].wish and value not in TERMS[name].granted and name not in honours:
                usual = TERMS[name].usual
                allowed = f"{'nothing' if usual is None else usual!r}: {who} does not take {TERMS[name].place}"
                raise InvalidInput(TERMS[name].place, found=f"{value!r:.60}", allowed=allowed, hint=hint)

    def told(self) -> dict[str, str]:
        """Key of the study file -> a sentence, for every unusual term that a reader should hear of."""
        rows = ((TERMS[name], value) for name, value in self.unusual().items())
        return {row.place: row.tell(value) for row, value in rows if row.told}


TERMS: dict[str, Term] = {
    row.name: replace(row.metadata["term"], name=row.name, key=row.metadata["term"].key or row.name)
    for row in fields(Terms)
}
