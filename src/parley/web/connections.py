"""Listening sockets, and limits on what any client's connection may send and how long it may take.

h11 parses in Python, and creates an event for every chunk of a body and a tuple for every header line: a megabyte of
small chunks or lines would keep all other clients waiting for seconds. So a head is measured before it is parsed, and a
body must state its length: a request with `Transfer-Encoding` gets 411 as soon as its head has arrived, and nothing of
its body is parsed.

h11 has no timeouts, and uvicorn keeps an answer in memory until the client has read it. Here a connection is closed if
its request is not complete in time, or if the client does not read the answer in time. If there are too many
connections, the one that has been in the middle of a request for longest is closed first. A reverse proxy does the
same, but these limits protect a server without one, too. The coordinator and a site's service share them.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from parley.errors import InvalidInput

try:
    import resource
except ModuleNotFoundError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

Refuse = Callable[[int, str], Response]  # (status 400, 411 or 431, words) -> response
END_OF_HEAD = re.compile(rb"\n\r?\n")  # as h11 finds it
CONNECTIONS, SPARE = 4096, 128  # most connections at once; file descriptors reserved for files, databases and the like
GRACE = 5  # seconds for requests in progress when stopping


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket; raises an error that names the address if that is impossible."""
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
    """The URL of a listening socket, for a browser."""
    named = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{named}:{listener.getsockname()[1]}"


def affordable_connections() -> int:
    """The number of connections for which there are file descriptors; raises the limit on descriptors if possible."""
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
    """Limits on a single connection, and on all connections together."""

    head: int = 32 * 1024  # bytes of a request's line and headers
    headers: int = 100  # header lines
    head_seconds: float = 10.0  # to send the head, from its first byte; also from connecting to the first byte
    body_seconds: float = 60.0  # to send the body, once the head has arrived
    spilled: int = 4 * 1024 * 1024  # bytes read and dropped after a refusal
    linger_seconds: float = 2.0  # to let the client read a refusal before the connection closes
    read_seconds: float = 60.0  # to read an answer, once the transport's buffer is full
    unread: int = 64 * 1024 * 1024  # bytes of unread answers, of all connections together
    connections: int = 2048  # open at once

    def uvicorn(self, refuse: Refuse) -> dict[str, Any]:
        """Options of a `uvicorn.Config` that enforce these limits; `refuse` answers malformed requests."""
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
    """The connections of one server that are in the middle of a request or an answer, oldest first."""

    unfinished: OrderedDict[LimitedConnection, None] = field(default_factory=OrderedDict)  # the request is incomplete
    unread: OrderedDict[LimitedConnection, None] = field(default_factory=OrderedDict)  # the client is not reading
    count: int = 0  # number of open connections


class LimitedParser(h11.Connection):
    """An h11 parser that refuses heads that are too long, and bodies that do not state their length."""

    limits: ConnectionLimits
    refusal: tuple[int, str] = (400, "this is not an HTTP request")
    method = b""  # method of the last request

    @classmethod
    def of(cls, limits: ConnectionLimits) -> LimitedParser:
        """A parser for the server's side of a new connection."""
        made = cls(h11.SERVER, limits.head)
        made.limits = limits
        return made

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event. To refuse a request, set `refusal` to the answer and raise h11's protocol error."""
        if self.their_state is h11.IDLE and self.our_state is h11.IDLE:
            self._measure_head()
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:  # a head that has not ended yet
                self.refusal = 431, self._allowed
            elif error.error_status_hint == 501:  # an encoding that h11 does not know
                self._require_length()
            raise
        if isinstance(event, h11.Request):
            self.method = event.method
            if any(name == b"transfer-encoding" for name, _ in event.headers):
                self._require_length()
        return event

    @property
    def _allowed(self) -> str:
        return f"allowed are {self.limits.headers} headers and {self.limits.head} bytes"

    def _measure_head(self) -> None:
        """Refuse a head that is too long; h11 itself limits only a head whose end has not arrived."""
        data, most = self.trailing_data[0], self.limits.headers + 1  # including the request line
        if len(data) <= self.limits.head and data.count(b"\n") <= most:
            return
        end = END_OF_HEAD.search(data, 0, self.limits.head)
        if data.count(b"\n", 0, end.start() + 1 if end else self.limits.head) > most or (
            end is None and len(data) > self.limits.head
        ):
            self.refusal = 431, self._allowed
            raise h11.RemoteProtocolError("the head is too long", error_status_hint=431)

    def _require_length(self) -> None:
        self.refusal = 411, "a body states its length: send Content-Length, and no Transfer-Encoding"
        raise h11.RemoteProtocolError("a body without its length", error_status_hint=411)


class LimitedConnection(H11Protocol):
    """A connection with deadlines for sending its request and for reading its answer."""

    conn: LimitedParser
    limits: ConnectionLimits
    waiting: Waiting
    refuse: Refuse
    _spilled = 0  # bytes since the request was refused
    _refused = False  # the connection is closing: nothing more is parsed
    _part: object = None  # the part of the request that the timer is for
    _timer: asyncio.TimerHandle | None = None
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.conn = LimitedParser.of(self.limits)
        self.waiting.count += 1
        self._watch(h11.IDLE, self.limits.head_seconds)
        # This connection is unfinished too, so there is always one to abort.
        if self.waiting.count > self.limits.connections:
            next(iter(self.waiting.unfinished)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.count -= 1
        self._settle()
        self._stop_patience()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused or (self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY):
            self._spilled += len(data)  # the request is answered already: further bytes are dropped
            if self._spilled > self.limits.spilled:
                self.transport.abort()
        if not self._refused and not self.transport.is_closing():
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer a request that cannot or must not be parsed with a problem document, and close the connection.

        For `linger_seconds`, further bytes are read and dropped: closing a socket with unread bytes resets the
        connection, and the client would not learn why.
        """
        status, words = self.conn.refusal
        answer = self.refuse(status, words)
        headers = [*answer.raw_headers, (b"connection", b"close")]
        self._send(h11.Response(status_code=answer.status_code, headers=headers))
        if self.conn.method != b"HEAD":
            self._send(h11.Data(data=bytes(answer.body)))
        self._send(h11.EndOfMessage())
        self._settle()
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._watch(h11.MUST_CLOSE, self.limits.linger_seconds)

    def handle_events(self) -> None:
        """Parse what has arrived, then set the deadline for the rest of the request.

        uvicorn calls this method for pipelined requests too.
        """
        try:
            super().handle_events()
        except h11.LocalProtocolError:  # not HTTP, and its answer is being sent already
            self.transport.abort()
            return
        if self._refused:
            return
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._watch(state, self.limits.body_seconds)
        elif state is h11.IDLE and self.conn.trailing_data[0]:
            self._watch(state, self.limits.head_seconds)
        else:
            self._settle()

    def _send(self, event: h11.Event) -> None:
        self.transport.write(self.conn.send(event) or b"")

    def pause_writing(self) -> None:
        super().pause_writing()
        self.waiting.unread[self] = None
        self._patience = self.loop.call_later(self.limits.read_seconds, self.transport.abort)
        # Aborting the largest answer frees the most memory while disconnecting the fewest clients.
        held = [(one, one.transport.get_write_buffer_size()) for one in self.waiting.unread]
        if sum(size for _, size in held) > self.limits.unread:
            max(held, key=lambda found: found[1])[0].transport.abort()

    def resume_writing(self) -> None:
        self._stop_patience()
        super().resume_writing()

    def _watch(self, part: object, seconds: float) -> None:
        """Close the connection unless this part of a request is complete in time, however slowly it trickles in."""
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
