"""The site's page: the phase, its progress, and forms for everything that a study nurse does.

No URL of the page contains a participant's key.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any, Self

import anyio.to_thread
from babel import Locale
from babel.dates import format_date, format_time, format_timedelta
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from parley.agent.entries import YES_OR_NO, checked_key, checked_line
from parley.agent.outcomes import GONE, PRIMARY, OutcomeRules
from parley.agent.people import Person, folded
from parley.agent.plans import OVER
from parley.agent.reporting import LATE, PATIENCE, SiteRuntime
from parley.agent.site import ADMINISTRATOR, Site
from parley.agent.strata import Strata
from parley.dashboard.render import environment
from parley.errors import InvalidInput, ParleyError, SimilarKey
from parley.protocol.report_checks import CLOSING_REASONS, too_many_voids
from parley.site.access import Access, Form
from parley.site.tables import (
    COLUMNS,
    all_outcomes,
    error_text,
    exported,
    locale,
    take_table,
    typed_value,
    uploaded_text,
    value_of,
    words_for,
)
from parley.text.translation import (
    LANGUAGES,
    Translatable,
    figure,
    gettext,
    language,
    language_of,
    localized,
    reading,
    translated,
)

HERE = Path(__file__).parent
SHOWN = 20  # people on one page of the list
FEW = 5  # with at most this many people, all forms are open; with more, the page would be too long on a phone
DUE = {"due": 0, "week": 7}  # filters of the list: days until outcomes are due
PAGE, EMERGENCY = "somebody at the page", "emergency"  # the emergency button records these: who saw an arm, and why
CHOSEN = "parley-language"  # cookie with the language that the reader chose instead of the browser's
A_YEAR = 365 * 86_400


class Pages:
    """The handlers of the page and its forms, for one stratum. The answer to every form is the page itself."""

    def __init__(
        self, runtimes: Mapping[str, SiteRuntime], strata: Strata, access: Access, here: str | None = None
    ) -> None:
        """Make the pages of the stratum `here`, whose people they list; the default is the first stratum."""
        self._stratum = strata.names[0] if here is None else here
        self._runtimes, self._strata, self._access = runtimes, strata, access
        self._runtime = runtimes[self._stratum]
        self._site = self._runtime.site

    def _at(self, stratum: str) -> Self:
        """The page of the named stratum; this page if there is no other stratum with that name."""
        known = stratum in self._runtimes and stratum != self._stratum
        return type(self)(self._runtimes, self._strata, self._access, stratum) if known else self

    def _asked(self, fields: Mapping[str, str]) -> Self:
        """The page that answers a form: for the stratum of the form's person, else for the stratum in the form."""
        with suppress(InvalidInput):
            # A form about a person may come from a page on which the user searched for somebody else.
            owner = self._strata.of(fields.get("participant") or fields.get("sought", ""))
            if owner is not None:
                return self._at(owner.stratum)
        return self._at(fields.get("stratum", "") or fields.get("here", ""))

    async def enter(self, request: Request) -> Response:
        """Ask for the access code; if it is right, give the browser a session."""
        if "language" in request.query_params:
            return self._choose(request)
        with self._reading(request):
            if request.method == "GET":
                return self._show(request, "enter.html", problem="")
            fields = await self._access.form(request)
            response = RedirectResponse("/", status_code=303)
            if self._access.open_for(request, response, fields.get("code", "")):
                return response
            return self._show(request, "enter.html", status=403, problem=gettext("This code is wrong."))

    async def page(self, request: Request) -> Response:
        """Show the page. For a POST, first do what the form asks for."""
        if not self._access.knows(request):
            return RedirectResponse("/enter", status_code=303)
        if "language" in request.query_params:
            return self._choose(request)
        with self._reading(request):
            if request.method == "GET":
                shown = self._at(request.query_params.get("stratum", ""))
                return await anyio.to_thread.run_sync(shown._whole, request, {}, 200)
            fields = await self._access.form(request)
            return await anyio.to_thread.run_sync(self._asked(fields)._answer, request, fields)

    async def api(self, request: Request) -> Response:
        """Show the API's OpenAPI document as a readable page, in English."""
        with self._reading(request):
            return self._show(request, "api.html", document=request.app.state.openapi())

    async def export(self, request: Request) -> Response:
        """Download a table of all people, which can be uploaded again; without arms if the site may not see them."""
        if not self._access.knows(request):
            return RedirectResponse("/enter", status_code=303)
        with self._reading(request):
            text = await anyio.to_thread.run_sync(exported, self._strata)
        headers = {"Content-Disposition": 'attachment; filename="people.csv"'}
        return Response(text.encode("utf-8-sig"), media_type="text/csv; charset=utf-8", headers=headers)

    def refused(self, request: Request, status: int, error: Exception) -> Response:
        with self._reading(request):
            return self._show(request, "refused.html", status=status, detail=translated(error.args[0]))

    @contextmanager
    def _reading(self, request: Request) -> Iterator[None]:
        """Use the words of the study's audience, in the chosen language or else the browser's language."""
        chosen = request.cookies.get(CHOSEN, "")
        spoken = chosen if chosen in LANGUAGES else language_of(request.headers.get("accept-language", ""))
        with reading(self._site.people.rules.audience, spoken):
            yield

    def _choose(self, request: Request) -> Response:
        """Set a cookie with the chosen language, and show the page again."""
        response = RedirectResponse(request.url.path, status_code=303)
        chosen = request.query_params["language"]
        if chosen in LANGUAGES:
            response.set_cookie(
                CHOSEN, chosen, max_age=A_YEAR, httponly=True, samesite="strict", secure=self._access.secure
            )
        return response

    def _answer(self, request: Request, fields: Mapping[str, str]) -> Response:
        try:
            shown, status = self._do(fields), 200
        except SimilarKey as error:
            alike = self._at(self._strata.known(error.similar).stratum)
            shown, status = {"similar": alike._line(alike._site.people[error.similar]), "new": error.key}, 409
            # The page asks whether this is another person, and the form for that repeats what was entered.
            kept = ("stratum", "covariate", "without_covariate")
            shown["entered"] = {
                name: value for name, value in fields.items() if name in kept or name.startswith("eligible-")
            }
        except ParleyError as error:
            shown, status = {"problem": error_text(error), "at": fields.get("do", ""), "typed": dict(fields)}, 422
        self._runtime.noted()
        view = {name: fields.get(name, "") for name in ("sought", "which", "page")}
        return self._whole(request, view | shown, status)

    def _do(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Do what a form asks for; returns the template values that show the result."""
        what, key = fields.get("do", ""), fields.get("participant", "")
        match what:
            case "assign":
                typed = fields.get("covariate", "").strip()
                given = self._strata.assign(
                    key,
                    fields.get("stratum", ""),
                    somebody_else="somebody_else" in fields,
                    covariate=typed_value(typed) if typed and "without_covariate" not in fields else None,
                    without_covariate="without_covariate" in fields,
                    eligible=self._eligible(fields),
                )
                return {"given": given}
            case "outcome":
                return self._note(key, fields.get("reward", "").strip(), fields.get("outcome", PRIMARY))
            case "void":
                self._site.void(key, reason=fields.get("reason", ""), who=fields.get("who", ""))
                return {"done": gettext("The assignment of %(key)s is voided.", key=checked_key(key))}
            case "gone":
                self._site.gone(key)
                line = self._line(self._site.people[checked_key(key)])
                return {"noted": line, "field": None}
            case "correct":
                return {"done": self._correct(checked_key(key), fields)}
            case "unmask":
                return {"unmasked": self._strata.unmask(key, by=PAGE, reason=EMERGENCY, emergency=True)}
            case "send" | "close" | "release":
                return {"done": self._end(what, fields)}
            case "find":
                return {}
            case "table" | "take":
                text = fields.get("table", "")
                if isinstance(fields, Form) and fields.file:
                    text = uploaded_text(self._strata, fields.file)
                taken = take_table(self._strata, text, take=what == "take", seen=fields.get("seen"))
                return {"taken": taken} | ({"at": "table", "typed": {"table": text}} if taken.wrong else {})
        raise InvalidInput("form", found=repr(what)[:40], allowed=Translatable("a form of this page"))

    def _end(self, what: str, fields: Mapping[str, str]) -> str:
        """Close the phase at this site, or send or release its report; returns the message for the page."""
        phase, reason = _whole(fields.get("phase", "")), fields.get("reason", "")
        if what == "send":
            self._runtime.send(phase)
            return gettext("The report is being sent.")
        if what == "release":
            self._runtime.release(phase)
            return gettext("The report of phase %(phase)s is released and will be sent at once.", phase=phase)
        if reason not in CLOSING_REASONS:
            raise InvalidInput("reason", found=repr(reason)[:60], allowed=Translatable("a reason from the list"))
        self._site.finish(reason)
        return gettext("No more people will be assigned in this phase.")

    def _note(self, key: str, text: str, named: str) -> dict[str, Any]:
        """Record a person's outcome, or mark it as missing; returns the template values that show the result."""
        if text == GONE:
            self._site.missing(key, named)
        else:
            self._site.outcome(key, self._value(text, named), named)
        line = self._line(self._site.people[checked_key(key)])
        return {"noted": line, "field": next(one for one in line["fields"] if one["outcome"] == named)}

    def _correct(self, key: str, fields: Mapping[str, str]) -> str:
        """Correct outcomes of a person whose phase is reported; returns the message for the page."""
        said = {name: checked_line(name, fields.get(name, "")) for name in ("reason", "who")}
        known = self._site.people.persons.get(key)
        if known is None:
            raise InvalidInput(
                "participant", found=repr(key), allowed=Translatable("somebody whose outcome was reported")
            )
        values = []
        for number, one in enumerate(all_outcomes(self._site.people.rules)):
            text, was = fields.get(f"value-{number}", "").strip(), known.value(one.name)
            # A field left unchanged is no correction; the form may show fewer digits than were stored.
            if text and (was is None or text != as_typed(was)):
                values.append((key, None if text == GONE else self._value(text, one.name), one.name))
        phase = self._runtime.correct(values, **said)
        return gettext(
            "The correction of %(key)s is saved. The corrected report of phase %(phase)s goes to %(contact)s, who has "
            "to confirm it.",
            key=key,
            phase=phase,
            contact=self._site.people.rules.contact or gettext(ADMINISTRATOR),
        )

    def _eligible(self, fields: Mapping[str, str]) -> bool:
        """Whether every eligibility question was answered yes."""
        return all(f"eligible-{number}" in fields for number in range(len(self._site.people.rules.eligibility)))

    def _value(self, text: str, named: str) -> float:
        """Parse the value typed for an outcome: a number, or a word for yes or no."""
        asked = {one.name: one for one in all_outcomes(self._site.people.rules)}
        one = asked.get(named)
        return typed_value(text) if one is None else value_of(text, one, typed_value)

    def _whole(self, request: Request, shown: Mapping[str, Any], status: int) -> Response:
        known: dict[str, Any] = {**dict.fromkeys(("done", "problem", "at"), ""), "typed": {}}
        known |= dict.fromkeys(("unmasked", "given", "noted", "field", "taken", "similar"))
        known["entered"] = {}
        site, people = self._site, self._site.people
        standing = site.status()
        filling = standing["to_assign"] > 0 and standing["assigned"] < standing["asked"]
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
            title=people.rules.title or site.study,
            yes_no=people.rules.values == YES_OR_NO,
            columns=[gettext(one) for one in COLUMNS] + [one.name for one in people.rules.outcomes],
            examples=[words_for(one)[0] if one.values == YES_OR_NO else "1" for one in all_outcomes(people.rules)],
            example_key=example_of(people.rules.key_pattern),
            strata=self._listed_strata(),
            here=self._stratum,
            ask=people.rules.contact or gettext(ADMINISTRATOR),
            over=standing["stage"] in OVER,
            answer=people.stage.answer,
            grace=grace(site),
            **self._listed(shown),
            coordinator=self._runtime.words,
            contact=contact_words(self._runtime.silence),
            late=(self._runtime.silence or 0.0) > LATE,
            phases=self._phases(),
            held=self._runtime.held,
            many_voids=self._many_voids(),
            may_close=people.rules.flexible and standing["to_assign"] > 0,
            reasons={word: gettext(meaning) for word, meaning in CLOSING_REASONS.items()},
            day=day,
            moment=moment,
            decimal=figure,
            as_typed=as_typed,
        )

    def _many_voids(self) -> tuple[int, int] | None:
        """The numbers of voided assignments and of all assignments here; None unless too many were voided."""
        books = [book for site in self._strata.sites for book in site.people.phases.values()]
        voided, drawn = sum(book.voided for book in books), sum(book.drawn for book in books)
        return (voided, drawn) if too_many_voids(voided, drawn - voided) else None

    def _listed_strata(self) -> list[dict[str, Any]]:
        """Each stratum's number of awaited outcomes, and whether it needs people; empty if the site has only one."""
        if len(self._strata.sites) == 1:
            return []
        found = ((site.stratum, site.status()) for site in self._strata.sites)
        return [{"name": name, "awaited": one["pending"], "needed": _takes(one)} for name, one in found]

    def _listed(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """One page of a list: people with awaited outcomes (overdue first), the whole phase, or search results."""
        people, sought, which = self._site.people, shown.get("sought", "").strip(), shown.get("which", "")
        of_phase = people.in_progress
        awaited = [person for person in of_phase if people.awaits(person)]
        if people.rules.outcomes:  # with the reward alone, people are due in the order they came
            awaited.sort(key=self._first_due)
        found = awaited
        if which in DUE:
            found = [person for person in awaited if self._is_due(person, DUE[which])]
        elif which == "all":
            found = awaited + [person for person in reversed(of_phase) if not people.awaits(person)]
        if part := folded(sought):
            found = [person for person in list(people.persons.values()) if part in folded(person.key)]
            found.sort(key=lambda person: (folded(person.key) != part, not people.awaits(person)))
        first = SHOWN * min(max(_whole(shown.get("page", "")) - 1, 0), max(len(found) - 1, 0) // SHOWN)
        lines = [self._line(person) for person in found[first : first + SHOWN]]
        return {
            "people": lines,
            "few": len(lines) <= FEW,
            "awaited": len(awaited),
            "overdue": sum(self._overdue(person) > 0 for person in awaited),
            "has_due": any(self._first_due(person) != person.at for person in awaited[:SHOWN]) or which in DUE,
            "view": {"sought": sought, "which": which, "page": first // SHOWN + 1},
            "found": len(found),
            "pages": -(-len(found) // SHOWN),
        }

    def _is_due(self, person: Person, days: int) -> bool:
        """Whether an outcome of the person is due within `days` days, or overdue."""
        people = self._site.people
        dues = [due for name in people.awaits(person) if (due := people.due(person, name))]
        return any(self._days_after(due) >= -days for due in dues)

    def _overdue(self, person: Person) -> int:
        """Days since a person's first awaited outcome was due, in this machine's calendar; 0 or less if not overdue."""
        people = self._site.people
        return max((self._days_after(people.due(person, name)) for name in people.awaits(person)), default=0)

    def _days_after(self, due: datetime | None) -> int:
        return (self._site.clock().astimezone().date() - due.astimezone().date()).days if due else 0

    def _first_due(self, person: Person) -> datetime:
        """The time when a person's first awaited outcome is due, or when the person came if none has a due date."""
        people = self._site.people
        dues = [due for name in people.awaits(person) if (due := people.due(person, name))]
        return min(dues, default=person.at or self._site.clock())

    def _line(self, person: Person) -> dict[str, Any]:
        people = self._site.people
        book = people.book_of(person)
        awaited = people.awaits(person)
        fields = [self._field(person, one, one.name in awaited) for one in all_outcomes(people.rules)]
        hidden = person.arm is None or people.rules.masked or people.rules.kits
        return {
            "person": person,
            "arm": person.kit or (None if hidden else book.plan.arms[person.arm or 0]),
            "due": self._first_due(person) if awaited and self._first_due(person) != person.at else None,
            "overdue": self._overdue(person),
            "fields": fields,
            "awaited": len(awaited),
            "open": person.counted and not book.over,
            "voidable": person.counted and not people.was_counted(person) and person.pending and not person.others,
            "reported": book.reported is not None,
            "reported_in": people.reported_in(person),
            "correction": people.corrections.get(people.reported_in(person)),
            "correctable": person.counted and book.reported is not None and self._correctable(person),
        }

    def _correctable(self, person: Person) -> bool:
        """Whether the phase of a person can still be corrected by another report."""
        return self._runtime.correctable(self._site.people.reported_in(person))

    def _field(self, person: Person, one: OutcomeRules, awaited: bool) -> dict[str, Any]:
        """The template values for one outcome of a person."""
        due = self._site.people.due(person, one.name)
        return {
            "outcome": one.name,
            "number": [rules.name for rules in all_outcomes(self._site.people.rules)].index(one.name),
            "label": one.words,
            "rules": one,
            "yes_no": one.values == YES_OR_NO,
            "words": words_for(one),
            "value": person.value(one.name),
            "gone": person.is_gone(one.name),
            "awaited": awaited,
            "due": due,
            "overdue": self._days_after(due),
        }

    def _phases(self) -> list[dict[str, Any]]:
        """The phases that are over, latest first: only for these does the page show counts by arm."""
        receipts = self._runtime.receipts()
        return [
            {
                "phase": phase,
                "arms": book.plan.arms,
                "reported": book.reported,
                "receipt": receipts.get(phase),
                "correction": self._site.people.corrections.get(phase),
                "unsent": self._runtime.unsent.get(phase, ""),
            }
            for phase, book in sorted(self._site.people.phases.items(), reverse=True)
            if book.over
        ]

    def _show(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        shared = {
            "who": None,
            "path": request.url.path,
            "status": status,
            "language": language(),
            "languages": [(code, (Locale(code).get_language_name() or code).capitalize()) for code in LANGUAGES],
        }
        text = (
            environment(HERE / "templates")
            .get_template(template)
            .render(site=self._site, where=self._strata.place, **(values | shared))
        )
        return HTMLResponse(text, status_code=status)


def example_of(pattern: str) -> str:
    """Make an example of a key that fits the study's pattern.

    >>> example_of("BX-@##")
    'BX-A12'
    """
    digits, letters = cycle("1234567890"), cycle("ABCDEFGH")
    return "".join(next(digits) if sign == "#" else next(letters) if sign == "@" else sign for sign in pattern)


def as_typed(value: float) -> str:
    """Format a number as the reader would type it in a form: without thousands separators, which forms refuse.

    >>> as_typed(1234.5), as_typed(1.0)
    ('1234.5', '1')
    """
    return localized(f"{value:.10g}")


def contact_words(silence: float | None) -> str:
    """Say when the coordinator last answered, `silence` seconds ago; None means that it has never answered.

    >>> contact_words(None), contact_words(3.0), contact_words(130.0)
    ('no contact yet', 'last contact just now', 'last contact 2 minutes ago')
    """
    if silence is None:
        return gettext("no contact yet")
    if silence < 2 * PATIENCE:
        return gettext("last contact just now")
    ago = format_timedelta(-timedelta(seconds=silence), add_direction=True, threshold=1.5, locale=locale())
    return gettext("last contact %(ago)s", ago=ago)


def day(at: datetime) -> str:
    """Format a date in this machine's time zone, which is the site's."""
    return format_date(at.astimezone().date(), "long", locale=locale())


def moment(at: datetime) -> str:
    """Format a date and time in this machine's time zone."""
    local = at.astimezone()
    return f"{day(at)}, {format_time(local, 'short', locale=locale())} {local:%Z}"


def grace(site: Site) -> datetime | None:
    """The time until which a complete phase can still be changed; None if it is incomplete, or reported at once."""
    at = site.sends_at
    return at if at is not None and at > site.clock() else None


def _takes(standing: Mapping[str, Any]) -> bool:
    """Whether the next person who comes is assigned, for this phase or for the next one."""
    return standing["to_assign"] > 0 or bool(standing["takes_ahead"])


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def about(asked: int) -> int:
    """Round a number of people to the nearest 10, but never below 10.

    From the exact number, somebody who keeps count of the arms could infer the last assignments of a phase.

    >>> about(24), about(3), about(212)
    (20, 10, 210)
    """
    return max(10, 10 * round(asked / 10))
