"""Promise 6: a decision can be recomputed from the log alone."""

from dataclasses import replace

import numpy as np
import pytest
from tests.coordinator.support import study_message
from tests.support import first_quick

from parley.policies import make_policy
from parley.problem import Instance
from parley.protocol import StudyMessage, read_log, verify_log
from parley.rewards import make_model
from parley.simulation import phases
from parley.study import load_study


@pytest.mark.parametrize(
    ("policy", "cell"), first_quick(("wcpe", 1), ("evidence", 60), ("uniform", 1), ("evidence", 1))
)
def test_an_exported_log_is_enough(house, policy, cell):
    message = study_message(policy=policy, minimum_cell=cell)
    house.run(message, house.create(message))
    assert house.admin.request("GET", "studies", "trial")["settings"]["minimum_cell"] == cell
    lines = list(house.admin.export("trial"))
    found = verify_log(read_log(lines))
    assert found.sound, found.problem
    assert found.exact
    assert found.stage == "finished"
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    board = house.admin.request("GET", "studies", "trial", "board")
    assert found.phases == certificate["phases"] == board["phases"]
    assert board["dropped_in"] == found.trial.state.dropped_in.tolist()
    for place, agent in enumerate(message.agents):
        kept = [arm for row, arm in enumerate(message.arms) if board["statuses"][row][place] == "chosen"]
        assert kept == certificate["answers"][agent]
    assert certificate["problem"] == message.digest


@pytest.mark.parametrize(
    ("policy", "noise"),
    first_quick(
        ("wcpe", {"scale": 1.0}),
        ("evidence", {"scale": "unknown per agent"}),
        ("evidence", {"kind": "binary"}),
        ("evidence", {"kind": "count"}),
        ("wcpe", {"scale": [[0.5, 2.0], [1.0, 1.5]]}),
        ("evidence", {"scale": 1.0}),
        ("evidence", {"scale": "unknown"}),
        ("evidence", {"scale": "unknown per cell"}),
        ("evidence", {"scale": [0.5, 2.0]}),
        ("evidence", {"scale": [[0.5, 2.0], [1.0, 1.5]]}),
        ("evidence", {"kind": "subgaussian", "scale": 1.0}),
        ("evidence", {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "hoeffding"}),
        ("evidence", {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"}),
        quick=3,
    ),
    ids=str,
)
def test_live_and_simulated_studies_decide_alike(house, policy, noise, tmp_path):
    """Same study file, same seed: the simulator's replication 0 and real agents reach the same decisions."""
    from parley.agent.outbox import Outbox
    from parley.agent.sources import SimulatedSource
    from parley.agent.worker import Worker

    study = load_study("examples/two-by-two.toml")
    problem = study.problem.with_(noise=make_model(**noise))
    uneven = [0.6, 1.4] if "per" in str(noise.get("scale")) else None  # what scatters differently is told to
    instance = Instance(problem=problem, means=study.instance.means, scale=uneven)
    study = replace(study, problem=problem, instance=instance)
    message = StudyMessage.of(study)
    message = StudyMessage.from_json({**message.to_json(), "policy": policy, "options": {}})
    assert np.array_equal(message.problem.weights, study.problem.weights), "to the last bit"
    agents = house.create(message)
    import threading

    def work(place, name):
        with Outbox(tmp_path, study="trial", agent=name) as box:
            source = SimulatedSource(study, seed=7, whole_plan=lambda phase: agents[place].whole_plan("trial", phase))
            Worker(agents[place], box, source, patience=5).run()

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(message.agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
        assert not thread.is_alive()
    course = list(phases(make_policy(policy, study.problem), study.instance, seed=7))
    for phase in course:
        plan = agents[0].whole_plan("trial", phase.number)
        assert np.array_equal(plan.array, phase.quotas), f"plan of phase {phase.number}"
        decision = house.admin.request("GET", "studies", "trial", "phases", phase.number, "decision")
        assert decision["dropped_in"] == phase.after.dropped_in.tolist()
    assert decision["finished"]
