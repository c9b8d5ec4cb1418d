"""A realistic trial: people arrive one by one, outcomes follow weeks later or never, and sites are slow or stop.

Everything goes through the real services: a coordinator, three site services, and HTTP between them. Only the calendar
is simulated, as a queue of days, so that a study of months takes seconds. `python -m tools.trials` tells it as a story.
"""

import heapq
import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx2
import numpy as np
import uvicorn
from tests.coordinator.support import House

from parley.agent.client import Client
from parley.agent.reporting import SiteRuntime, rules_of
from parley.agent.site import Site
from parley.coordinator.record.audit import verify_stored
from parley.policies import make_policy
from parley.protocol import StudyMessage
from parley.protocol.messages import Report
from parley.site.access import Access
from parley.site.app import create_app
from parley.totals import Totals

ARMS, SITES = ("placebo", "low dose", "high dose"), ("Paris", "Lille", "Lyon")
RATES = np.array([[0.2, 0.1, 0.15], [0.3, 0.25, 0.4], [0.85, 0.8, 0.9]])  # (arm, site): rates of success
WEIGHTS = ((0.6, 0.2, 0.3), (0.2, 0.6, 0.1), (0.2, 0.2, 0.6))
ARRIVALS = (9.0, 3.0, 7.0)  # people per day; Lille is slow
DELAY = (7.0, 21.0)  # days until an outcome
MISSING = 0.03
STOPS = (2, 3.0, 60.0)  # site (Lyon), first day, number of days: nobody arrives and nothing is entered
PATIENCE = 14.0  # days that the administrator waits for one site after all others have reported


EASY = np.array([[0.1, 0.05, 0.05], [0.1, 0.1, 0.15], [0.95, 0.95, 0.95]])  # a short trial, for the default run


def study(policy="evidence"):
    return StudyMessage(
        name="Two doses", arms=ARMS, agents=SITES, weights=WEIGHTS, policy=policy, noise={"kind": "binary"},
        options={"rounds": 6} if policy == "evidence" else {},
    )  # fmt: skip


class SiteHouse:
    """A site's service in a thread of this process, listening on a real socket."""

    def __init__(self, house, folder, study_id, name, message=None):
        client = Client(house.url, house.tokens[study_id, name])
        # A fixed key makes the story the same every time.
        rules = rules_of(message or study())
        self.site = Site(folder, study=study_id, agent=name, rules=rules, key=name.encode() * 8)
        self.client = client
        self.runtime = SiteRuntime(self.site, client, folder)
        app = create_app(self.runtime, Access(host="127.0.0.1"))
        self.server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.005)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.line = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)
        self.runtime.start()

    def post(self, path, **body):
        answer = self.line.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def status(self):
        return self.line.get("/v1/status").json()

    def close(self):
        self.line.close()
        self.server.should_exit = True
        self.thread.join()
        self.runtime.close()
        self.client.close()


