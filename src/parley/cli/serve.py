"""`parley serve`: run the coordinator."""

from typing import Any

import click

from parley.cli.console import say
from parley.errors import needs

with needs("server", "parley serve"):
    from parley.coordinator.settings import ServerSettings
    from parley.service.server import serve


def _options(function: Any) -> Any:
    """Add an option for every setting, from the table that also feeds docs and validation."""
    # As with decorators, the option that is added last comes first in the help, so add them in reverse.
    for entry in reversed(ServerSettings.describe()):
        name, default = f"--{entry['name'].replace('_', '-')}", entry["default"]
        flag = {"is_flag": True} if isinstance(default, bool) else {"type": type(default)}
        option = click.option(
            name, default=default, show_default=default != "", envvar=entry["variable"], help=entry["help"], **flag
        )
        function = option(function)
    return function


@click.command()
@_options
def serve_command(**settings: Any) -> None:
    """Run the coordinator of live studies.

    Prepare its database first: `parley admin init`. Every option can also be set by an environment variable: PARLEY_DB
    for --db, and so on. Logs are JSON lines on standard error. Stop the coordinator with Ctrl-C or SIGTERM: everything
    that it acknowledged is on disk.
    """
    chosen = ServerSettings.read(**settings)

    def announce(address: str) -> None:
        say(f"Parley coordinator at {address}")

    serve(chosen, announce)
