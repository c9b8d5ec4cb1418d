"""Tokens and sessions. A secret stands in the answer that makes it, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from parley.coordinator.answers.base import Answer

__all__ = ["IssuedToken", "RevokedToken", "SessionEnd", "SessionOpened", "TokenLine", "Tokens"]


@dataclass(frozen=True, kw_only=True)
class TokenLine(Answer):
    """A token as it may be shown."""

    kid: str
    role: str
    principal: str
    study: str | None
    agent: str | None
    created_at: str
    created_by: str
    revoked_at: str | None


@dataclass(frozen=True, kw_only=True)
class Tokens(Answer):
    """Every token without its secret, revoked ones too."""

    tokens: list[TokenLine]


@dataclass(frozen=True, kw_only=True)
class IssuedToken(TokenLine):
    """A new token, with its secret."""

    token: str


@dataclass(frozen=True, kw_only=True)
class RevokedToken(Answer):
    """A token that opens nothing any more."""

    kid: str
    principal: str
    revoked: bool


@dataclass(frozen=True, kw_only=True)
class SessionOpened(Answer):
    """A session, to be sent as `Authorization: Session <session>` until it expires."""

    session: str
    expires_at: str


@dataclass(frozen=True, kw_only=True)
class SessionEnd(Answer):
    """Whether there was a session to end."""

    ended: bool
