"""A real coordinator process and agents to go with it, for the browser to look at."""

import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import numpy as np

from parley.agent.plans import AgentPlan
from parley.coordinator.access.tokens import prepare
from parley.protocol import StudyMessage
from parley.study import parse_study
from parley.totals import Totals

THREE = """\
name = "Three centres"
arms = ["placebo", "low dose", "high dose", "combination"]
agents = ["Paris", "Lille", "Lyon"]
delta = 0.1

[weights]
kind = "personalized"
alpha = 0.5
"""
MEANS = np.array([[0.05, 0.1, 0.0], [0.3, 0.25, 0.2], [0.75, 0.4, 0.6], [0.45, 0.95, 0.35]])


class Server:
    """`parley serve` on a database of its own; it can be stopped and started again on the same port."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.db, self.log, self.options = folder / "parley.db", folder / "server.log", options
        self.token = prepare(str(self.db), at="2026-01-01T00:00:00.000Z", name="office")[2]
        assert self.token
        self.port = 0
        self.start()

    def start(self) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
        arguments = ["serve", "--db", str(self.db), "--port", str(self.port), "--rate", "500", "--burst", "2000"]
        with self.log.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "parley", *arguments, *self.options],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert " at http" in line, self.log.read_text()[-2000:]
        self.url = line.rsplit(" at ", 1)[1].strip()
        self.port = int(self.url.rsplit(":", 1)[1])
        self.line = httpx2.Client(base_url=self.url, timeout=60)  # one for all calls: a client is slow to make
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + 120
        while True:
            try:
                self.line.get("/healthz")
                return
            except httpx2.TransportError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.line.close()
        self.process.send_signal(how)
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def call(self, method: str, path: str, *, token: str | None = None, **options):
        answer = self.line.request(
            method, f"/v1/{path}", headers={"Authorization": f"Bearer {token or self.token}"}, **options
        )
        assert answer.is_success, answer.text
        return answer.json()

    def issue(self, role: str, name: str = "", **scope: str) -> str:
        return self.call("POST", "tokens", json={"role": role, "name": name, **scope})["token"]

    def create(self, text: str = THREE, study_id: str | None = None) -> str:
        message = StudyMessage.of(parse_study(tomllib.loads(text)))
        body = {"study": message.to_json()} | ({"id": study_id} if study_id else {})
        return self.call("POST", "studies", json=body)["id"]


class Agents:
    """Every agent of a study, drawing normal rewards around true means."""

    def __init__(self, server: Server, study: str, means: np.ndarray = MEANS, seed: int = 1) -> None:
        self.server, self.study, self.means = server, study, means
        self.names = server.call("GET", f"studies/{study}")["agent_names"]
        self.tokens = [server.issue("agent", study=study, agent=name) for name in self.names]
        self.generator = np.random.default_rng(seed)

    def report(self, place: int) -> bool:
        """One agent's report of the phase in progress; False when nothing is due."""
        name, token = quote(self.names[place], safe=""), self.tokens[place]
        plan = AgentPlan.from_json(self.server.call("GET", f"studies/{self.study}/agents/{name}/plan", token=token))
        if not plan.due:
            return False
        report = plan.report(self.draw(plan.draws, place))
        where = f"studies/{self.study}/phases/{plan.phase}/reports/{name}"
        self.server.call("PUT", where, token=token, json=report.to_json())
        return True

    def draw(self, draws, place: int) -> Totals:
        counts = np.array(draws)
        sums = counts * self.means[:, place] + np.sqrt(counts) * self.generator.standard_normal(len(counts))
        squares = np.where(counts > 0, sums**2 / np.maximum(counts, 1) + counts, 0.0)
        return Totals(counts=counts, sums=sums, squares=squares)

    def phase(self, *, but: tuple[int, ...] = ()) -> None:
        """One phase's reports, without those of some."""
        for place in range(len(self.names)):
            if place not in but:
                self.report(place)

    @property
    def stage(self) -> str:
        return self.server.call("GET", f"studies/{self.study}")["stage"]

    def run(self) -> None:
        """To the end."""
        while self.stage in ("running", "closing"):
            self.phase()


@contextmanager
def beside(work):
    """Run something in a thread while the browser looks on; a failure is raised here."""
    failed = []

    def run():
        try:
            work()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(timeout=180)
    if failed:
        raise failed[0]
