"""The overview of a study: stage, awaited agents, the board of agents and arms, rounds, and the samples likely left.

Other pages of a study use its heading and its division of many agents into pages.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread
from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from parley.coordinator.answers import Board, Explained, Forecast, StudyStatus, Verified
from parley.coordinator.http.context import Call
from parley.coordinator.http.routes import administration, studies
from parley.coordinator.problems import Refusal
from parley.dashboard.charts import meter
from parley.dashboard.outcomes import guardrail_boards
from parley.dashboard.session import Page, page
from parley.dashboard.standing import (
    OVER,
    is_full,
    leading,
    says_nothing,
    site_standings,
    summary,
    tolerance_words,
)
from parley.text.formatting import ranged, unit_of
from parley.text.status import ArmStatus, OutcomeStatus
from parley.text.translation import Translatable, gettext, translated

AGENTS = 25  # on one page
ROUNDS = 20  # on one page
LONGEST = 300.0  # seconds that an event stream lasts
RETRY = "retry: 1000\n\n"  # milliseconds until a browser reconnects
WIDE = 10  # up to this many arms, cells of the board have their numbers in full


@dataclass(frozen=True, kw_only=True)
class Pages:
    """One page of a list of many agents, and where the pages before and after it begin."""

    first: int
    size: int
    total: int

    @property
    def query(self) -> dict[str, int]:
        """The query parameters that select the agents of this page."""
        return {"first": self.first, "columns": self.size}

    @property
    def last(self) -> int:
        """The position of the last agent on this page, counted from 1."""
        return min(self.first + self.size, self.total)

    @property
    def before(self) -> int | None:
        """Index of the first agent of the previous page; None if this is the first page."""
        return max(self.first - self.size, 0) if self.first > 0 else None

    @property
    def after(self) -> int | None:
        """Index of the first agent of the next page; None if this is the last page."""
        return self.first + self.size if self.first + self.size < self.total else None


def agents_on_page(shown: Page, names: Sequence[str], size: int = AGENTS) -> Pages:
    """The page of agents that the query requests, by an agent's name or by an index."""
    wanted = shown.asked("agent").strip()
    place = names.index(wanted) if wanted in names else shown.place("first")
    first = min(place, max(len(names) - 1, 0)) // size * size
    return Pages(first=first, size=size, total=len(names))


@dataclass(frozen=True, kw_only=True)
class BoardCell:
    """A cell of the board: the status of an arm for an agent, and what the data say about it."""

    status: ArmStatus
    dropped_in: int  # the phase that ruled it out or set it aside; 0 if none
    share: float  # the evidence, as a share of its threshold, at most 1
    interval: str
    early: bool = False  # the interval is still too wide to mean anything
    enough: str = ""  # what a full bar means
    leads: bool = False  # the leader has no bar: the other arms are compared with it
    settled: bool = False  # open in the record, but only until every agent is settled

    @property
    def sign(self) -> str:
        """The name of the sign to print: the status, or "settled"."""
        return "settled" if self.settled else self.status.value

    @property
    def words(self) -> str:
        """The status in the reader's language, with the phase if the arm was dropped."""
        if self.settled:
            return gettext("settled")
        return translated(self.status.described(self.dropped_in))

    @property
    def bar(self) -> Markup:
        """The share of evidence, drawn as a bar."""
        return meter(self.share)


async def heading(shown: Page) -> dict[str, Any]:
    """Fetch the values that the heading of every page of a study needs."""
    status = await shown.call(studies.get_study)
    blinded = shown.who is not None and shown.who.blinded
    return {"status": status, "audience": status.settings["audience"], "mark": status.version, "blinded": blinded}


async def forecast(shown: Page, pages: Pages) -> Forecast | None:
    """Fetch the forecast of how the study will end; None for readers who may not see forecasts."""
    if not shown.may("analyst", "auditor", "administrator"):
        return None
    found: Forecast = await shown.call("get_forecast", pages.query)
    return found


def likely_left(status: StudyStatus, ahead: Forecast | None) -> dict[str, float] | None:
    """The samples likely to remain: the forecast's totals minus the samples so far; None without a forecast."""
    if ahead is None or ahead.total is None:
        return None
    return {name: max(total - status.samples, 0) for name, total in ahead.total.items()}


def until_horizon(status: StudyStatus, board: Board) -> int | None:
    """The draws left until the horizon, of all agents and not only those on the page; None without a fixed horizon."""
    horizon = board.standing.horizon if board.standing else None
    return max(horizon * status.agents - status.samples, 0) if isinstance(horizon, int) else None


async def verified(shown: Page) -> Verified | None:
    """Verify a study if the reader asked for it; None if not, or if the page's script only refreshes the page."""
    if not shown.asked("verify") or "parley-live" in shown.request.headers:
        return None
    return await shown.call(administration.verify_study)


