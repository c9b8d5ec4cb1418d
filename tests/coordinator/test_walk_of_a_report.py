"""The walk of a report, as CONTRIBUTING describes it: route, transaction, state machine, policy, record, answer.

`python -m tests.coordinator.test_walk_of_a_report` prints the files of the walk in the order in which it enters them.
No sockets: the application is called through ASGI, and every thread of it is watched.
"""

import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.coordinator.support import OWN_PAGE, bootstrap, rewards, study_message

import parley
from parley.coordinator.access.tokens import Role, issue_token
from parley.coordinator.http import app, context
from parley.coordinator.record import initialise, open_storage
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies import phases
from parley.coordinator.studies.acts import create_study, prepare_study
from parley.coordinator.studies.phases import take_report, take_step
from parley.protocol import Report
from parley.service.server import create_service

MOST = 18  # files from the route to the policy and back to the answer
MOST_OF_A_PAGE = 28  # from the session to the drawn page
MOST_OF_A_PAGE_IN_ALL = 35  # with its templates, and what its numbers are computed with
MOST_IN_ALL = 30  # with what the policy computes with
NUMERIC = (
    "rewards/",
    "harmonic/",
    "policies/evidence/",
    "problem.py",
    "totals.py",
    "costs.py",
    "settings.py",
    "validation/",
)
AT = "2026-01-01T00:00:00Z"
SOURCE = str(Path(parley.__file__).parent) + "/"


class Walked:
    """The files of `parley` whose functions are called while it is `on`, by any thread that was started meanwhile."""

    def __init__(self):
        self.on, self.files = False, {}

    def __call__(self, frame, event, _):
        code = frame.f_code
        if self.on and event == "call" and code.co_filename.startswith(SOURCE) and code.co_name != "<module>":
            functions = self.files.setdefault(code.co_filename.removeprefix(SOURCE), [])
            if code.co_name not in functions:
                functions.append(code.co_name)

    def __enter__(self):
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)


@contextmanager
def without_edges():
    """The walk through the middle: what edges do beside it is theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "edges", tuple)
        patch.setattr(phases, "MOMENT", 3600.0)
        patch.setattr(context, "LOOK", 3600.0)  # what is done every moment anyway is no part of it either
        yield


def walk(folder):
    """Send the last report of a first phase, and the study goes on; returns file -> functions, in order."""
    address = str(folder / "parley.db")
    initialise(address)
    study = study_message(agents=2, arms=3, policy="evidence")
    trial = prepare_study("trial", study)
    with without_edges(), Walked() as walked:
        storage = open_storage(address)
        try:
            bootstrap(storage)
            storage.change(lambda t: create_study(t, trial, actor="test", at="now"))
            tokens = {}
            for agent in study.agents:
                who = {"role": Role.AGENT, "name": "", "study": "trial", "agent": agent}
                tokens[agent], _ = storage.change(lambda t, who=who: issue_token(t, **who, by="test", at="now"))
            with without_edges(), TestClient(create_service(storage, ServerSettings(log_level="error"))) as client:
                for place, agent in enumerate(study.agents):
                    bearer = {"Authorization": f"Bearer {tokens[agent]}"}
                    assert client.get(f"/v1/studies/trial/agents/{agent}/plan", headers=bearer).status_code == 200
                    totals = rewards(trial.plan.draws(place), place, 1, spread=0.1)
                    report = Report.of(totals, study="trial", phase=1, agent=agent, plan=trial.plan.digest)
                    walked.on = place == len(study.agents) - 1
                    answer = client.put(
                        f"/v1/studies/trial/phases/1/reports/{agent}",
                        headers=bearer,
                        json=report.to_json(),
                    )
                    walked.on = False
                    assert answer.status_code == 201, answer.text
                assert client.get("/v1/studies/trial", headers=bearer).json()["phase"] == 2
        finally:
            storage.close()
    return walked.files


def walk_of_a_page(folder):
    """Open the first page of a study that has a decided phase, again; returns file -> functions.

    Who opens it first in a phase takes the walk of a record, too, and starts the forecast, which is computed beside it.
    """
    address = str(folder / "parley.db")
    initialise(address)
    study = study_message(agents=2, arms=3, policy="evidence")
    trial = prepare_study("trial", study)
    with Walked() as walked:
        storage = open_storage(address)
        try:
            token = bootstrap(storage)
            storage.change(lambda t: create_study(t, trial, actor="test", at=AT))
            for place, agent in enumerate(study.agents):
                totals = rewards(trial.plan.draws(place), place, 1, spread=0.1)
                report = Report.of(totals, study="trial", phase=1, agent=agent, plan=trial.plan.digest)
                storage.change(lambda t, report=report: take_report(t, report, actor="test", at=AT))
            take_step(storage, "trial", AT)
            settings = ServerSettings(log_level="error")
            with without_edges(), TestClient(create_service(storage, settings), base_url="http://testserver") as client:
                client.post("/sign-in", data={"token": token}, headers=OWN_PAGE)
                client.get("/studies/trial")
                bearer, until = {"Authorization": f"Bearer {token}"}, time.monotonic() + 60
                while client.get("/v1/studies/trial/forecast", headers=bearer).json()["total"] is None:
                    assert time.monotonic() < until, "no forecast"
                    time.sleep(0.1)
                walked.on = True
                answer = client.get("/studies/trial")
                walked.on = False
                assert answer.status_code == 200, answer.text
        finally:
            storage.close()
    return walked.files


def test_the_first_page_of_a_study_walks_through_few_files(tmp_path):
    files = walk_of_a_page(tmp_path)
    for name in ("dashboard/pages/study.py", "dashboard/session.py", "coordinator/http/guard.py"):
        assert name in files, "the walk was not seen where it is taken"
    house = [name for name in files if name.endswith(".py") and not name.startswith(NUMERIC)]
    assert len(house) <= MOST_OF_A_PAGE, "\n".join(house)
    assert len(files) <= MOST_OF_A_PAGE_IN_ALL, "\n".join(files)


def test_the_last_report_of_a_phase_walks_through_few_files(tmp_path):
    files = walk(tmp_path)
    house = [name for name in files if not name.startswith(NUMERIC)]
    for name in ("http/routes/agents", "studies/phases", "record/writer"):
        assert f"coordinator/{name}.py" in house, "the walk was not seen where it is taken"
    assert {"protocol/state_machine.py", "policies/evidence/racing.py"} <= set(files)
    assert len(house) <= MOST, "\n".join(house)
    assert len(files) <= MOST_IN_ALL, "\n".join(files)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = walk(Path(folder))
    for name, functions in found.items():
        print(f"{name}: {', '.join(functions)}")
    house = [name for name in found if not name.startswith(NUMERIC)]
    print(f"{len(found)} files, {sum(map(len, found.values()))} functions; {len(house)} files but for the numerics")
