"""Tokens that were shown before need no look into the database, where nobody else can revoke them.

On SQLite one process has the file to itself: what it read stays true until it changes it, and a revocation passes here.
On PostgreSQL another process may revoke a token at any moment, so every request looks; those that come together look
together. Either way a token opens nothing once its revocation was answered.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

import anyio.to_thread

from parley.coordinator.access.auth import Principal, authenticate, read_token
from parley.coordinator.cache import Cache
from parley.coordinator.record import Storage, StorageUnavailable
from parley.coordinator.record.tokens import TokenRow, get_token

__all__ = ["Keyring"]

Look: TypeAlias = TokenRow | StorageUnavailable | None
REMEMBERED = 10_000  # tokens; the one not shown for longest is forgotten first


class Keyring:
    """Lives on the event loop, so that nothing happens between a look at it and what follows."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._rows: Cache[str, TokenRow] = Cache(REMEMBERED)
        self._revocations = 0
        self._now: dict[str, asyncio.Task[Look]] = {}
        self._next: dict[str, asyncio.Task[Look]] = {}

    async def principal(self, token: str) -> Principal:
        """Who shows this token."""
        kid, secret = read_token(token)
        row = self._rows.get(kid)
        if row is None:
            before = self._revocations
            row = await self._look(kid)
            if row is not None and self._storage.exclusive and before == self._revocations:
                self._rows.put(kid, row)
        return authenticate(row, secret)

    async def _look(self, kid: str) -> TokenRow | None:
        """What the database says of a token, by a look that begins after this was asked.

        Whoever asks while a look is on its way shares the next one: however many requests a token sends at once, there
        are two.
        """
        following = self._next.get(kid)
        if following is None:
            following = self._next[kid] = asyncio.create_task(self._glance(kid, self._now.get(kid)))
        found = await asyncio.shield(following)
        if isinstance(found, StorageUnavailable):
            raise StorageUnavailable(str(found))
        return found

    async def _glance(self, kid: str, before: asyncio.Task[Look] | None) -> Look:
        if before is not None:
            await asyncio.wait([before])
        me = self._now[kid] = self._next.pop(kid)
        try:
            return await anyio.to_thread.run_sync(self._storage.glance, lambda connection: get_token(connection, kid))
        except StorageUnavailable as error:
            return error
        finally:
            if self._now[kid] is me:
                del self._now[kid]

    def forget(self, kid: str) -> None:
        """A token was revoked. What is being read at this moment may be from before, and is not kept."""
        self._rows.forget(kid)
        self._revocations += 1
