"""What an operation of the API is, and what every call of one passes first.

A request is refused by its role, then by its size, then parsed, then queued. Every failure is a problem document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from traceback import clear_frames
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from parley.coordinator.access.rights import authorize
from parley.coordinator.access.sessions import resume
from parley.coordinator.access.tokens import Principal, Role
from parley.coordinator.http.context import Call, Context, Place, context_of
from parley.coordinator.http.limits import COSTLY, check_shape, cost_of, read_body
from parley.coordinator.observability import logger
from parley.coordinator.problems import Refusal
from parley.coordinator.record import StorageUnavailable, studies
from parley.errors import InvalidInput, ParleyError
from parley.protocol.codec import LARGE, Model

BY_STATUS = {404: "not-found", 405: "method-not-allowed"}
SHORT, PER_ARM = 16_384, 120  # bytes: a report's names and digests; a count, a sum and a square at their longest
SOME_KEYS, MOST_KEYS = 2_500, 20_000  # colons, rather: a reason may have some too
NOBODY = Principal(kid="", role=Role.VIEWER, name="", study=None, agent=None)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A row of the table of operations. Routing, guard and OpenAPI come from it; its name is that of its handler."""

    method: str
    path: str
    handler: Callable[[Call[Any, Any]], Awaitable[Response]]
    tag: str = ""
    roles: frozenset[Role] = frozenset()  # who may call it: nobody, unless the row says so
    public: bool = False  # no token is needed
    query: type[msgspec.Struct] | None = None
    body: type[Model] | None = None
    answer: type[Model] | None = None  # None: as it is stored, byte for byte, or a stream
    media_type: str = "application/json"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)  # that the handler reads -> what they are for
    also: dict[int, str] = field(default_factory=dict)  # further statuses that are worth a word
    large: bool = False  # an administrator may send a body as large as a study
    report: bool = False  # a body is no longer than a report of the study can be
    patient: bool = False  # the answer may take a minute
    server_wide: bool = False  # not for a token that is bound to one study
    hidden: bool = False  # not in the OpenAPI document

    @property
    def name(self) -> str:
        """The operation's id."""
        return self.handler.__name__

    @property
    def route(self) -> Route:
        """Where it is found. Starlette would answer HEAD too, also for streams that never end."""
        route = Route(self.path, self._endpoint, name=self.name)
        route.methods = {self.method}
        return route

    async def _endpoint(self, request: Request) -> Response:
        """Guard a call, and measure it."""
        begun, context = perf_counter(), context_of(request)
        principal, refusal = NOBODY, None
        try:
            with ExitStack() as slots:
                _require_clean(request)
                if not self.public:
                    principal = await _identify(request, context)
                limit = self._admit(request, context, principal, slots)
                at = _converted(request.path_params, Place, "path")
                query = None if self.query is None else _converted(dict(request.query_params), self.query, "query")
                body = None if self.body is None else await self._read(request, context, principal, limit)
                call = Call(request=request, context=context, by=principal, at=at, query=query, body=body)
                response = await self.handler(call)
        except Exception as error:  # every failure has a problem document
            refusal = settled(error)
            response = refusal.response()
        seconds = perf_counter() - begun
        context.metrics.requests.labels(self.method, self.name, str(response.status_code)).inc()
        context.metrics.seconds.labels(self.name).observe(seconds)
        logger.info(
            "request",
            operation=self.name,
            study=request.path_params.get("study"),
            status=response.status_code,
            problem=refusal.slug if refusal else None,
            kid=principal.kid or None,
            ms=round(seconds * 1000, 2),
        )
        return response

    def _admit(self, request: Request, context: Context, principal: Principal, slots: ExitStack) -> int:
        """Refuse by rate and role, and take a slot for as long as the call lasts; returns how large a body may be."""
        if self.public:
            return context.settings.body_limit
        large = self.large and principal.role is Role.ADMINISTRATOR
        limit = context.settings.study_body_limit if large else context.settings.body_limit
        context.pace.check(principal.kid, cost := cost_of(request, limit))
        authorize(self.name, self.roles, principal, request.path_params, server_wide=self.server_wide)
        usual = context.waiting if self.patient else context.requests
        slots.enter_context((context.uploads if cost > COSTLY else usual).taken(principal.kid))
        return limit

    async def _read(self, request: Request, context: Context, principal: Principal, limit: int) -> Any:
        """The body, refused before it is parsed if it cannot be right; a large one is parsed off the event loop."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(
                "unsupported-media-type", f"found {kind[:80] or 'no Content-Type'}; allowed: application/json"
            )
        content = await read_body(request, limit)
        if self.report and len(content) > SHORT:
            await _check_length(context, request, len(content))
        if len(content) > LARGE:
            return await context.heavy.run(principal.kid, lambda: self._parsed(content))
        return self._parsed(content)

    def _parsed(self, content: bytearray) -> Any:
        check_shape(content, keys=MOST_KEYS if self.large else SOME_KEYS)
        return self._decoded(content)

    def _decoded(self, content: bytearray) -> Any:
        assert self.body is not None
        try:
            return self.body.read(content)
        except InvalidInput as error:
            raise Refusal("invalid-request", f"body: {error}"[:400]) from None


def _converted(given: dict[str, Any], kind: type[Any], where: str) -> Any:
    """Parameters as a struct, from text."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal("invalid-request", _words(error, where, kind)) from None


