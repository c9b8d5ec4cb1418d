"""The site's service: an API for the site's own programs, and a page for people. `parley.agent.site` does the work.

`operations` is the table of the API's own operations, and edges (`parley.hooks`) add more rows. Routes, access checks
and the OpenAPI document (`/v1/openapi.json`) are made from the whole table.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any, TypeVar

import anyio.to_thread
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from parley import __version__
from parley.agent.entries import LONGEST_KEY, Entered, checked_key, checked_line
from parley.agent.journal import Voided
from parley.agent.outcomes import PRIMARY
from parley.agent.reporting import LATE, SiteRuntime
from parley.agent.site import Assignment, Unmasking
from parley.agent.strata import Strata
from parley.dashboard.render import HERE as DASHBOARD
from parley.errors import InvalidInput, NoRoom, NotNow, ParleyError
from parley.hooks import edges
from parley.protocol.codec import Count, Model, build_structs, described
from parley.site.access import COOKIE, Access, Refused
from parley.site.pages import HERE, Pages
from parley.validation.checks import is_loopback
from parley.web import guard
from parley.web.connections import ConnectionLimits, address, affordable_connections, bind
from parley.web.openapi import Endpoint, Service

Handler = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[Request, int, Exception], Response]
M = TypeVar("M", bound=Model)
TITLES = {
    400: "Bad request",
    401: "A code is required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Not now",
    411: "The request must state the length of its body",
    413: "Too large",
    415: "The body must be JSON",
    421: "Another host",
    422: "Unprocessable",
    429: "Too many wrong codes",
    431: "The request line and headers are too long",
    500: "Internal error",
    507: "No room on the disk",
}


class Problem(Model):
    """A refusal in the form of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


def problem(status: int, words: str) -> JSONResponse:
    """Make the response that refuses a request."""
    return guard.problem(Problem(type="about:blank", title=TITLES[status], status=status, detail=words).to_json())


def status_of(error: Exception) -> int:
    """The HTTP status for an error.

    >>> status_of(NotNow("paused"))
    409
    """
    for kind, status in ((InvalidInput, 422), (NotNow, 409), (NoRoom, 507)):
        if isinstance(error, kind):
            return status
    return error.status if isinstance(error, Refused) else 500


Key = Annotated[str, msgspec.Meta(description=f"A participant's key, 1 to {LONGEST_KEY} printable characters.")]


@dataclass(frozen=True, kw_only=True)
class SiteOperation(Endpoint):
    """An operation of the site's API. `refused` makes the response to a refused request, usually a problem document."""

    refused: Refuse = lambda _, status, error: problem(status, str(error))


class Participant(Model):
    """The participant that a request is about."""

    participant: Key


class Newcomer(Participant):
    """A participant to be assigned."""

    stratum: Annotated[
        str, described("The stratum, by the study's name for it, where the site has several; nobody changes it.")
    ] = ""
    somebody_else: Annotated[bool, described("The key looks like a known one, but is another person.")] = False
    covariate: Annotated[
        float | None, described("The study's covariate, where it has one. It is never accepted after the assignment.")
    ] = None
    without_covariate: Annotated[bool, described("The covariate of this participant is not known.")] = False
    eligible: Annotated[bool, described("Every question of eligibility that the study asks was answered yes.")] = False


Named = Annotated[str, described("A further outcome of the study, by name; left out: the reward.")]


class Outcome(Model, omit_defaults=True):
    """A participant's outcome."""

    participant: Key
    reward: Annotated[
        float | None, described("Null is refused, since programs send it for NaN: say that it is missing.")
    ]
    outcome: Named = PRIMARY


class Lost(Participant):
    """A participant whose outcome will not come."""

    outcome: Named = PRIMARY


class Gone(Model, omit_defaults=True):
    """A participant whose outcome was marked as missing."""

    participant: Key
    missing: bool
    outcome: Named = PRIMARY


class Void(Participant):
    """A participant whose assignment was a mistake, the reason, and who voids it. All three stay at the site."""

    reason: str
    who: str


class Correction(Model, omit_defaults=True):
    """The right value of an outcome in a reported phase. The reason, and who corrects it, stay at the site."""

    participant: Key
    reward: float
    reason: str
    who: str
    outcome: Named = PRIMARY


