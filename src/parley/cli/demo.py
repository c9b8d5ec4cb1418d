"""`parley demo`: follow one study phase by phase, compare the policies, and write a page.

With `--live`, a real coordinator and a process per agent run the study on this machine, and its log is verified.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import numpy as np

from parley.cli.console import (
    checked_output,
    json_option,
    output_option,
    print_json,
    progress_bar,
    say,
    screen,
    seed_option,
    show_table,
    write_page,
)
from parley.cli.simulate import least_of, summary
from parley.errors import InvalidInput, ParleyError, Unreachable, needs
from parley.experiments import demo
from parley.experiments.report_kit.charts import elimination_timeline
from parley.experiments.report_kit.pages import picture, render
from parley.policies import POLICIES, Policy, make_policy
from parley.policies.playing import Playing
from parley.problem import Instance
from parley.simulation import phases, simulate
from parley.simulation.simulate import check_end
from parley.study import Study, load_study, parse_study
from parley.text.formatting import plural, size_text
from parley.text.status import OutcomeStatus
from parley.weight_map import weight_maps

PAPER = """\
name = "the paper's instance"
arms = 6
agents = 3
delta = 0.1

[weights]
kind = "personalized"
alpha = 0.5

[noise]
kind = "gaussian"
scale = 1.0

