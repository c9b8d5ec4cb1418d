"""A live study with a covariate: as it was simulated, replayed by the audit, and no x beyond its site."""

import random
import shutil
import threading
from pathlib import Path

import httpx2
import numpy as np
import pytest
from tests.coordinator.support import House
from tests.dashboard.site import OF_A_STUDY, OWN_PAGE, sign_in
from tests.support import first_quick

from parley.agent.adjustment import AdjustedSource
from parley.agent.client import Client
from parley.agent.outbox import Outbox
from parley.agent.reporting import make_worker, rules_of
from parley.agent.site import Site
from parley.agent.sources import SimulatedSource
from parley.agent.worker import Worker
from parley.coordinator.record import open_storage
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.backup import backup
from parley.policies import make_policy
from parley.protocol import StudyMessage
from parley.simulation import phases
from parley.study import parse_study

KEYS = {
    "name": "trial",
    "arms": ["A", "B"],
    "agents": ["Lyon", "Lille"],
    "weights": {"kind": "personalized", "alpha": 0.5},
    "covariate": {"name": "age"},
    "truth": {"means": [[0.9, 0.8], [0.1, 0.2]], "covariate": {"correlation": [0.8, -0.6], "drift": 1.0}},
}
RANGE = {"kind": "bounded", "low": -1.0, "high": 2.0}


@pytest.mark.parametrize(
    ("noise", "covariate"),
    first_quick(
        ({"scale": "unknown"}, {"correlation": 0.5}),
        (RANGE, {"range": [20, 80]}),
        ({"kind": "binary", "inference": "normal"}, {"theta": [0.1, -0.1], "center": 50.0}),
    ),
    ids=["unknown scale", "range", "normal, with history"],
)
def test_live_and_simulated_studies_decide_alike(sqlite_house, noise, covariate, tmp_path):
    """Same study file, same seed: the same plans, the same slopes and the same decisions, to the last bit."""
    study = parse_study(KEYS | {"noise": noise, "covariate": {"name": "age", **covariate}})
    message = StudyMessage.of(study)
    agents = sqlite_house.create(message)

    def work(place, name):
        with Outbox(tmp_path, study="trial", agent=name) as box:
            source = SimulatedSource(study, seed=7, whole_plan=lambda phase: agents[place].whole_plan("trial", phase))
            rule = rules_of(message, name).adjustment
            Worker(agents[place], box, AdjustedSource(source, rule, box), patience=5).run()

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(message.agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    sums, slopes = np.zeros((2, 2)), []
    for phase in phases(make_policy("evidence", study.problem), study.instance, seed=7):
        assert np.array_equal(agents[0].whole_plan("trial", phase.number).array, phase.quotas)
        decision = sqlite_house.admin.request("GET", "studies", "trial", "phases", phase.number, "decision")
        assert decision["dropped_in"] == phase.after.dropped_in.tolist()
        reports = [sqlite_house.admin.report("trial", phase.number, name) for name in message.agents]
        sums = sums + np.array([report.sums for report in reports if report is not None]).T
        assert np.array_equal(sums, phase.after.sums), "to the last bit"
        assert decision["theta"] == [report.theta for report in reports]
        slopes.append(decision["theta"])
    assert decision["finished"]
    assert (slopes[0] == [0.0, 0.0]) == study.problem.adjustment.learns
    assert any(slopes[-1])
    found = verify_stored(sqlite_house.storage, "trial")
    assert found.sound, found.problem
    certificate = sqlite_house.admin.request("GET", "studies", "trial", "certificate")
    assert certificate["covariate"]["theta"]["Lyon"] == [each[0] for each in slopes]


SENTINEL = 61.803398874989  # of one person; no sum and no mean of others has these digits


class Listening(Client):
    """A client that keeps all that it sends."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.sent = []

    def request(self, *args, **options):
        self.sent.append(repr((args, options)))
        return super().request(*args, **options)

    def send(self, report, **options):
        self.sent.append(report.text)
        return super().send(report, **options)


def test_no_covariate_leaves_its_site(prepared_sqlite, tmp_path):
    """Not in a message, the log, a page, an export or a backup of the coordinator, nor in its database."""
    db = str(shutil.copy(prepared_sqlite, tmp_path / "parley.db"))
    storage = open_storage(db)
    house = House(storage)
    message = StudyMessage.of(
        parse_study(KEYS | {"noise": {"scale": "unknown"}, "agents": 1, "truth": {"means": [[1], [0]]}})
    )
    (name,) = message.agents
    house.create(message)
    client = Listening("http://coordinator", house.tokens["trial", name], transport=house.application)
    chance = random.Random(1)
    with (
        Site(tmp_path / "box", study="trial", agent=name, rules=rules_of(message, name), key=b"k") as site,
        Outbox(tmp_path / "box", study="trial", agent=name) as box,
    ):
        worker = make_worker(site, client, box, sleep=lambda _: None, patience=0.0)
        worker.step()
        number = 0
        while site.people.stage.stage == "running" and number < 5000:
            while site.status()["to_assign"]:
                number += 1
                x = SENTINEL if number == 7 else round(chance.gauss(50, 10), 3)
                arm = site.assign(f"p-{number}", covariate=x).arm
                site.outcome(f"p-{number}", round((arm == "A") + 0.08 * (x - 50) + chance.gauss(0, 1), 3))
            worker.step()
    assert house.admin.status("trial")["stage"] == "finished"
    digits = str(SENTINEL)[:9]
    assert digits in next((tmp_path / "box").rglob("journal")).read_text(), "it is known where it was noted"
    seen = {"messages": "\n".join(client.sent)}
    seen["certificate"] = repr(house.admin.request("GET", "studies", "trial", "certificate"))
    seen["status"] = repr(house.admin.status("trial"))
    with httpx2.Client(
        base_url=house.url, follow_redirects=True, headers=OWN_PAGE, verify=False, timeout=30
    ) as browser:
        assert sign_in(browser, house.token).is_success
        for page in OF_A_STUDY:
            answer = browser.get(f"/studies/trial{page}")
            assert answer.is_success, page
            seen[page] = answer.text
    assert "adjusted for age" in seen["/report"], "pages are those of the study, read by somebody who is signed in"
    backup(db, tmp_path / "backup.db")
    house.close()
    storage.close()
    for path in [Path(db), tmp_path / "backup.db", *Path(db).parent.glob("parley.db-*")]:
        seen[path.name] = path.read_bytes().decode("latin-1")
    assert any("theta" in text for text in seen.values())
    for place, text in seen.items():
        assert digits not in text, place
    assert client.sent
