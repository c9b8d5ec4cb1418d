"""`parley demo`: one study followed phase by phase, then the policies side by side, then a page to look at.

With `--live` the study runs on this machine: a coordinator, an agent process for every agent, a verified log.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from parley.bounds import regret
from parley.cli.console import checked_output, print_json, progress_bar, screen, table, write_page
from parley.cli.simulate import least_of, summary
from parley.errors import InvalidInput, ParleyError, needs
from parley.experiments.demo import answers_told, demo_page, eliminations, ending, sizes_told
from parley.policies import POLICIES, Policy, make_policy
from parley.policies.playing import Playing
from parley.problem import Instance
from parley.simulation import Phase, phases, simulate
from parley.simulation.simulate import check_end
from parley.status import OutcomeStatus
from parley.study import DEFAULT_POLICY, Study, load_study, parse_study

__all__ = ["demo_command", "run_live", "show_live", "show_regret"]

EMBEDDED: dict[str, Any] = {
    "name": "the paper's instance",
    "arms": 6,
    "agents": 3,
    "delta": 0.1,
    "weights": {"kind": "personalized", "alpha": 0.5},
    "noise": {"kind": "gaussian", "scale": 1.0},
    "policy": {"name": DEFAULT_POLICY},
    "truth": {"generate": "paper", "seed": 0},
}
PLAYED: dict[str, Any] = {"horizon": 100_000, "policy": {}}  # with --regret


@click.command()
@click.option("--study", type=click.Path(dir_okay=False), help="Your own study file; default: the paper's instance.")
@click.option("--replications", default=1000, show_default=True, help="Runs per policy in the comparison.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--output",
    default="parley-demo.html",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="Where the page goes.",
)
@click.option("--live", is_flag=True, help="A real coordinator and one agent process each, on this machine.")
@click.option("--db", help="With --live: postgresql://...; default: an SQLite file, removed afterwards.")
@click.option("--regret", is_flag=True, help="Play while learning: regret instead of samples, over 100,000 draws each.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def demo_command(
    study: str | None,
    replications: int,
    seed: int,
    output: str,
    live: bool,
    db: str | None,
    regret: bool,
    as_json: bool,
) -> None:
    """Watch one study being decided, then compare the policies against the lower bound.

    Rewards are simulated, on the instance of the paper's tables unless you name a study of your own. With --live the
    study is run by a real coordinator and agents that talk over HTTP; then its log is verified, and all is cleaned up.
    """
    if live:
        show_live(study, seed=seed, db=db, as_json=as_json)
        return
    if db is not None:
        raise InvalidInput("--db", found=db, allowed="only with --live")
    checked_output(output)
    if replications < 1:
        raise InvalidInput("--replications", found=replications, allowed="at least 1")
    loaded = load_study(study) if study else parse_study(EMBEDDED | PLAYED if regret else EMBEDDED)
    if regret or loaded.problem.horizon is not None:
        show_regret(
            loaded,
            replications=replications,
            seed=seed,
            output=output,
            command=f"parley demo --regret{_named(study)} --replications {replications} --seed {seed}",
            as_json=as_json,
        )
        return
    instance = loaded.require_truth()
    check_end(loaded.problem, instance, None)
    policy = make_policy(loaded.policy, loaded.problem, loaded.options, instance)
    if not as_json:
        screen.print(f"{loaded.name}: {sizes_told(instance)}")
        screen.print(f"Policy {policy.name}: {policy.guarantee}.\n")
    course, reasons = [], []
    for phase in phases(policy, instance, seed=seed):
        course.append(phase)
        told = list(eliminations(policy, phase))
        reasons += told
        if not as_json:
            _show(phase, told)
    certificate = policy.certificate(course[-1].after)
    least = least_of(instance).get("samples")
    results = _compare(loaded, instance, replications, seed, least, quiet=as_json)
    head, rows = _side_by_side(results)
    page = demo_page(
        title=f"Parley: {loaded.name}",
        problem=loaded.problem,
        policy=policy.name,
        guarantee=policy.guarantee,
        course=course,
        certificate=certificate,
        reasons=reasons,
        comparison=(head, rows),
        lower_bound=least,
        command=f"parley demo{_named(study)} --replications {replications} --seed {seed}",
    )
    path = write_page(output, page)
    ends = [OutcomeStatus(word) for word in policy.statuses(course[-1].after).tolist()]
    answered = np.array([end.answered for end in ends])
    right = not (course[-1].after.answers & ~instance.good & answered).any()
    if as_json:
        answers = course[-1].after.answers.T
        chosen = {
            agent: [loaded.problem.arms[arm] for arm in np.flatnonzero(row)]
            for agent, row in zip(loaded.problem.agents, answers, strict=True)
        }
        samples = int(course[-1].after.counts.sum())
        print_json(
            {"study": loaded.name, "policy": policy.name, "answers": chosen, "correct": right, "samples": samples}
            | {"rounds": len(course), "lower_bound": least, "policies": results, "report": str(path)}
            | {"certificate": certificate}
        )
        return
    screen.print(f"\n{ending(loaded.problem, ends, right=right)}.")
    for line in answers_told(certificate):
        screen.print("  " + line)
    screen.print()
    bound = "" if least is None else f"; no algorithm can expect fewer than {least:,.0f} samples"
    shown = table(f"{replications:,} runs each{bound}", *head)
    for row in rows:
        shown.add_row(*row)
    screen.print(shown)
    screen.print(f"Report: {path.resolve()} (open it in a browser)", soft_wrap=True)
    screen.print(
        "Next: copy examples/paper.toml, put in your own arms, agents and weights, and run `parley demo --study`."
    )


def _side_by_side(results: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the comparison: samples, rounds, errors; the bound, money and days where there are such."""
    drawn = [result.get("samples", result["cost"]) for result in results]
    columns = {
        "policy": [result["policy"] for result in results],
        "samples, mean ± sd": [f"{found['mean']:,.0f} ± {found['std']:,.0f}" for found in drawn],
        "rounds": [f"{result['rounds']['mean']:.2f}" for result in results],
        "wrong answers": [
            f"{result['error_rate'] * result['replications']:,.0f} of {result['replications']:,}" for result in results
        ],
    }
    if all(found["ratio"] is not None for found in drawn):
        columns["over the lower bound"] = [f"{found['ratio']:.1f} x" for found in drawn]
    for key, unit in (("cost", "money"), ("days", "days")):
        if key in results[0] and (key == "days" or "samples" in results[0]):
            columns[f"{unit}, mean"] = [f"{result[key]['mean']:,.0f}" for result in results]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _named(study: str | None) -> str:
    return f" --study {study}" if study else ""


