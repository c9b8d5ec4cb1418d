"""A whole live study on this machine: a coordinator, an agent process for every agent, an answer, a verified log.

`parley demo --live` calls `show_live`; tests call `run_live`.
"""

from __future__ import annotations

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

from parley.cli.console import print_json, screen, table
from parley.errors import ParleyError
from parley.optional import needs
from parley.study import Study, load_study

__all__ = ["run_live", "show_live"]

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
        from parley.coordinator.access.bootstrap import prepare
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
