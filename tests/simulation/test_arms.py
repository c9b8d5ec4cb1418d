"""Arms that come and go in simulations: as in a live study, and no wrong answer for it."""

import numpy as np
import pytest
from tests.protocol.test_trial import reported
from tests.support import first_quick

from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.protocol import Stage, StudyMessage, apply, create
from parley.protocol.asking_anew import open_arm, withdraw_arm
from parley.protocol.events import ReportAccepted
from parley.simulation import phases, simulate
from parley.simulation.simulate import phase_totals
from parley.study import parse_study

WEIGHTS = [[0.7, 0.2, 0.1], [0.2, 0.7, 0.2], [0.1, 0.1, 0.7]]
ROWS = [[0.35] * 3, [0.2] * 3, [0.0] * 3, [0.55] * 3]
STUDY = {
    "arms": ["A", "B", "C", "D"],
    "agents": 3,
    "dormant": ["D"],
    "weights": {"kind": "matrix", "matrix": WEIGHTS},
    "truth": {"means": ROWS, "opens": {"D": 2}, "withdraws": {"B": 3}},
}


@pytest.mark.parametrize("more", first_quick({}, {"tolerance": 0.1}, {"answers": "each"}, {"top": 2}, quick=2))
def test_simulated_is_live(more):
    study = parse_study(STUDY | more)
    message = StudyMessage.of(study)
    trial, acts = create("s", message), {2: (open_arm, "D"), 3: (withdraw_arm, "B")}
    for phase in phases(make_policy("evidence", study.problem), study.instance, seed=5):
        assert np.array_equal(trial.plan.array, phase.quotas)
        drawn = phase_totals(study.instance, seed=5, phase=phase.number - 1, counts=phase.quotas)
        act = acts.get(phase.number)
        if act is not None:
            trial = apply(trial, act[0](trial, act[1]).event("why", ""))
        for place in range(3):
            trial = apply(
                trial, ReportAccepted(report=reported(trial, place, drawn.sums[:, place], drawn.squares[:, place]))
            )
        trial = trial.close(trial.step())
        for field in ("counts", "sums", "active", "dropped_in", "finished", "log_wealth"):
            assert np.array_equal(getattr(trial.state, field), getattr(phase.after, field)), field
    assert trial.stage is Stage.FINISHED
    assert phase.number > 3


def test_answers_are_right_among_the_arms_that_are_open():
    study = parse_study(STUDY)
    found = simulate(make_policy("evidence", study.problem), study.instance, replications=200, seed=1)
    assert found.error_rate <= 0.1
    assert (found.rounds >= 2).all()
    answered = found.chosen[found.finished & (found.rounds > 3)]
    assert (answered == 3).mean() > 0.9, "D opened, and is the best"
    early = found.chosen[found.finished & (found.rounds < 2)]
    assert not early.size or (early == 0).all()


@pytest.mark.simulations
def test_the_chunk_changes_no_number():
    study = parse_study(STUDY)
    policy = make_policy("evidence", study.problem)
    one, other = (simulate(policy, study.instance, replications=260, seed=2, chunk=chunk) for chunk in (256, 512))
    assert np.array_equal(one.costs, other.costs)
    assert np.array_equal(one.chosen, other.chosen)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"opens": {"A": 2}}, "truth.opens: found 'A'; allowed: D"),
        ({"withdraws": {"D": 2}}, "truth.withdraws: found 'D'; allowed: A, B, C"),
        ({"withdraws": {"A": 2, "B": 2, "C": 2}}, "truth.withdraws: found A, B, C; allowed: fewer arms: 1 must stay"),
        ({"opens": {"D": 0}}, "truth.opens: found 0; allowed: from 1"),
        ({"opens": {"D": "soon"}}, "truth.opens: found 'soon'"),
    ],
)
def test_what_cannot_happen_is_named(keys, says):
    with pytest.raises(InvalidInput, match=says):
        parse_study(STUDY | {"truth": {"means": ROWS} | keys})


def test_other_policies_refuse():
    problem = Problem(arms=["A", "B", "C"], weights=[[1.0]])
    instance = Instance(problem=problem, means=[[0.5], [0.2], [0.0]], withdraws={"A": 1})
    with pytest.raises(InvalidInput, match="the policy wcpe does not support arms that come and go"):
        simulate(make_policy("wcpe", problem), instance, replications=2, seed=1)
