"""Run the application under uvicorn, on a socket that is bound before anything is said about it."""

from __future__ import annotations

import ctypes
import gc
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.applications import Starlette

from parley.coordinator.http.connections import ConnectionLimits
from parley.coordinator.observability import configure
from parley.coordinator.record import Storage, open_storage
from parley.coordinator.settings import ServerSettings
from parley.errors import InvalidInput

SWITCH = 0.0005  # seconds
CONNECTIONS, SPARE = 4096, 128  # taken at once; descriptors for files, databases and the like
GARBAGE = (10_000, 20, 100)  # objects after which the youngest are looked through; how often the older ones
ARENA_MAX, ARENAS = -8, 2  # as malloc.h names it; of memory that threads share
MMAP_THRESHOLD, OF_ITS_OWN = -3, 1 << 20  # the same; bytes from which a block is given back as soon as it is free
GRACE = 5  # seconds for requests in progress when stopping


def _bind(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise InvalidInput(
            "host, port", found=f"{settings.host}:{settings.port} ({error.strerror})", allowed="a free address"
        ) from None
    listener.listen(2048)
    return listener


def _connections() -> int:
    """As many as there are descriptors for, of which some are needed elsewhere."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + SPARE
    if soft < wanted and (hard == resource.RLIM_INFINITY or hard > soft):
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(16, min(CONNECTIONS, soft - SPARE))


def settle_memory() -> None:
    """Look for garbage in cycles less often: looking through all there is stops every thread, for a fifth of a second
    where a large certificate is being read. What is there at the start stays, and is not looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    with suppress(AttributeError, OSError):  # where glibc is: each of its arenas keeps what others could use
        ctypes.CDLL(None).mallopt(ARENA_MAX, ARENAS)
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, OF_ITS_OWN)


class _Orderly(uvicorn.Server):
    """Lets those who wait go before it stops: they would be cut off otherwise, each with a traceback in the log."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.config.app.state.context.watch.stop()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def _leave(*_: object) -> None:
    raise SystemExit(0)


def serve(
    settings: ServerSettings, make_app: Callable[[Storage, ServerSettings], Starlette], announce: Callable[[str], None]
) -> None:
    """Serve until told to stop; `announce` hears the address as soon as connections are taken."""
    configure(settings.log_level)
    # A request crosses threads a few times; waiting Python's usual 5 ms for each turn would be most of its time.
    sys.setswitchinterval(SWITCH)
    # uvicorn stops gracefully and then raises the signal once more; this turns it into an orderly exit.
    signal.signal(signal.SIGTERM, _leave)
    storage = open_storage(settings.db, connections=settings.connections, statement_timeout=settings.statement_timeout)
    try:
        with _bind(settings) as listener:
            port = listener.getsockname()[1]
            scheme = "https" if settings.tls_cert else "http"
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            config = uvicorn.Config(
                make_app(storage, settings),
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ssl_certfile=settings.tls_cert or None,
                ssl_keyfile=settings.tls_key or None,
                timeout_graceful_shutdown=GRACE,
                **ConnectionLimits(connections=_connections()).uvicorn(),
            )
            settle_memory()
            announce(f"{scheme}://{host}:{port}")
            _Orderly(config).run(sockets=[listener])
    finally:
        storage.close()
