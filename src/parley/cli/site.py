"""Commands for sites: `parley agent` draws and reports, and `parley site` is for people who come one by one."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from parley.agent.journal import journals_in
from parley.cli.console import (
    attention,
    connect,
    connect_strata,
    edge_options,
    errors,
    json_option,
    outbox_option,
    print_json,
    remote_options,
    say,
)
from parley.errors import InvalidInput, NotNow, ParleyError, SimilarKey, Unreachable, needs
from parley.protocol import Report
from parley.protocol.report_checks import CLOSING_REASONS
from parley.system.files import SECRET, write_whole
from parley.text.formatting import plural

if TYPE_CHECKING:
    from parley.agent.client import Client
    from parley.agent.outbox import Outbox
    from parley.agent.site import Site
    from parley.agent.strata import Strata

_policy_option = click.option(
    "--policy",
    type=click.Path(dir_okay=False),
    envvar="PARLEY_POLICY",
    help="File with the site's own policy: smallest_cell, largest_rho, studies, hold.",
)
_corrected_option = click.option(
    "--output", default="corrected.json", show_default=True, help="Where a corrected report is written."
)


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that identify a site; the journal supplies omitted ones if the outbox has only one site."""
    for option in (
        outbox_option("Folder with the site's journal and receipts. Keep it for the whole study; back it up."),
        click.option("--agent", "name", help="The site's name; default: the one the token is for."),
        click.option("--study", envvar="PARLEY_STUDY", help="The study's id; default: the one in the outbox."),
        click.option("--stratum", help="The stratum, if the site has several and the command is about one of them."),
        _policy_option,
    ):
        function = option(function)
    return remote_options(function)


@dataclass(frozen=True)
class _OpenSite:
    """A site's open journals, one per stratum, and a client for each stratum that has a token."""

    strata: Strata
    clients: Mapping[str, Client | None]  # by agent; None without a token
    outbox: str
    chosen: str = ""  # the stratum named by the options

    @property
    def site(self) -> Site:
        """The journal of the stratum named by the options, or the only journal."""
        return self.strata.named(self.chosen)

    @property
    def ready(self) -> bool:
        """Whether every stratum has a plan and needs people."""
        return all(site.people.current and site.status()["to_assign"] for site in self.strata.sites)

    def settle(self) -> None:
        """Report complete phases and fetch the next plan. If the coordinator does not answer, only print that."""
        for site in self.strata.sites:
            self._settle(site, self.clients[site.agent])

    def _settle(self, site: Site, client: Client | None) -> None:
        if (at := site.sends_at) is not None and not site.due:
            phase = site.status()["phase"]
            words = f"it is reported after {at:%Y-%m-%d %H:%M} UTC, or now by `parley site send {phase}`"
            errors.print(f"Phase {phase} is complete; {words}.", highlight=False)
        if client is None:
            if site.due:
                errors.print(
                    "Not reported, because no token is given (--token-file, or PARLEY_TOKEN). The phase is kept, and "
                    "will be reported by the next command that has a token, or by the service.",
                    highlight=False,
                )
            return
        from parley.agent.reporting import hand_over

        try:
            hand_over(site, client, self.outbox, warn=partial(attention, site.agent))
        except Unreachable as error:
            errors.print(
                f"Not reported yet: {error}. The report is kept, and will be sent the next time.", highlight=False
            )
        except InvalidInput as error:
            if error.key != "outbox":  # the running service has the outbox open, and will report
                raise


def _strata_of(sites: Sequence[Site], outbox: str, name: str | None) -> Strata:
    """The strata of one site: the site that the agent `name` belongs to, or the only site in the outbox."""
    from parley.agent.strata import Strata, by_site

    fitting = [there for there in by_site(sites) if name is None or name in {site.agent for site in there}]
    if len(fitting) != 1:
        raise InvalidInput(
            "--study, --agent",
            found=f"{sum(map(len, fitting))} journals in {outbox}",
            allowed="those of one site, or both options",
            hint="Start with `parley site --study STUDY --token-file FILE`",
        )
    return Strata(fitting[0])


