"""`parley site`: people one by one; a service with a page, and commands that do one thing each on its journal."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parley.agent.entries import Opened, read_entry
from parley.cli.console import attention, errors, json_option, print_json, say
from parley.cli.remote import connect, remote_options
from parley.errors import InvalidInput, ParleyError, Unreachable, needs
from parley.protocol.codec import read_json
from parley.protocol.report_checks import REASONS

if TYPE_CHECKING:
    from parley.agent.client import Client
    from parley.agent.site import Site

__all__ = ["site_command"]


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which site it is; what is not said is taken from the one journal that is there."""
    for option in (
        click.option(
            "--outbox",
            default="parley-outbox",
            show_default=True,
            type=click.Path(file_okay=False),
            envvar="PARLEY_OUTBOX",
            help="Folder with the site's journal and receipts. Keep it for the whole study; back it up.",
        ),
        click.option("--agent", "name", help="The site's name; default: the one the token is for."),
        click.option("--study", envvar="PARLEY_STUDY", help="The study's id; default: the one in the outbox."),
    ):
        function = option(function)
    return remote_options(function)


class _Place:
    """A site that is open, and the client that goes with it if there is a token."""

    def __init__(self, site: Site, client: Client | None, outbox: str) -> None:
        self.site, self.client, self.outbox = site, client, outbox

    def __enter__(self) -> Site:
        return self.site

    def __exit__(self, *_: object) -> None:
        self.site.close()
        if self.client is not None:
            self.client.close()

    def settle(self) -> None:
        """Report what is ready and fetch what is asked, if the coordinator is there; it never undoes what was done."""
        if self.client is None:
            return
        from parley.agent.courier import hand_over

        try:
            hand_over(self.site, self.client, self.outbox, warn=partial(attention, self.site.agent))
        except Unreachable as error:
            errors.print(f"Not reported yet: {error}. It is kept, and sent the next time.", highlight=False)
        except InvalidInput as error:
            if error.key != "outbox":  # the service holds it, and reports
                raise


def _only_journal(outbox: str, study: str | None, name: str | None) -> Opened:
    """Whose journal is there, if it is one site's."""
    found = []
    for path in sorted(Path(outbox).glob("*/*/journal")):
        first = path.read_bytes().partition(b"\n")[0].partition(b" ")[2]
        entry = read_entry(read_json(first)["entry"]) if first else None
        if isinstance(entry, Opened) and study in (None, entry.study) and name in (None, entry.agent):
            found.append(entry)
    if len(found) != 1:
        raise InvalidInput(
            "--study, --agent",
            found=f"{len(found)} journals in {outbox}",
            allowed="one, or both options",
            hint="Start with `parley site --study STUDY --token-file FILE`",
        )
    return found[0]


def _place(server: str, token_file: str | None, study: str | None, name: str | None, outbox: str) -> _Place:
    """Open the site; the coordinator is asked for what is not known yet, and only then."""
    with needs("agent", "parley site"):
        from parley.agent.courier import site_of
        from parley.agent.site import Site
    client = _client(server, token_file)
    try:
        if client is not None and study is not None and not any(Path(outbox).glob(f"{study}/*/journal")):
            agent = name or client.request("GET", "whoami")["agent"]
            if agent is None:
                raise click.UsageError("the token is not an agent's: name one with --agent")
            return _Place(site_of(outbox, client, study=study, agent=agent), client, outbox)
        known = _only_journal(outbox, study, name)
        return _Place(Site(outbox, study=known.study, agent=known.agent), client, outbox)
    except BaseException:
        if client is not None:
            client.close()
        raise


def _client(server: str, token_file: str | None) -> Client | None:
    """None without a token: the journal alone can do much."""
    try:
        return connect(server, token_file)
    except InvalidInput as error:
        if error.key != "token":
            raise
        return None


