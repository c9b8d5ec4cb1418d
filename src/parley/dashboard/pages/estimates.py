"""What a study has found so far, in numbers: at every phase, with a forest plot an agent, and as a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import Route

from parley.dashboard.entrance import Page, page
from parley.dashboard.forest import forest_chart
from parley.formatting import arm_state, estimate_text, findings_csv, ranged
from parley.status import OutcomeStatus

__all__ = ["attached", "found_so_far", "routes", "with_panels"]

AT_ONCE = 500  # agents asked for at once, for the file


async def found_so_far(shown: Page, first: int, columns: int) -> dict[str, Any] | None:
    """The findings of some agents; None before the first phase is decided. The page has `panels` of them."""
    some = {"first": first or None, "columns": columns}
    found: dict[str, Any] = await shown.api.get("studies", shown.study, "findings", **some)
    return found if found["phase"] else None


def with_panels(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """With a panel an agent; of many agents that takes its time."""
    return None if found is None else {**found, "panels": [_panel(agent, found) for agent in found["agents"]]}


def _panel(agent: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    rates, control = found["rates"], found["control"]
    kinds = {"to_leader": agent["leader"]} | ({"to_control": control} if control else {"mean": None})
    return {
        "agent": agent["agent"],
        "leader": agent["leader"],
        "end": OutcomeStatus(agent["end"]).description,
        "pictures": [_picture(agent, kind, to, rates=rates) for kind, to in kinds.items()],
        "arms": [
            {"arm": arm["arm"], "state": arm_state(arm), "draws": arm["draws"]}
            | {kind: _cell(arm[kind], rates=rates) for kind in ("mean", "to_leader", "to_control")}
            for arm in agent["arms"]
        ],
    }


def _picture(agent: Mapping[str, Any], kind: str, to: str | None, *, rates: bool) -> Markup:
    what = "Mixed means" if to is None else f"Differences to {to}"
    label = f"{what} of {agent['agent']}, with the intervals that hold together; numbers are below"
    return forest_chart(agent["arms"], kind, label, to=to, rates=rates)


def _cell(found: Mapping[str, float | None] | None, *, rates: bool) -> dict[str, str]:
    """The interval to report, and the usual one."""
    usual = found or {}
    shown = ranged(usual.get("estimate"), usual.get("fixed_low"), usual.get("fixed_high"), rates=rates)
    return {"joint": estimate_text(found, rates=rates), "usual": shown.partition("(")[2].rstrip(")")}


def attached(shown: Page, content: bytes, kind: str, name: str) -> Response:
    """A file to take away, named after its study."""
    told_as = f'attachment; filename="{shown.study}-{name}"'
    return Response(content, media_type=kind, headers={"Content-Disposition": told_as})


async def estimates_table(shown: Page) -> Response:
    """Every agent's estimates as CSV, in full precision."""
    whole: dict[str, Any] = {"agents": [], "agent_count": 1}
    while len(whole["agents"]) < whole["agent_count"]:
        some = {"first": len(whole["agents"]) or None, "columns": AT_ONCE}
        part = await shown.api.get("studies", shown.study, "findings", **some)
        whole = part | {"agents": [*whole["agents"], *part["agents"]]}
    content = await shown.draw(lambda: findings_csv(whole).encode())
    return attached(shown, content, "text/csv; charset=utf-8", "estimates.csv")


routes: list[Route] = [page("/studies/{study}/estimates.csv", estimates_table)]