async def overview(shown: Page) -> Response:
    """The overview, which is the first page of a study."""
    head = await heading(shown)
    status = head["status"]
    pages = agents_on_page(shown, status.agent_names)
    board = await shown.call(studies.get_board, pages.query)
    last = min(shown.place("rounds") or board.phases, board.phases)  # the newest, unless earlier ones are requested
    before = max(last - ROUNDS, 0)
    query = {"after": before, "limit": ROUNDS, "columns": 1, "explain": False}
    # Rounds are about all agents, so one agent's column suffices.
    rounds = await shown.call(studies.get_history, query)
    case = None
    if board.phases and not board.blinded:
        latest = await shown.call(studies.get_history, {"after": board.phases - 1, "limit": 1, **pages.query})
        case = latest.phases[0].explanation if latest.phases else None
    guarded = None
    if status.outcomes and board.phases and not board.blinded:
        found = await shown.call(studies.get_findings, pages.query)
        guarded = await anyio.to_thread.run_sync(found.to_json)
    ahead = await forecast(shown, pages)
    return await shown.show(
        "overview.html",
        tab="Overview",
        **head,
        board=board,
        made=lambda: _drawn(status, board, case, guarded),
        words=case.words if case else "",
        line=case.line if case else None,
        full=len(board.arms) <= WIDE,
        pages=pages,
        rounds=rounds.phases,
        earlier_rounds=before,
        later_rounds=min(last + ROUNDS, board.phases) if last < board.phases else 0,
        elsewhere=[entry.agent for entry in status.missing if entry.agent not in board.agents],
        forecast=ahead,
        left=likely_left(status, ahead),
        until_horizon=until_horizon(status, board),
    )


def _drawn(
    status: StudyStatus, board: Board, case: Explained | None, guarded: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The parts of the overview that have translated messages or are slow to draw."""
    sites = site_standings(status, board, case)
    return {
        "sites": sites,
        "said": summary(status, board, sites),
        "rows": None if board.blinded else _rows(status, board, case),
        "tolerance": tolerance_words(status),
        "guardrails": guardrail_boards(guarded) if guarded else [],
    }


def _rows(status: StudyStatus, board: Board, case: Explained | None) -> list[list[BoardCell]]:
    """The cells of the board, `[agent][arm]`, if it is not blinded; `case` is the explanation of the latest phase."""
    statuses, dropped_in = board.statuses or [], board.dropped_in or []
    largest_gap, unit = float(status.settings["largest_gap"]), unit_of("mean", rates=status.rates)
    tolerance, together = tolerance_words(status), status.together
    if tolerance:
        enough = gettext("not better by %(tolerance)s or more", tolerance=tolerance)
    elif together and status.stage in OVER:
        enough = gettext("enough evidence for this agent, but not for every agent")
    else:
        enough = gettext("enough evidence to rule it out")
    waiting = together and status.stage not in OVER

    def cell(arm: int, agent: int, leaders: Sequence[str]) -> BoardCell:
        found = ArmStatus(statuses[arm][agent])
        if case is None:
            return BoardCell(status=found, dropped_in=dropped_in[arm][agent], share=0.0, interval="")
        score = case.score[arm][agent]
        full = is_full(score, case.line)
        # Sufficient evidence may stay just below the threshold: show it as 100 %, and less evidence as at most 99 %.
        share = 1.0 if full else min(max((score or 0.0) / case.line, 0.0), 0.99)
        mean, low, high = case.mixed_means[arm][agent], case.low[arm][agent], case.high[arm][agent]
        return BoardCell(
            status=found,
            dropped_in=dropped_in[arm][agent],
            share=share,
            interval=ranged(mean, low, high, unit=unit),
            early=says_nothing(low, high, rates=status.rates, largest_gap=largest_gap),
            enough=enough if full else "",
            leads=board.arms[arm] in leaders,
            settled=waiting and found is ArmStatus.OPEN and (full or board.ends[agent] == OutcomeStatus.SETTLED),
        )

    every = [leading(board, case, agent) for agent in range(len(board.agents))]
    return [[cell(arm, agent, leaders) for arm in range(len(board.arms))] for agent, leaders in enumerate(every)]


async def events(shown: Page, *, of: Callable[[Call[None, None]], Awaitable[StreamingResponse]]) -> Response:
    """An event stream for the page's script, about one study or about all; the script reconnects after `LONGEST`.

    If the reader may not follow the events, the status is 204, after which browsers do not reconnect.
    """
    try:
        stream = await shown.call(of)
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


routes = [
    page("/studies/{study}", overview, tab=Translatable("Overview")),
    page("/studies/{study}/events", partial(events, of=studies.follow_study)),
    page("/events", partial(events, of=studies.follow_studies)),
]
