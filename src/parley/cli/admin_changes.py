"""The part of `parley admin` that changes a running study. Where a change has a preview, it is shown and confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parley.cli.console import confirm, reason_option, say, with_client, yes_option
from parley.errors import InvalidInput
from parley.formatting import number, plural

if TYPE_CHECKING:
    from parley.agent.client import Client
    from parley.protocol import Report

MOST_COLUMNS = 12  # of a re-weighing on a screen
MOST_PAIRS = 12  # of a freeze, or of arms that a correction concerns
CELL = ("count", "sum", "squares")  # columns of a table of corrected arms


def _done(word: str, study: str, made: dict[str, Any]) -> None:
    say(f"{word}. {study} is {made['stage']} in phase {made['phase']}.")


@click.command("close-early")
@click.argument("study")
@reason_option
@yes_option
@with_client
def close_early(client: Client, study: str, reason: str, yes: bool) -> None:
    """Close the phase of STUDY with the reports that are in. What that does is shown first."""
    parts = ("studies", study, "phases", client.status(study)["phase"], "close-early")
    found = client.request("GET", *parts)
    shown = found["preview"]
    say(f"Not waited for: {', '.join(shown['awaited'])}.")
    say(f"Effect: {shown['effect']}.")
    say(f"Guarantee: {shown['guarantee']}.")
    if not yes:
        confirm(f"Close phase {shown['phase']} with what is in?")
    made = client.request("POST", *parts, json={"reason": reason, "preview": found["digest"]})
    _done("Closed", study, made)


@click.command()
@click.argument("study")
@click.argument("agent")
@click.argument("report", type=click.Path(exists=True, dir_okay=False), metavar="REPORT.json")
@reason_option
@with_client
def amend(client: Client, study: str, agent: str, report: str, reason: str) -> None:
    """Put REPORT.json in the place of AGENT's accepted report, while the phase is in progress. Both are kept."""
    from parley.protocol import Report

    message = Report.read(Path(report).read_text(encoding="utf-8"))
    if (message.study, message.agent) != (study, agent):
        raise InvalidInput("report", found=f"{message.agent} of {message.study}", allowed=f"{agent} of {study}")
    parts = ("studies", study, "phases", message.phase, "reports", agent, "amend")
    made = client.request("POST", *parts, json={"reason": reason, "report": message.to_json()})
    _done("Amended", study, made)


@click.command()
@click.argument("study")
@click.option("--agent", required=True, help="Whose report it is.")
@click.option("--phase", required=True, type=click.IntRange(min=1), help="The phase, which was decided.")
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    help="The whole report as it should have been (.json), or a table with the columns arm, count, sum and perhaps "
    "squares; arms that it does not name stay.",
)
@click.option("--arm", help="Or the one arm that was wrong: its numbers as they should have been follow.")
@click.option("--count", type=click.IntRange(min=0), help="Its draws; default: as many as were reported.")
@click.option("--sum", "total", type=float, help="The sum of its rewards.")
@click.option("--squares", type=float, help="The sum of their squares; not needed for rewards of 0 and 1.")
@click.option("--counts-reason", default="", help="Why counts are not the plan's, as in missing-outcomes.")
@reason_option
@yes_option
@with_client
def correct(client: Client, study: str, agent: str, phase: int, reason: str, yes: bool, **given: Any) -> None:
    """Put right what an agent reported in a decided phase of STUDY. What that tells is shown first.

    Both reports are kept, and decisions stand as they were taken. The certificate tells how estimates and evidence
    would read with the corrected report, and whether an answer would change.
    """
    parts = ("studies", study, "phases", phase, "reports", agent)
    report = _corrected_report(client, study, agent, phase, **given)
    found = client.request("POST", *parts, "correct", "preview", json={"report": report.to_json()})
    shown = found["preview"]
    for cell in shown["cells"]:
        before, after = (f"{cell['counts'][i]} draws with the sum {cell['sums'][i]:.6g}" for i in (0, 1))
        say(f"  {cell['arm']}: {after} (was {before})")
    say(f"Effect: {shown['effect']}.")
    for one in shown["other_phases"][:MOST_PAIRS]:
        was, now = (
            f"dropped in phase {one[key]}" if one[key] else "not dropped" for key in ("dropped_in", "with_corrections")
        )
        say(f"  {one['arm']} of {one['agent']}: {now} (was {was})")
    if len(shown["other_phases"]) > MOST_PAIRS:
        say(f"  and {plural(len(shown['other_phases']) - MOST_PAIRS, 'more pair')} of agent and arm")
    say(f"Guarantee: {shown['guarantee']}.")
    if not yes:
        confirm(f"Correct the report of {agent} in phase {phase}?")
    body = {"reason": reason, "preview": found["digest"], "report": report.to_json()}
    _done("Corrected", study, client.request("POST", *parts, "correct", json=body))


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
    if arm is not None:
        if arm not in arms or total is None:
            wrong, allowed = ("--arm", ", ".join(arms)) if arm not in arms else ("--sum", "the sum of its rewards")
            raise InvalidInput(wrong, found=arm if arm not in arms else "nothing", allowed=allowed)
        same = now["report"]["counts"][arms.index(arm)]
        cells = {arms.index(arm): [same if count is None else count, total, *([] if squares is None else [squares])]}
    else:
        assert file is not None
        table = read_table(Path(file).read_bytes(), file, needed=CELL[:2])
        columns = [name for name in CELL if name in table.columns]
        cells = {
            arms.index(arm_in(table, row, arms)): [number_in(table, row, name) for name in columns]
            for row in table.rows
        }
    asked = client.whole_plan(study, phase).draws(status["agent_names"].index(agent))
    report = Report.from_json(now["report"])
    return with_cells(report, cells, asked, zero_one=status["rates"], counts_reason=counts_reason)