@contextmanager
def _open_site(
    server: str,
    token_file: str | None,
    study: str | None,
    name: str | None,
    outbox: str,
    policy: str | None,
    stratum: str | None,
) -> Iterator[_OpenSite]:
    """Open the journals of a site. Rules come from the coordinator only for agents that have no journal yet."""
    with needs("agent", "parley site"):
        from parley.agent.privacy import SitePolicy
        from parley.agent.reporting import site_of
        from parley.agent.site import Site
    own = SitePolicy.load(policy) if policy else None
    try:
        clients = connect_strata(server, token_file)
    except InvalidInput as error:
        if error.key != "token":
            raise
        clients = {}  # no token is fine: most commands need only the journals
    with ExitStack() as stack:
        for client in clients.values():
            stack.enter_context(client)
        known = journals_in(outbox, study)
        sites: list[Site] = []
        # Open the named agent first: its journal says whether the other agents may be strata of the same site.
        for one in sorted(known, key=lambda one: one.agent != name):
            if name != one.agent and name is not None and not any(site.rules.place for site in sites):
                continue
            sites.append(stack.enter_context(Site(outbox, study=one.study, agent=one.agent, policy=own)))
        if study is not None and clients and (not known or "" not in clients):
            only = clients.get("")
            if only is not None and (agent := name or only.request("GET", "whoami")["agent"]) is not None:
                clients = {agent: only}
            if "" in clients:
                raise click.UsageError("this is not an agent's token: name the agent with --agent")
            for agent in sorted(clients.keys() - {one.agent for one in known}):
                made = site_of(outbox, clients[agent], study=study, agent=agent, policy=own)
                sites.append(stack.enter_context(made))
        strata = _strata_of(sites, outbox, name or next((agent for agent in clients if agent), None))
        chosen = stratum or next((site.stratum for site in strata.sites if site.agent == name), "")
        unnamed = clients.get("") if len(strata.sites) == 1 else None
        mine = {site.agent: clients.get(site.agent, unnamed) for site in strata.sites}
        yield _OpenSite(strata, mine, outbox, chosen)


@edge_options("site")
@click.group(invoke_without_command=True)
@_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the service listens.")
@click.option("--port", default=8643, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option("--code-file", type=click.Path(dir_okay=False), help="File with the access code of the page.")
@click.option("--tls-cert", default="", help="Certificate, for addresses beyond this machine.")
@click.option("--tls-key", default="", help="Key of the certificate.")
@click.option("--plain-http", is_flag=True, help="Serve other machines without TLS: only behind a TLS proxy.")
@click.pass_context
def site_command(ctx: click.Context, /, host: str, port: int, code_file: str | None, **options: Any) -> None:
    """Run a site: people come one by one, get an arm at once, and their outcomes follow later.

    Without one of the commands below, serve a page and an API for the site, on this machine only unless --host says
    otherwise. Participants' keys and individual rewards stay in a journal on this machine; only totals are reported.
    """
    served = {key: options.pop(key) for key in ("tls_cert", "tls_key", "plain_http")}
    served["options"] = options.pop("edges")
    ctx.obj = options
    if ctx.invoked_subcommand is not None:
        return
    with needs("site", "parley site"):
        from parley.agent.client import read_token
        from parley.agent.reporting import SiteRuntime
        from parley.site.app import SiteSettings, serve
    code = read_token(code_file) if code_file else ""
    settings = SiteSettings(host=host, port=port, code=code, **served)
    with _open_site(**options) as opened:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        runtimes = []
        for site in opened.strata.sites:
            if (client := opened.clients[site.agent]) is None:
                allowed = "a token in a file, or in PARLEY_TOKEN; of several strata each in a line of the file"
                raise InvalidInput("token", found=f"none for {site.agent!r}", allowed=allowed)
            runtimes.append(SiteRuntime(site, client, opened.outbox))
        serve(runtimes, settings, lambda address: say(f"Parley site at {address}"))


def _with_site(function: Callable[..., None]) -> Callable[..., None]:
    """Let a command accept the group's options too, and pass its function the open site instead of their values.

    `parley site --study S assign KEY` and `parley site assign KEY --study S` mean the same.
    """

    @click.pass_context
    @wraps(function)
    def run(ctx: click.Context, /, **values: Any) -> None:
        chosen = dict(ctx.obj)
        for key in ctx.obj:
            value = values.pop(key)
            if ctx.get_parameter_source(key) is ParameterSource.COMMANDLINE:
                chosen[key] = value
        with _open_site(**chosen) as opened:
            function(opened, **values)

    return _options(run)


@site_command.command()
@click.argument("key")
@click.option("--somebody-else", is_flag=True, help="KEY looks like a known key, but is another person.")
@click.option("--covariate", type=float, help="The study's covariate of this person, known before the assignment.")
@click.option("--without-covariate", is_flag=True, help="The covariate of this person is not known.")
@click.option("--eligible", is_flag=True, help="All eligibility questions of the study were answered yes.")
@json_option
@_with_site
def assign(
    opened: _OpenSite,
    key: str,
    somebody_else: bool,
    covariate: float | None,
    without_covariate: bool,
    eligible: bool,
    as_json: bool,
) -> None:
    """Assign the person KEY an arm. The same key always gets the same arm."""
    if not opened.ready:
        opened.settle()
    more: dict[str, Any] = {"covariate": covariate, "without_covariate": without_covariate, "eligible": eligible}
    try:
        given = opened.strata.assign(key, opened.chosen, somebody_else=somebody_else, **more)
    except SimilarKey as error:
        raise NotNow(f"{error} (--somebody-else)") from None
    if as_json:
        print_json(given.to_json())
        return
    before = " (given before)" if given.again else ""
    if given.counted or given.shown is not None:
        say(f"{given.participant}: {'kit ' if given.kit else ''}{given.shown}{before}")
    if not given.counted:
        say(f"{given.participant}: outside the study; this phase needs no more people")


@site_command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False), required=False)
@json_option
@_with_site
def kits(opened: _OpenSite, file: str | None, as_json: bool) -> None:
    """Add the kits in FILE, a table with the columns kit and arm; without FILE, show how many kits each arm has left.

    This command is for the people who pack the kits, not for those who enrol participants: it names the arms.
    """
    if file is not None:
        count = opened.strata.list_kits(Path(file).read_bytes(), file)
    stock = opened.strata.shelf.stock()
    if as_json:
        print_json({"arms": [{**asdict(one), "left": one.left, "low": one.low} for one in stock]})
        return
    if file is not None:
        say(f"{plural(count, 'kit')} listed.")
    for one in stock:
        more = "; list more" if one.low else ""
        say(f"{one.arm}: {one.left} left of {one.listed}, {one.asked} asked for in this phase{more}")


