"""The solver of harmonic programs behind every lower bound and every plan: batched, certified and matrix-free.

    minimise  sum_i c_i x_i   subject to   sum_i A_ij / x_i <= b_j  for every j        (A >= 0, b > 0, c > 0)

**Certificate.** For any multipliers `lam >= 0`, `(sum_i sqrt(c_i (A lam)_i))^2 / (b . lam)` is at most the optimum
(Cauchy-Schwarz), and any positive x becomes feasible by scaling. So every solution carries a proven relative gap,
whatever method found it, and every returned allocation is feasible.

**Method.** Scale rows so that b = 1 and keep `sum lam = 1`. Put `x = sqrt(A lam / c)`, `F = sum c x`, `r = A^T (1/x)`:
at the optimum `r_j = F` wherever `lam_j > 0`, and `F^2` is the certificate. The classical multiplicative step is `lam_j
*= r_j / F` (as in optimal experimental design); here every row has its own exponent, which `Multipliers` adapts.
`benchmarks/solver.py` compares the number of steps with the number that a fixed exponent needs. The rare small program
that is unsolved after `POLISH_AFTER` steps gets one round of Newton's method (`newton_polish`). No convergence proof is
claimed or needed: the certificate is checked, not assumed, and a program that misses the accuracy raises
`NotConverged`. `parley.costs` explains how time enters the objective (`pace`).

Each step costs two products with A, which are products of an `(arm, agent)` array with `weights**2`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from parley.costs import Pace, agent_days
from parley.errors import InvalidInput, NotConverged
from parley.harmonic.programs import Programs
from parley.problem import BoolArray, FloatArray, IntArray

EXPONENT = 1.9  # initial exponent: 2 solves a diagonal A in one step, 1 a rank-one A
FINEST = 1e-13  # the smallest relative gap that float64 can prove
TOLL_EXPONENT = 1.0  # 2 would find the shares in one step if the multipliers stayed fixed
COLDEST = 1e-6  # smallest multiplier of a warm start, relative to the largest: a vanished one may matter again
CHECK_EVERY = 3  # steps between two checks of the certificate
POLISH_AFTER, POLISH_UP_TO = 150, 1_000_000  # steps; entries of the dense matrix for Newton's method
NEWTON_STEPS, TO_BOUNDARY, SHRINK_MU = 60, 0.99, 0.1
GROWTH, PATIENCE, SHRINK, LEAST, MOST = 0.5, 60, 0.5, 0.02, 1e4  # how exponents adapt: `Multipliers.move`
LARGEST_STEP = (-20.0, 3.0)  # limits on a change of log lam: a row may vanish quickly but must come back slowly
FLOOR = 1e-100  # a multiplier never reaches 0: it could not grow again


class Status(Enum):
    """How a call of `solve` ended. The value is the message that users see.

    >>> Status.SOLVED.value
    'solved to the requested accuracy'
    """

    SOLVED = "solved to the requested accuracy"
    OUT_OF_STEPS = "NOT solved to the requested accuracy: out of steps"


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A feasible allocation, its value, and a proof of how far from the optimum it can be.

    >>> import parley
    >>> solution = parley.solve(parley.ArmPrograms.of(np.eye(2), np.array([[0.5, 0.125]])))
    >>> float(solution.value[0].round(6)), float(solution.gap[0]) < 1e-9
    (10.0, True)
    """

    value: FloatArray  # (programs,): cost of the allocation, an upper bound on the optimum
    lower: FloatArray  # (programs,): the lower bound on the optimum that the multipliers prove
    allocation: FloatArray  # (..., arm, agent): feasible
    dual: FloatArray  # one multiplier per row, scaled so that b . dual = 1
    shares: FloatArray | None = None  # (programs, agent): with a pace, each agent's share of the cost of a day
    status: Status
    steps: int

    @property
    def gap(self) -> FloatArray:
        """`(programs,)`: the relative gap `(value - lower) / value`, 0 where the value is 0."""
        gap = np.where(self.value > 0, 1 - self.lower / np.where(self.value > 0, self.value, 1), 0.0)
        return np.maximum(gap, 0.0)  # below 0 by rounding only


def total(values: FloatArray) -> FloatArray:
    """`(programs,)`: the sum of the values of each program."""
    summed: FloatArray = values.sum(axis=tuple(range(1, values.ndim)))
    return summed


