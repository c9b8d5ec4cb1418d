"""Response times of the pages of a small study and of one with 1,000 agents and 50 arms."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import httpx2
import numpy as np
import uvicorn
from sqlalchemy import Connection

from benchmarks.common import Section
from parley.coordinator.access.tokens import prepare
from parley.coordinator.clock import utc_now
from parley.coordinator.observability import configure
from parley.coordinator.record import Storage, open_storage, studies
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.acts import create_study, prepare_study
from parley.coordinator.studies.phases import load_trial, take_report, take_step
from parley.protocol import Report, StudyMessage
from parley.service.server import create_service
from parley.study import parse_study

SIZES = ((3, 6), (1000, 50))  # agents, arms
PHASES = 3
PAGES = {
    "overview": "/studies/{0}",
    "overview, a later page": "/studies/{0}?first=500",
    "evidence": "/studies/{0}/evidence",
    "samples": "/studies/{0}/samples",
    "audit": "/studies/{0}/audit",
    "administration": "/studies/{0}/administration",
    "the list of studies": "/",
}


def grow(storage: Storage, name: str, agents: int, arms: int) -> None:
    """Create a study with some decided phases and half of the reports of the next one."""
    document = {"name": name, "arms": arms, "agents": agents, "weights": {"kind": "personalized", "alpha": 0.5}}
    trial = prepare_study(name, StudyMessage.of(parse_study(document)))
    storage.change(lambda connection: create_study(connection, trial, actor="benchmark", at=utc_now()))
    rng = np.random.default_rng(0)
    means = rng.uniform(-0.3, 0.3, (arms, 1)) + rng.uniform(-0.2, 0.2, (arms, agents))
    for phase in range(1, PHASES + 2):
        _report(storage, name, means, rng, part=0.5 if phase > PHASES else 1.0)
        take_step(storage, name, utc_now())


def _report(storage: Storage, name: str, means: np.ndarray, rng: np.random.Generator, *, part: float) -> None:
    def work(connection: Connection) -> None:
        row = studies.get(connection, name)
        assert row is not None
        trial = load_trial(connection, row)
        plan = trial.plan.digest
        for agent in trial.awaited[: int(len(trial.awaited) * part)]:
            place = trial.study.agents.index(agent)
            counts = trial.plan.array[:, place]
            sums = counts * means[:, place] + np.sqrt(counts) * rng.standard_normal(len(counts))
            squares = np.where(counts > 0, sums**2 / np.maximum(counts, 1) + counts, 0.0)
            report = Report(
                study=name,
                phase=trial.phase,
                agent=agent,
                plan=plan,
                counts=tuple(counts.tolist()),
                sums=tuple(sums.tolist()),
                squares=tuple(squares.tolist()),
            )
            take_report(connection, report, actor=agent, at=utc_now())

    storage.change(work)


@contextmanager
def served(storage: Storage) -> Iterator[str]:
    """The coordinator on a free port."""
    config = uvicorn.Config(
        create_service(storage, ServerSettings()), port=0, log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)


def sign_in(browser: httpx2.Client, token: str) -> None:
    form = re.search(r'name="csrf" value="([0-9a-f]+)"', browser.get("/sign-in").text)
    assert form
    browser.post("/sign-in", data={"csrf": form[1], "token": token, "next": "/"})


def timed(browser: httpx2.Client, path: str) -> tuple[float, int]:
    begun = perf_counter()
    answer = browser.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return perf_counter() - begun, len(answer.content)


def sections() -> list[Section]:
    configure("warning")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "parley.db")
        token = prepare(database, at="2026-01-01T00:00:00.000Z")[2]
        assert token
        storage = open_storage(database)
        for agents, arms in SIZES:
            grow(storage, f"study-{agents}", agents, arms)
        storage.close()
        storage = open_storage(database)  # with empty caches, as in a server that has just started
        with served(storage) as address, httpx2.Client(base_url=address, follow_redirects=True, timeout=60) as browser:
            sign_in(browser, token)
            seen = {}
            for agents, _ in SIZES:
                paths = {name: path.format(f"study-{agents}") for name, path in PAGES.items()}
                first = {name: timed(browser, path) for name, path in paths.items()}
                while "being forecast" in browser.get(paths["overview"]).text:
                    time.sleep(1)
                for name, path in paths.items():
                    again = sorted(timed(browser, path)[0] for _ in range(5))[2]
                    seen[agents, name] = (first[name][0], again, first[name][1])
        storage.close()
    small, large = SIZES[0][0], SIZES[-1][0]
    for name in PAGES:
        (_, quick, _), (first, again, size) = seen[small, name], seen[large, name]
        times = [f"{1000 * seconds:,.0f}" for seconds in (quick, first, again)]
        rows.append([name, *times, f"{again / quick:.1f} x", f"{size / 1024:,.0f}"])
    return [
        Section(
            title="Pages of the dashboard",
            words=f"Milliseconds until a page is there, over HTTP, {PHASES} phases decided. First: right after the "
            "server was started, while a forecast is being computed. Again: the median of five, later.",
            columns=("page", "6 x 3", "50 x 1,000, first", "again", "against 6 x 3", "KiB"),
            rows=rows,
        )
    ]
