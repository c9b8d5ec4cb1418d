"""`parley admin`: what an administrator does.

`init`, `backup` and `restore` work on the database itself. Everything else goes through the API and into its log.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parley.cli.admin_changes import CHANGES
from parley.cli.console import json_option, print_json, progress_bar, screen, table
from parley.cli.remote import connect, hand_over, paced, remote_options, write_secret
from parley.errors import InvalidInput, needs
from parley.formatting import arm_state, estimate_text, findings_csv, number, plural
from parley.status import OutcomeStatus, overall
from parley.study import load_study

if TYPE_CHECKING:
    from parley.agent.client import Client

__all__ = ["admin_command"]


@click.group()
def admin_command() -> None:
    """Prepare a coordinator's database, and run its studies.

    Commands that talk to the coordinator take its address from --server or PARLEY_SERVER and the administrator's token
    from --token-file or PARLEY_TOKEN.
    """


for change in CHANGES:
    admin_command.add_command(change)


@admin_command.command("create-study")
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


@admin_command.command("issue-token")
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


@admin_command.command()
@click.argument("kid")
@remote_options
def revoke(kid: str, server: str, token_file: str | None) -> None:
    """Revoke the token with this KID (the part after parley_), at once and for good."""
    with connect(server, token_file) as client:
        done = client.request("DELETE", "tokens", kid)
    screen.print(f"Revoked: {done['principal']}, kid {done['kid']}", highlight=False)


@admin_command.command()
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


@admin_command.command()
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
        screen.print(f"  ended as {OutcomeStatus(found['end']).description}", highlight=False, markup=False)


database_option = click.option(
    "--db", default="parley.db", show_default=True, envvar="PARLEY_DB", help="A file, or postgresql://..."
)


@admin_command.command()
@database_option
@click.option("--name", default="root", show_default=True, help="Name of the administrator that gets the token.")
@click.option("--token-file", type=click.Path(dir_okay=False), help="Write the token here instead of to the screen.")
@click.option("--new-token", is_flag=True, help="Issue another token though there are some: when the first was lost.")
def init(db: str, name: str, token_file: str | None, new_token: bool) -> None:
    """Create or upgrade the database, and issue the first administrator's token. Stop servers on it first."""
    with needs("server", "parley admin init"):
        from parley.coordinator.access.tokens import prepare
    before, after, token = prepare(db, name=name, new_token=new_token)
    change = "is at" if before == after else f"went from {before or 'nothing'} to"
    screen.print(f"The database {change} revision {after}.", highlight=False)
    if token is None:
        screen.print("It has tokens already; --new-token issues another.")
    else:
        hand_over(token, token_file)


@admin_command.command()
@click.argument("output", type=click.Path(dir_okay=False))
@database_option
def backup(output: str, db: str) -> None:
    """Copy the whole database, as of one moment, into the SQLite file OUTPUT. The server may go on meanwhile.

    From SQLite or from PostgreSQL alike: OUTPUT can be verified, served, or restored into either.
    """
    with needs("server", "parley admin backup"):
        from parley.coordinator.record.backup import backup as copy
    rows = copy(db, Path(output))
    screen.print(f"{rows:,} rows in {output}. Check it: parley verify STUDY --db {output}", highlight=False)


@admin_command.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False))
@database_option
def restore(source: str, db: str) -> None:
    """Copy the backup SOURCE into an empty database. Agents notice when it is older than what they reported.

    Nobody notices a token that was revoked after the backup and opens again: the live ones are listed.
    """
    with needs("server", "parley admin restore"):
        from parley.coordinator.record.backup import restore as copy
    made = copy(Path(source), db)
    screen.print(f"{made.rows:,} rows restored. Check them: parley verify STUDY --db ...", highlight=False)
    screen.print("These tokens open again. Revoke those that were revoked since the backup (parley admin revoke KID):")
    for row in made.live:
        screen.print(f"  {row.kid}  {row.principal}", highlight=False, markup=False, soft_wrap=True)


MOST_LINES = 60  # of the table of estimates on a screen; --csv and --json have all


@admin_command.command()
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
    _show_answer(document, found)


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
        end = OutcomeStatus(entry["end"])
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


def _show_answer(document: dict[str, Any], found: dict[str, Any]) -> None:
    rates = found["rates"]
    title = f"{document['study']}: {document['end']} after {plural(document['phase'], 'phase')}"
    shown = table(title, "agent", "end", "answer", "leader", "its mixed mean")
    for entry, told_of in zip(document["agents"], found["agents"], strict=True):
        what = ", ".join(entry["arms"]) if entry["answered"] else "candidates: " + ", ".join(entry["arms"])
        mean = next((arm["mean"] for arm in told_of["arms"] if arm["arm"] == entry["leader"]), None)
        end = OutcomeStatus(entry["end"]).description
        shown.add_row(
            entry["agent"],
            end,
            what if told_of["arms"] else "",
            entry["leader"] or "",
            estimate_text(mean, rates=rates),
        )
    screen.print(shown)
    if not OutcomeStatus(document["end"]).answered:
        screen.print("Candidates are no answers: each agent's true best is among them, as far as delta goes.")
    if document["phase"]:
        _show_estimates(found, rates=rates)


def _show_estimates(found: dict[str, Any], *, rates: bool) -> None:
    control = ("to " + found["control"],) if found["control"] else ()
    shown = table("Estimates", "agent", "arm", "state", "mixed mean", "to the leader", *control)
    lines = [(agent["agent"], arm) for agent in found["agents"] for arm in agent["arms"]]
    for name, arm in lines[:MOST_LINES]:
        kinds = ("mean", "to_leader", "to_control")[: 2 + len(control)]
        shown.add_row(name, arm["arm"], arm_state(arm), *(estimate_text(arm[kind], rates=rates) for kind in kinds))
    screen.print(shown)
    if len(lines) > MOST_LINES:
        screen.print(f"And {number(len(lines) - MOST_LINES)} more: --csv and --json have all.", highlight=False)
    words = f"The intervals hold together, at every phase, with probability at least {found['level']:.4g}"
    screen.print(f"{words}; --csv has the usual ones too.", highlight=False)