def largest(values: FloatArray) -> FloatArray:
    """`(programs,)`: the maximum of the values of each program, at least 0."""
    return np.asarray(values.max(axis=tuple(range(1, values.ndim)), initial=0.0))


def per_program(values: FloatArray, like: FloatArray) -> FloatArray:
    """`values (programs,)` reshaped to broadcast with `like`."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


@dataclass
class Multipliers:
    """Multipliers that sum to 1 in every program and are 0 where not `wanted`; updated in place.

    A step multiplies each by `exp(exponent * pull)`, where the pull is 0 at the optimum. A fixed exponent stalls on
    rows that are almost tight: their multipliers must change a lot, but each step changes them little. So every row has
    its own exponent, which grows while the pull keeps its sign and shrinks when the sign changes (the idea of
    resilient back-propagation). Exponents change less and less over time, so that rows that are almost copies of each
    other converge.

    >>> weights = Multipliers.start(np.ones((1, 2)), np.ones((1, 2)), exponent=1.0)
    >>> weights.move(np.log([[3.0, 1.0]]), steps=1)
    >>> weights.values.round(6).tolist()
    [[0.633975, 0.366025]]
    """

    values: FloatArray
    wanted: FloatArray  # 1 where a multiplier is wanted, else 0
    exponents: FloatArray  # the exponent of every row
    before: FloatArray  # the pull of the last step
    exponent: float  # initial exponent of every row

    @classmethod
    def start(cls, values: FloatArray, wanted: FloatArray, *, exponent: float) -> Multipliers:
        """Initial multipliers, in proportion to any positive `values`."""
        return cls(_normal(values), wanted, np.full_like(values, exponent), np.zeros_like(values), exponent)

    def move(self, pull: FloatArray, steps: int) -> None:
        """Take one step; `steps` is the number of steps so far, including this step."""
        self.exponents *= np.where(pull * self.before > 0, 1 + GROWTH / (1 + steps / PATIENCE), SHRINK)
        np.clip(self.exponents, LEAST * self.exponent, MOST * self.exponent, out=self.exponents)
        self.before = pull
        moved = self.values * np.exp(np.clip(self.exponents * pull, *LARGEST_STEP))
        self.values = _normal(np.maximum(moved, FLOOR) * self.wanted)

    def put(self, values: FloatArray) -> None:
        """Replace the multipliers but keep the exponents."""
        self.values = _normal(values)

    def take(self, chosen: BoolArray) -> Multipliers:
        """The multipliers of a subset of the programs."""
        values, wanted = self.values[chosen], self.wanted[chosen]
        return Multipliers(values, wanted, self.exponents[chosen], self.before[chosen], self.exponent)


def _normal(values: FloatArray) -> FloatArray:
    return np.asarray(values / per_program(total(values), values))


@dataclass
class Tolls:
    """The division of a day's cost among the agents, as shares `(programs, agent)` that the solver adjusts."""

    pace: Pace
    shares: Multipliers

    @classmethod
    def start(cls, pace: Pace, touched: BoolArray, shares: FloatArray | None = None) -> Tolls:
        """Initial tolls: equal shares for all agents that draw, or the given shares of a similar batch."""
        if touched.ndim != 3 or touched.shape[-1] != len(pace.rates):
            allowed = f"programs that are (arm, agent) with {touched.shape[-1]} agents"
            raise InvalidInput("rate", found=f"{len(pace.rates)} rates", allowed=allowed)
        used = touched.any(axis=1)
        cannot = used.any(axis=0) & (pace.rates == 0)
        if cannot.any():
            raise InvalidInput(
                "rate",
                found=f"0 for agent {int(np.argmax(cannot)) + 1}, whose draws some mix needs",
                allowed="a rate above 0 for every agent with a weight",
            )
        wanted = np.asarray(used, dtype=np.float64)
        if shares is None:
            return cls(pace, Multipliers.start(wanted, wanted, exponent=TOLL_EXPONENT))
        warm = np.asarray(np.maximum(shares, COLDEST * shares.max(axis=-1, keepdims=True)) * wanted)
        return cls(pace, Multipliers.start(warm, wanted, exponent=TOLL_EXPONENT))

    def charged(self, costs: FloatArray, touched: BoolArray) -> FloatArray:
        return self.pace.charged(costs, self.shares.values, touched)

    def move(self, allocation: FloatArray, steps: int) -> None:
        """Raise the shares of agents that need more days than the average (weighted by shares), lower all others."""
        days = agent_days(allocation, self.pace.rates)
        usual = (self.shares.values * days).sum(axis=-1, keepdims=True)
        self.shares.move(np.log(days / usual, out=np.zeros_like(days), where=days > 0), steps)

    def take(self, chosen: BoolArray) -> Tolls:
        return Tolls(self.pace, self.shares.take(chosen))


