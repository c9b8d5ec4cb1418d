"""What administrators are shown before they confirm, and what auditors read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parley.coordinator.answers.base import Answer

__all__ = ["CutPreview", "LogPage", "Verified"]


@dataclass(frozen=True, kw_only=True)
class CutPreview(Answer):
    """What closing the phase with the reports that are in would do; `POST` must repeat the `digest`."""

    schema: str
    study: str
    phase: int
    reported: list[str]
    awaited: list[str]  # whose reports will not be taken for this phase
    drawn: int
    planned: int
    lost: list[str]  # arms of which nobody's draws are in, though some were asked for
    effect: str
    guarantee: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class LogPage(Answer):
    """Some records of a log; `next` is what `after` continues from."""

    records: list[dict[str, Any]]  # as they are exported
    next: int | None


@dataclass(frozen=True, kw_only=True)
class Verified(Answer):
    """What a verification found."""

    study: str
    sound: bool
    problem: str | None
    records: int
    phases: int  # decisions taken again
    stage: str
    head: str
    exact: bool  # every state agreed to the last bit
    certificate: str | None  # its digest
