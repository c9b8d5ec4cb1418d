"""Commands that talk to a coordinator: their options, the client they are given, and how secrets are handed over."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from parley.cli.console import say
from parley.errors import InvalidInput, Unreachable, needs
from parley.files import SECRET, write_whole

if TYPE_CHECKING:
    from parley.agent.client import Client

DEFAULT_SERVER = "http://127.0.0.1:8642"
TOO_FAST = "urn:parley:problem:too-fast"
PAUSE = 1.0  # seconds; the least that a coordinator asks for

Answer = TypeVar("Answer")

reason_option = click.option("--reason", required=True, help="Why; it is kept in the log.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def remote_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--server` and `--token-file`. There is no --token: everybody on the machine can read a command line."""
    server = click.option(
        "--server", default=DEFAULT_SERVER, show_default=True, envvar="PARLEY_SERVER", help="The coordinator's address."
    )
    token = click.option(
        "--token-file",
        type=click.Path(dir_okay=False),
        envvar="PARLEY_TOKEN_FILE",
        help="File that holds the token, or PARLEY_TOKEN_FILE; default: the token in PARLEY_TOKEN.",
    )
    return server(token(function))


def with_client(function: Callable[..., None]) -> Callable[..., None]:
    """The remote options, and a client for the function in their place."""

    @functools.wraps(function)
    def run(*, server: str, token_file: str | None, **values: Any) -> None:
        with connect(server, token_file) as client:
            function(client, **values)

    return remote_options(run)


def connect(server: str, token_file: str | None) -> Client:
    """A client with the token of the file or of the environment."""
    with needs("agent", "talking to a coordinator"):
        from parley.agent.client import Client, read_token
    return Client(server, read_token(token_file))


def paced(call: Callable[[], Answer]) -> Answer:
    """What `call` returns, made again for as long as the coordinator answers that requests come too fast.

    The coordinator refuses such a request before it does anything, so repeating it is safe. After any other failure
    nobody knows what was done, and the error is raised.
    """
    while True:
        try:
            return call()
        except Unreachable as error:
            if error.problem.get("type") != TOO_FAST:
                raise
            time.sleep(PAUSE)


def hand_over(token: str, file: str | None) -> None:
    """Write a token to the file, or show it once where none is named."""
    if file is None:
        say(f"Token (shown once, kept nowhere): {token}")
        return
    write_secret(file, token)
    say(f"Token written to {file}.")


def write_secret(file: str, token: str) -> None:
    """Write a token to a file that only its owner can read, in a line of its own.

    Never through a link: whoever may write in the folder would choose the file that is replaced.
    """
    if Path(file).is_symlink():
        raise InvalidInput("--token-file", found=f"{file}, a link", allowed="a file, or a name that is free")
    write_whole(Path(file), token + "\n", mode=SECRET)
