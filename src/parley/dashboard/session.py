"""Sessions, form checks and security headers of all pages, and pages for refusals.

The browser has a session cookie (HttpOnly, SameSite=Strict, Secure under TLS). A form is accepted only if the browser
says that one of our pages sent it (`web.guard`).
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import anyio.to_thread
from babel import Locale
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from parley.coordinator.answers import Who
from parley.coordinator.http.context import LARGE_ANSWER, Call, Context, context_of
from parley.coordinator.http.guard import COSTLY, Asked, Operation, cost_of, settled, too_large
from parley.coordinator.http.routes.access import whoami
from parley.coordinator.problems import Refusal
from parley.dashboard.render import render
from parley.protocol.codec import Model
from parley.text.translation import LANGUAGES, Translatable, language_of, reading
from parley.web.guard import MOST_FIELDS, form_fields, read_body, sent_from_elsewhere, shielded

T = TypeVar("T")
FORM_LIMIT = 64 * 1024  # bytes of a form, except an administrator's study file
FILE_LIMIT = 4 * 1024 * 1024  # bytes of a study file: forms are parsed in memory; the API takes larger studies
CHOSEN = "parley-language"  # cookie of the chosen language, if not the browser's
A_YEAR = 365 * 86_400
LANGUAGE_NAMES = {code: (Locale(code).get_display_name(code) or code).capitalize() for code in LANGUAGES}
STUDY_FIELDS = 200  # fields of the form for a new study, which has every key of the file
STUDY = "/studies/{study}"  # address of a study's first page; the addresses of its other pages begin with it
ADMINISTRATORS = frozenset({"administrator"})
AUDITORS = ADMINISTRATORS | {"auditor"}
EVERY_READER = AUDITORS | {"viewer", "analyst"}
NOT_OURS = (
    "the browser does not confirm that the form is from a page of this server: load the page again, and send it from "
    "there"
)


@dataclass(frozen=True, kw_only=True)
class Page:
    """A request for a page and its reader; `who` is the answer of `whoami`, or None before signing in."""

    request: Request
    credential: str
    who: Who | None = None
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def context(self) -> Context:
        """The coordinator that serves the page."""
        return context_of(self.request)

    async def call(
        self,
        handler: Callable[[Call[Any, Any]], Awaitable[T]] | str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | Model | None = None,
        **place: Any,
    ) -> T:
        """Call an operation of the API on behalf of the reader and return its answer; raises the operation's `Refusal`.

        `handler` is the operation's function, or its name if the dashboard may not import it. `place` replaces
        parameters of the page's address. Empty query values are dropped.
        """
        name = handler if isinstance(handler, str) else handler.__name__
        operation: Operation = self.request.app.state.operations[name]
        place = {
            key: value for key, value in (self.request.path_params | place).items() if f"{{{key}}}" in operation.path
        }
        given = {key: value for key, value in (query or {}).items() if value not in (None, "")}
        found = await operation.perform(
            Asked(app=self.request.app, credential=self.credential, place=place, query=given, body=body)
        )
        if isinstance(found, Refusal):
            raise found
        answer: T = found
        return answer

    async def show(
        self, template: str, *, code: int = 200, made: Callable[[], Mapping[str, Any]] = dict, **values: Any
    ) -> Response:
        """Render a page off the event loop, with the words of the study's `audience`.

        `made` returns further values for the template. It also runs off the event loop, and translates messages for
        the reader: slow or translated values belong there.
        """
        known: dict[str, Any] = {"who": self.who, "path": self.request.url.path}
        known["docs"] = self.context.settings.docs
        tabs = [route for route in self.request.app.state.tabs if self.may(*route.tab_for)]
        known["links"] = [link for link in self.request.app.state.links if self.may(*link.roles)]

        known["language"] = spoken_language(self.request)
        # A link to another language reloads the address, which would not show again what a POST returned.
        known["spoken_languages"] = LANGUAGE_NAMES if self.request.method == "GET" else {}

        def drawn() -> bytes:
            with reading(values.get("audience", "bandit"), known["language"]):
                return render(template, **known, tabs=tabs, **values, **made()).encode()

        if self.who is None:  # only small pages are open to everybody, and no token could be charged
            return HTMLResponse(drawn(), status_code=code)
        return HTMLResponse(await self.draw(drawn), status_code=code)

    async def draw(self, drawn: Callable[[], bytes]) -> bytes:
        """Render a page or download off the event loop, and charge the reader's rate limit by its size."""
        assert self.who is not None
        content = await anyio.to_thread.run_sync(drawn)
        self.context.pace.charge(self.who.kid, len(content) / LARGE_ANSWER)
        return content

    async def compute(self, work: Callable[[], T]) -> T:
        """Run slow work off the event loop, after waiting in a queue in which readers take turns."""
        assert self.who is not None
        return await self.context.heavy.run(self.who.kid, work)

    @property
    def study(self) -> str:
        """Id of the study in the page's address."""
        return str(self.request.path_params["study"])

    def asked(self, name: str, default: str = "") -> str:
        """A parameter of the query string, or `default` if it is missing."""
        return self.request.query_params.get(name, default)

    def place(self, name: str) -> int:
        """A parameter of the query string as a whole number; 0 if it is missing or malformed."""
        value = self.asked(name)
        return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else 0

    def may(self, *roles: str) -> bool:
        """Whether the reader has one of these roles. Only used to hide what the API would refuse anyway."""
        return self.who is not None and self.who.role in roles