@site_command.command()
@click.argument("key")
@click.option("--by", required=True, help="Who is shown the arm.")
@click.option("--reason", required=True, help="Why; kept with the record.")
@click.option("--emergency", is_flag=True, help="An emergency: whoever treats the person must know the arm at once.")
@json_option
@_with_site
def unmask(opened: _OpenSite, key: str, by: str, reason: str, emergency: bool, as_json: bool) -> None:
    """Show the arm of the person KEY in a masked study. The journal records this, and reports count it."""
    shown = opened.strata.unmask(key, by=by, reason=reason, emergency=emergency)
    print_json(shown.to_json()) if as_json else say(f"{shown.participant}, kit {shown.kit}: {shown.arm}")
    opened.settle()


_field_option = click.option(
    "--field",
    "fields",
    type=(str, str),
    multiple=True,
    metavar="OUTCOME FIELD",
    help="The field that holds an outcome (reward, or a further one) where it has another name.",
)


@site_command.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@_field_option
@click.option("--missing", multiple=True, metavar="CODE", help="The project's code for a missing value.")
@_with_site
def import_outcomes(
    opened: _OpenSite, file: str, fields: tuple[tuple[str, str], ...], missing: tuple[str, ...]
) -> None:
    """Record the outcomes in FILE, a CSV file exported by REDCap: all of them, or none if any is wrong.

    The first column has the record's id. Empty cells and REDCap's own columns are ignored.
    """
    from parley.agent.redcap import outcomes_in, take

    found = outcomes_in(Path(file).read_bytes(), file, opened.strata, dict(fields), missing)
    say(f"{plural(take(found, file, opened.strata), 'outcome')} noted.")
    opened.settle()


@site_command.command("export")
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@_field_option
@click.option(
    "--with-arms",
    is_flag=True,
    help="Also write the arms of a masked site; only with a FILE, for somebody who may see them.",
)
@_with_site
def export_people(opened: _OpenSite, file: str | None, fields: tuple[tuple[str, str], ...], with_arms: bool) -> None:
    """Print a CSV table of everybody at this site, without arms if the site is masked.

    With FILE, write a CSV file for import into REDCap instead: stratum, arm or kit, date, outcomes.
    """
    if file is None:
        with needs("site", "parley site export"):
            from parley.site.tables import exported
        click.echo(exported(opened.strata), nl=False)
        return
    from parley.agent.redcap import allocations_out

    write_whole(Path(file), allocations_out(opened.strata, dict(fields), with_arms=with_arms), mode=SECRET)
    say(f"Written to {file}.")


