"""What a site writes down: people, what they were given, what came of it. The journal holds these and nothing else.

None of it leaves the site but the totals of a `Reported`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from parley.errors import UnknownName
from parley.protocol.codec import Message

__all__ = [
    "Assigned",
    "Entry",
    "Missing",
    "Observed",
    "Opened",
    "Outside",
    "PartClosed",
    "PhaseBegun",
    "Reported",
    "RulesSeen",
    "StageSeen",
    "read_entry",
]


class Opened(Message, omit_defaults=False, tag="parley/site/opened/1"):
    """The first line: whose journal it is, and the secret by which arms are drawn."""

    study: str
    agent: str
    key: str  # hexadecimal; who knows it knows the next arm


class RulesSeen(Message, omit_defaults=False, tag="parley/site/rules-seen/1"):
    """What the study says about its sites; `low` and `high` bound a reward, where the study does."""

    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()  # the only rewards there are, where the study has few: 0 and 1
    between: str = "outside"  # who comes when nobody is needed: "outside" of the study, or on the "leading" arm
    flexible: bool = False  # a report may have other counts than the plan's
    minimum_cell: int = 1  # a cell with fewer outcomes is reported as none


class PhaseBegun(Message, omit_defaults=False, tag="parley/site/phase-begun/1"):
    """A plan arrived: what the phase asks of this site. What was begun before and not reported is over with it."""

    phase: int
    plan: str  # digest
    arms: tuple[str, ...]
    draws: tuple[int, ...]


class StageSeen(Message, omit_defaults=False, tag="parley/site/stage-seen/1"):
    """The coordinator says that the study is somewhere else: paused, finished."""

    stage: str
    reason: str


class Assigned(Message, omit_defaults=False, tag="parley/site/assigned/1"):
    """A person got an arm, with the probability it had at that moment (a fraction, in words)."""

    participant: str
    phase: int
    arm: int
    probability: str


class Outside(Message, omit_defaults=False, tag="parley/site/outside/1"):
    """A person came when the phase needed nobody: outside of the study, on an arm if the study says so."""

    participant: str
    phase: int
    arm: int | None


class Observed(Message, omit_defaults=False, tag="parley/site/observed/1"):
    """An outcome, or its correction."""

    participant: str
    reward: float


class Missing(Message, omit_defaults=False, tag="parley/site/missing/1"):
    """No outcome will come of this person."""

    participant: str


class PartClosed(Message, omit_defaults=False, tag="parley/site/part-closed/1"):
    """The site assigns nobody more in this phase, though the plan asks for more."""

    phase: int
    reason: str


class Reported(Message, omit_defaults=False, tag="parley/site/reported/1"):
    """From here on nothing of the phase changes: these totals are what is reported."""

    phase: int
    counts: tuple[int, ...]
    sums: tuple[float, ...]
    squares: tuple[float, ...]
    missing: tuple[int, ...]
    reason: str = ""  # why the counts are not the plan's


Entry: TypeAlias = (
    Opened | RulesSeen | PhaseBegun | StageSeen | Assigned | Outside | Observed | Missing | PartClosed | Reported
)
ENTRIES: dict[str, type[Entry]] = {
    kind.schema: kind
    for kind in (Opened, RulesSeen, PhaseBegun, StageSeen, Assigned, Outside, Observed, Missing, PartClosed, Reported)
}


def read_entry(document: Any) -> Entry:
    """An entry from its JSON.

    >>> read_entry(Missing(participant="p-001").to_json()).participant
    'p-001'
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in ENTRIES:
        raise UnknownName("journal entry", schema, ENTRIES)
    return ENTRIES[schema].from_json(document)
