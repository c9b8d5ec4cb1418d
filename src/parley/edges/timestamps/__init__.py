"""RFC 3161 time stamps of logs: request them and check their signatures.

`verify_log` compares stamps with a log even without this edge, but cannot check who signed them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.hooks import Command, Edge

if TYPE_CHECKING:
    from datetime import datetime

    import click

    from parley.coordinator.http.context import Context, Service
    from parley.coordinator.http.guard import Operation
    from parley.coordinator.settings import EdgeSettings
    from parley.protocol import Stamp


class Timestamps(Edge):
    """Adds a setting of the server, an API operation, a command, an option of `verify`, and a background service."""

    name = "timestamps"
    summary = "time stamps of logs: admin timestamp, serve --timestamp-authority, verify --stamp-ca"
    docs = "audit.md#time-stamps"
    extras = (("timestamps", summary),)
    commands = (
        Command(
            name="admin timestamp",
            target="parley.edges.timestamps.command:timestamp_command",
            help="Have an authority stamp the log of a study.",
        ),
    )

    def options(self, command: str) -> Sequence[click.Option]:
        import click

        if command != "verify":
            return ()
        words = "Certificates (PEM) of the time stamp authority: its stamps are checked, and others count for nothing."
        return (click.Option(["--stamp-ca"], type=click.Path(exists=True, dir_okay=False), help=words),)

    def judge_of_stamps(self, options: Mapping[str, Any]) -> Callable[[Stamp], datetime] | None:
        if options["stamp_ca"] is None:
            return None
        from parley.edges.timestamps.rfc3161 import judge

        return judge(Path(options["stamp_ca"]))

    def server_settings(self) -> type[EdgeSettings]:
        from parley.edges.timestamps.service import StampSettings

        return StampSettings

    def operations(self) -> Sequence[Operation]:
        from parley.edges.timestamps.service import OPERATIONS

        return OPERATIONS

    def service(self, context: Context) -> Service:
        from parley.edges.timestamps.service import Stamper

        return Stamper(context)


edge = Timestamps()
