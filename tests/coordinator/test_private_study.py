"""A private study from its first plan to its certificate, on either database."""

import numpy as np
import pytest
from msgspec import structs
from tests.agent.test_private_reports import study

from parley.agent.outbox import Outbox
from parley.agent.plans import Delivery
from parley.agent.privacy import Disclosure
from parley.agent.reporting import rules_of
from parley.agent.worker import Worker
from parley.errors import Conflict, Rejected
from parley.protocol import read_log, verify_log
from parley.rewards.privacy import DELTA, epsilon
from parley.totals import Totals


def test_a_live_private_study_is_decided_verified_and_certified(house, tmp_path):
    """Two sites, one of them corrected once; the decisions follow from the noisy sums alone, to the bit."""
    message = study(tolerance=0.1)
    clients, rules = house.create(message), rules_of(message)
    chance, rates = np.random.default_rng(5), {"a": 0.2, "b": 0.8}

    class Rewards:
        repeatable = False

        def __call__(self, asked):
            drawn = [
                (chance.random(count) < rates[arm]).astype(float).tolist()
                for arm, count in zip(asked.arms, asked.draws, strict=True)
            ]
            return Delivery(totals=Totals.of(drawn), rewards=drawn)

    boxes = [Outbox(tmp_path, study="trial", agent=name) for name in message.agents]
    workers = [
        Worker(client, box, Rewards(), disclosure=Disclosure(rules), sleep=lambda _: None, patience=0.0)
        for client, box in zip(clients, boxes, strict=True)
    ]
    workers[0].step()
    workers[0].step()
    asked = clients[0].plan("trial", "x")
    rewards = [[float(arm == "b")] * count for arm, count in zip(asked.arms, asked.draws, strict=True)]
    corrected = Disclosure(rules).report(asked, Delivery(totals=Totals.of(rewards), rewards=rewards), boxes[0])
    assert corrected.releases == 2
    body = {"report": corrected.to_json(), "reason": "the site read its outcomes from the wrong column"}
    house.admin.request("POST", "studies", "trial", "phases", 1, "reports", "x", "amend", json=body)
    for _ in range(200):
        plans = [worker.step() for worker in workers]
        if all(one is not None and one.over for one in plans):
            break
    status = house.admin.status("trial")
    assert status["stage"] == "finished"
    for box in boxes:
        box.close()

    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert certificate["answers"] == {"x": ["b"], "y": ["b"]}
    assert certificate["privacy"] == {
        "rho": 0.05,
        "releases": 2,
        "epsilon": pytest.approx(epsilon(0.1)),
        "delta": DELTA,
    }
    lines = list(house.admin.export("trial"))
    assert verify_log(read_log(lines)).sound
    assert '"squares"' not in "".join(line for line in lines if "report-accepted" in line)

    policy = message.make_policy()
    state, phase = policy.start(()), 1
    while not state.finished:
        quotas = policy.plan(state)
        columns = [clients[0].report("trial", phase, "x"), clients[1].report("trial", phase, "y")]
        assert np.array_equal(quotas, np.array([report.counts for report in columns]).T)
        state, phase = policy.update(state, Totals.columns([report.totals for report in columns], 2)), phase + 1
    kept = [[arm for arm, one in zip(message.arms, column, strict=True) if one] for column in state.answers.T]
    assert dict(zip(message.agents, kept, strict=True)) == certificate["answers"]


def test_a_private_report_is_corrected_by_its_site_alone(sqlite_house, tmp_path):
    """A sum that an administrator types has no noise; the site's own report is another release, which is counted."""
    house, message = sqlite_house, study(tolerance=0.1)
    clients, rules = house.create(message), rules_of(message)
    rewards = {}
    for client, name in zip(clients, message.agents, strict=True):
        with Outbox(tmp_path, study="trial", agent=name) as box:
            plan = client.plan("trial", name)
            rewards[name] = [[float(k < n // 2) for k in range(n)] for n in plan.draws]
            drawn = Delivery(totals=Totals.of(rewards[name]), rewards=rewards[name])
            report = Disclosure(rules).report(plan, drawn, box)
            box.keep(report)
            client.send(report)
    assert house.admin.status("trial")["phase"] == 2
    where = ("studies", "trial", "phases", 1, "reports", "x", "correct")
    sent = clients[0].report("trial", 1, "x")
    typed = structs.replace(sent, sums=(sent.sums[0] + 1, *sent.sums[1:]))
    with pytest.raises(Rejected, match="another release"):
        house.admin.request("POST", *where, "preview", json={"report": typed.to_json()})
    with Outbox(tmp_path, study="trial", agent="x") as box:
        mended = [[1.0] * len(rewards["x"][0]), rewards["x"][1]]
        report = Disclosure(rules).corrected(message.arms, box.report(1), mended, box)
    assert report.releases == 2
    shown = house.admin.request("POST", *where, "preview", json={"report": report.to_json()})
    body = {"reason": "the wrong column", "preview": shown["digest"], "report": report.to_json()}
    house.admin.request("POST", *where, json=body)
    house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "enough"})
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert certificate["privacy"]["releases"] == 2
    assert certificate["privacy"]["epsilon"] == pytest.approx(epsilon(0.1))
    assert verify_log(read_log(list(house.admin.export("trial")))).sound


def test_a_release_that_was_only_kept_apart_is_counted_too(sqlite_house, tmp_path):
    house, message = sqlite_house, study(tolerance=0.1)
    clients, rules = house.create(message), rules_of(message)
    plan = clients[0].plan("trial", "x")
    with Outbox(tmp_path, study="trial", agent="x") as box:
        for place, value in enumerate((0.0, 1.0)):
            rewards = [[value] * count for count in plan.draws]
            drawn = Delivery(totals=Totals.of(rewards), rewards=rewards)
            report = Disclosure(rules).report(plan, drawn, box)
            if place:
                with pytest.raises(Conflict, match="that one counts"):
                    clients[0].send(report)
            else:
                clients[0].send(report)
    house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "enough"})
    assert house.admin.request("GET", "studies", "trial", "certificate")["privacy"]["releases"] == 2
    assert verify_log(read_log(list(house.admin.export("trial")))).sound
