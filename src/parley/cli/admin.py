"""`parley admin`: everything an administrator does.

`init`, `backup` and `restore` work on the database itself, everything else goes through the API and into its log.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parley.cli import database, held, lost_sites
from parley.cli.answer import answer
from parley.cli.console import json_option, print_json, progress_bar, screen, table
from parley.cli.remote import connect, paced, reason_option, remote_options, yes_option
from parley.cli.secrets import hand_over, write_secret
from parley.ends import End
from parley.errors import InvalidInput
from parley.study import load_study

if TYPE_CHECKING:
    from parley.agent.client import Client

__all__ = ["command"]


@click.group()
def command() -> None:
    """Prepare a coordinator's database, and run its studies.

    Commands that talk to the coordinator take its address from --server or PARLEY_SERVER and the administrator's token
    from --token-file or PARLEY_TOKEN.
    """


for part in (*database.commands, *lost_sites.commands, answer, *held.commands):
    command.add_command(part)


@command.command("create-study")
@click.argument("study", type=click.Path(dir_okay=False), metavar="STUDY")
@click.option("--id", "study_id", help="Address of the study; default: made from its name.")
@click.option(
    "--tokens", type=click.Path(file_okay=False), help="Issue every agent a token, each in a file of this folder."
)
@remote_options
@json_option
def create_study(
    study: str, study_id: str | None, tokens: str | None, server: str, token_file: str | None, as_json: bool
) -> None:
    """Create the study of the file STUDY and open its first phase. Its [truth], if any, is not sent."""
    from parley.protocol import StudyMessage

    message = StudyMessage.of(load_study(study))
    with connect(server, token_file) as client:
        made = client.request("POST", "studies", json={"id": study_id, "study": message.to_json()}, timeout=300)
        files: dict[str, str] = {}
        if tokens is not None:
            Path(tokens).mkdir(parents=True, exist_ok=True)
            with progress_bar("issuing tokens", len(message.agents), hidden=as_json) as advance:
                for place, agent in enumerate(message.agents, start=1):
                    files[agent] = str(Path(tokens) / f"{made['id']}-agent-{place}.token")
                    write_secret(files[agent], _agent_token(client, made["id"], agent))
                    advance(1)
    if as_json:
        print_json({**made, "token_files": files})
        return
    screen.print(f"Study {made['id']}: phase 1 waits for {made['awaited']} agents.", highlight=False)
    for agent, file in files.items():
        screen.print(f"  {agent}: {file}", highlight=False, soft_wrap=True)
    if not files:
        screen.print(f"Next: parley admin issue-token --role agent --study {made['id']} --agent NAME", highlight=False)


def _agent_token(client: Client, study: str, agent: str) -> str:
    """A new token for an agent; a study may have more agents than the coordinator lets one token ask for at once."""
    body = {"role": "agent", "study": study, "agent": agent}
    return str(paced(lambda: client.request("POST", "tokens", json=body))["token"])


@command.command("issue-token")
@click.option("--role", required=True, type=click.Choice(["agent", "viewer", "analyst", "auditor", "administrator"]))
@click.option("--name", default="", help="Who it is for (not for agents).")
@click.option("--study", help="Only this study (needed for an agent).")
@click.option("--agent", help="The agent it is for.")
@click.option("--output", type=click.Path(dir_okay=False), help="Write the token here instead of to the screen.")
@remote_options
def issue_token(
    role: str, name: str, study: str | None, agent: str | None, output: str | None, server: str, token_file: str | None
) -> None:
    """Issue a token. Every principal may have two live ones: the old and the new, while you rotate."""
    body = {"role": role, "name": name, "study": study, "agent": agent}
    with connect(server, token_file) as client:
        made = client.request("POST", "tokens", json=body)
    screen.print(f"{made['principal']}, kid {made['kid']}", highlight=False)
    hand_over(made["token"], output)


@command.command()
@click.argument("kid")
@remote_options
def revoke(kid: str, server: str, token_file: str | None) -> None:
    """Revoke the token with this KID (the part after parley_), at once and for good."""
    with connect(server, token_file) as client:
        done = client.request("DELETE", "tokens", kid)
    screen.print(f"Revoked: {done['principal']}, kid {done['kid']}", highlight=False)


@command.command()
@remote_options
@json_option
def tokens(server: str, token_file: str | None, as_json: bool) -> None:
    """List every token, without its secret."""
    with connect(server, token_file) as client:
        found = client.request("GET", "tokens")
    if as_json:
        print_json(found)
        return
    shown = table("Tokens", "kid", "principal", "issued", "revoked")
    for entry in found["tokens"]:
        shown.add_row(entry["kid"], entry["principal"], entry["created_at"], entry["revoked_at"] or "")
    screen.print(shown)


@command.command()
@click.argument("study", required=False)
@remote_options
@json_option
def status(study: str | None, server: str, token_file: str | None, as_json: bool) -> None:
    """Where STUDY is and whom it waits for; without STUDY, every study."""
    with connect(server, token_file) as client:
        found = client.request("GET", "studies", *([study] if study else []))
    if as_json:
        print_json(found)
    elif study is None:
        shown = table("Studies", "id", "stage", "phase", "awaited", "samples", "since")
        for entry in found["studies"]:
            numbers = (str(entry["phase"]), str(entry["awaited"]), f"{entry['samples']:,}")
            shown.add_row(entry["id"], entry["stage"], *numbers, entry["opened_at"])
        screen.print(shown)
    else:
        _show_study(found)


def _show_study(found: dict[str, Any]) -> None:
    screen.print(
        f"{found['id']} ({found['name']}): {found['stage']}, phase {found['phase']} since {found['opened_at']}, "
        f"{found['samples']:,} samples. {found['reason']}",
        highlight=False,
        markup=False,
    )
    for entry in found["missing"]:
        screen.print(f"  waits for {entry['agent']} since {entry['since']}", highlight=False, markup=False)
        if entry["held"]:
            screen.print(f"    its report is held: {entry['held']} (take, refuse)", highlight=False, markup=False)
    for entry in found["frozen"]:
        screen.print(f"  frozen: {entry['agent']} in phase {entry['phase']}: {entry['reason']}", markup=False)
    anew = found["reweighed"]
    if anew is not None:
        left = f", {', '.join(anew['left'])} left" if anew["left"] else ""
        screen.print(f"  re-weighed in phase {anew['phase']}{left}: {anew['reason']}", markup=False)
    if found["end"] != "open":
        screen.print(f"  ended as {End(found['end']).words}", highlight=False, markup=False)


@command.command("cut-phase")
@click.argument("study")
@reason_option
@yes_option
@remote_options
def cut_phase(study: str, reason: str, yes: bool, server: str, token_file: str | None) -> None:
    """Close the phase of STUDY with the reports that are in. What that does is shown first."""
    with connect(server, token_file) as client:
        parts = ("studies", study, "phases", client.status(study)["phase"], "cut")
        shown = client.request("GET", *parts)
        screen.print(f"Not waited for: {', '.join(shown['awaited'])}.", highlight=False, markup=False)
        screen.print(f"Effect: {shown['effect']}.", highlight=False, markup=False)
        screen.print(f"Guarantee: {shown['guarantee']}.", highlight=False, markup=False)
        if not yes:
            click.confirm(f"Close phase {shown['phase']} with what is in?", abort=True)
        made = client.request("POST", *parts, json={"reason": reason, "consequences": shown["digest"]})
    screen.print(f"Closed. {study} is {made['stage']} in phase {made['phase']}.", highlight=False)


@command.command()
@click.argument("study")
@click.argument("agent")
@click.argument("report", type=click.Path(exists=True, dir_okay=False), metavar="REPORT.json")
@reason_option
@remote_options
def amend(study: str, agent: str, report: str, reason: str, server: str, token_file: str | None) -> None:
    """Put REPORT.json in the place of AGENT's accepted report, while the phase is in progress. Both are kept."""
    from parley.protocol import Report

    message = Report.read(Path(report).read_text(encoding="utf-8"))
    if (message.study, message.agent) != (study, agent):
        raise InvalidInput("report", found=f"{message.agent} of {message.study}", allowed=f"{agent} of {study}")
    parts = ("studies", study, "phases", message.phase, "reports", agent, "amend")
    with connect(server, token_file) as client:
        made = client.request("POST", *parts, json={"reason": reason, "report": message.to_json()})
    screen.print(f"Amended. {study} is {made['stage']} in phase {made['phase']}.", highlight=False)


def _moving(name: str, words: str) -> None:
    """pause, resume and cancel differ in a word."""

    @command.command(name, help=words)
    @click.argument("study")
    @reason_option
    @remote_options
    def move(study: str, reason: str, server: str, token_file: str | None) -> None:
        with connect(server, token_file) as client:
            made = client.request("POST", "studies", study, name, json={"reason": reason})
        screen.print(f"{study} is {made['stage']}.", highlight=False)


_moving("pause", "Take no report of STUDY until it is resumed.")
_moving("resume", "Go on with STUDY where it was.")
_moving("cancel", "Stop STUDY for good, with a certificate of the candidates that remain.")