_outcome_option = click.option("--of", "named", default="", help="A further outcome of the study; default: the reward.")


@site_command.command(context_settings={"ignore_unknown_options": True})  # a negative reward looks like an option
@click.argument("key")
@click.argument("reward", type=float)
@_outcome_option
@_with_site
def outcome(opened: _OpenSite, key: str, reward: float, named: str) -> None:
    """Enter the REWARD of the person KEY. You can change it until the phase is reported."""
    opened.strata.outcome(key, reward, named)
    say(f"{key}: {f'{named} ' if named else ''}{reward:g} noted")
    opened.settle()


@site_command.command()
@click.argument("key")
@_outcome_option
@_with_site
def missing(opened: _OpenSite, key: str, named: str) -> None:
    """Mark the outcome of the person KEY as missing: it will never come."""
    opened.strata.missing(key, named)
    say(f"{key}: {f'{named} ' if named else ''}marked as missing")
    opened.settle()


@site_command.command()
@click.argument("key")
@click.option("--reason", required=True, help="Why the assignment was a mistake; kept at the site only.")
@click.option("--who", required=True, help="Who voids the assignment.")
@_with_site
def void(opened: _OpenSite, key: str, reason: str, who: str) -> None:
    """Void a mistaken assignment of the person KEY, who is never assigned again.

    This is possible only while no outcome of the person is recorded.
    """
    opened.strata.void(key, reason=reason, who=who)
    say(f"{key}: the assignment is voided")
    opened.settle()


@site_command.command()
@click.option(
    "--reason", required=True, type=click.Choice(list(CLOSING_REASONS)), help="Why; it must not depend on the rewards."
)
@_with_site
def close(opened: _OpenSite, reason: str) -> None:
    """Assign no more people in this phase, and report it once everybody assigned has an outcome or is missing."""
    opened.site.finish(reason)
    say("This site's part of the phase is closed.")
    opened.settle()


@site_command.command("release")
@click.argument("phase", type=click.IntRange(min=1))
@_with_site
def release_report(opened: _OpenSite, phase: int) -> None:
    """Release the report of PHASE, so that it is sent. The site's policy holds reports until a person releases them."""
    _release(opened.outbox, opened.site.study, opened.site.agent, phase)
    opened.settle()


@site_command.command()
@click.argument("phase", type=click.IntRange(min=1))
@_with_site
def send(opened: _OpenSite, phase: int) -> None:
    """Report the complete PHASE now, before its grace period is over."""
    opened.site.send(phase)
    say(f"Phase {phase} is closed, and its report is being sent.")
    opened.settle()


def _release(outbox: str, study: str, agent: str, phase: int) -> None:
    from parley.agent.outbox import release

    report = release(outbox, study=study, agent=agent, phase=phase)
    say(f"{agent}: the report of phase {phase} ({plural(sum(report.counts), 'sample')}) is released.")


@site_command.command()
@click.option(
    "--outcome",
    "outcomes",
    type=(str, float),
    multiple=True,
    metavar="KEY REWARD",
    help="Correct outcome of the person KEY; repeat the option for every other person of the phase.",
)
@click.option(
    "--further",
    type=(str, str, float),
    multiple=True,
    metavar="NAME KEY VALUE",
    help="The same for a further outcome of the study.",
)
@_corrected_option
@_with_site
def correct(
    opened: _OpenSite,
    outcomes: tuple[tuple[str, float], ...],
    further: tuple[tuple[str, str, float], ...],
    output: str,
) -> None:
    """Correct outcomes of a reported phase, and write a corrected report for the study's administrator.

    Give all wrong outcomes in one command: in a private study, every corrected report adds to the privacy loss.
    """
    from parley.agent.outbox import Outbox
    from parley.agent.privacy import Disclosure

    if not outcomes and not further:
        raise click.UsageError("Missing option '--outcome', or '--further'.")
    # All outcomes belong to one phase, and so to one stratum: the stratum of the first person named.
    site = opened.strata.known(next(iter((*outcomes, *(row[1:] for row in further))))[0])
    with Outbox(opened.outbox, study=site.study, agent=site.agent) as box:
        phase = site.correct([*outcomes, *((key, value, named) for named, key, value in further)])
        disclosure = Disclosure(site.people.rules, site.policy)
        now = site.corrected(phase)
        corrected = partial(disclosure.corrected, outcomes=now.outcomes, between=now.between)
        _write_corrected(corrected, now.arms, now.rewards, phase, box, output)
        say("The site's service sends it too, when it runs; the administrator finds it among the quarantined reports.")


