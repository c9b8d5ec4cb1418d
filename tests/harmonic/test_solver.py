"""The solver against its own certificate, against CVXPY with Clarabel, and at the edges of what it accepts."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import first_quick, random_weights

from parley.errors import InvalidInput, NotConverged
from parley.harmonic import ArmPrograms, ContrastPrograms, Status, proven_gap, solve
from parley.harmonic.solver import newton_polish

# Clarabel's answers violate constraints by about 1e-6; the judge is trusted no further than that.
JUDGE_TOLERANCE = 2e-5


def judge(matrix: np.ndarray, costs: np.ndarray, bounds: np.ndarray) -> float:
    """The optimum of one program by CVXPY: `matrix (variable, row)`; in y = 1/x, and in units it is at ease with."""
    scaled = matrix / bounds
    unit = scaled.max()
    y = cp.Variable(len(costs), pos=True)
    program = cp.Problem(cp.Minimize(costs @ cp.inv_pos(y)), [(scaled / unit).T @ y <= 1])
    return float(program.solve(solver=cp.CLARABEL)) * unit


def arm_programs(seed: int, agents: int, count: int = 1) -> ArmPrograms:
    rng = np.random.default_rng(seed)
    gaps = rng.uniform(0.05, 1, (count, agents))
    return ArmPrograms.of(random_weights(rng, agents) ** 2, gaps**2 / 2, rng.uniform(0.1, 2, (count, agents)))


def contrast_programs(seed: int, arms: int, agents: int, top: int, count: int = 1) -> ContrastPrograms:
    rng = np.random.default_rng(seed)
    opponents = rng.integers(0, arms, (count, top, arms, agents))
    opponents = np.where(opponents == np.arange(arms)[:, None], (opponents + 1) % arms, opponents)
    bounds = np.where(rng.random(opponents.shape) < 0.3, np.inf, rng.uniform(0.05, 1, opponents.shape) ** 2)
    return ContrastPrograms.of(random_weights(rng, agents) ** 2, opponents, bounds)


@pytest.mark.parametrize("agents", first_quick(3, 20, 1, 2, 5, 10, 50, quick=2))
def test_relaxed_programs_agree_with_the_judge(agents):
    for seed in range(40 if agents <= 5 else 15 if agents <= 20 else 4):
        programs = arm_programs(seed, agents)
        solution = solve(programs)
        assert solution.gap.max() <= 1e-9
        expected = judge(programs.squared_weights, programs.costs[0], 1 / programs.inverse[0])
        assert solution.value[0] == pytest.approx(expected, rel=JUDGE_TOLERANCE)


@pytest.mark.parametrize(
    ("arms", "agents", "top"),
    first_quick((2, 1, 1), (5, 5, 3), (3, 2, 1), (4, 3, 2), (6, 3, 1), (8, 10, 2), quick=2),
)
def test_contrast_programs_agree_with_the_judge(arms, agents, top):
    for seed in range(25 if arms * agents < 20 else 8):
        programs = contrast_programs(seed, arms, agents, top)
        solution = solve(programs)
        assert solution.gap.max() <= 1e-9
        live = programs.inverse.ravel() > 0
        if not live.any():
            assert solution.value[0] == 0
            continue
        matrix = programs.dense()[:, live]
        used = matrix.any(axis=1)
        assert (solution.allocation.ravel()[~used] == 0).all()
        expected = judge(matrix[used], np.ones(used.sum()), np.ones(live.sum()))
        assert solution.value[0] == pytest.approx(expected, rel=JUDGE_TOLERANCE)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 20), st.sampled_from([1e-2, 1e-6, 1e-9]))
def test_every_answer_is_feasible_and_its_gap_is_proven_from_scratch(seed, agents, count, accuracy):
    for programs in (arm_programs(seed, agents, count), contrast_programs(seed, 4, min(agents, 4), 2, min(count, 5))):
        solution = solve(programs, accuracy=accuracy)
        assert solution.status is Status.SOLVED
        ratios = programs.rows(
            np.divide(1, solution.allocation, where=programs.touched(), out=np.zeros_like(programs.costs))
        )
        assert ratios.max() <= 1 + 1e-12
        assert proven_gap(programs, solution.allocation, solution.dual) == pytest.approx(solution.gap, abs=1e-12)
        assert solution.gap.max() <= accuracy
        cheaper = solution.allocation * (1 - 1e-6 - 2 * accuracy)
        assert np.isinf(proven_gap(programs, cheaper, solution.dual)).all(), "less than the optimum cannot be feasible"


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
def test_scaling_bounds_and_costs_scales_the_value(seed, agents, bound_scale, cost_scale):
    programs = arm_programs(seed, agents)
    scaled = ArmPrograms.of(programs.squared_weights, bound_scale / programs.inverse, cost_scale * programs.costs)
    assert solve(scaled).value == pytest.approx(solve(programs).value * cost_scale / bound_scale, rel=1e-8)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_tighter_rows_never_cost_less(seed, agents):
    rng = np.random.default_rng(seed)
    programs = arm_programs(seed, agents)
    tighter = ArmPrograms.of(programs.squared_weights, rng.uniform(0.2, 1, agents) / programs.inverse, programs.costs)
    assert solve(tighter).value[0] >= solve(programs).value[0] * (1 - 1e-8)


def test_programs_of_a_batch_do_not_influence_each_other():
    together = contrast_programs(7, 5, 4, 2, count=9)
    solution = solve(together)
    for i in range(9):
        alone = solve(together.take(np.array([i])))
        assert alone.allocation[0] == pytest.approx(solution.allocation[i], rel=1e-7)
        assert alone.value[0] == pytest.approx(solution.value[i], rel=1e-9)


@pytest.mark.parametrize("agents", [1, 2, 7, 100, 1000])
def test_gaps_from_one_millionth_to_one_in_one_problem(agents):
    rng = np.random.default_rng(agents)
    gaps = 10.0 ** rng.uniform(-6, 0, (2, agents))
    solution = solve(ArmPrograms.of(random_weights(rng, agents) ** 2, gaps**2 / 2), accuracy=1e-8)
    assert solution.status is Status.SOLVED
    assert np.isfinite(solution.allocation).all()


def test_a_diagonal_program_has_a_closed_form():
    bounds = np.array([[0.5, 2e-3, 1e-2]])
    solution = solve(ArmPrograms.of(np.eye(3), bounds), accuracy=1e-12)
    assert solution.allocation == pytest.approx(1 / bounds, rel=1e-8)
    assert (solution.allocation * bounds >= 1).all()


def test_what_nobody_asks_for_gets_nothing():
    squared = np.array([[1.0, 1.0], [0.0, 0.0]])  # nobody weighs the second agent
    solution = solve(ArmPrograms.of(squared, np.array([[0.5, 0.25], [np.inf, np.inf]])))
    assert solution.allocation == pytest.approx(np.array([[4.0, 0.0], [0.0, 0.0]]))
    assert solution.value == pytest.approx([4.0, 0.0])
    assert solution.gap == pytest.approx([0, 0])


def test_equal_columns_make_a_degenerate_but_solved_program():
    squared = np.repeat(np.array([[0.04], [0.36], [0.01]]), 3, axis=1)
    solution = solve(ArmPrograms.of(squared, np.full((1, 3), 0.5)))
    assert solution.value[0] == pytest.approx(2 * (0.2 + 0.6 + 0.1) ** 2)


def test_missing_the_accuracy_cannot_be_overlooked():
    programs = arm_programs(3, 6, 4)
    with pytest.raises(
        NotConverged, match=r"programs stopped at a relative gap of .* after 1 steps; 1e-09 was requested"
    ) as caught:
        solve(programs, max_steps=1)
    assert proven_gap(programs, caught.value.solution.allocation, caught.value.solution.dual).max() < 1
    loose = solve(programs, max_steps=1, strict=False)
    assert loose.status is Status.OUT_OF_STEPS
    assert "NOT solved" in loose.status.value


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan])
def test_bounds_must_be_positive(bound):
    with pytest.raises(InvalidInput, match=r"right side of a constraint: found .*; allowed: numbers of at least"):
        ArmPrograms.of(np.eye(1), np.array([[bound]]))


def test_costs_and_weights_must_make_sense():
    for costs in (np.array([[np.nan, 1.0]]), np.array([[-1.0, 1.0]])):
        with pytest.raises(InvalidInput, match="costs"):
            ArmPrograms.of(np.eye(2), np.ones((1, 2)), costs)
    with pytest.raises(InvalidInput, match="costs: found 0; allowed: positive numbers: free draws"):
        solve(ArmPrograms.of(np.eye(2), np.ones((1, 2)), np.array([[0.0, 1.0]])))
    with pytest.raises(InvalidInput, match="squared_weights"):
        ArmPrograms.of(-np.eye(2), np.ones((1, 2)))


@pytest.mark.parametrize("accuracy", [0.0, 1.0, -1e-3, 1e-18])
def test_accuracy_must_make_sense(accuracy):
    with pytest.raises(InvalidInput, match="accuracy"):
        solve(arm_programs(0, 2), accuracy=accuracy)


def test_newton_solves_rows_that_are_almost_copies():
    # The multiplicative steps crawl here: the first two rows differ by little and only together are they optimal.
    matrix = np.array([[0.60949, 0.74619, 1.0], [0.042909, 0.08983, 0.3629], [0.50794, 0.39376, 0.0009025]])
    costs = np.ones(3)
    dual = newton_polish(matrix, costs, np.full(3, 10.0), np.ones(3))
    x = np.sqrt(matrix @ dual)
    lower, upper = x.sum() ** 2 / dual.sum(), x.sum() * (matrix.T @ (1 / x)).max()
    assert 1 - lower / upper < 1e-12
