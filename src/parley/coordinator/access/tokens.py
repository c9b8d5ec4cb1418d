"""Tokens, what their roles may do, and the sessions that browsers use in place of tokens.

A token is `parley_<kid>_<secret>`. The kid identifies it, the 256-bit secret proves it, and only the secret's SHA-256
is stored. A fast hash is right here: the secret is random and long, so a dictionary attack is impossible.

A session represents the token that opened it: it can do what the token can. It ends when it expires, or when the token
is revoked. It is stored in the database, so it survives a restart of the server, and every server process knows it.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import anyio.to_thread
from cachetools import LRUCache
from sqlalchemy import bindparam, delete, insert, select, update

from parley.coordinator.clock import later
from parley.coordinator.problems import Refusal
from parley.coordinator.record import Storage, StorageUnavailable, initialise, open_storage, studies, tables
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.tables import sessions
from parley.coordinator.record.writer import append_server
from parley.errors import InvalidInput

LIVE_TOKENS = 2  # most valid tokens of a principal: the old and the new one, during a rotation
CACHED = 10_000  # most tokens in the cache; the least recently used is dropped first
MOST_SESSIONS = 20  # most sessions of a token; opening another one ends the oldest
SESSION = re.compile(r"[A-Za-z0-9_-]{43}")
FORM = re.compile(r"parley_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class Role(StrEnum):
    """The roles of tokens. Operations name the roles that may call them, mostly by a group such as `READERS`."""

    AGENT = "agent"  # an agent of one study, which acts only for itself
    VIEWER = "viewer"  # a blinded reader, who sees no means and no scores
    ANALYST = "analyst"  # reads everything about a study
    AUDITOR = "auditor"  # reads everything about a study, and the logs
    ADMINISTRATOR = "administrator"  # administers the whole server


EVERYONE = frozenset(Role)
AGENTS = frozenset({Role.AGENT})
ADMINS = frozenset({Role.ADMINISTRATOR})
INSPECTORS = ADMINS | {Role.AUDITOR}  # who may read the logs
PLANNERS = ADMINS | {Role.ANALYST}  # who may see previews of acts
UNBLINDED = ADMINS | {Role.ANALYST, Role.AUDITOR}
READERS = UNBLINDED | {Role.VIEWER}


@dataclass(frozen=True, kw_only=True)
class Principal:
    """The authenticated caller. `study` is None if the caller's token is not bound to one study."""

    kid: str
    role: Role
    name: str
    study: str | None
    agent: str | None

    def reaches(self, study: str) -> bool:
        """Whether a study is within the scope of the caller's token."""
        return self.study is None or self.study == study


