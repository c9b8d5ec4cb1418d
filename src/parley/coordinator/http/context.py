"""What every request needs: storage, settings, clock, and who waits for what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from parley.coordinator.access.rights import UNBLINDED
from parley.coordinator.access.tokens import Principal, TokenCache, require_live
from parley.coordinator.answers.base import Answer
from parley.coordinator.answers.studies import StudyLine
from parley.coordinator.clock import Clock, MonotonicClock
from parley.coordinator.http.heavy import Heavy, Lanes, Turns
from parley.coordinator.http.limits import Throttle
from parley.coordinator.http.readiness import Readiness
from parley.coordinator.metrics import Metrics
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import summary
from parley.coordinator.reading.visibility import ETags, Visibility
from parley.coordinator.reading.watch import Watch
from parley.coordinator.record import Storage, Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.phases import Closer
from parley.protocol import Stage
from parley.protocol.codec import encoded

__all__ = ["Context", "context_of", "principal_of", "told", "visibility_of", "written"]

T = TypeVar("T")
LARGE = 256 * 1024  # bytes of an answer that cost as much as a request


@dataclass(frozen=True, kw_only=True)
class Context:
    """One running coordinator."""

    storage: Storage
    settings: ServerSettings
    clock: Clock
    forward: MonotonicClock
    metrics: Metrics
    pace: Throttle
    watch: Watch
    closer: Closer
    tokens: TokenCache
    readiness: Readiness
    etags: ETags
    heavy: Heavy
    changes: Lanes  # a commit waits for one of a token
    pages: Heavy
    reading: Heavy  # of answers
    turns: Turns  # requests in progress
    uploads: Turns  # studies that are sent
    waiting: Turns  # plans that are waited for
    streams: Turns  # events that are followed, and exports

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run on a snapshot, off the event loop: for little that is soon done."""
        return await anyio.to_thread.run_sync(self.storage.read, work)

    async def read_for(self, kid: str, work: Callable[[Transaction], T]) -> T:
        """Run on a snapshot, off the event loop, when it is the token's turn: for what may be much."""
        return await self.reading.run(kid, partial(self.storage.read, work))

    async def answer(self, work: Callable[[Transaction], Answer | str], *, to: Principal) -> Response:
        """What was read, as JSON (a text is JSON already), written off the event loop; large answers cost more."""

        def told(connection: Transaction) -> bytes:
            found = work(connection)
            return found.encode() if isinstance(found, str) else written(found)

        return self.sent(await self.read_for(to.kid, told), to=to.kid)

    def sent(self, content: bytes, *, to: str) -> Response:
        """JSON that is written already; large answers cost more of the token's rate."""
        self.pace.charge(to, len(content) / LARGE)
        return Response(content, media_type="application/json")

    async def glance(self, work: Callable[[Transaction], T]) -> T:
        """Run a single statement that reads, off the event loop."""
        return await anyio.to_thread.run_sync(self.storage.glance, work)

    async def change(self, work: Callable[[Transaction], T | Refusal], *, by: Principal, study: str | None = None) -> T:
        """Run in a transaction, off the event loop; `study` is the only one it locks, if that is known.

        Of one token one at a time: those of others wait for one large study of it, not for all that it sends. Refused
        if the token of `by` does not hold any more. A returned refusal is raised after the commit of its trace.
        """

        def checked(connection: Transaction) -> T | Refusal:
            require_live(connection, by.kid)
            return work(connection)

        async with self.changes.lane(by.kid):
            result = await asyncio.wrap_future(self.storage.submit(checked, study=study))
        if isinstance(result, Refusal):
            raise result
        return result

    def changed(self, row: StudyRow) -> None:
        """Tell who waits, and call the closer if a step is due."""
        self.watch.tell(row)
        if row.stage is Stage.CLOSING:
            self.closer.call()


def written(answer: Answer) -> bytes:
    """An answer as JSON, a piece at a time: a board may have a million numbers."""
    return encoded(answer.to_json())


def context_of(request: Request) -> Context:
    """The coordinator that answers this request."""
    context: Context = request.app.state.context
    return context


def principal_of(request: Request) -> Principal:
    """Who is asking; the guard has put it there."""
    principal: Principal = request.state.principal
    return principal


def visibility_of(request: Request) -> Visibility:
    """What of a study's chain and clock the one who asks may see."""
    who = principal_of(request)
    return Visibility(whole=who.role in UNBLINDED, agent=who.agent)


def told(request: Request, row: StudyRow) -> StudyLine:
    """A study's line for the one who asks."""
    return summary(row, visibility_of(request), context_of(request).etags)
