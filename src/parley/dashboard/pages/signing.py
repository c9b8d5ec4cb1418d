"""Signing in with a token, and out again."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from parley.coordinator.http.context import context_of
from parley.dashboard.calls import Api, ApiRefusal
from parley.dashboard.entrance import FORM_COOKIE, Page, page, session_cookie

__all__ = ["routes"]


def local(path: str) -> str:
    """Where to go next, if it is on this site.

    >>> local("/studies/trial?first=25"), local("//elsewhere.example"), local("https://elsewhere.example")
    ('/studies/trial?first=25', '/', '/')
    """
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain else "/"


async def sign_in_page(shown: Page) -> Response:
    """The form; who is signed in already goes on."""
    following = local(shown.asked("next", "/"))
    if shown.who is not None:
        return RedirectResponse(following, status_code=303)
    return await shown.show("sign_in.html", next=following, problem="")


async def sign_in(shown: Page) -> Response:
    """Exchange a token for a session."""
    following, token = local(shown.form.get("next", "/")), shown.form.get("token", "").strip()
    api = Api(app=shown.request.app, credential=f"Bearer {token}" if token.isascii() else "Bearer ?")
    try:
        made = await api.send("POST", "sessions")
    except ApiRefusal as refusal:
        if refusal.status not in (401, 403):
            raise
        known = refusal.status == 403
        problem = (
            "This is an agent's token: it sends reports, it does not open these pages."
            if known
            else "This token is unknown or revoked. It looks like parley_0123…_…, all of it is needed."
        )
        return await shown.show("sign_in.html", code=refusal.status, next=following, problem=problem)
    response = RedirectResponse(following, status_code=303)
    seconds = round(context_of(shown.request).settings.session_hours * 3600)
    response.set_cookie(**session_cookie(shown.request), value=made["session"], max_age=seconds)
    response.delete_cookie(FORM_COOKIE)
    return response


async def sign_out(shown: Page) -> Response:
    """End the session, on the server too."""
    await shown.api.send("DELETE", "sessions")
    response = RedirectResponse("/sign-in", status_code=303)
    response.delete_cookie(**session_cookie(shown.request))
    return response


routes: list[Route] = [
    page("/sign-in", sign_in_page, open_to_all=True),
    page("/sign-in", sign_in, "POST", open_to_all=True),
    page("/sign-out", sign_out, "POST"),
]