def _held_report(client: Client, study: str, agent: str) -> dict[str, Any]:
    """The held report of an agent; shows why it is held."""
    held = client.request("GET", "studies", study, "quarantine", params={"held": True, "limit": 1000})["quarantine"]
    found: list[dict[str, Any]] = [entry for entry in held if entry["report"]["agent"] == agent]
    if not found:
        waiting = sorted(entry["report"]["agent"] for entry in held)
        allowed = f"an agent whose report is held ({', '.join(waiting) or 'none is'})"
        raise InvalidInput("AGENT", found=agent, allowed=allowed)
    report = found[0]["report"]
    say(f"Held in phase {report['phase']}: {found[0]['why']}.")
    say(f"  draws {report['counts']}, sums {report['sums']}")
    return found[0]


@click.command()
@click.argument("study")
@click.argument("agent")
@reason_option
@with_client
def take(client: Client, study: str, agent: str, reason: str) -> None:
    """Accept the report of AGENT in STUDY that is held: somebody looked, and it is right."""
    report = _held_report(client, study, agent)["report"]
    parts = ("studies", study, "phases", report["phase"], "reports", agent, "amend")
    made = client.request("POST", *parts, json={"reason": reason, "report": report})
    _done("Taken", study, made)


@click.command()
@click.argument("study")
@click.argument("agent")
@reason_option
@with_client
def refuse(client: Client, study: str, agent: str, reason: str) -> None:
    """Refuse the report of AGENT in STUDY that is held: the agent is asked for another."""
    entry = _held_report(client, study, agent)
    parts = ("studies", study, "phases", entry["report"]["phase"], "reports", agent, "refuse")
    client.request("POST", *parts, json={"reason": reason, "report": entry["digest"]})
    say(f"Refused. {agent} is asked for another report.")


@click.command()
@click.argument("study")
@click.argument("agent")
@reason_option
@click.option("--reweigh", "anew", is_flag=True, help="And ask everybody else's question anew without it.")
@yes_option
@with_client
def freeze(client: Client, study: str, agent: str, reason: str, anew: bool, yes: bool) -> None:
    """Ask nothing more of AGENT in STUDY. Both ways to go on are shown first: keep the question, or re-weigh."""
    parts = ("studies", study, "agents", agent, "freeze")
    found = client.request("GET", *parts)
    shown = found["preview"]
    _show_pairs(shown["pairs"])
    say(f"Termination: {shown['termination']}.")
    if shown.get("keep"):
        say(f"Keep the question: {_preview_sentence(shown['keep'])}.")
    if shown.get("reweigh"):
        _show_weights(shown["reweigh"])
    elif shown.get("no_reweigh"):
        say(f"Re-weigh: not possible. {shown['no_reweigh']}.")
    say(f"Guarantee: {shown['guarantee']}.")
    if anew and not shown.get("reweigh"):
        raise click.ClickException("nothing was frozen: the others cannot be re-weighed as they are asked")
    if not yes:
        confirm(f"Freeze {agent}?" + (" And re-weigh the others?" if anew else ""))
    made = client.request("POST", *parts, json={"reason": reason, "preview": found["digest"], "reweigh": anew})
    _done("Frozen and re-weighed" if anew else "Frozen", study, made)


@click.command()
@click.argument("study")
@reason_option
@click.option(
    "--column",
    "given",
    type=(str, str),
    multiple=True,
    metavar="AGENT W1,W2,...",
    help="Weights of AGENT's mix, a number for every agent; default: its column without the frozen, normalised.",
)
@yes_option
@with_client
def reweigh(client: Client, study: str, reason: str, given: tuple[tuple[str, str], ...], yes: bool) -> None:
    """Ask STUDY's question anew without its frozen agents. All recorded phases count for it; shown first."""
    columns = {agent: _numbers(agent, text) for agent, text in given}
    found = client.request("POST", "studies", study, "reweigh", "preview", json={"columns": columns})
    shown = found["preview"]
    _show_weights(shown)
    say(f"Effect: {shown['effect']}.")
    say(f"Guarantee: {shown['guarantee']}.")
    if not yes:
        confirm(f"Re-weigh {study}?")
    body = {"reason": reason, "columns": columns, "preview": found["digest"]}
    _done("Re-weighed", study, client.request("POST", "studies", study, "reweigh", json=body))


