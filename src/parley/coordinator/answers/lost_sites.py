"""What administrators are shown before they freeze an agent, re-weigh a study or thaw an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parley.coordinator.answers.base import Answer

__all__ = ["FreezePreview", "ReweighPreview", "ThawPreview"]


@dataclass(frozen=True, kw_only=True)
class FreezePreview(Answer):
    """What freezing an agent would do; `POST` must repeat the `digest` as `consequences`."""

    schema: str
    study: str
    agent: str
    phase: int
    frozen: list[str]  # with this one
    released: bool  # the phase would be decided at once
    undecided_agents: list[str]  # who would be left without an answer, as things look
    pairs: list[dict[str, Any]]  # arm, agent, outlook (never, blocked or open), smallest_radius, gap
    termination: str
    guarantee: str
    digest: str
    keep: dict[str, Any] | None = None  # the question as it is: answered, expected, without, left, open_pairs, ...
    reweigh: dict[str, Any] | None = None  # a ReweighPreview without its digest; null where it cannot be asked
    no_reweigh: str | None = None  # why not


@dataclass(frozen=True, kw_only=True)
class ReweighPreview(Answer):
    """What asking anew without the frozen agents would do; `POST` must repeat columns and `digest`."""

    schema: str
    study: str
    phase: int
    frozen: list[str]
    weights: list[list[float]]
    columns: list[dict[str, Any]]  # those that change: agent, before, after
    left: list[str]  # whose own question rests
    withdrawn: list[str]  # who has an answer now, and would have none or another one
    finished: bool  # the recorded phases answer everything
    prospect: dict[str, Any]  # answered, expected, without, left, open_pairs, phases, samples
    effect: str
    guarantee: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class ThawPreview(Answer):
    """What asking a frozen agent again would do; `POST` must repeat the `digest` as `consequences`."""

    schema: str
    study: str
    agent: str
    phase: int
    awaited: bool  # the phase in progress waits for it again
    weighed_by: list[str]  # whose mix weighs it, by the weights in force
    prospect: dict[str, Any]
    effect: str
    guarantee: str
    digest: str
