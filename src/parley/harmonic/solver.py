"""The solver behind every lower bound and every plan: harmonic programs, batched, certified, matrix-free.

    minimise  sum_i c_i x_i   subject to   sum_i A_ij / x_i <= b_j  for every j        (A >= 0, b > 0, c > 0)

**Certificate.** For any multipliers `lam >= 0`, `(sum_i sqrt(c_i (A lam)_i))^2 / (b . lam)` is at most the optimum
(Cauchy-Schwarz), and any positive x becomes feasible by scaling. So every answer carries a proven relative gap,
whatever found it, and every returned allocation is feasible.

**Method.** Scale rows so that b = 1 and keep `sum lam = 1`. Put `x = sqrt(A lam / c)`, `F = sum c x`,
`r = A^T (1/x)`: at the optimum `r_j = F` wherever `lam_j > 0`, and `F^2` is the certificate. The classical
multiplicative step is `lam_j *= r_j / F` (as in optimal experimental design); here every row has an exponent of its
own, which `multipliers` lets grow and shrink. `benchmarks/solver.py` counts the steps against the fixed exponent. The
rare small program that is still open after `POLISH_AFTER` steps gets one round of Newton's method (`interior`). No
convergence proof is claimed or needed: the certificate is checked, not assumed, and a program that misses the accuracy
raises `NotConverged`. `pace` says how time enters.

Each step costs two products with A, which are products of an `(arm, agent)` array with `weights**2`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.errors import InvalidInput, NotConverged
from parley.harmonic.interior import newton_polish
from parley.harmonic.multipliers import FLOOR, Multipliers, largest, per_program, total
from parley.harmonic.pace import Pace, Tolls
from parley.harmonic.programs import ArmPrograms, ContrastPrograms, Programs
from parley.harmonic.solution import Solution, Status
from parley.problem import BoolArray, FloatArray, IntArray

__all__ = ["ArmPrograms", "ContrastPrograms", "Solution", "Status", "proven_gap", "solve"]

EXPONENT = 1.9  # 2 solves a diagonal A in one step, 1 a rank-one A; every row starts here and finds its own
FINEST = 1e-13
COLDEST = 1e-6  # of the largest: multipliers of a warm start that have all but vanished may matter again
CHECK_EVERY = 3
POLISH_AFTER, POLISH_UP_TO = 150, 1_000_000  # steps; entries of the matrix that Newton's method writes down


def _reciprocals(allocation: FloatArray, touched: BoolArray) -> FloatArray:
    return np.divide(1.0, allocation, out=np.zeros_like(allocation), where=touched)


def solve(
    programs: Programs,
    *,
    accuracy: float = 1e-9,
    max_steps: int = 20_000,
    strict: bool = True,
    start: Solution | None = None,
    pace: Pace | None = None,
) -> Solution:
    """Solve a batch of programs, each to relative gap `accuracy`; `start` is the solution of a similar batch.

    With a `pace` the value is what the days are worth, `day_cost` times what the slowest agent needs, plus the draws;
    costs may then be 0: if all are, it is the fastest plan.

    What is not reached raises `NotConverged` with the best solution inside, unless `strict` is off: then the status
    says so (the allocation is feasible and its gap proven all the same).

    >>> identity = np.eye(2)
    >>> solution = solve(ArmPrograms.of(identity, np.array([[0.5, 0.125]])))
    >>> solution.allocation.round(6).tolist(), solution.status.name
    ([[2.0, 8.0]], 'SOLVED')
    >>> against, bounds = np.array([[[[1, 1], [0, 0]]]]), np.array([[[[1.0, 1.0], [np.inf, np.inf]]]])
    >>> days = Pace(rates=np.array([1.0, 4.0]), day_cost=10.0)
    >>> solve(ContrastPrograms.of(identity, against, bounds), pace=days).value.round(6).tolist()  # 4 days, 8 draws
    [48.0]
    """
    if not FINEST <= accuracy < 1:
        raise InvalidInput(
            "accuracy", found=accuracy, allowed=f"a number from {FINEST:g} (float64 ends there) to below 1"
        )
    if pace is None and (programs.costs <= 0).any():
        raise InvalidInput("costs", found=0, allowed="positive numbers: what is free would be drawn without end")
    best = _Best.start(programs, pace)
    live = np.flatnonzero(total(programs.touched().astype(np.float64)) > 0)
    part, steps = programs.take(live), 0
    touched, costs, wanted = _prepared(part)
    lam = Multipliers.start(_warm(start, part, live, wanted), wanted, exponent=EXPONENT)
    tolls = None
    if pace is not None:
        tolls = Tolls.start(pace, touched, None if start is None or start.shares is None else start.shares[live])
    while live.size and steps < max_steps:
        charged = tolls.charged(costs, touched) if tolls else costs
        allocation = np.sqrt(np.divide(part.columns(lam.values), charged, out=np.zeros_like(costs), where=touched))
        spent = total(charged * allocation)
        ratios = part.rows(_reciprocals(allocation, touched))
        steps += 1
        if steps % CHECK_EVERY == 1:
            feasible = part.repaired(allocation, ratios)
            upper = total(costs * feasible)
            if tolls:
                upper = upper + tolls.pace.spent(feasible)
            best.improve(
                live, feasible, upper, spent**2, lam.values * part.inverse, tolls.shares.values if tolls else None
            )
            open_ = ~(best.gap(live) <= accuracy)
            if not open_.all():
                live, part, lam, tolls = (
                    live[open_],
                    part.take(open_),
                    lam.take(open_),
                    tolls.take(open_) if tolls else None,
                )
                ratios, spent, allocation = ratios[open_], spent[open_], allocation[open_]
                touched, costs, wanted = _prepared(part)
                if not live.size:
                    break
        lam.move(np.log(ratios / per_program(spent, ratios), out=np.zeros_like(ratios), where=ratios > 0), steps)
        if tolls:
            tolls.move(allocation, steps)
        elif steps == POLISH_AFTER and costs[0].size * wanted[0].size <= POLISH_UP_TO:
            lam.put(_polished(part, best, live, touched, wanted))
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


def _warm(start: Solution | None, part: Programs, live: IntArray, wanted: FloatArray) -> FloatArray:
    """Where the multipliers begin (b = 1): all alike, or as in the solution of a similar batch."""
    if start is None:
        return wanted
    warm = np.divide(start.dual[live], part.inverse, out=np.zeros_like(wanted), where=part.inverse > 0)
    return np.asarray(wanted * np.maximum(warm, COLDEST * per_program(largest(warm), warm)))


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
    shares: FloatArray | None

    @classmethod
    def start(cls, programs: Programs, pace: Pace | None) -> _Best:
        count = len(programs.inverse)
        finite = np.where(np.isfinite(programs.costs), programs.costs, 0.0)
        idle = total(programs.touched().astype(np.float64)) == 0  # nothing asked for: 0 draws, proven
        upper = np.where(idle, 0.0, np.inf)
        shares = None if pace is None else np.zeros((count, finite.shape[-1]))
        return cls(upper, np.zeros(count), np.zeros_like(finite), np.zeros_like(programs.inverse), shares)

    def gap(self, live: IntArray) -> FloatArray:
        return 1 - self.lower[live] / self.upper[live]

    def improve(
        self,
        live: IntArray,
        feasible: FloatArray,
        upper: FloatArray,
        lower: FloatArray,
        dual: FloatArray,
        shares: FloatArray | None,
    ) -> None:
        better = upper < self.upper[live]
        self.upper[live[better]], self.allocation[live[better]] = upper[better], feasible[better]
        better = lower > self.lower[live]
        self.lower[live[better]], self.dual[live[better]] = lower[better], dual[better]
        if shares is not None and self.shares is not None:
            self.shares[live[better]] = shares[better]

    def solution(self, programs: Programs, steps: int, accuracy: float) -> Solution:
        # Rounding may leave a row over its bound by a few units in the last place: feasible means feasible.
        touched = programs.touched()
        ratios = programs.rows(_reciprocals(self.allocation, touched & (self.allocation > 0)))
        excess = largest(ratios)
        scale = np.where(excess > 1, excess * (1 + 1e-15), 1.0)
        value = self.upper * scale
        reached = (value == 0) | (1 - self.lower / np.where(value > 0, value, 1) <= accuracy)
        return Solution(
            value=value,
            lower=self.lower,
            allocation=self.allocation * per_program(scale, self.allocation),
            dual=self.dual,
            shares=self.shares,
            status=Status.SOLVED if reached.all() else Status.OUT_OF_STEPS,
            steps=steps,
        )


def proven_gap(
    programs: Programs,
    allocation: FloatArray,
    dual: FloatArray,
    *,
    pace: Pace | None = None,
    shares: FloatArray | None = None,
) -> FloatArray:
    """`(programs,)`: the relative gap that `dual` proves for `allocation`, from scratch; infinite if not feasible.

    With a `pace`, that `dual` and `shares` prove together. Independent of how any of them was found: this is what an
    audit calls.

    >>> programs = ArmPrograms.of(np.eye(2), np.array([[0.5, 0.125]]))
    >>> solution = solve(programs)
    >>> for part in (1, 2, 0.5):  # the best, twice what is needed, and too little
    ...     print(proven_gap(programs, part * solution.allocation, solution.dual).round(6).item())
    0.0
    0.5
    inf
    """
    touched = programs.touched()
    costs = np.where(touched, programs.costs, 0.0)
    starved = (touched & (allocation <= 0)).reshape(len(allocation), -1).any(axis=1)
    ratios = programs.rows(_reciprocals(allocation, touched & (allocation > 0)))
    feasible = (largest(ratios) <= 1 + 1e-12) & ~starved
    value, charged = total(costs * allocation), costs
    if pace is not None:
        if shares is None or (shares < 0).any() or (shares.sum(axis=-1) > 1 + 1e-12).any():
            raise InvalidInput("shares", found="none, or no shares of a day", allowed="at least 0, at most 1 in all")
        value, charged = value + pace.spent(allocation), pace.charged(costs, shares, touched)
    live = programs.inverse > 0
    scaled = np.divide(dual, programs.inverse, out=np.zeros_like(dual), where=live)  # dual in units where b = 1
    lower = total(np.sqrt(charged * programs.columns(scaled))) ** 2
    norm = total(scaled)
    lower = np.divide(lower, norm, out=np.zeros_like(lower), where=norm > 0)
    gap = np.where(value > 0, 1 - lower / np.where(value > 0, value, 1), 0.0)
    return np.where(feasible, gap, np.inf)
