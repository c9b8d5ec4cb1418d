"""What an administrator does to a study: pause, resume, cancel, freeze and thaw agents, re-weigh the others, close a
phase with what is in, take, refuse or amend a quarantined report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from parley.dashboard.calls import ApiRefusal
from parley.dashboard.entrance import ADMINISTRATORS, Page, page
from parley.dashboard.pages.lost_sites import BadColumns, columns_of, considered, freeze_and_go_on
from parley.dashboard.pages.study import heading

__all__ = ["routes"]

ACTS = ("pause", "resume", "cancel")
A_PAGE = 10  # of reports in quarantine
TOLD = (404, 409, 422)  # what an act may be refused with, and is told on the page


async def _show(shown: Page, *, problem: str = "", code: int = 200) -> Response:
    head = await heading(shown)
    told, why = await considered(shown)
    problem = problem or why
    cut, phase = None, head["status"].phase
    if shown.asked("cut"):
        try:
            cut = await shown.api.get("studies", shown.study, "phases", phase, "cut")
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
        cut=cut,
        **told,
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
    """The forms, and the consequences of what is being considered."""
    return await _show(shown)


async def _act(shown: Page, *parts: object, body: Any) -> Response:
    try:
        await shown.api.send("POST", "studies", shown.study, *parts, body=body)
    except ApiRefusal as refusal:
        return await _told(shown, refusal)
    return _done(shown)


async def _told(shown: Page, refusal: ApiRefusal) -> Response:
    """The page again, with why something was refused."""
    if refusal.status not in TOLD:
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
    """Confirm a freeze whose consequences were shown, and the way to go on that was chosen."""
    try:
        why = await freeze_and_go_on(shown)
    except ApiRefusal as refusal:
        return await _told(shown, refusal)
    return _done(shown) if not why else await _show(replace(shown, form={}), problem=why, code=409)


async def reweigh(shown: Page) -> Response:
    """Show what other weights would do, or confirm what was shown."""
    if "consequences" not in shown.form:
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
    return {"reason": shown.form.get("reason", "").strip(), "consequences": shown.form.get("consequences", "")}


async def cut_phase(shown: Page) -> Response:
    """Confirm that a phase is closed with what is in."""
    return await _act(shown, "phases", shown.form.get("phase", ""), "cut", body=_confirmed(shown))


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


routes: list[Route] = [
    page("/studies/{study}/administration", administration_page),
    page("/studies/{study}/act", act, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/freeze", freeze, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/reweigh", reweigh, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/thaw", thaw, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/cut", cut_phase, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/amend", amend, "POST", only=ADMINISTRATORS),
    page("/studies/{study}/held", held, "POST", only=ADMINISTRATORS),
]
