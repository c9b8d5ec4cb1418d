"""Promise 12, the short version: many agents in one phase, its step taken outside the lock. `make bench` measures."""

import threading

import numpy as np
import pytest
from tests.coordinator.support import rewards, study_message

from parley.coordinator.record import phases
from parley.coordinator.studies.phases import take_report

pytestmark = pytest.mark.servers


def test_a_phase_of_many_agents_closes_and_the_next_plan_is_there(house):
    agents, arms = 150, 20
    message = study_message(agents=agents, arms=arms, policy="uniform")
    body = {"id": "large", "study": message.to_json()}
    house.admin.request("POST", "studies", json=body, timeout=120)
    plan = house.admin.plan("large", "agent 1")

    def send(share):
        for place in share:
            name = message.agents[place]
            own = house.admin.plan("large", name)
            report = own.report(rewards(own.draws, place, 1))
            house.storage.change(lambda c, r=report: take_report(c, r, actor="test", at="now"))

    threads = [threading.Thread(target=send, args=(share,)) for share in np.array_split(np.arange(agents), 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    house.app.state.context.closer.call()
    after = house.admin.plan("large", "agent 1", after=plan.phase, wait=30)
    assert after.phase == 2
    assert after.draws is not None
    taken = house.storage.read(lambda c: phases.reports_of(c, "large", 1))
    assert len(taken) == agents
    assert house.storage.read(lambda c: phases.phase_row(c, "large", 1)).decision is not None
    assert house.admin.request("POST", "studies", "large", "verify", timeout=120)["sound"]
