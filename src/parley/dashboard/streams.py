"""Server-sent events of the API, passed on to a page.

A stream is ended after a while; the browser opens it again by itself and is asked for its session anew, so that nobody
goes on listening long after signing out, expiry or revocation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from parley.dashboard.calls import Api, ApiRefusal

__all__ = ["relay"]

LONGEST = 300.0  # seconds
RETRY = b"retry: 1000\n\n"  # milliseconds after which a browser comes back


async def relay(api: Api, *parts: str) -> Response:
    """The stream; an empty answer that ends it for good where the API refuses."""
    source = api.stream(*parts)
    try:
        first = await anext(source)
    except ApiRefusal as refusal:
        return Response(status_code=204 if refusal.status in (401, 403, 404) else 503)
    except StopAsyncIteration:
        return Response(status_code=503)

    async def passed_on() -> AsyncIterator[bytes]:
        try:
            yield RETRY + first
            async with asyncio.timeout(LONGEST):
                async for chunk in source:
                    yield chunk
        except TimeoutError:
            return
        finally:
            await source.aclose()  # type: ignore[attr-defined]

    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(passed_on(), media_type="text/event-stream", headers=headers)
