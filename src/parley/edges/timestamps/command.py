"""`parley admin timestamp`: have an authority stamp the log of a study."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from parley.cli.console import say, with_client, write_page
from parley.edges.timestamps.rfc3161 import ask_stamp, read_response
from parley.protocol import Record

if TYPE_CHECKING:
    from parley.agent.client import Client


@click.command()
@click.argument("study")
@click.option("--authority", required=True, metavar="URL", help="Address of the RFC 3161 authority.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False),
    help="Keep the stamp in this file, for `parley verify --stamp`, not beside the log; auditors may do this too.",
)
@with_client
def timestamp_command(client: Client, study: str, authority: str, output: str | None) -> None:
    """Have an authority stamp the log of STUDY, so that `parley verify` detects if the log is cut or rewritten later.

    The authority learns only the hash of the last record.
    """
    found = client.request("GET", "studies", study, "log", params={"limit": 1, "newest_first": True})
    stamp = asyncio.run(ask_stamp(authority, Record.from_json(found["records"][0])))
    if output is None:
        client.request("POST", "studies", study, "stamps", json=stamp.to_json())
    else:
        write_page(output, stamp.text + "\n")
    when = read_response(stamp).tst_info.gen_time
    say(f"{stamp.authority} stamped record {stamp.sequence} of {study} at {when:%Y-%m-%d %H:%M:%S} UTC.")
    say(f"Check it: parley verify LOG {f'--stamp {output} ' if output else ''}--stamp-ca CERTIFICATES")
