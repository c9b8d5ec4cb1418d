"""Samples: spent, planned, and the least that theory asks for, per agent and per arm."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from parley.dashboard.charts import bullet
from parley.dashboard.entrance import Page, page
from parley.dashboard.pages.study import agents_on_page, heading, outlook
from parley.dashboard.words import number

__all__ = ["routes"]


async def samples_page(shown: Page) -> Response:
    """Agents with their totals; arm by arm for those who may see arms."""
    head = await heading(shown)
    status = head["status"]
    pages = agents_on_page(shown, status["agent_names"])
    board = await shown.api.get("studies", shown.study, "board", first=pages.first or None, columns=pages.size)
    ahead = await outlook(shown, status, pages)
    bounds = ahead["bound_draws"] if ahead and ahead["state"] == "ready" else None
    reported = {entry["agent"]: entry["at"] for entry in status["reported"]}
    frozen = {entry["agent"] for entry in status["frozen"]}
    per_agent = [sum(row[place] for row in bounds) for place in range(len(board["agents"]))] if bounds else None
    largest = max(
        [drawn + planned for drawn, planned in zip(board["drawn"], board["planned"], strict=True)] + (per_agent or [0])
    )
    agents: list[dict[str, Any]] = []
    for place, name in enumerate(board["agents"]):
        drawn, planned = board["drawn"][place], board["planned"][place]
        bound = per_agent[place] if per_agent else None
        label = f"{name}: {number(drawn)} spent, {number(planned)} planned, lower bound {number(bound)}"
        agents.append(
            {
                "name": name,
                "drawn": drawn,
                "planned": planned,
                "bound": bound,
                "likely": ahead["total_per_agent"][place] if ahead and ahead.get("total") else None,
                "reported": reported.get(name),
                "frozen": name in frozen,
                "bar": bullet(drawn, planned, bound, largest, label),
            }
        )
    return shown.show(
        "samples.html", tab="samples", **head, pages=pages, board=board, outlook=ahead, agents=agents, bounds=bounds
    )


routes: list[Route] = [page("/studies/{study}/samples", samples_page)]