def newton_polish(matrix: FloatArray, costs: FloatArray, allocation: FloatArray, dual: FloatArray) -> FloatArray:
    """Better multipliers for one program with b = 1, from its `matrix (variable, row)` and a feasible allocation.

    The multiplicative step is slow for the few small programs whose rows are almost copies of each other (one random
    program in thousands). This primal-dual interior point method is fast: with `y = 1/x` and slacks `s = 1 - A^T y` it
    solves `c / y^2 = A lam`, `lam s = mu` for mu shrinking to 0; each step solves one linear system with the matrix
    `diag(2 c / y^3) + A diag(lam / s) A^T`. The result is only a proposal: the caller's certificate decides whether it
    is better.

    >>> matrix, costs = np.array([[1.0, 0.9], [0.9, 1.0]]), np.ones(2)
    >>> dual = newton_polish(matrix, costs, np.full(2, 2.0), np.array([3.0, 1.0]))
    >>> (dual / dual.sum()).round(6).tolist()
    [0.5, 0.5]
    """
    y = 0.99 / allocation  # strictly feasible: the factor below 1 scales every row down
    lam: FloatArray = dual * (np.sqrt(costs * (matrix @ dual)).sum() / dual.sum()) ** 2  # so that A lam = c x^2
    slack = 1 - matrix.T @ y
    lam = np.maximum(lam, 1e-12 * lam.max())
    for _ in range(NEWTON_STEPS):
        mu = SHRINK_MU * float(lam @ slack) / len(lam)
        if mu <= 1e-18 * float((costs / y).sum()):
            break
        system = np.diag(2 * costs / y**3) + (matrix * (lam / slack)) @ matrix.T
        scale = 1 / np.sqrt(np.diag(system))  # y may span many orders of magnitude, so rescale
        balanced = system * scale[:, None] * scale
        try:
            move = scale * np.linalg.solve(balanced, scale * (costs / y**2 - matrix @ (mu / slack)))
        except np.linalg.LinAlgError:
            break  # float64 allows no further step; the certificate says how good the result is
        lam_move = mu / slack - lam + lam / slack * (matrix.T @ move)
        slack_move = -(matrix.T @ move)
        primal = _longest(np.concatenate([y, slack]), np.concatenate([move, slack_move]))
        y, slack = y + primal * move, slack + primal * slack_move
        lam = lam + _longest(lam, lam_move) * lam_move
    return lam


