"""`parley qualify`: tests whether this installation keeps Parley's promises, and writes a dated report."""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from parley import __version__
from parley.cli.console import checked_output, json_option, print_json, progress_bar, say, show_table
from parley.cli.doctor import unmet
from parley.edges.qualification import live  # noqa: F401 - its checks
from parley.edges.qualification.checks import CHECKS, Bench, Check, stored
from parley.errors import InvalidInput, ParleyError, needs
from parley.experiments.report_kit.pages import render
from parley.system.files import write_whole
from parley.text.formatting import plural

NAMESPACE = "parley-qualification"  # of signatures, so that they cannot pass for signatures of anything else


@click.command()
@click.option(
    "--report",
    default="parley-qualification.html",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="File to write the page to; the same report as JSON is written beside it.",
)
@click.option(
    "--minutes",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0, 1000),
    help="Rough duration on two cores: more minutes mean more studies at ties and more kills.",
)
@click.option(
    "--database", help="An empty PostgreSQL database to test as well: postgresql://USER:PASSWORD@HOST/DATABASE."
)
@click.option("--key", type=click.Path(dir_okay=False), help="SSH key to sign the report with, by ssh-keygen.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this check; may be repeated.")
@json_option
def qualify_command(
    report: str, minutes: float, database: str | None, key: str | None, only: tuple[str, ...], as_json: bool
) -> int:
    """Test on this machine whether Parley's promises hold, and write a dated report: page, JSON, signature.

    Numbers are compared with references, errors at ties are counted, a log is verified and tampered with, real servers
    are killed and restarted, and every role tries every operation. Your data are not touched: databases are created in
    a temporary folder. The exit status is 0 if checks passed and none failed, and 1 otherwise. docs/production.md has
    more.
    """
    checked_output(report)
    if Path(report).suffix == ".json":
        raise InvalidInput("--report", found=report, allowed="a name that does not end in .json: that is written too")
    names = [one.name for one in CHECKS]
    for name in only:
        if name not in names:
            raise InvalidInput("--only", found=repr(name), allowed=", ".join(names))
    chosen = [one for one in CHECKS if not only or one.name in only]
    if key is not None and shutil.which("ssh-keygen") is None:
        raise InvalidInput("--key", found="no ssh-keygen on this machine", allowed="OpenSSH 8.1 or newer, which signs")
    if key is not None and not Path(key).is_file():
        raise InvalidInput("--key", found=f"no file {key}", allowed="a private key that ssh-keygen made")
    if database is not None:
        _require_empty(database)
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="parley-qualify-") as folder,
        progress_bar("qualifying", len(chosen), hidden=as_json) as advance,
    ):
        bench = Bench(minutes=minutes, folder=Path(folder), database=database)
        for one in chosen:
            results.append(_tried(one, bench))
            advance(1)
    document = _document(results, minutes=minutes, whole=not only)
    page = Path(report)
    written = _write(document, page, key)
    if as_json:
        print_json(document)
    else:
        rows = [(one["name"], one["result"], one["detail"]) for one in results]
        show_table("", ("check", "result", "found"), rows)
        say(f"{_verdict(document)} Written: {', '.join(map(str, written))}")
    return 0 if document["passed"] else 1


def _require_empty(database: str) -> None:
    """Raise if a database is not empty, before any test: it might contain real studies."""
    with needs("server", "parley qualify --database"):
        from sqlalchemy import create_engine, inspect
        from sqlalchemy.exc import SQLAlchemyError

        from parley.coordinator.record import parse_url
    url = parse_url(database)
    if not url.drivername.startswith("postgresql"):
        raise InvalidInput("--database", found=url.drivername, allowed="postgresql://...; SQLite is always tried")
    try:
        engine = create_engine(url)
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
        engine.dispose()
    except SQLAlchemyError as error:
        raise InvalidInput(
            "--database", found=str(error).splitlines()[0], allowed="a PostgreSQL database that answers"
        ) from None
    if tables:
        found = plural(len(tables), "table") + " in it"
        raise InvalidInput("--database", found=found, allowed="an empty database, made for this and dropped afterwards")


def _tried(one: Check, bench: Bench) -> dict[str, Any]:
    """Run a check and return its result. Any exception is a failure, so that the other checks still run."""
    begun = time.monotonic()
    row = {"name": one.name, "claim": one.claim, "covers": list(one.covers)}
    missing = [extra for extra in one.extras if any(unmet("parley", extra))]
    if missing:
        return row | {"result": "skipped", "detail": f"needs the extras {', '.join(missing)}", "seconds": 0.0}
    if one.postgres and bench.database is None:
        return row | {"result": "skipped", "detail": "no --database was named", "seconds": 0.0}
    try:
        result, detail = "passed", one.run(bench)
    except ParleyError as error:
        result, detail = "failed", str(error)
    except Exception as error:
        result, detail = "failed", f"{type(error).__name__}: {error}"[:500]
    return row | {"result": result, "detail": detail, "seconds": round(time.monotonic() - begun, 1)}


def _document(results: list[dict[str, Any]], *, minutes: float, whole: bool) -> dict[str, Any]:
    """The report as JSON values, with everything that the page says."""
    counts = {word: sum(one["result"] == word for one in results) for word in ("passed", "failed", "skipped")}
    installed = {one.name: one.version for one in metadata.distributions()}
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name
        user = "unknown"
    return {
        "schema": "parley/qualification/1",
        "passed": counts["failed"] == 0 < counts["passed"],
        "whole": whole,
        "counts": counts,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "parley": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.node(),
        "user": user,
        "environment": sys.prefix,
        "minutes": minutes,
        "checks": results,
        "promises": [  # promises of the docs, each with its tests, its mutants, and the checks of it that ran here
            row | {"here": {one["name"]: one["result"] for one in results if row["key"] in one["covers"]}}
            for row in stored("promises.json")["promises"]
        ],
        "packages": dict(sorted(installed.items(), key=lambda one: one[0].lower())),
    }


def _verdict(document: dict[str, Any]) -> str:
    counts = document["counts"]
    tried = f"{plural(counts['passed'], 'check')} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    if document["passed"] and not document["whole"]:
        return f"Only a part was tried: {tried}, others were left out."
    return f"{'Qualified' if document['passed'] else 'NOT qualified'}: {tried}."


def _write(document: dict[str, Any], page: Path, key: str | None) -> list[Path]:
    """Write the page, the JSON and their signatures; returns the files.

    The page contains the hash of the JSON, which proves that page and JSON come from the same run.
    """
    beside = page.with_suffix(".json")
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    write_whole(beside, text)
    facts = {
        "time": document["at"],
        "Parley": f"{document['parley']}, in {document['environment']}",
        "Python": document["python"],
        "machine": f"{document['machine']}, {document['system']}",
        "user": document["user"],
        "record": f"{beside.name}, SHA-256 {digest}",
        "signature": f"ssh-keygen, namespace {NAMESPACE}, in {beside.name}.sig" if key else "none: no key was named",
    }
    shown: dict[str, Any] = {"title": f"Qualification of Parley {document['parley']}", "command": "parley qualify"}
    shown |= {"package": "parley.edges.qualification", "verdict": _verdict(document), "facts": facts}
    write_whole(page, render("qualification", **shown, **document))
    written = [page, beside]
    for file in (page, beside) if key is not None else ():
        signature = file.with_name(file.name + ".sig")
        signature.unlink(missing_ok=True)  # otherwise ssh-keygen would ask before it overwrites the file
        command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(file)]
        done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise ParleyError(f"the report is written, but not signed: ssh-keygen says {done.stderr.strip()}")
        written.append(signature)
    return written
