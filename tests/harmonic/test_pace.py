"""Time and money in one program: against CVXPY with Clarabel, against the certificate from scratch, and the laws."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import random_weights

from parley.costs import Pace, days_needed
from parley.errors import InvalidInput, NotConverged
from parley.harmonic import ArmPrograms, ContrastPrograms, Status, proven_gap, solve

pytestmark = pytest.mark.simulations

JUDGE_TOLERANCE = 5e-6  # what Clarabel is trusted with; our own gap is proven
KINDS = ("prices", "time", "mix")


def random_program(seed: int, kind: str, count: int = 1) -> tuple[ContrastPrograms, Pace | None]:
    """A random exact program of some size with cells that scatter differently, and what a day is worth."""
    rng = np.random.default_rng(seed)
    arms, agents, top = int(rng.integers(3, 9)), int(rng.integers(2, 7)), int(rng.integers(1, 3))
    opponents = rng.integers(0, arms, (count, top, arms, agents))
    opponents = np.where(opponents == np.arange(arms)[:, None], (opponents + 1) % arms, opponents)
    bounds = np.where(rng.random(opponents.shape) < 0.3, np.inf, rng.uniform(0.05, 1, opponents.shape) ** 2)
    cells = (count, arms, agents)
    prices = np.zeros(cells) if kind == "time" else 10.0 ** rng.uniform(-1, 1, cells)
    variances = rng.uniform(0.2, 2, cells) if seed % 2 else None
    programs = ContrastPrograms.of(random_weights(rng, agents) ** 2, opponents, bounds, prices, variances)
    pace = Pace(rates=rng.uniform(1, 10, agents), day_cost=10.0 ** rng.uniform(-1, 2))
    return programs, None if kind == "prices" else pace


def judge(programs: ContrastPrograms, pace: Pace | None) -> float:
    """The optimum of one program by CVXPY, in z = x0 / x around a feasible x0: units that it is at ease with."""
    live = programs.inverse.ravel() > 0
    matrix = programs.dense()[:, live]
    used = matrix.any(axis=1)
    matrix, costs = matrix[used], programs.costs.ravel()[used]
    usual = np.sqrt(matrix.sum(axis=1))
    usual *= (matrix.T @ (1 / usual)).max()
    unit = costs @ usual + (pace.day_cost * usual.sum() / pace.rates.sum() if pace else 0.0)
    z = cp.Variable(len(costs), pos=True)
    spent, limits = (costs * usual / unit) @ cp.inv_pos(z), [(matrix / usual[:, None]).T @ z <= 1]
    if pace is not None:
        days = cp.Variable()  # in units of all draws at once
        spent = spent + pace.day_cost * usual.sum() / unit * days
        agents = np.tile(np.arange(len(pace.rates)), programs.costs.shape[1])[used]
        for n in set(agents.tolist()):
            loads = usual[agents == n] / usual.sum()
            limits.append(loads @ cp.inv_pos(z[agents == n]) <= pace.rates[n] * days)
    return float(cp.Problem(cp.Minimize(spent), limits).solve(solver=cp.CLARABEL)) * unit


@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_random_programs_agree_with_the_judge(kind):
    for seed in range(KINDS.index(kind), 200, len(KINDS)):
        programs, pace = random_program(seed, kind)
        solution = solve(programs, accuracy=1e-6, pace=pace)
        assert solution.gap.max() <= 1e-6
        expected = judge(programs, pace)
        assert solution.lower[0] <= expected * (1 + JUDGE_TOLERANCE), seed
        assert solution.value[0] >= expected * (1 - JUDGE_TOLERANCE), seed


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["time", "mix"]), st.integers(1, 6), st.sampled_from([1e-2, 1e-6]))
def test_every_schedule_is_feasible_and_its_gap_is_proven_from_scratch(seed, kind, count, accuracy):
    programs, pace = random_program(seed, kind, count)
    solution = solve(programs, accuracy=accuracy, pace=pace)
    assert solution.status is Status.SOLVED
    proof = {"pace": pace, "shares": solution.shares}
    proven = proven_gap(programs, solution.allocation, solution.dual, **proof)
    assert proven == pytest.approx(solution.gap, abs=1e-12)
    assert proven.max() <= accuracy
    days = days_needed(solution.allocation, pace.rates)
    money = (programs.costs * solution.allocation).sum(axis=(-2, -1))
    assert solution.value == pytest.approx(pace.day_cost * days + money, rel=1e-12)
    cheaper = solution.allocation * (1 - 1e-6 - 2 * accuracy)
    bounded = programs.inverse.reshape(count, -1).any(axis=1)
    assert np.isinf(proven_gap(programs, cheaper, solution.dual, **proof))[bounded].all()


def test_the_certificate_takes_no_shares_that_prove_too_much():
    programs, pace = random_program(3, "mix")
    solution = solve(programs, accuracy=1e-6, pace=pace)
    for shares in (None, solution.shares * 1.01, solution.shares - 0.5):
        with pytest.raises(InvalidInput, match="shares"):
            proven_gap(programs, solution.allocation, solution.dual, pace=pace, shares=shares)
    lazy = proven_gap(programs, solution.allocation, solution.dual, pace=pace, shares=0 * solution.shares)
    assert lazy.min() > solution.gap.max(), "shares of nothing prove less"


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.floats(1e-6, 1e6))
def test_multiplying_all_prices_multiplies_the_value(seed, kind, factor):
    programs, pace = random_program(seed, kind)
    dearer = replace(programs, costs=programs.costs * factor)
    paced = pace and Pace(rates=pace.rates, day_cost=pace.day_cost * factor)
    before, after = solve(programs, accuracy=1e-6, pace=pace), solve(dearer, accuracy=1e-6, pace=paced)
    assert after.value == pytest.approx(before.value * factor, rel=3e-6)


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 0.9))
def test_a_day_that_is_worth_more_never_makes_the_study_longer(seed, share):
    programs, pace = random_program(seed, "mix")
    cheap, dear = (
        solve(programs, accuracy=1e-9, pace=Pace(rates=pace.rates, day_cost=cost))
        for cost in (share * pace.day_cost, pace.day_cost)
    )
    days = [days_needed(solution.allocation, pace.rates)[0] for solution in (cheap, dear)]
    assert days[1] <= days[0] * (1 + 1e-3)
    assert cheap.value[0] <= dear.value[0] * (1 + 1e-8)


def test_cell_variances_are_the_old_program_with_other_costs():
    programs, _ = random_program(5, "prices")
    assert programs.variances is not None
    # x = v x' turns sum w^2 v / x into the plain program in x' with costs v c.
    plain = replace(programs, costs=programs.costs * programs.variances, variances=None)
    ours, theirs = solve(programs), solve(plain)
    assert ours.value == pytest.approx(theirs.value, rel=1e-8)
    assert ours.allocation == pytest.approx(theirs.allocation * programs.variances, rel=1e-3)
    rng = np.random.default_rng(0)
    squared, bounds, v = random_weights(rng, 4) ** 2, rng.uniform(0.1, 1, (3, 4)), rng.uniform(0.2, 2, (3, 4))
    arms = solve(ArmPrograms.of(squared, bounds, variances=v)), solve(ArmPrograms.of(squared, bounds, v))
    assert arms[0].value == pytest.approx(arms[1].value, rel=1e-8)
    with pytest.raises(InvalidInput, match="variances"):
        ArmPrograms.of(squared, bounds, variances=0 * v)


def test_arms_alone_in_one_program_are_the_programs_arm_by_arm():
    rng = np.random.default_rng(1)
    squared, bounds, costs = random_weights(rng, 4) ** 2, rng.uniform(0.1, 1, (3, 4)), rng.uniform(0.2, 2, (3, 4))
    apart = solve(ArmPrograms.of(squared, bounds, costs))
    together = solve(ContrastPrograms.alone(squared, bounds[None], costs[None]))
    assert together.value[0] == pytest.approx(apart.value.sum(), rel=1e-8)


def test_schedules_of_a_batch_do_not_influence_each_other_and_can_start_warm():
    programs, pace = random_program(7, "mix", count=6)
    together = solve(programs, pace=pace)
    for i in range(6):
        alone = solve(programs.take(np.array([i])), pace=pace)
        assert alone.value[0] == pytest.approx(together.value[i], rel=1e-9)
    again = solve(programs, pace=pace, start=together, accuracy=1e-6)
    assert again.steps < together.steps
    assert again.value == pytest.approx(together.value, rel=1e-6)


def test_a_site_that_cannot_recruit_is_left_out_only_where_nobody_weighs_it():
    squared = np.array([[0.5, 0.8], [0.5, 0.2]]) ** 2
    opponents, bounds = np.array([[[[1, 1], [0, 0]]]]), np.array([[[[0.5, 0.2], [np.inf, np.inf]]]])
    nobody = Pace(rates=np.array([2.0, 0.0]), day_cost=1.0)
    with pytest.raises(InvalidInput, match="rate: found 0 for agent 2, whose draws some mix needs"):
        solve(ContrastPrograms.of(squared, opponents, bounds), pace=nobody)
    squared[1] = 0
    left = solve(ContrastPrograms.of(squared, opponents, bounds), pace=nobody)
    assert (left.allocation[0, :, 1] == 0).all()
    assert left.value[0] == pytest.approx(left.allocation.sum() * 1.5)
    assert days_needed(np.array([[1, 1]]), nobody.rates) == np.inf


def test_a_pace_must_make_sense():
    for rates, day_cost in (([-1.0], 1.0), ([np.nan], 1.0), ([1.0], 0.0), ([1.0], np.inf)):
        with pytest.raises(InvalidInput, match=r"rate|day_cost"):
            Pace(rates=np.array(rates), day_cost=day_cost)
    programs, pace = random_program(2, "mix")
    with pytest.raises(InvalidInput, match="rate: found 1 rates"):
        solve(programs, pace=Pace(rates=np.ones(1), day_cost=1.0))
    with pytest.raises(InvalidInput, match="rate"):
        solve(ArmPrograms.of(np.eye(2), np.ones((1, 2))), pace=Pace(rates=np.ones(2), day_cost=1.0))
    with pytest.raises(NotConverged):
        solve(programs, pace=pace, max_steps=1)
