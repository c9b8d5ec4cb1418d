"""The two pages that send a browser to the sign-in provider and receive it back."""

import secrets
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from parley.coordinator.problems import Refusal
from parley.dashboard.pages.access import entered, lead_on, local, sign_in_form
from parley.dashboard.session import Page, page
from parley.dashboard.sign_in import provider_of
from parley.edges.oidc.provider import BEGUN, DONE, Provider, provider_cookie, waiting


def _provider(shown: Page) -> Provider | None:
    found = provider_of(shown)
    return found if isinstance(found, Provider) else None


async def to_provider(shown: Page) -> Response:
    """Send the browser to the sign-in provider, and remember in a cookie where to go afterwards."""
    following, provider = local(shown.asked("next", "/")), _provider(shown)
    if provider is None or shown.who is not None:
        return RedirectResponse(following if shown.who else "/sign-in", status_code=303)
    secret = secrets.token_urlsafe(32)
    try:
        response = RedirectResponse(await provider.address(secret), status_code=303)
    except Refusal as refusal:
        return await sign_in_form(shown, following, problem=refusal.detail, code=refusal.status)
    value = f"{secret}..{quote(following, safe='')}"
    response.set_cookie(**provider_cookie(shown.request), value=value, max_age=BEGUN)
    return response


async def from_provider(shown: Page) -> Response:
    """Open a session for the person whom the provider names, or go on to the page that completes a signature."""
    provider = _provider(shown)
    if provider is None:
        return RedirectResponse("/sign-in", status_code=303)
    secret, sealed, address = waiting(shown)
    following = local(address or "/")
    # There is text to be signed. This request comes from the provider's site, so it has no session cookie: the page of
    # the signature gets the provider's answer instead.
    if sealed:
        return await lead_on(shown, "Signed in", f"{following}?{shown.request.url.query}")
    try:
        session = await provider.session(secret, shown.request.query_params)
    except Refusal as refusal:
        response = await sign_in_form(shown, following, problem=refusal.detail, code=refusal.status)
    else:
        response = entered(shown, await lead_on(shown, "Signed in", following), session)
    provider.forget(shown, response)
    return response


routes = [
    page(Provider.path, to_provider, open_to_all=True),
    page(DONE, from_provider, open_to_all=True),
]
