"""The part of `parley admin` that changes a study that runs. What a change does is shown first, and then confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parley.cli.console import screen
from parley.cli.remote import connect, reason_option, remote_options, yes_option
from parley.errors import Conflict, InvalidInput
from parley.formatting import number, plural

if TYPE_CHECKING:
    from parley.agent.client import Client

__all__ = ["CHANGES"]


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


MOST_COLUMNS = 12  # of a re-weighing on a screen
MOST_PAIRS = 12  # of a freeze

columns_option = click.option(
    "--column",
    "given",
    type=(str, str),
    multiple=True,
    metavar="AGENT W1,W2,...",
    help="Weights of AGENT's mix, a number for every agent; default: its column without the frozen, normalised.",
)


@click.command()
@click.argument("study")
@click.argument("agent")
@reason_option
@click.option("--reweigh", "anew", is_flag=True, help="And ask everybody else's question anew without it.")
@yes_option
@remote_options
def freeze(study: str, agent: str, reason: str, anew: bool, yes: bool, server: str, token_file: str | None) -> None:
    """Ask nothing more of AGENT in STUDY. Both ways to go on are shown first: keep the question, or re-weigh."""
    with connect(server, token_file) as client:
        shown = client.request("GET", "studies", study, "agents", agent, "freeze")
        _show_pairs(shown["pairs"])
        _say(f"Termination: {shown['termination']}.")
        if shown["keep"] is not None:
            _say(f"Keep the question: {_prospect(shown['keep'])}.")
        if shown["reweigh"] is not None:
            _show_weights(shown["reweigh"])
        elif shown["no_reweigh"]:
            _say(f"Re-weigh: not possible. {shown['no_reweigh']}.")
        _say(f"Guarantee: {shown['guarantee']}.")
        if anew and shown["reweigh"] is None:
            raise click.ClickException("nothing was frozen: the others cannot be re-weighed as they are asked")
        if not yes:
            click.confirm(f"Freeze {agent}?" + (" And re-weigh the others?" if anew else ""), abort=True)
        body = {"reason": reason, "consequences": shown["digest"]}
        made = client.request("POST", "studies", study, "agents", agent, "freeze", json=body)
        if anew:
            try:
                made = _reweigh(client, study, reason, {}, yes=True)
            except Conflict as refusal:  # the freeze may have been what the study's end waited for
                _say(f"Frozen. {study} is {made['stage']} in phase {made['phase']}.")
                raise Conflict(f"not re-weighed: {refusal}", refusal.problem) from None
    _say(f"Frozen{' and re-weighed' if anew else ''}. {study} is {made['stage']} in phase {made['phase']}.")


@click.command()
@click.argument("study")
@reason_option
@columns_option
@yes_option
@remote_options
def reweigh(
    study: str, reason: str, given: tuple[tuple[str, str], ...], yes: bool, server: str, token_file: str | None
) -> None:
    """Ask STUDY's question anew without its frozen agents. All recorded phases count for it; shown first."""
    columns = {agent: _numbers(agent, text) for agent, text in given}
    with connect(server, token_file) as client:
        made = _reweigh(client, study, reason, columns, yes=yes)
    _say(f"Re-weighed. {study} is {made['stage']} in phase {made['phase']}.")


