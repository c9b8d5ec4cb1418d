"""Server-sent events over all the studies that a token reaches: something changed, look again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from starlette.requests import Request
from starlette.responses import StreamingResponse

from parley.coordinator.http.context import context_of, principal_of
from parley.coordinator.http.guard import still_welcome
from parley.coordinator.http.operations import operations
from parley.coordinator.reading.studies import pulse
from parley.coordinator.record import StorageUnavailable

__all__ = ["router"]

router = operations("studies")

MOMENT = 1.0  # seconds between looks
HEARTBEAT = 15  # looks without news after which a comment keeps the stream open


@router.get("/events", response_class=StreamingResponse)
async def follow_studies(request: Request) -> StreamingResponse:
    """Events named `studies` with their number and a version, at first and after every change."""
    only = principal_of(request).study
    context_of(request).streams.check(principal_of(request).kid)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_changes(request, only), media_type="text/event-stream", headers=headers)


async def _changes(request: Request, only: str | None) -> AsyncIterator[str]:
    context = context_of(request)
    with context.streams.taken(principal_of(request).kid):
        async for told in _pulses(request, only):
            yield told


async def _pulses(request: Request, only: str | None) -> AsyncIterator[str]:
    context = context_of(request)
    known, quiet = (-1, -1), 0
    while context.watch.running:
        try:
            now = await context.read(partial(pulse, only=only))
        except StorageUnavailable:
            return  # whoever listens connects again
        if not await still_welcome(request):
            return
        if now != known:
            known, quiet = now, 0
            version = context.etags.of(only, *now)
            yield f'id: {version}\nevent: studies\ndata: {{"studies": {now[0]}, "version": "{version}"}}\n\n'
        elif (quiet := quiet + 1) % HEARTBEAT == 0:
            yield ": still here\n\n"
        await asyncio.sleep(MOMENT)
