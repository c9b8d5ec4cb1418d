"""Tokens: list, issue, revoke. The secret is shown once and kept nowhere."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import JSONResponse

from parley.coordinator.access import tokens
from parley.coordinator.access.tokens import TokenRow
from parley.coordinator.access.tokens import list_tokens as stored_tokens
from parley.coordinator.answers.base import answered
from parley.coordinator.answers.tokens import IssuedToken, RevokedToken, TokenLine, Tokens
from parley.coordinator.http.context import context_of, principal_of
from parley.coordinator.http.operations import operations
from parley.coordinator.http.schemas import TokenBody
from parley.coordinator.record import Transaction

__all__ = ["router"]

router = operations("tokens", prefix="/v1/tokens")


@router.get("", response_model=Tokens)
async def list_tokens(request: Request, study: Annotated[str | None, Query(max_length=64)] = None) -> JSONResponse:
    """Every token without its secret, revoked ones too."""
    found = await context_of(request).read(lambda connection: stored_tokens(connection, study))
    return answered(Tokens(tokens=[_shown(row) for row in found]))


@router.post("", status_code=201, response_model=IssuedToken)
async def issue_token(request: Request, body: TokenBody) -> JSONResponse:
    """Issue a token; the answer is the only place where its secret ever stands."""
    context, by = context_of(request), principal_of(request)

    def work(connection: Transaction) -> tuple[str, TokenRow]:
        return tokens.issue_token(
            connection,
            role=body.role,
            name=body.name,
            study=body.study,
            agent=body.agent,
            by=by.name,
            at=context.clock(),
        )

    token, row = await context.change(work, by=by)
    return answered(IssuedToken(**vars(_shown(row)), token=token), 201, {"Cache-Control": "no-store"})


@router.delete("/{kid}", response_model=RevokedToken)
async def revoke_token(request: Request, kid: Annotated[str, Path(max_length=64)]) -> JSONResponse:
    """Revoke a token, at once and for good."""
    context, by = context_of(request), principal_of(request)
    try:
        row = await context.change(
            lambda connection: tokens.revoke(connection, kid, by=by.name, at=context.clock()), by=by
        )
    finally:  # also when it is not known whether the commit went through
        context.tokens.forget(kid)
    return answered(RevokedToken(kid=row.kid, principal=row.principal, revoked=True))


def _shown(row: TokenRow) -> TokenLine:
    """A token as it may be shown: all but its digest."""
    return TokenLine(**{field.name: getattr(row, field.name) for field in fields(TokenLine)})
