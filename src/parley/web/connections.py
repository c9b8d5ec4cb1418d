"""How a service listens, what a connection may do before anybody knows who it is, and how long it may take.

h11 bounds what is not whole yet: the line and headers of a request, a chunk's length, the trailers. It knows no time,
and uvicorn keeps an answer in memory until it is read. Here a request that does not end in time is cut off, and so is
a connection that does not read what it asked for. Where there are too many connections, those go first that have
waited longest in the middle of a request. A reverse proxy does the same; a server without one survives too. The
coordinator and the service of a site share all this.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from parley.errors import InvalidInput

try:
    import resource
except ModuleNotFoundError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

Refuse = Callable[[str], ASGIApp]  # from words to an answer
CONNECTIONS, SPARE = 4096, 128  # taken at once; descriptors for files, databases and the like
GRACE = 5  # seconds for requests in progress when stopping
KEYS = 10_000  # whose rate is kept; the one silent for longest goes first


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that names the address."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    # On Windows SO_REUSEADDR would let another process take over the port.
    listener.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR), 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidInput("host, port", found=f"{host}:{port} ({error.strerror})", allowed="a free address") from None
    listener.listen(2048)
    return listener


def address(listener: socket.socket, host: str, *, secure: bool) -> str:
    """Where it listens, as a browser takes it."""
    named = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{named}:{listener.getsockname()[1]}"


def affordable_connections() -> int:
    """As many as there are descriptors for, of which some are needed elsewhere."""
    if resource is None:
        return CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + SPARE
    if soft < wanted and (hard == resource.RLIM_INFINITY or hard > soft):
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(16, min(CONNECTIONS, soft - SPARE))


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """What one connection may do, and all together."""

    head: int = 32 * 1024  # bytes of a request's line and headers, or of its trailers
    headers: int = 100
    head_seconds: float = 10.0  # to send them, from the first byte; and from the connection to the first byte
    body_seconds: float = 60.0  # to send the body, once the headers are there
    spilled: int = 4 * 1024 * 1024  # bytes of a body that still come after the answer to it
    read_seconds: float = 60.0  # to read an answer, once the transport asks for patience
    unread: int = 64 * 1024 * 1024  # bytes of answers that nobody reads, all together
    connections: int = 2048

    def uvicorn(self, refuse: Refuse) -> dict[str, Any]:
        """The options of a `uvicorn.Config` under which these limits hold; `refuse` answers a head that is too long."""
        own = {"limits": self, "waiting": Waiting(), "refuse": staticmethod(refuse)}
        return {
            "http": type("ServerConnection", (LimitedConnection,), own),
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "proxy_headers": False,
            "timeout_graceful_shutdown": GRACE,
            "h11_max_incomplete_event_size": self.head,
            "ws": "none",
        }


@dataclass(kw_only=True)
class Waiting:
    """The connections of one server that keep others waiting, the oldest first."""

    unfinished: OrderedDict[LimitedConnection, None] = field(default_factory=OrderedDict)
    unread: OrderedDict[LimitedConnection, None] = field(default_factory=OrderedDict)
    count: int = 0


class LimitedConnection(H11Protocol):
    """A connection that is watched until its request is whole, and while its answer is not read."""

    limits: ConnectionLimits
    waiting: Waiting
    refuse: Refuse
    _spilled = 0  # bytes of a body since it was answered
    _part: object = None  # of the request that the timer is for
    _timer: asyncio.TimerHandle | None = None
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app = LimitedHeads(self.app, self.limits, self.refuse)
        self.waiting.count += 1
        self._watch(h11.IDLE, self.limits.head_seconds)
        if self.waiting.count > self.limits.connections:
            next(iter(self.waiting.unfinished)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.count -= 1
        self._settle()
        self._stop_patience()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY:
            self._spilled += len(data)  # the request is answered: what comes now is read for nothing
            if self._spilled > self.limits.spilled:
                self.transport.close()
        if not self.transport.is_closing():
            super().data_received(data)

    def handle_events(self) -> None:
        """Parse what came, and see where the request is then. uvicorn calls this for pipelined requests too."""
        try:
            super().handle_events()
        except h11.LocalProtocolError:  # not HTTP, and its answer is on the way already
            self.transport.abort()
            return
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._watch(state, self.limits.body_seconds)
        elif state is h11.IDLE and self.conn.trailing_data[0]:
            self._watch(state, self.limits.head_seconds)
        else:
            self._settle()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.waiting.unread[self] = None
        self._patience = self.loop.call_later(self.limits.read_seconds, self.transport.abort)
        held = [(one, one.transport.get_write_buffer_size()) for one in self.waiting.unread]
        if sum(size for _, size in held) > self.limits.unread:
            max(held, key=lambda found: found[1])[0].transport.abort()

    def resume_writing(self) -> None:
        self._stop_patience()
        super().resume_writing()

    def _watch(self, part: object, seconds: float) -> None:
        """Cut the connection off unless this part of a request is whole in time; slow drops win no time."""
        if self._timer is not None and self._part is part:
            return
        self._settle()
        self._part = part
        self.waiting.unfinished[self] = None
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _settle(self) -> None:
        self._spilled = 0
        self.waiting.unfinished.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_patience(self) -> None:
        self.waiting.unread.pop(self, None)
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class LimitedHeads:
    """An application that refuses long heads: h11 bounds only those that come in several pieces."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits, refuse: Refuse) -> None:
        self.app, self.limits, self._refuse = app, limits, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            size = len(scope["raw_path"]) + len(scope["query_string"])
            size += sum(len(name) + len(value) for name, value in scope["headers"])
            if len(scope["headers"]) > self.limits.headers or size > self.limits.head:
                allowed = f"allowed are {self.limits.headers} headers and {self.limits.head} bytes"
                await self._refuse(allowed)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class Buckets:
    """A bucket of `burst` requests a key, refilled at `rate` a second. Large requests cost more.

    >>> buckets = Buckets(rate=1, burst=2, timer=lambda: 0.0)
    >>> [buckets.wait("a") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, *, rate: float, burst: int, timer: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._timer = rate, burst, timer
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key: requests left, and when that was

    def wait(self, key: str, cost: float = 1.0) -> float:
        """Seconds until the next request is welcome; 0 takes its cost from the bucket."""
        cost = min(cost, max(1.0, self.burst / 2))  # the largest that is allowed must be possible
        left, now = self._refilled(key)
        welcome = left >= cost
        self._put(key, left - cost if welcome else left, now)
        return 0.0 if welcome else (cost - left) / self.rate

    def charge(self, key: str, cost: float) -> None:
        """Take the cost of what turned out to be large; the next requests pay for it."""
        left, now = self._refilled(key)
        self._put(key, max(left - cost, -float(self.burst)), now)

    def _refilled(self, key: str) -> tuple[float, float]:
        now = self._timer()
        left, since = self._left.get(key, (float(self.burst), now))
        return min(float(self.burst), left + (now - since) * self.rate), now

    def _put(self, key: str, left: float, now: float) -> None:
        self._left[key] = left, now
        self._left.move_to_end(key)
        if len(self._left) > KEYS:
            self._left.popitem(last=False)
