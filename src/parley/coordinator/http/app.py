"""The web application of the coordinator: its operations, its problem documents, and its background work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from parley import __version__
from parley.coordinator.access.tokens import TokenCache, any_session_over, sweep_sessions
from parley.coordinator.clock import Clock
from parley.coordinator.http.context import (
    Context,
    MonotonicClock,
    Pool,
    Readiness,
    Slots,
    Throttle,
    Watch,
    utc_now,
)
from parley.coordinator.http.guard import Operation, refusal_of
from parley.coordinator.http.operations import COORDINATOR, OPERATIONS
from parley.coordinator.observability import Metrics, logger, repeat
from parley.coordinator.reading.studies import ETags
from parley.coordinator.record import Storage
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.phases import Closer
from parley.hooks import edges

SWEEP = 60.0  # seconds between two deletions of expired sessions
REQUESTS, UPLOADS, PLANS, STREAMS = 32, 1, 16, 32  # most in progress at once, per token
THREADS = 64  # most threads that wait for the database at once
# Computations run on threads, since NumPy releases the interpreter lock. Separate processes made no request faster, and
# made simulations slower.
COMPUTATIONS = {"at_once": 2, "of_one": 4, "waiting": 16}  # more at once would make all of them slower
PAGES = {"at_once": 3, "of_one": 16, "waiting": 128}  # most pages take a moment
ANSWERS = {"at_once": 3, "of_one": 128, "waiting": 512}
CHANGES = {"at_once": 1024, "of_one": 1024, "waiting": 4096}  # the storage has its own queue


def new_context(storage: Storage, settings: ServerSettings, *, clock: Clock = utc_now) -> Context:
    """Create the context of one coordinator; its background work is not started yet."""
    metrics, watch, monotonic = Metrics(), Watch(storage), MonotonicClock(clock)
    context = Context(
        storage=storage,
        settings=settings,
        clock=clock,
        session_clock=monotonic,
        metrics=metrics,
        pace=Throttle(rate=settings.rate, burst=settings.burst),
        watch=watch,
        closer=Closer(storage, clock, metrics),
        tokens=TokenCache(storage),
        etags=ETags(),
        readiness=Readiness(storage),
        heavy=Pool(**COMPUTATIONS, words="long computations"),
        changes=Pool(**CHANGES, words="changes"),
        pages=Pool(**PAGES, words="pages"),
        reading=Pool(**ANSWERS, words="answers"),
        requests=Slots(REQUESTS, "requests"),
        uploads=Slots(UPLOADS, "studies to send"),
        waiting=Slots(PLANS, "plans to wait for"),
        streams=Slots(STREAMS, "streams"),
    )
    context.services.extend(made for edge in edges() if (made := edge.service(context)) is not None)
    return context


def create_app(context: Context, *more: Operation) -> Starlette:
    """Create the API of a coordinator, with the operations `more` and the operations of edges.

    The caller closes the storage.
    """
    operations = (*OPERATIONS, *more, *(row for edge in edges() for row in edge.operations()))
    app = Starlette(
        routes=[operation.route for operation in operations],
        exception_handlers={HTTPException: _problem},
        lifespan=_running,
    )
    app.router.redirect_slashes = False  # a path with an extra slash is not found, instead of being redirected
    app.state.context = context
    app.state.openapi = cache(partial(COORDINATOR.document, operations))  # rarely requested, so built on first use
    app.state.operations = {operation.name: operation for operation in operations}
    return app


async def _problem(_: Request, error: Exception) -> Response:
    return refusal_of(error).response()


@asynccontextmanager
async def _running(app: Starlette) -> AsyncIterator[None]:
    """Run the background work, from before the first request until after the last."""
    context: Context = app.state.context
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    context.watch.start()
    context.closer.start(context.tell)
    words = "cannot look for sessions that are over"
    beside = [asyncio.create_task(repeat(partial(_sweep, context), SWEEP, words))]
    for service in context.services:
        await service.start()
    logger.info("started", version=__version__, database=context.storage.url)
    yield
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    for service in reversed(context.services):
        await service.stop()
    await context.watch.stop()
    await anyio.to_thread.run_sync(context.closer.stop)
    logger.info("stopped")


async def _sweep(context: Context) -> None:
    """Delete expired sessions, so that setting the clock back cannot revive them."""
    over, sweep = (partial(work, at=context.session_clock()) for work in (any_session_over, sweep_sessions))
    if await context.read(over):
        await asyncio.wrap_future(context.storage.submit(sweep))