def _show(phase: Phase, told: list[str]) -> None:
    drawn, total = int(phase.quotas.sum()), int(phase.after.counts.sum())
    spread = ", ".join(f"{int(count):,}" for count in phase.quotas.sum(axis=0))
    screen.print(f"Phase {phase.number}: {drawn:,} samples (per agent {spread}), {total:,} so far")
    for sentence in told:
        screen.print("  " + sentence.partition(": ")[2])
    if not told:
        screen.print("  nobody ruled out yet")


def _compare(
    study: Study, instance: Instance, replications: int, seed: int, least: float | None, *, quiet: bool
) -> list[dict[str, Any]]:
    made: list[Policy] = []
    for name in POLICIES:
        options = study.options if name == study.policy else {}
        try:
            made.append(make_policy(name, study.problem, options, instance))
        except InvalidInput:
            continue  # a policy that this problem is not for: PF-UCB beyond personalized weights
    results = []
    with progress_bar("comparing policies", replications * len(made), hidden=quiet) as advance:
        for policy in made:
            outcome = simulate(policy, instance, replications=replications, seed=seed, progress=advance)
            results.append(summary(outcome, {} if least is None else {"samples": least}))
    return results


STEPS = ("phase", "draws so far", "explored in it", "regret so far, estimated", "arms left")
HEAD = ("policy", "regret, mean ± sd", "/ C* log T", "rounds", "a best arm ruled out")


