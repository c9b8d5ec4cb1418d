"""Other weights by the same data: what stays of an answer, and how often that is wrong."""

import numpy as np
import pytest

from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.protocol.lost_sites import folded
from parley.protocol.sensitivity import Robustness, Sensitivity, sensitivity
from parley.simulation import phases
from parley.totals import Totals
from parley.weights import WeightPath, alphas_of, personalized

GIVEN = np.array([[0.6, 0.3, 0.0], [0.2, 0.5, 0.3], [0.2, 0.2, 0.7]])


def run(policy, instance, seed):
    found = list(phases(policy, instance, seed=seed))
    return [one.after.totals - one.before.totals for one in found], np.asarray(found[-1].after.answers)


def two_tastes(problem, policy="evidence"):
    """Everybody's best is b; the second agent alone likes a better. The data are as clear as can be."""
    counts = np.full((3, 2), 4000)
    phase = Totals(counts=counts, sums=counts * np.array([[0.1, 0.55], [0.8, 0.5], [0.0, 0.0]]), squares=counts * 1.2)
    made = make_policy(policy, problem)
    return made, [phase, phase], np.array([[False, False], [True, True], [False, False]])


def test_an_answer_stays_where_it_is_best_and_the_other_is_named_where_not():
    problem = Problem(arms=["a", "b", "c"], weights=personalized(2, 0.5), answers="each")
    found = sensitivity(*two_tastes(problem))
    assert found.path.values == tuple(round(0.1 * step, 6) for step in range(11))
    # Alone the second agent prefers a by 0.05; with everybody's average b is ahead by 0.325: it changes at 0.867.
    assert [row[1] for row in found.standing][:8] == [Robustness.HOLDS] * 8
    assert [row[1] for row in found.standing][9:] == [Robustness.OTHER] * 2
    assert found.leading[-1][:, 1].tolist() == [True, False, False]
    assert found.range_of(0) == (0.0, 1.0)
    assert found.range_of(1)[0] == 0.0
    assert 0.7 <= found.range_of(1)[1] <= 0.8


def test_what_holds_has_its_share_of_delta_and_what_is_proven_all_of_it():
    problem = Problem(arms=3, weights=personalized(2, 0.5))
    instance = Instance(problem=problem, means=[[0.5, 0.4], [0.2, 0.3], [0.0, 0.1]])
    policy = make_policy("evidence", problem)
    drawn, answers = run(policy, instance, seed=3)
    found, seen = sensitivity(policy, drawn, answers), set()
    for value, row in zip(found.path.values, found.standing, strict=True):
        for delta, enough in ((0.1, (Robustness.PROVEN, Robustness.HOLDS)), (0.1 / 11, (Robustness.HOLDS,))):
            asked = problem.with_(weights=personalized(2, value), delta=delta, answers="each")
            state = folded(make_policy("evidence", asked), drawn)[-1]
            stays = (state.active == answers).all(axis=0)
            if value != 0.5 or delta < 0.1:  # there the study itself has proven it
                assert [standing in enough for standing in row] == stays.tolist()
        seen |= set(row)
    assert len(seen) > 2, "a telling example has several standings"


def test_the_studys_own_answer_is_proven_at_its_own_weights():
    problem = Problem(arms=3, weights=personalized(2, 0.35))
    policy = make_policy("evidence", problem)
    drawn, answers = run(policy, Instance(problem=problem, means=[[0.5, 0.4], [0.2, 0.3], [0.0, 0.1]]), seed=1)
    found = sensitivity(policy, drawn, answers)
    own = found.standing[found.path.values.index(0.35)]
    assert {*own} <= {Robustness.PROVEN, Robustness.HOLDS}


@pytest.mark.parametrize(("policy", "settings"), [("pf-ucb-bai", {}), ("evidence-regret", {"horizon": 10_000})])
def test_a_guarantee_for_its_own_draws_proves_nothing_for_other_weights(policy, settings):
    problem = Problem(arms=["a", "b", "c"], weights=personalized(2, 0.5), **settings)
    found = sensitivity(*two_tastes(problem, policy))
    words = {standing for row in found.standing for standing in row}
    assert words <= {Robustness.LEADS, Robustness.OTHER, Robustness.PROVEN}
    assert all(found.standing[step][0] is Robustness.LEADS for step in (0, 10))


def test_weights_of_any_kind_lie_on_a_path_from_everybody_to_oneself():
    path = WeightPath.through(GIVEN)
    assert (path.values[0], path.values[-1], path.stated.tolist(), path.straight) == (-1.0, 1.0, [0.0] * 3, False)
    assert np.allclose(path.at(0.0), GIVEN)
    assert np.allclose(path.at(1.0), np.eye(3))
    assert np.allclose(path.at(-1.0), 1 / 3)
    for low, high in zip(path.values, path.values[1:], strict=False):
        assert np.allclose(path.at((low + high) / 2), (path.at(low) + path.at(high)) / 2)
        assert np.allclose(path.at(low).sum(axis=0), 1.0)


def test_who_was_lost_gets_no_weight():
    without = np.array([[0.7, 0.4, 0.5], [0.3, 0.6, 0.5], [0.0, 0.0, 0.0]])
    assert np.allclose(WeightPath.through(without).at(-1.0)[2], 0.0)


def test_alphas_may_differ_from_agent_to_agent():
    weights = personalized(3, [0.0, 0.25, 1.0])
    assert alphas_of(weights) == pytest.approx([0.0, 0.25, 1.0])
    assert WeightPath.through(weights).stated == pytest.approx([0.0, 0.25, 1.0])
    assert alphas_of(GIVEN) is None


def test_a_range_needs_its_corner():
    path = WeightPath.through(GIVEN)
    rows = [[Robustness.HOLDS if value != 0 else Robustness.PROVEN] for value in path.values]
    blank = np.zeros((2, 1), dtype=bool)
    made = Sensitivity(path=path, arms=blank, leading=blank, standing=rows)
    assert made.range_of(0) is None
    rows[path.values.index(0.0)] = [Robustness.HOLDS]
    assert made.range_of(0) == (-1.0, 1.0)


@pytest.mark.simulations
def test_what_is_claimed_of_other_weights_is_wrong_no_more_often_than_delta():
    """The best arm of both agents changes along the path, and differences are small next to their errors."""
    delta, studies = 0.3, 80
    problem = Problem(arms=3, weights=personalized(2, 0.5), delta=delta, max_samples=1200)
    instance = Instance(problem=problem, means=[[0.30, -0.05], [0.22, 0.05], [0.20, 0.0]])
    policy = make_policy("evidence", problem)
    path = WeightPath.through(problem.weights)
    good = [Instance(problem=problem.with_(weights=path.at(value)), means=instance.means).good for value in path.values]
    wrong_alone, wrong_together, claims = np.zeros(len(path.values)), 0, 0
    for seed in range(studies):
        drawn, answers = run(policy, instance, seed)
        found = sensitivity(policy, drawn, answers)
        together = False
        for step, (row, right) in enumerate(zip(found.standing, good, strict=True)):
            bad = [not right[found.arms[:, agent], agent].all() for agent in range(2)]
            proven = [standing in (Robustness.PROVEN, Robustness.HOLDS) for standing in row]
            claims += sum(proven)
            wrong_alone[step] += any(one and other for one, other in zip(bad, proven, strict=True))
            together |= any(one and standing is Robustness.HOLDS for one, standing in zip(bad, row, strict=True))
        wrong_together += together
    assert claims > studies, "claims are made"
    assert 0 < wrong_alone.max() / studies <= delta
    assert wrong_together / studies <= delta
