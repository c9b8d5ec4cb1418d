"""What handlers work with: one running coordinator, and one call of an operation that passed the guard."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Annotated, Any, Generic, TypeVar

import anyio.to_thread
import msgspec
from cachetools import LRUCache
from msgspec import Meta
from starlette.applications import Starlette
from starlette.requests import Request

from parley.coordinator.access.oidc import Provider
from parley.coordinator.access.tokens import UNBLINDED, Principal, Role, TokenCache, require_live
from parley.coordinator.answers import StudyLine
from parley.coordinator.clock import Clock, MonotonicClock
from parley.coordinator.http.limits import Pool, Slots, Throttle
from parley.coordinator.http.webhooks import Sender
from parley.coordinator.observability import Metrics
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import summary
from parley.coordinator.reading.visibility import ETags, Visibility
from parley.coordinator.reading.watch import Watch
from parley.coordinator.record import Storage, Transaction, studies
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.phases import Closer
from parley.errors import StorageUnavailable
from parley.protocol import Stage

T = TypeVar("T")
Q = TypeVar("Q")
B = TypeVar("B")
LARGE_ANSWER = 256 * 1024  # bytes of an answer that cost as much as a request
LARGEST_PHASE = 1_000_000
MOMENT = 1.0  # seconds for which an answer about readiness holds


class Readiness:
    """Whether a report that came now would be kept. Only a commit tells; one a second answers everybody.

    Lives on the event loop.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._asking = asyncio.Lock()
        self._until = 0.0
        self._trouble: str | None = None

    async def check(self) -> None:
        """Raise `StorageUnavailable` unless a change was durable a moment ago."""
        async with self._asking:
            if monotonic() >= self._until:
                try:
                    await anyio.to_thread.run_sync(self._storage.ping)
                    self._trouble = None
                except StorageUnavailable as error:
                    self._trouble = str(error)
                self._until = monotonic() + MOMENT
        if self._trouble is not None:
            raise StorageUnavailable(self._trouble)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One running coordinator."""

    storage: Storage
    settings: ServerSettings
    clock: Clock
    session_clock: MonotonicClock
    metrics: Metrics
    pace: Throttle
    watch: Watch
    closer: Closer
    sender: Sender
    provider: Provider | None  # with which people sign in
    tokens: TokenCache
    etags: ETags
    readiness: Readiness
    # (study, principal) -> the last phase in which the study's log has them as a reader of results
    reads: LRUCache[tuple[str, str], int] = field(default_factory=lambda: LRUCache(10_000))
    heavy: Pool  # what is decided, verified, simulated or parsed at length
    changes: Pool  # commits: one of a token at a time
    pages: Pool  # from the first question to the last line: a large one holds a hundred megabytes meanwhile
    reading: Pool  # answers; an agent's plans and reports wait for nobody
    requests: Slots
    uploads: Slots  # studies that are sent
    waiting: Slots  # plans that are waited for
    streams: Slots  # events that are followed, and exports

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run on a snapshot, off the event loop: for little that is soon done."""
        return await anyio.to_thread.run_sync(self.storage.read, work)

    async def glance(self, work: Callable[[Transaction], T]) -> T:
        """Run a single statement that reads, off the event loop."""
        return await anyio.to_thread.run_sync(self.storage.glance, work)

    async def read_for(self, kid: str, work: Callable[[Transaction], T]) -> T:
        """Run on a snapshot, off the event loop, when it is the token's turn: for what may be much."""
        return await self.reading.run(kid, partial(self.storage.read, work))

    async def change(self, work: Callable[[Transaction], T | Refusal], *, by: Principal, study: str | None = None) -> T:
        """Run in a transaction, off the event loop; `study` is the only one it locks, if that is known.

        Of one token one at a time: others wait for one large study of it, not for all that it sends. Refused if the
        token of `by` does not hold any more. A returned refusal is raised after the commit of its trace.
        """

        def checked(transaction: Transaction) -> T | Refusal:
            require_live(transaction, by.kid)
            return work(transaction)

        async with self.changes.turn(by.kid):
            result = await asyncio.wrap_future(self.storage.submit(checked, study=study))
        if isinstance(result, Refusal):
            raise result
        return result

    def changed(self, row: StudyRow) -> None:
        """Wake those who wait for the study, and the closer if a step is due."""
        self.watch.tell(row)
        if row.stage is Stage.CLOSING:
            self.closer.call()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What the path of an operation may name."""

    study: str = ""
    agent: str = ""
    arm: str = ""
    phase: Annotated[int, Meta(ge=1, le=LARGEST_PHASE)] = 1
    kid: Annotated[str, Meta(max_length=64)] = ""
    webhook: Annotated[str, Meta(max_length=64)] = ""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[Q, B]):
    """What passed the guard: who asks for what. Query and body are the operation's own structs."""

    app: Starlette
    credential: str  # what `Authorization` says
    by: Principal
    at: Place
    query: Q
    body: B
    headers: Mapping[str, str] = field(default_factory=dict)  # of a request
    finish: Callable[[Any], Any] = lambda answer: answer  # a request's large answers are encoded where they are made

    @property
    def context(self) -> Context:
        """The coordinator that answers."""
        return context_of(self.app)

    @property
    def study(self) -> str:
        """The study in the path."""
        return self.at.study

    @property
    def visibility(self) -> Visibility:
        """How much of a study's chain and clock the one who asks may see."""
        return Visibility(whole=self.by.role in UNBLINDED, agent=self.by.agent)

    @property
    def blinded(self) -> bool:
        """Whether nothing may be told arm by arm."""
        return self.by.role is Role.VIEWER

    async def answer(self, work: Callable[[Transaction], T]) -> T:
        """What was read, and may be large, when it is the token's turn; a text is JSON already."""
        finished: T = await self.context.read_for(self.by.kid, lambda transaction: self.finish(work(transaction)))
        return finished

    async def about(self, work: Callable[[Transaction, StudyRow], T]) -> T:
        """The same of the study in the path."""
        return await self.answer(lambda transaction: work(transaction, studies.require(transaction, self.study)))

    async def compute(self, work: Callable[[], T]) -> T:
        """What takes its time, off the event loop, when it is the token's turn."""
        return await self.context.heavy.run(self.by.kid, work)

    async def change(self, work: Callable[[Transaction], T | Refusal], *, study: str | None = None) -> T:
        """Run in a transaction, as the one who asks."""
        return await self.context.change(work, by=self.by, study=study)

    async def act(self, work: Callable[..., StudyRow]) -> StudyLine:
        """Change a study, as the one who asks; answers its line as it is then."""
        return self.line(await self.change(partial(work, actor=self.by.name, at=self.context.clock())))

    def line(self, row: StudyRow) -> StudyLine:
        """The line of a study that just changed."""
        self.context.changed(row)
        return summary(row, self.visibility, self.context.etags)


def context_of(served: Starlette | Request) -> Context:
    """The coordinator behind an application, or behind a request to one."""
    context: Context = (served.app if isinstance(served, Request) else served).state.context
    return context
