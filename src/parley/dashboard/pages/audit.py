"""The log of a study with filters and the state of its chain, and the server's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from parley.coordinator.answers import LogPage
from parley.dashboard.entrance import Page, page
from parley.dashboard.pages.study import heading, verified
from parley.dashboard.words import number
from parley.protocol import EVENTS

__all__ = ["in_words", "routes"]

A_PAGE = 50


def in_words(kind: str, payload: Mapping[str, Any]) -> str:
    """What a record says, in a sentence.

    >>> in_words("paused", {"reason": "holiday"})
    'holiday'
    >>> in_words("phase-closed", {"decision": {"phase": 2, "finished": True, "eliminated_in": [[2], [0]]}})
    'phase 2 decided: 1 pair ruled out; the study is finished'
    """
    match kind:
        case "study-created":
            return f"{payload['study']['name']}"
        case "report-accepted" | "report-quarantined" | "report-amended":
            report = payload["report"]
            words = f"{report['agent']}, phase {report['phase']}: {number(sum(report['counts']))} samples"
            told = [word for word in (report.get("reason"), payload.get("reason")) if word]
            return "; ".join([words, *told])
        case "phase-closed":
            decision = payload["decision"]
            out = sum(cell == decision["phase"] for row in decision["eliminated_in"] for cell in row)
            words = f"phase {decision['phase']} decided: {number(out)} {'pair' if out == 1 else 'pairs'} ruled out"
            return words + ("; the study is finished" if decision["finished"] else "")
        case "agent-frozen" | "agent-thawed":
            return f"{payload['agent']}: {payload['reason']}"
        case "reweighed":
            without = f", without {', '.join(payload['left'])}" if payload["left"] else ""
            return f"asked anew in phase {payload['phase']}{without}: {payload['reason']}"
        case "report-refused":
            return f"{payload['agent']}, phase {payload['phase']}: {payload['reason']}"
        case "phase-cut":
            without = ", ".join(payload["without"])
            return f"phase {payload['phase']} closed without {without}: {payload['reason']}"
        case "disputed":
            return f"{payload['agent']} holds a receipt for record {payload['sequence']} that is not here"
        case "step-failed":
            return f"phase {payload['phase']}: {payload['error']}"
        case "certified":
            return f"{number(payload['certificate']['samples'])} samples, {payload['certificate']['phases']} phases"
        case "token-issued" | "token-revoked":
            return str(payload.get("principal", ""))
        case _:
            return str(payload.get("reason", ""))


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
