"""What an administrator does to a study: pause, resume, cancel, freeze and thaw agents, re-weigh the others, close a
phase with what is in, take, refuse or amend a quarantined report."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from parley.coordinator.answers import PreviewedEarlyClose, PreviewedFreeze, PreviewedReweigh, PreviewedThaw
from parley.dashboard.calls import ApiRefusal
from parley.dashboard.pages.study import heading
from parley.dashboard.session import ADMINISTRATORS, Page, page
from parley.protocol.previews import ReweighPreview

ACTS = ("pause", "resume", "cancel")
A_PAGE = 10  # of reports in quarantine
SHOWN = (404, 409, 422)  # refusals of an act that the page shows


async def _show(shown: Page, *, problem: str = "", code: int = 200) -> Response:
    head = await heading(shown)
    considering, why = await considered(shown)
    problem = problem or why
    closing, phase = None, head["status"].phase
    if shown.asked("close-early"):
        try:
            closing = (
                await shown.api.read(PreviewedEarlyClose, "studies", shown.study, "phases", phase, "close-early")
            ).preview
        except ApiRefusal as refusal:
            problem = problem or str(refusal.problem["detail"])
    aside = await shown.api.get("studies", shown.study, "quarantine", after=shown.place("after") or None, limit=A_PAGE)
    aside["quarantine"] = [entry for entry in aside["quarantine"] if not entry["held"]]
    held = (await shown.api.get("studies", shown.study, "quarantine", held=True))[
        "quarantine"
    ]  # what waits stands first
    return await shown.show(
        "administration.html",
        code=code,
        tab="administration",
        **head,
        quarantine=[await _beside(shown, entry, phase) for entry in (*held, *aside["quarantine"])],
        next=aside["next"],
        closing=closing,
        **considering,
        problem=problem,
    )


async def _beside(shown: Page, entry: dict[str, Any], phase: int) -> dict[str, Any]:
    """A report that was put aside, with the one that stands; it can be used while its phase is in progress."""
    report = entry["report"]
    if entry["held"] or entry["refused"] is not None:
        return {**entry, "stands": None, "open": False, "used": False}
    try:
        stands = await shown.api.get("studies", shown.study, "phases", report["phase"], "reports", report["agent"])
    except ApiRefusal as refusal:
        if refusal.status != 404:
            raise
        return {**entry, "stands": None, "open": False, "used": False}  # held as its phase was closed without it
    used = any(taken["report"] == report for taken in (stands, *stands["earlier"]))
    return {**entry, "stands": stands["report"], "open": report["phase"] == phase and not used, "used": used}


async def administration_page(shown: Page) -> Response:
    """The forms, and the previews of what is being considered."""
    return await _show(shown)


async def _act(shown: Page, *parts: object, body: Any) -> Response:
    try:
        await shown.api.send("POST", "studies", shown.study, *parts, body=body)
    except ApiRefusal as refusal:
        return await _refused(shown, refusal)
    return _done(shown)


async def _refused(shown: Page, refusal: ApiRefusal) -> Response:
    """The page again, with why something was refused."""
    if refusal.status not in SHOWN:
        raise refusal
    words = f"{refusal.problem['title']}: {refusal.problem['detail']}"
    return await _show(shown, problem=words, code=refusal.status)


def _done(shown: Page) -> Response:
    return RedirectResponse(f"/studies/{quote(shown.study, safe='')}/administration", status_code=303)


async def act(shown: Page) -> Response:
    """Pause, resume or cancel."""
    what = shown.form.get("do", "")
    if what not in ACTS:
        return await _show(shown, problem="Nothing was chosen", code=422)
    return await _act(shown, what, body={"reason": shown.form.get("reason", "").strip()})


async def freeze(shown: Page) -> Response:
    """Confirm a freeze whose preview was shown, and the way to go on that was chosen."""
    body = _confirmed(shown) | {"reweigh": shown.form.get("way") == "reweigh"}
    return await _act(shown, "agents", shown.form.get("agent", ""), "freeze", body=body)


async def reweigh(shown: Page) -> Response:
    """Show what other weights would do, or confirm what was shown."""
    if "preview" not in shown.form:
        return await _show(shown)
    try:
        columns = columns_of(shown.form.get("columns", ""))
    except BadColumns as error:
        return await _show(shown, problem=str(error), code=422)
    return await _act(shown, "reweigh", body={**_confirmed(shown), "columns": columns})


async def thaw(shown: Page) -> Response:
    """Confirm that an agent is asked again."""
    return await _act(shown, "agents", shown.form.get("agent", ""), "thaw", body=_confirmed(shown))


def _confirmed(shown: Page) -> dict[str, Any]:
    return {"reason": shown.form.get("reason", "").strip(), "preview": shown.form.get("preview", "")}


async def close_early(shown: Page) -> Response:
    """Confirm that a phase is closed with what is in."""
    return await _act(shown, "phases", shown.form.get("phase", ""), "close-early", body=_confirmed(shown))


async def amend(shown: Page) -> Response:
    """Let a quarantined report stand instead."""
    wanted = shown.form.get("sequence", "")
    place = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 16 else 0
    aside = await shown.api.get("studies", shown.study, "quarantine", after=max(place - 1, 0) or None, limit=1)
    chosen = [entry["report"] for entry in aside["quarantine"] if entry["sequence"] == place]
    if not chosen:
        return await _show(shown, problem="There is no such report in quarantine", code=404)
    report = chosen[0]
    body = {"reason": shown.form.get("reason", "").strip(), "report": report}
    return await _act(shown, "phases", report["phase"], "reports", report["agent"], "amend", body=body)


async def held(shown: Page) -> Response:
    """Take or refuse a report that is held."""
    aside = (await shown.api.get("studies", shown.study, "quarantine", held=True))["quarantine"]
    chosen = [entry for entry in aside if str(entry["sequence"]) == shown.form.get("sequence")]
    what = {"take": "amend", "refuse": "refuse"}.get(shown.form.get("do", ""))
    if not chosen or what is None:
        return await _show(shown, problem="There is no such report that is held", code=404)
    report = chosen[0]["report"]
    named = report if what == "amend" else chosen[0]["digest"]
    body = {"reason": shown.form.get("reason", "").strip(), "report": named}
    return await _act(shown, "phases", report["phase"], "reports", report["agent"], what, body=body)


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
            raise BadColumns(f"{line!r} is not an agent with its weights, as in “Lyon: 0.5, 0, 0.5”")
    return columns


async def considered(shown: Page) -> tuple[dict[str, Any], str]:
    """The previews of what is being considered, and why there is one missing."""
    considering: dict[str, Any] = {
        "freezing": None,
        "reweighing": None,
        "thawing": None,
        "columns": "",
        "asks_weights": False,
    }
    considering |= {"most_pairs": MOST_PAIRS, "most_columns": MOST_COLUMNS}
    agent = shown.asked("freeze") or shown.form.get("agent", "")
    try:
        if shown.asked("thaw") or shown.form.get("do") == "thaw":
            agent = shown.asked("thaw") or agent
            where = ("studies", shown.study, "agents", agent, "thaw")
            considering["thawing"] = (await shown.api.read(PreviewedThaw, *where)).preview
        elif agent:
            where = ("studies", shown.study, "agents", agent, "freeze")
            considering["freezing"] = (await shown.api.read(PreviewedFreeze, *where)).preview
        elif shown.asked("reweigh") or "columns" in shown.form:
            considering |= {"columns": shown.form.get("columns", ""), "asks_weights": True}
            considering["reweighing"] = await _reweighing(shown, considering["columns"])
    except (ApiRefusal, BadColumns) as refusal:
        return considering, str(refusal)
    return considering, ""


async def _reweighing(shown: Page, columns: str) -> ReweighPreview:
    body = {"columns": columns_of(columns)}
    where = ("studies", shown.study, "reweigh", "preview")
    return (await shown.api.act(PreviewedReweigh, "POST", *where, body=body)).preview


routes: list[Route] = [
    page("/studies/{study}/administration", administration_page),
    page("/studies/{study}/act", act, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/freeze", freeze, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/reweigh", reweigh, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/thaw", thaw, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/close-early", close_early, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/amend", amend, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/held", held, "POST", only=ADMINISTRATORS),
]