class Corrected(Model):
    """The answer to a correction: a corrected report of the phase is on its way, for an administrator to confirm."""

    participant: Key
    phase: int


class OutcomeRow(Model):
    """One of many outcomes: a reward, or `missing` if none will come."""

    participant: Key
    reward: float | None = None
    missing: bool = False
    outcome: Named = PRIMARY

    def __post_init__(self) -> None:
        if self.missing == (self.reward is not None):
            found = "true beside a reward" if self.missing else "no reward"
            raise InvalidInput("missing", found=found, allowed='a reward, or "missing": true')


class OutcomeRows(Model):
    """Many outcomes. Each outcome of a participant may occur only once."""

    outcomes: tuple[OutcomeRow, ...]


class RowAnswer(Model):
    """The result of one row. Results are in the order in which the rows were sent."""

    participant: str | None
    taken: bool
    why: Annotated[str, described("What is wrong with it, and what is allowed; empty if it was taken.")] = ""


class RowAnswers(Model):
    """The results of many outcomes that were sent at once."""

    taken: Count
    refused: Count
    rows: list[RowAnswer]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The stratum that a request is about."""

    stratum: Annotated[str, described("Where the site has several.")] = ""


class Emergency(Participant):
    """A participant whose treatment must be known at once, in an emergency."""

    by: Annotated[str, described("Who is shown the arm.")]
    reason: Annotated[str, described("Why; it is kept with the record.")] = "emergency"


class Contact(Model):
    """Whether the site is in contact with its coordinator."""

    status: str
    seconds_since_contact: float | None


class SiteStatus(Model):
    """A site's progress in the current phase: exact numbers of people, none of them by arm."""

    study: str
    agent: str
    stage: Annotated[str, described("The stage of the study.")]
    reason: Annotated[str, described("Why, if the administrator gave a reason.")]
    phase: Annotated[int, described("0 before the first plan.")]
    asked: int
    assigned: int
    to_assign: int
    pending: Annotated[int, described("Outcomes that the report still needs, further ones too.")]
    observed: Annotated[int, described("People whose reward is in.")]
    missing: int
    withdrawn: Annotated[int, described("People marked as missing although their outcome was in.")]
    late: Annotated[int, described("People marked as missing after all places were given out.")]
    ahead: Annotated[int, described("People who are assigned for the next phase.")]
    takes_ahead: Annotated[bool, described("Whether whoever comes now is assigned for the next phase.")]
    between: Annotated[int, described("People who were assigned for this phase before it began.")]
    reserve: Annotated[int, described("People who replace somebody of their arm who may yet be missing.")]
    reported: bool
    closed: Annotated[str, described("Why nobody else is assigned, if the site closed the phase early.")]
    closed_arms: list[str]
    outside: Annotated[int, described("People outside of the study, of all phases.")]
    outcomes: Annotated[dict[str, int], described("Further outcome -> how many people are still without it.")]
    voided: Annotated[int, described("Assignments of the phase that were voided.")]
    unmasked: Annotated[int, described("People whose arm was shown, of all phases.")]
    kits_low: Annotated[bool, described("More kits should be listed before the phase goes on.")]
    sends_at: Annotated[str | None, described("When a complete phase is reported by itself.")]
    coordinator: Annotated[str, described("Result of the last exchange with the coordinator.")]
    seconds_since_contact: float | None


