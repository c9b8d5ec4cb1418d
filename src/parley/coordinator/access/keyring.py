"""Tokens that were shown before need no look into the database, where nobody else can revoke them.

On SQLite one process has the file to itself: what it read stays true until it changes it, and a revocation passes here.
On PostgreSQL another process may revoke a token at any moment, so every request looks. Either way a token opens nothing
once its revocation was answered.
"""

from __future__ import annotations

import anyio.to_thread

from parley.coordinator.access.auth import Principal, authenticate, read_token
from parley.coordinator.record import Storage
from parley.coordinator.record.tokens import TokenRow, get_token
from parley.coordinator.remembered import Remembered

__all__ = ["Keyring"]

REMEMBERED = 10_000  # tokens; the one not shown for longest is forgotten first


class Keyring:
    """Lives on the event loop, so that nothing happens between a look at it and what follows."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._rows: Remembered[str, TokenRow] = Remembered(REMEMBERED)
        self._revocations = 0

    async def principal(self, token: str) -> Principal:
        """Who shows this token."""
        kid, secret = read_token(token)
        row = self._rows.get(kid)
        if row is None:
            before = self._revocations
            row = await anyio.to_thread.run_sync(self._storage.glance, lambda connection: get_token(connection, kid))
            if row is not None and self._storage.exclusive and before == self._revocations:
                self._rows.put(kid, row)
        return authenticate(row, secret)

    def forget(self, kid: str) -> None:
        """A token was revoked. What is being read at this moment may be from before, and is not kept."""
        self._rows.forget(kid)
        self._revocations += 1
