"""Tokens: issue, rotate, revoke. A new token is shown once."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from parley.coordinator.answers import IssuedToken, Tokens
from parley.dashboard.calls import ApiRefusal
from parley.dashboard.entrance import ADMINISTRATORS, Page, page

__all__ = ["routes"]

ROLES = ("viewer", "analyst", "auditor", "administrator", "agent")
A_PAGE = 50


async def _show(shown: Page, *, issued: IssuedToken | None = None, problem: str = "", code: int = 200) -> Response:
    tokens = (await shown.api.read(Tokens, "tokens", study=shown.asked("study"))).tokens
    wanted = shown.asked("search").strip().lower()
    live = [token for token in tokens if wanted in token.principal.lower() or wanted in token.kid]
    live.sort(key=lambda token: (token.revoked_at is not None, token.principal))
    first = min(shown.place("first"), max(len(live) - 1, 0)) // A_PAGE * A_PAGE
    return await shown.show(
        "tokens.html",
        code=code,
        tokens=live[first : first + A_PAGE],
        total=len(live),
        first=first,
        size=A_PAGE,
        search=wanted,
        roles=ROLES,
        issued=issued,
        problem=problem,
        study=shown.asked("study"),
    )


async def tokens_page(shown: Page) -> Response:
    """Every token without its secret."""
    return await _show(shown)


async def issue(shown: Page) -> Response:
    """Issue a token, or rotate one: a second for the same principal."""
    fields = {name: shown.form.get(name, "").strip() for name in ("role", "name", "study", "agent")}
    body = {"role": fields["role"], "name": fields["name"]}
    body |= {name: fields[name] for name in ("study", "agent") if fields[name]}
    try:
        return await _show(shown, issued=await shown.api.act(IssuedToken, "POST", "tokens", body=body))
    except ApiRefusal as refusal:
        if refusal.status not in (404, 409, 422):
            raise
        words = f"{refusal.problem['title']}: {refusal.problem['detail']}"
        return await _show(shown, problem=words, code=refusal.status)


async def revoke(shown: Page) -> Response:
    """Revoke a token, at once and for good."""
    await shown.api.send("DELETE", "tokens", shown.form.get("kid", "-"))
    return RedirectResponse("/tokens", status_code=303)


routes: list[Route] = [
    page("/tokens", tokens_page),
    page("/tokens", issue, "POST", only=ADMINISTRATORS),
    page("/tokens/revoke", revoke, "POST", only=ADMINISTRATORS),
]
