"""A private study from its first plan to its certificate, on either database."""

import numpy as np
import pytest
from tests.agent.test_private_reports import study

from parley.agent.outbox import Outbox
from parley.agent.plans import Delivery
from parley.agent.privacy import Disclosure
from parley.agent.reporting import rules_of
from parley.agent.worker import Worker
from parley.privacy import DELTA, epsilon
from parley.protocol import read_log, verify_log
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
