"""`parley admin take` and `refuse`: a report that waits since the stated model rules out a mean of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from parley.cli.console import screen
from parley.cli.remote import connect, reason_option, remote_options
from parley.errors import InvalidInput

if TYPE_CHECKING:
    from parley.agent.client import Client

__all__ = ["commands"]


def _held(client: Client, study: str, agent: str) -> dict[str, Any]:
    """The report of an agent that waits; says what is wrong with it."""
    aside = client.request("GET", "studies", study, "quarantine", params={"held": True, "limit": 1000})["quarantine"]
    found: list[dict[str, Any]] = [entry for entry in aside if entry["report"]["agent"] == agent]
    if not found:
        waiting = sorted(entry["report"]["agent"] for entry in aside)
        allowed = f"an agent whose report is held ({', '.join(waiting) or 'none is'})"
        raise InvalidInput("AGENT", found=agent, allowed=allowed)
    report = found[0]["report"]
    counts, sums = report["counts"], report["sums"]
    screen.print(f"Held in phase {report['phase']}: {found[0]['why']}.", highlight=False, markup=False)
    screen.print(f"  draws {counts}, sums {sums}", highlight=False, markup=False)
    return found[0]


@click.command()
@click.argument("study")
@click.argument("agent")
@reason_option
@remote_options
def take(study: str, agent: str, reason: str, server: str, token_file: str | None) -> None:
    """Take the report of AGENT in STUDY that is held: somebody looked, and it is right."""
    with connect(server, token_file) as client:
        report = _held(client, study, agent)["report"]
        parts = ("studies", study, "phases", report["phase"], "reports", agent, "amend")
        made = client.request("POST", *parts, json={"reason": reason, "report": report})
    screen.print(f"Taken. {study} is {made['stage']} in phase {made['phase']}.", highlight=False)


@click.command()
@click.argument("study")
@click.argument("agent")
@reason_option
@remote_options
def refuse(study: str, agent: str, reason: str, server: str, token_file: str | None) -> None:
    """Refuse the report of AGENT in STUDY that is held: the agent is asked for another."""
    with connect(server, token_file) as client:
        entry = _held(client, study, agent)
        parts = ("studies", study, "phases", entry["report"]["phase"], "reports", agent, "refuse")
        client.request("POST", *parts, json={"reason": reason, "report": entry["digest"]})
    screen.print(f"Refused. {agent} is asked for another report.", highlight=False)


commands = (take, refuse)
