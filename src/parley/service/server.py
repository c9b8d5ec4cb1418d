"""The application behind `parley serve` (the API, forecasts and, unless disabled, the pages), and its server.

uvicorn runs the application on a socket that is bound before its address is announced.
"""

import ctypes
import gc
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from parley.coordinator.clock import Clock
from parley.coordinator.http.app import create_app, new_context
from parley.coordinator.http.context import utc_now
from parley.coordinator.observability import configure
from parley.coordinator.problems import Refusal
from parley.coordinator.record import Storage, open_storage
from parley.coordinator.settings import ServerSettings
from parley.protocol.codec import build_structs
from parley.service.forecasts import FORECASTS, Forecaster
from parley.web.connections import ConnectionLimits, address, affordable_connections, bind

SWITCH = 0.0005  # seconds between thread switches
GARBAGE = (10_000, 20, 100)  # thresholds of the garbage collector
# Parameters of glibc's `mallopt`, as in malloc.h, and their values.
ARENA_MAX, ARENAS = -8, 2  # memory arenas that threads share
MMAP_THRESHOLD, OF_ITS_OWN = -3, 1 << 20  # a freed block of at least this many bytes is returned to the system
# HTTP status of a malformed request -> kind of the refusal.
UNREADABLE = {400: "bad-request", 411: "length-required", 431: "head-too-large"}


def create_service(storage: Storage, settings: ServerSettings, *, clock: Clock = utc_now) -> Starlette:
    """Create the application on an open storage, which the caller closes."""
    app = create_app(new_context(storage, settings, clock=clock), *FORECASTS)
    app.state.forecaster = Forecaster()
    if not settings.no_dashboard:
        from parley.dashboard.pages import mount

        mount(app)
    build_structs()
    return app


def settle_memory() -> None:
    """Run the garbage collector less often, and not on objects that exist already; return freed memory sooner.

    A full collection stops every thread: for a fifth of a second, if a large certificate is being read.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    with suppress(AttributeError, OSError, TypeError):  # with glibc only: each arena keeps memory that others could use
        ctypes.CDLL(None).mallopt(ARENA_MAX, ARENAS)
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, OF_ITS_OWN)


class _Orderly(uvicorn.Server):
    """A server that ends long polls before it shuts down; uvicorn itself would cut them off and log tracebacks."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.config.app.state.context.watch.stop()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def refuse_request(status: int, words: str) -> JSONResponse:
    """The response to a request that is not valid HTTP, in the form of the API's refusals."""
    return Refusal(UNREADABLE[status], words).response()


def _leave(*_: object) -> None:
    raise SystemExit(0)


def serve(
    settings: ServerSettings,
    announce: Callable[[str], None],
    make_app: Callable[[Storage, ServerSettings], Starlette] = create_service,
) -> None:
    """Serve until stopped; `announce` gets the address as soon as connections are accepted."""
    configure(settings.log_level)
    # A request changes threads a few times. Python's usual wait of 5 ms for each change would take most of its time.
    sys.setswitchinterval(SWITCH)
    # uvicorn stops gracefully and then raises the signal again; this turns it into an orderly exit.
    signal.signal(signal.SIGTERM, _leave)
    storage = open_storage(settings.db, connections=settings.connections, statement_timeout=settings.statement_timeout)
    try:
        with bind(settings.host, settings.port) as listener:
            limits = ConnectionLimits(connections=affordable_connections())
            config = uvicorn.Config(
                make_app(storage, settings),
                ssl_certfile=settings.tls_cert or None,
                ssl_keyfile=settings.tls_key or None,
                ssl_ca_certs=settings.tls_client_ca or None,
                ssl_cert_reqs=ssl.CERT_REQUIRED if settings.tls_client_ca else ssl.CERT_NONE,
                **limits.uvicorn(refuse_request),
            )
            settle_memory()
            announce(address(listener, settings.host, secure=bool(settings.tls_cert)))
            _Orderly(config).run(sockets=[listener])
    finally:
        storage.close()