def _write_corrected(
    corrected: Callable[..., Report],
    arms: tuple[str, ...],
    rewards: Sequence[Sequence[float]],
    phase: int,
    box: Outbox,
    output: str,
) -> None:
    """Write the corrected report of a phase to a file, and print how to hand it to the administrator."""
    earlier = box.report(phase)
    if earlier is None:
        raise InvalidInput("phase", found=phase, allowed="a phase whose report was sent from this outbox")
    from parley.agent.plans import Withheld

    try:
        report = corrected(arms, earlier, rewards, box)
    except Withheld as error:
        raise NotNow(str(error)) from None
    write_whole(Path(output), report.text + "\n", mode=SECRET)
    again = f" It is release {report.releases} of its sums: a person's privacy loss adds up." if report.releases else ""
    say(f"Written to {output}.{again}")
    say(
        f"Hand it to the study's administrator: parley admin correct {box.study} --agent {shlex.quote(box.agent)} "
        f"--phase {phase} --file {output} --reason WHY"
    )


@site_command.command()
@json_option
@_with_site
def status(opened: _OpenSite, as_json: bool) -> None:
    """Show the phase's progress in exact numbers, but not by arm.

    Do not show these numbers to those who enrol participants: they could guess the last assignments.
    """
    try:
        opened.settle()
    except ParleyError as error:
        errors.print(f"The coordinator: {error}", highlight=False)
    shown = [opened.site] if opened.chosen else opened.strata.sites
    if as_json:
        found = [site.status() for site in shown]
        print_json(found[0] if len(found) == 1 else {"strata": found})
        return
    for site in shown:
        _say_status(site.status())


def _say_status(shown: Mapping[str, Any]) -> None:
    say(f"{shown['agent']} in {shown['study']}: the study is {shown['stage']}")
    if shown["phase"]:
        asked, reported = plural(shown["asked"], "person", "people"), ", reported" if shown["reported"] else ""
        say(
            f"phase {shown['phase']}: {asked} asked for, {shown['assigned']} assigned, {shown['observed']} with an "
            f"outcome, {shown['pending']} awaited, {shown['missing']} missing{reported}"
        )
    if shown["kits_low"]:
        say("  kits are running low: list more (parley site kits FILE)")
    for named, awaited in shown["outcomes"].items():
        say(f"  {named}: {awaited} awaited")


@click.command()
@remote_options
@click.option("--study", required=True, help="The study's id.")
@click.option("--agent", "name", help="The agent's name; default: the one the token is for.")
@_policy_option
@click.option(
    "--source",
    metavar="SOURCE",
    help="python:MODULE:FUNCTION, 'command:PROGRAM ARGUMENTS', csv:FILE, parquet:FILE, sql:FILE.toml or "
    "simulate:STUDY.toml",
)
@click.option(
    "--column",
    "columns",
    type=(str, str),
    multiple=True,
    metavar="OUTCOME COLUMN",
    help="The column of a further outcome, if it is not named after the outcome.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of a simulated source.")