Handler = Callable[[Page], Awaitable[Response]]


def spoken_language(request: Request) -> str:
    """The language chosen in this browser, or the browser's preference."""
    chosen = request.cookies.get(CHOSEN, "")
    return chosen if chosen in LANGUAGES else language_of(request.headers.get("accept-language", ""))


def _choose_language(request: Request) -> Response:
    """Redirect to the same page in another language, and remember the choice."""
    response = RedirectResponse(request.url.path, status_code=303)
    if (chosen := request.query_params["language"]) in LANGUAGES:
        response.set_cookie(CHOSEN, chosen, max_age=A_YEAR, httponly=True, samesite="strict", secure=_secure(request))
    return response


def _secure(request: Request) -> bool:
    settings = context_of(request).settings
    return bool(settings.tls_cert) or settings.plain_http or settings.public_url.startswith("https://")


def session_cookie(request: Request) -> dict[str, Any]:
    """Name and attributes of the session cookie. Under TLS, the prefix `__Host-` keeps other hosts from setting it."""
    secure = _secure(request)
    key = "__Host-parley-session" if secure else "parley-session"
    return {"key": key, "httponly": True, "samesite": "strict", "secure": secure, "path": "/"}


def sign_in_address(request: Request) -> str:
    """The address of the sign-in page, which leads back to the requested page afterwards."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return "/sign-in" if here == "/" or request.method != "GET" else f"/sign-in?next={quote(here, safe='')}"


class PageRoute(Route):
    """The route of a page, with its title among the tabs of a study if the page is one of the tabs."""

    tab: str  # "" if the page is no tab
    tab_for: frozenset[str]  # roles that see the tab

    @property
    def below(self) -> str:
        """The part of the page's address after the study's address."""
        return self.path.removeprefix(STUDY)


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link in the navigation of every page."""

    path: str
    title: str
    roles: frozenset[str] = ADMINISTRATORS  # who sees it


@dataclass(frozen=True, kw_only=True)
class EdgePages:
    """The pages, templates and navigation links that an edge adds."""

    routes: Sequence[PageRoute]
    templates: Path | None = None  # a folder; template names must be unique among all edges and the dashboard
    links: Sequence[Link] = ()


