"""The end of a site's phase: what its people add up to, and what is told of it."""

from __future__ import annotations

import numpy as np

from parley.agent.entries import Reported
from parley.agent.people import People, PhaseBook
from parley.agent.plans import Delivery
from parley.totals import Totals

__all__ = ["closing", "delivery"]


def closing(people: People, book: PhaseBook) -> Reported:
    """What a phase adds up to. A cell below the study's minimum is reported as none."""
    least = people.rules.minimum_cell
    kept = [rewards if len(rewards) >= least else [] for rewards in people.rewards(book.plan.phase)]
    totals = Totals.of(kept)
    counts = tuple(totals.counts.tolist())
    return Reported(
        phase=book.plan.phase,
        counts=counts,
        sums=tuple(totals.sums.tolist()),
        squares=tuple(totals.require_squares().tolist()),
        missing=tuple(book.missing),
        reason="" if counts == book.plan.draws else book.closed or "missing-outcomes",
    )


def delivery(entry: Reported, draws: tuple[int, ...]) -> Delivery:
    """A closed phase as the worker hands it over.

    >>> entry = Reported(phase=1, counts=(1,), sums=(0.5,), squares=(0.25,), missing=(1,), reason="missing-outcomes")
    >>> delivery(entry, (2,)).final
    True
    """
    return Delivery(
        totals=Totals(
            counts=np.array(entry.counts, dtype=np.int64), sums=np.array(entry.sums), squares=np.array(entry.squares)
        ),
        missing=entry.missing if any(entry.missing) else (),
        reason=entry.reason,
        final=any(got < asked for got, asked in zip(entry.counts, draws, strict=True)),
    )
