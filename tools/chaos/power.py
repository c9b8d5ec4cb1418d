"""Power failures while the coordinator writes to SQLite: nothing acknowledged is lost, and no commit is partial.

A separate process (`python -m tools.chaos.power FOLDER`) runs real studies on the real storage, over a VFS that records
every request of SQLite to the disk, and every commit and acknowledgement in between. From this journal `disk` derives
the states in which a power failure at any point may leave the disk. Plain SQLite opens each state. It must equal, table
by table and row by row, the state after some commit that is not older than the last acknowledged one.

The same work with `synchronous=NORMAL` is the control: it must lose data, or the simulated failures prove nothing.
"""

import hashlib
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.coordinator.support import rewards, study_message
from tools.chaos.disk import STYLES, Disk
from tools.chaos.vfs import Recorder

from parley.agent.plans import AgentPlan
from parley.coordinator.record import initialise, open_storage, sqlite, studies
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.studies.acts import create_study
from parley.coordinator.studies.phases import load_trial, take_report, take_step
from parley.protocol import create
from parley.system import killpoints

NAME = "parley.db"
CHECKPOINT = 40  # pages of the write-ahead log per checkpoint; SQLite's default of 1000 would need a long journal
MODES = {"as it is": {}, "NORMAL": {"synchronous": 1}}
TIMEOUT = 60.0  # seconds
TRIALS = 3  # studies, with the storage closed and opened in between
PATIENCE = 50  # stop after this many passes over the journal without a new state