def show_regret(study: Study, *, replications: int, seed: int, output: str, command: str, as_json: bool) -> None:
    """Play one study, compare the policies, and write the page."""
    instance = study.require_truth()
    instance.require_distinct()
    policy = make_policy(study.policy, study.problem, study.options, instance)
    horizon = study.problem.horizon
    if not isinstance(policy, Playing) or not isinstance(horizon, int):
        raise InvalidInput("horizon", found=horizon or "none", allowed="a number of draws per agent, with --regret")
    course = _regret_course(policy, instance, seed)
    least = regret(instance, accuracy=1e-6).proven * math.log(horizon)
    results = _compare_regret(study, instance, replications, seed, least, quiet=as_json)
    rows = [
        [
            result["policy"],
            f"{lost['mean']:,.0f} ± {lost['std']:,.0f}",
            f"{lost['ratio']:.2f}",
            f"{result['rounds']['mean']:.2f}",
            f"{result['error_rate'] * result['replications']:,.0f} of {result['replications']:,}",
        ]
        for result, lost in ((result, result["regret"]) for result in results)
    ]
    from parley.experiments.demo import regret_page  # brings the drawing library along

    made = regret_page(
        title=f"Parley plays: {study.name}",
        problem=study.problem,
        guarantee=policy.guarantee,
        course=(STEPS, course),
        comparison=(HEAD, rows),
        results=results,
        least=least,
        command=command,
    )
    path = write_page(output, made)
    if as_json:
        told: dict[str, Any] = {"study": study.name, "horizon": horizon, "lower_bound": least}
        print_json(told | {"policies": results, "report": str(path)})
        return
    for title, head, lines in (
        (f"{study.name}: {policy.name}, one game", STEPS, course),
        (f"{replications:,} games each; C* log T is {least:,.0f}", HEAD, rows),
    ):
        shown = table(title, *head)
        for line in lines:
            shown.add_row(*line)
        screen.print(shown)
    screen.print(f"Regret over time: {path.resolve()} (open it in a browser)", soft_wrap=True)
    screen.print("Next: copy examples/play.toml, put in your own arms, agents, weights and horizon, and run it again.")


def _regret_course(policy: Playing, instance: Instance, seed: int) -> list[list[str]]:
    """A row per phase of one game."""
    rows = []
    for phase in phases(policy, instance, seed=seed):
        standing = policy.standing(phase.after)
        leading = policy.leaders(phase.before)
        explored = int((phase.quotas * ~leading).sum() if phase.number > 1 else phase.quotas.sum())
        error = 2 * float(standing.error)
        rows.append(
            [
                str(phase.number),
                f"{int(phase.after.counts.sum()):,}",
                f"{explored:,} of {int(phase.quotas.sum()):,}",
                f"{float(standing.regret.sum()):,.0f} ± {error:,.0f}",
                ", ".join(str(int(left)) for left in phase.after.active.sum(axis=0)),
            ]
        )
    return rows


def _compare_regret(
    study: Study, instance: Instance, replications: int, seed: int, least: float, *, quiet: bool
) -> list[dict[str, Any]]:
    made = []
    for name, kind in POLICIES.items():
        if not issubclass(kind, Playing):
            continue
        try:
            options = study.options if name == study.policy else {}
            made.append(make_policy(name, study.problem, options, instance))
        except InvalidInput:
            continue  # a policy that this problem is not for: PF-UCB beyond personalized weights
    results = []
    with progress_bar("comparing policies", replications * len(made), hidden=quiet) as advance:
        for policy in made:
            outcome = simulate(policy, instance, replications=replications, seed=seed, progress=advance)
            results.append(summary(outcome, {"regret": least}))
    return results


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
MOMENT = 0.1  # seconds between looks
PATIENCE = 30.0  # seconds for the server to start


