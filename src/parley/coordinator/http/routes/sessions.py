"""Sessions of a browser: opened with a token, ended by signing out. The secret is shown once and kept nowhere."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse

from parley.coordinator.access import sessions
from parley.coordinator.answers.base import answered
from parley.coordinator.answers.tokens import SessionEnd, SessionOpened
from parley.coordinator.http.context import context_of, principal_of
from parley.coordinator.http.operations import operations
from parley.coordinator.problems import Refusal

__all__ = ["router"]

router = operations("tokens", prefix="/v1/sessions")


@router.post("", status_code=201, response_model=SessionOpened)
async def open_session(request: Request) -> JSONResponse:
    """Open a session of the token that asks; send it as `Authorization: Session <session>` until it expires."""
    context, by = context_of(request), principal_of(request)
    if _session_of(request) is not None:
        raise Refusal("not-allowed", "a session is opened with a token, not with another session")
    hours = context.settings.session_hours
    secret, expires = await context.change(
        lambda connection: sessions.open_session(connection, by.kid, at=context.forward(), hours=hours), by=by
    )
    return answered(SessionOpened(session=secret, expires_at=expires), 201, {"Cache-Control": "no-store"})


@router.delete("", response_model=SessionEnd)
async def end_session(request: Request) -> JSONResponse:
    """Sign out: end the session that asks. Asked with a token, it ends nothing."""
    secret = _session_of(request)
    if secret is not None:
        by = principal_of(request)
        await context_of(request).change(lambda connection: sessions.end(connection, secret), by=by)
    return answered(SessionEnd(ended=secret is not None))


def _session_of(request: Request) -> str | None:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "session" else None
