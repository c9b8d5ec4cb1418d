"""The commands of `parley admin` that change a study: one for every row of `parley.protocol.acts`, and `take`.

A command whose act has a preview shows the preview and asks for confirmation, unless `--yes` is given. Arguments,
options and sentences come from the row of the act; only reports and weights need functions of their own (`COLLECTED`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from msgspec import NODEFAULT

from parley.cli.console import confirm, reason_option, say, with_client, yes_option
from parley.errors import InvalidInput
from parley.protocol import Report
from parley.protocol.acts import ACTS, Act, is_flag
from parley.protocol.corrections import CorrectionPreview
from parley.protocol.previews import FreezePreview, Projection, ReweighPreview
from parley.text.formatting import number, plural

if TYPE_CHECKING:
    from parley.agent.client import Client
    from parley.protocol.codec import Message

MOST_LINES = 12  # of a list in a preview
CELL = ("count", "sum", "squares")  # columns of a table of corrected arms
AGENT = click.argument("agent")

Part = Callable[[Callable[..., Any]], Callable[..., Any]]
Collect = Callable[..., dict[str, Any]]  # (client, study, arguments and options) -> parts of the address and the body


def _command(act: Act, parts: Sequence[Part], collect: Collect) -> click.Command:
    """Make the command `parley admin COMMAND STUDY` of an act: it shows the preview, if any, and performs the act."""

    def run(client: Client, study: str, *, yes: bool = False, **typed: Any) -> None:
        reason = {key: typed.pop(key) for key in ("reason",) if key in typed}
        given = {"study": study, **collect(client, study, **typed)}
        if "phase" in act.parts and "phase" not in given:
            given["phase"] = client.status(study)["phase"]
        where = ("studies", study, *act.address(given))
        body = reason | {key: given[key] for key in act.fields}
        if act.preview is not None:
            body["preview"] = _agreed(client, act, where, given, yes=yes)
        made = client.request("POST", *where, json=body)
        follows = f" and {ACTS[act.then].done.lower()}" if act.then and given[act.then] else ""
        say(f"{act.done.format(**given)}{follows}. {study} is {made['stage']} in phase {made['phase']}.")

    whole: Callable[..., Any] = with_client(run)
    shown = (yes_option,) if act.preview else ()
    why = (reason_option,) if "reason" in act.body.known_keys() else ()
    for part in (*shown, *reversed(parts), *why, click.argument("study")):
        whole = part(whole)
    first = " Shows a preview first." if act.preview else ""
    return click.command(act.command, click.Command, help=f"{act.words}{first}")(whole)


def _agreed(client: Client, act: Act, where: Sequence[Any], given: dict[str, Any], *, yes: bool) -> str:
    """Show the preview of an act; returns its digest if the user confirms."""
    preview = act.preview
    assert preview is not None
    if preview.body is None:
        found = client.request("GET", *where)
    else:
        asked = {key: given[key] for key in preview.body.known_keys()}
        found = client.request("POST", *where, "preview", json=asked)
    shown = preview.kind.from_json(found["preview"])
    said = [(label, one if isinstance(one, str) else ", ".join(one)) for label, one in preview.statements(shown)]
    for line in (*_details(shown), *(f"{label}: {words}." for label, words in said)):
        say(line)
    follows = bool(act.then and given[act.then])
    if follows and getattr(shown, act.then) is None:
        raise click.ClickException("nothing was frozen: the other agents cannot be re-weighed")
    if not yes:
        confirm(f"{act.button.format(**given)}?" + (" And re-weigh the others?" if follows else ""))
    return str(found["digest"])


def _details(shown: Message) -> list[str]:
    """The lines of a preview that come before its sentences: cells, pairs, weights, and the projection."""
    match shown:
        case CorrectionPreview():
            return _cells(shown)
        case FreezePreview():
            return _freeze(shown)
        case ReweighPreview():
            return _weights(shown)
    ahead = getattr(shown, "projection", None)
    return [] if ahead is None else [f"Then: {_projection(ahead)}."]


def _first(lines: Sequence[str], more: Callable[[int], str]) -> list[str]:
    """The first lines of a list, indented; if lines are left out, `more` words their number for a last line."""
    left = len(lines) - MOST_LINES
    return [f"  {line}" for line in (*lines[:MOST_LINES], *([f"and {more(left)}"] if left > 0 else []))]


def _cells(shown: CorrectionPreview) -> list[str]:
    lines, pairs = [], []
    for cell in shown.cells:
        before, after = (f"{cell.counts[i]} draws with the sum {cell.sums[i]:.6g}" for i in (0, 1))
        lines.append(f"  {cell.arm}: {after} (was {before})")
    for one in shown.other_phases:
        now, was = (
            f"dropped in phase {end}" if end else "not dropped" for end in (one.with_corrections, one.dropped_in)
        )
        pairs.append(f"{one.arm} of {one.agent}: {now} (was {was})")
    lines += _first(pairs, lambda n: f"{plural(n, 'more pair')} of agent and arm")
    return [*lines, *(f"  {one.words}" for one in shown.guardrails)]


def _freeze(shown: FreezePreview) -> list[str]:
    pairs = []
    for pair in shown.pairs:
        least = pair.smallest_radius
        radius = "no interval at all" if least is None else f"no interval narrower than ± {least:.4g}"
        gap = "" if pair.gap is None else f", gap {pair.gap:.4g}"
        pairs.append(f"{pair.arm} of {pair.agent}: {pair.forecast} ({radius}{gap})")
    lines = _first(pairs, lambda n: f"{plural(n, 'more undecided pair')} of agent and arm")
    if shown.keep is not None:
        lines.append(f"Keep the question: {_projection(shown.keep)}.")
    if shown.reweigh is not None:
        lines += _weights(shown.reweigh)
    elif shown.no_reweigh:
        lines.append(f"Re-weigh: not possible. {shown.no_reweigh}.")
    return lines


def _weights(shown: ReweighPreview) -> list[str]:
    """The lines about a re-weighing: who would get an answer, and every column of weights that would change."""
    columns = []
    for column in shown.columns:
        before, after = (", ".join(f"{weight:.3g}" for weight in some) for some in (column.before, column.after))
        columns.append(f"{column.agent} would weigh {after} (now {before})")
    lines = [f"Re-weigh: {_projection(shown.projection)}.", *_first(columns, lambda n: f"{number(n)} more")]
    if shown.withdrawn:
        lines.append(f"  the answers of {', '.join(shown.withdrawn)} would be withdrawn")
    return lines


def _projection(shown: Projection) -> str:
    """A sentence that says which agents would get an answer, and at what cost."""
    groups = {
        "answered": ("has an answer", "have an answer"),
        "expected": ("is expected to get an answer", "are expected to get an answer"),
        "without": ("would not get an answer",) * 2,
        "left": ("would leave without an answer",) * 2,
    }
    some = {words: getattr(shown, key) for key, words in groups.items()}
    parts = [f"{', '.join(agents)} {words[len(agents) > 1]}" for words, agents in some.items() if agents]
    pairs = shown.open_pairs
    notes = [f"{plural(pairs, 'pair')} of agent and arm {'stays' if pairs == 1 else 'stay'} open"] if pairs else []
    if shown.phases:
        cost = f"about {plural(shown.samples, 'sample')} in {plural(shown.phases, 'phase')}"
        notes.append(f"{cost}, if rewards stay as estimated")
    elif shown.expected:
        notes.append("no phase is decided yet, so nothing is known about the cost")
    return "; ".join(parts) + (f" ({'; '.join(notes)})" if notes else "")


def _amended(_: Client, study: str, *, agent: str, report: str) -> dict[str, Any]:
    """Read from a file the report that replaces the accepted one; raise if it is for another study or agent."""
    message = Report.read(Path(report).read_text(encoding="utf-8"))
    if (message.study, message.agent) != (study, agent):
        raise InvalidInput("report", found=f"{message.agent} of {message.study}", allowed=f"{agent} of {study}")
    return {"agent": agent, "phase": message.phase, "report": message.to_json()}


def _corrected(
    client: Client,
    study: str,
    *,
    agent: str,
    phase: int,
    file: str | None,
    arm: str | None,
    count: int | None,
    total: float | None,
    squares: float | None,
    counts_reason: str,
) -> dict[str, Any]:
    """Make the corrected report: read it from a file, or change the numbers of some arms in the report in force."""
    whose = {"agent": agent, "phase": phase}
    from parley.agent.tables import arm_in
    from parley.protocol.corrections import with_cells
    from parley.validation.tables import number_in, read_table

    if (file is None) is (arm is None):
        raise click.UsageError("give either --file, or --arm with --sum")
    if file is not None and Path(file).suffix.lower() == ".json":
        report = Report.read(Path(file).read_text(encoding="utf-8"))
        if (report.study, report.agent, report.phase) != (study, agent, phase):
            raise InvalidInput(
                file,
                found=f"{report.agent} of {report.study} in phase {report.phase}",
                allowed=f"{agent} of {study} in phase {phase}",
            )
        return whose | {"report": report.to_json()}
    found = client.request("GET", "studies", study, "phases", phase, "reports", agent)
    status = client.status(study)
    arms, now = status["arm_names"], found["corrections"][-1] if found["corrections"] else found
    if file is not None:
        table = read_table(Path(file).read_bytes(), file, needed=CELL[:2])
        columns = [name for name in CELL if name in table.columns]
        cells = {
            arms.index(arm_in(table, row, arms)): [number_in(table, row, name) for name in columns]
            for row in table.rows
        }
    elif arm not in arms:
        raise InvalidInput("--arm", found=arm, allowed=", ".join(arms))
    elif total is None:
        raise InvalidInput("--sum", found="nothing", allowed="the sum of its rewards")
    else:
        place = arms.index(arm)
        drawn = now["report"]["counts"][place] if count is None else count
        cells = {place: [drawn, total, *([] if squares is None else [squares])]}
    asked = client.whole_plan(study, phase).draws(status["agent_names"].index(agent))
    report = Report.from_json(now["report"])
    made = with_cells(report, cells, asked, zero_one=status["rates"], counts_reason=counts_reason)
    return whose | {"report": made.to_json()}


def _held(client: Client, study: str, *, agent: str) -> dict[str, Any]:
    """Fetch the held report of an agent, and print why it is held."""
    held = client.request("GET", "studies", study, "quarantine", params={"held": True, "limit": 1000})["quarantine"]
    found = next((entry for entry in held if entry["report"]["agent"] == agent), None)
    if found is None:
        waiting = sorted(entry["report"]["agent"] for entry in held)
        allowed = f"an agent whose report is held ({', '.join(waiting) or 'none is'})"
        raise InvalidInput("AGENT", found=agent, allowed=allowed)
    report = found["report"]
    say(f"Held in phase {report['phase']}: {found['why']}.")
    say(f"  draws {report['counts']}, sums {report['sums']}")
    return {"agent": agent, "phase": report["phase"], "report": report, "digest": found["digest"]}


def _refused(client: Client, study: str, *, agent: str) -> dict[str, Any]:
    """Fetch and print the held report of an agent. Its digest goes into the refusal, so no other report is refused."""
    found = _held(client, study, agent=agent)
    return found | {"report": found["digest"]}


def _columns(_: Client, __: str, *, columns: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {"columns": {agent: _numbers(agent, text) for agent, text in columns}}


def _numbers(agent: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput("--column", found=f"{text!r} for {agent}", allowed="numbers, as in 0.5,0,0.5") from None


COLUMN = click.option(
    "--column",
    "columns",
    type=(str, str),
    multiple=True,
    metavar="AGENT W1,W2,...",
    help="Weights of AGENT's mix, a number for every agent; default: its column without the frozen agents, normalised.",
)
CORRECTION = (
    click.option("--agent", required=True, help="The agent whose report it is."),
    click.option("--phase", required=True, type=click.IntRange(min=1), help="The decided phase of the report."),
    click.option(
        "--file",
        type=click.Path(exists=True, dir_okay=False),
        help="The whole report as it should have been (.json), or a table with the columns arm, count, sum and perhaps "
        "squares; arms that it does not name stay.",
    ),
    click.option(
        "--arm", help="Instead of --file: the one arm that was wrong; give its correct numbers with --sum and so on."
    ),
    click.option("--count", type=click.IntRange(min=0), help="The number of its draws; default: as reported."),
    click.option("--sum", "total", type=float, help="The sum of its rewards."),
    click.option("--squares", type=float, help="The sum of their squares; not needed for rewards of 0 and 1."),
    click.option("--counts-reason", default="", help="Why the counts differ from the plan, such as missing-outcomes."),
)
FILE = click.argument("report", type=click.Path(exists=True, dir_okay=False), metavar="REPORT.json")
# Acts whose body is not typed field by field: the arguments and options to type instead, and the function that builds
# the body from them.
COLLECTED: dict[str, tuple[tuple[Part, ...], Collect]] = {
    "amend": ((AGENT, FILE), _amended),
    "correct": (CORRECTION, _corrected),
    "refuse": ((AGENT,), _refused),
    "reweigh": ((COLUMN,), _columns),
}


def _typed(act: Act) -> tuple[tuple[Part, ...], Collect]:
    """The usual input of an act: an argument for its subject, an option for every field, and a prompt for a secret."""
    parts: list[Part] = [click.argument(act.subject)] if act.subject else []
    for name, one in act.fields.items():
        described = [note.description for note in get_args(one.type)[1:] if getattr(note, "description", None)]
        kind: dict[str, Any] = {"is_flag": True} if is_flag(one) else {"required": one.default is NODEFAULT}
        if name != act.secret:  # no option for a secret: everybody on the machine can read command lines
            parts.append(click.option(f"--{name.replace('_', '-')}", name, help=" ".join(described), **kind))

    def collect(_client: Client, _study: str, **typed: Any) -> dict[str, Any]:
        asked = {act.secret: click.prompt(f"Your {act.secret}, once more", hide_input=True)} if act.secret else {}
        return typed | asked

    return tuple(parts), collect


TAKE = replace(
    ACTS["amend"],
    command="take",
    words="Accept the held report of an agent, after a person checked that it is right.",
    done="Taken",
)
CHANGES = (
    *(_command(act, *COLLECTED.get(name, _typed(act))) for name, act in ACTS.items()),
    _command(TAKE, (AGENT,), _held),  # amends with the held report itself
)
