"""`parley admin`: commands for administrators.

`init`, `backup` and `restore` work on the database itself. All other commands use the coordinator's API, and every
change that they make is in the log.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parley.cli.admin_changes import CHANGES
from parley.cli.console import (
    EdgeGroup,
    hand_over,
    json_option,
    paced,
    print_json,
    progress_bar,
    say,
    show_table,
    warn,
    with_client,
    write_secret,
)
from parley.errors import InvalidInput, needs
from parley.hooks import edges
from parley.study import load_study
from parley.text.formatting import (
    answer_text,
    candidates_text,
    estimate_text,
    findings_csv,
    number,
    plural,
    status_text,
    unit_of,
)
from parley.text.status import ArmStatus, OutcomeStatus, overall

if TYPE_CHECKING:
    from parley.agent.client import Client
    from parley.problem import Problem

MOST_LINES = 60  # of estimates on a screen; --csv and --json have all


@click.group(cls=EdgeGroup)
def admin_command() -> None:
    """Prepare a coordinator's database, and run its studies.

    Commands that talk to the coordinator take its address from --server or PARLEY_SERVER and the administrator's token
    from --token-file, PARLEY_TOKEN_FILE or PARLEY_TOKEN.
    """


for change in CHANGES:
    admin_command.add_command(change)


@admin_command.command("create-study")
@click.argument("study", type=click.Path(dir_okay=False), metavar="STUDY")
@click.option("--id", "study_id", help="Address of the study; default: made from its name.")
@click.option(
    "--tokens",
    type=click.Path(file_okay=False),
    help="Issue a token for every agent, each in a file in this folder; the strata of a site share one token.",
)
@with_client
@json_option
def create_study(client: Client, study: str, study_id: str | None, tokens: str | None, as_json: bool) -> None:
    """Create a study from the file STUDY and open its first phase. A [truth] in the file is not sent."""
    from parley.experiments.forecasts.forecast import launch_warning
    from parley.protocol import StudyMessage
    from parley.protocol.messages import require_live_size

    loaded = load_study(study)
    require_live_size(len(loaded.problem.arms), len(loaded.problem.agents))
    message = StudyMessage.of(loaded)
    if warning := launch_warning(loaded.policy, loaded.options, loaded.problem):
        warn(warning)
    made = client.request("POST", "studies", json={"id": study_id, "study": message.to_json()}, timeout=300)
    files: dict[str, str] = {}
    if tokens is not None:
        Path(tokens).mkdir(parents=True, exist_ok=True)
        with progress_bar("issuing tokens", len(message.problem.sites), hidden=as_json) as advance:
            for place, agents in enumerate(_sites(message.problem), start=1):
                file = str(Path(tokens) / f"{made['id']}-{'agent' if len(agents) == 1 else 'site'}-{place}.token")
                issued = []
                for agent in agents:
                    body = {"role": "agent", "study": made["id"], "agent": agent}
                    # The coordinator limits how fast one token may send requests, and there may be many agents.
                    issued.append(paced(partial(client.request, "POST", "tokens", json=body))["token"])
                    files[agent] = file
                    advance(1)
                named = (f"{token} {agent}" for token, agent in zip(issued, agents, strict=True))
                write_secret(file, issued[0] if len(issued) == 1 else "\n".join(named))
    if as_json:
        print_json({**made, "token_files": files, "warning": warning})
        return
    say(f"Study {made['id']}: phase 1 waits for {plural(made['awaited'], 'agent')}.")
    for agent, file in files.items():
        say(f"  {agent}: {file}")
    if not files:
        say(f"Next: parley admin issue-token --role agent --study {made['id']} --agent NAME")


def _sites(problem: Problem) -> list[list[str]]:
    """The names of the agents, grouped by site: a site has one agent per stratum, or a single agent."""
    found: dict[str, list[str]] = {}
    for agent in problem.sites:
        place = problem.site_of[problem.agents.index(agent)] if problem.site_of else agent
        found.setdefault(place, []).append(agent)
    return list(found.values())


@admin_command.command("issue-token")
@click.option("--role", required=True, type=click.Choice(["agent", "viewer", "analyst", "auditor", "administrator"]))
@click.option("--name", default="", help="Who the token is for (not for agents).")
@click.option("--study", help="Restrict the token to this study (required for an agent).")
@click.option("--agent", help="The agent the token is for.")
@click.option(
    "--output", type=click.Path(dir_okay=False), help="Write the token to this file instead of to the screen."
)
@with_client
def issue_token(client: Client, role: str, name: str, study: str | None, agent: str | None, output: str | None) -> None:
    """Issue a token. A principal may have two valid tokens at once, so that a new one can replace an old one."""
    body = {"role": role, "name": name, "study": study, "agent": agent}
    made = client.request("POST", "tokens", json=body)
    say(f"{made['principal']}, kid {made['kid']}")
    hand_over(made["token"], output)


@admin_command.command()
@click.argument("kid")
@with_client
def revoke(client: Client, kid: str) -> None:
    """Revoke the token with this KID (the part after parley_), at once and for good."""
    done = client.request("DELETE", "tokens", kid)
    say(f"Revoked: {done['principal']}, kid {done['kid']}")


@admin_command.command()
@with_client
@json_option
def tokens(client: Client, as_json: bool) -> None:
    """List all tokens, without their secrets."""
    found = client.request("GET", "tokens")
    if as_json:
        print_json(found)
        return
    rows = [(one["kid"], one["principal"], one["created_at"], one["revoked_at"] or "") for one in found["tokens"]]
    show_table("Tokens", ("kid", "principal", "issued", "revoked"), rows)


@admin_command.command()
@click.argument("study", required=False)
@with_client
@json_option
def status(client: Client, study: str | None, as_json: bool) -> None:
    """Show the stage of STUDY and which agents it waits for; without STUDY, list every study."""
    found = client.request("GET", "studies", *([study] if study else []))
    if as_json:
        print_json(found)
    elif study is None:
        rows = [
            (one["id"], one["stage"], str(one["phase"]), str(one["awaited"]), f"{one['samples']:,}", one["opened_at"])
            for one in found["studies"]
        ]
        show_table("Studies", ("id", "stage", "phase", "awaited", "samples", "since"), rows)
    else:
        _show_study(found)


def _show_study(found: dict[str, Any]) -> None:
    say(
        f"{found['id']} ({found['name']}): {found['stage']}, phase {found['phase']} since {found['opened_at']}, "
        f"{plural(found['samples'], 'sample')}. {found['reason']}".rstrip()
    )
    for entry in found["missing"]:
        say(f"  waits for {entry['agent']} since {entry['since']}")
        if entry["held"]:
            say(f"    its report is held: {entry['held']} (take, refuse)")
        if entry["objection"]:
            say(f"    it answers: {entry['objection']}")
    for entry in found["frozen"]:
        say(f"  frozen: {entry['agent']} in phase {entry['phase']}: {entry['reason']}")
    if (anew := found["reweighed"]) is not None:
        left = f", {', '.join(anew['left'])} left" if anew["left"] else ""
        say(f"  re-weighed in phase {anew['phase']}{left}: {anew['reason']}")
    for entry in found["changed_arms"]:
        what = "opened" if entry["open"] else "withdrawn"
        say(f"  {what}: {entry['arm']} in phase {entry['phase']}: {entry['reason']}")
    if found["closed_arms"]:
        hint = " (open-arm)" if found["end"] == "open" else ""  # in a study that is over, no arm can be opened
        say(f"  not drawn: {', '.join(found['closed_arms'])}{hint}")
    if found["end"] != "open":
        say(f"  ended as {OutcomeStatus(found['end']).description}")


database_option = click.option(
    "--db",
    default="parley.db",
    show_default=True,
    envvar="PARLEY_DB",
    help="Database: an SQLite file, or postgresql://...",
)


@admin_command.command()
@database_option
@click.option("--name", default="root", show_default=True, help="Name of the administrator that gets the token.")
@click.option(
    "--token-file", type=click.Path(dir_okay=False), help="Write the token to this file instead of to the screen."
)
@click.option("--new-token", is_flag=True, help="Issue another token, if the first one was lost.")
def init(db: str, name: str, token_file: str | None, new_token: bool) -> None:
    """Create or upgrade the database, and issue the first administrator's token.

    Before you run this command, stop all servers that use the database.
    """
    with needs("server", "parley admin init"):
        from parley.coordinator.access.tokens import prepare
        from parley.coordinator.http.context import utc_now
    before, after, token = prepare(db, at=utc_now(), name=name, new_token=new_token)
    change = "is at" if before == after else f"went from {before or 'nothing'} to"
    say(f"The database {change} revision {after}.")
    if token is None:
        say("The database has tokens already; --new-token issues another.")
    else:
        hand_over(token, token_file)


@admin_command.command()
@click.argument("output", type=click.Path(dir_okay=False))
@database_option
def backup(output: str, db: str) -> None:
    """Copy the whole database, as of one moment, to the SQLite file OUTPUT. The server may keep running.

    The database may be SQLite or PostgreSQL. OUTPUT can be verified, served, or restored into either.
    """
    with needs("server", "parley admin backup"):
        from parley.coordinator.record.backup import backup as copy
    rows = copy(db, Path(output))
    say(f"{rows:,} rows in {output}. Check it: parley verify STUDY --db {output}")


@admin_command.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False))
@database_option
def restore(source: str, db: str) -> None:
    """Copy the backup SOURCE into an empty database. Agents notice if the backup is older than their latest receipt.

    A token that was revoked after the backup was made is valid again, and nothing in the database shows that. So the
    command lists all valid tokens.
    """
    with needs("server", "parley admin restore"):
        from parley.coordinator.record.backup import restore as copy
    made = copy(Path(source), db)
    say(f"{made.rows:,} rows restored. Check them: parley verify STUDY --db ...")
    for edge in edges():
        if edge.not_restored:
            say(edge.not_restored)
    say("These tokens are valid again. Revoke those that had been revoked after the backup (parley admin revoke KID):")
    for row in made.live:
        say(f"  {row.kid}  {row.principal}")


@admin_command.command()
@click.argument("study")
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print all estimates with their intervals as CSV, and nothing else."
)
@click.option("--phase", type=click.IntRange(min=1), help="Show the findings after this phase; default: the latest.")
@with_client
@json_option
def answer(client: Client, study: str, as_csv: bool, phase: int | None, as_json: bool) -> None:
    """Show the findings of STUDY: every agent's answer or candidates, how its question ended, and every estimate."""
    if as_csv and as_json:
        raise InvalidInput("--csv", found="--csv and --json", allowed="one of them")
    if client.request("GET", "whoami")["blinded"]:
        raise InvalidInput("token", found="a blinded one", allowed="an analyst's or an administrator's")
    found = _all_agents(client, study, "findings", **({} if phase is None else {"phase": phase}))
    document = _answer_document(found)
    if phase is None and found["stage"] == "finished":
        maps = client.request("GET", "studies", study, "certificate").get("map")
        document |= {"map": maps} if maps else {}
    if as_csv:
        click.echo(findings_csv(found), nl=False)
    elif as_json:
        print_json(document)
    else:
        _show_answer(document, found, client.status(study)["settings"])


