"""Options and helpers for commands that talk to a coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from parley.cli.console import screen
from parley.errors import Unreachable, needs
from parley.files import SECRET, write_whole

if TYPE_CHECKING:
    from parley.agent.client import Client

__all__ = [
    "DEFAULT_SERVER",
    "connect",
    "hand_over",
    "paced",
    "reason_option",
    "remote_options",
    "write_secret",
    "yes_option",
]

DEFAULT_SERVER = "http://127.0.0.1:8642"
TOO_FAST = "urn:parley:problem:too-fast"
PAUSE = 1.0  # seconds; the least that a coordinator asks for

Answer = TypeVar("Answer")

reason_option = click.option("--reason", required=True, help="Why; it is kept in the log.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask: the consequences were looked at.")


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


def paced(call: Callable[[], Answer]) -> Answer:
    """What `call` returns, made again for as long as the coordinator finds it too fast.

    That is refused before anything is done, so again is safe; after any other trouble it is not known what was done.
    """
    while True:
        try:
            return call()
        except Unreachable as error:
            if error.problem.get("type") != TOO_FAST:
                raise
            time.sleep(PAUSE)


def hand_over(token: str, file: str | None) -> None:
    """A token, to a file if one is named."""
    if file is None:
        screen.print(f"Token (shown once, kept nowhere): {token}", highlight=False, soft_wrap=True)
        return
    write_secret(file, token)
    screen.print(f"Token written to {file}.", highlight=False, soft_wrap=True)


def write_secret(file: str, token: str) -> None:
    """A token, in a line of its own."""
    write_whole(Path(file), token + "\n", mode=SECRET)