@outbox_option("Folder that remembers what was drawn and acknowledged. Keep it for the whole study.")
@click.option(
    "--draw-again",
    type=click.IntRange(min=1),
    metavar="PHASE",
    help="Draw an interrupted phase again; only if none of its draws was made or seen.",
)
@click.option(
    "--release",
    "released",
    type=click.IntRange(min=1),
    metavar="PHASE",
    help="Release the report of a phase that the site's policy holds, and exit; the running agent sends it.",
)
@click.option(
    "--correct",
    "corrects",
    type=(click.IntRange(min=1), click.Path(exists=True, dir_okay=False)),
    metavar="PHASE REWARDS.csv",
    help="Write a corrected report of a phase for the administrator, and exit. The table has all rewards of the phase "
    "as they should have been: columns arm and reward.",
)
@_corrected_option
@click.option(
    "--most-draws",
    type=click.IntRange(min=1),
    help="Refuse a plan that asks for more rewards in one phase; default: 10,000,000.",
)
def agent_command(
    server: str,
    token_file: str | None,
    study: str,
    name: str | None,
    policy: str | None,
    source: str | None,
    columns: tuple[tuple[str, str], ...],
    seed: int,
    outbox: str,
    draw_again: int | None,
    released: int | None,
    corrects: tuple[int, str] | None,
    output: str,
    most_draws: int | None,
) -> None:
    """Take part in a study: fetch the plan, draw, report and keep the receipt, until the study is over.

    \b
    Sources:
      python:m:f          the function f of module m: f(arm, count) returns that many rewards
      command:prog args   a program: prog args ARM COUNT prints that many rewards
                          In a study with further outcomes, f returns a row, and prog
                          prints a line, for each draw: the reward, then these outcomes
      csv:file            a table with columns arm, reward and optionally id. Add new rows
                          at the end; each is used once. Every further outcome has a column.
                          For counts of events, optionally exposure: one unit of it is a draw
      parquet:file        the same table, in a Parquet file
      sql:file.toml       url and query: rows, or totals of the phase (arm, count, sum, squares)
      simulate:study.toml simulated rewards, from the file's [truth] and --seed

    \b
    In a study with a covariate, f returns pairs (reward, covariate), prog prints a
    line "reward covariate" for each draw (NA if unknown), and tables have a column
    with the covariate's name.

    You may stop or kill the agent at any moment and start it again: nothing is drawn or reported twice.
    """
    with needs("agent", "parley agent"):
        from parley.agent.adjustment import AdjustedSource, clipped
        from parley.agent.outbox import Outbox
        from parley.agent.outcomes import columns_of
        from parley.agent.privacy import Disclosure, SitePolicy, pinned
        from parley.agent.reporting import study_of
        from parley.agent.sources import make_source
        from parley.agent.tables import covariates_by_arm, outcomes_by_arm, rewards_by_arm
        from parley.agent.worker import MOST_DRAWS, Worker, persistent
        from parley.covariates import adjusted_rewards
    if source is None and released is None and corrects is None:
        raise click.UsageError("Missing option '--source'.")
    own = SitePolicy.load(policy) if policy else None
    with connect(server, token_file) as client:
        agent = name if name is not None else persistent(client.whoami, lambda words: say(f"agent: {words}"))
        if agent is None:
            raise click.UsageError("this is not an agent's token: name the agent with --agent")

        if released is not None:
            _release(outbox, study, agent, released)
            return
        rules = persistent(lambda: study_of(client, study, agent), lambda words: say(f"{agent}: {words}"))
        named = columns_of(rules.outcomes, dict(columns))
        with Outbox(outbox, study=study, agent=agent) as box:
            own = pinned(box, rules, own)
            if lost := box.lost_noise():
                phases = ", ".join(map(str, lost))
                attention(
                    agent,
                    f"the noise in the reports of these phases is gone from the outbox: {phases}. Correcting one of "
                    "them is another release, and counts as such",
                )
            if corrects is not None:
                arms = tuple(client.status(study)["arm_names"])
                data, file = Path(corrects[1]).read_bytes(), corrects[1]
                rewards: Sequence[Sequence[float]] = rewards_by_arm(data, file, arms, counts=rules.whole)
                if (rule := rules.adjustment) is not None and (sent := box.report(corrects[0])) is not None:
                    xs = covariates_by_arm(data, file, arms, rule.name)
                    rewards = adjusted_rewards(rewards, clipped(rule, xs), sent.theta or 0.0, sent.x0)
                others = outcomes_by_arm(data, file, arms, named) if named else ()
                made = partial(Disclosure(rules, own).corrected, outcomes=others)
                _write_corrected(made, arms, rewards, corrects[0], box, output)
                return
            assert source is not None
            if draw_again is not None:
                box.draw_again(draw_again)

            @cache
            def taken(phase: int) -> Report | None:
                """The report of an earlier phase: from the outbox, or from the coordinator if the outbox is new."""
                return box.report(phase) or client.report(study, phase, agent)

            drawn_by = make_source(
                source,
                seed=seed,
                taken=taken,
                memory=box,
                counts=rules.whole,
                outcomes=named,
                covariate=rules.adjustment,
                whole_plan=lambda phase: client.whole_plan(study, phase),
            )
            if rules.adjustment is not None:
                name = rules.covariate
                say(f"{agent}: rewards are adjusted for {name}. Arms must be assigned at random, regardless of it")
                drawn_by = AdjustedSource(drawn_by, rules.adjustment, box, warn=lambda words: attention(agent, words))
            worker = Worker(
                client,
                box,
                drawn_by,
                say=lambda words: say(f"{agent}: {words}"),
                warn=lambda words: attention(agent, words),
                disclosure=Disclosure(rules, own),
                most_draws=most_draws or MOST_DRAWS,
            )
            last = worker.run()
    say(f"{agent}: the study {study} is {last.stage}.")
