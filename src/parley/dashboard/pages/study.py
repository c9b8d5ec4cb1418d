"""One study: where it is, whom it waits for, the board of agents and arms, the rounds, and what is likely left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from parley.coordinator.answers import Board, Explained, Forecast, StudyStatus, Verified
from parley.coordinator.http.context import Call
from parley.coordinator.http.routes import administration, studies
from parley.coordinator.problems import Refusal
from parley.dashboard.charts import meter
from parley.dashboard.render import number
from parley.dashboard.session import Page, page
from parley.formatting import measured

AGENTS = 25  # on one page
ROUNDS = 20  # on one page
LONGEST = 300.0  # seconds of a stream of events
RETRY = "retry: 1000\n\n"  # milliseconds after which a browser comes back
WIDE = 10  # arms up to which a cell of the board says its numbers in full


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Some agents of many, and how to reach the others."""

    first: int
    size: int
    total: int

    @property
    def query(self) -> dict[str, int]:
        """What asks for them."""
        return {"first": self.first, "columns": self.size}

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
        cls, *, active: bool, out_in: int, chosen: bool, case: Explained | None, rates: bool, arm: int, agent: int
    ) -> BoardCell:
        """From the board and the latest phase's explanation."""
        score = case.score[arm][agent] if case else None
        share = min(max((score or 0.0) / case.line, 0.0), 1.0) if case else 0.0
        mean, radius = (case.mixed_means[arm][agent], case.radius[arm][agent]) if case else (None, None)
        state = "chosen" if chosen else "candidate" if active else "out"
        return cls(
            state=state,
            words={"chosen": "best", "candidate": "candidate", "out": f"out in {out_in}"}[state],
            share=share,
            interval=measured(mean, radius, rates=rates),
        )


async def heading(shown: Page) -> dict[str, Any]:
    """What stands at the top of every page of a study."""
    status = await shown.call(studies.get_study)
    return {"status": status, "mark": status.version, "blinded": shown.who is not None and shown.who.blinded}


async def forecast(shown: Page, pages: Pages) -> Forecast | None:
    """What is to come, for those who may know."""
    if not shown.may("analyst", "auditor", "administrator"):
        return None
    found: Forecast = await shown.call("get_forecast", pages.query)
    return found


def likely_left(status: StudyStatus, ahead: Forecast | None) -> dict[str, float] | None:
    """The forecast's totals, less what has come in since."""
    if ahead is None or ahead.total is None:
        return None
    return {name: max(total - status.samples, 0) for name, total in ahead.total.items()}


def until_horizon(status: StudyStatus, board: Board) -> int | None:
    """Draws of all agents until the horizon, those of pages that are not shown too, less what has come in."""
    horizon = board.standing.horizon if board.standing else None
    return max(horizon * status.agents - status.samples, 0) if isinstance(horizon, int) else None


async def verified(shown: Page) -> Verified | None:
    """The replay of a study from its log, if the reader asks for it; not again when the page renews itself."""
    if not shown.asked("verify") or "parley-live" in shown.request.headers:
        return None
    return await shown.call(administration.verify_study)


async def overview(shown: Page) -> Response:
    """The page a study opens on."""
    head = await heading(shown)
    status = head["status"]
    pages = agents_on_page(shown, status.agent_names)
    board = await shown.call(studies.get_board, pages.query)
    last = min(shown.place("rounds") or board.phases, board.phases)  # the newest, unless earlier ones are asked for
    before = max(last - ROUNDS, 0)
    query = {"after": before, "limit": ROUNDS, "columns": 1, "explain": False}
    rounds = await shown.call(studies.get_history, query)
    case = None
    if board.phases and not board.blinded:
        latest = await shown.call(studies.get_history, {"after": board.phases - 1, "limit": 1, **pages.query})
        case = latest.phases[0].explanation if latest.phases else None
    ahead = await forecast(shown, pages)
    return await shown.show(
        "overview.html",
        tab="overview",
        **head,
        board=board,
        made=lambda: {"rows": None if board.blinded else _rows(board, case, rates=status.rates)},
        words=case.words if case else "",
        line=case.line if case else None,
        full=len(board.arms) <= WIDE,
        pages=pages,
        rounds=rounds.phases,
        earlier_rounds=before,
        later_rounds=min(last + ROUNDS, board.phases) if last < board.phases else 0,
        spent=spent(board, status),
        asked=f"{number(len(status.reported))} of {number(status.asked)}",
        planned=dict(zip(board.agents, board.planned, strict=True)),
        forecast=ahead,
        left=likely_left(status, ahead),
        until_horizon=until_horizon(status, board),
    )


def spent(board: Board, status: StudyStatus) -> list[int]:
    """Samples per agent: those of decided phases, and of the phase in progress where the report is in."""
    reported = {entry.agent for entry in status.reported}
    places = zip(board.agents, board.drawn, board.planned, strict=True)
    return [drawn + (planned if name in reported else 0) for name, drawn, planned in places]


def is_answer(board: Board, arm: int, agent: int) -> bool:
    """Whether an arm is among the answers of an agent: of a finished study, or once only so many are left."""
    left = bool(board.active and board.active[arm][agent]) and board.candidates[agent] <= board.top
    return left or bool(board.chosen and board.chosen[arm][agent])


def _rows(board: Board, case: Explained | None, *, rates: bool) -> list[list[BoardCell]]:
    """Agents down, arms across; of a board that is not blinded."""
    active, out_in = board.active or [], board.eliminated_in or []
    return [
        [
            BoardCell.of(
                active=active[arm][agent],
                out_in=out_in[arm][agent],
                chosen=is_answer(board, arm, agent),
                case=case,
                rates=rates,
                arm=arm,
                agent=agent,
            )
            for arm in range(len(board.arms))
        ]
        for agent in range(len(board.agents))
    ]


async def events(shown: Page) -> Response:
    """The study's own events, for the page's script."""
    return await _relay(shown, studies.follow_study)


async def all_events(shown: Page) -> Response:
    """The list's events."""
    return await _relay(shown, studies.follow_studies)


async def _relay(shown: Page, handler: Callable[[Call[None, None]], Awaitable[StreamingResponse]]) -> Response:
    """A stream of events, for a while; an empty answer that ends it for good where the reader may not have it."""
    try:
        stream = await shown.call(handler)
    except Refusal as refusal:
        return Response(status_code=204 if refusal.status in (401, 403, 404) else 503)
    stream.body_iterator = _for_a_while(stream.body_iterator)
    return stream


async def _for_a_while(events: AsyncIterable[Any]) -> AsyncIterator[Any]:
    yield RETRY
    try:
        async with asyncio.timeout(LONGEST):
            async for event in events:
                yield event
    except TimeoutError:
        return


routes: list[Route] = [
    page("/studies/{study}", overview),
    page("/studies/{study}/events", events),
    page("/events", all_events),
]
