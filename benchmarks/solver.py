"""The harmonic solver compared with CVXPY and Clarabel and with the classical step, and its speed at scale."""

from __future__ import annotations

from time import perf_counter

import cvxpy as cp
import numpy as np

from benchmarks.common import Section, best_of, in_process
from parley.bounds import bai, identification
from parley.costs import Pace
from parley.harmonic import ArmPrograms, solve, solver
from parley.problem import Instance, Problem


def random_weights(rng: np.random.Generator, agents: int) -> np.ndarray:
    return rng.dirichlet(np.ones(agents), size=agents).T


def programs(agents: int, count: int, seed: int = 0) -> ArmPrograms:
    rng = np.random.default_rng(seed)
    return ArmPrograms.of(random_weights(rng, agents) ** 2, rng.uniform(0.05, 1, (count, agents)) ** 2 / 2)


def formulated(squared_weights: np.ndarray, inverse: np.ndarray | cp.Parameter) -> cp.Problem:
    """One program for CVXPY in y = 1/x, the form that it solves fastest and most accurately."""
    y = cp.Variable(len(squared_weights), pos=True)
    rows = cp.multiply(inverse, squared_weights.T @ y)
    return cp.Problem(cp.Minimize(cp.sum(cp.inv_pos(y))), [rows <= 1])


def clarabel(problem: cp.Problem) -> None:
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-8, tol_gap_rel=1e-8, tol_feas=1e-8)


def against_clarabel() -> Section:
    rows = []
    for agents, count, judged in ((3, 10_000, 60), (30, 1000, 10), (300, 1, 1)):
        batch = programs(agents, count)
        ours = best_of(lambda batch=batch: solve(batch, accuracy=1e-8), 5) / count
        begun = perf_counter()
        for which in range(judged):
            clarabel(formulated(batch.squared_weights, batch.inverse[which]))
        each = (perf_counter() - begun) / judged
        bounds = cp.Parameter(agents, pos=True)
        problem = formulated(batch.squared_weights, bounds)
        bounds.value = batch.inverse[0]
        clarabel(problem)  # compiles
        begun = perf_counter()
        for which in range(judged):
            bounds.value = batch.inverse[which]
            clarabel(problem)
        again = (perf_counter() - begun) / judged
        times = (f"{1e6 * seconds:,.1f}" for seconds in (ours, each, again))
        rows.append([f"{agents}", f"{count:,}", *times, f"{each / ours:,.0f} x", f"{again / ours:,.0f} x"])
    return Section(
        title="Solver against CVXPY with Clarabel",
        words="Relaxed programs with random asymmetric weights and gaps uniform in [0.05, 1], relative gap 1e-8. CVXPY "
        "either states and solves every program, or is compiled once and solves again with new parameters.",
        columns=(
            "M", "programs", "Parley, µs", "CVXPY, µs", "compiled, µs", "CVXPY / Parley", "compiled / Parley",
        ),
        rows=rows,
    )  # fmt: skip


def against_the_fixed_exponent() -> Section:
    rows = []
    for agents in (3, 30, 300):
        batch = programs(agents, 20)
        ours = solve(batch, accuracy=1e-8).steps
        kept = solver.GROWTH, solver.SHRINK, solver.POLISH_AFTER
        solver.GROWTH, solver.SHRINK, solver.POLISH_AFTER = 0.0, 1.0, 0
        try:
            fixed = solve(batch, accuracy=1e-8, max_steps=50_000, strict=False).steps
        finally:
            solver.GROWTH, solver.SHRINK, solver.POLISH_AFTER = kept
        rows.append([f"{agents}", f"{ours:,}", f"{fixed:,}", f"{fixed / ours:,.0f} x"])
    return Section(
        title="Own exponent per row against the fixed exponent 1.9",
        words="Steps until the last of 20 random programs is at 1e-8 (50,000 at most).",
        columns=("M", "steps, own exponents", "steps, fixed exponent", "fewer"),
        rows=rows,
    )


def priced(arms: int, agents: int, accuracy: float) -> tuple[float, int]:
    """The proven gap and the number of steps of a plan in which a day costs as much as one draw by every agent."""
    rng = np.random.default_rng(1)
    problem = Problem(arms=arms, weights=random_weights(rng, agents))
    programs = identification(Instance(problem=problem, means=rng.uniform(0, 1, (arms, agents))))
    pace = Pace(rates=rng.uniform(1, 10, agents), day_cost=float(agents))
    solution = solve(programs, accuracy=accuracy, pace=pace)
    return float(solution.gap.max()), solution.steps


def measured(kind: str, arms: str, agents: str, accuracy: str) -> dict[str, float]:
    """One large solve, in a separate process."""
    rng = np.random.default_rng(1)
    k, m = int(arms), int(agents)
    begun = perf_counter()
    if kind == "relaxed":
        gap = float(solve(programs(m, k), accuracy=float(accuracy)).gap.max())
    elif kind == "time":
        gap, _ = priced(k, m, float(accuracy))
    else:
        problem = Problem(arms=k, weights=random_weights(rng, m))
        gap = bai(Instance(problem=problem, means=rng.uniform(0, 1, (k, m))), accuracy=float(accuracy)).gap
    return {"seconds": perf_counter() - begun, "gap": gap}


def at_scale() -> Section:
    rows = []
    for kind, arms, agents, accuracy in (
        ("relaxed", 1, 1000, "1e-6"),
        ("exact", 100, 50, "1e-6"),
        ("exact", 100, 200, "1e-6"),
        ("exact", 400, 50, "1e-6"),
        ("exact", 100, 1000, "1e-3"),
        ("exact", 1000, 1000, "1e-2"),
        ("time", 50, 50, "1e-3"),
        ("time", 100, 100, "1e-3"),
        ("time", 200, 200, "1e-3"),
        ("time", 400, 400, "1e-3"),
    ):
        done = in_process("benchmarks.solver", kind, str(arms), str(agents), accuracy)
        rows.append(
            [
                "time and money" if kind == "time" else f"{kind} T*",
                f"{arms:,}",
                f"{agents:,}",
                accuracy,
                f"{done['gap']:.0e}",
                f"{done['seconds']:.2f}",
                f"{done['mebibytes']:,.0f}",
            ]
        )
    return Section(
        title="Solver at scale",
        words="Random asymmetric weights, means uniform in [0, 1]; peak memory of the whole process. Time and money: "
        "the exact program with rates uniform in 1 to 10 draws a day, a draw costs 1 and a day M.",
        columns=("program", "K", "M", "asked", "proven gap", "seconds", "MiB"),
        rows=rows,
    )


def sections() -> list[Section]:
    return [against_clarabel(), against_the_fixed_exponent(), at_scale()]
