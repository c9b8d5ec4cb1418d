"""The solver behind every lower bound and every plan: harmonic programs, batched, certified, matrix-free.

    minimise  sum_i c_i x_i   subject to   sum_i A_ij / x_i <= b_j  for every j        (A >= 0, b > 0, c > 0)

**Certificate.** For any multipliers `lam >= 0`, `(sum_i sqrt(c_i (A lam)_i))^2 / (b . lam)` is at most the optimum
(Cauchy-Schwarz), and any positive x becomes feasible by scaling. So every answer carries a proven relative gap,
whatever found it, and every returned allocation is feasible.

**Method.** Scale rows so that b = 1 and keep `sum lam = 1`. Put `x = sqrt(A lam / c)`, `F = sum c x`,
`r = A^T (1/x)`: at the optimum `r_j = F` wherever `lam_j > 0`, and `F^2` is the certificate. The classical
multiplicative step is `lam_j *= r_j / F` (as in optimal experimental design). It stalls on rows that are almost
tight: their multiplier has far to go and moves by a factor close to 1. So every row has its own exponent, which
grows while the row keeps its direction and shrinks when it turns (the idea of resilient back-propagation), ever
less eagerly as steps go by, so that rows that are almost copies of each other stop chasing one another.
`benchmarks/solver.py` counts the steps against the fixed exponent. The rare small program that is still open after
`POLISH_AFTER` steps gets one round of Newton's method (`parley.interior`). No convergence proof is claimed or needed:
the certificate is checked, not assumed, and a program that misses the accuracy raises `NotConverged`.

Each step costs two products with A, which are products of an `(arm, agent)` array with `weights**2`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from parley.errors import InvalidInput, NotConverged
from parley.interior import newton_polish
from parley.problem import BoolArray, FloatArray, IntArray
from parley.programs import ArmPrograms, ContrastPrograms, Programs

__all__ = ["ArmPrograms", "ContrastPrograms", "Solution", "Status", "proven_gap", "solve"]

EXPONENT = 1.9  # 2 solves a diagonal A in one step, 1 a rank-one A; every row starts here and finds its own
GROWTH, PATIENCE, SHRINK, LEAST, MOST = 0.5, 60, 0.5, 0.02, 1e4
LARGEST_STEP = (-20.0, 3.0)  # of log lam: a row may vanish quickly but must come back gently
FLOOR = 1e-100  # a multiplier never becomes 0: it could not grow again
FINEST = 1e-13
COLDEST = 1e-6  # of the largest: multipliers of a warm start that have all but vanished may matter again
CHECK_EVERY = 3
POLISH_AFTER, POLISH_UP_TO = 150, 1_000_000  # steps; entries of the matrix that Newton's method writes down


class Status(Enum):
    """How a solve ended; the value is what a person reads."""

    SOLVED = "solved to the accuracy asked for"
    OUT_OF_STEPS = "NOT solved to the accuracy asked for: out of steps"


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A feasible allocation, its value, and the proof of how far from the optimum it can be at most."""

    value: FloatArray  # (programs): cost of the allocation, an upper bound on the optimum
    lower: FloatArray  # (programs): what the multipliers prove, a lower bound on the optimum
    allocation: FloatArray  # (..., arm, agent): feasible
    dual: FloatArray  # one multiplier per row, scaled so that b . dual = 1
    status: Status
    steps: int

    @property
    def gap(self) -> FloatArray:
        """`(value - lower) / value`, 0 where the value is 0."""
        gap = np.where(self.value > 0, 1 - self.lower / np.where(self.value > 0, self.value, 1), 0.0)
        return np.maximum(gap, 0.0)  # below 0 by rounding only


def _total(values: FloatArray) -> FloatArray:
    total: FloatArray = values.sum(axis=tuple(range(1, values.ndim)))
    return total


def _largest(values: FloatArray) -> FloatArray:
    return np.asarray(values.max(axis=tuple(range(1, values.ndim)), initial=0.0))