@admin_command.command()
@click.argument("study")
@json_option
@with_client
def weights(client: Client, study: str, as_json: bool) -> None:
    """Show for which weights the answers of STUDY still hold, from equal weights to each agent's own reward alone."""
    found = _all_agents(client, study, "sensitivity")
    if as_json:
        print_json(found)
        return
    if not found["agents"]:
        say("There is nothing to show: no phase is decided yet, or there is only one agent.")
        return
    heads = [f"{step['value']:g}" for step in found["agents"][0]["steps"]]
    rows = []
    for agent in found["agents"][:MOST_LINES]:
        held = "-" if agent["low"] is None else f"{agent['low']:g} to {agent['high']:g}"
        steps = [
            ", ".join(step["leaders"]) if step["standing"] == "other" else step["standing"] for step in agent["steps"]
        ]
        rows.append((agent["agent"], answer_text(agent), held, *steps))
    show_table(f"{study}: other weights ({found['axis']})", ("agent", "answer", "holds", *heads), rows)
    if len(found["agents"]) > MOST_LINES:
        say(f"{number(len(found['agents']) - MOST_LINES)} more; --json lists all of them.")
    say(f"{found['words']}. The level is {found['level']:g}.")


def _all_agents(client: Client, study: str, what: str, **asked: Any) -> dict[str, Any]:
    """Fetch `findings` or `sensitivity` (`what`) for all agents, in several requests if the study is large."""
    agents: list[dict[str, Any]] = []
    changes = []
    while True:
        part = client.request("GET", "studies", study, what, params={"first": len(agents), **asked})
        agents += part["agents"]
        changes += [part["change"]] if part.get("change") else []
        if len(agents) >= part["agent_count"] or not part["agents"]:
            # Each part has the clearest change among its own agents: keep the clearest of all.
            clearest = {"change": min(changes, key=lambda one: one["p"], default=None)} if "change" in part else {}
            return {**part, "agents": agents, **clearest}