class Api:
    """The handlers of the API's operations; each makes one call to the site."""

    def __init__(self, runtimes: Mapping[str, SiteRuntime], strata: Strata, access: Access) -> None:
        self._runtimes, self._strata, self._access = runtimes, strata, access

    async def assign(self, request: Request) -> Response:
        """Assign an arm to a participant. The first request draws it (201); later ones return the same arm (200).

        A new key that looks like a known one is refused, unless the request says that this is another person. If the
        site has strata, the first request names one; later ones may leave it out, and are refused if they name another
        stratum.
        """
        body = await self._read(request, Newcomer)
        more = {"stratum": body.stratum, "covariate": body.covariate, "without_covariate": body.without_covariate}
        more["eligible"] = body.eligible
        given = await self.given(body.participant, somebody_else=body.somebody_else, **more)
        return JSONResponse(given.to_json(), status_code=200 if given.again else 201)

    async def given(self, participant: str, **more: Any) -> Assignment:
        """Assign a participant; the assignment is in the journal when this returns. `more` goes to `Strata.assign`."""
        given: Assignment = await self._done(partial(self._strata.assign, **more), participant)
        return given

    async def note_outcome(self, request: Request) -> Response:
        """Record an outcome. It can be changed by another request until the phase is reported."""
        body = await self._read(request, Outcome)
        await self._done(self._strata.outcome, body.participant, body.reward, body.outcome)
        return JSONResponse(body.to_json())

    async def note_outcomes(self, request: Request) -> Response:
        """Record many outcomes at once.

        Each row is accepted or refused independently, and all accepted rows are on disk before the answer is sent.
        Sending the same rows again changes nothing.
        """
        match found := await self._access.json(request):
            case {"outcomes": [*rows]} if len(found) == 1:
                answers: list[RowAnswer] = await self._done(self._take, rows)
            case _:
                raise InvalidInput("body", found=repr(found)[:60], allowed='{"outcomes": [a row for each participant]}')
        taken = sum(one.taken for one in answers)
        return JSONResponse(RowAnswers(taken=taken, refused=len(answers) - taken, rows=answers).to_json())

    async def note_missing(self, request: Request) -> Response:
        """Record that a participant's reward, or the named outcome, will not come."""
        body = await self._read(request, Lost)
        await self._done(self._strata.missing, body.participant, body.outcome)
        return JSONResponse(Gone(participant=body.participant, missing=True, outcome=body.outcome).to_json())

    async def void_assignment(self, request: Request) -> Response:
        """Void a mistaken assignment, which is possible only while nothing is recorded about the participant.

        Another participant will be assigned instead. All others keep their arms, and this participant is never assigned
        again. If the assignment was voided before, the answer has the first reason.
        """
        body = await self._read(request, Void)
        work = partial(self._strata.void, reason=body.reason, who=body.who)
        stands: Voided = await self._done(work, body.participant)
        answer = Void(participant=stands.participant, reason=stands.reason, who=stands.who)
        return JSONResponse(answer.to_json())

    async def correct_outcome(self, request: Request) -> Response:
        """Correct an outcome of a reported phase.

        The first report stays in force. A corrected report of the phase goes to the coordinator, where an administrator
        confirms or refuses it.
        """
        body = await self._read(request, Correction)
        key = checked_key(body.participant)
        reason, who = checked_line("reason", body.reason), checked_line("who", body.who)
        runtime = self._runtimes[self._strata.known(key).stratum]
        work = partial(runtime.correct, reason=reason, who=who)
        phase: int = await self._done(work, [(key, body.reward, body.outcome)])
        return JSONResponse(Corrected(participant=key, phase=phase).to_json())

    async def unmask(self, request: Request) -> Response:
        """Show the arm of one participant of a masked study, in an emergency.

        The journal records who saw the arm and why, and the coordinator learns how many participants were unmasked.
        """
        body = await self._read(request, Emergency)
        work = partial(self._strata.unmask, by=body.by, reason=body.reason, emergency=True)
        shown: Unmasking = await self._done(work, body.participant)
        return JSONResponse(shown.to_json())

    async def get_status(self, request: Request) -> Response:
        """Get the progress of a stratum in the current phase.

        Do not show it to people who enrol participants: they could guess the last assignments.
        """
        site = self._strata.named(request.query_params.get("stratum", ""))
        runtime = self._runtimes[site.stratum]
        found = await anyio.to_thread.run_sync(site.status)
        shown = SiteStatus(**found, coordinator=runtime.words, seconds_since_contact=_rounded(runtime.silence))
        return JSONResponse(shown.to_json())

    async def openapi(self, request: Request) -> Response:
        """Get the OpenAPI document of this API."""
        return JSONResponse(request.app.state.openapi())

    async def healthz(self, _: Request) -> Response:
        """Check the contact with the coordinator: 503 before its first answer, and if the last was too long ago."""
        heard = [known for one in self._runtimes.values() if (known := one.silence) is not None]
        since = max(heard) if len(heard) == len(self._runtimes) else None
        well = since is not None and since < LATE
        found = Contact(status="ok" if well else "silent", seconds_since_contact=_rounded(since))
        return JSONResponse(found.to_json(), status_code=200 if well else 503)

    def _take(self, rows: list[Any]) -> list[RowAnswer]:
        """Record the rows that are well-formed and that the site accepts; returns the result of every row."""
        keys = [row.get("participant") if isinstance(row, dict) else None for row in rows]
        wrong: dict[int, Exception] = {}
        offered: dict[int, Entered] = {}
        for place, row in enumerate(rows):
            try:
                read = OutcomeRow.from_json(row)
                offered[place] = Entered(read.participant, read.reward, read.outcome)
            except InvalidInput as error:
                wrong[place] = error
        refused = self._strata.record(list(offered.values()), partly=True)
        wrong |= {place: why for place, why in zip(offered, refused, strict=True) if why is not None}
        return [
            RowAnswer(
                participant=key if isinstance(key, str) else None,
                taken=place not in wrong,
                why=str(wrong[place]) if place in wrong else "",
            )
            for place, key in enumerate(keys)
        ]

    async def _done(self, work: Callable[..., Any], *values: Any) -> Any:
        """Run `work` in a thread, since it writes to disk; then let the reporting threads check for a due report."""
        try:
            found = await anyio.to_thread.run_sync(work, *values)
            sys.audit("parley.reached", "site-before-answer")
            return found
        # Also after an error, since part of the work may be in a journal.
        finally:
            for runtime in self._runtimes.values():
                runtime.noted()

    async def _read(self, request: Request, kind: type[M]) -> M:
        return kind.from_json(await self._access.json(request))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


