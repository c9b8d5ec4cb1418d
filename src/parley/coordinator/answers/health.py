"""Is it alive, is it ready."""

from __future__ import annotations

from dataclasses import dataclass

from parley.coordinator.answers.base import Answer

__all__ = ["Health", "Ready"]


@dataclass(frozen=True, kw_only=True)
class Health(Answer):
    """The process runs."""

    status: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Ready(Answer):
    """A write would be durable now."""

    status: str
