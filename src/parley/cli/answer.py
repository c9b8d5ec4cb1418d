"""`parley admin answer`: the answer of a live study so far, or for good, on the command line."""

from __future__ import annotations

from typing import Any

import click

from parley.cli.console import json_option, print_json, screen, table
from parley.cli.remote import connect, remote_options
from parley.ends import End, overall
from parley.errors import InvalidInput
from parley.protocol.stages import Stage

__all__ = ["answer"]

WORDS = {
    End.DECIDED: "decided",
    End.ACCEPTED: "accepted: within the tolerance of the best",
    End.EXHAUSTED: "exhausted: the budget came first",
    End.BLOCKED: "blocked: what is missing can come from nobody any more",
    End.CANCELLED: "cancelled",
    End.OPEN: "open",
}


@click.command()
@click.argument("study")
@remote_options
@json_option
def answer(study: str, server: str, token_file: str | None, as_json: bool) -> None:
    """What STUDY found: every agent's arms, or the candidates that remain, its leader, and how it ended."""
    with connect(server, token_file) as client:
        board = client.request("GET", "studies", study, "board")
        if board["blinded"]:
            raise InvalidInput("token", found="one that is blinded", allowed="an analyst's or an administrator's")
        last = {"after": max(board["phases"] - 1, 0), "limit": 1}
        past = client.request("GET", "studies", study, "history", params=last)
        over = Stage(board["stage"]) in (Stage.FINISHED, Stage.CANCELLED)
        certificate = client.request("GET", "studies", study, "certificate") if over else None
    document = told(board, past, certificate)
    if as_json:
        print_json(document)
        return
    title = f"{study}: {document['end']} after {board['phases']} phases"
    shown = table(title, "agent", "end", "answer", "leader", "mean")
    for entry in document["agents"]:
        what = ", ".join(entry["arms"]) if entry["answered"] else "candidates: " + ", ".join(entry["arms"])
        leads, mean = entry["leader"] or "-", entry["mixed_mean"]
        number = "-" if mean is None else f"{mean:.4g} ± {entry['radius']:.2g}"
        number = _between(entry["estimates"], leads) or number
        shown.add_row(entry["agent"], WORDS[End(entry["end"])], what, leads, number)
    screen.print(shown)
    if not End(document["end"]).answered:
        screen.print("Candidates are no answers: each agent's true best is among them, as far as delta goes.")


def _between(estimates: dict[str, Any] | None, leader: str) -> str | None:
    """The leader's mean with the interval that holds jointly, where there is one."""
    cells = [arm["mean"] for arm in estimates["arms"] if arm["arm"] == leader] if estimates else []
    if not cells or None in cells[0].values():
        return None
    return "{estimate:.4g} (from {low:.3g} to {high:.3g})".format_map(cells[0])


def told(board: dict[str, Any], past: dict[str, Any], certificate: dict[str, Any] | None = None) -> dict[str, Any]:
    """The board and the last phase's means, agent by agent; with a certificate also its estimates."""
    known_by = (certificate or {}).get("evidence", {}).get("estimates", {}).get("agents")
    case = past["phases"][-1]["explanation"] if past["phases"] else None
    agents = []
    for place, (agent, end) in enumerate(zip(board["agents"], board["ends"], strict=True)):
        left = [k for k, row in enumerate(board["active"]) if row[place]]
        means = {k: case["mixed_means"][k][place] for k in left} if case else {}
        known = {k: mean for k, mean in means.items() if mean is not None}
        leader = max(known, key=known.__getitem__) if known else None
        agents.append(
            {
                "agent": agent,
                "end": end,
                "answered": End(end).answered,
                "arms": [board["arms"][k] for k in left],
                "leader": None if leader is None else board["arms"][leader],
                "mixed_mean": None if leader is None else known[leader],
                "radius": None if leader is None or case is None else case["radius"][leader][place],
                "estimates": known_by[place] if known_by else None,
            }
        )
    end = overall(entry["end"] for entry in agents).value
    return {key: board[key] for key in ("study", "stage", "phases")} | {"end": end, "agents": agents}
