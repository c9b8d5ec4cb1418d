"""The course of a study, agent by agent: mixed means with their intervals, and the evidence against every arm."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from parley.coordinator.answers.progress import Board, History
from parley.dashboard.charts import Arm, course_chart, evidence_chart
from parley.dashboard.entrance import Page, page
from parley.dashboard.pages.study import agents_on_page, heading

__all__ = ["arms_of", "routes"]

AGENTS = 4  # on one page


def arms_of(history: History, board: Board, agent: int) -> list[Arm]:
    """One agent's arms over the decided phases, of a board that is not blinded."""
    phases = [phase.explanation for phase in history.phases if phase.explanation is not None]
    out_in, chosen = board.eliminated_in or [], board.chosen or []
    return [
        Arm(
            name=name,
            means=[phase.mixed_means[arm][agent] for phase in phases],
            radii=[phase.radius[arm][agent] for phase in phases],
            scores=[phase.score[arm][agent] for phase in phases],
            out_in=out_in[arm][agent],
            chosen=chosen[arm][agent],
        )
        for arm, name in enumerate(board.arms)
    ]


async def evidence_page(shown: Page) -> Response:
    """A panel an agent; blinded readers are told that they are."""
    head = await heading(shown)
    pages = agents_on_page(shown, head["status"].agent_names, AGENTS)
    panels: list[dict[str, Any]] = []
    words = ""
    if not head["blinded"]:
        some = {"first": pages.first or None, "columns": pages.size}
        board = await shown.api.read(Board, "studies", shown.study, "board", **some)
        history = await shown.api.read(History, "studies", shown.study, "history", limit=200, **some)
        latest = history.phases[-1].explanation if history.phases else None
        if latest is not None:
            words = latest.words
            panels = [_panel(history, board, place, latest.line) for place in range(len(board.agents))]
    return shown.show("evidence.html", tab="evidence", **head, pages=pages, panels=panels, words=words)


def _panel(history: History, board: Board, place: int, limit: float) -> dict[str, Any]:
    arms, agent = arms_of(history, board, place), board.agents[place]
    left = board.candidates[place]
    return {
        "agent": agent,
        "left": left,
        "decided": left <= board.top,
        "arms": arms,
        "course": course_chart(arms, f"Mixed means of {agent} over the phases, with intervals; numbers are below"),
        "evidence": evidence_chart(arms, limit, f"Evidence against each arm of {agent}; numbers are below"),
    }


routes: list[Route] = [page("/studies/{study}/evidence", evidence_page)]
