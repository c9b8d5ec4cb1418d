"""The context of handlers: one running coordinator, and one call that passed the guard.

A coordinator has a clock, limits, a `Watch` that notifies requests of changed studies, and the services of edges.

Each token's requests and work in progress are counted here, per process, in memory, on the event loop. A caller who
exceeds a limit learns when to try again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Annotated, Any, Generic, Self, TypeVar

import anyio.to_thread
import msgspec
from anyio import Lock, Semaphore
from cachetools import LRUCache
from msgspec import Meta
from starlette.applications import Starlette
from starlette.requests import Request

from parley.coordinator.access.tokens import UNBLINDED, Principal, Role, TokenCache, require_live
from parley.coordinator.answers import StudyLine
from parley.coordinator.clock import Clock, later
from parley.coordinator.observability import Metrics, logger, repeat
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import ETags, Visibility, summary
from parley.coordinator.record import Storage, Transaction, studies
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.phases import Closer
from parley.errors import StorageUnavailable
from parley.protocol import Stage
from parley.protocol.codec import LARGEST_PHASE
from parley.web.guard import Buckets

T = TypeVar("T")
Q = TypeVar("Q")
B = TypeVar("B")
LARGE_ANSWER = 256 * 1024  # bytes of an answer that count as one more request
LATER = {"Retry-After": "2"}
MOMENT = 1.0  # seconds for which a readiness check stays valid
LOOK = 0.5  # seconds between two checks for changes by other processes
DECISION = 1.0  # most seconds that the answer to a phase's last report waits for the decision


def utc_now() -> str:
    """The current time in UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class MonotonicClock:
    """The clock for sessions. It never goes back, so that an ended session cannot become valid again.

    It returns the time of the system clock, or its own last time plus the seconds since then, whichever is later.

    >>> times = iter(["2026-01-01T12:00:00.000Z", "2026-01-01T09:00:00.000Z"])
    >>> now = MonotonicClock(lambda: next(times), timer=lambda: 0.0)
    >>> now(), now()
    ('2026-01-01T12:00:00.000Z', '2026-01-01T12:00:00.000Z')
    """

    def __init__(self, clock: Clock, timer: Callable[[], float] = monotonic) -> None:
        self._clock, self._timer = clock, timer
        self._latest, self._since = "", 0.0

    def __call__(self) -> str:
        now, passed = self._clock(), self._timer()
        if self._latest:
            now = max(now, later(self._latest, (passed - self._since) / 3600))
        self._latest, self._since = now, passed
        return now


class Throttle(Buckets):
    """The rate limit: each token has a bucket of requests, which refills with time."""

    def check(self, key: str, cost: float = 1.0) -> None:
        """Raise a refusal that says when to try again, if the bucket is empty."""
        seconds = self.wait(key, cost)
        if seconds > 0:
            later = max(1, round(seconds + 0.5))
            raise Refusal("too-fast", f"try again in {later} s", headers={"Retry-After": str(later)})


class Slots:
    """A limit on how many things of one kind a token may have in progress.

    >>> slots = Slots(1, "requests")
    >>> slots.enter("a"), slots.enter("b"), slots.leave("a"), slots.enter("a")
    (None, None, None, None)
    """

    def __init__(self, most: int, words: str) -> None:
        self._most, self._words = most, words
        self._taken: Counter[str] = Counter()

    def enter(self, key: str) -> None:
        """Take a slot, or raise a refusal if the token has none free."""
        if self._taken[key] >= self._most:
            words = f"a token may have {self._most} {self._words} in progress"
            raise Refusal("too-fast", f"{words}: wait for an answer first", headers=LATER)
        self._taken[key] += 1

    def leave(self, key: str) -> None:
        """Release a slot of the token."""
        self._taken[key] -= 1
        if self._taken[key] <= 0:
            del self._taken[key]

    @contextmanager
    def taken(self, key: str) -> Iterator[None]:
        """Occupy a slot during a `with` block."""
        self.enter(key)
        try:
            yield
        finally:
            self.leave(key)

    def check(self, key: str) -> None:
        """Raise a refusal if the token has no free slot."""
        with self.taken(key):
            pass


class Pool:
    """A pool of slow work off the event loop: at most `at_once` pieces run at a time, and at most one per token.

    Tokens take turns, so that nobody waits for more than one piece of work from each other token. A token with `of_one`
    pieces running or waiting is refused, and so is everybody while `waiting` pieces are running or waiting in total.
    """

    def __init__(self, *, at_once: int, of_one: int, waiting: int, words: str) -> None:
        self._slots = Slots(of_one, words)
        self._at_once, self._most, self._waiting = at_once, waiting, 0
        self._places: Semaphore | None = None  # created with the first work, since it belongs to an event loop
        self._queues: dict[str, Lock] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for the token's turn, and keep it during a `with` block."""
        if self._waiting >= self._most:
            raise Refusal("too-busy", "the server is busy with other requests: try again", headers=LATER)
        with self._slots.taken(key):
            self._waiting += 1
            self._places = self._places or Semaphore(self._at_once, fast_acquire=True)
            queue = self._queues.setdefault(key, Lock(fast_acquire=True))
            try:
                # First the token's own queue: while a token waits there, it takes no slot that others could use.
                async with queue, self._places:
                    yield
            finally:
                self._waiting -= 1
                if not (queue.locked() or queue.statistics().tasks_waiting):
                    self._queues.pop(key, None)

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """Wait for the token's turn, run `work` on a thread, and return its result."""
        async with self.turn(key):
            return await anyio.to_thread.run_sync(work)


