"""Pages to sign in and out, and to issue, rotate and revoke tokens. A new token is displayed only once."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import RedirectResponse, Response

from parley.coordinator.answers import IssuedToken
from parley.coordinator.http.routes import access
from parley.coordinator.problems import Refusal
from parley.dashboard.session import ADMINISTRATORS, Page, page, session_cookie
from parley.dashboard.sign_in import provider_of
from parley.text.translation import Translatable

ROLES = ("viewer", "analyst", "auditor", "administrator", "agent")
A_PAGE = 50


async def tokens_page(
    shown: Page, *, issued: IssuedToken | None = None, problem: str = "", code: int = 200
) -> Response:
    """The list of tokens without their secrets, except for the secret of a token `issued` just now."""
    tokens = (await shown.call(access.list_tokens, {"study": shown.asked("study")})).tokens
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


async def issue(shown: Page) -> Response:
    """Issue a token, or rotate one by issuing a second for the same principal."""
    fields = {name: shown.form.get(name, "").strip() for name in ("role", "name", "study", "agent")}
    body = {"role": fields["role"], "name": fields["name"]}
    body |= {name: fields[name] for name in ("study", "agent") if fields[name]}
    try:
        return await tokens_page(shown, issued=await shown.call(access.issue_token, body=body))
    except Refusal as refusal:
        if refusal.status not in (404, 409, 422):
            raise
        return await tokens_page(shown, problem=refusal.sentence, code=refusal.status)


async def revoke(shown: Page) -> Response:
    """Revoke a token, immediately and permanently, and return to the same search in the list."""
    await shown.call(access.revoke_token, kid=shown.form.get("kid", "-"))
    return RedirectResponse("/tokens?" + urlencode({"search": shown.asked("search")}), status_code=303)


def local(path: str) -> str:
    """Return an address if it is on this site, otherwise "/": links must not lead people to another site.

    >>> local("/studies/trial?first=25"), local("//elsewhere.example"), local("https://elsewhere.example")
    ('/studies/trial?first=25', '/', '/')
    """
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain else "/"


async def sign_in_page(shown: Page) -> Response:
    """The sign-in page; readers who are signed in already go straight to the page that they wanted."""
    following = local(shown.asked("next", "/"))
    if shown.who is not None:
        return RedirectResponse(following, status_code=303)
    return await sign_in_form(shown, following)


async def sign_in_form(shown: Page, following: str, *, problem: str = "", code: int = 200) -> Response:
    """Render the sign-in form, which leads to `following`; `problem` is why the last attempt failed."""
    known: dict[str, Any] = {"next": following, "problem": problem, "onward": ""}
    return await shown.show("sign_in.html", code=code, provider=provider_of(shown), **known)


async def lead_on(shown: Page, heading: str, address: str) -> Response:
    """A page that forwards the browser to an address, for cases in which a redirect would not work.

    After a redirect from another site, the browser would not send the session, whose cookie is SameSite=Strict. Also,
    the content policy of our pages keeps their forms from redirecting to another site.
    """
    response = await shown.show("sign_in.html", onward=heading, next=address)
    response.headers["Refresh"] = f"0; url={quote(address, safe='/?=&%#:+')}"
    return response


async def sign_in(shown: Page) -> Response:
    """Exchange a token for a session."""
    following, token = local(shown.form.get("next", "/")), shown.form.get("token", "").strip()
    # Headers are ASCII: any other token is replaced by one that is certainly refused.
    bearer = replace(shown, credential=f"Bearer {token}" if token.isascii() else "Bearer ?")
    try:
        made = await bearer.call(access.open_session)
    except Refusal as refusal:
        if refusal.status not in (401, 403):
            raise
        known = refusal.status == 403
        problem = (
            Translatable("This token is only for sending reports. It does not open these pages.")
            if known
            else Translatable(
                "This token is unknown or revoked. Enter the whole token, which looks like parley_0123…_…."
            )
        )
        return await sign_in_form(shown, following, problem=problem, code=refusal.status)
    return entered(shown, RedirectResponse(following, status_code=303), made.session)


def entered(shown: Page, response: Response, session: str) -> Response:
    """Add the cookie of a new session to a response."""
    seconds = round(shown.context.settings.session_hours * 3600)
    response.set_cookie(**session_cookie(shown.request), value=session, max_age=seconds)
    return response


async def sign_out(shown: Page) -> Response:
    """End the session, in the browser and on the server."""
    await shown.call(access.end_session)
    response = RedirectResponse("/sign-in", status_code=303)
    response.delete_cookie(**session_cookie(shown.request))
    return response


routes = [
    page("/tokens", tokens_page),
    page("/tokens", issue, "POST", only=ADMINISTRATORS),
    page("/tokens/revoke", revoke, "POST", only=ADMINISTRATORS),
    page("/sign-in", sign_in_page, open_to_all=True),
    page("/sign-in", sign_in, "POST", open_to_all=True),
    page("/sign-out", sign_out, "POST"),
]
