"""One study: where it is, whom it waits for, the board of agents and arms, the rounds, and what is likely left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import Route

from parley.dashboard.charts import meter
from parley.dashboard.entrance import Page, page
from parley.dashboard.streams import relay
from parley.dashboard.words import number, real

__all__ = ["BoardCell", "Pages", "agents_on_page", "heading", "outlook", "routes", "verified"]

AGENTS = 25  # on one page
WIDE = 10  # arms up to which a cell of the board says its numbers in full


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Some agents of many, and how to reach the others."""

    first: int
    size: int
    total: int

    @property
    def last(self) -> int:
        """The place of the last one shown, counted from 1."""
        return min(self.first + self.size, self.total)

    @property
    def before(self) -> int | None:
        """Where the page before this begins."""
        return max(self.first - self.size, 0) if self.first > 0 else None

    @property
    def after(self) -> int | None:
        """Where the next page begins."""
        return self.first + self.size if self.first + self.size < self.total else None


def agents_on_page(shown: Page, names: Sequence[str], size: int = AGENTS) -> Pages:
    """The page of agents that is asked for, by an agent's name or by place."""
    wanted = shown.asked("agent").strip()
    place = names.index(wanted) if wanted in names else shown.place("first")
    first = min(place, max(len(names) - 1, 0)) // size * size
    return Pages(first=first, size=size, total=len(names))


@dataclass(frozen=True, kw_only=True)
class BoardCell:
    """An arm of an agent on the board: a state in a word and a sign, and beside it what the data say."""

    state: str  # "candidate", "out" or "chosen"
    words: str
    share: float  # of the line that the evidence has come to
    interval: str

    @property
    def bar(self) -> Markup:
        """The share as a picture."""
        return meter(self.share)

    @classmethod
    def of(
        cls, *, active: bool, out_in: int, chosen: bool, case: Mapping[str, Any] | None, arm: int, agent: int
    ) -> BoardCell:
        """From the board and the latest phase's explanation."""
        score = case["score"][arm][agent] if case else None
        share = min(max((score or 0.0) / case["line"], 0.0), 1.0) if case else 0.0
        mean, radius = (case["mixed_means"][arm][agent], case["radius"][arm][agent]) if case else (None, None)
        state = "chosen" if chosen else "candidate" if active else "out"
        return cls(
            state=state,
            words={"chosen": "best", "candidate": "candidate", "out": f"out in {out_in}"}[state],
            share=share,
            interval="" if mean is None else f"{real(mean, 2)} ± {real(radius, 2)}",
        )


async def heading(shown: Page) -> dict[str, Any]:
    """What stands at the top of every page of a study."""
    status = await shown.api.get("studies", shown.study)
    return {"status": status, "mark": status["version"], "blinded": shown.who is not None and shown.who["blinded"]}


async def outlook(shown: Page, status: Mapping[str, Any], pages: Pages) -> dict[str, Any] | None:
    """What is likely left, for those who may know: totals of the API, less what has come in since."""
    if not shown.may("analyst", "auditor", "administrator"):
        return None
    found: dict[str, Any] = await shown.api.get(
        "studies", shown.study, "outlook", first=pages.first or None, columns=pages.size
    )
    if found["state"] == "ready" and found["total"] is not None:
        spent = status["samples"]
        found["left"] = {name: max(total - spent, 0) for name, total in found["total"].items()}
    return found


async def verified(shown: Page) -> dict[str, Any] | None:
    """The replay of a study from its log, if the reader asks for it; not again when the page renews itself."""
    if not shown.asked("verify") or "parley-live" in shown.request.headers:
        return None
    found: dict[str, Any] = await shown.api.send("POST", "studies", shown.study, "verify")
    return found


async def overview(shown: Page) -> Response:
    """The page a study opens on."""
    head = await heading(shown)
    status = head["status"]
    pages = agents_on_page(shown, status["agent_names"])
    some = {"first": pages.first or None, "columns": pages.size}
    board = await shown.api.get("studies", shown.study, "board", **some)
    rounds = await shown.api.get("studies", shown.study, "history", limit=200, columns=1, explain="false")
    decided = board["phases"]
    case = None
    if decided and not board["blinded"]:
        latest = await shown.api.get("studies", shown.study, "history", after=decided - 1 or None, limit=1, **some)
        case = latest["phases"][0]["explanation"] if latest["phases"] else None
    return shown.show(
        "overview.html",
        tab="overview",
        **head,
        board=board,
        rows=None if board["blinded"] else _rows(board, case),
        words=case["words"] if case else "",
        line=case["line"] if case else None,
        full=len(board["arms"]) <= WIDE,
        pages=pages,
        rounds=rounds["phases"],
        asked=_asked(status),
        planned=dict(zip(board["agents"], board["planned"], strict=True)),
        outlook=await outlook(shown, status, pages),
    )


def _rows(board: Mapping[str, Any], case: Mapping[str, Any] | None) -> list[list[BoardCell]]:
    """Agents down, arms across."""
    return [
        [
            BoardCell.of(
                active=board["active"][arm][agent],
                out_in=board["eliminated_in"][arm][agent],
                chosen=board["chosen"][arm][agent],
                case=case,
                arm=arm,
                agent=agent,
            )
            for arm in range(len(board["arms"]))
        ]
        for agent in range(len(board["agents"]))
    ]


def _asked(status: Mapping[str, Any]) -> str:
    """Reports in, of those asked for."""
    return f"{number(len(status['reported']))} of {number(status['asked'])}"


async def events(shown: Page) -> Response:
    """The study's own events, for the page's script."""
    return await relay(shown.api, "studies", shown.study, "events")


async def all_events(shown: Page) -> Response:
    """The list's events."""
    return await relay(shown.api, "events")


routes: list[Route] = [
    page("/studies/{study}", overview),
    page("/studies/{study}/events", events),
    page("/events", all_events),
]
