"""Sessions: what a browser holds instead of a token. Only the SHA-256 of the session's secret is kept.

A session stands for the token it was opened with: it can do what the token can, ends when the token is revoked, and at
its own time. It lives in the database, so it outlives a restart of the server and is known to every server process.
"""

import re
import secrets

from sqlalchemy import delete, insert, select

from parley.coordinator.access.tokens import Principal, get_token, principal_of_row
from parley.coordinator.clock import later
from parley.coordinator.problems import Refusal
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.tables import sessions
from parley.protocol.codec import sha256

MOST = 20  # sessions of one token; a further one ends the oldest
FORM = re.compile(r"[A-Za-z0-9_-]{43}")


def open_session(transaction: Transaction, kid: str, *, at: str, hours: float) -> tuple[str, str]:
    """A new session of a token: the secret to hand over, once, and when it ends."""
    sweep(transaction, at=at)
    mine = select(sessions.c.digest).where(sessions.c.kid == kid).order_by(sessions.c.created_at.desc())
    too_many = transaction.execute(mine.offset(MOST - 1)).scalars().all()
    transaction.execute(delete(sessions).where(sessions.c.digest.in_(too_many)))
    secret, expires = secrets.token_urlsafe(32), later(at, hours)
    row = {"digest": sha256(secret), "kid": kid, "created_at": at, "expires_at": expires}
    transaction.execute(insert(sessions).values(row))
    return secret, expires


def resume(transaction: Transaction, secret: str, *, at: str) -> Principal:
    """The principal of a session; unknown, ended and expired ones are refused alike, and those of a revoked token."""
    if FORM.fullmatch(secret) is not None:
        # The secret is 256 random bits: looking its hash up tells nothing about it by how long that takes.
        found = transaction.execute(select(sessions).where(sessions.c.digest == sha256(secret))).one_or_none()
        row = None if found is None or found.expires_at <= at else get_token(transaction, found.kid)
        if row is not None and row.revoked_at is None:
            return principal_of_row(row)
    raise Refusal("bad-token", "the session is unknown or over", headers={"WWW-Authenticate": "Bearer"})


def end(transaction: Transaction, secret: str) -> None:
    """Sign out; ending it twice is the same as once."""
    transaction.execute(delete(sessions).where(sessions.c.digest == sha256(secret)))


def sweep(transaction: Transaction, *, at: str) -> None:
    """Forget the sessions that are over: no clock can bring them back then."""
    transaction.execute(delete(sessions).where(sessions.c.expires_at <= at))


def any_over(transaction: Transaction, *, at: str) -> bool:
    """Whether there is something to sweep."""
    return (
        transaction.execute(select(sessions.c.digest).where(sessions.c.expires_at <= at).limit(1)).first() is not None
    )
