"""The first token of a new database: the only one that is not issued by somebody's token."""

from __future__ import annotations

from sqlalchemy import Connection

from parley.coordinator.access.auth import Role, issue_token
from parley.coordinator.clock import utc_now
from parley.coordinator.problems import Refusal
from parley.coordinator.record import initialise, open_storage
from parley.coordinator.record.tokens import list_tokens
from parley.errors import InvalidInput

__all__ = ["prepare"]


def prepare(address: str, *, name: str = "root", new_token: bool = False) -> tuple[str | None, str, str | None]:
    """Create or upgrade a database; returns the revisions before and after, and an administrator's token if one is due.

    Whoever can write the database file is its administrator anyway, so this asks for no token.
    """
    before, after = initialise(address)
    storage = open_storage(address)

    def work(connection: Connection) -> str | None:
        if list_tokens(connection) and not new_token:
            return None
        token, _ = issue_token(
            connection, role=Role.ADMINISTRATOR, name=name, study=None, agent=None, by="bootstrap", at=utc_now()
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