def authorize(
    operation: str, roles: frozenset[Role], principal: Principal, path: Mapping[str, Any], *, server_wide: bool
) -> None:
    """Raise unless the principal may call the operation with these parameters of its path.

    The token needs one of the `roles`, and the path must be within its scope. A token for one study reaches only that
    study, and no `server_wide` operation. An agent's token reaches no other agent.
    """
    if principal.role not in roles:
        raise Refusal("not-allowed", f"{principal.role} may not {operation.replace('_', ' ')}")
    if server_wide and principal.study is not None:
        raise Refusal("not-allowed", "the token is bound to one study")
    study, agent = path.get("study"), path.get("agent")
    if study is not None and not principal.reaches(study):
        raise Refusal("not-allowed", "the token is for another study")
    if principal.role is Role.AGENT and agent is not None and agent != principal.agent:
        raise Refusal("not-allowed", "the token is for another agent")


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A stored token: a row of the table of tokens, with the digest of the secret in place of the secret."""

    kid: str
    digest: str
    role: str
    principal: str
    study: str | None
    agent: str | None
    created_at: str
    created_by: str
    revoked_at: str | None = None


def principal_name(role: Role, name: str, study: str | None, agent: str | None) -> str:
    """The name of a principal in the log; the name of an agent includes its study.

    >>> principal_name(Role.AGENT, "", "trial", "Lyon")
    'agent:trial/Lyon'
    """
    return f"agent:{study}/{agent}" if role is Role.AGENT else f"{role}:{name}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _bad_token(detail: str = "the token is unknown or revoked") -> Refusal:
    return Refusal("bad-token", detail, headers={"WWW-Authenticate": "Bearer"})


def read_token(token: str) -> tuple[str, str]:
    """Split a token into its kid and its secret; raises a refusal if it does not look like a token."""
    form = FORM.fullmatch(token)
    if form is None:
        raise _bad_token("a token looks like parley_<kid>_<secret>")
    return form[1], form[2]


def authenticate(row: TokenRow | None, secret: str) -> Principal:
    """The principal of a token, if its secret matches the stored digest. All bad tokens get the same refusal."""
    # Compared in constant time, and with a dummy if the kid is unknown, so that the duration reveals nothing.
    genuine = hmac.compare_digest(row.digest if row else "0" * 64, _digest(secret))
    if row is None or not genuine or row.revoked_at is not None:
        raise _bad_token()
    return principal_of_row(row)


def principal_of_row(row: TokenRow) -> Principal:
    """The principal of a stored token, whose secret is not checked here."""
    return Principal(kid=row.kid, role=Role(row.role), name=row.principal, study=row.study, agent=row.agent)


# Built once: building a statement costs more than running it.
GET = select(tables.tokens).where(tables.tokens.c.kid == bindparam("kid"))


def get_token(transaction: Transaction, kid: str) -> TokenRow | None:
    """Read the stored row of a token by its kid; None if there is no such token."""
    found = transaction.execute(GET, {"kid": kid}).mappings().one_or_none()
    return None if found is None else TokenRow(**found)


def require_live(transaction: Transaction, kid: str) -> None:
    """Raise if a token was revoked after the guard checked it: receiving a large body can take long."""
    row = get_token(transaction, kid)
    if row is None or row.revoked_at is not None:
        raise _bad_token()


def list_tokens(transaction: Transaction, study: str | None = None) -> list[TokenRow]:
    """Read all tokens, or only those of one study, oldest first."""
    query = select(tables.tokens).order_by(tables.tokens.c.created_at, tables.tokens.c.kid)
    if study is not None:
        query = query.where(tables.tokens.c.study == study)
    return [TokenRow(**found) for found in transaction.execute(query).mappings()]


def issue_token(
    transaction: Transaction,
    *,
    role: Role,
    name: str,
    study: str | None,
    agent: str | None,
    by: str,
    at: str,
    kid: str | None = None,
) -> tuple[str, TokenRow]:
    """Issue a token. Returns its text, which is not stored, and its stored row. The kid is random unless given."""
    _check_scope(transaction, role, study, agent)
    principal = principal_name(role, name, study, agent)
    record = {"role": str(role), "principal": principal, "study": study, "agent": agent}
    # Appending first locks the server's chain, so that two rotations cannot both count one live token.
    kid, secret = kid or secrets.token_hex(8), secrets.token_urlsafe(32)
    append_server(transaction, "token-issued", {"kid": kid, **record}, actor=by, at=at)
    tokens = tables.tokens.c
    live = select(tokens.kid).where(tokens.principal == principal, tokens.revoked_at.is_(None))
    if len(transaction.execute(live).all()) >= LIVE_TOKENS:
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
    transaction.execute(insert(tables.tokens).values(asdict(row)))
    return f"parley_{kid}_{secret}", row


def admit_person(
    transaction: Transaction, kid: str, *, role: Role, name: str, study: str | None, agent: None, by: str, at: str
) -> None:
    """Create or update the token of a person who signed in through a provider; nobody gets its secret.

    `kid` identifies the person. The token has the role of the last sign-in. If the token was revoked, the person cannot
    sign in.
    """
    row = get_token(transaction, kid)
    if row is not None and row.revoked_at is not None:
        raise Refusal("not-allowed", f"an administrator revoked the access of {row.principal}")
    if row is None or (row.principal, row.study) != (principal_name(role, name, study, agent), study):
        # If another transaction revokes the token at this moment, it stays revoked and the sign-in fails.
        live = (tables.tokens.c.kid == kid, tables.tokens.c.revoked_at.is_(None))
        transaction.execute(delete(tables.tokens).where(*live))
        issue_token(transaction, role=role, name=name, study=study, agent=agent, by=by, at=at, kid=kid)


def _check_scope(transaction: Transaction, role: Role, study: str | None, agent: str | None) -> None:
    if role is Role.AGENT and (study is None or agent is None):
        raise Refusal("invalid-request", "an agent's token needs a study and an agent")
    if role is not Role.AGENT and agent is not None:
        raise Refusal("invalid-request", "only an agent's token may name an agent")
    if role is Role.ADMINISTRATOR and study is not None:
        raise Refusal("invalid-request", "an administrator's token is for the whole server, not for one study")
    if study is None:
        return
    row = studies.require(transaction, study)
    if agent is not None and agent not in studies.message(transaction, row).problem.sites:
        raise Refusal("not-found", f"no agent {agent!r} in {study!r} that draws")


def revoke(transaction: Transaction, kid: str, *, by: str, at: str) -> TokenRow:
    """Revoke a token (idempotent)."""
    row = get_token(transaction, kid)
    if row is None:
        raise Refusal("not-found", "no such token")
    if row.revoked_at is None:
        append_server(transaction, "token-revoked", {"kid": kid, "principal": row.principal}, actor=by, at=at)
        transaction.execute(update(tables.tokens).where(tables.tokens.c.kid == kid).values(revoked_at=at))
    return row


def prepare(
    address: str, *, at: str, name: str = "root", new_token: bool = False
) -> tuple[str | None, str, str | None]:
    """Create or upgrade a database, and issue an administrator's token if it has no tokens or `new_token` is set.

    Returns the revisions before and after, and the token or None. Nobody needs a token to call this, since a person who
    can write to the database is its administrator anyway.
    """
    before, after = initialise(address)
    storage = open_storage(address)

    def work(transaction: Transaction) -> str | None:
        if list_tokens(transaction) and not new_token:
            return None
        token, _ = issue_token(
            transaction, role=Role.ADMINISTRATOR, name=name, study=None, agent=None, by="bootstrap", at=at
        )
        return token

    try:
        return before, after, storage.change(work)
    except Refusal as refusal:
        raise InvalidInput(
            "name", found=name, allowed="another name, or one with fewer tokens", hint=str(refusal)
        ) from None
    finally:
        storage.close()


Lookup: TypeAlias = TokenRow | StorageUnavailable | None


def open_session(transaction: Transaction, kid: str, *, at: str, hours: float) -> tuple[str, str]:
    """Open a session of a token. Returns the session's secret, which is not stored, and when it expires."""
    sweep_sessions(transaction, at=at)
    # End the oldest sessions, so that nobody can fill the table by signing in again and again.
    mine = select(sessions.c.digest).where(sessions.c.kid == kid).order_by(sessions.c.created_at.desc())
    too_many = transaction.execute(mine.offset(MOST_SESSIONS - 1)).scalars().all()
    transaction.execute(delete(sessions).where(sessions.c.digest.in_(too_many)))
    secret, expires = secrets.token_urlsafe(32), later(at, hours)
    row = {"digest": _digest(secret), "kid": kid, "created_at": at, "expires_at": expires}
    transaction.execute(insert(sessions).values(row))
    return secret, expires


