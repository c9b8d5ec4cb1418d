"""Options that every command shares which talks to a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from parley.cli.extras import needs

if TYPE_CHECKING:
    from parley.agent.client import Client

__all__ = ["DEFAULT_SERVER", "connect", "remote_options"]

DEFAULT_SERVER = "http://127.0.0.1:8642"


def remote_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--server` and `--token-file`. There is no --token: a command line can be read by everybody on the machine."""
    server = click.option(
        "--server", default=DEFAULT_SERVER, show_default=True, envvar="PARLEY_SERVER", help="The coordinator's address."
    )
    token = click.option(
        "--token-file",
        type=click.Path(dir_okay=False),
        envvar="PARLEY_TOKEN_FILE",
        help="File that holds the token; default: the environment variable PARLEY_TOKEN.",
    )
    return server(token(function))


def connect(server: str, token_file: str | None) -> Client:
    """A client with the token of the file or of the environment."""
    with needs("agent", "talking to a coordinator"):
        from parley.agent.client import Client, read_token
    return Client(server, read_token(token_file))