def _numbers(agent: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput("--column", found=f"{text!r} for {agent}", allowed="numbers, as in 0.5,0,0.5") from None


def _reweigh(client: Client, study: str, reason: str, columns: dict[str, list[float]], *, yes: bool) -> Any:
    shown = client.request("POST", "studies", study, "reweigh", "preview", json={"columns": columns})
    if not yes:
        _show_weights(shown)
        _say(f"Effect: {shown['effect']}.")
        _say(f"Guarantee: {shown['guarantee']}.")
        click.confirm(f"Re-weigh {study}?", abort=True)
    body = {"reason": reason, "columns": columns, "consequences": shown["digest"]}
    return client.request("POST", "studies", study, "reweigh", json=body)


@click.command()
@click.argument("study")
@click.argument("agent")
@reason_option
@yes_option
@remote_options
def thaw(study: str, agent: str, reason: str, yes: bool, server: str, token_file: str | None) -> None:
    """Ask AGENT of STUDY again. What that does is shown first; weights stay as they are."""
    with connect(server, token_file) as client:
        shown = client.request("GET", "studies", study, "agents", agent, "thaw")
        _say(f"Effect: {shown['effect']}.")
        _say(f"Then: {_prospect(shown['prospect'])}.")
        _say(f"Guarantee: {shown['guarantee']}.")
        if not yes:
            click.confirm(f"Thaw {agent}?", abort=True)
        body = {"reason": reason, "consequences": shown["digest"]}
        made = client.request("POST", "studies", study, "agents", agent, "thaw", json=body)
    _say(f"Thawed. {study} is {made['stage']} in phase {made['phase']}.")


def _show_pairs(pairs: list[dict[str, Any]]) -> None:
    for pair in pairs[:MOST_PAIRS]:
        radius = "no interval at all" if pair["smallest_radius"] is None else f"at best ± {pair['smallest_radius']:.4g}"
        gap = "" if pair["gap"] is None else f", gap {pair['gap']:.4g}"
        _say(f"  {pair['arm']} of {pair['agent']}: {pair['outlook']} ({radius}{gap})")
    if len(pairs) > MOST_PAIRS:
        _say(f"  and {number(len(pairs) - MOST_PAIRS)} more open pairs of agent and arm")


def _show_weights(shown: dict[str, Any]) -> None:
    _say(f"Re-weigh: {_prospect(shown['prospect'])}.")
    for column in shown["columns"][:MOST_COLUMNS]:
        before, after = (", ".join(f"{weight:.3g}" for weight in column[when]) for when in ("before", "after"))
        _say(f"  {column['agent']} would weigh {after} (now {before})")
    if len(shown["columns"]) > MOST_COLUMNS:
        _say(f"  and {number(len(shown['columns']) - MOST_COLUMNS)} more")
    if shown["withdrawn"]:
        _say(f"  the answers of {', '.join(shown['withdrawn'])} would be withdrawn")


def _prospect(shown: dict[str, Any]) -> str:
    """A `Prospect` in a sentence."""
    told = {
        "answered": "have an answer",
        "expected": "are expected to get one",
        "without": "would not get one",
        "left": "would leave without one",
    }
    parts = [f"{', '.join(shown[key])} {words}" for key, words in told.items() if shown[key]]
    cost = (
        f"about {number(shown['samples'])} samples in {plural(shown['phases'], 'phase')}, if rewards stay as estimated"
    )
    open_pairs = f"{shown['open_pairs']} arms stay open; " if shown["open_pairs"] else ""
    return "; ".join(parts) + f" ({open_pairs}{cost})"


def _say(words: str) -> None:
    screen.print(words, highlight=False, markup=False, soft_wrap=True)


@click.command("cut-phase")
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


@click.command()
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


def _moving(name: str, words: str) -> click.Command:
    """pause, resume and cancel differ in a word."""

    @click.command(name, help=words)
    @click.argument("study")
    @reason_option
    @remote_options
    def move(study: str, reason: str, server: str, token_file: str | None) -> None:
        with connect(server, token_file) as client:
            made = client.request("POST", "studies", study, name, json={"reason": reason})
        screen.print(f"{study} is {made['stage']}.", highlight=False)

    return move


CHANGES = (
    cut_phase,
    amend,
    take,
    refuse,
    freeze,
    reweigh,
    thaw,
    _moving("pause", "Take no report of STUDY until it is resumed."),
    _moving("resume", "Go on with STUDY where it was."),
    _moving("cancel", "Stop STUDY for good, with a certificate of the candidates that remain."),
)
