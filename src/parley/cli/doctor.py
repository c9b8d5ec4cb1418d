"""`parley doctor`, `parley completion` and `parley schema`: check this machine, and set up its shell and editor."""

import platform
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class
from packaging.requirements import Requirement

from parley import __version__
from parley.cli.console import chosen_network, json_option, network_options, print_json, say, show_table
from parley.errors import InvalidInput, NotAllowed, ParleyError, needs
from parley.hooks import edges, own_edges
from parley.study import json_schema
from parley.text.formatting import plural

# The extras that a user may install, with the commands that need each; edges add their own extras. The developers'
# extras (test, lint, docs, judge) are not listed, since the Makefile installs them.
EXTRAS = {
    "": "bounds, simulate, plan, analyze, demo, audit-policy, verify FILE",
    "server": "serve, demo --live, admin init, backup and restore, verify --db",
    "agent": "agent, the rest of admin, verify --server",
    "site": "site",
    "sql": "agent --source sql: and parquet:; analyze and [truth] data with Parquet or Excel",
    "privacy": "agent and site, in a study with private reports",
    "experiments": "sweep, report",
    "polars": "results as polars frames",
}
DEFAULT_DB = "parley.db"


def unmet(package: str, extra: str) -> Iterator[str]:
    """Yield, as text, each requirement of an extra that this environment does not meet.

    >>> list(unmet("parley", ""))
    []
    """
    for text in metadata.requires(package) or []:
        wanted = Requirement(text)
        # A requirement belongs to an extra if its marker holds with that extra, but not without an extra.
        if wanted.marker is not None:
            of_extra = wanted.marker.evaluate({"extra": extra}) and not wanted.marker.evaluate({"extra": ""})
            if not (of_extra if extra else wanted.marker.evaluate({"extra": ""})):
                continue
        elif extra:
            continue
        try:
            found = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            yield wanted.name
            continue
        if not wanted.specifier.contains(found, prereleases=True):
            yield f"{wanted.name} {wanted.specifier} (found {found})"
        for further in sorted(wanted.extras):
            yield from unmet(wanted.name, further)


def _database(address: str) -> dict[str, Any]:
    """Check whether a database answers and has this version's schema. The result never contains the password."""
    with needs("server", "a check of the database"):
        from sqlalchemy import text

        from parley.coordinator.record import open_for_reading, parse_url
        from parley.coordinator.record.tables import SCHEMA, newest
    shown = parse_url(address).render_as_string(hide_password=True)
    answer: dict[str, Any] = {"address": shown, "answers": False, "schema": None, "studies": None, "problem": ""}
    try:
        with closing(open_for_reading(address)) as storage:
            count = storage.read(lambda connection: connection.execute(text("SELECT count(*) FROM studies")).scalar())
    except ParleyError as error:  # the database answered, with a schema that is not ours
        answers = isinstance(error, InvalidInput) and error.key == SCHEMA
        return answer | {"answers": answers, "problem": str(error)}
    return answer | {"answers": True, "schema": newest(), "studies": count}


def _coordinator(server: str) -> dict[str, Any]:
    """Check whether a coordinator answers, and describe the connection. No token is needed: a refusal is an answer."""
    answer: dict[str, Any] = {"address": server, "answers": False, "problem": ""}
    try:
        with needs("agent", "a check of the coordinator"):
            from parley.agent.client import Client
        answer |= chosen_network().describe(server)
        with Client(server, "none", network=chosen_network()) as client:
            client.whoami()
    except NotAllowed:
        return answer | {"answers": True}
    except ParleyError as error:
        return answer | {"problem": str(error)}
    return answer | {"answers": True}


def extras() -> dict[str, str]:
    """Extra -> the commands or features that need it, for all extras that a user may install."""
    return EXTRAS | {extra: words for edge in own_edges() for extra, words in edge.extras}


def _edges() -> tuple[list[dict[str, Any]], str]:
    """Every edge with its incomplete extras, and an error message, which is empty if all edges could be loaded."""
    try:
        found = edges()
    except InvalidInput as error:
        return [], str(error)
    own = own_edges()
    rows = []
    for edge in found:
        missing = {extra: list(unmet("parley", extra)) for extra, _ in edge.extras} if edge in own else {}
        incomplete = [extra for extra, lack in missing.items() if lack]
        known = {"name": edge.name, "summary": edge.summary, "docs": edge.docs}
        rows.append(known | {"own": edge in own, "missing_extras": incomplete})
    return rows, ""


