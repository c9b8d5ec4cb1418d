"""A real coordinator process and agents to go with it, for the browser to look at."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from parley.agent import Client
from parley.agent.plans import Totals
from parley.coordinator.bootstrap import prepare
from parley.errors import CoordinatorError
from parley.protocol import StudyMessage
from parley.study import parse_study

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
        self.token = prepare(str(self.db), name="Ada")[2]
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
        self.patiently(lambda: self.client.request("GET", "whoami"))

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def client(self) -> Client:
        return Client(self.url, self.token)

    @staticmethod
    def patiently(call):
        until = time.monotonic() + 30
        while True:
            try:
                return call()
            except CoordinatorError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def issue(self, role: str, name: str = "", **scope: str) -> str:
        with self.client as client:
            return client.request("POST", "tokens", json={"role": role, "name": name, **scope})["token"]

    def create(self, text: str = THREE, study_id: str | None = None) -> str:
        import tomllib

        message = StudyMessage.of(parse_study(tomllib.loads(text)))
        body = {"study": message.to_json()} | ({"id": study_id} if study_id else {})
        with self.client as client:
            return client.request("POST", "studies", json=body)["id"]


class Agents:
    """Every agent of a study, drawing normal rewards around true means."""

    def __init__(self, server: Server, study: str, means: np.ndarray = MEANS, seed: int = 1) -> None:
        self.server, self.study, self.means = server, study, means
        with server.client as client:
            self.names = client.status(study)["agent_names"]
        self.tokens = [server.issue("agent", study=study, agent=name) for name in self.names]
        self.generator = np.random.default_rng(seed)

    def report(self, place: int) -> bool:
        """One agent's report of the phase in progress; False when nothing is due."""
        with Client(self.server.url, self.tokens[place]) as client:
            plan = client.plan(self.study, self.names[place])
            if not plan.due:
                return False
            client.send(plan.report(self.draw(plan.draws, place)))
            return True

    def draw(self, draws, place: int) -> Totals:
        counts = np.array(draws)
        sums = counts * self.means[:, place] + np.sqrt(counts) * self.generator.standard_normal(len(counts))
        squares = np.where(counts > 0, sums**2 / np.maximum(counts, 1) + counts, 0.0)
        return Totals(counts=tuple(counts.tolist()), sums=tuple(sums.tolist()), squares=tuple(squares.tolist()))

    def phase(self, *, but: tuple[int, ...] = ()) -> None:
        """One phase's reports, without those of some."""
        for place in range(len(self.names)):
            if place not in but:
                self.report(place)

    @property
    def stage(self) -> str:
        with self.server.client as client:
            return client.status(self.study)["stage"]

    def run(self, pause: float = 0.0) -> None:
        """To the end."""
        while self.stage in ("running", "closing"):
            self.phase()
            time.sleep(pause)


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
        thread.join(timeout=60)
    if failed:
        raise failed[0]
