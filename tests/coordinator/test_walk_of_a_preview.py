"""The walk of a preview: route, storage, the row of the act, the protocol, the log, and the answer.

`python -m tests.coordinator.test_walk_of_a_preview` prints the files of the walk in the order in which it enters them.
"""

import tempfile
from pathlib import Path

from starlette.testclient import TestClient
from tests.coordinator.support import bootstrap, rewards, study_message
from tests.coordinator.test_walk_of_a_report import NUMERIC, Walked, without_edges

from parley.coordinator.record import initialise, open_storage
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.acts import create_study, prepare_study
from parley.coordinator.studies.phases import take_report, take_step
from parley.protocol import Report
from parley.service.server import create_service

MOST = 25  # files but for the numerics
MOST_IN_ALL = 40
# What a server does when it starts and every moment, beside any request.
MEANWHILE = ("coordinator/observability.py", "coordinator/http/app.py")


def walk(folder):
    """Show what freezing an agent would do after a first phase; returns file -> functions, in order."""
    address = str(folder / "parley.db")
    initialise(address)
    study = study_message(agents=2, arms=3, policy="evidence")
    trial = prepare_study("trial", study)
    with without_edges(), Walked() as walked:
        storage = open_storage(address)
        try:
            token = bootstrap(storage)
            storage.change(lambda t: create_study(t, trial, actor="test", at="now"))
            for place, agent in enumerate(study.agents):
                totals = rewards(trial.plan.draws(place), place, 1, spread=0.1)
                report = Report.of(totals, study="trial", phase=1, agent=agent, plan=trial.plan.digest)
                storage.change(lambda t, report=report: take_report(t, report, actor="test", at="now"))
            take_step(storage, "trial", "now")
            with TestClient(create_service(storage, ServerSettings(log_level="error"))) as client:
                bearer = {"Authorization": f"Bearer {token}"}
                walked.on = True
                answer = client.get("/v1/studies/trial/agents/agent%201/freeze", headers=bearer)
                walked.on = False
                assert answer.status_code == 200, answer.text
        finally:
            storage.close()
    return {name: functions for name, functions in walked.files.items() if name not in MEANWHILE}


def test_the_preview_of_a_freeze_walks_through_few_files(tmp_path):
    files = walk(tmp_path)
    house = [name for name in files if not name.startswith(NUMERIC)]
    assert {"coordinator/http/routes/administration.py", "protocol/acts.py", "protocol/previews.py"} <= set(house)
    assert len(house) <= MOST, "\n".join(house)
    assert len(files) <= MOST_IN_ALL, "\n".join(files)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        found = walk(Path(made))
    for name, functions in found.items():
        print(f"{name}: {', '.join(functions)}")
    house = [name for name in found if not name.startswith(NUMERIC)]
    print(f"{len(found)} files, {sum(map(len, found.values()))} functions; {len(house)} files but for the numerics")
