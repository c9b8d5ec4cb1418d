"""Operations on tokens and sessions: list, issue and revoke tokens; sign in and out.

The secret of a token or session is shown once and not stored.
"""

from typing import Any

import msgspec

from parley.coordinator.access import tokens
from parley.coordinator.access.tokens import Role, TokenRow
from parley.coordinator.answers import (
    IssuedToken,
    RevokedToken,
    SessionEnd,
    SessionOpened,
    TokenLine,
    Tokens,
    Who,
)
from parley.coordinator.http.context import Call
from parley.coordinator.http.schemas import TokenBody, TokensQuery
from parley.coordinator.problems import Refusal
from parley.coordinator.record import Transaction


async def whoami(call: Call[None, None]) -> Who:
    """Role and scope of the calling token."""
    who = call.by
    return Who(
        kid=who.kid,
        role=str(who.role),
        principal=who.name,
        study=who.study,
        agent=who.agent,
        blinded=who.role is Role.VIEWER,
    )


async def list_tokens(call: Call[TokensQuery, None]) -> Tokens:
    """List all tokens, including revoked ones, without their secrets."""
    found = await call.context.read(lambda transaction: tokens.list_tokens(transaction, call.query.study))
    return Tokens(tokens=[TokenLine(**_shown(row)) for row in found])


async def issue_token(call: Call[None, TokenBody]) -> IssuedToken:
    """Issue a token. Its secret appears only in this answer."""
    scope, by, at = msgspec.structs.asdict(call.body), call.by.name, call.context.clock()

    def work(transaction: Transaction) -> tuple[str, TokenRow]:
        return tokens.issue_token(transaction, **scope, by=by, at=at)

    token, row = await call.change(work)
    return IssuedToken(**_shown(row), token=token)


async def revoke_token(call: Call[None, None]) -> RevokedToken:
    """Revoke a token, immediately and permanently."""
    kid, by, at = call.at.kid, call.by.name, call.context.clock()
    try:
        row = await call.change(lambda transaction: tokens.revoke(transaction, kid, by=by, at=at))
    finally:  # also if it is unknown whether the commit went through
        call.context.tokens.forget(kid)
    return RevokedToken(kid=row.kid, principal=row.principal, revoked=True)


def _shown(row: TokenRow) -> dict[str, Any]:
    """The values of a token that may be shown, without the digest of its secret."""
    return {name: getattr(row, name) for name in TokenLine.__struct_fields__}


async def open_session(call: Call[None, None]) -> SessionOpened:
    """Open a session for the calling token. Send it as `Authorization: Session <session>` until it expires."""
    if _session_of(call.credential) is not None:
        raise Refusal("not-allowed", "a session is opened with a token, not with another session")
    kid, hours, now = call.by.kid, call.context.settings.session_hours, call.context.session_clock
    secret, expires = await call.change(
        lambda transaction: tokens.open_session(transaction, kid, at=now(), hours=hours)
    )
    return SessionOpened(session=secret, expires_at=expires)


async def end_session(call: Call[None, None]) -> SessionEnd:
    """Sign out: end the calling session. A call with a token ends nothing."""
    secret = _session_of(call.credential)
    if secret is not None:
        await call.change(lambda transaction: tokens.end_session(transaction, secret))
    return SessionEnd(ended=secret is not None)


def _session_of(credential: str) -> str | None:
    scheme, _, secret = credential.partition(" ")
    return secret.strip() if scheme.lower() == "session" else None
