"""Who asks, which studies there are, and where one is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict
from pydantic.json_schema import SkipJsonSchema

from parley.coordinator.answers.base import Answer

__all__ = [
    "Awaited",
    "FrozenAgent",
    "ListedStudy",
    "Reported",
    "ReweighedStudy",
    "Studies",
    "StudyLine",
    "StudyStatus",
    "Who",
]


@dataclass(frozen=True, kw_only=True)
class Who(Answer):
    """Role and scope of a token."""

    kid: str
    role: str
    principal: str
    study: str | None  # None: every study
    agent: str | None
    blinded: bool


@dataclass(frozen=True, kw_only=True)
class StudyLine(Answer):
    """A study in a line. `sequence` and `head` are null, and times to the minute, for who may not see the data."""

    id: str
    name: str
    policy: str
    arms: int  # how many
    agents: int
    stage: str
    reason: str  # why it is paused or cancelled
    phase: int
    awaited: int  # reports still missing in the phase in progress
    samples: int  # in accepted reports
    created_at: str
    opened_at: str  # when the phase in progress began
    version: str  # changes with every event of the study, and says nothing else
    sequence: int | None  # of the log
    head: str | None
    digest: str  # of the study's document, with the weights in force


@dataclass(frozen=True, kw_only=True)
class ListedStudy(StudyLine):
    """A study in the list."""

    asked: int  # agents that the phase in progress asks
    reported: int  # of them


@dataclass(frozen=True, kw_only=True)
class Studies(Answer):
    """The studies that a token reaches; `next` continues the list."""

    studies: list[ListedStudy]
    next: str | None
    version: str


@dataclass(frozen=True, kw_only=True)
class Reported(Answer):
    """An agent whose report is in."""

    agent: str
    at: str


@dataclass(frozen=True, kw_only=True)
class Awaited(Answer):
    """An agent that the study waits for; how many people it has recruited and how many outcomes it has, if it says."""

    agent: str
    since: str
    recruited: int | None = None
    observed: int | None = None
    held: str | None = None  # why its report waits for an administrator; not told to blinded readers


@dataclass(frozen=True, kw_only=True)
class FrozenAgent(Answer):
    """An agent that is asked for nothing more."""

    agent: str
    phase: int
    reason: str
    at: str


@dataclass(frozen=True, kw_only=True)
class ReweighedStudy(Answer):
    """The last time that the question was asked anew without frozen agents."""

    phase: int  # in progress then; earlier phases were decided under other weights
    reason: str
    left: list[str]  # whose own question rests while they are frozen


@dataclass(frozen=True, kw_only=True)
class StudyStatus(StudyLine):
    """Where a study is, whom it waits for and since when. Every term of the study stands here under its own name."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    arm_names: list[str]
    agent_names: list[str]
    told: dict[str, str]  # key of the study file -> a sentence, for each term that is not as usual
    guarantee: str
    rates: bool  # rewards are 0 or 1: means are told in per cent
    warnings: list[str]  # where the data contradict the stated scale; nothing for blinded readers
    asked: int
    reported: list[Reported]
    missing: list[Awaited]
    frozen: list[FrozenAgent]
    end: str  # how it ended, the worst of its agents': decided, accepted, exhausted, blocked, cancelled; or open
    reweighed: ReweighedStudy | None
    terms: Annotated[Mapping[str, Any], SkipJsonSchema()]  # lists and matrices stand in the document only

    def to_json(self) -> dict[str, Any]:
        document = super().to_json()
        return {**document.pop("terms"), **document}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        own = {field.name: document[field.name] for field in fields(cls) if field.name != "terms"}
        terms = {name: value for name, value in document.items() if name not in own}
        return super().from_json({**own, "terms": terms})
