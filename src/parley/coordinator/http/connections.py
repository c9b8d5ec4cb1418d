"""In front of everything else: what a connection may send before anybody knows who it is, and how long it may take.

uvicorn's parser limits neither the line and the headers of a request nor the time in which they come, and keeps an
answer in memory until it is read. This guard does: a request that is too long or does not end in time is cut off, and
so is a connection that does not read what it asked for. Where there are too many, those go first that have waited
longest in the middle of a request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["Allowance", "gate"]

TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\ncontent-length: 54\r\n"
    b"connection: close\r\n\r\nThe line and the headers of a request are too long.\r\n\r\n"
)


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What one connection may do, and all together."""

    head: int = 32 * 1024  # bytes of a request's line and headers
    headers: int = 100
    ahead: int = 4  # requests sent before the answers to those before them
    head_seconds: float = 10.0  # to send them, from the first byte; and from the connection to the first byte
    body_seconds: float = 60.0  # to send the body, once the headers are there
    spilled: int = 4 * 1024 * 1024  # bytes of a body that still come after the answer to it
    read_seconds: float = 60.0  # to read an answer, at least below the mark at which a transport asks for patience
    unread: int = 64 * 1024 * 1024  # bytes of answers that nobody reads, all together
    connections: int = 2048


@dataclass(kw_only=True)
class Crowd:
    """The connections of one server that keep others waiting, the oldest first."""

    unfinished: OrderedDict[Gate, None] = field(default_factory=OrderedDict)
    unread: OrderedDict[Gate, None] = field(default_factory=OrderedDict)
    count: int = 0


class Gate(HttpToolsProtocol):
    """A connection that is watched until its request is whole, and while its answer is not read."""

    allowance: Allowance
    crowd: Crowd
    _received = 0  # bytes since the request began
    _spilled = 0  # bytes of its body since it was answered
    _whole = False  # the headers of the request in progress are there
    _clock: asyncio.TimerHandle | None = None
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.crowd.count += 1
        self._watch(self.allowance.head_seconds)
        if self.crowd.count > self.allowance.connections:
            next(iter(self.crowd.unfinished)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.crowd.count -= 1
        self._settled()
        self._read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._clock is None and not self._whole:  # a further request on a connection that was kept
            self._watch(self.allowance.head_seconds)
        self._received += len(data)
        super().data_received(data)
        if not self._whole and self._received > self.allowance.head:
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._received, self._spilled, self._whole = 0, 0, False

    def on_headers_complete(self) -> None:
        self._whole = True
        length = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > self.allowance.headers or length > self.allowance.head:
            self._refuse()
            return
        if len(self.pipeline) >= self.allowance.ahead:
            self.transport.abort()
            return
        super().on_headers_complete()
        self._watch(self.allowance.body_seconds)

    def on_body(self, body: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle.response_complete:  # refused: what comes now is read for nothing
            self._spilled += len(body)
            if self._spilled > self.allowance.spilled:
                self.transport.close()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.transport.is_closing():
            return
        super().on_message_complete()
        self._settled()
        self._received, self._whole = 0, False

    def pause_writing(self) -> None:
        super().pause_writing()
        self.crowd.unread[self] = None
        self._patience = self.loop.call_later(self.allowance.read_seconds, self.transport.abort)
        waiting = [(gate, gate.transport.get_write_buffer_size()) for gate in self.crowd.unread]
        if sum(size for _, size in waiting) > self.allowance.unread:
            max(waiting, key=lambda found: found[1])[0].transport.abort()

    def resume_writing(self) -> None:
        self._read()
        super().resume_writing()

    def _watch(self, seconds: float) -> None:
        self._settled()
        self.crowd.unfinished[self] = None
        self._clock = self.loop.call_later(seconds, self.transport.abort)

    def _settled(self) -> None:
        self.crowd.unfinished.pop(self, None)
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _read(self) -> None:
        self.crowd.unread.pop(self, None)
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(TOO_LONG)
            self.transport.close()


def gate(allowance: Allowance | None = None) -> type[Gate]:
    """The protocol of one server."""
    return type("ServerGate", (Gate,), {"allowance": allowance or Allowance(), "crowd": Crowd()})
