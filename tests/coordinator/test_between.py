"""A live study whose sites assign people between phases: as it was simulated, and as its journals have it."""

import random
import threading

import numpy as np
import pytest
from tests.support import first_quick

from parley.agent.adjustment import AdjustedSource
from parley.agent.outbox import Outbox
from parley.agent.privacy import Disclosure
from parley.agent.reporting import make_worker, rules_of
from parley.agent.site import Site
from parley.agent.sources import SimulatedSource
from parley.agent.worker import Worker
from parley.coordinator.record.audit import verify_stored
from parley.errors import CoordinatorError
from parley.policies import make_policy
from parley.protocol import StudyMessage, read_log, verify_log
from parley.simulation import phases
from parley.study import parse_study

KEYS = {
    "name": "trial",
    "arms": ["A", "B", "C"],
    "agents": ["Lyon", "Lille"],
    "weights": {"kind": "personalized", "alpha": 0.5},
    "sampling": {"rate": [3.0, 2.0], "delay": [20.0, 10.0]},
    "sites": {"between": "assign", "grace_hours": 0},
    "truth": {"means": [[0.6, 0.5], [0.3, 0.3], [0.1, 0.2]], "drift": [0.3, 0.3, 0.3]},
}
BLEEDING = {"name": "bleeding", "kind": "binary", "role": "guardrail", "better": "lower", "limit": 0.5, "delta": 0.05}
MARGIN = {key: value for key, value in BLEEDING.items() if key != "limit"} | {"margin": 0.3}
PAIN = {"name": "pain", "kind": "gaussian", "scale": "unknown", "role": "secondary", "better": "lower"}
HARMS = {"bleeding": [[0.05, 0.05]] * 3, "pain": [[1.0, 1.0]] * 3}
AGE = {"covariate": {"correlation": [0.8, -0.6], "drift": 1.0}}
CASES = {
    "unknown scale": {"noise": {"scale": "unknown"}},
    "yes or no": {"noise": {"kind": "binary"}},
    "a tolerance and a budget": {"tolerance": 0.1, "max_samples": 3000, "noise": {"scale": 1.0}},
    "a covariate from history, in a range": {
        "noise": {"kind": "bounded", "low": -1.0, "high": 2.0},
        "covariate": {"name": "age", "range": [20, 80], "theta": [0.02, -0.01], "center": 50.0},
        "truth": KEYS["truth"] | AGE,
    },
    "a guardrail and a secondary outcome": {
        "noise": {"scale": "unknown"},
        "control": "C",
        "outcomes": [BLEEDING, PAIN],
        "truth": KEYS["truth"] | {"outcomes": HARMS},
    },
    "a covariate and a guardrail": {
        "noise": {"scale": "unknown"},
        "control": "C",
        "covariate": {"name": "age"},
        "outcomes": [MARGIN],
        "truth": KEYS["truth"] | AGE | {"outcomes": {"bleeding": HARMS["bleeding"]}},
    },
    "a covariate whose slope is learned": {
        "noise": {"scale": "unknown"},
        "covariate": {"name": "age"},
        "truth": KEYS["truth"] | AGE,
    },
}