@contextmanager
def _process(arguments: list[str], log: Path, *, heard: bool, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A `parley` process that does not outlive the block; what it says goes to a file, unless its output is `heard`."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
    with log.open("w") as errors:
        running = subprocess.Popen(
            [sys.executable, "-m", "parley", *arguments],
            stdout=subprocess.PIPE if heard else errors,
            stderr=errors,
            text=True,
            env={**environment, **variables},
        )
        try:
            yield running
        finally:
            if running.poll() is None:
                running.send_signal(signal.SIGTERM)
                try:
                    running.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    running.kill()
                    running.wait()
            if running.stdout is not None:
                running.stdout.close()


def _address(server: subprocess.Popen[str], log: Path) -> str:
    """The address the server announces on its first line."""
    assert server.stdout is not None
    line = server.stdout.readline()
    if " at http" not in line:
        server.wait(timeout=PATIENCE)
        raise ParleyError(f"the coordinator did not start: {log.read_text()[-500:]}")
    return line.rsplit(" at ", 1)[1].strip()


def run_live(
    study_file: str | Path | None = None,
    *,
    seed: int = 0,
    db: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run a study live, with simulated arms, until its answer; returns the certificate, the board and the verification.

    `study_file` needs a [truth]; left out, it is the paper's instance. `db` may be a PostgreSQL address; left out, an
    SQLite file that is removed afterwards with everything else.
    """
    with needs("server", "a live demo"):
        from parley.coordinator.access.tokens import prepare
    with needs("agent", "a live demo"):
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
        token = prepare(database, name=f"live-demo-{os.getpid()}", new_token=True)[2]
        assert token is not None
        log = folder / "server.log"
        server = stack.enter_context(_process(["serve", "--db", database, "--port", "0"], log, heard=True))
        client = stack.enter_context(Client(_address(server, log), token))
        say(f"coordinator at {client.server}, database {'PostgreSQL' if db else 'SQLite'}")
        body = {"id": f"live-{os.urandom(4).hex()}", "study": StudyMessage.of(study).to_json()}
        made = _patiently(lambda: client.request("POST", "studies", json=body))
        for place, agent in enumerate(study.problem.agents):
            body = {"role": "agent", "study": made["id"], "agent": agent}
            secret = client.request("POST", "tokens", json=body)["token"]
            arguments = ["agent", "--server", client.server, "--study", made["id"], "--source", f"simulate:{path}"]
            arguments += ["--seed", str(seed), "--outbox", str(folder / f"outbox-{place}")]
            stack.enter_context(_process(arguments, folder / f"agent-{place}.log", heard=False, PARLEY_TOKEN=secret))
            say(f"agent process started: {agent}")
        last = _follow(client, made["id"], say)
        return _result(client, made["id"], last, study)


def _patiently(call: Callable[[], Any]) -> Any:
    """Try again while the server starts."""
    from parley.errors import Unreachable

    until = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except Unreachable:
            if time.monotonic() > until:
                raise
            time.sleep(MOMENT)


def _follow(client: Any, study: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Tell about every phase until the study is over."""
    told = 0
    while True:
        found: dict[str, Any] = _patiently(lambda: client.status(study))
        over = found["stage"] not in ("running", "closing")
        for phase in range(told + 1, found["phase"] + over):
            done = client.request("GET", "studies", study, "history", params={"after": phase - 1, "limit": 1})["phases"]
            if done:
                out = ", ".join(f"{pair['arm']} for {pair['agent']}" for pair in done[0]["eliminated"]) or "nothing"
                say(f"phase {phase}: {done[0]['samples']:,} samples; ruled out: {out}")
                told = phase
        if over:
            return found
        time.sleep(MOMENT)


def _result(client: Any, study: str, last: dict[str, Any], file: Study) -> dict[str, Any]:
    certificate = client.request("GET", "studies", study, "certificate")
    return {
        "study": study,
        "stage": last["stage"],
        "phases": certificate["phases"],
        "samples": certificate["samples"],
        "answers": certificate["answers"],
        "correct": _correct(certificate["answers"], file),
        "eliminated_in": client.request("GET", "studies", study, "board")["eliminated_in"],
        "guarantee": certificate["guarantee"],
        "verification": client.request("POST", "studies", study, "verify"),
    }


def _correct(answers: dict[str, list[str]], file: Study) -> bool:
    """Whether the answers are among the true best arms, which the demo knows and the coordinator did not."""
    instance = file.require_truth()
    problem = instance.problem
    return all(
        instance.best[problem.arms.index(arm), problem.agents.index(agent)]
        for agent, arms in answers.items()
        for arm in arms
    )


def show_live(study: str | None, *, seed: int, db: str | None, as_json: bool) -> None:
    """Run a study live and tell it: the phases as they come, the answers, the verified log."""
    silent: Callable[[str], None] = lambda _: None  # noqa: E731
    result = run_live(study, seed=seed, db=db, say=silent if as_json else _say)
    if as_json:
        print_json(result)
        return
    shown = table(f"Answers after {result['phases']} phases and {result['samples']:,} samples", "agent", "best arms")
    for agent, arms in result["answers"].items():
        shown.add_row(agent, ", ".join(arms))
    screen.print(shown)
    check = result["verification"]
    words = "verified" if check["sound"] else f"NOT SOUND: {check['problem']}"
    screen.print(f"Log of {check['records']} records: {words}. Guarantee: {result['guarantee']}.", highlight=False)


def _say(words: str) -> None:
    screen.print(words, highlight=False, markup=False, soft_wrap=True)
