"""Tokens: `parley_<kid>_<secret>`. The kid names it, the 256-bit secret proves it, only the secret's SHA-256 is kept.

A fast hash is right here: the secret is random and long, so there is no dictionary to try.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from parley.coordinator.problems import Refusal
from parley.coordinator.record import ledger, studies
from parley.coordinator.record import tokens as store
from parley.coordinator.record.tokens import TokenRow

__all__ = [
    "LIVE_TOKENS",
    "Principal",
    "Role",
    "authenticate",
    "issue_token",
    "principal_of_row",
    "read_token",
    "require_live",
    "revoke",
]

LIVE_TOKENS = 2  # per principal: the old one and the new one, while a rotation lasts
FORM = re.compile(r"parley_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class Role(StrEnum):
    """Who may do what stands in `rights.ACCESS`."""

    AGENT = "agent"  # of one study, for itself
    VIEWER = "viewer"  # blinded: no means, no scores
    ANALYST = "analyst"  # everything that is read of a study
    AUDITOR = "auditor"  # the same, and the logs
    ADMINISTRATOR = "administrator"  # of the whole server


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who is asking. `study` None: every study."""

    kid: str
    role: Role
    name: str
    study: str | None
    agent: str | None

    def reaches(self, study: str) -> bool:
        """Whether a study is within this token's scope."""
        return self.study is None or self.study == study


def principal_name(role: Role, name: str, study: str | None, agent: str | None) -> str:
    """What the log calls a principal; the agent of a study is named by both.

    >>> principal_name(Role.AGENT, "", "trial", "Lyon")
    'agent:trial/Lyon'
    """
    return f"agent:{study}/{agent}" if role is Role.AGENT else f"{role}:{name}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def read_token(token: str) -> tuple[str, str]:
    """The kid and the secret of a token."""
    form = FORM.fullmatch(token)
    if form is None:
        raise Refusal("bad-token", "a token looks like parley_<kid>_<secret>", headers={"WWW-Authenticate": "Bearer"})
    return form[1], form[2]


def authenticate(row: TokenRow | None, secret: str) -> Principal:
    """The principal of a token, from what is kept of it; unknown, wrong and revoked ones are refused alike."""
    # Compared in constant time, and against something even when the kid is unknown.
    genuine = hmac.compare_digest(row.digest if row else "0" * 64, _digest(secret))
    if row is None or not genuine or row.revoked_at is not None:
        raise Refusal("bad-token", "the token is unknown or revoked", headers={"WWW-Authenticate": "Bearer"})
    return principal_of_row(row)


def require_live(connection: Connection, kid: str) -> None:
    """Refuse a token that was revoked since the request began: a body may take its time."""
    if not store.is_live(connection, kid):
        raise Refusal("bad-token", "the token is unknown or revoked", headers={"WWW-Authenticate": "Bearer"})


def principal_of_row(row: TokenRow) -> Principal:
    """Whom a token stands for."""
    return Principal(kid=row.kid, role=Role(row.role), name=row.principal, study=row.study, agent=row.agent)


def issue_token(
    connection: Connection, *, role: Role, name: str, study: str | None, agent: str | None, by: str, at: str
) -> tuple[str, TokenRow]:
    """A new token: the text to hand over, once, and what is kept of it."""
    _check_scope(connection, role, study, agent)
    principal = principal_name(role, name, study, agent)
    record = {"role": str(role), "principal": principal, "study": study, "agent": agent}
    # Appending first locks the server's chain, so that two rotations cannot both count one live token.
    kid, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    ledger.append_server(connection, "token-issued", {"kid": kid, **record}, actor=by, at=at)
    if len(store.live_tokens(connection, principal)) >= LIVE_TOKENS:
        raise Refusal("too-many-tokens", f"{principal} has {LIVE_TOKENS} live tokens: revoke one first")
    row = TokenRow(
        kid=kid,
        digest=_digest(secret),
        role=str(role),
        principal=principal,
        study=study,
        agent=agent,
        created_at=at,
        created_by=by,
    )
    store.insert_token(connection, row)
    return f"parley_{kid}_{secret}", row


def _check_scope(connection: Connection, role: Role, study: str | None, agent: str | None) -> None:
    if role is Role.AGENT and (study is None or agent is None):
        raise Refusal("invalid-request", "an agent's token needs a study and an agent")
    if role is not Role.AGENT and agent is not None:
        raise Refusal("invalid-request", "only an agent's token names an agent")
    if role is Role.ADMINISTRATOR and study is not None:
        raise Refusal("invalid-request", "an administrator is one of the whole server, not of a study")
    if study is None:
        return
    row = studies.get(connection, study)
    if row is None:
        raise Refusal("not-found", f"no study {study!r}")
    if agent is not None and agent not in studies.message(connection, row).agents:
        raise Refusal("not-found", f"no agent {agent!r} in {study!r}")


def revoke(connection: Connection, kid: str, *, by: str, at: str) -> TokenRow:
    """A token that opens nothing from now on; revoking it twice is the same as once."""
    row = store.get_token(connection, kid)
    if row is None:
        raise Refusal("not-found", "no such token")
    if row.revoked_at is None:
        ledger.append_server(connection, "token-revoked", {"kid": kid, "principal": row.principal}, actor=by, at=at)
        store.revoke_token(connection, kid, at)
    return row
