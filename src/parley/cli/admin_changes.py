"""The part of `parley admin` that changes a running study. Where a change has a preview, it is shown and confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parley.cli.console import confirm, reason_option, say, with_client, yes_option
from parley.errors import InvalidInput
from parley.text.formatting import number, plural

if TYPE_CHECKING:
    from parley.agent.client import Client
    from parley.protocol import Report

MOST_LINES = 12  # of a list in a preview
CELL = ("count", "sum", "squares")  # columns of a table of corrected arms
AGENT = click.argument("agent")

Part = Callable[[Callable[..., Any]], Callable[..., Any]]


def _change(name: str, *parts: Part, asks: bool = False, **named: Any) -> Callable[..., click.Command]:
    """A command that changes STUDY: its own arguments and options, --reason, and --yes where it `asks`."""

    def made(function: Callable[..., None]) -> click.Command:
        whole: Callable[..., Any] = with_client(function)
        for part in (*((yes_option,) if asks else ()), *reversed(parts), reason_option, click.argument("study")):
            whole = part(whole)
        return click.command(name, click.Command, **named)(whole)

    return made


def _agree(shown: dict[str, Any], lines: Sequence[str], question: str, *, yes: bool) -> None:
    """Show a preview with its guarantee; continue only if the user confirms."""
    for line in (*lines, f"Guarantee: {shown['guarantee']}."):
        say(line)
    if not yes:
        confirm(question)


def _carry_out(client: Client, parts: Sequence[Any], done: str, **body: Any) -> None:
    """Make the change, and say where the study is."""
    made = client.request("POST", *parts, json=body)
    say(f"{done}. {parts[1]} is {made['stage']} in phase {made['phase']}.")


def _first(lines: Sequence[str], more: Callable[[int], str]) -> list[str]:
    """The first lines of a list, and how many `more` there are."""
    left = len(lines) - MOST_LINES
    return [f"  {line}" for line in (*lines[:MOST_LINES], *([f"and {more(left)}"] if left > 0 else []))]


@_change("close-early", asks=True)
def close_early(client: Client, study: str, reason: str, yes: bool) -> None:
    """Close the phase of STUDY with the reports that are in. Shows a preview first."""
    parts = ("studies", study, "phases", client.status(study)["phase"], "close-early")
    found = client.request("GET", *parts)
    shown = found["preview"]
    lines = [f"Not waited for: {', '.join(shown['awaited'])}.", f"Effect: {shown['effect']}."]
    _agree(shown, lines, f"Close phase {shown['phase']} with what is in?", yes=yes)
    _carry_out(client, parts, "Closed", reason=reason, preview=found["digest"])


@_change("amend", AGENT, click.argument("report", type=click.Path(exists=True, dir_okay=False), metavar="REPORT.json"))
def amend(client: Client, study: str, agent: str, report: str, reason: str) -> None:
    """Replace AGENT's accepted report by REPORT.json, while the phase is in progress. Both are kept."""
    from parley.protocol import Report

    message = Report.read(Path(report).read_text(encoding="utf-8"))
    if (message.study, message.agent) != (study, agent):
        raise InvalidInput("report", found=f"{message.agent} of {message.study}", allowed=f"{agent} of {study}")
    parts = ("studies", study, "phases", message.phase, "reports", agent, "amend")
    _carry_out(client, parts, "Amended", reason=reason, report=message.to_json())


@_change(
    "correct",
    click.option("--agent", required=True, help="Whose report it is."),
    click.option("--phase", required=True, type=click.IntRange(min=1), help="The phase, which was decided."),
    click.option(
        "--file",
        type=click.Path(exists=True, dir_okay=False),
        help="The whole report as it should have been (.json), or a table with the columns arm, count, sum and perhaps "
        "squares; arms that it does not name stay.",
    ),
    click.option("--arm", help="Or the one arm that was wrong: its numbers as they should have been follow."),
    click.option("--count", type=click.IntRange(min=0), help="Its draws; default: as many as were reported."),
    click.option("--sum", "total", type=float, help="The sum of its rewards."),
    click.option("--squares", type=float, help="The sum of their squares; not needed for rewards of 0 and 1."),
    click.option("--counts-reason", default="", help="Why counts are not the plan's, as in missing-outcomes."),
    asks=True,
)
def correct(client: Client, study: str, agent: str, phase: int, reason: str, yes: bool, **given: Any) -> None:
    """Correct an agent's report of a decided phase of STUDY. Shows a preview first.

    Both reports are kept, and decisions stand as they were taken. The certificate says how estimates and evidence
    would read with the corrected report, and whether an answer would change.
    """
    parts = ("studies", study, "phases", phase, "reports", agent, "correct")
    report = _corrected_report(client, study, agent, phase, **given).to_json()
    found = client.request("POST", *parts, "preview", json={"report": report})
    shown, lines = found["preview"], []
    for cell in shown["cells"]:
        before, after = (f"{cell['counts'][i]} draws with the sum {cell['sums'][i]:.6g}" for i in (0, 1))
        lines.append(f"  {cell['arm']}: {after} (was {before})")
    pairs = []
    for one in shown["other_phases"]:
        ends = (one["with_corrections"], one["dropped_in"])
        now, was = (f"dropped in phase {end}" if end else "not dropped" for end in ends)
        pairs.append(f"{one['arm']} of {one['agent']}: {now} (was {was})")
    lines += [f"Effect: {shown['effect']}.", *_first(pairs, lambda n: f"{plural(n, 'more pair')} of agent and arm")]
    _agree(shown, lines, f"Correct the report of {agent} in phase {phase}?", yes=yes)
    _carry_out(client, parts, "Corrected", reason=reason, preview=found["digest"], report=report)