DOCUMENT = Service(
    title="Parley site",
    version=__version__,
    description="""Gives people who come one by one an arm at once, and takes their outcomes. What is acknowledged is on
the disk. Refusals are `application/problem+json` (RFC 9457), unless the operation says otherwise.""",
    security={
        "code": {"type": "http", "scheme": "bearer", "description": "The site's code, where it asks for one."},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": COOKIE,
            "description": "Cookie of a browser that gave the code.",
        },
    },
    problem=Problem,
)


@dataclass(frozen=True, kw_only=True)
class SiteParts:
    """The objects that operations of edges may use: the site, its access control, and its assignment function."""

    strata: Strata
    access: Access
    given: Callable[..., Awaitable[Assignment]]  # like `Strata.assign`; in the journal before it returns
    options: Mapping[str, Any]  # options that edges added to `parley site`


def operations(api: Api) -> tuple[SiteOperation, ...]:
    """The table of the API's own operations."""

    def row(method: str, path: str, handler: Handler, **more: Any) -> SiteOperation:
        return SiteOperation(method=method, path=path, handler=handler, **more)

    people = {"tag": "people"}
    new = {"status": 201, "also": {200: "The same arm as before."}}
    silent = {503: "The coordinator has not answered for two minutes."}
    return (
        row("POST", "/v1/assignments", api.assign, **people, body=Newcomer, answer=Assignment, **new),
        row("POST", "/v1/outcomes", api.note_outcome, **people, body=Outcome, answer=Outcome),
        row("POST", "/v1/outcomes/bulk", api.note_outcomes, **people, body=OutcomeRows, answer=RowAnswers),
        row("POST", "/v1/missing", api.note_missing, **people, body=Lost, answer=Gone),
        row("POST", "/v1/voids", api.void_assignment, **people, body=Void, answer=Void),
        row("POST", "/v1/corrections", api.correct_outcome, **people, body=Correction, answer=Corrected),
        row("POST", "/v1/unmask", api.unmask, **people, body=Emergency, answer=Unmasking),
        row("GET", "/v1/status", api.get_status, tag="site", query=Chosen, answer=SiteStatus),
        row("GET", "/v1/openapi.json", api.openapi, public=True, hidden=True),
        row("GET", "/healthz", api.healthz, tag="site", answer=Contact, also=silent, public=True),
    )


def all_operations(api: Api, parts: SiteParts) -> tuple[SiteOperation, ...]:
    """The table of all operations, including operations that edges add."""
    return (*operations(api), *(row for edge in edges() for row in edge.site_operations(parts)))