def page(
    path: str,
    handler: Handler,
    *methods: str,
    open_to_all: bool = False,
    uploads: bool = False,
    only: frozenset[str] | None = None,
    tab: str = "",
    tab_for: frozenset[str] = EVERY_READER,
) -> PageRoute:
    """Make the route of a page: a POST must come from a form of our pages, and a session is required.

    Only pages that are `open_to_all` need no session. Forms are small, unless the page `uploads` a study and an
    administrator sends it. If the page is for `only` some roles, requests of other readers are refused before they are
    read. A `tab` is the page's title among the tabs of a study, for the roles in `tab_for`. The page's handler passes
    the same `tab` to `Page.show`, which marks it as the current tab.
    """

    async def endpoint(request: Request) -> Response:
        if request.method == "GET" and "language" in request.query_params:
            return shielded(_choose_language(request))
        try:
            response = await _entered(request, handler, open_to_all=open_to_all, uploads=uploads, only=only)
        except Exception as error:  # becomes the refusal that the API would send
            response = _refused(request, settled(error))
        return shielded(response)

    route = PageRoute(path, endpoint, methods=list(methods) or ["GET"], include_in_schema=False)
    route.tab, route.tab_for = tab, tab_for
    return route


async def _entered(
    request: Request, handler: Handler, *, open_to_all: bool, uploads: bool, only: frozenset[str] | None
) -> Response:
    cookie = session_cookie(request)
    secret = request.cookies.get(cookie["key"], "")
    shown = Page(request=request, credential=f"Session {secret}")
    who = await _who(shown) if secret and secret.isascii() else None
    if who is None and not open_to_all:
        response = RedirectResponse(sign_in_address(request), status_code=303)
        response.delete_cookie(**cookie)
        return response
    if only is not None and (who is None or who.role not in only):
        raise Refusal("not-allowed", f"this is for {' and '.join(sorted(only))}s")
    # Read the body only now, so that nobody uploads anything in a request that will be refused.
    large = uploads and who is not None and who.role == "administrator"
    with _upload(request, who) if large and who is not None else nullcontext():
        form = await _form(request, large=large) if request.method == "POST" else {}
        async with nullcontext() if who is None else context_of(request).pages.turn(who.kid):
            return await handler(replace(shown, who=who, form=form))


@contextmanager
def _upload(request: Request, who: Who) -> Iterator[None]:
    """Limit an administrator's upload of a study file: its size counts towards the rate limit, and few run at once."""
    context = context_of(request)
    context.pace.check(who.kid, cost := cost_of(request, FILE_LIMIT))
    with context.uploads.taken(who.kid) if cost > COSTLY else nullcontext():
        yield


async def _who(shown: Page) -> Who | None:
    try:
        return await shown.call(whoami)
    except Refusal as refusal:
        if refusal.status == 401:
            return None
        raise


async def _form(request: Request, *, large: bool) -> Mapping[str, str]:
    """Read the fields of a form that one of our pages sent. Other forms are refused before they are read."""
    if sent_from_elsewhere(request, unsaid=True):
        raise Refusal("form-expired", NOT_OURS)
    body = await read_body(request, FILE_LIMIT if large else FORM_LIMIT, too_large)
    most = STUDY_FIELDS if large else MOST_FIELDS
    too_many = Refusal("bad-request", f"a form has up to {most} fields")
    # Off the event loop: parsing a study file of many megabytes is slow.
    return await anyio.to_thread.run_sync(form_fields, body, too_many, most)


def _refused(request: Request, refusal: Refusal) -> Response:
    if refusal.status == 401:
        return RedirectResponse(sign_in_address(request), status_code=303)
    language = spoken_language(request)
    with reading(language=language):
        shown = render(
            "error.html",
            who=None,
            language=language,
            status=refusal.status,
            title=Translatable(refusal.kind.title),
            detail=refusal.detail,
            retry=refusal.kind.retry,
        )
    return HTMLResponse(shown, status_code=refusal.status)