[truth]
generate = "paper"
seed = 0
"""
HORIZON = 100_000  # draws per agent, with --regret
MOMENT = 0.1  # seconds between two requests for the status of a live study
PATIENCE = 30.0  # seconds that the server has to start


@click.command()
@click.option("--study", type=click.Path(dir_okay=False), help="Your own study file; default: the paper's instance.")
@click.option("--replications", default=1000, show_default=True, help="Runs per policy in the comparison.")
@seed_option
@output_option("parley-demo.html")
@click.option("--live", is_flag=True, help="Run a real coordinator and a process for every agent on this machine.")
@click.option("--db", help="With --live: postgresql://...; default: an SQLite file, removed afterwards.")
@click.option(
    "--keep-open/--no-keep-open",
    default=None,
    help="With --live: keep the dashboard open afterwards, until Ctrl-C; default: in a terminal, unless --json.",
)
@click.option("--regret", is_flag=True, help="Play while learning: regret instead of samples, over 100,000 draws each.")
@json_option
def demo_command(
    study: str | None,
    replications: int,
    seed: int,
    output: str,
    live: bool,
    db: str | None,
    keep_open: bool | None,
    regret: bool,
    as_json: bool,
) -> None:
    """Watch one study being decided, then compare the policies against the lower bound.

    Rewards are simulated, for the instance in the paper's tables unless you name your own study. With --live, a real
    coordinator runs the study with agents that talk to it over HTTP, and you can watch its dashboard: sign in with the
    token that is printed. At the end the log is verified, and everything is cleaned up once you press Ctrl-C.
    """
    if live:
        stays = sys.stdout.isatty() and not as_json if keep_open is None else keep_open
        _show_live(study, seed=seed, db=db, as_json=as_json, keep_open=stays)
        return
    if db is not None:
        raise InvalidInput("--db", found=db, allowed="only with --live")
    if keep_open is not None:
        raise InvalidInput("--keep-open", found="no --live", allowed="only with --live")
    checked_output(output)
    if replications < 1:
        raise InvalidInput("--replications", found=replications, allowed="at least 1")
    embedded = tomllib.loads(PAPER) | ({"horizon": HORIZON} if regret else {})
    loaded = load_study(study) if study else parse_study(embedded)
    played = regret or loaded.problem.horizon is not None
    command = "parley demo" + (" --regret" if played else "") + (f" --study {study}" if study else "")
    command += f" --replications {replications} --seed {seed}"
    (_show_regret if played else _show_samples)(loaded, replications, seed, output, command, as_json=as_json)


def _show_samples(study: Study, replications: int, seed: int, output: str, command: str, *, as_json: bool) -> None:
    """Follow one run until every agent has its answer, compare the policies, and write the page."""
    problem, instance = study.problem, study.require_truth()
    check_end(problem, instance, None)
    policy = make_policy(study.policy, problem, study.options, instance)
    if not as_json:
        size = f"{size_text(problem.shape, len(problem.asks_only))}, top {problem.top}, delta {problem.delta:g}"
        screen.print(f"{study.name}: {size}, smallest gap {instance.smallest_gap:.3f}")
        screen.print(f"Policy {policy.name}: {policy.guarantee}.\n")
    run, reasons = [], []
    for phase in phases(policy, instance, seed=seed):
        run.append(phase)
        sentences = list(demo.eliminations(policy, phase))
        reasons += [f"Phase {phase.number}: {sentence}" for sentence in sentences]
        if not as_json:
            drawn, total = int(phase.quotas.sum()), int(phase.after.counts.sum())
            spread = ", ".join(f"{int(count):,}" for count in phase.quotas.sum(axis=0)[problem.draws])
            screen.print(f"Phase {phase.number}: {plural(drawn, 'sample')} (per agent {spread}), {total:,} so far")
            for sentence in sentences or ["no arm ruled out yet"]:
                screen.print(f"  {sentence}")
    last = run[-1].after
    certificate = policy.certificate(last)
    least = least_of(instance).get("samples")
    bounds = {} if least is None else {"samples": least}
    results = _compare(study, instance, list(POLICIES), bounds, replications, seed, quiet=as_json)
    bound = "" if least is None else f"; no algorithm can expect fewer than {least:,.0f} samples"
    comparison = demo.comparison_table(f"{plural(replications, 'run')} each{bound}", results)
    answers = {
        agent: [problem.arms[arm] for arm in np.flatnonzero(row)]
        for agent, row in zip(problem.agents, last.answers.T, strict=True)
        if agent in problem.askers
    }
    page = render(
        "demo",
        title=f"Parley: {study.name}",
        command=command,
        policy=policy,
        run=run,
        timeline=picture(
            "Mixed means of every arm over the phases, one panel per agent", elimination_timeline, run, problem
        ),
        answers=answers,
        certificate=certificate,
        reasons=reasons,
        comparison=comparison,
        lower_bound=least,
    )
    path = write_page(output, page)
    ends = [OutcomeStatus(word) for word in policy.statuses(last).tolist()]
    answered = np.array([end.answered for end in ends])
    maps = weight_maps(problem, last.answers, answered)
    right = not (last.answers & ~instance.good & answered).any()
    if as_json:
        print_json(
            {"study": study.name, "policy": policy.name, "answers": answers, "correct": right}
            | {"samples": int(last.counts.sum()), "rounds": len(run), "lower_bound": least, "policies": results}
            | {"report": str(path), "certificate": certificate}
            | ({"map": [one.to_json() for one in maps]} if maps else {})
        )
        return
    screen.print(f"\n{demo.ending(problem, ends, right=right)}.")
    for line in demo.answer_sentences(certificate):
        screen.print("  " + line)
    for one in maps:
        screen.print(f"  {one.agent}, where the weights are in doubt: {one.words}")
    screen.print()
    screen.print(comparison)
    screen.print(f"Report: {path.resolve()} (open it in a browser)", soft_wrap=True)
    screen.print(
        "Next: copy examples/paper.toml, put in your own arms, agents and weights, and run `parley demo --study`."
    )


def _show_regret(study: Study, replications: int, seed: int, output: str, command: str, *, as_json: bool) -> None:
    """Follow one run to its horizon, compare the policies that minimize regret, and write the page."""
    instance = study.require_truth()
    instance.require_distinct()
    policy = make_policy(study.policy, study.problem, study.options, instance)
    horizon = study.problem.horizon
    if not isinstance(policy, Playing) or not isinstance(horizon, int):
        raise InvalidInput("horizon", found=horizon or "none", allowed="a number of draws per agent, with --regret")
    run = list(phases(policy, instance, seed=seed))
    known = least_of(instance)
    least = known["regret"]
    names = [name for name, kind in POLICIES.items() if issubclass(kind, Playing)]
    results = _compare(study, instance, names, known, replications, seed, quiet=as_json)
    followed = demo.regret_phase_table(f"{study.name}: {policy.name}, one run", policy, run)
    title = f"{plural(replications, 'run')} each; reference {known['reference']:,.0f}, C* log T {least:,.0f}"
    comparison = demo.regret_comparison_table(title, results)
    page = render(
        "regret",
        title=f"Parley, regret: {study.name}",
        command=command,
        policy=policy,
        phases=followed,
        figure=picture(
            "Mean regret of every policy over time, with bands of 80 % of the runs", demo.regret_figure, results, least
        ),
        comparison=comparison,
        lower_bound=least,
        reference=known["reference"],
    )
    path = write_page(output, page)
    if as_json:
        print_json(
            {"study": study.name, "horizon": horizon, "lower_bound": least, "policies": results, "report": str(path)}
        )
        return
    screen.print(followed)
    screen.print(comparison)
    screen.print(f"Regret over time: {path.resolve()} (open it in a browser)", soft_wrap=True)
    screen.print("Next: copy examples/play.toml, put in your own arms, agents, weights and horizon, and run it again.")


def _compare(
    study: Study,
    instance: Instance,
    names: Sequence[str],
    least: Mapping[str, float],
    replications: int,
    seed: int,
    *,
    quiet: bool,
) -> list[dict[str, Any]]:
    """Simulate the named policies that suit the problem, all with the same seed; returns a summary of each."""
    made: list[Policy] = []
    for name in names:
        try:
            made.append(make_policy(name, study.problem, study.options if name == study.policy else {}, instance))
        except InvalidInput:
            continue  # a policy that does not suit this problem, such as PF-UCB without personalized weights
    results = []
    with progress_bar("comparing policies", replications * len(made), hidden=quiet) as advance:
        for policy in made:
            outcome = simulate(policy, instance, replications=replications, seed=seed, progress=advance)
            results.append(summary(outcome, least))
    return results


@contextmanager
def parley_process(
    arguments: list[str], log: Path, *, heard: bool, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a `parley` process until the block ends. Output goes to `log`; if `heard`, stdout goes to a pipe instead."""
    # Settings of this process must not reach the new one.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(  # a context manager, which closes the pipe and waits for the process
            [sys.executable, "-m", "parley", *arguments],
            stdout=subprocess.PIPE if heard else errors,
            stderr=errors,
            text=True,
            env={**environment, **variables},
        ) as running,
    ):
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(timeout=10)
            except subprocess.TimeoutExpired:
                running.kill()


