"""Studies with retrying agents, and administrators who freeze, re-weigh, thaw and change arms, while their coordinator
is killed again and again; then the books are checked.

What counts: every acknowledged report is in the log under its receipt, none is there twice, no phase was decided twice,
the chain holds, every decision is the one the reports give, and every study finishes (`findings.py`).
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
    """One for all tests of this process; it ends with it."""
    return Launcher()


@dataclass
class Books:
    """What the agents know: every receipt they were given."""

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
    """Call until there is an answer."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except Unreachable:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _held(client, report):
    """Whether a report that cannot be was held; an administrator will refuse it, maybe did already."""
    try:
        client.send(report)
    except (Unreachable, Conflict) as error:
        return error.problem.get("type", "").rpartition(":")[2] in ("report-held", "report-refused")
    raise AssertionError("a report that the model rules out was taken")


def _study(books, url, admin_token, number, message, *, acts):
    """One study from its creation to its end, its agents taking turns at random."""
    study = f"study-{number}"
    chance = random.Random(number)
    script, slip, special = chance.choice(SCRIPTS) if acts else SCRIPTS[0]
    message = msgspec.structs.replace(message, **special)
    with Client(url, admin_token) as admin:
        try:
            retried(lambda: admin.request("POST", "studies", json={"id": study, "study": message.to_json()}))
        except Conflict as error:
            if not error.problem["type"].endswith("already-exists"):  # a first attempt whose answer was lost
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
                        continue  # its freeze was quicker
                    if not error.problem["type"].endswith("receipt-unknown"):
                        raise
                    break  # something acknowledged was lost, and the study is paused: the examination counts it
                # The first one stands in the books: if it was lost and taken again, the log does not have it.
                books.receipts.setdefault((study, plan.phase, name), receipt)
            else:
                time.sleep(0.002)
        for client in clients.values():
            client.close()


def sent(client, report, known, office):
    """The receipt of a report. A place with a report that is held waits until that is refused."""
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
    """A token for an agent; an answer that was lost may have left one that nobody has."""
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
    """Study after study until there were enough kills."""
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
    """Kill the server `kills` times while studies run; returns the books with what is wrong in them."""
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
            # What happens once in a study is waited for once, not six times.
            once = "step" in place or place in ACTS
            named = "" if place == "at random" else f"{place}:{chance.randint(1, 1 if once else 6)}"
            # Now and then as a large study: the step and the end are made outside of the lock.
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