@dataclass(frozen=True, kw_only=True)
class Glance:
    """The fields of a study's row by which listeners see that the study has changed."""

    study: str
    stage: str
    phase: int
    awaited: int
    sequence: int

    @classmethod
    def of(cls, row: StudyRow) -> Self:
        """Copy these fields from a study's row."""
        return cls(study=row.id, stage=str(row.stage), phase=row.phase, awaited=row.awaited, sequence=row.sequence)


class Watch:
    """Notifies waiting requests of a changed study: at once if this process changed it, else within `LOOK` seconds.

    One query per `LOOK` covers all studies together, however many requests wait. Used on the event loop only, except
    `tell`, which any thread may call.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._latest: dict[str, Glance] = {}
        self._followers: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether `start` was called, and `stop` was not called yet."""
        return self._loop is not None

    def start(self) -> None:
        """Start watching the database for changes."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(repeat(self._look, LOOK, "cannot look for changes"))

    async def stop(self) -> None:
        """Stop watching, and release all waiting requests."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._loop = None
        async with self._changed:
            self._changed.notify_all()

    def tell(self, row: StudyRow) -> None:
        """Notify waiting requests that this process changed a study; does nothing if none waits."""
        if self._loop is not None and row.id in self._followers:
            self._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._note([Glance.of(row)])))

    async def _note(self, seen: list[Glance]) -> None:
        async with self._changed:
            for glance in seen:
                known = self._latest.get(glance.study)
                if glance.study in self._followers and (known is None or glance.sequence > known.sequence):
                    self._latest[glance.study] = glance
            self._changed.notify_all()

    async def _look(self) -> None:
        watched = list(self._followers)

        def glances(transaction: Transaction) -> list[Glance]:
            return [Glance.of(row) for row in studies.find(transaction, among=watched, limit=None)[0]]

        if watched:
            await self._note(await anyio.to_thread.run_sync(self._storage.read, glances))

    async def next(self, study: str, after: int, timeout: float) -> Glance | None:
        """Wait until a study's log has more than `after` records. None if that takes too long or the server stops."""
        with self.following(study):
            try:
                async with self._changed:
                    async with asyncio.timeout(timeout):
                        ready = self._changed.wait_for
                        await ready(lambda: self._loop is None or self._newer(study, after) is not None)
                    return self._newer(study, after)
            except TimeoutError:
                return None

    @contextmanager
    def following(self, study: str) -> Iterator[None]:
        """Remember the latest change of a study for `next`, during a `with` block."""
        self._followers[study] += 1
        try:
            yield
        finally:
            self._followers[study] -= 1
            if not self._followers[study]:
                del self._followers[study]
                self._latest.pop(study, None)

    def _newer(self, study: str, after: int) -> Glance | None:
        glance = self._latest.get(study)
        return glance if glance is not None and glance.sequence > after else None


class Readiness:
    """A check of whether a report would be stored now. Only a commit can show that; one a second serves all callers.

    Used on the event loop only.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._asking = asyncio.Lock()
        self._until = 0.0
        self._trouble: str | None = None

    async def check(self) -> None:
        """Try a commit, unless the last try was less than `MOMENT` ago; raise `StorageUnavailable` if it failed."""
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
    """Base class of an edge's background service in a running coordinator; subclasses override what they need."""

    async def start(self) -> None:
        """Start, on the event loop, before the first request. Tasks that it starts must survive their own errors."""

    async def stop(self) -> None:
        """Stop, after the last request and before the storage is closed. The next start continues unfinished work."""

    def committed(self, row: StudyRow) -> None:
        """Called when this process has changed a study, after the commit is on disk.

        Called on the event loop or in any thread, once per change, in no particular order. It must return at once. A
        crash may prevent the call, so the service must be able to find in the log any work that must not be lost.
        """


