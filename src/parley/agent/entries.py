"""What a site writes down: people, what they were given, what came of it. The journal holds these and nothing else.

None of it leaves the site but the totals of a `Reported`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from parley.errors import UnknownName
from parley.protocol.wire import Message

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


@dataclass(frozen=True, kw_only=True)
class Opened(Message):
    """The first line: whose journal it is, and the secret by which arms are drawn."""

    schema: ClassVar[str] = "parley/site/opened/1"
    study: str
    agent: str
    key: str  # hexadecimal; who knows it knows the next arm


@dataclass(frozen=True, kw_only=True)
class RulesSeen(Message):
    """What the study says about its sites; `low` and `high` bound a reward, where the study does."""

    schema: ClassVar[str] = "parley/site/rules-seen/1"
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()  # the only rewards there are, where the study has few: 0 and 1
    between: str = "outside"  # who comes when nobody is needed: "outside" of the study, or on the "leading" arm
    flexible: bool = False  # a report may have other counts than the plan's
    minimum_cell: int = 1  # a cell with fewer outcomes is reported as none


@dataclass(frozen=True, kw_only=True)
class PhaseBegun(Message):
    """A plan arrived: what the phase asks of this site. What was begun before and not reported is over with it."""

    schema: ClassVar[str] = "parley/site/phase-begun/1"
    phase: int
    plan: str  # digest
    arms: tuple[str, ...]
    draws: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class StageSeen(Message):
    """The coordinator says that the study is somewhere else: paused, finished."""

    schema: ClassVar[str] = "parley/site/stage-seen/1"
    stage: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Assigned(Message):
    """A person got an arm, with the probability it had at that moment (a fraction, in words)."""

    schema: ClassVar[str] = "parley/site/assigned/1"
    participant: str
    phase: int
    arm: int
    probability: str


@dataclass(frozen=True, kw_only=True)
class Outside(Message):
    """A person came when the phase needed nobody: outside of the study, on an arm if the study says so."""

    schema: ClassVar[str] = "parley/site/outside/1"
    participant: str
    phase: int
    arm: int | None


@dataclass(frozen=True, kw_only=True)
class Observed(Message):
    """An outcome, or its correction."""

    schema: ClassVar[str] = "parley/site/observed/1"
    participant: str
    reward: float


@dataclass(frozen=True, kw_only=True)
class Missing(Message):
    """No outcome will come of this person."""

    schema: ClassVar[str] = "parley/site/missing/1"
    participant: str


@dataclass(frozen=True, kw_only=True)
class PartClosed(Message):
    """The site assigns nobody more in this phase, though the plan asks for more."""

    schema: ClassVar[str] = "parley/site/part-closed/1"
    phase: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Reported(Message):
    """From here on nothing of the phase changes: these totals are what is reported."""

    schema: ClassVar[str] = "parley/site/reported/1"
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
