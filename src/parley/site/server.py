"""Run the service under uvicorn, on a socket that is bound before anything is said about it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from parley.agent.reporting import SiteRuntime
from parley.errors import InvalidInput
from parley.site.access import Access, is_loopback
from parley.site.app import create_app

__all__ = ["SiteSettings", "serve"]

SHORTEST_CODE = 8
GRACE = 5  # seconds for requests in progress when stopping


@dataclass(frozen=True, kw_only=True)
class SiteSettings:
    """Where it listens. Beyond this machine it asks for a code, and for TLS unless `plain_http` says that something in
    front of it has that.
    """

    host: str = "127.0.0.1"
    port: int = 8643
    code: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    plain_http: bool = False

    def __post_init__(self) -> None:
        if self.code and len(self.code) < SHORTEST_CODE:
            raise InvalidInput("code", found="a short one", allowed=f"at least {SHORTEST_CODE} characters")
        if is_loopback(self.host):
            return
        if not self.code:
            raise InvalidInput(
                "host", found=self.host, allowed="a loopback address, or any with a code", hint="Give --code-file"
            )
        if not (self.tls_cert and self.tls_key) and not self.plain_http:
            raise InvalidInput(
                "host",
                found=f"{self.host} without TLS",
                allowed="a loopback address, --tls-cert with --tls-key, or --plain-http behind something that has TLS",
            )


def serve(runtime: SiteRuntime, settings: SiteSettings, announce: Callable[[str], None]) -> None:
    """Serve until stopped; `announce` gets the address as soon as connections are taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            found = f"{settings.host}:{settings.port} ({error.strerror})"
            raise InvalidInput("host, port", found=found, allowed="a free address") from None
        listener.listen(128)
        secure = bool(settings.tls_cert)
        access = Access(host=settings.host, code=settings.code, secure=secure or settings.plain_http)
        config = uvicorn.Config(
            create_app(runtime, access),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
            timeout_graceful_shutdown=GRACE,
        )
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        announce(f"{'https' if secure else 'http'}://{host}:{listener.getsockname()[1]}")
        runtime.start()
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            runtime.close()