@pytest.mark.parametrize("case", first_quick(*reversed(CASES)))
def test_live_and_simulated_studies_decide_alike(sqlite_house, case, tmp_path):
    """Same study file, same seed: the same plans, people between phases, sums and decisions, to the last bit."""
    study = parse_study(KEYS | CASES[case])
    message = StudyMessage.of(study)
    agents = sqlite_house.create(message)

    def work(place, name):
        with Outbox(tmp_path, study="trial", agent=name) as box:
            source = SimulatedSource(study, seed=7, whole_plan=lambda phase: agents[place].whole_plan("trial", phase))
            rules = rules_of(message, name)
            rule, disclosure = rules.adjustment, Disclosure(rules)
            source = source if rule is None else AdjustedSource(source, rule, box)
            Worker(agents[place], box, source, disclosure=disclosure, patience=5).run()

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(message.agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    sums, early = np.zeros((3, 2)), 0
    for phase in phases(make_policy("evidence", study.problem), study.instance, seed=7):
        assert np.array_equal(agents[0].whole_plan("trial", phase.number).array, phase.quotas)
        decision = sqlite_house.admin.request("GET", "studies", "trial", "phases", phase.number, "decision")
        assert decision["dropped_in"] == phase.after.dropped_in.tolist()
        reports = [sqlite_house.admin.report("trial", phase.number, name) for name in message.agents]
        for part in ("between", "own"):
            totals = [
                report.totals.strata[-1 if part == "own" else 0]
                for report in reports
                if report.totals.between or part == "own"
            ]
            sums = sums + np.array([one.sums for one in totals]).T if totals else sums
        early += np.sum(decision.get("between", 0))
        assert np.array_equal(sums, phase.after.sums), "to the last bit"
        for report in reports if study.problem.outcomes else ():
            told = [one.name for one in study.problem.outcomes]
            assert [one.name for one in report.outcomes] == told
            assert report.between is None or [one.name for one in report.between.outcomes] == told
    assert decision["finished"]
    assert early > 0
    found = verify_stored(sqlite_house.storage, "trial")
    assert found.sound, found.problem
    assert verify_log(read_log(list(sqlite_house.admin.export("trial")))).sound
    certificate = sqlite_house.admin.request("GET", "studies", "trial", "certificate")
    assert certificate["samples"] == phase.after.counts.sum()
    flow = sqlite_house.admin.request("GET", "studies", "trial", "conduct")["by_arm"]
    assert sum(flow["counted"]) == certificate["samples"], "pages count them too"
    for outcome in certificate.get("outcomes", ()):
        counts = [arm["count"] for agent in outcome["agents"] for arm in agent["arms"]]
        assert sum(counts) == certificate["samples"], "so does every further outcome"


@pytest.mark.simulations
def test_journals_of_people_make_the_same_study(sqlite_house, tmp_path):
    """People come one by one, and never stop coming: those between phases are assigned, told and counted, with their
    covariate and their further outcome.
    """
    study = parse_study(
        KEYS
        | {
            "noise": {"kind": "bounded", "low": 0.0, "high": 1.0},
            "covariate": {"name": "age", "range": [20, 80]},
            "outcomes": [{"name": "pain", "kind": "binary", "role": "secondary", "better": "lower"}],
            "truth": {"means": [[0.9, 0.9], [0.2, 0.1], [0.1, 0.2]], "outcomes": {"pain": [[0.5, 0.5]] * 3}},
        }
    )
    message = StudyMessage.of(study)
    agents = sqlite_house.create(message)
    rng, came, kept = random.Random(3), 0, 0
    sites, workers, boxes = [], [], []
    for client, name in zip(agents, message.agents, strict=True):
        site = Site(tmp_path / name, study="trial", agent=name, key=b"k" * 32, rules=rules_of(message, name))
        box = Outbox(tmp_path / name, study="trial", agent=name)
        sites.append(site)
        boxes.append(box)
        workers.append(make_worker(site, client, box, patience=0.0, sleep=lambda _: None))
    last = None
    for _ in range(400):
        for site, worker in zip(sites, workers, strict=True):
            last = worker.step()
            if last is not None and last.over:
                break
            place = message.agents.index(site.agent)
            while True:
                came += 1
                age = 20.0 + 60.0 * rng.random()
                given = site.assign(f"p-{came}", covariate=age)
                if not given.counted:
                    break
                kept += 1
                arm = message.arms.index(given.arm)
                better = study.instance.means[arm, place] + (age - 50) / 600
                site.outcome(given.participant, float(rng.random() < better))
                site.outcome(given.participant, float(rng.random() < 0.5), outcome="pain")
        if last is not None and last.over:
            break
    assert last.stage == "finished"
    certificate = sqlite_house.admin.request("GET", "studies", "trial", "certificate")
    decisions = [
        sqlite_house.admin.request("GET", "studies", "trial", "phases", phase, "decision")
        for phase in range(1, certificate["phases"] + 1)
    ]
    assert all(one.get("between") for one in decisions[1:])
    wasted = np.sum(decisions[-1].get("ahead", 0))
    (pain,) = certificate["outcomes"]
    noted = sum(arm["count"] for agent in pain["agents"] for arm in agent["arms"])
    assert noted == certificate["samples"]
    assert certificate["samples"] + wasted == sum(len(s.people.persons) - s.status()["outside"] for s in sites)
    assert verify_stored(sqlite_house.storage, "trial").sound
    with pytest.raises(CoordinatorError):
        agents[0].whole_plan("trial", certificate["phases"] + 1)
    for one in (*sites, *boxes):
        one.close()
