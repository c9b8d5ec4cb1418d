"""What handlers work with: one running coordinator, and one call of an operation that passed the guard.

What one token may ask and have in progress is counted here, per process, in memory, on the event loop. Whoever passes
such a limit is told when to come back.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Annotated, Any, Generic, TypeVar

import anyio.to_thread
import msgspec
from anyio import Lock, Semaphore
from cachetools import LRUCache
from msgspec import Meta
from starlette.applications import Starlette
from starlette.requests import Request

from parley.coordinator.access.tokens import UNBLINDED, Principal, Role, TokenCache, require_live
from parley.coordinator.answers import StudyLine
from parley.coordinator.clock import Clock, MonotonicClock
from parley.coordinator.observability import Metrics, logger
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import ETags, Visibility, summary
from parley.coordinator.reading.watch import Watch
from parley.coordinator.record import Storage, Transaction, studies
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.phases import Closer
from parley.errors import StorageUnavailable
from parley.protocol import Stage
from parley.web.guard import Buckets

T = TypeVar("T")
Q = TypeVar("Q")
B = TypeVar("B")
LARGE_ANSWER = 256 * 1024  # bytes of an answer that cost as much as a request
LARGEST_PHASE = 1_000_000
LATER = {"Retry-After": "2"}
MOMENT = 1.0  # seconds for which an answer about readiness holds
DECISION = 1.0  # seconds for which the answer to the last report of a phase waits for the decision


class Throttle(Buckets):
    """A bucket of requests a token."""

    def check(self, key: str, cost: float = 1.0) -> None:
        """Raise the refusal that says when to come back."""
        seconds = self.wait(key, cost)
        if seconds > 0:
            later = max(1, round(seconds + 0.5))
            raise Refusal("too-fast", f"try again in {later} s", headers={"Retry-After": str(later)})


class Slots:
    """How many things of a kind one token may have in progress.

    >>> slots = Slots(1, "requests")
    >>> slots.enter("a"), slots.enter("b"), slots.leave("a"), slots.enter("a")
    (None, None, None, None)
    """

    def __init__(self, most: int, words: str) -> None:
        self._most, self._words = most, words
        self._taken: Counter[str] = Counter()

    def enter(self, key: str) -> None:
        """Take a slot, or raise the refusal."""
        if self._taken[key] >= self._most:
            words = f"a token may have {self._most} {self._words} in progress"
            raise Refusal("too-fast", f"{words}: wait for an answer first", headers=LATER)
        self._taken[key] += 1

    def leave(self, key: str) -> None:
        """Give a slot back."""
        self._taken[key] -= 1
        if self._taken[key] <= 0:
            del self._taken[key]

    @contextmanager
    def taken(self, key: str) -> Iterator[None]:
        """A slot for as long as this lasts."""
        self.enter(key)
        try:
            yield
        finally:
            self.leave(key)

    def check(self, key: str) -> None:
        """Raise the refusal if there is no slot left."""
        with self.taken(key):
            pass


class Pool:
    """Work that takes its time, off the event loop: `at_once` of everybody together, one of a token.

    Tokens take turns, so that the others wait for one work of a token and no more. A token with more than `of_one` in
    progress or waiting is told to come back, and so is everybody while `waiting` are.
    """

    def __init__(self, *, at_once: int, of_one: int, waiting: int, words: str) -> None:
        self._slots = Slots(of_one, words)
        self._at_once, self._most, self._waiting = at_once, waiting, 0
        self._places: Semaphore | None = None  # made by the first work: it belongs to an event loop
        self._queues: dict[str, Lock] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """A place for as long as this lasts, when it is the token's turn."""
        if self._waiting >= self._most:
            raise Refusal("too-busy", "the server computes for others: try again", headers=LATER)
        with self._slots.taken(key):
            self._waiting += 1
            self._places = self._places or Semaphore(self._at_once, fast_acquire=True)
            queue = self._queues.setdefault(key, Lock(fast_acquire=True))
            try:
                async with queue, self._places:
                    yield
            finally:
                self._waiting -= 1
                if not (queue.locked() or queue.statistics().tasks_waiting):
                    self._queues.pop(key, None)

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """What `work` returns, computed on a thread when it is its turn."""
        async with self.turn(key):
            return await anyio.to_thread.run_sync(work)


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


class Service:
    """What an edge keeps of one running coordinator, beside its requests. It overrides what it needs."""

    async def start(self) -> None:
        """Begin, on the event loop, before the first request. What it starts must survive its own errors."""

    async def stop(self) -> None:
        """End, after the last request and before the storage is closed. What is not finished waits for a new start."""

    def committed(self, row: StudyRow) -> None:
        """A study changed: the commit is on disk, and was made by this process.

        Called on the event loop or in any thread, once a change, in no order. It returns at once, and may be missed
        after a crash: what must not be lost follows from the log.
        """


S = TypeVar("S", bound=Service)


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
    patience: float = DECISION
    services: list[Service] = field(default_factory=list)  # of edges

    def service(self, kind: type[S]) -> S:
        """The service of an edge, by its class."""
        return next(one for one in self.services if isinstance(one, kind))

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

    async def decided(self, row: StudyRow) -> StudyRow:
        """A study that just changed, once the step that is due was taken, so that whoever caused it finds the decision.

        It is the closer's: here is waited for it, and not for long. What was committed is acknowledged in time, however
        large the study, and whoever waits for the next plan hears of it (`watch`).
        """
        self.tell(row)
        if row.stage is not Stage.CLOSING:
            self.closer.reported(row.id)
            return row
        with self.watch.following(row.id):  # from before the closer begins, so that its word is not missed
            self.closer.call()
            until = monotonic() + self.patience
            while row.stage is Stage.CLOSING and (left := until - monotonic()) > 0:
                if await self.watch.next(row.id, row.sequence, left) is None:
                    break
                row = await self.read(partial(studies.require, study=row.id))
        return row

    def tell(self, row: StudyRow) -> None:
        """Let everybody know who follows the study: requests that wait, and services of edges."""
        self.watch.tell(row)
        for service in self.services:
            try:
                service.committed(row)
            except Exception:  # the change is on disk: a bug of an edge must not make it look undone
                logger.exception("an edge failed after a commit", service=type(service).__name__)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What the path of an operation may name."""

    study: str = ""
    agent: str = ""
    arm: str = ""
    phase: Annotated[int, Meta(ge=1, le=LARGEST_PHASE)] = 1
    kid: Annotated[str, Meta(max_length=64)] = ""


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
        return await self.line(await self.change(partial(work, actor=self.by.name, at=self.context.clock())))

    async def line(self, row: StudyRow) -> StudyLine:
        """The line of a study that just changed, once the step that this made due was taken."""
        return summary(await self.context.decided(row), self.visibility, self.context.etags)


def context_of(served: Starlette | Request) -> Context:
    """The coordinator behind an application, or behind a request to one."""
    context: Context = (served.app if isinstance(served, Request) else served).state.context
    return context
