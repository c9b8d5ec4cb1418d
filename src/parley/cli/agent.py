"""`parley agent`: what a site runs."""

from __future__ import annotations

from functools import cache

import click

from parley.cli.console import (
    attention,
    outbox_option,
    say,
)
from parley.cli.remote import connect, remote_options
from parley.errors import needs
from parley.protocol import Report

__all__ = ["agent_command"]


@click.command()
@remote_options
@click.option("--study", required=True, help="The study's id.")
@click.option("--agent", "name", help="The agent's name; default: the one the token is for.")
@click.option(
    "--source",
    required=True,
    metavar="SOURCE",
    help="python:MODULE:FUNCTION, 'command:PROGRAM ARGUMENTS', csv:FILE or simulate:STUDY.toml",
)
@click.option("--seed", default=0, show_default=True, help="Seed of a simulated source.")
@outbox_option("Folder that remembers what was drawn and acknowledged. Keep it for the whole study.")
@click.option(
    "--draw-again",
    type=click.IntRange(min=1),
    metavar="PHASE",
    help="Draw a phase again that was begun and interrupted. Only if nothing of it was spent or seen.",
)
def agent_command(
    server: str,
    token_file: str | None,
    study: str,
    name: str | None,
    source: str,
    seed: int,
    outbox: str,
    draw_again: int | None,
) -> None:
    """Take part in a study: fetch the plan, draw, report, keep the receipt, until the study is over.

    \b
    Sources:
      python:m:f          f(arm, count) of the module m returns that many rewards
      command:prog args   prog args ARM COUNT prints that many rewards
      csv:file            columns arm, reward and perhaps id; rows are added; each is used once
      simulate:study.toml rewards from the file's [truth] and --seed

    You may stop or kill it at any moment and start it again: nothing is drawn twice or reported twice.
    """
    with needs("agent", "parley agent"):
        from parley.agent.outbox import Outbox
        from parley.agent.sources import make_source
        from parley.agent.worker import Worker, persistent
    with connect(server, token_file) as client:
        agent = name if name is not None else persistent(client.whoami, lambda words: say(f"agent: {words}"))
        if agent is None:
            raise click.UsageError("the token is not an agent's: name one with --agent")

        with Outbox(outbox, study=study, agent=agent) as box:
            if draw_again is not None:
                box.draw_again(draw_again)

            @cache
            def taken(phase: int) -> Report | None:
                """What an earlier phase drew; a new outbox does not know, the coordinator does."""
                return box.report(phase) or client.report(study, phase, agent)

            drawn_by = make_source(
                source,
                seed=seed,
                taken=taken,
                memory=box,
                whole_plan=lambda phase: client.whole_plan(study, phase).quotas,
            )
            worker = Worker(
                client,
                box,
                drawn_by,
                say=lambda words: say(f"{agent}: {words}"),
                warn=lambda words: attention(agent, words),
            )
            last = worker.run()
    say(f"{agent}: the study {study} is {last.stage}.")
