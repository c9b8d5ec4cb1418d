"""`Operation`, and the checks that every call passes before its operation runs.

The checks (role, size, parsing, queue) are the same for API requests and for calls that a page makes on behalf of its
reader. Every failure becomes a problem document.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from traceback import clear_frames
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from parley.coordinator.access.tokens import UNBLINDED, Principal, Role, authorize, resume
from parley.coordinator.http.context import LARGE_ANSWER, Call, Context, Place, context_of
from parley.coordinator.observability import logger
from parley.coordinator.problems import Refusal
from parley.coordinator.record import StorageUnavailable, studies
from parley.coordinator.studies import acts
from parley.errors import InvalidInput, ParleyError
from parley.protocol import TRANSITIONS
from parley.protocol.codec import LARGE, Model, json_bytes, refused
from parley.web.guard import announced_length, read_body
from parley.web.openapi import Endpoint

BY_STATUS = {404: "not-found", 405: "method-not-allowed"}
SHORT, PER_ARM = 16_384, 120  # bytes: names and digests of a report; the longest count, sum and square of an arm
SOME_KEYS, MOST_KEYS = 2_500, 20_000  # most keys of a body, counted by colons, which a reason may contain too
USUAL = 64 * 1024  # bytes of a body that count as one more request
COSTLY = 20.0  # a request of a higher cost (`cost_of`) needs a slot for uploads
DEEPEST = 32  # most levels of nesting in a body
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
NOT_KEPT = {"Cache-Control": "no-store"}
NOBODY = Principal(kid="", role=Role.VIEWER, name="", study=None, agent=None)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A call of an operation, by a request or by a page, before the guard has checked it."""

    app: Starlette
    credential: str  # value of `Authorization`
    place: Mapping[str, Any]  # parameters of the path
    query: Mapping[str, Any]
    body: Mapping[str, Any] | Model | None = None  # the body that a page sends; already checked if it is a model
    request: Request | None = None  # None for a call from a page


