"""What of a study's chain and clock somebody may see.

Heads, sequences and exact times are for those who may see the data anyway, and of its own reports for an agent. Others
get times to the minute, and instead of a sequence a version: a word that changes whenever the study does and says
nothing else. `tests/coordinator/test_commitments.py` looks at everything a viewer and another agent can get, for two
studies that differ in one report, and finds no difference.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass

EXACT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d):\d\d(?:\.\d+)?Z")


def to_the_minute(at: str) -> str:
    """A time without what tells two events of one minute apart.

    >>> to_the_minute("2026-01-31T23:30:12.345Z")
    '2026-01-31T23:30:00.000Z'
    """
    return EXACT.sub(r"\1:00.000Z", at)


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """`whole`: heads, sequences and exact times. `agent`: whose own reports are told exactly."""

    whole: bool
    agent: str | None = None

    def time(self, at: str, agent: str | None = None) -> str:
        """When something happened, as this one may know; `agent` is whose doing it was."""
        mine = agent is not None and agent == self.agent
        return at if self.whole or mine else to_the_minute(at)


class ETags:
    """Versions of what may be looked at again: the same as long as nothing changed, and nothing to be read from them.

    >>> etags = ETags()
    >>> etags.of("trial", 3) == etags.of("trial", 3) != etags.of("trial", 4)
    True
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, *parts: object) -> str:
        """The version that these give."""
        return hashlib.blake2b(repr(parts).encode(), key=self._key, digest_size=8).hexdigest()