def resume(transaction: Transaction, secret: str, *, at: str) -> Principal:
    """The principal of a session. All bad sessions, also those of revoked tokens, get the same refusal."""
    if SESSION.fullmatch(secret) is not None:
        # The secret has 256 random bits, so the duration of the lookup reveals nothing about it.
        found = transaction.execute(select(sessions).where(sessions.c.digest == _digest(secret))).one_or_none()
        row = None if found is None or found.expires_at <= at else get_token(transaction, found.kid)
        if row is not None and row.revoked_at is None:
            return principal_of_row(row)
    raise _bad_token("the session is unknown or has ended")


def end_session(transaction: Transaction, secret: str) -> None:
    """End a session (idempotent)."""
    transaction.execute(delete(sessions).where(sessions.c.digest == _digest(secret)))


def sweep_sessions(transaction: Transaction, *, at: str) -> None:
    """Delete expired sessions, so that setting the clock back cannot revive them."""
    transaction.execute(delete(sessions).where(sessions.c.expires_at <= at))


def any_session_over(transaction: Transaction, *, at: str) -> bool:
    """Whether there are expired sessions."""
    over = select(sessions.c.digest).where(sessions.c.expires_at <= at).limit(1)
    return transaction.execute(over).first() is not None


class TokenCache:
    """Cache of tokens: if no other process can revoke tokens, a known token needs no database lookup.

    On SQLite one process has the file to itself: a row that it has read stays valid until it changes the row, and a
    revocation calls `forget`. On PostgreSQL another process may revoke a token at any moment, so nothing is cached and
    every request reads the row; simultaneous requests share a lookup. Either way a token is useless once the request
    that revoked it has been answered. The cache is used on the event loop only, so it needs no lock.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._rows: LRUCache[str, TokenRow] = LRUCache(CACHED)
        self._revocations = 0
        self._now: dict[str, asyncio.Task[Lookup]] = {}
        self._next: dict[str, asyncio.Task[Lookup]] = {}

    async def principal(self, token: str) -> Principal:
        """Authenticate a token and return its principal."""
        kid, secret = read_token(token)
        row = self._rows.get(kid)
        if row is None:
            # If any token was revoked during the lookup, the row may be outdated: it is used once, but not cached.
            before = self._revocations
            row = await self._look_up(kid)
            if row is not None and self._storage.exclusive and before == self._revocations:
                self._rows[kid] = row
        return authenticate(row, secret)

    async def _look_up(self, kid: str) -> TokenRow | None:
        """Read the stored row of a token, in a lookup that starts after this call; None if there is no such token.

        Requests that arrive during a lookup share the next lookup. So however many requests a token sends at once,
        there are at most two lookups.
        """
        following = self._next.get(kid)
        if following is None:
            following = self._next[kid] = asyncio.create_task(self._read(kid, self._now.get(kid)))
        found = await asyncio.shield(following)
        if isinstance(found, StorageUnavailable):
            raise StorageUnavailable(str(found))
        return found

    async def _read(self, kid: str, before: asyncio.Task[Lookup] | None) -> Lookup:
        if before is not None:
            await asyncio.wait([before])
        me = self._now[kid] = self._next.pop(kid)
        try:
            return await anyio.to_thread.run_sync(self._storage.glance, lambda transaction: get_token(transaction, kid))
        except StorageUnavailable as error:
            return error
        finally:
            if self._now[kid] is me:
                del self._now[kid]

    def forget(self, kid: str) -> None:
        """Drop a revoked token. Results of lookups in progress, which may predate the revocation, are not cached."""
        self._rows.pop(kid, None)
        self._revocations += 1