S = TypeVar("S", bound=Service)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One running coordinator: its storage, settings, limits and background work."""

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
    # (study, principal) -> the last phase in which the study's log names this principal as a reader of results
    reads: LRUCache[tuple[str, str], int] = field(default_factory=lambda: LRUCache(10_000))
    heavy: Pool  # long decisions, verifications, simulations and parsing
    changes: Pool  # commits, one per token at a time
    pages: Pool  # whole pages: a large page takes a hundred megabytes while it is made
    reading: Pool  # answers; an agent's plans and reports do not queue
    requests: Slots
    uploads: Slots  # studies being sent
    waiting: Slots  # long polls for plans
    streams: Slots  # event streams and exports
    patience: float = DECISION  # seconds that `decided` waits
    services: list[Service] = field(default_factory=list)  # services of edges

    def service(self, kind: type[S]) -> S:
        """The service of an edge, by its class."""
        return next(one for one in self.services if isinstance(one, kind))

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on a snapshot, off the event loop and without a queue; for small, quick reads."""
        return await anyio.to_thread.run_sync(self.storage.read, work)

    async def glance(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which must be a single read-only statement, off the event loop."""
        return await anyio.to_thread.run_sync(self.storage.glance, work)

    async def read_for(self, kid: str, work: Callable[[Transaction], T]) -> T:
        """Wait for the token's turn, and run `work` on a snapshot, off the event loop; for large reads."""
        return await self.reading.run(kid, partial(self.storage.read, work))

    async def change(self, work: Callable[[Transaction], T | Refusal], *, by: Principal, study: str | None = None) -> T:
        """Run `work` in a transaction, off the event loop; `study` is the only study that it locks, if known.

        A token makes one change at a time, so that others wait for at most one large study of that token. The change is
        refused if the token of `by` is no longer valid. A refusal that `work` returns is raised after the commit that
        records it.
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
        """Wait a moment for the due step of a study that just changed, and return the study's row.

        The closer takes the step; this method only waits, and not for long, so that a committed report is acknowledged
        in time, however large the study. Requests that wait for the next plan are notified (`watch`).
        """
        self.tell(row)
        if row.stage is not Stage.CLOSING:
            self.closer.reported(row.id)
            return row
        # Follow the study before the closer starts, so that its notification is not missed.
        with self.watch.following(row.id):
            self.closer.call()
            until = monotonic() + self.patience
            while row.stage is Stage.CLOSING and (left := until - monotonic()) > 0:
                if await self.watch.next(row.id, row.sequence, left) is None:
                    break
                row = await self.read(partial(studies.require, study=row.id))
        return row

    def tell(self, row: StudyRow) -> None:
        """Notify waiting requests and the services of edges that a study has changed."""
        self.watch.tell(row)
        for service in self.services:
            try:
                service.committed(row)
            except Exception:  # the change is on disk: a bug of an edge must not make it look undone
                logger.exception("an edge failed after a commit", service=type(service).__name__)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters that the path of an operation may have."""

    study: str = ""
    agent: str = ""
    arm: str = ""
    phase: Annotated[int, Meta(ge=1, le=LARGEST_PHASE)] = 1
    kid: Annotated[str, Meta(max_length=64)] = ""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[Q, B]):
    """A call that passed the guard, with its caller. `query` and `body` have the types that the operation declares."""

    app: Starlette
    credential: str  # value of `Authorization`
    by: Principal
    at: Place
    query: Q
    body: B
    headers: Mapping[str, str] = field(default_factory=dict)  # headers of a request; empty for a page
    finish: Callable[[Any], Any] = lambda answer: answer  # encodes a request's large answer on the thread that made it

    @property
    def context(self) -> Context:
        """The coordinator that answers this call."""
        return context_of(self.app)

    @property
    def study(self) -> str:
        """The id of the study in the path."""
        return self.at.study

    @property
    def visibility(self) -> Visibility:
        """How much of a study's log and times the caller may see."""
        return Visibility(whole=self.by.role in UNBLINDED, agent=self.by.agent)

    @property
    def blinded(self) -> bool:
        """Whether the caller must not see values of single arms."""
        return self.by.role is Role.VIEWER

    async def answer(self, work: Callable[[Transaction], T]) -> T:
        """Read an answer, which may be large, when it is the token's turn. A string from `work` must be JSON."""
        finished: T = await self.context.read_for(self.by.kid, lambda transaction: self.finish(work(transaction)))
        return finished

    async def about(self, work: Callable[[Transaction, StudyRow], T]) -> T:
        """Like `answer`, for work that also needs the row of the study in the path."""
        return await self.answer(lambda transaction: work(transaction, studies.require(transaction, self.study)))

    async def compute(self, work: Callable[[], T]) -> T:
        """Run slow work off the event loop, when it is the token's turn, and return its result."""
        return await self.context.heavy.run(self.by.kid, work)

    async def change(self, work: Callable[[Transaction], T | Refusal], *, study: str | None = None) -> T:
        """Run `work` in a transaction on behalf of the caller, and return its result."""
        return await self.context.change(work, by=self.by, study=study)

    async def act(self, work: Callable[..., StudyRow]) -> StudyLine:
        """Change a study on behalf of the caller, and return the study's updated line."""
        return await self.line(await self.change(partial(work, actor=self.by.name, at=self.context.clock())))

    async def line(self, row: StudyRow) -> StudyLine:
        """The line of a study that just changed, after waiting a moment for a due step (`decided`)."""
        return summary(await self.context.decided(row), self.visibility, self.context.etags)


def context_of(served: Starlette | Request) -> Context:
    """The context of an application, or of a request to an application."""
    context: Context = (served.app if isinstance(served, Request) else served).state.context
    return context
