"""The application: routes, failures as problem documents, and what runs beside the requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio.to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from parley import __version__
from parley.coordinator.access import sessions as signed_in
from parley.coordinator.access.tokens import TokenCache
from parley.coordinator.clock import Clock, MonotonicClock, utc_now
from parley.coordinator.http.context import Context
from parley.coordinator.http.guard import answer_problem, refusal_of
from parley.coordinator.http.heavy import Lanes, Turns, answers, computations, pages
from parley.coordinator.http.limits import Throttle
from parley.coordinator.http.readiness import Readiness
from parley.coordinator.http.routes import (
    health,
    lost_sites,
    oversight,
    quarantine,
    reports,
    sessions,
    streams,
    studies,
    tokens,
)
from parley.coordinator.logs import logger
from parley.coordinator.metrics import Metrics
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.visibility import ETags
from parley.coordinator.reading.watch import Watch
from parley.coordinator.record import Storage, StorageUnavailable
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.phases import Closer

__all__ = ["create_app", "new_context"]

SWEEP = 60.0  # seconds
REQUESTS, UPLOADS, PLANS, STREAMS = 32, 1, 16, 32  # of one token in progress at once
THREADS = 64  # that may wait for the database at once

DESCRIPTION = """Runs live studies: publishes plans, takes reports exactly once, decides, and keeps a log that can be
verified. Every refusal is `application/problem+json` (RFC 9457) with a stable `type` and `retry`, which says whether
the same request may succeed later."""


def new_context(storage: Storage, settings: ServerSettings, *, clock: Clock = utc_now) -> Context:
    """All that one running coordinator keeps, nothing of it begun."""
    metrics, watch = Metrics(), Watch(storage)
    return Context(
        storage=storage,
        settings=settings,
        clock=clock,
        forward=MonotonicClock(clock),
        metrics=metrics,
        pace=Throttle(rate=settings.rate, burst=settings.burst),
        watch=watch,
        closer=Closer(storage, clock, metrics, watch.tell),
        tokens=TokenCache(storage),
        readiness=Readiness(storage),
        etags=ETags(),
        heavy=computations(),
        changes=Lanes(),
        pages=pages(),
        reading=answers(),
        turns=Turns(REQUESTS, "requests"),
        uploads=Turns(UPLOADS, "studies to send"),
        waiting=Turns(PLANS, "plans to wait for"),
        streams=Turns(STREAMS, "streams"),
    )


@asynccontextmanager
async def _running(app: FastAPI) -> AsyncIterator[None]:
    """What runs beside the requests, from the first to the last."""
    context: Context = app.state.context
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    context.watch.start()
    context.closer.start()
    sweeping = asyncio.create_task(_sweep(context))
    logger.info("started", version=__version__, database=context.storage.url)
    yield
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    await context.watch.stop()
    await anyio.to_thread.run_sync(context.closer.stop)
    logger.info("stopped")


def create_app(context: Context) -> FastAPI:
    """The API over an open storage; whoever opened it closes it. `service.assembly` adds the rest."""
    app = FastAPI(
        title="Parley coordinator",
        version=__version__,
        description=DESCRIPTION,
        lifespan=_running,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # an address with another slash is another address, and there is nothing at it
    )
    app.state.context = context
    # What agents use is found first.
    for part in (reports, studies, oversight, quarantine, lost_sites, streams, tokens, sessions, health):
        app.router.routes.extend(part.router.routes)
    for kind in (Refusal, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _problem)
    return app


async def _sweep(context: Context) -> None:
    """Forget sessions that are over, now and then: what is forgotten no clock brings back."""
    while True:
        over, sweep = (partial(work, at=context.forward()) for work in (signed_in.any_over, signed_in.sweep))
        try:
            if await context.read(over):
                await asyncio.wrap_future(context.storage.submit(sweep))
        except StorageUnavailable as error:
            logger.warning("cannot look for sessions that are over", error=str(error))
        await asyncio.sleep(SWEEP)


async def _problem(_: Request, error: Exception) -> JSONResponse:
    return answer_problem(refusal_of(error))