def _per_program(values: FloatArray, like: FloatArray) -> FloatArray:
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _reciprocals(allocation: FloatArray, touched: BoolArray) -> FloatArray:
    return np.divide(1.0, allocation, out=np.zeros_like(allocation), where=touched)


def solve(
    programs: Programs,
    *,
    accuracy: float = 1e-9,
    max_steps: int = 20_000,
    strict: bool = True,
    start: FloatArray | None = None,
) -> Solution:
    """Solve a batch of programs, each to relative gap `accuracy`; `start` is the dual of a similar batch.

    What is not reached raises `NotConverged` with the best solution inside, unless `strict` is off: then the status
    says so (the allocation is feasible and its gap proven all the same).

    >>> identity = np.eye(2)
    >>> solution = solve(ArmPrograms.of(identity, np.array([[0.5, 0.125]])))
    >>> solution.allocation.round(6).tolist(), solution.status.name
    ([[2.0, 8.0]], 'SOLVED')
    """
    if not FINEST <= accuracy < 1:
        raise InvalidInput(
            "accuracy", found=accuracy, allowed=f"a number from {FINEST:g} (float64 ends there) to below 1"
        )
    best = _Best.start(programs)
    live = np.flatnonzero(_total(programs.touched().astype(np.float64)) > 0)
    part, steps = programs.take(live), 0
    touched, costs, wanted = _prepared(part)
    lam = wanted
    if start is not None:
        warm = np.divide(start[live], part.inverse, out=np.zeros_like(wanted), where=part.inverse > 0)
        lam = wanted * np.maximum(warm, COLDEST * _per_program(_largest(warm), warm))
    lam = lam / _per_program(_total(lam), lam)
    exponents, before = np.full_like(lam, EXPONENT), np.zeros_like(lam)
    while live.size and steps < max_steps:
        allocation = np.sqrt(np.divide(part.columns(lam), costs, out=np.zeros_like(costs), where=touched))
        total = _total(costs * allocation)
        ratios = part.rows(_reciprocals(allocation, touched))
        steps += 1
        if steps % CHECK_EVERY == 1:
            best.improve(live, part, lam, total, allocation, ratios, costs)
            open_ = ~(best.gap(live) <= accuracy)
            if not open_.all():
                live, part, lam, ratios, total = (
                    live[open_],
                    part.take(open_),
                    lam[open_],
                    ratios[open_],
                    total[open_],
                )
                exponents, before = exponents[open_], before[open_]
                touched, costs, wanted = _prepared(part)
                if not live.size:
                    break
        pull = np.log(ratios / _per_program(total, ratios), out=np.zeros_like(ratios), where=ratios > 0)
        exponents *= np.where(pull * before > 0, 1 + GROWTH / (1 + steps / PATIENCE), SHRINK)
        np.clip(exponents, LEAST * EXPONENT, MOST * EXPONENT, out=exponents)
        before = pull
        lam = np.maximum(lam * np.exp(np.clip(exponents * pull, *LARGEST_STEP)), FLOOR) * wanted
        if steps == POLISH_AFTER and costs[0].size * wanted[0].size <= POLISH_UP_TO:
            lam = _polished(part, best, live, touched, wanted)
        lam /= _per_program(_total(lam), lam)
    solution = best.solution(programs, steps, accuracy)
    status = solution.status
    if strict and status is not Status.SOLVED:
        missed = int((~(solution.gap <= accuracy)).sum())
        raise NotConverged(
            f"{missed} of {len(solution.value)} programs stopped at a relative gap of {solution.gap.max():.1e} "
            f"after {steps} steps; {accuracy:.0e} was asked for. Ask for less accuracy or allow more steps",
            solution,
        )
    return solution