@click.group(invoke_without_command=True)
@_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the service listens.")
@click.option("--port", default=8643, show_default=True, help="0 takes any that is free.")
@click.option("--code-file", type=click.Path(dir_okay=False), help="File with the code that the page asks for.")
@click.option("--tls-cert", default="", help="Certificate, for addresses beyond this machine.")
@click.option("--tls-key", default="", help="Its key.")
@click.option("--plain-http", is_flag=True, help="Beyond this machine without TLS: something in front has it.")
@click.pass_context
def site_command(ctx: click.Context, /, host: str, port: int, code_file: str | None, **options: Any) -> None:
    """Run a site: people come one by one, get an arm at once, and their outcomes follow.

    Without a command below it serves a page and an API for the site, on this machine only unless told otherwise.
    Participants' keys and single rewards stand in a journal here and never leave it; the coordinator gets totals.
    """
    security = {key: options.pop(key) for key in ("tls_cert", "tls_key", "plain_http")}
    ctx.obj = options
    if ctx.invoked_subcommand is not None:
        return
    with needs("site", "parley site"):
        from parley.agent.client import read_token
        from parley.site.server import SiteSettings, serve
        from parley.site.station import Station
    code = read_token(code_file) if code_file else ""
    settings = SiteSettings(host=host, port=port, code=code, **security)
    place = _place(**options)
    with place as site:
        if place.client is None:
            raise InvalidInput("token", found="none", allowed="a token in a file, or in PARLEY_TOKEN")
        signal.signal(signal.SIGTERM, _leave)
        serve(Station(site, place.client, place.outbox), settings, _announce)


def _leave(*_: object) -> None:
    raise SystemExit(0)


def _announce(address: str) -> None:
    say(f"Parley site at {address}")


def _sub(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command of the group that takes the same options, before its name or after."""

    def made(function: Callable[..., None]) -> click.Command:
        # A reward may be below 0, which looks like an option.
        @site_command.command(name, help=function.__doc__, context_settings={"ignore_unknown_options": True})
        @click.pass_context
        def run(ctx: click.Context, /, **given: Any) -> None:
            own = {key: given.pop(key) for key in ("server", "token_file", "study", "name", "outbox")}
            for key, value in (ctx.obj or {}).items():
                explicit = ctx.get_parameter_source(key)
                if explicit in (click.core.ParameterSource.DEFAULT, None):
                    own[key] = value
            function(_place(**own), **given)

        run.params = [*getattr(function, "__click_params__", [])[::-1], *_params()]
        return run

    return made


def _params() -> list[click.Parameter]:
    def empty() -> None:
        """Only carries options."""

    carried: list[click.Parameter] = _options(empty).__click_params__  # type: ignore[attr-defined]
    return carried[::-1]


@_sub("assign")
@click.argument("key")
@json_option
def assign(place: _Place, key: str, as_json: bool) -> None:
    """Give the person KEY an arm; the same one for ever."""
    with place as site:
        if site.people.current is None or site.status()["to_assign"] == 0:
            place.settle()
        given = site.assign(key)
        if as_json:
            print_json(given.to_json())
            return
        before = " (given before)" if given.again else ""
        if given.counted or given.arm is not None:
            say(f"{given.participant}: {given.arm}{before}")
        if not given.counted:
            say(f"{given.participant}: outside of the study; this phase needs nobody more")


@_sub("outcome")
@click.argument("key")
@click.argument("reward", type=float)
def outcome(place: _Place, key: str, reward: float) -> None:
    """Note the REWARD of the person KEY; correctable until the phase is reported."""
    with place as site:
        site.outcome(key, reward)
        say(f"{key}: {reward:g} noted")
        place.settle()


@_sub("missing")
@click.argument("key")
def missing(place: _Place, key: str) -> None:
    """Note that no outcome will come of the person KEY."""
    with place as site:
        site.missing(key)
        say(f"{key}: marked as missing")
        place.settle()


@_sub("close")
@click.option("--reason", required=True, type=click.Choice(list(REASONS)), help="Never because of the rewards.")
def close(place: _Place, reason: str) -> None:
    """Assign nobody more in this phase; it is reported when everybody assigned is accounted for."""
    with place as site:
        site.finish(reason)
        say("This site's part of the phase is closed.")
        place.settle()


@_sub("status")
@json_option
def status(place: _Place, as_json: bool) -> None:
    """How far the phase is; nothing in it tells the next arm."""
    with place as site:
        try:
            place.settle()
        except ParleyError as error:
            errors.print(f"The coordinator: {error}", highlight=False)
        shown = site.status()
    if as_json:
        print_json(shown)
        return
    say(f"{shown['agent']} in {shown['study']}: the study is {shown['stage']}")
    if shown["phase"]:
        told = f"phase {shown['phase']}: {shown['asked']} people asked for, {shown['assigned']} assigned, "
        told += f"{shown['observed']} with an outcome, {shown['pending']} awaited, {shown['missing']} missing"
        say(told + (", reported" if shown["reported"] else ""))
