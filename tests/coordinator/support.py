"""A coordinator for tests: a real server on a real socket and a real database."""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import time

import structlog
from msgspec.structs import replace
from tests.coordinator.in_process import Application
from tests.protocol.support import rewards, study_message
from tools.chaos import mutants

from parley.agent.client import Client
from parley.coordinator.access.tokens import Role, issue_token
from parley.coordinator.settings import ServerSettings
from parley.protocol.acts import Given
from parley.service.server import create_service, refuse_request
from parley.web.connections import ConnectionLimits

__all__ = ["OWN_PAGE", "House", "bootstrap", "far_off", "report_of", "rewards", "server_process", "study_message"]

ADDRESS = "http://coordinator"  # where nobody listens
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}  # what a browser says of a form that a page of the same server sent
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def given(**values):
    """What an act of the trial is given: the parts of its address, and the fields of its body."""
    return Given(study="trial", **values)


def report_of(plan, place):
    """The report with which agent number `place` answers its plan."""
    return plan.report(rewards(plan.draws, place, plan.phase))


def far_off(report, by=1e11):
    """The same with a first arm that is far off: the stated model rules it out."""
    n, (total, *sums), (square, *squares) = report.counts[0], report.sums, report.squares
    return replace(report, sums=(total + n * by, *sums), squares=(square + 2 * by * total + n * by**2, *squares))


def bootstrap(storage, name="root"):
    """An administrator's token straight from the database."""
    return storage.change(
        lambda c: issue_token(c, role=Role.ADMINISTRATOR, name=name, study=None, agent=None, by="test", at="now")
    )[0]


def wait_for_decisions(app, seconds=60.0):
    """On a machine that is busy with other tests too, the answer to a last report waits for its decision for longer."""
    object.__setattr__(app.state.context, "patience", seconds)


class House:
    """A coordinator in this process, an administrator's client, and clients of whom is asked for.

    Clients call the application without a socket. Whoever asks for the `url` gets a real server of it.
    """

    def __init__(self, storage, *, clock=None, admin=None, limits=None, **settings):
        self.storage = storage
        options = {"clock": clock} if clock else {}
        chosen = {"rate": 1e6, "burst": 10**6, "log_level": "error", **settings}
        self.app = create_service(storage, ServerSettings.read(**chosen), **options)
        wait_for_decisions(self.app)
        self.application = Application(self.app, **(limits or ConnectionLimits()).uvicorn(refuse_request))
        self.thread = self.application.thread
        self.token = admin or bootstrap(storage)
        self.clients, self.tokens = [], {}
        self.admin = self.client(self.token)

    @property
    def url(self):
        """The address of a real server."""
        return f"http://127.0.0.1:{self.application.serve()}"

    @property
    def server(self):
        """The real server."""
        self.application.serve()
        return self.application.server

    def client(self, token, *, connected=False):
        """A client; `connected` to a real server, for streams that do not end by themselves."""
        made = Client(self.url, token) if connected else Client(ADDRESS, token, transport=self.application)
        self.clients.append(made)
        return made

    def issue(self, role, *, name="", study=None, agent=None):
        body = {"role": role, "name": name, "study": study, "agent": agent}
        token = self.admin.request("POST", "tokens", json=body)["token"]
        self.tokens[study, agent] = token
        return self.client(token)

    def create(self, message, study_id="trial"):
        """A study and the clients of its agents, in order."""
        self.admin.request("POST", "studies", json={"id": study_id, "study": message.to_json()}, timeout=120)
        return [self.issue("agent", study=study_id, agent=name) for name in message.agents]

    def run(self, message, agents, study_id="trial", most=40):
        """Answer every plan until the study is over; returns the last status."""
        for _ in range(most):
            status = self.admin.status(study_id)
            if status["stage"] != "running":
                return status
            for place, name in enumerate(message.agents):
                plan = agents[place].plan(study_id, name)
                if plan.due:
                    agents[place].send(report_of(plan, place))
        raise AssertionError(f"not over after {most} rounds: {status}")

    def close(self):
        for client in self.clients:
            client.close()
        self.application.end()


@contextlib.contextmanager
def server_process(db, *, port=0, **variables):
    """A `parley serve` process; yields it and its address. Killed at the end, if it still lives."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
    if mutants.chosen():
        environment[mutants.VARIABLE] = os.environ[mutants.VARIABLE]
    environment |= {"PARLEY_RATE": "1000000", "PARLEY_BURST": "1000000", "PARLEY_LOG_LEVEL": "error"}
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tools.chaos.mutants" if mutants.chosen() else "parley",
            "serve",
            "--db",
            db,
            "--port",
            str(port),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=mutants.ROOT,
        env=environment | {key: str(value) for key, value in variables.items()},
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"at (http\S+)", line)
        yield process, found[1] if found else None
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()


def eventually(what, seconds=20):
    """What becomes true of itself, soon."""
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)
    return found
