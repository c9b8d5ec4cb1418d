"""A coordinator with its pages in this process, on a free port, with a clock that tests can move."""

import threading
import time
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2
import numpy as np
import pytest
import uvicorn
from tests.coordinator.support import OWN_PAGE, wait_for_decisions

from parley.agent import Client
from parley.agent.plans import AgentPlan
from parley.coordinator.access.tokens import prepare
from parley.coordinator.clock import later
from parley.coordinator.http.context import utc_now
from parley.coordinator.record import open_storage
from parley.coordinator.settings import ServerSettings
from parley.dashboard import pages
from parley.dashboard.session import STUDY
from parley.experiments.forecasts import forecast
from parley.hooks import own_edges
from parley.protocol import StudyMessage
from parley.service.server import create_service, refuse_request
from parley.study import parse_study
from parley.totals import Totals
from parley.web.connections import ConnectionLimits

TWO = """
name = "Two sites"
arms = ["a", "b", "c"]
agents = ["North", "South"]

[weights]
kind = "personalized"
alpha = 0.5
"""
PARTS = (*pages.PAGES, *filter(None, (edge.pages() for edge in own_edges())))
PAGES = [
    route for part in PARTS for route in part.routes
    if "GET" in route.methods and not route.path.endswith("/events")  # which never end
]  # fmt: skip
OF_A_STUDY = [route.below for route in PAGES if route.path.startswith(STUDY)]
TABS = [route.below for route in PAGES if route.tab]
OF_NO_STUDY = [route.path for route in PAGES if not route.path.startswith(STUDY)]
MEANS = np.array([[0.9, 0.2], [0.1, 0.8], [0.4, 0.1]])


@dataclass
class Site:
    address: str
    token: str
    db: str
    hours: list = field(default_factory=lambda: [0.0])
    agents: dict = field(default_factory=dict)
    line: httpx2.Client | None = None

    def api(self, token=None):
        return Client(self.address, token or self.token)

    @contextmanager
    def browser(self, token=None):
        """Signed in with a token, as a browser would be; with False, not signed in.

        There is no certificate to verify, and reading the system's authorities takes longer than a page.
        """
        options = {"follow_redirects": True, "timeout": 30, "verify": False, "headers": OWN_PAGE}
        with httpx2.Client(base_url=self.address, **options) as made:
            if token is not False:
                sign_in(made, token or self.token)
            yield made

    def call(self, method, path, *, token=None, **options):
        """A call of the API on one connection for all, which is much quicker than a client each."""
        if self.line is None:
            self.line = httpx2.Client(base_url=self.address, timeout=30, verify=False)
        answer = self.line.request(
            method, f"/v1/{path}", headers={"Authorization": f"Bearer {token or self.token}"}, **options
        )
        assert answer.is_success, answer.text
        return answer.json()

    def close(self):
        if self.line is not None:
            self.line.close()

    def issue(self, role, name="x", **scope):
        return self.call("POST", "tokens", json={"role": role, "name": name, **scope})["token"]

    def create(self, text=TWO, study_id="two"):
        message = StudyMessage.of(parse_study(tomllib.loads(text)))
        return self.call("POST", "studies", json={"id": study_id, "study": message.to_json()})["id"]

    def phase(self, study, means=MEANS, but=()):
        """Every due report of the phase in progress: exactly the mean, no noise."""
        status = self.call("GET", f"studies/{study}")
        for place, name in enumerate(status["agent_names"]):
            if name in but or name in status["settings"]["asks_only"]:
                continue
            token = self.agent_token(study, name)
            plan = AgentPlan.from_json(self.call("GET", f"studies/{study}/agents/{name}/plan", token=token))
            if plan.due:
                report = plan.report(exactly(plan.draws, means[:, place]))
                where = f"studies/{study}/phases/{plan.phase}/reports/{name}"
                self.call("PUT", where, token=token, json=report.to_json())

    def run(self, study, means=MEANS):
        while self.call("GET", f"studies/{study}")["stage"] in ("running", "closing"):
            self.phase(study, means)

    def agent_token(self, study, name):
        if (study, name) not in self.agents:
            self.agents[study, name] = self.issue("agent", study=study, agent=name)
        return self.agents[study, name]


def exactly(draws, means, shift=0.0):
    """Rewards of this mean; they scatter by 1, unless there is only one."""
    counts = np.array(draws)
    sums = counts * (means + shift)
    return Totals(counts=counts, sums=sums, squares=counts * ((counts > 1) + (means + shift) ** 2))


def sign_in(browser, token):
    return browser.post("/sign-in", data={"token": token, "next": "/"})


@contextmanager
def few_studies():
    """Every page of a running study starts a forecast, and what a study would cost is simulated: both by few studies.

    How good the figures are is a matter of tests/experiments/forecasts.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast, "FORECAST_WORK", 48)
        patch.setattr(forecast, "ESTIMATE_WORK", 60)
        patch.setattr(forecast, "MOST_STUDIES", forecast.FEWEST_STUDIES)
        yield


@contextmanager
def site(folder, *, db=None, **settings):
    db = db or str(folder / "parley.db")
    token = prepare(db, at="2026-01-01T00:00:00.000Z", name="office")[2]
    hours = [0.0]
    storage = open_storage(db)
    chosen = ServerSettings.read(**{"rate": 1000.0, "burst": 5000, **settings})
    app = create_service(storage, chosen, clock=lambda: later(utc_now(), hours[0]))
    wait_for_decisions(app)
    options = ConnectionLimits().uvicorn(refuse_request) | {"port": 0, "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(app, **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        made = Site(address=f"http://127.0.0.1:{port}", token=token, db=db, hours=hours)
        yield made
        made.close()
    finally:
        server.should_exit = True
        thread.join(timeout=60)
        storage.close()
