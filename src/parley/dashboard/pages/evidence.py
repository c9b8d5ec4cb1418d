"""The course of a study, agent by agent: mixed means with their intervals, and the evidence against every arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from parley.coordinator.answers.progress import Board, History
from parley.coordinator.answers.studies import StudyStatus
from parley.dashboard.charts import Arm, course_chart, evidence_chart
from parley.dashboard.entrance import Page, page
from parley.dashboard.pages.study import agents_on_page, heading, is_answer

__all__ = ["arms_of", "routes"]

AGENTS = 4  # on one page
PHASES = 20  # of a long study: the latest; the log has them all
LARGEST_LOOKED_AT = 20_000  # arms x agents of a study whose document is fetched for the range of its rewards


def arms_of(history: History, board: Board, agent: int, tolerance: float = 0.0) -> list[Arm]:
    """One agent's arms over the decided phases, of a board that is not blinded."""
    phases = [phase.explanation for phase in history.phases if phase.explanation is not None]
    out_in = board.eliminated_in or []

    def let_go(arm: int) -> bool:
        """Without a tolerance arms go for one reason only; of phases before those that are told, nothing is known."""
        place = out_in[arm][agent] - history.phases[0].phase
        if not tolerance or not out_in[arm][agent] or not 0 <= place < len(phases):
            return False
        score = phases[place].score[arm][agent]
        return score is not None and score < phases[place].line

    return [
        Arm(
            name=name,
            means=[phase.mixed_means[arm][agent] for phase in phases],
            radii=[phase.radius[arm][agent] for phase in phases],
            scores=[phase.score[arm][agent] for phase in phases],
            out_in=out_in[arm][agent],
            chosen=is_answer(board, arm, agent),
            let_go=let_go(arm),
            first=history.phases[0].phase,
        )
        for arm, name in enumerate(board.arms)
    ]


async def evidence_page(shown: Page) -> Response:
    """A panel an agent; blinded readers are told that they are."""
    head = await heading(shown)
    pages = agents_on_page(shown, head["status"].agent_names, AGENTS)
    panels: Callable[[], list[dict[str, Any]]] = list
    words = ""
    if not head["blinded"]:
        some = {"first": pages.first or None, "columns": pages.size}
        board = await shown.api.read(Board, "studies", shown.study, "board", **some)
        latest_ones = {"after": max(board.phases - PHASES, 0) or None, "limit": PHASES, **some}
        history = await shown.api.read(History, "studies", shown.study, "history", **latest_ones)
        latest = history.phases[-1].explanation if history.phases else None
        if latest is not None:
            words = latest.words
            within = await _range(shown, head["status"])
            asked = {"rates": head["status"].rates, "tolerance": head["status"].terms["tolerance"]}
            panels = partial(_panels, history, board, latest.line, within, **asked)
    told: dict[str, Any] = {"pages": pages, "words": words, "made": lambda: {"panels": panels()}}
    return await shown.show("evidence.html", tab="evidence", **head, **told)


async def _range(shown: Page, status: StudyStatus) -> tuple[float, float] | None:
    """Between what two numbers a reward can be, where the study says so."""
    if status.arms * status.agents > LARGEST_LOOKED_AT:
        return None
    document = await shown.api.get("studies", shown.study, "document")
    noise = document.get("problem", document).get("noise") or {}
    if noise.get("kind") == "binary":
        return 0.0, 1.0
    low, high = noise.get("low"), noise.get("high")
    return None if low is None or high is None else (float(low), float(high))


def _panels(
    history: History,
    board: Board,
    limit: float,
    within: tuple[float, float] | None,
    *,
    rates: bool = False,
    tolerance: float = 0.0,
) -> list[dict[str, Any]]:
    """A panel an agent; agents of whom everything is the same share one."""
    alike: dict[str, tuple[list[Arm], list[int]]] = {}
    for place in range(len(board.agents)):
        arms = arms_of(history, board, place, tolerance)
        alike.setdefault(repr(arms), (arms, []))[1].append(place)
    return [_panel(arms, board, places, limit, within, rates) for arms, places in alike.values()]


def _panel(
    arms: Sequence[Arm],
    board: Board,
    places: Sequence[int],
    limit: float,
    within: tuple[float, float] | None,
    rates: bool,
) -> dict[str, Any]:
    agent = ", ".join(board.agents[place] for place in places)
    left = board.candidates[places[0]]
    begun = any(score for arm in arms for score in arm.scores)  # the first phase informs, and has no bets
    course = f"Mixed means of {agent} over the phases, with intervals; numbers are below"
    case = f"Evidence against each arm of {agent}; numbers are below"
    return {
        "agent": agent,
        "left": left,
        "decided": left <= board.top,
        "arms": arms,
        "course": course_chart(arms, course, within=within, rates=rates),
        "evidence": evidence_chart(arms, limit, case) if begun else None,
    }


routes: list[Route] = [page("/studies/{study}/evidence", evidence_page)]