def summary(execute):
    """A hash of all rows of a database; `execute` takes a query and returns its rows."""
    tables = [name for (name,) in execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    rows = [(table, [tuple(row) for row in execute(f'SELECT * FROM "{table}"')]) for table in tables]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


class Work:
    """Studies from creation to end on one database, with every commit and acknowledgement recorded."""

    def __init__(self, recorder, address):
        self.recorder, self.address, self.storage = recorder, address, None
        recorder.journal = []
        initialise(address)
        self.storage = open_storage(address)
        self.committed()
        recorder.note("acknowledged")  # the tables exist
        sys.audit = self.reached  # a commit announces its points, the last one before any answer

    def reached(self, event, *values):
        if (event, *values) == (killpoints.REACHED, "after-commit"):
            self.committed()

    def committed(self):
        name = self.storage.read(lambda c: summary(lambda query: c.connection.exec_driver_sql(query).all()))
        hashes = self.storage.read(lambda c: c.connection.exec_driver_sql("SELECT hash FROM log").scalars().all())
        self.recorder.note("committed", name=name, data=" ".join(hashes).encode())

    def submit(self, work):
        """Submit work, and record its acknowledgement by the hash of the log's last record when the answer comes."""
        future = self.storage.submit(work)
        future.add_done_callback(lambda done: self.recorder.note("acknowledged", name=done.result().head))
        return future

    def run(self, study, message, *, at_once):
        """Run a study with the reports of a phase one by one, or all at once, so that they share commits."""
        self.submit(lambda c: create_study(c, create(study, message), actor="test", at="now")).result(TIMEOUT)
        receipts = []
        while (trial := self.storage.read(lambda c: load_trial(c, studies.get(c, study)))).stage == "running":
            reports = [self.report(trial, place) for place in range(len(message.agents))]
            for group in [reports] if at_once else [[report] for report in reports]:
                works = [lambda c, r=report: take_report(c, r, actor="test", at="now").receipt for report in group]
                receipts += [future.result(TIMEOUT) for future in [self.submit(work) for work in works]]
            if (row := take_step(self.storage, study, "now")) is not None:
                self.recorder.note("acknowledged", name=row.head)
        found = verify_stored(self.storage, study, receipts)
        if not found.sound or found.stage != "finished":
            raise RuntimeError(f"the recorded study is {found.stage}, sound: {found.sound}")

    @staticmethod
    def report(trial, place):
        message, draws = trial.study, trial.plan.draws(place)
        plan = AgentPlan(
            study=trial.id, agent=message.agents[place], stage="running", reason="", phase=trial.phase,
            plan=trial.plan.digest, arms=message.arms, draws=draws, reported=False, frozen=False,
        )  # fmt: skip
        return plan.report(rewards(draws, place, trial.phase))

    def reopen(self):
        self.storage.close()
        self.storage = open_storage(self.address)


def _give_up(problem):
    """Exit on an exception in a callback from C, which Python would only print: the journal would be incomplete."""
    sys.__unraisablehook__(problem)
    os._exit(1)


def record_here(folder):
    """Record the journals of all modes; from here on, this process uses SQLite only through the recorder."""
    sys.unraisablehook = _give_up
    recorder, usual = Recorder(), dict(sqlite.PRAGMAS)
    for mode, changes in MODES.items():
        sqlite.PRAGMAS.update(usual | {"wal_autocheckpoint": CHECKPOINT} | changes)
        place = folder / mode
        place.mkdir()
        work = Work(recorder, str(place / NAME))
        for number in range(TRIALS):
            work.run(f"trial-{number}", study_message(agents=3, arms=3, policy="wcpe"), at_once=number == 1)
            if number + 1 < TRIALS:
                work.reopen()
        journal = list(recorder.journal)
        work.storage.close()
        (folder / f"{mode}.journal").write_bytes(pickle.dumps(journal))


def record():
    """The journals by mode, recorded in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "tools.chaos.power", folder], check=True, timeout=300)
        return {mode: pickle.loads((Path(folder) / f"{mode}.journal").read_bytes()) for mode in MODES}


def opened(folder, files):
    """The summary of the database that SQLite finds in a state; None if it is damaged."""
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    connection = sqlite3.connect(folder / NAME, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        whole = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return summary(connection.execute) if whole else None
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # SQLite's message may contain damaged text
        return None
    finally:
        connection.close()


def commits_of(journal):
    """The number of each commit by its summary, and the first commit that contains a record, by the record's hash."""
    numbers, first = {summary(lambda _: []): 0}, {"": 1}
    for number, event in enumerate((event for event in journal if event.kind == "committed"), start=1):
        numbers[event.name] = number
        first = dict.fromkeys(event.data.decode().split(), number) | first
    return numbers, first


def states(journal, count, seed):
    """Up to `count` different states over the journal: the files, and the number of the last acknowledged commit."""
    generator, seen, idle, (_, first) = random.Random(seed), set(), 0, commits_of(journal)
    while len(seen) < count and idle < PATIENCE:
        before, disk, owed = len(seen), Disk(), 0
        share = min(1.0, 1.2 * (count - before) / len(journal))
        for event in journal:
            disk.take(event)
            if event.kind == "acknowledged":
                owed = max(owed, first[event.name])
            if generator.random() > share:
                continue
            files = disk.lose_power(generator.choice(STYLES), generator)
            mark = owed, *((name, hashlib.sha256(content).digest()) for name, content in sorted(files.items()))
            if mark not in seen and len(seen) < count:
                seen.add(mark)
                yield files, owed
        idle = idle + 1 if len(seen) == before else 0


def examine(journal, count, seed):
    """Open `count` states; returns in how many an acknowledged record is lost, or no commit matches the database."""
    numbers, _ = commits_of(journal)
    found = Counter(states=0, lost=0, broken_chains=0)
    with tempfile.TemporaryDirectory() as folder:
        for files, owed in states(journal, count, seed):
            number = numbers.get(opened(Path(folder), files))
            found["states"] += 1
            found["broken_chains"] += number is None
            found["lost"] += number is not None and number < owed
    return dict(found)


def run(count, seed):
    """The part `power`: `count` states of the storage as it is, and a tenth as many with NORMAL as the control."""
    journals = record()
    found = examine(journals["as it is"], count, seed)
    control = examine(journals["NORMAL"], max(100, count // 10), seed)
    failures = [] if control["lost"] else ["the control, synchronous=NORMAL, lost nothing: the simulator is blind"]
    acknowledged = sum(event.kind == "acknowledged" for event in journals["as it is"])
    words = {"states": control["states"], "of them with something acknowledged lost": control["lost"]}
    return {**found, "acknowledged": acknowledged, "control with synchronous=NORMAL": words, "failures": failures}


if __name__ == "__main__":
    record_here(Path(sys.argv[1]))
