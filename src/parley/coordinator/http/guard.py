"""Every route passes here first: token, pace, rights, size of the body; and every failure leaves as a problem document.

A route's operation id is the name of its function; `rights.ACCESS` says who may call it. Unlisted means refused.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter
from traceback import clear_frames
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley.coordinator.access.rights import PUBLIC, authorize
from parley.coordinator.access.sessions import resume
from parley.coordinator.access.tokens import Principal, Role
from parley.coordinator.http.context import Context, context_of
from parley.coordinator.http.direct import direct, plain
from parley.coordinator.http.heavy import Turns
from parley.coordinator.http.limits import COSTLY, bounded, check_shape, cost_of
from parley.coordinator.logs import logger
from parley.coordinator.problems import MEDIA_TYPE, Refusal
from parley.coordinator.record import StorageUnavailable, studies
from parley.errors import ParleyError
from parley.protocol.codec import LARGE, read_json

__all__ = ["GuardedRoute", "answer_problem", "refusal_of", "settled", "still_welcome"]

BY_STATUS = {
    400: "bad-request",
    401: "no-token",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
}
LARGE_BODIES = frozenset({"create_study", "estimate_study"})
PATIENT = frozenset({"get_agent_plan"})  # may wait for a minute
REPORTS = frozenset({"put_report", "amend_report"})
SHORT, PER_ARM = 16_384, 120  # bytes: a report's names and digests; a count, a sum and a square at their longest
BODIES = ("POST", "PUT", "PATCH")
SOME_KEYS, MOST_KEYS = 2_500, 20_000  # colons, rather: a reason may have some too


def answer_problem(refusal: Refusal) -> JSONResponse:
    """A refusal as RFC 9457 has it."""
    return JSONResponse(
        refusal.document(), status_code=refusal.kind.status, media_type=MEDIA_TYPE, headers=refusal.headers
    )


def refusal_of(error: Exception) -> Refusal:
    """What a failure means to the one who asked."""
    match error:
        case Refusal():
            return error
        case RequestValidationError():
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            places = [".".join(str(part) for part in found["loc"])[:120] for found in error.errors()[:20]]
            return Refusal("invalid-request", f"{where}: {first['msg']}"[:400], places=places)
        case HTTPException():
            slug = BY_STATUS.get(error.status_code, "bad-request")
            return Refusal(slug, str(error.detail)[:400], headers=dict(error.headers or {}))
        case StorageUnavailable():
            logger.warning("storage unavailable", error=str(error))
            return Refusal("storage-unavailable", "try again", headers={"Retry-After": "1"})
        case ParleyError():
            return Refusal("invalid-request", str(error)[:400])
        case _:
            logger.exception("unexpected failure", exc_info=error)
            return Refusal("internal", "the coordinator failed; the log has the details")


def settled(error: Exception) -> Refusal:
    """What a failure means, once nothing is to be learned from its trace.

    A trace holds on to the variables of every frame, and one of these to the failure: a study of tens of megabytes
    would stay in memory until garbage is looked for.
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
        return await context.read(lambda connection: resume(connection, token.strip(), at=context.forward()))
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
        if isinstance(value, str) and ("\x00" in value or any("\ud800" <= c <= "\udfff" for c in value)):
            raise Refusal("not-found", "no such thing")


async def _check_length(context: Context, request: Request, length: int) -> None:
    """Refuse a report that is longer than one of its study can be, before it is read."""
    row = await context.glance(lambda connection: studies.get(connection, request.path_params["study"]))
    if row is not None and length > SHORT + PER_ARM * row.arms:
        raise Refusal("impossible-report", f"{length} bytes: allowed are {row.arms} of each, one per arm")


async def _read(context: Context, request: Request, operation: str, kid: str, *, large: bool) -> None:
    """The body, checked as far as it can be without knowing what it means; a study's is parsed off the event loop."""
    body = bytearray()  # of tens of megabytes there shall be one copy
    async for part in request.stream():
        body += part
    if large and len(body) > LARGE:
        request._body, request._json = b"{}", await context.heavy.run(kid, partial(_parsed, body))
        return
    request._body = bytes(body)
    check_shape(request._body, keys=MOST_KEYS if large else SOME_KEYS)
    if operation in REPORTS and len(body) > SHORT:
        await _check_length(context, request, len(body))


def _parsed(body: bytearray) -> Any:
    """The value of a body, which is emptied as soon as it is a text."""
    check_shape(body, keys=MOST_KEYS)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Refusal("invalid-request", "the body is not UTF-8") from None
    body.clear()
    return read_json(text)


def _turns_of(context: Context, operation: str) -> Turns:
    return context.waiting if operation in PATIENT else context.turns


def _entered(turns: Turns, kid: str) -> Turns:
    turns.enter(kid)
    return turns


class GuardedRoute(APIRoute):
    """An `APIRoute` that checks before it reads, and measures."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.app = plain(self.get_route_handler())

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = direct(self, super().get_route_handler())
        operation = self.name

        async def guarded(request: Request) -> Response:
            begun, context = perf_counter(), context_of(request)
            kid: str | None = None
            refusal: Refusal | None = None
            turns: Turns | None = None
            try:
                _require_clean(request)
                if operation not in PUBLIC:
                    principal = await _identify(request, context)
                    kid = principal.kid
                    large = operation in LARGE_BODIES and principal.role is Role.ADMINISTRATOR
                    limit = context.settings.study_body_limit if large else context.settings.body_limit
                    context.pace.check(kid, cost := cost_of(request, limit))
                    authorize(operation, principal, request.path_params)
                    turns = _entered(context.uploads if cost > COSTLY else _turns_of(context, operation), kid)
                    request.state.principal = principal
                    request = bounded(request, limit)
                    if request.method in BODIES:
                        await _read(context, request, operation, kid, large=large)
                response = await inner(request)
            except Exception as error:  # every failure has a problem document
                refusal = settled(error)
                response = answer_problem(refusal)
            finally:
                if turns is not None and kid is not None:
                    turns.leave(kid)
            seconds = perf_counter() - begun
            context.metrics.requests.labels(request.method, operation, str(response.status_code)).inc()
            context.metrics.seconds.labels(operation).observe(seconds)
            logger.info(
                "request",
                operation=operation,
                study=request.path_params.get("study"),
                status=response.status_code,
                problem=refusal.slug if refusal else None,
                kid=kid,
                ms=round(seconds * 1000, 2),
            )
            return response

        return guarded