def _words(error: msgspec.ValidationError, where: str, kind: type[msgspec.Struct]) -> str:
    """What msgspec says of a wrong value, and where it is; of a word that is none of a few, which they are.

    >>> _words(msgspec.ValidationError("Expected `int` >= 0 - at `$.phase`"), "path", Place)
    'path.phase: Expected `int` >= 0'
    """
    words, _, place = str(error).rpartition(" - at `$")
    if not words:
        return f"{where}: {error}"[:400]
    schema = parameters_of(kind).get(place[1:-1], {})
    choices = [word for one in (schema, *schema.get("anyOf", [])) for word in one.get("enum", [])]
    allowed = f"; allowed: {', '.join(choices)}" if choices else ""
    return f"{where}{place[:-1]}: {words[:200]}{allowed}"[:400]


def parameters_of(kind: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    """The JSON schema of each field of a struct; enumerations stand in place.

    >>> parameters_of(Place)["phase"]["maximum"]
    1000000
    """
    _, found = msgspec.json.schema_components([kind], ref_template="{name}")

    def whole(schema: Any) -> Any:
        if isinstance(schema, dict):
            return whole(found[schema["$ref"]]) if "$ref" in schema else {key: whole(schema[key]) for key in schema}
        return [whole(one) for one in schema] if isinstance(schema, list) else schema

    return {name: whole(schema) for name, schema in found[kind.__name__]["properties"].items()}


def refusal_of(error: Exception) -> Refusal:
    """What a failure means to the one who asked."""
    match error:
        case Refusal():
            return error
        case HTTPException():
            slug = BY_STATUS.get(error.status_code, "bad-request")
            return Refusal(slug, str(error.detail)[:400], headers=dict(error.headers or {}))
        case ClientDisconnect():
            return Refusal("bad-request", "the body ended early")
        case StorageUnavailable():
            logger.warning("storage unavailable", error=str(error))
            return Refusal("storage-unavailable", "try again", headers={"Retry-After": "1"})
        case ParleyError():
            return Refusal("invalid-request", str(error)[:400])
        case _:
            logger.exception("unexpected failure", exc_info=error)
            return Refusal("internal", "the coordinator failed; the log has the details")


def settled(error: Exception) -> Refusal:
    """What a failure means, once nothing is to be learned from its traceback.

    A traceback keeps the variables of every frame alive, and one of these is the failure: a study of tens of megabytes
    would stay in memory until the next garbage collection.
    """
    refusal = refusal_of(error)
    cause: BaseException | None = error
    while cause is not None:
        clear_frames(cause.__traceback__)
        cause.__traceback__ = None
        cause = cause.__context__
    return refusal


async def _identify(request: Request, context: Context) -> Principal:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "session" and token:
        return await context.read(lambda transaction: resume(transaction, token.strip(), at=context.session_clock()))
    if scheme.lower() != "bearer" or not token:
        raise Refusal("no-token", "send Authorization: Bearer <token>", headers={"WWW-Authenticate": "Bearer"})
    return await context.tokens.principal(token.strip())


async def still_welcome(request: Request) -> bool:
    """Whether the token or session of a request that goes on and on still holds."""
    try:
        await _identify(request, context_of(request))
    except (Refusal, StorageUnavailable):  # whoever listens connects again, and hears why
        return False
    return True


def _require_clean(request: Request) -> None:
    """No database takes a NUL, no JSON a lone surrogate: nothing by such a name exists."""
    for value in (*request.path_params.values(), *request.query_params.values()):
        if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise Refusal("not-found", "no such thing")


async def _check_length(context: Context, request: Request, length: int) -> None:
    """Refuse a report that is longer than one of its study can be, before it is read."""
    row = await context.glance(lambda transaction: studies.get(transaction, request.path_params["study"]))
    if row is not None and length > SHORT + PER_ARM * row.arms:
        raise Refusal("impossible-report", f"{length} bytes: allowed are {row.arms} of each, one per arm")
