"""What an administrator does to a study: pause, resume, cancel, freeze and thaw agents, re-weigh the others, open and
withdraw arms, close a phase with what is in, correct a report of a decided phase, take, refuse or amend a quarantined
report."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import RedirectResponse, Response

from parley.coordinator.answers import Aside, StudyLine, StudyStatus
from parley.coordinator.http.context import Call
from parley.coordinator.http.routes import administration as admin
from parley.coordinator.http.routes import studies
from parley.coordinator.http.routes.agents import get_report
from parley.coordinator.problems import Refusal
from parley.dashboard.pages.study import heading
from parley.dashboard.session import ADMINISTRATORS, Page, page
from parley.errors import InvalidInput
from parley.protocol import Plan, Report
from parley.protocol.corrections import with_cells
from parley.protocol.report_checks import REASONS

Act = Callable[[Call[Any, Any]], Awaitable[StudyLine]]
ACTS: dict[str, Act] = {"pause": admin.pause_study, "resume": admin.resume_study, "cancel": admin.cancel_study}
A_PAGE = 10  # of reports in quarantine
SHOWN = (404, 409, 422)  # refusals of an act that the page shows


async def administration_page(shown: Page, *, problem: str = "", code: int = 200) -> Response:
    """The forms, and the previews of what is being considered; `problem` is why an act was refused."""
    head = await heading(shown)
    phase = head["status"].phase
    considering, why = await considered(shown, phase)
    aside = await shown.call(admin.list_quarantine, {"after": shown.place("after"), "limit": A_PAGE})
    waiting = (await shown.call(admin.list_quarantine, {"held": True})).quarantine  # stands first
    others = [entry for entry in aside.quarantine if not entry.held]
    return await shown.show(
        "administration.html",
        code=code,
        tab="Administration",
        **head,
        quarantine=[await _beside(shown, entry, phase) for entry in (*waiting, *others)],
        next=aside.next,
        reasons=REASONS,
        **considering,
        problem=problem or why,
    )


async def _beside(shown: Page, entry: Aside, phase: int) -> dict[str, Any]:
    """A report that was put aside, with the one that stands; it can be used while its phase is in progress."""
    report = entry.report
    alone = msgspec.structs.asdict(entry) | {"stands": None, "open": False, "used": False}
    if entry.held or entry.refused is not None:
        return alone
    try:
        stands = await shown.call(get_report, phase=report.phase, agent=report.agent)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        return alone  # held as its phase was closed without it
    used = any(taken.report == report for taken in (stands, *stands.earlier))
    return alone | {"stands": stands.report, "open": report.phase == phase and not used, "used": used}


async def _act(shown: Page, handler: Act, body: dict[str, Any], **place: Any) -> Response:
    """Do it; or the page again, with why it was refused."""
    try:
        await shown.call(handler, body=body, **place)
    except Refusal as refusal:
        if refusal.status not in SHOWN:
            raise
        return await administration_page(shown, problem=refusal.sentence, code=refusal.status)
    return RedirectResponse(f"/studies/{quote(shown.study, safe='')}/administration", status_code=303)


async def act(shown: Page) -> Response:
    """Pause, resume or cancel."""
    what = shown.form.get("do", "")
    if what not in ACTS:
        return await administration_page(shown, problem="Nothing was chosen", code=422)
    return await _act(shown, ACTS[what], {"reason": shown.form.get("reason", "").strip()})


async def freeze(shown: Page) -> Response:
    """Confirm a freeze whose preview was shown, and the way to go on that was chosen."""
    body = _confirmed(shown) | {"reweigh": shown.form.get("way") == "reweigh"}
    return await _act(shown, admin.freeze_agent, body, agent=shown.form.get("agent", ""))


async def reweigh(shown: Page) -> Response:
    """Show what other weights would do, or confirm what was shown."""
    if "preview" not in shown.form:
        return await administration_page(shown)
    try:
        columns = columns_of(shown.form.get("columns", ""))
    except BadColumns as error:
        return await administration_page(shown, problem=str(error), code=422)
    return await _act(shown, admin.reweigh_study, _confirmed(shown) | {"columns": columns})


async def thaw(shown: Page) -> Response:
    """Confirm that an agent is asked again."""
    return await _act(shown, admin.thaw_agent, _confirmed(shown), agent=shown.form.get("agent", ""))


async def arm(shown: Page) -> Response:
    """Confirm that an arm is opened or withdrawn."""
    handler = admin.open_arm if shown.form.get("do") == "open" else admin.withdraw_arm
    return await _act(shown, handler, _confirmed(shown), arm=shown.form.get("arm", ""))


def _confirmed(shown: Page) -> dict[str, Any]:
    return {"reason": shown.form.get("reason", "").strip(), "preview": shown.form.get("preview", "")}


async def close_early(shown: Page) -> Response:
    """Confirm that a phase is closed with what is in."""
    return await _act(shown, admin.close_early, _confirmed(shown), phase=shown.form.get("phase", ""))


async def correct(shown: Page) -> Response:
    """Show what a corrected report would tell, or confirm what was shown."""
    if "preview" not in shown.form:
        return await administration_page(shown)
    try:
        report = await _corrected(shown)
    except (Refusal, InvalidInput, BadColumns) as error:
        return await administration_page(shown, problem=str(error), code=422)
    body = _confirmed(shown) | {"report": report.to_json()}
    return await _act(shown, admin.correct_report, body, phase=report.phase, agent=report.agent)


async def _current(shown: Page, agent: str, phase: str) -> tuple[Report, Sequence[int], StudyStatus]:
    """What counts of an agent's report, with the last correction; what the plan asked for; and the study."""
    found, status = await shown.call(get_report, agent=agent, phase=phase), await shown.call(studies.get_study)
    plan = Plan.read(await shown.call(studies.get_plan, phase=phase))
    last = found.corrections[-1] if found.corrections else found
    return last.report, plan.draws(status.agent_names.index(agent)), status


