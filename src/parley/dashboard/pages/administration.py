"""The administration page: a form for every act in `parley.protocol.acts`, its preview, and its confirmation.

The act's row in the table `ACTS` gives the address, fields, sentences and button of the form (`form_of`), in the
section that the row names; the acts in `OWN_FORMS` have a form of their own in the template. If an act has a preview,
its form leads to the preview first, and the confirmation sends the same fields again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import RedirectResponse, Response

from parley.coordinator.answers import Aside, StudyStatus
from parley.coordinator.http.routes import administration as admin
from parley.coordinator.http.routes import studies
from parley.coordinator.http.routes.agents import get_report
from parley.coordinator.problems import Refusal
from parley.dashboard.pages.study import heading
from parley.dashboard.session import ADMINISTRATORS, Page, page
from parley.errors import InvalidInput
from parley.protocol import TRANSITIONS, Plan, Report
from parley.protocol.acts import ACTS, Act, is_flag
from parley.protocol.codec import Message
from parley.protocol.corrections import with_cells
from parley.protocol.report_checks import REASONS
from parley.protocol.state_machine import CONCLUDED, OVER
from parley.text.translation import Translatable

A_PAGE = 10  # quarantined reports per page
MOST_BESIDE = 100  # limit on the listed reports that wait beside an accepted report
SHOWN = (404, 409, 422)  # statuses of refusals that the page reports itself
MOST_PAIRS = 30  # pairs of a freeze that are listed one by one
MOST_COLUMNS = 12  # columns of a re-weighing that are listed
# Acts whose form is written by hand in a template, since it also shows a list, a hint or a report.
OWN_FORMS = frozenset(
    {
        *("close-early", "freeze", "reweigh", "thaw", "open-arm", "withdraw-arm", "correct"),
        *("amend", "refuse"),  # with a quarantined report
        "sign",  # on the page of the answer
    }
)
REASON = Translatable("Reason, kept in the log")


@dataclass(frozen=True, kw_only=True)
class Considered:
    """An act under consideration: its subject, the typed fields, and its preview."""

    act: Act
    given: Mapping[str, Any]  # values in the act's address, including the study
    typed: Mapping[str, str] = field(default_factory=dict)  # fields that are sent again with the confirmation
    preview: Message | None = None


@dataclass(frozen=True, kw_only=True)
class ActForm:
    """The form of an act, from its row."""

    act: Act
    inputs: tuple[tuple[str, str, bool], ...]  # name, label, whether it is a box to tick

    @property
    def plain(self) -> bool:
        """Whether it asks for a reason only: such acts share a form."""
        return self.act.preview is None and [name for name, _, _ in self.inputs] == ["reason"]

    @property
    def messages(self) -> list[str]:
        """What it shows of the row, besides the button: messages that the catalogs have to translate."""
        return [] if self.plain else [self.act.words, *(label for _, label, _ in self.inputs)]


def form_of(act: Act) -> ActForm:
    """The form of an act that is not in `OWN_FORMS`; with a preview, the reason is asked for beside the preview."""
    fields = {name: one for name, one in act.fields.items() if name != act.then}
    inputs = [(name, name.capitalize(), False) for name in act.parts]
    inputs += [(name, name.replace("_", " ").capitalize(), is_flag(one)) for name, one in fields.items()]
    if act.preview is None and "reason" in act.body.known_keys():
        inputs.append(("reason", REASON, False))
    return ActForm(act=act, inputs=tuple(inputs))


async def administration_page(
    shown: Page, considered: Considered | None = None, *, problem: str = "", code: int = 200
) -> Response:
    """The page with all forms, and with the preview of a `considered` act; `problem` is why an act was refused."""
    head = await heading(shown)
    status = head["status"]
    numbers, of = shown.form.get("numbers"), _place_of(shown.form or shown.request.query_params)
    considered = considered or _asked(shown, status)
    try:
        if shown.asked("correct"):
            now, asked, _ = await _current(shown, of["correct"], of["phase"])
            numbers = numbers_of(now, status.arm_names, asked, zero_one=status.rates)
        elif considered is not None:
            considered = await _previewed(shown, considered)
    except Refusal as refusal:
        problem = problem or refusal.detail
    except (InvalidInput, BadColumns) as error:
        problem = problem or str(error)
    if considered is not None and considered.preview is not None and (numbers or "").startswith("{"):
        numbers = None  # a whole report, which is in the preview: nobody edits it by hand
    aside = await shown.call(admin.list_quarantine, {"after": shown.place("after"), "limit": A_PAGE})
    # Waiting reports come first: held reports, then the newest reports that wait beside an accepted report.
    waiting = (await shown.call(admin.list_quarantine, {"held": True})).quarantine
    newest = {"beside": True, "newest_first": True, "limit": MOST_BESIDE}
    waiting = [*waiting, *(await shown.call(admin.list_quarantine, newest)).quarantine]
    first = {entry.sequence for entry in waiting}
    entries = [*waiting, *(entry for entry in aside.quarantine if entry.sequence not in first)]
    last = _last_waiting(entries)
    possible = [row for row in ACTS.values() if (status.stage, row.kind) in TRANSITIONS]
    return await shown.show(
        "administration.html",
        code=code,
        tab="Administration",
        **head,
        acts=ACTS,
        forms=[form_of(row) for row in possible if row.command not in OWN_FORMS],
        quarantine=[await _beside(shown, entry, status) | {"newer": _newer(entry, last)} for entry in entries],
        next=aside.next,
        reasons=REASONS,
        considered=considered,
        numbers=numbers,
        of=of,
        most_pairs=MOST_PAIRS,
        most_columns=MOST_COLUMNS,
        problem=problem,
    )


def _asked(shown: Page, status: StudyStatus) -> Considered | None:
    """The act that the page's query asks to consider, as in `?freeze=Lyon`; None if it names no act."""
    for command, row in ACTS.items():
        value = shown.asked(command)
        if value and row.preview is not None and not row.of_report:
            parts = {"phase": status.phase} | ({row.subject: value} if row.subject else {})
            return Considered(act=row, given={part: parts[part] for part in row.parts} | {"study": shown.study})
    return None


