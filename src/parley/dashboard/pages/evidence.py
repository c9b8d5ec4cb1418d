"""The timeline of a study, agent by agent: mixed means with their intervals, and the evidence against every arm."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.responses import Response

from parley.coordinator.answers import Board, History, StudyStatus
from parley.coordinator.http.routes import studies
from parley.dashboard.charts import Arm, evidence_chart, timeline_chart
from parley.dashboard.pages.study import agents_on_page, heading
from parley.dashboard.session import Page, page
from parley.dashboard.standing import named
from parley.protocol.codec import read_json
from parley.text.status import ArmStatus, OutcomeStatus
from parley.text.translation import Translatable, gettext

AGENTS = 4  # on one page
PHASES = 20  # latest phases drawn of a long study; the log has all phases
LARGEST_LOOKED_AT = 20_000  # most weights, and most pairs of arm and agent, of a study whose document a page fetches
MOST_NAMED = 6  # most names in the title of a panel that many agents share


def arms_of(history: History, board: Board, agent: int) -> list[Arm]:
    """One agent's arms over the decided phases, from a board that is not blinded."""
    phases = [phase.explanation for phase in history.phases if phase.explanation is not None]
    statuses, dropped_in = board.statuses or [], board.dropped_in or []
    return [
        Arm(
            name=name,
            means=[phase.mixed_means[arm][agent] for phase in phases],
            lows=[phase.low[arm][agent] for phase in phases],
            highs=[phase.high[arm][agent] for phase in phases],
            scores=[phase.score[arm][agent] for phase in phases],
            status=ArmStatus(statuses[arm][agent]),
            dropped_in=dropped_in[arm][agent],
            first=history.phases[0].phase,
        )
        for arm, name in enumerate(board.arms)
    ]


async def evidence_page(shown: Page) -> Response:
    """The page of evidence: a panel per agent, or per group of agents with the same question.

    Blinded readers get an explanation instead.
    """
    head = await heading(shown)
    status: StudyStatus = head["status"]
    pages = agents_on_page(shown, status.agent_names, AGENTS)
    drawn: list[Callable[[], list[dict[str, Any]]]] = []
    words = ""
    if not head["blinded"]:
        document = await _document(shown, status)
        parts = [(pages.first, pages.size, "")]  # index of the first agent, number of agents, their common name
        if groups := alike(document, status):
            pages = replace(pages, first=0, size=pages.total)
            parts = [
                (group[0], 1, named([status.agent_names[place] for place in group], MOST_NAMED)) for group in groups
            ]
        for first, columns, name in parts:
            # Agents of a group have the same question, so the results of its first agent stand for all.
            some = {"first": first, "columns": columns}
            board = await shown.call(studies.get_board, some)
            latest_ones = {"after": max(board.phases - PHASES, 0), "limit": PHASES, **some}
            history = await shown.call(studies.get_history, latest_ones)
            latest = history.phases[-1].explanation if history.phases else None
            if latest is not None:
                words = latest.words
                limits = latest.line, _range(document, rates=status.rates)
                drawn.append(partial(_panels, history, board, *limits, rates=status.rates, name=name))
    values: dict[str, Any] = {"pages": pages, "words": words}
    values["made"] = lambda: {"panels": [panel for draw in drawn for panel in draw()]}
    together = head["status"].together
    return await shown.show("evidence.html", tab="Evidence", together=together, **head, **values)


async def _document(shown: Page, status: StudyStatus) -> dict[str, Any]:
    """A study's parsed document; empty if the study is too large to fetch for a page."""
    if max(status.arms, status.agents) * status.agents > LARGEST_LOOKED_AT:
        return {}
    document = await anyio.to_thread.run_sync(read_json, await shown.call(studies.get_document))
    inner: dict[str, Any] = document.get("problem", document)
    return inner


def alike(document: Mapping[str, Any], status: StudyStatus) -> list[list[int]]:
    """Indices of agents in groups with equal weights, and so with equal questions.

    Empty if the weights are unknown or were changed, if no agents share a question, or if there are more groups than
    panels on a page.
    """
    if "weights" not in document or status.reweighed is not None:
        return []
    groups: dict[tuple[float, ...], list[int]] = {}
    for place, column in enumerate(zip(*document["weights"], strict=True)):
        if status.agent_names[place] in status.settings["draws_only"]:
            continue
        groups.setdefault(column, []).append(place)
    return list(groups.values()) if len(groups) <= AGENTS and len(groups) < status.agents else []


def _range(document: Mapping[str, Any], *, rates: bool) -> tuple[float, float] | None:
    """The range of a reward; None if the study does not state it."""
    if rates:
        return 0.0, 1.0
    noise = document.get("noise") or {}
    low, high = noise.get("low"), noise.get("high")
    return None if low is None or high is None else (float(low), float(high))


def _panels(
    history: History,
    board: Board,
    limit: float,
    within: tuple[float, float] | None,
    *,
    rates: bool = False,
    name: str = "",
) -> list[dict[str, Any]]:
    """One panel per agent, except that agents with identical results share a panel."""
    same: dict[str, tuple[list[Arm], list[int]]] = {}
    for place in range(len(board.agents)):
        if board.ends[place] == OutcomeStatus.UNASKED:
            continue
        arms = arms_of(history, board, place)
        same.setdefault(repr(arms), (arms, []))[1].append(place)
    panels = []
    for arms, (place, *others) in same.values():
        agent, left = (
            name or named([board.agents[one] for one in (place, *others)], MOST_NAMED),
            board.candidates[place],
        )
        begun = any(score for arm in arms for score in arm.scores)  # the first phase has no bets, so no evidence
        timeline = gettext("Mixed means of %(agent)s by phase, with intervals; the numbers are below", agent=agent)
        case = gettext("Evidence against each arm of %(agent)s; the numbers are below", agent=agent)
        panels.append(
            {
                "agent": agent,
                "left": left,
                "decided": left <= board.top,
                "settled": board.ends[place] == OutcomeStatus.SETTLED,
                "arms": arms,
                "timeline": timeline_chart(arms, timeline, within=within, rates=rates),
                "evidence": evidence_chart(arms, limit, case) if begun else None,
            }
        )
    return panels


routes = [page("/studies/{study}/evidence", evidence_page, tab=Translatable("Evidence"))]
