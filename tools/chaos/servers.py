"""Two server processes on one PostgreSQL behind lossy networks; every report is sent to both at once.

One server computes a step within the transaction of the last report, the other outside any lock.
"""

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.coordinator.support import bootstrap, report_of, study_message
from tools.chaos.findings import examine
from tools.chaos.harness import PATIENCE, agent_token, free_port, launcher, retried
from tools.chaos.lossy import LossyProxy

from parley.agent.client import Client
from parley.coordinator.record import open_for_reading, open_storage

LOSS = 0.1  # probability that a request or its answer is lost
LANES = 2  # studies at a time


class Race:
    """Runs studies until there were enough phases, and keeps what their agents were told."""

    def __init__(self, urls, networks, token, phases, seed):
        self.urls, self.networks, self.token, self.wanted, self.seed = urls, networks, token, phases, seed
        self.message = study_message(agents=3, arms=3, policy="uniform")
        self.receipts, self.studies, self.failures, self.decided = {}, [], [], 0

    def lane(self, number):
        """Run one study after another."""
        try:
            with ThreadPoolExecutor(len(self.urls)) as pool:
                while self.decided < self.wanted and not self.failures:
                    phases = self.study(f"study-{number}", random.Random(self.seed + number), pool)
                    self.studies.append(f"study-{number}")
                    self.decided += phases
                    number += LANES
        except BaseException as error:
            self.failures.append(repr(error))
            raise

    def study(self, study, chance, pool):
        """Run a study from creation to end; returns its number of phases."""
        with Client(chance.choice(self.urls), self.token) as admin:
            admin.request("POST", "studies", json={"id": study, "study": self.message.to_json()})
            tokens = {name: agent_token(admin, study, name) for name in self.message.agents}
            clients = {name: [Client(url, token) for url in self.networks] for name, token in tokens.items()}
            waiting = set(clients)
            while waiting:
                name = chance.choice(sorted(waiting))
                plan = retried(partial(chance.choice(clients[name]).plan, study, name))
                if plan.over:
                    waiting.discard(name)
                elif plan.due:
                    self.send(study, name, plan, clients[name], pool)
            for client in (client for both in clients.values() for client in both):
                client.close()
            return admin.status(study)["phase"]

    def send(self, study, name, plan, clients, pool):
        report = report_of(plan, self.message.agents.index(name))
        known = self.receipts.get((study, plan.phase - 1, name))
        sent = [pool.submit(retried, partial(client.send, report, receipt=known)) for client in clients]
        first, second = (future.result() for future in sent)
        assert first == second, "the same report, another receipt"
        self.receipts[study, plan.phase, name] = first


def run(db, *, phases, seed):
    """Run `phases` phases; returns counts of flaws."""
    storage = open_storage(db)
    token = bootstrap(storage)
    storage.close()
    servers, ports = launcher(), [free_port(), free_port()]
    pids = [servers.start(db, port) for port in ports]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    networks = [LossyProxy(port, seed=seed + place, loss=LOSS) for place, port in enumerate(ports)]
    race = Race(urls, [f"http://127.0.0.1:{network.port}" for network in networks], token, phases, seed)
    try:
        for url in urls:
            with Client(url, token) as admin:
                retried(partial(admin.request, "GET", "whoami"))
        lanes = [threading.Thread(target=race.lane, args=(lane,), daemon=True) for lane in range(LANES)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join(timeout=PATIENCE + phases)
            assert not lane.is_alive(), "a study is stuck"
        assert not race.failures, race.failures
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
            servers.wait(pid)
    finally:
        for network in networks:
            network.close()
        servers.clear()
    reading = open_for_reading(db)
    try:
        flaws = examine(reading, race.studies, race.receipts)
    finally:
        reading.close()
    told = {"studies": len(race.studies), "acknowledged": len(race.receipts)}
    return {"phases": race.decided, "lost_on_the_way": sum(n.lost for n in networks), **told, **flaws}