def _longest(values: FloatArray, move: FloatArray) -> float:
    """The longest step in (0, 1] along `move` that keeps `values` positive."""
    shrinking = move < 0
    if not shrinking.any():
        return 1.0
    return min(1.0, TO_BOUNDARY * float((values[shrinking] / -move[shrinking]).min()))


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
    """Solve a batch of programs, each to the relative gap `accuracy`; `start` is the solution of a similar batch.

    With a `pace` the value is the cost of the draws plus `day_cost` times the days that the slowest agent needs. Costs
    may then be 0; if all costs are 0, the solution is the fastest plan.

    If a program misses the accuracy, `NotConverged` is raised with the best solution found. With `strict=False` the
    solution is returned and its status says so; it is still feasible, with a proven gap.

    >>> from parley.harmonic.programs import ArmPrograms, ContrastPrograms
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
            "accuracy", found=accuracy, allowed=f"a number from {FINEST:g} (the limit of float64) to below 1"
        )
    if pace is None and (programs.costs <= 0).any():
        raise InvalidInput("costs", found=0, allowed="positive numbers: free draws would have no limit")
    reached = programs.touched()
    constrained = np.asarray(reached.any(axis=tuple(range(1, reached.ndim))))
    best = _Best.start(programs, constrained, pace)
    live = np.flatnonzero(constrained)
    part, touched, steps = programs.take(live), reached[live], 0
    costs = _costs(part, touched)
    wanted = np.asarray((part.inverse > 0) & (part.rows(touched.astype(np.float64)) > 0), dtype=np.float64)
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
            # Solved programs leave the batch. The comparison is negated, so that a gap of NaN does not count as solved.
            open_ = ~(best.gap(live) <= accuracy)
            if not open_.all():
                live, part, lam, tolls = (
                    live[open_],
                    part.take(open_),
                    lam.take(open_),
                    tolls.take(open_) if tolls else None,
                )
                if not live.size:
                    break
                ratios, spent, allocation = ratios[open_], spent[open_], allocation[open_]
                touched, wanted = touched[open_], wanted[open_]
                costs = _costs(part, touched)
        lam.move(np.log(ratios / per_program(spent, ratios), out=np.zeros_like(ratios), where=ratios > 0), steps)
        if tolls:
            tolls.move(allocation, steps)
        elif steps == POLISH_AFTER and costs[0].size * wanted[0].size <= POLISH_UP_TO:
            # Only without a pace: Newton's method here takes costs as fixed, and tolls change with every step.
            lam.put(_polished(part, best, live, touched, wanted))
    solution = best.solution(programs, reached, steps, accuracy)
    status = solution.status
    if strict and status is not Status.SOLVED:
        missed = int((~(solution.gap <= accuracy)).sum())
        raise NotConverged(
            f"{missed} of {len(solution.value)} programs stopped at a relative gap of {solution.gap.max():.1e} "
            f"after {steps} steps; {accuracy:.0e} was requested. Request less accuracy or allow more steps",
            solution,
        )
    return solution


def _costs(part: Programs, touched: BoolArray) -> FloatArray:
    """The cost of each variable; 0 for variables that appear in no constraint."""
    return np.where(touched, part.costs, 0.0)


def _warm(start: Solution | None, part: Programs, live: IntArray, wanted: FloatArray) -> FloatArray:
    """Initial multipliers, for rows scaled to b = 1: all equal, or from the solution of a similar batch."""
    if start is None:
        return wanted
    warm = np.divide(start.dual[live], part.inverse, out=np.zeros_like(wanted), where=part.inverse > 0)
    return np.asarray(wanted * np.maximum(warm, COLDEST * per_program(largest(warm), warm)))


def _polished(part: Programs, best: _Best, live: IntArray, touched: BoolArray, wanted: FloatArray) -> FloatArray:
    """Multipliers, for rows scaled to b = 1, from Newton's method at the best point so far; one program at a time."""
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
    """The best primal and dual solutions of every program so far; they may come from different steps."""

    upper: FloatArray
    lower: FloatArray
    allocation: FloatArray
    dual: FloatArray
    shares: FloatArray | None

    @classmethod
    def start(cls, programs: Programs, constrained: BoolArray, pace: Pace | None) -> _Best:
        count = len(programs.inverse)
        finite = np.where(np.isfinite(programs.costs), programs.costs, 0.0)
        upper = np.where(constrained, np.inf, 0.0)  # without constraints, 0 draws are optimal
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

    def solution(self, programs: Programs, touched: BoolArray, steps: int, accuracy: float) -> Solution:
        # Rounding may leave a row a few units in the last place over its bound: scale until it is truly feasible.
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
    """`(programs,)`: the relative gap that `dual` proves for `allocation`; infinite if the allocation is infeasible.

    With a `pace`, `dual` and `shares` prove the gap together. The gap is computed from scratch, whatever solver found
    the arguments, so an audit can rely on it.

    >>> from parley.harmonic.programs import ArmPrograms
    >>> programs = ArmPrograms.of(np.eye(2), np.array([[0.5, 0.125]]))
    >>> solution = solve(programs)
    >>> for part in (1, 2, 0.5):  # the optimum, twice as much, and too little
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
            allowed = "the shares of a solution: at least 0 each, with a sum of at most 1 per program"
            raise InvalidInput("shares", found="nothing" if shares is None else "other numbers", allowed=allowed)
        value, charged = value + pace.spent(allocation), pace.charged(costs, shares, touched)
    live = programs.inverse > 0
    scaled = np.divide(dual, programs.inverse, out=np.zeros_like(dual), where=live)  # dual in units where b = 1
    lower = total(np.sqrt(charged * programs.columns(scaled))) ** 2
    norm = total(scaled)
    lower = np.divide(lower, norm, out=np.zeros_like(lower), where=norm > 0)
    gap = np.where(value > 0, 1 - lower / np.where(value > 0, value, 1), 0.0)
    return np.where(feasible, gap, np.inf)