@dataclass(frozen=True, kw_only=True)
class Operation(Endpoint):
    """An operation: a row of the table from which routing, guard and OpenAPI are made."""

    handler: Callable[[Call[Any, Any]], Awaitable[Any]]
    roles: frozenset[Role] = frozenset()  # roles that may call it; none by default
    body: type[Model] | None = None
    answer: type[Model] | None = None
    large: bool = False  # an administrator may send a body as large as a study
    report: bool = False  # the body must not be longer than a report of the study can be
    patient: bool = False  # the answer may take a minute
    server_wide: bool = False  # not for tokens of a single study
    secret: bool = False  # the answer must not be cached
    results: bool = False  # the answer has results that viewers may not see: reads of a running study are logged
    sums: bool = False  # the answer has sums of a report: reads with agents' tokens are logged too

    @property
    def route(self) -> Route:
        """The Starlette route of this operation. It refuses HEAD, which for an endless stream would never end."""
        route = Route(self.path, self._endpoint, name=self.name)
        route.methods = {self.method}
        return route

    async def _endpoint(self, request: Request) -> Response:
        credential, place = request.headers.get("authorization", ""), request.path_params
        query = dict(request.query_params)
        found = await self.perform(
            Asked(app=request.app, credential=credential, place=place, query=query, request=request)
        )
        return found.response() if isinstance(found, Refusal) else found

    async def perform(self, asked: Asked) -> Any:
        """Check a call, run it, and measure it. A request gets a `Response`, and a page gets the handler's answer.

        A refusal is returned, not raised: its traceback would keep the request's body alive.
        """
        begun, context, principal = perf_counter(), context_of(asked.app), NOBODY
        found: Any
        try:
            with ExitStack() as slots:
                _require_clean(asked)
                if not self.public:
                    principal = await _identify(context, asked.credential)
                limit = self._admit(asked, context, principal, slots)
                at = _converted(asked.place, self.place or Place, "path")
                query = None if self.query is None else _converted(asked.query, self.query, "query")
                body = None if self.body is None else await self._body(asked, context, principal, limit)
                call = Call(app=asked.app, credential=asked.credential, by=principal, at=at, query=query, body=body)
                if asked.request is None:
                    found = await self.handler(call)
                else:
                    found = await self._answered(replace(call, headers=asked.request.headers, finish=encoded))
                if self.sums or (self.results and principal.role in UNBLINDED):
                    await record_read(call, self.name)
            status = found.status_code if isinstance(found, Response) else self.status
        except Exception as error:  # every failure has a problem document
            found = settled(error)
            status = found.kind.status
        seconds = perf_counter() - begun
        context.metrics.requests.labels(self.method, self.name, str(status)).inc()
        context.metrics.seconds.labels(self.name).observe(seconds)
        logger.info(
            "request",
            operation=self.name,
            study=asked.place.get("study"),
            status=status,
            problem=found.slug if isinstance(found, Refusal) else None,
            kid=principal.kid or None,
            ms=round(seconds * 1000, 2),
        )
        return found

    async def _answered(self, call: Call[Any, Any]) -> Response:
        """Run the handler, and make a response of its answer; a large answer counts as several requests."""
        answer = await self.handler(call)
        if isinstance(answer, Response):
            return answer
        content = answer if isinstance(answer, bytes) else encoded(answer)
        call.context.pace.charge(call.by.kid, len(content) / LARGE_ANSWER)
        return Response(content, self.status, NOT_KEPT if self.secret else None, media_type="application/json")

    def _admit(self, asked: Asked, context: Context, principal: Principal, slots: ExitStack) -> int:
        """Check rate and role, and take a slot for the duration of the call. Returns the body's size limit in bytes."""
        if self.public:
            return context.settings.body_limit
        large = self.large and principal.role is Role.ADMINISTRATOR
        limit = context.settings.study_body_limit if large else context.settings.body_limit
        cost = 1.0 if asked.request is None else cost_of(asked.request, limit)
        context.pace.check(principal.kid, cost)
        authorize(self.name, self.roles, principal, asked.place, server_wide=self.server_wide)
        usual = context.waiting if self.patient else context.requests
        slots.enter_context((context.uploads if cost > COSTLY else usual).taken(principal.kid))
        return limit

    async def _body(self, asked: Asked, context: Context, principal: Principal, limit: int) -> Any:
        """Read the body. It is checked cheaply before it is parsed, and a large body is parsed off the event loop."""
        assert self.body is not None
        if asked.request is None:
            return asked.body if isinstance(asked.body, Model) else _checked(self.body.from_json, asked.body)
        kind = asked.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(
                "unsupported-media-type", f"found {kind[:80] or 'no Content-Type'}; allowed: application/json"
            )
        content = await read_body(asked.request, limit, too_large)
        if self.report and len(content) > SHORT:
            await _check_length(context, asked.place["study"], len(content))
        if len(content) > LARGE:
            return await context.heavy.run(principal.kid, lambda: self._parsed(content))
        return self._parsed(content)

    def _parsed(self, content: bytearray) -> Any:
        check_shape(content, keys=MOST_KEYS if self.large else SOME_KEYS)
        assert self.body is not None
        return _checked(self.body.read, content)


def encoded(answer: Any) -> bytes:
    """Encode an answer as JSON; a string must be JSON already.

    >>> encoded({"status": "ok"})
    b'{"status":"ok"}'
    """
    return answer.encode() if isinstance(answer, str) else json_bytes(answer)


def cost_of(request: Request, limit: int) -> float:
    """The cost of a request for the rate limit: one, plus one for every 64 KiB of its body."""
    return 1.0 + min(announced_length(request), limit) / USUAL


def too_large(limit: int) -> Refusal:
    """The refusal of a body that is too large."""
    return Refusal("too-large", f"the body may have up to {limit} bytes")