async def _previewed(shown: Page, considered: Considered) -> Considered:
    """Add the preview to a considered act, if this act has previews."""
    preview = considered.act.preview
    if preview is None:
        return considered
    fields = {} if preview.body is None else await _fields(shown, considered.act)
    place = _place(considered, fields)
    found: Any = await shown.call(preview.name, body=fields, **place)
    return replace(considered, given=place, preview=found.preview)


def _place(considered: Considered, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values for an act's address; if the body has a report, agent and phase come from it."""
    report = body.get("report")
    of_report = {"agent": report["agent"], "phase": report["phase"]} if isinstance(report, dict) else {}
    return {**considered.given, **of_report}


def _last_waiting(entries: Sequence[Aside]) -> dict[tuple[int, str], int]:
    """(phase, agent) -> sequence number of the newest report that waits beside the report that counts."""
    beside = sorted((entry for entry in entries if entry.beside), key=lambda entry: entry.sequence)
    return {(entry.report.phase, entry.report.agent): entry.sequence for entry in beside}


def _newer(entry: Aside, last: Mapping[tuple[int, str], int]) -> int | None:
    """The sequence number of the newest report that waits for the same agent and phase, if it is newer than `entry`."""
    newest = last.get((entry.report.phase, entry.report.agent), 0)
    return newest if entry.beside and entry.sequence < newest else None


async def _beside(shown: Page, entry: Aside, status: StudyStatus) -> dict[str, Any]:
    """A quarantined report, with the report that counts for its agent and phase, and what can be done with it.

    While the phase is in progress, the quarantined report can replace the report that counts. Later it can correct that
    report, and a report that a correction replaced can be restored.
    """
    report = entry.report
    alone = msgspec.structs.asdict(entry) | dict.fromkeys(
        ("stands", "open", "decided", "used", "corrected", "restores", "again")
    )
    if entry.held or entry.refused is not None:
        return alone
    try:
        stands = await shown.call(get_report, phase=report.phase, agent=report.agent)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        return alone  # it was held when its phase was closed, so no report counts
    used = any(taken.report == report for taken in (stands, *stands.earlier))
    counts = stands.corrections[-1].report if stands.corrections else stands.report
    corrected = any(one.report == report for one in stands.corrections)
    decided = await _is_decided(shown, report.phase, status)
    return alone | {
        "stands": counts if not corrected else stands.report,
        "open": stands.report != report and not decided and status.stage not in OVER,
        "decided": decided,
        "used": used,
        "corrected": corrected,
        "restores": stands.report if corrected and counts == report else None,
        "again": decided and (used or corrected) and counts != report,
    }


async def _is_decided(shown: Page, phase: int, status: StudyStatus) -> bool:
    """Whether a phase was decided. If an act ended the study, its last phase may not have been decided."""
    if phase < status.phase or status.stage not in CONCLUDED:
        return phase < status.phase
    try:
        await shown.call(studies.get_decision, phase=phase)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        return False
    return True


async def act(shown: Page, row: Act) -> Response:
    """Handle the form of an act: return its preview, or do it; if it is refused, return the page with the reason."""
    form = shown.form
    given = {part: form.get(part, "") for part in row.parts} | {"study": shown.study}
    typed = {name: value for name, value in form.items() if name not in ("reason", "preview", *row.parts)}
    considered = Considered(act=row, given=given, typed=typed)
    if row.preview is not None and "preview" not in form:
        return await administration_page(shown, considered)
    try:
        fields = await _fields(shown, row)
    except (Refusal, InvalidInput, BadColumns) as error:
        return await administration_page(shown, considered, problem=str(error), code=422)
    agreed = [name for name in ("reason", "preview") if name in row.body.known_keys()]
    body = fields | {name: form.get(name, "").strip() for name in agreed}
    return await _done(shown, considered, body)


async def _done(shown: Page, considered: Considered, body: dict[str, Any]) -> Response:
    """Do an act; if it is refused, return the page with the reason."""
    try:
        await shown.call(considered.act.name, body=body, **_place(considered, body))
    except Refusal as refusal:
        if refusal.status not in SHOWN:
            raise
        return await administration_page(shown, considered, problem=refusal.sentence, code=refusal.status)
    return RedirectResponse(f"/studies/{quote(shown.study, safe='')}/administration", status_code=303)


async def _fields(shown: Page, row: Act) -> dict[str, Any]:
    """Read the fields of an act's body from the form, except for the reason and the preview's digest."""
    found: dict[str, Any] = {}
    for name, one in row.fields.items():
        text = shown.form.get(name, "").strip()
        if row.of_report and name == "report":
            found[name] = (await _corrected(shown)).to_json()
        elif name == "columns":
            found[name] = columns_of(text)
        else:
            found[name] = bool(text) if is_flag(one) else text
    return found


async def aside(shown: Page, row: Act, *, held: bool) -> Response:
    """Accept, refuse or use a quarantined report, identified by the sequence number of its record."""
    wanted = shown.form.get("sequence", "")
    place = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 16 else 0
    found = await shown.call(admin.list_quarantine, {"after": max(place - 1, 0), "limit": 1})
    chosen = [entry for entry in found.quarantine if entry.sequence == place and (entry.held or not held)]
    if not chosen:
        held_words = Translatable("No such report is held")
        words = held_words if held else Translatable("No such report is in quarantine")
        return await administration_page(shown, problem=words, code=404)
    report = chosen[0].report
    given = {"study": shown.study, "phase": report.phase, "agent": report.agent}
    body = {"reason": shown.form.get("reason", "").strip()}
    named = {"report": report.to_json() if row.of_report else chosen[0].digest}
    return await _done(shown, Considered(act=row, given=given), body | named)


async def _current(shown: Page, agent: str, phase: str) -> tuple[Report, Sequence[int], StudyStatus]:
    """Fetch the data for a correction: the agent's last corrected report, its planned draws by arm, and the study."""
    found, status = await shown.call(get_report, agent=agent, phase=phase), await shown.call(studies.get_study)
    plan = Plan.read(await shown.call(studies.get_plan, phase=phase))
    last = found.corrections[-1] if found.corrections else found
    return last.report, plan.draws(status.agent_names.index(agent)), status


def numbers_of(report: Report, arms: Sequence[str], asked: Sequence[int], *, zero_one: bool) -> str:
    """Format a report for a form: a line `name: count, sum, squares` per arm, without squares if rewards are 0 or 1."""
    lines = []
    for k, arm in enumerate(arms):
        squares = report.squares[k : k + 1] if not zero_one else ()
        if asked[k] or report.counts[k]:
            lines.append(f"{arm}: {', '.join(map(repr, (report.counts[k], report.sums[k], *squares)))}")
    return "\n".join(lines)


async def _corrected(shown: Page) -> Report:
    """Read a corrected report from a form: new numbers for the report that counts, or a whole report from the site."""
    text, agent, phase = (shown.form.get(key, "").strip() for key in ("numbers", "correct", "phase"))
    if text.startswith("{"):
        return Report.read(text)
    now, asked, status = await _current(shown, agent, phase)
    given = columns_of(text)
    wrong = [arm for arm, numbers in given.items() if arm not in status.arm_names or len(numbers) not in (2, 3)]
    if wrong:
        raise BadColumns(f"{wrong[0]!r} is not an arm of the study, followed by its count, sum and sum of squares")
    cells = {status.arm_names.index(arm): numbers for arm, numbers in given.items()}
    return with_cells(now, cells, asked, zero_one=status.rates, counts_reason=shown.form.get("counts-reason", ""))


class BadColumns(Exception):
    """Raised for typed lines of names and numbers that cannot be parsed."""


def columns_of(text: str) -> dict[str, list[float]]:
    """Parse typed lines `name: numbers`, such as an agent's name and the weights in its question.

    >>> columns_of("Lyon: 0.5, 0, 0.5")
    {'Lyon': [0.5, 0.0, 0.5]}
    """
    columns: dict[str, list[float]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, numbers = line.rpartition(":")
        try:
            columns[name.strip()] = [float(part) for part in numbers.split(",")]
        except ValueError:
            colon = ""
        if not colon:
            raise BadColumns(f"{line!r} is not a name with its numbers, as in “Lyon: 0.5, 0, 0.5”")
    return columns


def _place_of(given: Mapping[str, str]) -> dict[str, str]:
    """The values that say which report to correct: agent, phase, and why its counts differ from the plan."""
    return {key: given.get(key, "") for key in ("correct", "phase", "counts-reason")}


QUARANTINE = {"amend": (ACTS["amend"], False), "take": (ACTS["amend"], True), "refuse": (ACTS["refuse"], False)}
HANDLERS = {name: partial(act, row=row) for name, row in ACTS.items() if name != "sign"} | {
    name: partial(aside, row=row, held=held) for name, (row, held) in QUARANTINE.items()
}
routes = [
    page(
        "/studies/{study}/administration",
        administration_page,
        tab=Translatable("Administration"),
        tab_for=ADMINISTRATORS,
    ),
    *(page(f"/studies/{{study}}/{name}", done, "POST", only=ADMINISTRATORS) for name, done in HANDLERS.items()),
]
