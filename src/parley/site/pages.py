"""The page: what the phase asks, how far it is, and everything a study nurse does. One address, no key ever in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from parley.agent.people import Person
from parley.agent.reporting import LATE, PATIENCE, SiteRuntime
from parley.agent.site import Site, checked_key
from parley.agent.tables import number_in, read_table
from parley.dashboard.render import duration, environment
from parley.errors import InvalidInput, ParleyError
from parley.protocol.report_checks import CLOSING_REASONS
from parley.site.access import Access

HERE = Path(__file__).parent
SHOWN = 40  # people of the list


class Pages:
    """Handlers of the page's forms; each answers with the page itself."""

    def __init__(self, runtime: SiteRuntime, access: Access) -> None:
        self._runtime, self._site, self._access = runtime, runtime.site, access

    async def enter(self, request: Request) -> Response:
        """Ask for the code, once."""
        if request.method == "GET":
            return self._show(request, "enter.html", problem="")
        fields = await self._access.form(request)
        response = RedirectResponse("/", status_code=303)
        if self._access.open_for(request, response, fields.get("code", "")):
            return response
        return self._show(request, "enter.html", status=403, problem="That is not the code.")

    async def page(self, request: Request) -> Response:
        """Show it, after doing what a form asks for."""
        if not self._access.knows(request):
            return RedirectResponse("/enter", status_code=303)
        if request.method == "GET":
            return await anyio.to_thread.run_sync(self._whole, request, {}, 200)
        fields = await self._access.form(request)
        return await anyio.to_thread.run_sync(self._answer, request, fields)

    def refused(self, request: Request, status: int, words: str) -> Response:
        """A request that was not let in."""
        return self._show(request, "error.html", status=status, title="This did not work", detail=words, retry=False)

    def _answer(self, request: Request, fields: Mapping[str, str]) -> Response:
        try:
            shown, status = self._do(fields), 200
        except ParleyError as error:
            shown, status = {"problem": str(error), "at": fields.get("do", ""), "typed": dict(fields)}, 422
        self._runtime.noted()
        return self._whole(request, shown, status)

    def _do(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """What a form asks for; returns what is to be said of it."""
        what, key = fields.get("do", ""), fields.get("participant", "")
        match what:
            case "assign":
                return {"given": self._site.assign(key)}
            case "outcome":
                text = fields.get("reward", "").strip()
                self._site.outcome(key, _number(text))
                return {"done": f"{checked_key(key)}: {text} is noted."}
            case "missing":
                self._site.missing(key)
                return {"done": f"{checked_key(key)} is marked as missing."}
            case "close":
                self._site.finish(fields.get("reason", ""))
                return {"done": "Nobody more is assigned in this phase."}
            case "release":
                phase = fields.get("phase", "")
                self._runtime.release(int(phase) if phase.isdecimal() and len(phase) < 10 else 0)
                return {"done": f"The report of phase {phase} is released. It is sent at once."}
            case "find":
                return {"sought": checked_key(key)}
            case "table":
                taken, wrong = take_table(self._site, fields.get("table", ""))
                return {"wrong_rows": wrong, "typed": dict(fields)} if wrong else {"done": f"{taken} rows are taken."}
        raise InvalidInput("form", found=repr(what)[:40], allowed="one of this page's")

    def _whole(self, request: Request, shown: Mapping[str, Any], status: int) -> Response:
        known: dict[str, Any] = {**dict.fromkeys(("done", "problem", "at", "sought"), ""), "typed": {}}
        known |= {"given": None, "wrong_rows": []}
        site, people = self._site, self._site.people
        standing = site.status()
        filling = standing["to_assign"] > 0 and standing["assigned"] < standing["asked"]
        book = people.current
        sought = shown.get("sought", "")
        listed = [people.persons[key] for key in reversed(book.keys)] if book else []
        chosen = [people.persons[sought]] if sought in people.persons else listed[:SHOWN]
        return self._show(
            request,
            "page.html",
            status=status,
            **(known | dict(shown)),
            standing=standing,
            asked=about(standing["asked"]) if filling else standing["asked"],
            filling=filling,
            replaces=not people.rules.flexible,
            rules=people.rules,
            limits=(people.rules.low, people.rules.high),
            coordinator=self._runtime.words,
            contact=contact_words(self._runtime.silence),
            late=(self._runtime.silence or 0.0) > LATE,
            people=[self._line(person) for person in chosen],
            not_found=bool(sought) and sought not in people.persons,
            more=max(len(listed) - SHOWN, 0) if not sought else 0,
            waiting=[person.key for person in listed if person.pending][::-1][:500],
            phases=self._phases(),
            held=self._runtime.held,
            may_close=people.rules.flexible and standing["to_assign"] > 0,
            reasons=CLOSING_REASONS,
        )

    def _line(self, person: Person) -> dict[str, Any]:
        book = self._site.people.phases[person.phase]
        arm = None if person.arm is None else book.plan.arms[person.arm]
        return {"person": person, "arm": arm, "fixed": book.over or not person.counted}

    def _phases(self) -> list[dict[str, Any]]:
        """What was reported; counts by arm are shown only for phases that are over."""
        receipts = self._runtime.receipts()
        return [
            {"phase": phase, "arms": book.plan.arms, "reported": book.reported, "receipt": receipts.get(phase)}
            for phase, book in sorted(self._site.people.phases.items(), reverse=True)
            if book.over
        ]

    def _show(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        response = HTMLResponse("", status_code=status)
        shared = {
            "who": None,
            "path": request.url.path,
            "csrf": self._access.bound(request, response),
            "status": status,
        }
        text = environment(HERE / "templates").get_template(template).render(site=self._site, **(values | shared))
        body = text.encode()
        response.body = body
        response.headers["content-length"] = str(len(body))
        return response


def contact_words(silence: float | None) -> str:
    """When the coordinator last answered.

    >>> contact_words(None), contact_words(3.0), contact_words(130.0)
    ('no contact yet', 'last contact just now', 'last contact 2 minutes ago')
    """
    if silence is None:
        return "no contact yet"
    return "last contact just now" if silence < 2 * PATIENCE else f"last contact {duration(silence)} ago"


def about(asked: int) -> int:
    """A number of people to the nearest ten: who knew it exactly, and counted, would know the last arms of a phase.

    >>> about(24), about(3), about(212)
    (20, 10, 210)
    """
    return max(10, 10 * round(asked / 10))


def _number(text: str) -> float:
    """A reward as somebody types it, with a point or a comma.

    >>> _number("0,5")
    0.5
    """
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise InvalidInput("outcome", found=repr(text)[:40], allowed="a number") from None


GONE = ("missing", "na", "n/a")


@dataclass(frozen=True, kw_only=True)
class WrongRow:
    """What is wrong in a line, and where."""

    line: int
    words: str


def take_table(site: Site, text: str, source: str = "table") -> tuple[int, list[WrongRow]]:
    """How many rows were taken, and those that are wrong; if there is one, none was taken.

    The columns are `participant` and `reward`; `missing` stands for an outcome that will not come, and a row without
    a reward says nothing yet.
    """
    table = read_table(text.encode("utf-8", "replace"), source, needed=("participant", "reward"))
    rows, lines, wrong = [], [], []
    seen: dict[str, int] = {}
    for row in table.rows:
        key, said = row.values["participant"], row.values["reward"]
        if not said:
            continue
        try:
            if key in seen:
                raise InvalidInput("participant", found=f"{key!r} again", allowed=f"once; it is in line {seen[key]}")
            rows.append((key, None if said.lower() in GONE else number_in(table, row, "reward")))
            seen[key] = row.line
            lines.append(row.line)
        except InvalidInput as error:
            wrong.append(WrongRow(line=row.line, words=str(error)))
    found = site.record(rows, take=not wrong)
    wrong += [
        WrongRow(line=line, words=str(error)) for line, error in zip(lines, found, strict=True) if error is not None
    ]
    return (0 if wrong else len(rows)), sorted(wrong, key=lambda one: one.line)