@contextmanager
def serving(database: str, log: Path, **variables: str) -> Iterator[str]:
    """Run a coordinator on this database, on any free port, until the block ends; yields its address."""
    with parley_process(["serve", "--db", database, "--port", "0"], log, heard=True, **variables) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        if " at http" not in line:
            server.wait(timeout=PATIENCE)
            raise ParleyError(f"the coordinator did not start: {log.read_text(encoding='utf-8')[-500:]}")
        yield line.rsplit(" at ", 1)[1].strip()


def administrator(database: str, name: str) -> str:
    """Issue a token for an administrator with this name; creates the database if there is none."""
    with needs("server", "a live study"):
        from parley.coordinator.access.tokens import prepare
        from parley.coordinator.http.context import utc_now
    token = prepare(database, at=utc_now(), name=name, new_token=True)[2]
    assert token is not None
    return token


def run_live(
    study_file: str | Path | None = None,
    *,
    seed: int = 0,
    db: str | None = None,
    notify: Callable[[str], None] = lambda _: None,
    afterwards: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Run a study live until it is over, with simulated rewards; returns its answers, and the verification of its log.

    `study_file` needs a [truth]; the default is the paper's instance. `db` may be a PostgreSQL address; the default is
    an SQLite file that is removed afterwards with everything else. `notify` gets messages about progress. `afterwards`
    gets the result while the server still shows the dashboard.
    """
    with needs("server", "parley demo --live"):  # the client needs one of the server's packages too
        import parley.service.server  # noqa: F401
        from parley.agent.client import Client
    from parley.protocol import StudyMessage

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-live-")))
        path = Path(study_file) if study_file is not None else folder / "paper.toml"
        if study_file is None:
            path.write_text(PAPER, encoding="utf-8")
        study = load_study(path)
        study.require_truth()
        database = db or str(folder / "parley.db")
        token = administrator(database, f"live-demo-{os.getpid()}")
        address = stack.enter_context(serving(database, folder / "server.log"))
        client = stack.enter_context(Client(address, token))
        notify(f"coordinator at {client.server}, database {'PostgreSQL' if db else 'SQLite'}")
        body = {"id": f"live-{os.urandom(4).hex()}", "study": StudyMessage.of(study).to_json()}
        made = _patiently(lambda: client.request("POST", "studies", json=body))
        notify(f"dashboard: {client.server}/studies/{made['id']}")
        notify(f"sign in there with this token: {token}")
        for place, agent in enumerate(study.problem.sites):
            body = {"role": "agent", "study": made["id"], "agent": agent}
            secret = client.request("POST", "tokens", json=body)["token"]
            arguments = ["agent", "--server", client.server, "--study", made["id"], "--source", f"simulate:{path}"]
            arguments += ["--seed", str(seed), "--outbox", str(folder / f"outbox-{place}")]
            stack.enter_context(
                parley_process(arguments, folder / f"agent-{place}.log", heard=False, PARLEY_TOKEN=secret)
            )
            notify(f"agent process started: {agent}")
        last = _follow(client, made["id"], notify)
        result = _result(client, made["id"], last, study)
        afterwards(result)
        return result


def _patiently(call: Callable[[], Any]) -> Any:
    """Repeat a call while the server cannot be reached, for at most `PATIENCE` seconds."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except Unreachable:
            if time.monotonic() > until:
                raise
            time.sleep(MOMENT)


def _follow(client: Any, study: str, notify: Callable[[str], None]) -> dict[str, Any]:
    """Send a message about every phase until the study is over; returns its last status."""
    reported = 0
    while True:
        found: dict[str, Any] = _patiently(lambda: client.status(study))
        over = found["stage"] not in ("running", "closing")
        for phase in range(reported + 1, found["phase"] + over):
            done = client.request("GET", "studies", study, "history", params={"after": phase - 1, "limit": 1})["phases"]
            if done:
                out = ", ".join(f"{one['arm']} for {one['agent']}, {one['status']}" for one in done[0]["dropped_arms"])
                notify(f"phase {phase}: {plural(done[0]['samples'], 'sample')}; {out or 'no arm ruled out'}")
                reported = phase
        if over:
            return found
        time.sleep(MOMENT)


def _result(client: Any, study: str, last: dict[str, Any], file: Study) -> dict[str, Any]:
    certificate, instance = client.request("GET", "studies", study, "certificate"), file.require_truth()
    problem, usual = instance.problem, OutcomeStatus.DECIDED if certificate["complete"] else OutcomeStatus.OPEN
    ends = {name: OutcomeStatus((certificate.get("ends") or {}).get(name, usual)) for name in problem.askers}
    right = all(  # the demo knows the truth; the coordinator did not
        instance.good[problem.arms.index(arm), problem.agents.index(agent)]
        for agent, end in ends.items()
        if end.answered
        for arm in certificate["answers"][agent]
    )
    return {
        "study": study,
        "stage": last["stage"],
        "phases": certificate["phases"],
        "samples": certificate["samples"],
        "answers": certificate["answers"],
        "correct": right,
        "ending": demo.ending(problem, list(ends.values()), right=right),
        "dropped_in": client.request("GET", "studies", study, "board")["dropped_in"],
        "guarantee": certificate["guarantee"],
        "verification": client.request("POST", "studies", study, "verify"),
    }


def _show_live(study: str | None, *, seed: int, db: str | None, as_json: bool, keep_open: bool) -> None:
    """Run a study live, and print its phases, its answers and the verification of its log."""

    def show(result: dict[str, Any]) -> None:
        print_json(result) if as_json else _tell_live(result)
        if keep_open:
            notify("The dashboard stays open. Press Ctrl-C to end it.")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()

    notify = (lambda text: click.echo(text, err=True)) if as_json else say
    run_live(study, seed=seed, db=db, notify=notify, afterwards=show)


def _tell_live(result: Mapping[str, Any]) -> None:
    title = f"Answers after {plural(result['phases'], 'phase')} and {plural(result['samples'], 'sample')}"
    show_table(title, ("agent", "answer"), [(name, ", ".join(arms)) for name, arms in result["answers"].items()])
    say(f"{result['ending']}.")
    check = result["verification"]
    verdict = "verified" if check["sound"] else f"NOT SOUND: {check['problem']}"
    say(f"Log of {plural(check['records'], 'record')}: {verdict}. Guarantee: {result['guarantee']}.")