def _examine(db: str | None, server: str | None) -> dict[str, Any]:
    missing = {extra: list(unmet("parley", extra)) for extra in extras()}
    rows, problem = _edges()
    database = None
    if db is not None:
        try:
            database = _database(db)
        except ParleyError as error:  # the address cannot be parsed, or the package that reads it is missing
            database = {"address": None, "answers": False, "schema": None, "studies": None, "problem": str(error)}
    coordinator = None if server is None else _coordinator(server)
    return {
        "parley": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "environment": sys.prefix,
        "packages": {"complete": not missing[""], "missing": missing[""]},
        "extras": {name: {"complete": not lack, "missing": lack} for name, lack in missing.items() if name},
        "edges": rows,
        "edges_problem": problem,
        "database": database,
        "coordinator": coordinator,
        "well": not (missing[""] or problem or any(one and one["problem"] for one in (database, coordinator))),
    }


@click.command()
@click.option(
    "--db", envvar="PARLEY_DB", help=f"Database to check; default: {DEFAULT_DB}, if there is one in this folder."
)
@click.option(
    "--server", envvar="PARLEY_SERVER", help="Coordinator to check, with the proxy and the certificates on the way."
)
@network_options
@json_option
def doctor_command(db: str | None, server: str | None, as_json: bool) -> int:
    """Show what is installed, which extras are missing, and whether the database and the coordinator answer.

    Edges are features that the rest of Parley can do without; an edge that is not listed is not installed. The command
    changes nothing. The exit status is 1 if a package that every command needs is missing or too old, if an edge cannot
    be loaded, or if the database or the coordinator does not answer or is not ready; a missing extra is not a failure.
    """
    found = _examine(db or (DEFAULT_DB if Path(DEFAULT_DB).is_file() else None), server)
    if as_json:
        print_json(found)
        return 0 if found["well"] else 1
    say(f"Parley {found['parley']}, Python {found['python']}, {found['system']}")
    say(f"installed in {found['environment']}\n")
    words = extras()
    rows = [
        (name or "(always)", words[name], "complete" if part["complete"] else "missing: " + ", ".join(part["missing"]))
        for name, part in {"": found["packages"], **found["extras"]}.items()
    ]
    show_table("", ("extra", "commands", "state"), rows)
    lacking = [name for name, part in found["extras"].items() if not part["complete"]]
    if lacking:
        say(f"To add one, in the clone: pip install '.[{lacking[0]}]'")
    show_table("", ("edge", "what it brings", "state"), [_edge_row(one) for one in found["edges"]])
    if found["edges_problem"]:
        say(f"Edges: {found['edges_problem']}")
    say(_database_sentence(found["database"]))
    if coordinator := found["coordinator"]:
        say(_coordinator_sentence(coordinator))
    return 0 if found["well"] else 1


def _edge_row(one: dict[str, Any]) -> tuple[str, str, str]:
    missing = [f"install the extra {extra}" for extra in one["missing_extras"]]
    return one["name"], one["summary"], "; ".join(missing) or ("complete" if one["own"] else "of another package")


def _coordinator_sentence(found: dict[str, Any]) -> str:
    way = f"through {found['proxy']}" if found.get("proxy") else "without a proxy"
    state = f"does not answer: {found['problem']}" if found["problem"] else "answers"
    trust = f", trusting {found['trust']}" if found["address"].startswith("https") and "trust" in found else ""
    return f"Coordinator: {found['address']}, {way}{trust}, {state}"


def _database_sentence(database: dict[str, Any] | None) -> str:
    if database is None:
        return "Database: none checked (--db or PARLEY_DB names one)"
    if database["problem"]:
        how = "answers, but is not ready" if database["answers"] else "does not answer"
        return f"Database: {database['address'] or ''} {how}: {database['problem']}"
    studies = plural(database["studies"], "study", "studies")
    return f"Database: {database['address']} answers, schema {database['schema']}, {studies}"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the script with which SHELL completes `parley` commands.

    \b
    bash:  parley completion bash > ~/.local/share/bash-completion/completions/parley
    zsh:   parley completion zsh  > ~/.zfunc/_parley        (with ~/.zfunc in fpath)
    fish:  parley completion fish > ~/.config/fish/completions/parley.fish
    """
    from parley.cli.main import main

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(main, {}, "parley", "_PARLEY_COMPLETE").source())


@click.command()
def schema_command() -> None:
    """Print the JSON Schema of the study file, with which editors complete its keys, explain them and mark mistakes.

    \b
    parley schema > study.schema.json
    and as the first line of a study file:  #:schema ./study.schema.json
    """
    print_json(json_schema())