def numbers_of(report: Report, arms: Sequence[str], asked: Sequence[int], *, zero_one: bool) -> str:
    """A report as a form has it: a line an arm, its name, a colon, count, sum and, unless it is the same, squares."""
    lines = []
    for k, arm in enumerate(arms):
        squares = report.squares[k : k + 1] if not zero_one else ()
        if asked[k] or report.counts[k]:
            lines.append(f"{arm}: {', '.join(map(repr, (report.counts[k], report.sums[k], *squares)))}")
    return "\n".join(lines)


async def _corrected(shown: Page) -> Report:
    """The report that a form gives: some numbers in the place of those that count, or a whole one from the site."""
    text, agent, phase = (shown.form.get(key, "").strip() for key in ("numbers", "correct", "phase"))
    if text.startswith("{"):
        return Report.read(text)
    now, asked, status = await _current(shown, agent, phase)
    given = columns_of(text)
    wrong = [arm for arm, numbers in given.items() if arm not in status.arm_names or len(numbers) not in (2, 3)]
    if wrong:
        raise BadColumns(f"{wrong[0]!r} is no arm of the study with its count, sum and sum of squares")
    cells = {status.arm_names.index(arm): numbers for arm, numbers in given.items()}
    return with_cells(now, cells, asked, zero_one=status.rates, counts_reason=shown.form.get("counts-reason", ""))


async def amend(shown: Page) -> Response:
    """Let a quarantined report stand instead."""
    wanted = shown.form.get("sequence", "")
    place = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 16 else 0
    aside = await shown.call(admin.list_quarantine, {"after": max(place - 1, 0), "limit": 1})
    chosen = [entry for entry in aside.quarantine if entry.sequence == place]
    if not chosen:
        return await administration_page(shown, problem="There is no such report in quarantine", code=404)
    return await _settle(shown, chosen[0], admin.amend_report)


async def held(shown: Page) -> Response:
    """Take or refuse a report that is held."""
    aside = await shown.call(admin.list_quarantine, {"held": True})
    chosen = [entry for entry in aside.quarantine if str(entry.sequence) == shown.form.get("sequence")]
    ways: dict[str, Act] = {"take": admin.amend_report, "refuse": admin.refuse_report}
    what = ways.get(shown.form.get("do", ""))
    if not chosen or what is None:
        return await administration_page(shown, problem="There is no such report that is held", code=404)
    return await _settle(shown, chosen[0], what)