def _corrected_report(
    client: Client,
    study: str,
    agent: str,
    phase: int,
    *,
    file: str | None,
    arm: str | None,
    count: int | None,
    total: float | None,
    squares: float | None,
    counts_reason: str,
) -> Report:
    """The report as it should have been: from a file, or what counts now with some other cells."""
    from parley.agent.tables import arm_in, number_in, read_table
    from parley.protocol import Report
    from parley.protocol.corrections import with_cells

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
        return report
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
    return with_cells(report, cells, asked, zero_one=status["rates"], counts_reason=counts_reason)


def _held_report(client: Client, study: str, agent: str) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The held report of an agent, and where it is decided about; shows why it is held."""
    held = client.request("GET", "studies", study, "quarantine", params={"held": True, "limit": 1000})["quarantine"]
    found = next((entry for entry in held if entry["report"]["agent"] == agent), None)
    if found is None:
        waiting = sorted(entry["report"]["agent"] for entry in held)
        allowed = f"an agent whose report is held ({', '.join(waiting) or 'none is'})"
        raise InvalidInput("AGENT", found=agent, allowed=allowed)
    report = found["report"]
    say(f"Held in phase {report['phase']}: {found['why']}.")
    say(f"  draws {report['counts']}, sums {report['sums']}")
    return found, ("studies", study, "phases", report["phase"], "reports", agent)


@_change("take", AGENT)
def take(client: Client, study: str, agent: str, reason: str) -> None:
    """Accept the held report of AGENT in STUDY, after a person checked that it is right."""
    entry, parts = _held_report(client, study, agent)
    _carry_out(client, (*parts, "amend"), "Taken", reason=reason, report=entry["report"])


@_change("refuse", AGENT)
def refuse(client: Client, study: str, agent: str, reason: str) -> None:
    """Refuse the held report of AGENT in STUDY; the agent is asked for another."""
    entry, parts = _held_report(client, study, agent)
    client.request("POST", *parts, "refuse", json={"reason": reason, "report": entry["digest"]})
    say(f"Refused. {agent} is asked for another report.")


@_change(
    "freeze",
    AGENT,
    click.option("--reweigh", "anew", is_flag=True, help="Also re-weigh the other agents' questions without it."),
    asks=True,
)
def freeze(client: Client, study: str, agent: str, reason: str, anew: bool, yes: bool) -> None:
    """Ask AGENT of STUDY for no more draws. Shows a preview of both ways to continue: keep the question or re-weigh."""
    parts = ("studies", study, "agents", agent, "freeze")
    found = client.request("GET", *parts)
    shown, pairs = found["preview"], []
    for pair in shown["pairs"]:
        least = pair["smallest_radius"]
        radius = "no interval at all" if least is None else f"no interval narrower than ± {least:.4g}"
        gap = "" if pair["gap"] is None else f", gap {pair['gap']:.4g}"
        pairs.append(f"{pair['arm']} of {pair['agent']}: {pair['forecast']} ({radius}{gap})")
    lines = _first(pairs, lambda n: f"{plural(n, 'more open pair')} of agent and arm")
    lines.append(f"Termination: {shown['termination']}.")
    if shown.get("keep"):
        lines.append(f"Keep the question: {_projection(shown['keep'])}.")
    if shown.get("reweigh"):
        lines += _weights(shown["reweigh"])
    elif shown.get("no_reweigh"):
        lines.append(f"Re-weigh: not possible. {shown['no_reweigh']}.")
    refused = anew and not shown.get("reweigh")
    _agree(shown, lines, f"Freeze {agent}?" + (" And re-weigh the others?" if anew else ""), yes=yes or refused)
    if refused:
        raise click.ClickException("nothing was frozen: the other agents cannot be re-weighed")
    done = "Frozen and re-weighed" if anew else "Frozen"
    _carry_out(client, parts, done, reason=reason, preview=found["digest"], reweigh=anew)


@_change(
    "reweigh",
    click.option(
        "--column",
        "given",
        type=(str, str),
        multiple=True,
        metavar="AGENT W1,W2,...",
        help="Weights of AGENT's mix, a number for every agent; default: its column without the frozen, normalised.",
    ),
    asks=True,
)
def reweigh(client: Client, study: str, reason: str, given: tuple[tuple[str, str], ...], yes: bool) -> None:
    """Ask STUDY's question anew without its frozen agents. All recorded phases count. Shows a preview first."""
    parts, columns = ("studies", study, "reweigh"), {agent: _numbers(agent, text) for agent, text in given}
    found = client.request("POST", *parts, "preview", json={"columns": columns})
    shown = found["preview"]
    _agree(shown, [*_weights(shown), f"Effect: {shown['effect']}."], f"Re-weigh {study}?", yes=yes)
    _carry_out(client, parts, "Re-weighed", reason=reason, columns=columns, preview=found["digest"])