@dataclass
class Trial:
    """The calendar, the people and their outcomes."""

    house: House
    sites: list
    study_id: str
    chance: np.random.Generator
    rates: np.ndarray
    say: object = print
    day: float = 0.0
    queue: list = field(default_factory=list)
    people: Counter = field(default_factory=Counter)
    cuts: list = field(default_factory=list)
    waited_since: float = 0.0
    known: tuple = ()
    needed: list = field(default_factory=list)  # per site: people still to assign this morning
    over: bool = False
    ticket: object = field(default_factory=itertools.count)

    def at(self, day, what, *details):
        heapq.heappush(self.queue, (day, next(self.ticket), what, details))

    def run(self, most_days=2000):
        for place in range(len(SITES)):
            self.at(self.chance.exponential(1 / ARRIVALS[place]), "arrival", place)
        for day in range(0, most_days, 2):
            self.at(float(day), "morning")
        while self.queue and not self.over:
            self.day, _, what, details = heapq.heappop(self.queue)
            getattr(self, f"_{what}")(*details)

    def _away(self, place):
        return place == STOPS[0] and STOPS[1] <= self.day < STOPS[1] + STOPS[2]

    def _arrival(self, place):
        self.at(self.day + self.chance.exponential(1 / ARRIVALS[place]), "arrival", place)
        if self._away(place) or not self.needed[place]:
            return  # nobody is needed
        self.needed[place] -= 1
        self.people["assigned"] += 1
        key = f"{SITES[place]}-{self.people['assigned']:04}"
        given = self.sites[place].post("/v1/assignments", participant=key)
        if given["counted"]:
            arm = ARMS.index(given["arm"])
            reward = None if self.chance.random() < MISSING else float(self.chance.random() < self.rates[arm, place])
            self.at(self.day + self.chance.uniform(*DELAY), "outcome", place, key, reward)

    def _outcome(self, place, key, reward):
        if self._away(place):
            self.at(STOPS[1] + STOPS[2], "outcome", place, key, reward)
            return
        path, body = ("/v1/missing", {}) if reward is None else ("/v1/outcomes", {"reward": reward})
        answer = self.sites[place].line.post(path, json={"participant": key, **body})
        assert answer.status_code in (200, 409), answer.text  # 409: the phase was closed without this site
        self.people["too late" if answer.status_code == 409 else "missing" if reward is None else "observed"] += 1

    def _morning(self):
        """Every other day: wait for reports of complete phases, and let the administrator check for a late site."""
        status = self._settled()
        self.over = status["stage"] != "running"
        missing = tuple(entry["agent"] for entry in status["missing"])
        if (status["phase"], missing) != self.known:
            self.known, self.waited_since = (status["phase"], missing), self.day
        if len(missing) == 1 and self.day - self.waited_since >= PATIENCE:
            self._cut(status["phase"], missing[0])
            self._settled()

    def _settled(self):
        """Wait until the services have reported all complete phases and every site has its plan."""
        until = time.monotonic() + 60
        while True:
            status = self.house.admin.status(self.study_id)
            standing = [site.status() for site in self.sites]
            self.needed = [found["to_assign"] for found in standing]
            asked = {entry["agent"] for entry in status["missing"]}
            behind = any(
                name in asked and _behind(found, status["phase"]) for name, found in zip(SITES, standing, strict=True)
            )
            # While a phase is closing, its step is being computed; the next plan follows in a moment.
            if status["stage"] != "closing" and not (status["stage"] == "running" and behind):
                return status
            assert time.monotonic() < until, standing
            time.sleep(0.005)

    def _cut(self, phase, agent):
        parts = ("studies", self.study_id, "phases", phase, "close-early")
        shown = self.house.admin.request("GET", *parts)
        self.say(f"day {self.day:.0f}: {agent} alone is awaited for {PATIENCE:.0f} days; {shown['preview']['effect']}")
        body = {"reason": f"{agent} is closed", "preview": shown["digest"]}
        self.house.admin.request("POST", *parts, json=body)
        self.cuts.append((phase, agent))


def _behind(standing, phase):
    """Whether a site with an open report has not seen the plan yet, or is about to report."""
    return standing["phase"] < phase or not standing["to_assign"] + standing["pending"]


def run(storage, folder, *, seed=1, rates=RATES, say=lambda _: None, study_id="doses"):
    """Run the whole trial; returns it with the certificate and the states of a replay on the reported totals."""
    house, message = House(storage), study()
    house.create(message, study_id)
    sites = [SiteHouse(house, folder, study_id, name) for name in SITES]
    chance = np.random.default_rng(seed)
    trial = Trial(house=house, sites=sites, study_id=study_id, chance=chance, rates=rates, say=say)
    try:
        trial.run()
        certificate = house.admin.request("GET", "studies", study_id, "certificate")
        found = verify_stored(storage, study_id)
        records = house.admin.request("GET", "studies", study_id, "log", params={"limit": 1000})["records"]
    finally:
        for site in sites:
            site.close()
        house.close()
    return trial, certificate, found, records


def replayed(records, message):
    """The states of the policy alone, phase by phase, on the totals in the log."""
    policy = make_policy(message.policy, message.problem, message.options)
    state, reports = policy.start(), {}
    for record in records:
        if record["kind"] == "report-accepted":
            report = Report.from_json(record["payload"]["report"])
            reports[report.agent] = report.totals
        elif record["kind"] == "phase-closed":
            columns = [reports.get(name) for name in message.agents]
            state, reports = policy.update(state, Totals.columns(columns, len(message.arms))), {}
    answers = np.asarray(policy.answers(state) if hasattr(policy, "answers") else state.answers)
    return {
        name: [arm for arm, kept in zip(message.arms, answers[:, place], strict=True) if kept]
        for place, name in enumerate(message.agents)
    }
