"""`parley admin answer`: what a live study has found so far, or for good, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from parley.cli.console import json_option, print_json, screen, table
from parley.cli.remote import connect, remote_options
from parley.ends import End, overall
from parley.errors import InvalidInput
from parley.findings import findings_csv, state_of, told
from parley.words import number, plural

if TYPE_CHECKING:
    from parley.agent.client import Client

__all__ = ["answer"]

MOST_LINES = 60  # of the table of estimates on a screen; --csv and --json have all


@click.command()
@click.argument("study")
@click.option("--csv", "as_csv", is_flag=True, help="Print every estimate with its intervals as CSV and nothing else.")
@click.option("--phase", type=click.IntRange(min=1), help="As it was after this phase; default: the latest.")
@remote_options
@json_option
def answer(study: str, as_csv: bool, phase: int | None, server: str, token_file: str | None, as_json: bool) -> None:
    """What STUDY has found: every agent's arms, or the candidates that remain, how it ended, and every estimate."""
    if as_csv and as_json:
        raise InvalidInput("--csv", found="--csv and --json", allowed="one of them")
    with connect(server, token_file) as client:
        if client.request("GET", "whoami")["blinded"]:
            raise InvalidInput("token", found="one that is blinded", allowed="an analyst's or an administrator's")
        found = _whole(client, study, phase)
    if as_csv:
        click.echo(findings_csv(found), nl=False)
        return
    document = answer_of(found)
    if as_json:
        print_json(document)
        return
    _show(document, found)


def _whole(client: Client, study: str, phase: int | None) -> dict[str, Any]:
    """The findings of every agent, asked for in parts where a study is large."""
    found: dict[str, Any] = {"agents": [], "agent_count": 1}
    while len(found["agents"]) < found["agent_count"]:
        asked = {"first": len(found["agents"])} | ({} if phase is None else {"phase": phase})
        part = client.request("GET", "studies", study, "findings", params=asked)
        found = part | {"agents": [*found["agents"], *part["agents"]]}
    return found


def answer_of(found: dict[str, Any]) -> dict[str, Any]:
    """Agent by agent: the end, the arms that are answers or remain, the leader, and its estimates."""
    agents = []
    for entry in found["agents"]:
        left = [arm for arm in entry["arms"] if arm["candidate"] or arm["chosen"]]
        end = End(entry["end"])
        leads = next((arm["mean"] for arm in entry["arms"] if arm["arm"] == entry["leader"]), None)
        agents.append(
            {
                "agent": entry["agent"],
                "end": end.value,
                "answered": end.answered,
                "arms": [arm["arm"] for arm in left if arm["chosen"] or not end.answered],
                "leader": entry["leader"],
                "mixed_mean": leads and leads["estimate"],
                "estimates": {"leader": entry["leader"], "arms": entry["arms"]},
            }
        )
    keys = ("study", "stage", "phase", "phases", "level", "control", "words")
    study_end = overall(entry["end"] for entry in agents).value
    return {key: found[key] for key in keys} | {"end": study_end, "agents": agents}


def _show(document: dict[str, Any], found: dict[str, Any]) -> None:
    rates = found["rates"]
    title = f"{document['study']}: {document['end']} after {plural(document['phase'], 'phase')}"
    shown = table(title, "agent", "end", "answer", "leader", "its mixed mean")
    for entry, told_of in zip(document["agents"], found["agents"], strict=True):
        what = ", ".join(entry["arms"]) if entry["answered"] else "candidates: " + ", ".join(entry["arms"])
        mean = next((arm["mean"] for arm in told_of["arms"] if arm["arm"] == entry["leader"]), None)
        end = End(entry["end"]).words
        shown.add_row(
            entry["agent"], end, what if told_of["arms"] else "", entry["leader"] or "", told(mean, rates=rates)
        )
    screen.print(shown)
    if not End(document["end"]).answered:
        screen.print("Candidates are no answers: each agent's true best is among them, as far as delta goes.")
    if document["phase"]:
        _show_estimates(found, rates=rates)


def _show_estimates(found: dict[str, Any], *, rates: bool) -> None:
    control = ("to " + found["control"],) if found["control"] else ()
    shown = table("Estimates", "agent", "arm", "state", "mixed mean", "to the leader", *control)
    lines = [(agent["agent"], arm) for agent in found["agents"] for arm in agent["arms"]]
    for name, arm in lines[:MOST_LINES]:
        kinds = ("mean", "to_leader", "to_control")[: 2 + len(control)]
        shown.add_row(name, arm["arm"], state_of(arm), *(told(arm[kind], rates=rates) for kind in kinds))
    screen.print(shown)
    if len(lines) > MOST_LINES:
        screen.print(f"And {number(len(lines) - MOST_LINES)} more: --csv and --json have all.", highlight=False)
    words = f"The intervals hold together, at every phase, with probability at least {found['level']:.4g}"
    screen.print(f"{words}; --csv has the usual ones too.", highlight=False)