async def _settle(shown: Page, entry: Aside, handler: Act) -> Response:
    """Take a report that was put aside, or refuse it by its digest."""
    report = entry.report
    named = entry.digest if handler is admin.refuse_report else report.to_json()
    body = {"reason": shown.form.get("reason", "").strip(), "report": named}
    return await _act(shown, handler, body, phase=report.phase, agent=report.agent)


MOST_PAIRS = 30  # of a freeze that are listed one by one
MOST_COLUMNS = 12  # of a re-weighing


class BadColumns(Exception):
    """Weights that somebody typed cannot be read."""


def columns_of(text: str) -> dict[str, list[float]]:
    """Weights that were given by hand: a line an agent, its name, a colon, and a number for every agent.

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


async def considered(shown: Page, phase: int) -> tuple[dict[str, Any], str]:
    """The previews of what is being considered, and why there is one missing."""
    considering: dict[str, Any] = dict.fromkeys(
        ("freezing", "reweighing", "thawing", "changing", "closing", "correcting", "numbers")
    )
    considering |= {"columns": "", "asks_weights": False, "most_pairs": MOST_PAIRS, "most_columns": MOST_COLUMNS}
    agent = shown.asked("freeze") or shown.form.get("agent", "")
    withdrawn = shown.asked("withdraw-arm") or (shown.form.get("arm", "") if shown.form.get("do") == "withdraw" else "")
    opened = shown.asked("open-arm") or (shown.form.get("arm", "") if shown.form.get("do") == "open" else "")
    try:
        if "numbers" in shown.form:
            considering |= {"numbers": shown.form["numbers"], "of": _place_of(shown.form)}
            report = await _corrected(shown)
            given = {"report": report.to_json()}
            found = await shown.call(admin.preview_correction, body=given, agent=report.agent, phase=report.phase)
            considering["correcting"] = found.preview
        elif shown.asked("correct"):
            now, asked, status = await _current(shown, shown.asked("correct"), shown.asked("phase"))
            considering["numbers"] = numbers_of(now, status.arm_names, asked, zero_one=status.rates)
            considering["of"] = _place_of(shown.request.query_params)
        elif shown.asked("thaw") or shown.form.get("do") == "thaw":
            agent = shown.asked("thaw") or agent
            considering["thawing"] = (await shown.call(admin.preview_thaw, agent=agent)).preview
        elif opened or withdrawn:
            look = admin.preview_open_arm if opened else admin.preview_withdraw_arm
            considering["changing"] = (await shown.call(look, arm=opened or withdrawn)).preview
        elif agent:
            considering["freezing"] = (await shown.call(admin.preview_freeze, agent=agent)).preview
        elif shown.asked("reweigh") or "columns" in shown.form:
            considering |= {"columns": shown.form.get("columns", ""), "asks_weights": True}
            body = {"columns": columns_of(considering["columns"])}
            considering["reweighing"] = (await shown.call(admin.preview_reweigh, body=body)).preview
        elif shown.asked("close-early"):
            considering["closing"] = (await shown.call(admin.preview_early_close, phase=phase)).preview
    except (Refusal, InvalidInput, BadColumns) as refusal:
        return considering, str(refusal)
    return considering, ""


def _place_of(given: Mapping[str, str]) -> dict[str, str]:
    """Whose report of which phase, and why its counts are not the plan's."""
    return {key: given.get(key, "") for key in ("correct", "phase", "counts-reason")}


routes = [
    page("/studies/{study}/administration", administration_page, tab="Administration", tab_for=ADMINISTRATORS),
    page("/studies/{study}/act", act, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/freeze", freeze, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/reweigh", reweigh, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/thaw", thaw, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/arm", arm, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/close-early", close_early, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/correct", correct, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/amend", amend, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/held", held, "POST", only=ADMINISTRATORS),
]
