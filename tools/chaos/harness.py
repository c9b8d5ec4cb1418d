"""Studies whose coordinator is killed again and again, with retrying agents and administrators who change the study.

Afterwards every acknowledged report must be in the log under its receipt and none twice, no phase decided twice, the
chain must verify, every decision must follow from the reports, and every study must finish (`findings.py`).
"""

import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache

import msgspec
from tests.coordinator.support import bootstrap, far_off, report_of, study_message
from tools.chaos.findings import examine
from tools.chaos.forks import Forks
from tools.chaos.office import SCRIPTS, Office

from parley.agent.client import Client
from parley.coordinator.record import open_for_reading, open_storage
from parley.coordinator.record.writer import ACTS, POINTS
from parley.errors import Conflict, Unreachable

PATIENCE = 180.0


class Launcher(Forks):
    """The process that forks coordinators."""

    def __init__(self):
        super().__init__("tools.chaos.launcher")

    def start(self, db, port, kill_at=""):
        return self.ask(db=db, port=port, kill_at=kill_at)["pid"]


@cache
def launcher():
    """The launcher that all tests of this process share; it ends with the process."""
    return Launcher()


@dataclass
class Books:
    """Every receipt that the agents were given, and counts of kills and studies."""

    receipts: dict = field(default_factory=dict)
    kills: Counter = field(default_factory=Counter)
    failures: list = field(default_factory=list)
    studies: list = field(default_factory=list)
    flaws: dict = field(default_factory=dict)
    enough: threading.Event = field(default_factory=threading.Event)

    def result(self):
        return {
            "kills": sum(self.kills.values()),
            "kills_by_place": dict(sorted(self.kills.items())),
            "between_commit_and_answer": self.kills["after-commit"],
            "studies": len(self.studies),
            "acknowledged": len(self.receipts),
            **self.flaws,
        }


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def retried(call):
    """Repeat a call until it gets an answer."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except Unreachable:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _held(client, report):
    """Whether an impossible report was held; an administrator will refuse it, or has refused it already."""
    try:
        client.send(report)
    except (Unreachable, Conflict) as error:
        return error.problem.get("type", "").rpartition(":")[2] in ("report-held", "report-refused")
    raise AssertionError("a report that the model rules out was taken")


def _study(books, url, admin_token, number, message, *, acts):
    """Run one study from creation to end; its agents take turns at random."""
    study = f"study-{number}"
    chance = random.Random(number)
    script, slip, special = chance.choice(SCRIPTS) if acts else SCRIPTS[0]
    message = msgspec.structs.replace(message, **special)
    with Client(url, admin_token) as admin:
        try:
            retried(lambda: admin.request("POST", "studies", json={"id": study, "study": message.to_json()}))
        except Conflict as error:
            if not error.problem["type"].endswith("already-exists"):  # the answer to an earlier attempt was lost
                raise
        clients = {name: Client(url, agent_token(admin, study, name)) for name in message.problem.sites}
        places = {name: place for place, name in enumerate(message.agents)}
        office, waiting = Office(admin, study, retried, script), set(clients)
        while waiting:
            office.look()
            name = chance.choice(sorted(waiting))
            plan = retried(lambda name=name: clients[name].plan(study, name))
            if plan.over:
                waiting.discard(name)
            elif plan.due:
                report = report_of(plan, places[name])
                if slip:
                    slip = not _held(clients[name], far_off(report))
                    continue
                known = books.receipts.get((study, plan.phase - 1, name))
                try:
                    receipt = sent(clients[name], report, known, office)
                except Conflict as error:
                    if error.problem["type"].endswith(("agent-frozen", "phase-closed", "report-refused")):
                        continue  # the agent was frozen first
                    if not error.problem["type"].endswith("receipt-unknown"):
                        raise
                    break  # an acknowledged report was lost and the study is paused: `examine` counts it
                # Keep the first receipt: if its report was lost and accepted again, the log lacks this receipt.
                books.receipts.setdefault((study, plan.phase, name), receipt)
            else:
                time.sleep(0.002)
        for client in clients.values():
            client.close()


def sent(client, report, known, office):
    """Send a report and return its receipt. If a report of the agent is held, wait until it is refused."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return client.send(report, receipt=known)
        except Unreachable:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
            office.look()


def agent_token(admin, study, name):
    """A token for an agent; an answer that was lost may have left an unused token."""
    body = {"role": "agent", "study": study, "agent": name}
    for _ in range(20):
        try:
            return retried(lambda: admin.request("POST", "tokens", json=body))["token"]
        except Conflict:
            tokens = retried(lambda: admin.request("GET", "tokens", params={"study": study}))["tokens"]
            for token in tokens:
                if token["agent"] == name and not token["revoked_at"]:
                    retried(lambda kid=token["kid"]: admin.request("DELETE", "tokens", kid))
    raise AssertionError("no token after 20 attempts")


def _studies(books, url, token, lane, message, acts):
    """Run one study after another until there were enough kills."""
    number = lane
    try:
        while not books.enough.is_set():
            _study(books, url, token, number, message, acts=acts)
            books.studies.append(f"study-{number}")
            number += 10
    except BaseException as error:
        books.failures.append(repr(error))
        books.enough.set()
        raise


PLACES = (*POINTS, *ACTS, "at random", "at random", "after-commit", "after-commit", "after-commit", "after-commit")


def run(db, *, kills, seed, lanes=2, places=PLACES, message=None):
    """Kill the server `kills` times while studies run; returns the books with the flaws found."""
    chance, books = random.Random(seed), Books()
    storage = open_storage(db)
    token = bootstrap(storage)
    storage.close()
    message = message or study_message(agents=3, arms=3, policy="uniform")
    port, servers = free_port(), launcher()
    url = f"http://127.0.0.1:{port}"
    acts = any(place in ACTS for place in places)
    workers = [
        threading.Thread(target=_studies, args=(books, url, token, lane, message, acts), daemon=True)
        for lane in range(lanes)
    ]
    try:
        for worker in workers:
            worker.start()
        while sum(books.kills.values()) < kills and not books.failures:
            place = chance.choice(places)
            # An event that happens once per study is waited for once, not six times.
            once = "step" in place or place in ACTS
            named = "" if place == "at random" else f"{place}:{chance.randint(1, 1 if once else 6)}"
            # Sometimes treat it as a large study, whose steps are computed outside the lock.
            pid = servers.start(db, port, named)
            timer = None
            if not named:
                timer = threading.Timer(chance.uniform(0.05, 0.6), os.kill, (pid, signal.SIGKILL))
                timer.start()
            status = servers.wait(pid)
            if timer is not None:
                timer.cancel()
            assert os.WIFSIGNALED(status), f"the server ended by itself with {status}"
            books.kills[place] += 1
        books.enough.set()
        last = servers.start(db, port)
        for worker in workers:
            worker.join(timeout=2 * PATIENCE)
            assert not worker.is_alive(), "a study is stuck"
        os.kill(last, signal.SIGTERM)
        servers.wait(last)
    finally:
        books.enough.set()
        servers.clear()
    assert not books.failures, books.failures
    storage = open_for_reading(db)
    try:
        books.flaws = examine(storage, books.studies, books.receipts)
    finally:
        storage.close()
    return books