async def _elsewhere(_: Request, error: Exception) -> Response:
    """The response for an unknown address or method."""
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail)


def create_app(
    runtimes: SiteRuntime | Sequence[SiteRuntime], access: Access, options: Mapping[str, Any] | None = None
) -> Starlette:
    """Make the web application of a site with all its strata. `options` are the values of edges' own options."""
    each = runtimes if isinstance(runtimes, Sequence) else (runtimes,)
    strata = Strata(runtime.site for runtime in each)
    by_name = {runtime.site.stratum: runtime for runtime in each}
    api, pages = Api(by_name, strata, access), Pages(by_name, strata, access)
    parts = SiteParts(strata=strata, access=access, given=api.given, options=options or {})

    def guarded(handler: Handler, refuse: Refuse) -> Handler:
        async def endpoint(request: Request) -> Response:
            try:
                access.check(request)
                response = await handler(request)
            except (ParleyError, Refused) as error:
                response = refuse(request, status_of(error), error)
                response.headers.update(error.headers if isinstance(error, Refused) else {})
            return guard.shielded(response)

        return endpoint

    def route(row: SiteOperation) -> Route:
        async def known(request: Request) -> Response:
            if not row.public and not access.knows(request):
                raise Refused(401, "send the site's code as a bearer token")
            answer: Response = await row.handler(request)
            return answer

        return Route(row.path, guarded(known, row.refused), methods=[row.method], name=row.name)

    def page(path: str, handler: Handler) -> Route:
        shown = guarded(handler, pages.refused)
        return Route(path, shown, methods=["GET", "POST"])

    table = all_operations(api, parts)
    app = Starlette(
        routes=[
            *map(route, table),
            page("/", pages.page),
            page("/enter", pages.enter),
            page("/v1/docs", pages.api),
            Route("/export.csv", guarded(pages.export, pages.refused), methods=["GET"]),
            Mount("/static", StaticFiles(directory=DASHBOARD / "static")),
            Mount("/own", StaticFiles(directory=HERE / "static")),
        ],
        exception_handlers={HTTPException: _elsewhere},
    )
    app.state.openapi = cache(partial(DOCUMENT.document, table))
    build_structs()
    return app


SHORTEST_CODE = 8
CONNECTIONS = 512  # at most; a ward has a few tablets, so more connections than this would not be real users


@dataclass(frozen=True, kw_only=True)
class SiteSettings:
    """The settings of the site's service: its address, its access code and its TLS files.

    To serve other machines, the service needs a code, and TLS unless a proxy in front of it terminates TLS
    (`plain_http`).
    """

    host: str = "127.0.0.1"
    port: int = 8643
    code: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    plain_http: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)  # values of edges' own options

    def __post_init__(self) -> None:
        if self.code and len(self.code) < SHORTEST_CODE:
            raise InvalidInput("code", found="a short one", allowed=f"at least {SHORTEST_CODE} characters")
        if is_loopback(self.host):
            return
        if not self.code:
            raise InvalidInput(
                "host", found=self.host, allowed="a loopback address, or any with a code", hint="Give --code-file"
            )
        if not (self.tls_cert and self.tls_key) and not self.plain_http:
            raise InvalidInput(
                "host",
                found=f"{self.host} without TLS",
                allowed="a loopback address, --tls-cert with --tls-key, or --plain-http behind a TLS proxy",
            )


def serve(runtimes: Sequence[SiteRuntime], settings: SiteSettings, announce: Callable[[str], None]) -> None:
    """Serve until stopped; `announce` gets the address as soon as connections are accepted."""
    with bind(settings.host, settings.port) as listener:
        secure = bool(settings.tls_cert)
        access = Access(host=settings.host, code=settings.code, secure=secure or settings.plain_http)
        limits = ConnectionLimits(connections=min(CONNECTIONS, affordable_connections()))
        config = uvicorn.Config(
            create_app(runtimes, access, settings.options),
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
            **limits.uvicorn(problem),
        )
        announce(address(listener, settings.host, secure=secure))
        for runtime in runtimes:
            runtime.start()
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            for runtime in runtimes:
                runtime.close()
