"""Agent processes killed at random while a study runs: nothing is drawn twice, nothing is reported twice.

The source is a command that records every draw before it answers. Reports must match these records exactly.
"""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from tests.coordinator.support import House, study_message

from parley.coordinator.record import open_storage
from parley.coordinator.record.audit import verify_stored

OPERATOR = threading.Lock()  # the operator is one person, who does one thing at a time
PROGRAM = """
import json, os, sys
arm, count = sys.argv[1], int(sys.argv[2])
phase, agent = os.environ["PARLEY_PHASE"], os.environ["PARLEY_AGENT"]
with open(sys.argv[0] + ".drawn", "a") as out:
    out.write(json.dumps([agent, int(phase), arm, count]) + "\\n")
print(*[0.9 if arm == "arm 1" else 0.1] * count)
"""


def run(db, *, kills, seed):
    """Kill agents at random, `kills` times in all; returns the findings."""
    chance = random.Random(seed)
    folder = Path(db).parent
    storage = open_storage(db)
    house = House(storage)
    message = study_message(agents=2, arms=2, policy="uniform", name="agents", largest_gap=1.0)
    happened, number, blocked, cancelled = 0, 0, 0, 0
    flaws = Counter(mismatched=0, duplicated=0, broken_chains=0)
    try:
        while happened < kills:
            number += 1
            study = f"study-{number}"
            house.create(message, study)
            program = folder / f"{study}.py"
            program.write_text(PROGRAM)
            counts, failures = [0, 0], []
            threads = [
                threading.Thread(target=_safely, args=(failures, house, study, name, program, folder, chance, counts))
                for name in message.agents
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(timeout=300)
                assert not thread.is_alive(), "an agent is stuck"
            assert not failures, failures
            happened += counts[0]
            blocked += counts[1]
            flaws.update(_examine(storage, house, study, program))
            cancelled += bool(counts[1])
    finally:
        house.close()
        storage.close()
    return {"kills": happened, "studies": number, "cancelled": cancelled, "draws_found_interrupted": blocked, **flaws}


def _safely(failures, *arguments):
    try:
        _supervise(*arguments)
    except BaseException as error:
        failures.append(error)
        raise


def _supervise(house, study, name, program, folder, chance, counts):
    """Start an agent, kill it after a while and start it again, until it ends by itself."""
    command = f"command:{shlex.quote(sys.executable)} {shlex.quote(str(program))}"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
    arguments = ["agent", "--server", house.url, "--study", study, "--source", command, "--outbox", str(folder / "box")]
    for _ in range(1000):  # starts
        process = subprocess.Popen(
            [sys.executable, "-m", "parley", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "PARLEY_TOKEN": house.tokens[study, name]},
        )
        killer = None
        if process.stdout.readline() and chance.random() < 0.7:  # it has started: kill it at any moment now
            killer = threading.Timer(chance.uniform(0, 1.5), process.send_signal, (signal.SIGKILL,))
            killer.start()
        _, errors = process.communicate(timeout=120)
        if killer is not None:
            killer.cancel()
        if process.returncode == -signal.SIGKILL:
            counts[0] += 1
            continue
        if process.returncode == 0:
            return
        # The result of a draw was lost with the process, and it must not be drawn again. The operator reads the
        # program's own record to see which draws were made, and freezes the agent.
        assert "unknown what was drawn" in errors, errors
        counts[1] += 1
        with OPERATOR:
            _give_up(house, study, name)
        return
    raise AssertionError("1000 starts")


def _give_up(house, study, name):
    """Freeze the agent and cancel the study, unless that was already done for another of its agents."""
    if house.admin.request("GET", "studies", study)["stage"] == "cancelled":
        return
    shown = house.admin.request("GET", "studies", study, "agents", name, "freeze")
    body = {"reason": "an interrupted draw", "preview": shown["digest"]}
    house.admin.request("POST", "studies", study, "agents", name, "freeze", json=body)
    house.admin.request("POST", "studies", study, "cancel", json={"reason": "an interrupted draw"})


def _examine(storage, house, study, program):
    """Compare the reports with the recorded draws."""
    drawn, reported, flaws = Counter(), set(), Counter()
    for line in Path(f"{program}.drawn").read_text().splitlines():
        agent, phase, arm, count = json.loads(line)
        flaws["duplicated"] += (agent, phase, arm) in drawn
        drawn[agent, phase, arm] = count
    found = verify_stored(storage, study)
    flaws["broken_chains"] += found is None or not found.sound
    records = house.admin.request("GET", "studies", study, "log", params={"kind": "report-accepted", "limit": 1000})
    for record in records["records"]:
        report = record["payload"]["report"]
        flaws["duplicated"] += (report["agent"], report["phase"]) in reported
        reported.add((report["agent"], report["phase"]))
        for arm, count in enumerate(report["counts"], start=1):
            flaws["mismatched"] += count != drawn[report["agent"], report["phase"], f"arm {arm}"]
    return flaws
