"""Tokens at rest: never the secret, only its SHA-256."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from parley.coordinator.cache import Cache
from parley.coordinator.record.tables import tokens

__all__ = ["TokenRow", "get_token", "insert_token", "is_live", "list_tokens", "live_tokens", "revoke_token"]


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A token without its secret."""

    kid: str
    digest: str
    role: str
    principal: str
    study: str | None
    agent: str | None
    created_at: str
    created_by: str
    revoked_at: str | None = None


GET = select(tokens).where(tokens.c.kid == bindparam("kid"))


def _token(row: Row[*tuple[Any, ...]]) -> TokenRow:
    return TokenRow(**row._asdict())


def get_token(connection: Connection, kid: str) -> TokenRow | None:
    """A token by its public half."""
    row = connection.execute(GET, {"kid": kid}).one_or_none()
    return None if row is None else _token(row)


def is_live(connection: Connection, kid: str) -> bool:
    """Whether a token is there and not revoked; `connection` is one that changes something.

    Asked with every change. The only writer of a database remembers those it found: what revokes them passes here.
    """
    known: Cache[str, bool] | None = connection.get_execution_options().get("live_tokens")
    if known is not None and known.get(kid):
        return True
    row = get_token(connection, kid)
    live = row is not None and row.revoked_at is None
    if known is not None and live:
        known.put(kid, True)
    return live


def list_tokens(connection: Connection, study: str | None = None) -> list[TokenRow]:
    """All tokens, or those of one study, oldest first."""
    query = select(tokens).order_by(tokens.c.created_at, tokens.c.kid)
    if study is not None:
        query = query.where(tokens.c.study == study)
    return [_token(row) for row in connection.execute(query)]


def live_tokens(connection: Connection, principal: str) -> list[TokenRow]:
    """The tokens of a principal that are not revoked."""
    query = select(tokens).where(tokens.c.principal == principal, tokens.c.revoked_at.is_(None))
    return [_token(row) for row in connection.execute(query)]


def insert_token(connection: Connection, row: TokenRow) -> None:
    """A new token."""
    connection.execute(insert(tokens).values(asdict(row)))


def revoke_token(connection: Connection, kid: str, at: str) -> None:
    """From now on it opens nothing."""
    connection.execute(update(tokens).where(tokens.c.kid == kid).values(revoked_at=at))
    known: Cache[str, bool] | None = connection.get_execution_options().get("live_tokens")
    if known is not None:
        known.forget(kid)
