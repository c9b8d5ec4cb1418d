"""Calls of the JSON API from within the same process, as the person who looks at the page and with no right beyond.

A request goes through the whole application, guard and all, exactly as one from outside would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import anyio.to_thread
import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Scope

from parley.coordinator.answers import Answer
from parley.protocol.codec import LARGE, read_json

A = TypeVar("A", bound=Answer)


class ApiRefusal(Exception):
    """The API said no; `problem` is its problem document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail", ""))
        self.status, self.problem = status, problem

    @property
    def slug(self) -> str:
        """The last word of the problem's type."""
        return str(self.problem.get("type", "")).rsplit(":", 1)[-1]


def address(*parts: object) -> str:
    """A path below /v1, every part encoded.

    >>> address("studies", "trial", "agents", "São Paulo?")
    '/v1/studies/trial/agents/S%C3%A3o%20Paulo%3F'
    """
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


async def _parsed(content: bytes) -> Any:
    """Off the event loop where it takes its time."""
    return json.loads(content) if len(content) <= LARGE else await anyio.to_thread.run_sync(read_json, content)


@dataclass(frozen=True, kw_only=True)
class Api:
    """The API as one reader sees it; `credential` is what `Authorization` says."""

    app: ASGIApp
    credential: str

    async def get(self, *parts: object, **query: Any) -> Any:
        """The JSON of a GET."""
        return await _parsed(await self.text(*parts, **query))

    async def read(self, kind: type[A], /, *parts: object, **query: Any) -> A:
        """The answer of a GET, as the class that the API promises."""
        return msgspec.json.decode(await self.text(*parts, **query), type=kind)

    async def text(self, *parts: object, **query: Any) -> bytes:
        """The body of a GET, as it is."""
        return await self._call("GET", parts, query, None)

    async def send(self, method: str, *parts: object, body: Any = None) -> Any:
        """The JSON of any other call; a body of bytes is JSON already."""
        return await _parsed(await self._call(method, parts, {}, body))

    async def act(self, kind: type[A], method: str, *parts: object, body: Any = None) -> A:
        """The answer of any other call, as the class that the API promises."""
        return msgspec.json.decode(await self._call(method, parts, {}, body), type=kind)

    async def _call(self, method: str, parts: tuple[object, ...], query: Mapping[str, Any], body: Any) -> bytes:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        status, received = 0, list[bytes]()  # a large answer comes in one part, of which no copy is made
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if sent:
                await asyncio.Event().wait()  # nobody disconnects from within
            sent = True
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                received.append(message.get("body", b""))

        await self.app(self._scope(method, parts, query, len(content)), receive, send)
        if status >= 400:
            raise ApiRefusal(status, json.loads(b"".join(received)))
        return b"".join(received)

    async def stream(self, *parts: object) -> AsyncIterator[bytes]:
        """The chunks of an answer that does not end by itself; closing the iterator ends the call."""
        messages: asyncio.Queue[Message] = asyncio.Queue(maxsize=16)
        begun, gone = False, asyncio.Event()

        async def receive() -> Message:
            nonlocal begun
            if not begun:
                begun = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        call = asyncio.ensure_future(self._finish(self._scope("GET", parts, {}, 0), receive, messages))
        try:
            start = await messages.get()
            status, body = start.get("status", 500), b""
            while (message := await messages.get())["type"] == "http.response.body":
                if status >= 400:
                    body += message.get("body", b"")
                elif message.get("body"):
                    yield message["body"]
                if not message.get("more_body", False):
                    break
            if status >= 400:
                raise ApiRefusal(status, json.loads(body or b"{}"))
        finally:
            gone.set()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    async def _finish(self, scope: Scope, receive: Any, messages: asyncio.Queue[Message]) -> None:
        try:
            await self.app(scope, receive, messages.put)
        finally:
            if not messages.full():
                messages.put_nowait({"type": "end"})

    def _scope(self, method: str, parts: tuple[object, ...], query: Mapping[str, Any], length: int) -> Scope:
        path = address(*parts)
        asked = urlencode({key: value for key, value in query.items() if value not in (None, "")})
        headers = [(b"authorization", self.credential.encode()), (b"content-type", b"application/json")]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": "/v1/" + "/".join(str(part) for part in parts),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": asked.encode(),
            "headers": [*headers, (b"content-length", str(length).encode())],
            "client": ("dashboard", 0),
            "server": ("dashboard", 0),
            "state": {},
        }


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