def check_shape(body: bytes | bytearray, *, keys: int) -> None:
    """Raise if JSON is nested too deeply, or has more than `keys` keys or more than `keys` lists and objects.

    >>> check_shape(b'{"a": [1, 2]}', keys=3)
    >>> check_shape(b"[" * 100, keys=200)
    Traceback (most recent call last):
    parley.coordinator.problems.Refusal: the body is nested more than 32 deep
    """
    if body.count(b":") > keys:
        raise Refusal("invalid-request", f"the body may have at most {keys} keys")
    if body.count(b"[") + body.count(b"{") > keys:  # each of them costs a step of the loop below
        raise Refusal("invalid-request", f"the body may have at most {keys} lists and objects")
    depth = 0
    for bracket in body.translate(None, NOT_BRACKETS)[: 2 * keys]:  # any further closing brackets cannot matter
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise Refusal("invalid-request", f"the body is nested more than {DEEPEST} deep")


def _checked(read: Callable[[Any], Any], given: Any) -> Any:
    """Parse a body into its struct, or raise a refusal."""
    try:
        return read(given)
    except InvalidInput as error:
        raise Refusal("invalid-request", f"body: {error}"[:400]) from None


def _converted(given: Mapping[str, Any], kind: type[Any], where: str) -> Any:
    """Parse parameters from text into their struct, or raise a refusal."""
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal("invalid-request", f"{where}: {refused(kind, given, error, where)}"[:400]) from None


def refusal_of(error: Exception) -> Refusal:
    """Convert any failure to the refusal that describes it."""
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
    """Convert any failure to the refusal that describes it, and drop the failure's tracebacks.

    A traceback keeps the variables of every frame alive, and the failure itself is one of these variables. Because of
    this cycle, a study of tens of megabytes would stay in memory until the next garbage collection.
    """
    refusal = refusal_of(error)
    cause: BaseException | None = error
    while cause is not None:
        clear_frames(cause.__traceback__)
        cause.__traceback__ = None
        cause = cause.__context__
    return refusal


async def _identify(context: Context, credential: str) -> Principal:
    scheme, _, token = credential.partition(" ")
    if scheme.lower() == "session" and token:
        return await context.read(lambda transaction: resume(transaction, token.strip(), at=context.session_clock()))
    if scheme.lower() != "bearer" or not token:
        raise Refusal("no-token", "send Authorization: Bearer <token>", headers={"WWW-Authenticate": "Bearer"})
    return await context.tokens.principal(token.strip())


async def still_welcome(call: Call[Any, Any]) -> bool:
    """Whether the token or session of a long call is still valid."""
    try:
        await _identify(call.context, call.credential)
    except (Refusal, StorageUnavailable):  # the stream ends; a client that connects again learns why
        return False
    return True


def _require_clean(asked: Asked) -> None:
    """Raise if a parameter has a NUL, which PostgreSQL cannot store, or a lone surrogate, which UTF-8 cannot encode."""
    for value in (*asked.place.values(), *asked.query.values()):
        if "\x00" in (text := str(value)) or any("\ud800" <= character <= "\udfff" for character in text):
            raise Refusal("not-found", "not found")


async def record_read(call: Call[Any, Any], operation: str) -> None:
    """Record in the study's log who sees its results: once per principal and phase.

    The record is written after the results are read, so that it does not name an earlier phase, and before they are
    shown. For a reader who is remembered for this phase (`Context.reads`), this takes only one lookup.
    """
    context, key = call.context, (call.study, call.by.name)
    row = await context.glance(lambda transaction: studies.get(transaction, call.study))
    if row is None or (row.stage, "results-read") not in TRANSITIONS or context.reads.get(key) == row.phase:
        return
    # The log is searched before the study is locked; under the lock, only the records since then are searched.
    if not await context.read(partial(acts.already_read, row=row, actor=call.by.name)):
        work = partial(acts.record_read, study=call.study, operation=operation, after=row.sequence)
        row = await call.change(partial(work, actor=call.by.name, at=context.clock()), study=call.study)
    context.reads[key] = row.phase


async def _check_length(context: Context, study: str, length: int) -> None:
    """Refuse a body that is longer than any report of the study can be, before parsing it."""
    row = await context.glance(lambda transaction: studies.get(transaction, study))
    if row is not None and length > SHORT + PER_ARM * row.arms:
        raise Refusal("impossible-report", f"{length} bytes: allowed are {row.arms} of each, one per arm")
