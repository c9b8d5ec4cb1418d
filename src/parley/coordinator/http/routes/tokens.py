"""Tokens: list, issue, revoke. The secret is shown once and kept nowhere."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import JSONResponse

from parley.coordinator.access import auth
from parley.coordinator.http.context import context_of, principal_of
from parley.coordinator.http.guard import GuardedRoute
from parley.coordinator.http.schemas import TokenBody
from parley.coordinator.record.tokens import TokenRow
from parley.coordinator.record.tokens import list_tokens as stored_tokens

__all__ = ["router"]

router = APIRouter(prefix="/v1/tokens", route_class=GuardedRoute, tags=["tokens"])


@router.get("")
async def list_tokens(request: Request, study: Annotated[str | None, Query(max_length=64)] = None) -> dict[str, Any]:
    """Every token without its secret, revoked ones too."""
    found = await context_of(request).read(lambda connection: stored_tokens(connection, study))
    return {"tokens": [token_view(row) for row in found]}


@router.post("", status_code=201)
async def issue_token(request: Request, body: TokenBody) -> JSONResponse:
    """Issue a token; the answer is the only place where its secret ever stands."""
    context, by = context_of(request), principal_of(request)

    def work(connection: Connection) -> tuple[str, TokenRow]:
        return auth.issue_token(
            connection,
            role=body.role,
            name=body.name,
            study=body.study,
            agent=body.agent,
            by=by.name,
            at=context.clock(),
        )

    token, row = await context.change(work, by=by)
    return JSONResponse({**token_view(row), "token": token}, status_code=201, headers={"Cache-Control": "no-store"})


@router.delete("/{kid}")
async def revoke_token(request: Request, kid: Annotated[str, Path(max_length=64)]) -> dict[str, Any]:
    """Revoke a token, at once and for good."""
    context, by = context_of(request), principal_of(request)
    try:
        row = await context.change(
            lambda connection: auth.revoke(connection, kid, by=by.name, at=context.clock()), by=by
        )
    finally:  # also when it is not known whether the commit went through
        context.keyring.forget(kid)
    return {"kid": row.kid, "principal": row.principal, "revoked": True}


def token_view(row: TokenRow) -> dict[str, Any]:
    """A token as it may be shown."""
    return {
        "kid": row.kid,
        "role": row.role,
        "principal": row.principal,
        "study": row.study,
        "agent": row.agent,
        "created_at": row.created_at,
        "created_by": row.created_by,
        "revoked_at": row.revoked_at,
    }