def _answer_document(found: dict[str, Any]) -> dict[str, Any]:
    """The JSON that `parley admin answer` prints.

    For every agent that asks a question: how the question ended, and the agent's arms, leader and estimates.
    """
    agents = []
    for entry in found["agents"]:
        if entry["end"] == OutcomeStatus.UNASKED:
            continue
        leads = _leading(entry)
        agents.append(
            {
                "agent": entry["agent"],
                "end": entry["end"],
                "answered": OutcomeStatus(entry["end"]).answered,
                "arms": [arm["arm"] for arm in entry["arms"] if arm["status"] in (ArmStatus.CHOSEN, ArmStatus.OPEN)],
                "leader": entry["leader"],
                "mixed_mean": leads and leads["estimate"],
                "estimates": {"leader": entry["leader"], "arms": entry["arms"]},
            }
        )
    keys = ("study", "stage", "phase", "phases", "level", "control", "words", "change", "outcomes")
    study_end = overall(entry["end"] for entry in agents).value
    return {key: found[key] for key in keys} | {"end": study_end, "agents": agents}


def _leading(entry: dict[str, Any]) -> dict[str, Any] | None:
    """The estimate of an agent's leader; None if it has no leader."""
    return next((arm["mean"] for arm in entry["arms"] if arm["arm"] == entry["leader"]), None)


