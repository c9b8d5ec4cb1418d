"""The log of a study with filters and the state of its chain, and the server's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from parley.coordinator.answers import LogPage
from parley.dashboard.pages.study import heading, verified
from parley.dashboard.session import Page, page
from parley.protocol import EVENTS, read_event

A_PAGE = 50


def in_words(kind: str, payload: Mapping[str, Any]) -> str:
    """What a record says, in a sentence: the event's own, or whom a record of the server's log is about.

    >>> in_words("paused", {"schema": "parley/event/paused/1", "reason": "holiday"})
    'holiday'
    """
    return read_event(kind, payload).sentence if kind in EVENTS else str(payload.get("principal", ""))


def unbroken(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether neighbours among some records name each other's hashes."""
    known = {record["sequence"]: record for record in records}
    return all(
        record["previous"] == known[record["sequence"] - 1]["hash"]
        for record in records
        if record["sequence"] - 1 in known
    )


async def audit_page(shown: Page) -> Response:
    """The log, its newest records first; verified when that is asked for."""
    head = await heading(shown)
    kind, actor = shown.asked("kind"), shown.asked("actor").strip()[:300]
    kind = kind if kind in EVENTS else ""
    found = await shown.api.read(
        LogPage,
        "studies",
        shown.study,
        "log",
        after=shown.place("after") or None,
        limit=A_PAGE,
        kind=kind,
        actor=actor,
        newest_first="true",
    )
    records = [{**record, "words": in_words(record["kind"], record["payload"])} for record in found.records]
    return await shown.show(
        "audit.html",
        tab="audit",
        **head,
        records=records,
        next=found.next,
        kinds=list(EVENTS),
        kind=kind,
        actor=actor,
        unbroken=unbroken(records),
        verification=await verified(shown),
    )


async def server_log_page(shown: Page) -> Response:
    """Tokens issued and revoked."""
    some = {"after": shown.place("after") or None, "limit": A_PAGE, "newest_first": "true"}
    found = await shown.api.read(LogPage, "log", **some)
    records = [{**record, "words": in_words(record["kind"], record["payload"])} for record in found.records]
    return await shown.show("server_log.html", records=records, next=found.next, unbroken=unbroken(records))


routes: list[Route] = [
    page("/studies/{study}/audit", audit_page),
    page("/log", server_log_page),
]
