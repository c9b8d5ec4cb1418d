"""Studies while PostgreSQL is stopped in immediate mode and started again, over and over."""

import random
import signal
import threading
import time

import psutil
from tests.coordinator.support import House, report_of
from tools.chaos.findings import examine

from parley.errors import Unreachable

PATIENCE = 180.0


def retried(call):
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except Unreachable:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def restart(server):
    """Restart PostgreSQL in immediate mode: SIGQUIT, no checkpoint, recovery from its own log at the next start."""
    process = psutil.Process(server.get_pid())
    process.send_signal(signal.SIGQUIT)
    process.wait(timeout=PATIENCE)
    server.ensure_postgres_running()


def _agent(house, study, name):
    """A client for an agent; a lost answer may leave one unused token, which the limit of two tokens allows."""
    return retried(lambda: house.issue("agent", study=study, agent=name))


def run(storage, server, *, restarts, seed, message):
    """Run studies during `restarts` restarts; returns the findings."""
    chance, house = random.Random(seed), House(storage, statement_timeout=10.0)
    receipts, failures, done = {}, [], threading.Event()
    studies = []

    def work():
        try:
            while not done.is_set() or not studies:
                study = f"study-{len(studies)}"
                body = {"id": study, "study": message.to_json()}
                try:
                    retried(lambda body=body: house.admin.request("POST", "studies", json=body))
                except Exception as error:
                    if "already-exists" not in str(getattr(error, "problem", "")):
                        raise
                clients = [_agent(house, study, name) for name in message.agents]
                left = set(range(len(clients)))
                while left:
                    for place in sorted(left):
                        name = message.agents[place]
                        plan = retried(lambda c=clients[place], s=study, n=name: c.plan(s, n))
                        if plan.over:
                            left.discard(place)
                        elif plan.due:
                            report = report_of(plan, place)
                            receipt = retried(lambda c=clients[place], r=report: c.send(r))
                            receipts[study, plan.phase, name] = receipt
                studies.append(study)
        except BaseException as error:
            failures.append(error)
            raise

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    happened = 0
    while happened < restarts and worker.is_alive():
        time.sleep(chance.uniform(0.1, 0.5))
        restart(server)
        happened += 1
    done.set()
    worker.join(timeout=2 * PATIENCE)
    assert not worker.is_alive(), "a study is stuck"
    assert not failures, failures
    house.close()
    flaws = examine(storage, studies, receipts)
    return {"restarts": happened, "studies": len(studies), "acknowledged": len(receipts), **flaws}