def _prepared(part: Programs) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Which variables take part, their costs (0 for the others), and 1 for every row that asks for something."""
    touched = part.touched()
    wanted = (part.inverse > 0) & (part.rows(touched.astype(np.float64)) > 0)
    return touched, np.where(touched, part.costs, 0.0), wanted.astype(np.float64)


def _polished(part: Programs, best: _Best, live: IntArray, touched: BoolArray, wanted: FloatArray) -> FloatArray:
    """Multipliers (b = 1) by Newton's method from the best point so far, one program at a time."""
    lam = np.zeros_like(wanted)
    for i, program in enumerate(live):
        one = part.take(np.array([i]))
        used, rows = touched[i].ravel(), wanted[i].ravel() > 0
        allocation, dual = best.allocation[program].ravel()[used], best.dual[program].ravel()[rows]
        scaled = dual / one.inverse.ravel()[rows]
        lam[i].reshape(-1)[rows] = newton_polish(
            one.dense()[np.ix_(used, rows)], one.costs.ravel()[used], allocation, scaled
        )
    return np.asarray(np.maximum(lam, FLOOR * lam.max()) * wanted)


@dataclass
class _Best:
    """The best primal and the best dual of every program so far; they need not come from the same step."""

    upper: FloatArray
    lower: FloatArray
    allocation: FloatArray
    dual: FloatArray

    @classmethod
    def start(cls, programs: Programs) -> _Best:
        count = len(programs.inverse)
        finite = np.where(np.isfinite(programs.costs), programs.costs, 0.0)
        idle = _total(programs.touched().astype(np.float64)) == 0  # nothing asked for: 0 draws, proven
        upper = np.where(idle, 0.0, np.inf)
        return cls(upper, np.zeros(count), np.zeros_like(finite), np.zeros_like(programs.inverse))

    def gap(self, live: IntArray) -> FloatArray:
        return 1 - self.lower[live] / self.upper[live]

    def improve(
        self,
        live: IntArray,
        part: Programs,
        lam: FloatArray,
        total: FloatArray,
        allocation: FloatArray,
        ratios: FloatArray,
        costs: FloatArray,
    ) -> None:
        feasible = part.repaired(allocation, ratios)
        upper, lower = _total(costs * feasible), total**2
        better = upper < self.upper[live]
        self.upper[live[better]], self.allocation[live[better]] = upper[better], feasible[better]
        better = lower > self.lower[live]
        self.lower[live[better]], self.dual[live[better]] = lower[better], (lam * part.inverse)[better]

    def solution(self, programs: Programs, steps: int, accuracy: float) -> Solution:
        # Rounding may leave a row over its bound by a few units in the last place: feasible means feasible.
        touched = programs.touched()
        ratios = programs.rows(_reciprocals(self.allocation, touched & (self.allocation > 0)))
        excess = _largest(ratios)
        scale = np.where(excess > 1, excess * (1 + 1e-15), 1.0)
        value = self.upper * scale
        reached = (value == 0) | (1 - self.lower / np.where(value > 0, value, 1) <= accuracy)
        return Solution(
            value=value,
            lower=self.lower,
            allocation=self.allocation * _per_program(scale, self.allocation),
            dual=self.dual,
            status=Status.SOLVED if reached.all() else Status.OUT_OF_STEPS,
            steps=steps,
        )


def proven_gap(programs: Programs, allocation: FloatArray, dual: FloatArray) -> FloatArray:
    """`(programs,)`: the relative gap that `dual` proves for `allocation`, from scratch; infinite if not feasible.

    Independent of how either was found: this is what an audit calls.
    """
    touched = programs.touched()
    costs = np.where(touched, programs.costs, 0.0)
    starved = (touched & (allocation <= 0)).reshape(len(allocation), -1).any(axis=1)
    ratios = programs.rows(_reciprocals(allocation, touched & (allocation > 0)))
    feasible = (_largest(ratios) <= 1 + 1e-12) & ~starved
    live = programs.inverse > 0
    scaled = np.divide(dual, programs.inverse, out=np.zeros_like(dual), where=live)  # dual in units where b = 1
    lower = _total(np.sqrt(costs * programs.columns(scaled))) ** 2
    norm = _total(scaled)
    value = _total(costs * allocation)
    lower = np.divide(lower, norm, out=np.zeros_like(lower), where=norm > 0)
    gap = np.where(value > 0, 1 - lower / np.where(value > 0, value, 1), 0.0)
    return np.where(feasible, gap, np.inf)
