"""What the commands share: consoles, tables, progress bars, confirmations, options, and access to a coordinator."""

from __future__ import annotations

import functools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text

from parley.errors import InvalidInput, Unreachable, needs
from parley.experiments.report_kit.tables import Table
from parley.hooks import commands_of_edges, edges
from parley.policies import POLICIES
from parley.system.files import SECRET, write_whole
from parley.text.formatting import printable

if TYPE_CHECKING:
    from parley.agent.client import Client
    from parley.agent.network import Network


class SafeConsole(Console):
    """A console that spells out control codes in text, since names and answers come from other people."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


# Names of studies, arms and agents are users' text: square brackets in them are not Rich markup.
screen = SafeConsole(markup=False, emoji=False)
errors = SafeConsole(stderr=True, markup=False, emoji=False)

study_argument = click.argument("study", type=click.Path(dir_okay=False), metavar="STUDY")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
seed_option = click.option("--seed", default=0, show_default=True, help="The same seed gives the same numbers.")
policy_option = click.option(
    "--policy",
    metavar="NAME",
    help=f"One of {', '.join(sorted(POLICIES))}, or of an installed package; default: the study's own.",
)


def output_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the option `--output`, for the file of an HTML page."""
    return click.option(
        "--output",
        default=default,
        show_default=True,
        type=click.Path(dir_okay=False),
        help="File to write the page to.",
    )


class EdgeGroup(click.Group):
    """A command group that edges can extend."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *commands_of_edges(self._group)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        further = commands_of_edges(self._group) if own is None else {}
        return further[cmd_name].load() if cmd_name in further else own

    @property
    def _group(self) -> str:
        return (self.name or "").removesuffix("-command")


def edge_options(name: str) -> Callable[[C], C]:
    """Add the options of edges to a command, whose function gets their values as a dictionary `edges`."""

    def add(command: C) -> C:
        options = [option for edge in edges() for option in edge.options(name)]
        called = command.callback
        assert called is not None
        command.params.extend(options)

        @functools.wraps(called)
        def gathered(*arguments: Any, **values: Any) -> Any:
            chosen = {option.name: values.pop(option.name) for option in options if option.name is not None}
            return called(*arguments, edges=chosen, **values)

        command.callback = gathered
        return command

    return add


def outbox_option(description: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the option `--outbox`, for the folder in which an agent or site stores its work."""
    return click.option(
        "--outbox",
        default="parley-outbox",
        show_default=True,
        type=click.Path(file_okay=False),
        envvar="PARLEY_OUTBOX",
        help=description,
    )


def say(text: str) -> None:
    """Print one line without colours, and without wrapping it, so that it can be copied."""
    screen.print(text, highlight=False, soft_wrap=True)


def show_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of texts with a title and column heads."""
    screen.print(Table.of_text(title, head, rows))


def confirm(question: str) -> None:
    """Ask the user to confirm; without a yes, say that nothing was done and exit with status 1."""
    if not click.confirm(printable(question)):
        say("Nothing was done.")
        raise click.exceptions.Exit(1)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON object on standard output, and nothing else."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


@dataclass(frozen=True)
class Advance:
    """Moves a progress bar: call it with the number of newly finished items. `announce` shows the current work."""

    progress: Progress
    task: TaskID
    label: str

    def __call__(self, done: int) -> None:
        self.progress.advance(self.task, done)

    def announce(self, what: str) -> None:
        self.progress.update(self.task, description=printable(f"{self.label}: {what}"))


@contextmanager
def progress_bar(label: str, total: int, *, hidden: bool = False) -> Iterator[Advance]:
    """Show a progress bar with the remaining time on standard error; yields the function that advances it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    shown = Progress(*columns, console=errors, transient=True, disable=hidden or not errors.is_terminal)
    with _terminated(), shown as progress:
        task = progress.add_task(label, total=total)
        yield Advance(progress, task, label)


class Terminated(BaseException):
    """SIGTERM arrived while a command was running. The command cleans up and prints a message, as after any error."""


@contextmanager
def _terminated() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM, which by default ends a process silently and without cleaning up."""
    # Python lets only the main thread set signal handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ended(_number: int, _frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, ended)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def checked_output(output: str, option: str = "--output") -> None:
    """Raise if a page cannot be written to this file. Call this before long work that would be lost otherwise."""
    folder = Path(output).resolve().parent
    if not folder.is_dir() or Path(output).is_dir():
        raise InvalidInput(option, found=output, allowed="a file in a folder that exists")


def write_page(output: str, text: str, option: str = "--output") -> Path:
    """Write a page to the user's file; raise `InvalidInput` with the reason if that is impossible."""
    path = Path(output)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(option, found=f"{path}: {error.strerror}", allowed="a file that can be written") from None
    return path