def _numbers(agent: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput("--column", found=f"{text!r} for {agent}", allowed="numbers, as in 0.5,0,0.5") from None


def _weights(shown: dict[str, Any]) -> list[str]:
    """A re-weighing: who gets an answer, and every column that becomes another."""
    columns = []
    for column in shown["columns"]:
        before, after = (", ".join(f"{weight:.3g}" for weight in column[when]) for when in ("before", "after"))
        columns.append(f"{column['agent']} would weigh {after} (now {before})")
    lines = [f"Re-weigh: {_projection(shown['projection'])}.", *_first(columns, lambda n: f"{number(n)} more")]
    if shown["withdrawn"]:
        lines.append(f"  the answers of {', '.join(shown['withdrawn'])} would be withdrawn")
    return lines


def _projection(shown: dict[str, Any]) -> str:
    """Who would get an answer, and at what cost."""
    groups = {
        "answered": ("has an answer", "have an answer"),
        "expected": ("is expected to get an answer", "are expected to get an answer"),
        "without": ("would not get an answer", "would not get an answer"),
        "left": ("would leave without an answer", "would leave without an answer"),
    }
    parts = [f"{', '.join(shown[key])} {words[len(shown[key]) > 1]}" for key, words in groups.items() if shown[key]]
    pairs = shown["open_pairs"]
    notes = [f"{plural(pairs, 'pair')} of agent and arm {'stays' if pairs == 1 else 'stay'} open"] if pairs else []
    if shown["phases"]:
        cost = f"about {plural(shown['samples'], 'sample')} in {plural(shown['phases'], 'phase')}"
        notes.append(f"{cost}, if rewards stay as estimated")
    elif shown["expected"]:
        notes.append("no phase is decided yet, so nothing is known of the cost")
    return "; ".join(parts) + (f" ({'; '.join(notes)})" if notes else "")


def _previewed(name: str, what: str, done: str, description: str) -> click.Command:
    """thaw, open-arm and withdraw-arm: who or `what` draws again, or no more."""
    verb = name.removesuffix("-arm")

    @_change(name, click.argument("whom", metavar=what.upper()), asks=True, help=description)
    def change(client: Client, study: str, whom: str, reason: str, yes: bool) -> None:
        parts = ("studies", study, f"{what}s", whom, verb)
        found = client.request("GET", *parts)
        shown = found["preview"]
        lines = [f"Effect: {shown['effect']}."]
        if shown.get("asked_again"):
            lines.append(f"Asked again: {', '.join(shown['asked_again'])}.")
        lines.append(f"Then: {_projection(shown['projection'])}.")
        _agree(shown, lines, f"{verb.capitalize()} {whom}?", yes=yes)
        _carry_out(client, parts, done, reason=reason, preview=found["digest"])

    return change


@click.command()
@click.argument("study")
@click.option("--name", required=True, help="Your name, as it is to be printed.")
@click.option("--meaning", required=True, help="What the signature says, as in 'approved the protocol'.")
@with_client
def sign(client: Client, study: str, name: str, meaning: str) -> None:
    """Sign STUDY: name, time and meaning go into its log, which the signature covers up to there.

    The command asks for your token again: signing is a deliberate act, not something that a script does with a file.
    """
    token = click.prompt("Your token, once more", hide_input=True)
    parts = ("studies", study, "signatures")
    _carry_out(client, parts, f"Signed by {name}: {meaning}", name=name, meaning=meaning, token=token)


def _reason_command(name: str, description: str) -> click.Command:
    """pause, resume and cancel differ in a word."""

    @_change(name, help=description)
    def change(client: Client, study: str, reason: str) -> None:
        made = client.request("POST", "studies", study, name, json={"reason": reason})
        say(f"{study} is {made['stage']}.")

    return change


CHANGES = (
    close_early,
    amend,
    correct,
    take,
    refuse,
    freeze,
    reweigh,
    _previewed(
        "thaw", "agent", "Thawed", "Ask a frozen AGENT of STUDY again. Shows a preview first; weights stay as they are."
    ),
    _previewed(
        "open-arm",
        "arm",
        "Opened",
        "Open ARM of STUDY, which is dormant or withdrawn. Shows a preview first.",
    ),
    _previewed("withdraw-arm", "arm", "Withdrawn", "Continue STUDY without ARM. Shows a preview first."),
    sign,
    _reason_command("pause", "Accept no report of STUDY until it is resumed."),
    _reason_command("resume", "Continue a paused STUDY where it was."),
    _reason_command("cancel", "Stop STUDY for good, with a certificate of the candidates that remain."),
)
