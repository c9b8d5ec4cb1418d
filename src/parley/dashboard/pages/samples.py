"""Samples: spent, planned, and the least that theory asks for, per agent and per arm."""

from __future__ import annotations

from collections.abc import Mapping
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
    places = range(len(board["agents"]))
    per_agent = [sum(row[place] for row in bounds) for place in places] if bounds else None
    largest = max([board["drawn"][place] + board["planned"][place] for place in places] + (per_agent or [0]))
    agents = []
    for place, name in enumerate(board["agents"]):
        planned, bound = board["planned"][place], per_agent[place] if per_agent else None
        in_already = name in reported  # what is reported in the phase in progress is spent, not planned
        spent, ahead_of_it = board["drawn"][place] + planned * in_already, planned * (not in_already)
        label = f"{name}: {number(spent)} spent, {number(ahead_of_it)} planned, lower bound {number(bound)}"
        agents.append(
            {
                "name": name,
                "spent": spent,
                "planned": planned,
                "bound": bound,
                "likely": ahead["total_per_agent"][place] if ahead and ahead.get("total") else None,
                "reported": reported.get(name),
                "frozen": name in frozen,
                "bar": bullet(spent, ahead_of_it, bound, largest, label),
                "cells": _cells(board, bounds, place, in_already) if board["plan"] else [],
            }
        )
    return shown.show("samples.html", tab="samples", **head, pages=pages, board=board, outlook=ahead, agents=agents)


def _cells(board: Mapping[str, Any], bounds: Any, place: int, in_already: bool) -> list[dict[str, Any]]:
    """One agent, arm by arm."""
    return [
        {
            "spent": board["counts"][arm][place] + board["plan"][arm][place] * in_already,
            "planned": board["plan"][arm][place] * (not in_already),
            "bound": bounds[arm][place] if bounds else None,
        }
        for arm in range(len(board["arms"]))
    ]


routes: list[Route] = [page("/studies/{study}/samples", samples_page)]