def warn(text: str) -> None:
    """Print a warning on standard error, so that it is visible even if the output is redirected."""
    errors.print(Text(f"Warning: {text}", style="bold yellow"), soft_wrap=True)


def attention(agent: str, words: str) -> None:
    """Print a prominent message on standard error, about something that a person must act on."""
    errors.print(Text(f"{agent}: ATTENTION: {words}", style="bold red"), soft_wrap=True)


DEFAULT_SERVER = "http://127.0.0.1:8642"
NETWORK = "parley.network"  # key of the network options in the context
TOO_FAST = "urn:parley:problem:too-fast"
PAUSE = 1.0  # seconds: the shortest wait that a coordinator asks for

Answer = TypeVar("Answer")
C = TypeVar("C", bound=click.Command)

reason_option = click.option("--reason", required=True, help="The reason, which is kept in the log.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def remote_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--server` and `--token-file`, and the options for proxy and certificates.

    There is no `--token`, because everybody on the machine can read command lines.
    """
    server = click.option(
        "--server", default=DEFAULT_SERVER, show_default=True, envvar="PARLEY_SERVER", help="The coordinator's address."
    )
    token = click.option(
        "--token-file",
        type=click.Path(dir_okay=False),
        envvar="PARLEY_TOKEN_FILE",
        help="File that holds the token, or PARLEY_TOKEN_FILE; default: the token in PARLEY_TOKEN.",
    )
    return server(token(network_options(function)))


def network_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for proxy and certificates. Their values go into the context, from which `connect` takes them."""

    def keep(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
        chosen, name = ctx.meta.setdefault(NETWORK, {}), option.name or ""
        typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if value is not None and (typed or name not in chosen):  # a group's own option takes precedence over a variable
            chosen[name] = value

    for name, description in (
        ("--client-key", "Key of the client certificate (PEM), unless it is in the same file."),
        ("--client-cert", "Client certificate (PEM), if the coordinator requires one."),
        ("--ca-file", "Authorities (PEM) to trust instead of the system's, such as a private one."),
        (
            "--proxy",
            "Proxy, or `none`; default: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY. Passwords: PARLEY_PROXY.",
        ),
    ):
        variable = f"PARLEY_{name.removeprefix('--').replace('-', '_').upper()}"
        kind = {"metavar": "URL"} if name == "--proxy" else {"type": click.Path(dir_okay=False)}
        option = click.option(name, envvar=variable, expose_value=False, callback=keep, help=description, **kind)
        function = option(function)
    return function


def with_client(function: Callable[..., None]) -> Callable[..., None]:
    """Add the remote options to a command, and pass its function a client instead of their values."""

    @functools.wraps(function)
    def run(*, server: str, token_file: str | None, **values: Any) -> None:
        with connect(server, token_file) as client:
            function(client, **values)

    return remote_options(run)


def connect(server: str, token_file: str | None) -> Client:
    """Make a client with the token from the file or the environment, and the network options."""
    with needs("agent", "talking to a coordinator"):
        from parley.agent.client import Client, read_token
    return Client(server, read_token(token_file), network=chosen_network())


def connect_strata(server: str, token_file: str | None) -> dict[str, Client]:
    """Make a client for every token in a site's file; returns agent -> client, with "" for a token without a name."""
    with needs("agent", "talking to a coordinator"):
        from parley.agent.client import Client, read_tokens
    network = chosen_network()
    return {agent: Client(server, token, network=network) for agent, token in read_tokens(token_file).items()}


def chosen_network() -> Network:
    """The proxy and certificates that the current command's options name."""
    from parley.agent.network import Network

    ctx = click.get_current_context(silent=True)
    return Network(**ctx.meta.get(NETWORK, {}) if ctx else {})


def paced(call: Callable[[], Answer]) -> Answer:
    """Repeat `call` while the coordinator says that requests come too fast, and return its result.

    The coordinator refuses such a request before doing anything, so repeating it is safe. Any other error is raised,
    because it is then unknown what the coordinator did.
    """
    while True:
        try:
            return call()
        except Unreachable as error:
            if error.problem.get("type") != TOO_FAST:
                raise
            time.sleep(PAUSE)


def hand_over(secret: str, file: str | None, *, what: str = "Token", kept: str = ", stored nowhere") -> None:
    """Write a token or another secret to a file, or print it if no file is named."""
    if file is None:
        say(f"{what} (shown once{kept}): {secret}")
        return
    write_secret(file, secret)
    say(f"{what} written to {file}.")


def write_secret(file: str, token: str) -> None:
    """Write a token, as a single line, to a file that only its owner can read.

    A symbolic link is refused: otherwise anyone who can write to the folder could choose which file is replaced.
    """
    if Path(file).is_symlink():
        raise InvalidInput("--token-file", found=f"{file}, a link", allowed="a file, or a name that is free")
    write_whole(Path(file), token + "\n", mode=SECRET)