def _show_answer(document: dict[str, Any], found: dict[str, Any], settings: dict[str, Any]) -> None:
    rows = []
    maps = document.get("map", ())
    in_maps = {question for one in maps for question in one["questions"]} - {one["agent"] for one in maps}
    for entry in document["agents"]:
        if entry["agent"] in in_maps:
            continue
        arms = ("" if entry["answered"] or not entry["arms"] else "candidates: ") + ", ".join(entry["arms"])
        mean = estimate_text(_leading(entry["estimates"]), unit=unit_of("mean", rates=found["rates"]))
        rows.append((entry["agent"], OutcomeStatus(entry["end"]).description, arms, entry["leader"] or "", mean))
    title = f"{document['study']}: {document['end']} after {plural(document['phase'], 'phase')}"
    show_table(title, ("agent", "end", "answer", "leader", "its mixed mean"), rows)
    if not OutcomeStatus(document["end"]).answered:
        proven = candidates_text(settings)
        say(f"Candidates are not answers{': ' + proven if proven else ''}.")
    for one in maps:
        say(f"{one['agent']}, where the weights are in doubt: {one['words']}.")
    _show_guardrails(found)
    if document["phase"]:
        _show_estimates(found)


def _show_guardrails(found: dict[str, Any]) -> None:
    """Print the status of every arm under each guardrail; `--json` has the estimates of all outcomes."""
    guardrails = [one for one in found["outcomes"] if one["arms"]]
    rows = [
        (one["name"], arm["arm"], arm["status"], ", ".join(arm["agents"])) for one in guardrails for arm in one["arms"]
    ]
    if rows:
        show_table("Guardrails", ("outcome", "arm", "harm", "found for"), rows)
    if any(row[2] == "stopped" for row in rows):
        say("A stopped arm cannot be an answer, however good it is: answers are the best of the others.")


def _show_estimates(found: dict[str, Any]) -> None:
    heads = {"mean": "mixed mean", "to_leader": "to the leader"}
    if found["control"]:
        heads["to_control"] = f"to {found['control']}"
    units = {kind: unit_of(kind, rates=found["rates"]) for kind in heads}
    asking = (agent for agent in found["agents"] if agent["end"] != OutcomeStatus.UNASKED)
    lines = [(agent["agent"], arm) for agent in asking for arm in agent["arms"]]
    rows = [
        (name, arm["arm"], status_text(arm), *(estimate_text(arm[kind], unit=units[kind]) for kind in heads))
        for name, arm in lines[:MOST_LINES]
    ]
    show_table("Estimates", ("agent", "arm", "status", *heads.values()), rows)
    if len(lines) > MOST_LINES:
        say(f"{number(len(lines) - MOST_LINES)} more; --csv and --json list all of them.")
    say(
        "The intervals are simultaneous: all of them hold, at every phase, with probability at least "
        f"{found['level']:.4g}; "
        "--csv has the usual intervals too."
    )
    if found["change"]:
        say(found["change"]["words"])
