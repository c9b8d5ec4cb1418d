"""The page of a study's log, with filters and the state of its hash chain, and the page of the server's own log."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from parley.coordinator.answers import LogPage
from parley.coordinator.http.routes import administration as admin
from parley.dashboard.pages.study import heading, verified
from parley.dashboard.session import AUDITORS, Page, page
from parley.protocol import EVENTS, read_event
from parley.text.translation import Translatable

A_PAGE = 50


def in_words(kind: str, payload: Mapping[str, Any]) -> str:
    """Describe a record: by its event's sentence or, in the server's log, by the principal or host that it is about.

    >>> in_words("paused", {"schema": "parley/event/paused/1", "reason": "holiday"})
    'holiday'
    """
    if kind in EVENTS:
        return read_event(kind, payload).sentence
    return str(payload.get("principal", payload.get("host", "")))


def unbroken(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each record contains the hash of the record before it, if that record is among these records too."""
    known = {record["sequence"]: record for record in records}
    return all(
        record["previous"] == known[record["sequence"] - 1]["hash"]
        for record in records
        if record["sequence"] - 1 in known
    )


async def audit_page(shown: Page) -> Response:
    """The log of a study, newest records first, with a verification on request."""
    head = await heading(shown)
    kind, actor = shown.asked("kind"), shown.asked("actor").strip()[:300]
    kind = kind if kind in EVENTS else ""
    wanted = {"after": shown.place("after"), "limit": A_PAGE, "kind": kind, "actor": actor, "newest_first": True}
    found = await shown.call(admin.get_log, wanted)
    return await shown.show(
        "audit.html",
        tab="Audit",
        **head,
        made=lambda: _worded(found),
        kinds=list(EVENTS),
        kind=kind,
        actor=actor,
        verification=await verified(shown),
    )


async def server_log_page(shown: Page) -> Response:
    """The server's own log: tokens issued and revoked, previews shown, and events of edges."""
    some = {"after": shown.place("after"), "limit": A_PAGE, "newest_first": True}
    found = await shown.call(admin.get_server_log, some)
    return await shown.show("server_log.html", made=lambda: _worded(found))


def _worded(page: str) -> dict[str, Any]:
    """The records of a log page, each with its description, and where the next page continues.

    Slow for large records: a single one may have megabytes.
    """
    found = msgspec.json.decode(page, type=LogPage)
    records = [{**one, "words": in_words(one["kind"], one["payload"])} for one in found.records]
    return {"records": records, "next": found.next, "unbroken": unbroken(found.records)}


routes = [
    page("/studies/{study}/audit", audit_page, tab=Translatable("Audit"), tab_for=AUDITORS),
    page("/log", server_log_page),
]