def _numbers(agent: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput("--column", found=f"{text!r} for {agent}", allowed="numbers, as in 0.5,0,0.5") from None


@click.command()
@click.argument("study")
@click.argument("agent")
@reason_option
@yes_option
@with_client
def thaw(client: Client, study: str, agent: str, reason: str, yes: bool) -> None:
    """Ask AGENT of STUDY again. What that does is shown first; weights stay as they are."""
    parts = ("studies", study, "agents", agent, "thaw")
    found = client.request("GET", *parts)
    shown = found["preview"]
    say(f"Effect: {shown['effect']}.")
    say(f"Then: {_preview_sentence(shown['projection'])}.")
    say(f"Guarantee: {shown['guarantee']}.")
    if not yes:
        confirm(f"Thaw {agent}?")
    made = client.request("POST", *parts, json={"reason": reason, "preview": found["digest"]})
    _done("Thawed", study, made)


def _arm_command(what: str, description: str, done: str) -> click.Command:
    """open-arm and withdraw-arm differ in a word."""

    @click.command(f"{what}-arm", help=description)
    @click.argument("study")
    @click.argument("arm")
    @reason_option
    @yes_option
    @with_client
    def change(client: Client, study: str, arm: str, reason: str, yes: bool) -> None:
        parts = ("studies", study, "arms", arm, what)
        found = client.request("GET", *parts)
        shown = found["preview"]
        say(f"Effect: {shown['effect']}.")
        if shown["asked_again"]:
            say(f"Asked again: {', '.join(shown['asked_again'])}.")
        say(f"Then: {_preview_sentence(shown['projection'])}.")
        say(f"Guarantee: {shown['guarantee']}.")
        if not yes:
            confirm(f"{what.capitalize()} {arm}?")
        made = client.request("POST", *parts, json={"reason": reason, "preview": found["digest"]})
        _done(done, study, made)

    return change


def _show_pairs(pairs: list[dict[str, Any]]) -> None:
    for pair in pairs[:MOST_PAIRS]:
        least = pair["smallest_radius"]
        radius = "no interval at all" if least is None else f"no interval narrower than ± {least:.4g}"
        gap = "" if pair["gap"] is None else f", gap {pair['gap']:.4g}"
        say(f"  {pair['arm']} of {pair['agent']}: {pair['forecast']} ({radius}{gap})")
    if len(pairs) > MOST_PAIRS:
        say(f"  and {plural(len(pairs) - MOST_PAIRS, 'more open pair')} of agent and arm")


def _show_weights(shown: dict[str, Any]) -> None:
    say(f"Re-weigh: {_preview_sentence(shown['projection'])}.")
    for column in shown["columns"][:MOST_COLUMNS]:
        before, after = (", ".join(f"{weight:.3g}" for weight in column[when]) for when in ("before", "after"))
        say(f"  {column['agent']} would weigh {after} (now {before})")
    if len(shown["columns"]) > MOST_COLUMNS:
        say(f"  and {number(len(shown['columns']) - MOST_COLUMNS)} more")
    if shown["withdrawn"]:
        say(f"  the answers of {', '.join(shown['withdrawn'])} would be withdrawn")


def _preview_sentence(shown: dict[str, Any]) -> str:
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


@click.command()
@click.argument("study")
@click.option("--name", required=True, help="Your name, as it is to be printed.")
@click.option("--meaning", required=True, help="What the signature says, as in 'approved the protocol'.")
@with_client
def sign(client: Client, study: str, name: str, meaning: str) -> None:
    """Sign STUDY: name, time and meaning go into its log, which the signature covers up to there.

    Your token is asked for again: signing is an act of its own, not something that a script does with a file.
    """
    token = click.prompt("Your token, once more", hide_input=True)
    made = client.request(
        "POST", "studies", study, "signatures", json={"name": name, "meaning": meaning, "token": token}
    )
    _done(f"Signed by {name}: {meaning}", study, made)


def _reason_command(name: str, description: str) -> click.Command:
    """pause, resume and cancel differ in a word."""

    @click.command(name, help=description)
    @click.argument("study")
    @reason_option
    @with_client
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
    thaw,
    _arm_command(
        "open", "Make ARM of STUDY, dormant or withdrawn, a candidate. What that does is shown first.", "Opened"
    ),
    _arm_command("withdraw", "Go on with STUDY without ARM. What that does is shown first.", "Withdrawn"),
    sign,
    _reason_command("pause", "Accept no report of STUDY until it is resumed."),
    _reason_command("resume", "Go on with STUDY where it was."),
    _reason_command("cancel", "Stop STUDY for good, with a certificate of the candidates that remain."),
)
