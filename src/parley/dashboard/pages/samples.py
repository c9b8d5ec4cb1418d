"""The page of samples: spent, planned, and the theoretical minimum, per agent and per arm."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from parley.coordinator.answers import Board
from parley.coordinator.http.routes import studies
from parley.dashboard.charts import bullet
from parley.dashboard.pages.study import agents_on_page, forecast, heading
from parley.dashboard.session import Page, page
from parley.experiments.report_kit.svg import calendar_chart
from parley.text.formatting import number
from parley.text.translation import Translatable, gettext

MOST_PHASES = 200  # phases of the longest study that gets a calendar


async def samples_page(shown: Page) -> Response:
    """The page of samples: each agent's total and, for readers who may see arms, its samples by arm."""
    head = await heading(shown)
    status = head["status"]
    pages = agents_on_page(shown, status.agent_names)
    board = await shown.call(studies.get_board, pages.query)
    ahead = await forecast(shown, pages)
    # If estimates are nearly tied, a bound computed from them says nothing about the truth. Omit a bound that exceeds
    # the forecast.
    unsure = bool(ahead and ahead.total and (ahead.bound or 0) > ahead.total["p90"])
    bounds = ahead.bound_draws if ahead and not unsure else None
    likely = ahead.total_per_agent if ahead else None
    reported = {entry.agent: entry.at for entry in status.reported}
    frozen = {entry.agent for entry in status.frozen}
    sites = [place for place, name in enumerate(board.agents) if name not in status.settings["asks_only"]]
    already = board.spent
    per_agent = [sum(row[place] for row in bounds) for place in range(len(board.agents))] if bounds else None
    largest = max([0, *(board.drawn[place] + board.planned[place] for place in sites), *(per_agent or [0])])
    agents: list[dict[str, Any]] = []
    for place in sites:
        name, planned, bound = board.agents[place], board.planned[place], per_agent[place] if per_agent else None
        in_already = name in reported  # reported draws of the phase in progress are spent, not planned
        ahead_of_it = planned * (not in_already)
        agents.append(
            {
                "name": name,
                "spent": already[place],
                "planned": planned,
                "bound": bound,
                "likely": likely[place] if likely else None,
                "reported": reported.get(name),
                "frozen": name in frozen,
                "ahead": ahead_of_it,
                "cells": _cells(board, bounds, place, in_already),
            }
        )
    days = await _days(shown, board) if pages.total <= pages.size else None
    values: dict[str, Any] = {"pages": pages, "board": board, "forecast": ahead, "agents": agents}
    values["unsure"] = unsure

    def made() -> dict[str, Any]:
        for agent in agents:
            agent["bar"] = _bar(agent, largest)
        if days is None:
            return {"calendar": None}
        each, decided = days
        names, delay = [board.agents[place] for place in sites], [board.delay[place] for place in sites]
        each = [[row[place] for place in sites] for row in each]
        return {"calendar": calendar_chart(names, each, delay, board.round_days, decided=decided)}

    values["made"] = made
    return await shown.show("samples.html", tab="Samples", **head, **values)


def _bar(agent: Mapping[str, Any], largest: float) -> Markup:
    numbers = {name: number(agent[name]) for name in ("spent", "ahead", "bound")}
    label = gettext(
        "%(name)s: %(spent)s spent, %(ahead)s planned, lower bound %(bound)s", name=agent["name"], **numbers
    )
    return bullet(agent["spent"], agent["ahead"], agent["bound"], largest, label)


async def _days(shown: Page, board: Board) -> tuple[list[list[float]], int] | None:
    """How many days each agent draws in each phase, `(phase, agent)`, and the number of decided phases.

    None if no rates are stated, nothing is drawn or planned, or there are too many phases. Call it only if the page has
    all agents, since the slowest agent determines how long a phase lasts.
    """
    if board.rates is None:
        return None
    some = {"limit": MOST_PHASES, "columns": board.agent_count, "explain": False}
    history = await shown.call(studies.get_history, some)
    drawn = [phase.drawn for phase in history.phases]
    if len(drawn) < board.phases or not (drawn or any(board.planned)):
        return None
    phases = [*drawn, board.planned] if any(board.planned) else drawn
    days = [[some / rate if rate else 0.0 for some, rate in zip(row, board.rates, strict=True)] for row in phases]
    return days, len(drawn)


def _cells(board: Board, bounds: list[list[float]] | None, place: int, in_already: bool) -> list[dict[str, Any]]:
    """An agent's samples by arm: spent, planned, and the lower bound; empty on a blinded board."""
    counts, plan = board.counts or [], board.plan or []
    return [
        {
            "spent": drawn[place],
            "planned": planned[place] * (not in_already),
            "bound": bounds[arm][place] if bounds else None,
        }
        for arm, (drawn, planned) in enumerate(zip(counts, plan, strict=True))
    ]


routes = [page("/studies/{study}/samples", samples_page, tab=Translatable("Samples"))]
