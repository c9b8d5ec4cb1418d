"""The service: a small API for the site's own programs, and the page. Everything is done by the journal (`agent.site`).

POST /assignments {"participant": key}              the arm, the same for ever; with "somebody_else": true also
                                                    where the key reads like a known one
POST /outcomes    {"participant": key, "reward": x} correctable until the phase is reported
POST /missing     {"participant": key}
GET  /status
GET  /healthz                                       for whoever watches: no code is asked for
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from parley.agent.reporting import LATE, SiteRuntime
from parley.checks import is_loopback
from parley.connections import ConnectionLimits, address, affordable_connections, bind
from parley.dashboard.render import HEADERS
from parley.dashboard.render import HERE as DASHBOARD
from parley.errors import InvalidInput, NoRoom, NotNow, ParleyError
from parley.killpoints import reached
from parley.protocol.codec import read_json
from parley.site.access import Access, Refused
from parley.site.pages import HERE, Pages

Handler = Callable[[Request], Awaitable[Response]]
TITLES = {400: "Not understood", 401: "The code is asked for", 403: "Not allowed", 404: "Not there"}
TITLES |= {409: "Not now", 413: "Too large", 415: "JSON is asked for", 421: "Another service", 422: "Cannot be taken"}
TITLES |= {429: "Too many wrong codes", 431: "The line and the headers of a request are too long"}
TITLES |= {500: "A fault of ours", 507: "No room on the disk"}


def problem(status: int, words: str) -> JSONResponse:
    """A refusal as RFC 9457 has it."""
    document = {"type": "about:blank", "title": TITLES[status], "status": status, "detail": words}
    return JSONResponse(document, status_code=status, media_type="application/problem+json")


def status_of(error: Exception) -> int:
    """The HTTP status of what went wrong.

    >>> status_of(NotNow("paused"))
    409
    """
    for kind, status in ((InvalidInput, 422), (NotNow, 409), (NoRoom, 507)):
        if isinstance(error, kind):
            return status
    return error.status if isinstance(error, Refused) else 500


class Api:
    """The operations, each one call of the site."""

    def __init__(self, runtime: SiteRuntime, access: Access) -> None:
        self._runtime, self._site, self._access = runtime, runtime.site, access

    async def assignments(self, request: Request) -> Response:
        """Give a person an arm."""
        body = await self._fields(request, "participant", may=("somebody_else",))
        work = partial(self._site.assign, somebody_else=body.get("somebody_else") is True)
        given = await self._done(work, body["participant"])
        return JSONResponse(given.to_json(), status_code=200 if given.again else 201)

    async def outcomes(self, request: Request) -> Response:
        """Note an outcome."""
        body = await self._fields(request, "participant", "reward")
        await self._done(self._site.outcome, body["participant"], body["reward"])
        return JSONResponse(body)

    async def missing(self, request: Request) -> Response:
        """Note that there will be none."""
        body = await self._fields(request, "participant")
        await self._done(self._site.missing, body["participant"])
        return JSONResponse({**body, "missing": True})

    async def status(self, _: Request) -> Response:
        """How far it is."""
        found = await anyio.to_thread.run_sync(self._site.status)
        return JSONResponse({**found, "coordinator": self._runtime.words, **self._contact()})

    async def healthz(self, _: Request) -> Response:
        """Whether the site talks to its coordinator: 503 if the last answer is long ago, or was never."""
        since = self._runtime.silence
        well = since is not None and since < LATE
        return JSONResponse({"status": "ok" if well else "silent", **self._contact()}, status_code=200 if well else 503)

    def _contact(self) -> dict[str, Any]:
        since = self._runtime.silence
        return {"seconds_since_contact": None if since is None else round(since, 1)}

    async def _done(self, work: Callable[..., Any], *values: Any) -> Any:
        """On the disk, in a thread; the reporting thread looks whether a report is due."""
        try:
            found = await anyio.to_thread.run_sync(work, *values)
            reached("site-before-answer")
            return found
        finally:
            self._runtime.noted()

    async def _fields(self, request: Request, *names: str, may: tuple[str, ...] = ()) -> dict[str, Any]:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "send application/json")
        found = read_json(await self._access.body(request), "body")
        if not isinstance(found, dict) or set(found) - {*may} != set(names):
            raise Refused(400, f"a JSON object with {' and '.join(names)} is expected")
        return found


def create_app(runtime: SiteRuntime, access: Access) -> Starlette:
    """The application; `access` decides who comes in."""
    api, pages = Api(runtime, access), Pages(runtime, access)

    def guarded(handler: Handler, refuse: Callable[[Request, int, str], Response]) -> Handler:
        async def endpoint(request: Request) -> Response:
            try:
                access.check(request)
                response = await handler(request)
            except (ParleyError, Refused) as error:
                response = refuse(request, status_of(error), str(error))
                response.headers.update(error.headers if isinstance(error, Refused) else {})
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return endpoint

    def operation(path: str, handler: Handler, method: str) -> Route:
        async def known(request: Request) -> Response:
            if not access.knows(request):
                raise Refused(401, "send the site's code as a bearer token")
            return await handler(request)

        return Route(path, guarded(known, lambda _, status, words: problem(status, words)), methods=[method])

    return Starlette(
        routes=[
            operation("/assignments", api.assignments, "POST"),
            operation("/outcomes", api.outcomes, "POST"),
            operation("/missing", api.missing, "POST"),
            operation("/status", api.status, "GET"),
            Route("/healthz", guarded(api.healthz, lambda _, status, words: problem(status, words)), methods=["GET"]),
            Route("/", guarded(pages.page, pages.refused), methods=["GET", "POST"]),
            Route("/enter", guarded(pages.enter, pages.refused), methods=["GET", "POST"]),
            Mount("/static", StaticFiles(directory=DASHBOARD / "static")),
            Mount("/own", StaticFiles(directory=HERE / "static")),
        ]
    )


SHORTEST_CODE = 8
CONNECTIONS = 512  # a ward has a few tablets; more than this are held open by somebody who wants nothing


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
    with bind(settings.host, settings.port) as listener:
        secure = bool(settings.tls_cert)
        access = Access(host=settings.host, code=settings.code, secure=secure or settings.plain_http)
        limits = ConnectionLimits(connections=min(CONNECTIONS, affordable_connections()))
        config = uvicorn.Config(
            create_app(runtime, access),
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
            **limits.uvicorn(partial(problem, 431)),
        )
        announce(address(listener, settings.host, secure=secure))
        runtime.start()
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            runtime.close()
