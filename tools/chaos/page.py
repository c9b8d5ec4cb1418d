"""Writes docs/appendix/reliability.md from the results of the last runs; other parts keep their earlier results."""

import json
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.chaos import attacks
from tools.pages import table, write

DOCS = Path(__file__).parents[2] / "docs"
HEAD = """# Reliability, tried hard

`make chaos` runs every part below at full size and rewrites this page. `.venv/bin/python -m tools.chaos PART --share
0.1` runs a tenth of one part and leaves the others as they are. `--more` adds a run with other random numbers to the
earlier ones. *Size* says how much of the full size the numbers come from.

The servers are real processes, killed with `kill -9`. The databases are real, and the agents retry until they get an
answer. Afterwards every log is verified from its first record against every receipt. *Lost* reports were acknowledged
and are not in the log, *duplicated* ones are there twice, and a *double advance* is a phase that was decided twice.
*Commit* is the code that was tried. A dash means "does not apply" or "not recorded".
"""
NEEDED = 100  # kills that must land between commit and answer in a full run
FLAWS = (
    "lost",
    "unacknowledged",
    "duplicated",
    "double_advances",
    "broken_chains",
    "unfinished",
    "missed",
    "mismatched",
    "wrong_arm",
    "unbalanced",
    "server_errors",
)
COLUMNS = (
    "part", "command", "size", "between commit and answer", "acknowledged", "lost", "duplicated", "double advances",
    "chain", "studies finished", "as promised", "machine", "commit",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the chaos tests: `run(size, seed)` returns counts, including the number of its `unit`."""

    run: Any
    full: int
    unit: str
    about: str


def load():
    path = DOCS / "reliability.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(results, parts):
    (DOCS / "reliability.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write(DOCS / "appendix" / "reliability.md", _page(results, parts))


def entry(found, *, command, runs):
    """The stored result of a part."""
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    return {"command": command, "machine": machine, "commit": commit(), "runs": runs, "found": found}


def commit():
    """The commit that was tested, with a plus if code or tests have uncommitted changes."""
    git = ["git", "-C", str(DOCS.parent)]
    try:
        told = subprocess.run([*git, "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src", "tests"], check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip() + "+" * bool(changed)


def added(before, after):
    """The added counts of two runs."""
    total = dict(before)
    for key, value in after.items():
        if isinstance(value, dict):
            total[key] = added(total.get(key, {}), value)
        else:
            total[key] = total[key] + value if key in total else value
    return total


def kept(part, found):
    """Whether the findings keep the promise; a full run also needs enough kills between commit and answer."""
    flawed = found.get("failures") or any(found.get(flaw, 0) for flaw in FLAWS)
    full = found.get(part.unit, 0) >= part.full
    return not flawed and (not full or found.get("between_commit_and_answer", NEEDED) >= NEEDED)


def size(part, found):
    done = found.get(part.unit, 0)
    return f"{done:,} of {part.full:,} {part.unit} ({done / part.full:.0%})"


def line(name, part, found, seconds):
    """The result of a part as a line for the terminal."""
    counts = ", ".join(
        f"{value:,} {key.replace('_', ' ')}"
        for key, value in found.items()
        if isinstance(value, int) and key != part.unit
    )
    verdict = "as promised" if kept(part, found) else "NOT AS PROMISED"
    failures = "".join(f"\n  {failure}" for failure in found.get("failures", []))
    return f"{name}: {size(part, found)}: {verdict}; {counts}; {seconds:,.1f} s{failures}"


def _row(name, part, kept_entry):
    found = kept_entry["found"]
    times = "" if kept_entry["runs"] == 1 else f" (last of {kept_entry['runs']} runs)"
    words = [f"{found[key]:,}" if key in found else "–" for key in ("between_commit_and_answer", "acknowledged")]
    words += [f"{found[key]:,}" if key in found else "–" for key in ("lost", "duplicated", "double_advances")]
    chain = "–" if "broken_chains" not in found else f"{found['broken_chains']:,} broken" * bool(found["broken_chains"])
    studies = found.get("studies")
    finished = (
        "–"
        if studies is None
        else f"{studies - found.get('unfinished', 0) - found.get('cancelled', 0):,} of {studies:,}"
    )
    verdict = "yes" if kept(part, found) else "**no**"
    row = [name, f"`{kept_entry['command']}`{times}", size(part, found), *words, chain or "intact", finished, verdict]
    return [*row, kept_entry["machine"], kept_entry.get("commit", "–")]


def _page(results, parts):
    lines = [HEAD, table(COLUMNS, [_row(name, part, results[name]) for name, part in parts.items() if name in results])]
    missing = [name for name in parts if name not in results]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    about = [[name, part.about, _details(results.get(name, {}).get("found", {}))] for name, part in parts.items()]
    lines += ["", "## What the parts do", "", table(["part", "what it does", "counts"], about)]
    if caught := results.get("mutants", {}).get("found", {}).get("caught"):
        lines += ["", "## The mutants", "", "Each was caught by the test of what it breaks.", "", _mutants(caught)]
    if told := results.get("attacks", {}).get("found", {}).get("lines"):
        lines += ["", "## The attacks", "", attacks.lines_table(told)]
    return "\n".join(lines) + "\n"


def _mutants(caught):
    """A row for every promise or protection, with the mutants that break it."""
    by_promise = {}
    for name in caught:
        what, _, breaks = name.removesuffix(")").rpartition(" (")
        by_promise.setdefault(breaks, []).append(what)
    rows = ([breaks, "; ".join(names)] for breaks, names in sorted(by_promise.items()))
    return table(["what is kept", "the coordinator, an agent or a site ..."], rows)


def _details(found):
    """Nested counts, such as kills by point, and failures."""
    counts = [
        f"{key.replace('_', ' ').capitalize()}: {', '.join(f'{name} {count:,}' for name, count in value.items())}."
        for key, value in found.items()
        if isinstance(value, dict) and key != "caught"
    ]
    return " ".join([*counts, *(f"Failure: `{failure}`." for failure in found.get("failures", []))])
