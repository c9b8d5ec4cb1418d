"""The bounds of the paper: lower bounds, each a harmonic program, and the guarantee of W-CPE.

For Gaussian rewards no delta-correct algorithm can expect to draw fewer than `bai * log(1 / (2.4 delta))` samples
(Theorem 1; Theorem 4 for the top N), and no uniformly efficient policy has a regret below `regret * log(T)` by the
horizon T (Theorem 3). The relaxed bounds can be computed without knowing which arms are best. docs/experiments.md lists
the errata of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
from scipy.special import zeta

from parley.bounds.exact import MeanContrasts, cheapest, identified, regretted
from parley.errors import InvalidInput, TiedArms
from parley.harmonic import ArmPrograms, ContrastPrograms, Solution, solve
from parley.problem import BoolArray, FloatArray, Instance, Problem
from parley.rewards import Gaussian
from parley.settings import SETTINGS, why_largest_gap
from parley.text.tabular import Columns, Picture, Tabular, cells

ACCURACY = 1e-9
EXACT_ACCURACY, MOST_CELLS = 1e-5, 300  # of the exact bounds for 0/1 rewards and counts


@dataclass(frozen=True, kw_only=True, repr=False)
class Bound(Tabular):
    """A complexity such as T*: `allocation` attains `value`, which is proven to be within `gap` of the optimum.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> bound = parley.lower_bounds(instance).bai
    >>> round(bound.value, 2), bound.allocation.round(2).tolist(), bound.gap < 1e-9
    (20.86, [[4.41, 6.02], [4.41, 6.02]], True)
    """

    value: float
    gap: float  # relative to the value
    allocation: FloatArray  # (arm, agent)
    arms: tuple[str, ...]
    agents: tuple[str, ...]

    @property
    def headline(self) -> str:
        return f"{self.value:,.5g}, proven to a relative error of {self.gap:.1g}"

    @property
    def row_count(self) -> int:
        return self.allocation.size

    @property
    def picture(self) -> Picture:
        return Picture(shape="heat map", values="allocation", rows="arm", across="agent")

    def columns(self) -> Columns:
        """The table of the allocation that attains the value."""
        return cells(self.arms, self.agents, allocation=self.allocation)

    @property
    def proven(self) -> float:
        """The lower bound on the optimum that the multipliers prove."""
        return self.value * (1 - self.gap)

    @classmethod
    def of(cls, solution: Solution, problem: Problem) -> Bound:
        """The bound whose value is the sum of the values of all programs of a solution."""
        value, lower = float(solution.value.sum()), float(solution.lower.sum())
        gap = (value - lower) / value if value > 0 else 0.0
        allocation = solution.allocation.reshape(problem.shape)
        return cls(value=value, gap=max(gap, 0.0), allocation=allocation, arms=problem.arms, agents=problem.agents)


@dataclass(frozen=True, kw_only=True, repr=False)
class Bounds(Tabular):
    """The four lower bounds of one instance; the bounds on regret are None if two arms tie as an agent's best arm.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> bounds = parley.lower_bounds(instance)
    >>> round(bounds.bai.value, 2), round(bounds.bai_relaxed.value, 2)
    (20.86, 10.43)
    >>> bounds  # doctest: +ELLIPSIS
    <Bounds: T* = 20.857, C* = 3.4314, proven to a relative error of ...>
    """

    bai: Bound
    bai_relaxed: Bound
    regret: Bound | None
    regret_relaxed: Bound | None

    @property
    def _known(self) -> dict[str, Bound]:
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: bound for name, bound in named.items() if bound is not None}

    @property
    def headline(self) -> str:
        values = [f"T* = {self.bai.value:,.5g}", *([f"C* = {self.regret.value:,.5g}"] if self.regret else [])]
        gap = max(bound.gap for bound in self._known.values())
        return f"{', '.join(values)}, proven to a relative error of {gap:.1g}"

    @property
    def row_count(self) -> int:
        return len(self._known)

    @property
    def picture(self) -> Picture:
        return Picture(shape="bars", values="value", rows="bound")

    def columns(self) -> Columns:
        """The table of bounds: an allocation attains `value`, and the multipliers prove the lower bound `proven`."""
        known = self._known
        numbers = {key: np.array([getattr(one, key) for one in known.values()]) for key in ("value", "gap", "proven")}
        return {"bound": list(known), **numbers}


def oracle(problem: Problem, gaps: FloatArray, *, accuracy: float = ACCURACY) -> FloatArray:
    """The oracle allocation of Definition 1 at any positive `gaps (..., arm, agent)`, for the problem's noise.

    >>> problem = Problem(arms=2, weights=np.eye(2))
    >>> oracle(problem, np.array([[1.0, 0.5], [1.0, 0.5]])).round(6).tolist()
    [[2.0, 8.0], [2.0, 8.0]]
    """
    common, own = _common(problem.noise.variance)
    bounds = np.square(gaps) / (2 * common)
    each = None if own is None else np.broadcast_to(own, gaps.shape).reshape(-1, problem.agent_count)
    programs = ArmPrograms.of(problem.squared_weights, bounds.reshape(-1, problem.agent_count), variances=each)
    return solve(programs, accuracy=accuracy).allocation.reshape(gaps.shape)


def identification(instance: Instance, costs: FloatArray | None = None) -> ContrastPrograms:
    """The program behind `bai`, as a batch of one; every cost is 1 unless given."""
    instance.require_distinct()
    problem, mixed, best = instance.problem, instance.mixed_means, instance.best
    ranked = np.argsort(-mixed, axis=0)[: problem.top]  # (top, agent): the arms of S*_m
    opponents = np.broadcast_to(ranked[:, None, :], (problem.top, *problem.shape))
    gaps = np.take_along_axis(mixed[None], opponents, axis=1) - mixed
    common, own = _common(instance.variances)
    rows = np.where(best, np.inf, np.square(gaps) / (2 * common))
    return ContrastPrograms.of(problem.squared_weights, opponents[None], rows[None], costs, own)


def _common(variances: FloatArray | float) -> tuple[float, FloatArray | None]:
    """`(variance, None)` if all cells have the same variance, else `(1, variances)` with the variance of each cell."""
    return (variances, None) if isinstance(variances, float) else (1.0, variances)


def bai(instance: Instance, *, accuracy: float = ACCURACY) -> Bound:
    """T*_W (Theorem 1), or N*_W for the top N (Theorem 4): every arm outside the top against every arm inside.

    The bound is exact for 0/1 rewards and counts too, up to `MOST_CELLS` arms x agents. Beyond that, and for other
    rewards that are not Gaussian, it is the bound for Gaussian rewards with the same variances.
    """
    if bounds_are_exact(instance):
        instance.require_distinct()
        start = solve(identification(instance), accuracy=1e-3).allocation[0]
        return _exactly(identified(instance), instance.problem, np.ones(start.shape), start, accuracy)
    return Bound.of(solve(identification(instance), accuracy=accuracy), instance.problem)


def bai_relaxed(instance: Instance, *, accuracy: float = ACCURACY) -> Bound:
    """T~*_W (Lemma 1), or N~*_W for the top N (Appendix D): one program per arm."""
    instance.require_distinct()
    return arm_by_arm(instance, None, accuracy)


def regret(instance: Instance, *, accuracy: float = ACCURACY) -> Bound:
    """C*_W (Theorem 3): a draw costs the gap of its arm, so draws of an agent's own best arm cost nothing."""
    single, problem = best_arm_only(instance), instance.problem
    costs = np.where(single.best, np.inf, single.gaps)
    if bounds_are_exact(instance):
        rows = regretted(single)
        if not len(rows.floors):  # nothing needs exploring
            free = np.zeros(single.gaps.shape)
            return Bound(value=0.0, gap=0.0, allocation=free, arms=problem.arms, agents=problem.agents)
        return _exactly(rows, problem, single.gaps, arm_by_arm(single, costs, 1e-3).allocation, accuracy)
    return arm_by_arm(single, costs, accuracy)


def bounds_are_exact(instance: Instance) -> bool:
    """Whether `bai` and `regret` are exact for 0/1 rewards or counts, rather than bounds for Gaussian rewards."""
    return instance.problem.noise.divergence is not None and instance.means.size <= MOST_CELLS


def _exactly(rows: MeanContrasts, problem: Problem, costs: FloatArray, start: FloatArray, accuracy: float) -> Bound:
    found = cheapest(rows, costs.ravel(), start.ravel(), accuracy=max(accuracy, EXACT_ACCURACY))
    gap = 1 - found.lower / found.value
    allocation = found.allocation.reshape(start.shape)
    names = {"arms": problem.arms, "agents": problem.agents}
    return Bound(value=found.value, gap=max(gap, 0.0), allocation=allocation, **names)


def regret_relaxed(instance: Instance, *, accuracy: float = ACCURACY) -> Bound:
    """C~*_W (Lemma 5): like C*, without knowledge of the best arms."""
    single = best_arm_only(instance)
    return arm_by_arm(single, single.gaps, accuracy)


@dataclass(frozen=True, kw_only=True, eq=False)
class RegretUntil:
    """The regret until a horizon for agents that know the gaps and explore everything, nothing, or only what pays.

    Asymptotically, no regret below C* log T is possible for a horizon T. But a short horizon can end before all
    exploration pays.

    >>> problem = Problem(arms=2, weights=[[0.0, 0.5], [1.0, 0.5]])
    >>> tie = Instance(problem=problem, means=[[2.0, 0.0], [0.0, 0.0]])  # of the first agent's arms
    >>> found = RegretUntil.of(tie, 10**6)
    >>> found.log_bound, found.not_exploring, round(found.value, 1), found.explored.tolist()
    (inf, 500000.0, 6.9, [[False, False], [False, True]])
    """

    horizon: int
    log_bound: float  # C* log T; infinite if arms tie for somebody's best
    not_exploring: float  # regret of drawing all arms equally until the horizon
    value: float  # regret of exploring only what pays; at most the smaller of the two above
    explored: BoolArray  # (arm, agent): arms that are distinguished from the agent's best; others are drawn equally

    @classmethod
    def of(cls, instance: Instance, horizon: int, *, accuracy: float = 1e-6) -> RegretUntil:
        """Stop exploring the arms closest to an agent's best while that saves regret; keep the least regret found."""
        single = best_arm_only(instance, strict=False)
        losses = single.mixed_means.max(axis=0) - single.mixed_means
        common, own = _common(single.variances)
        costs, logs = np.where(losses > 0, losses, np.inf), math.log(max(horizon, 2))

        def blind(explored: BoolArray) -> FloatArray:
            return np.asarray(horizon * np.where(explored, 0.0, losses).sum(axis=0) / (~explored).sum(axis=0))

        explored = kept = losses > 0
        nothing = float(blind(np.zeros_like(explored)).sum())
        bound = math.inf if single.tied else regret(single, accuracy=accuracy).value * logs
        least = bound
        while explored.any():
            nearest = np.where(explored, losses, np.inf).min(axis=0)
            gaps = np.where(explored, losses, np.where(losses > 0, np.inf, nearest))
            rows = np.square(gaps) / (2 * common)
            solution = solve(ArmPrograms.of(single.problem.squared_weights, rows, costs, own), accuracy=accuracy)
            lost = blind(explored)
            if (total := float(solution.value.sum() * logs + lost.sum())) < least:
                least, kept = total, explored
            # A multiplier times its bound is a constraint's share of the cost: an estimate of what dropping it saves.
            shares = np.where(np.isfinite(rows), solution.dual * np.where(np.isfinite(rows), rows, 0.0), 0.0)
            freed = explored & (losses == nearest)
            saved = (shares * solution.value[:, None] * logs * (freed | (losses <= 0))).sum(axis=0)
            pays = explored.any(axis=0) & (saved > blind(explored & ~freed) - lost)
            if not pays.any():
                break
            explored = explored & ~(freed & pays)
        if nothing <= least:
            least, kept = nothing, np.zeros_like(explored)
        return cls(horizon=horizon, log_bound=bound, not_exploring=nothing, value=least, explored=kept)


def lower_bounds(instance: Instance, *, accuracy: float = ACCURACY) -> Bounds:
    """All four bounds of an instance; raises `TiedArms` if they are infinite.

    The bounds hold for studies that find the exact best arms, so a tolerance is refused. `parley.bounds.prices` has
    bounds on money and days.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> bounds = parley.lower_bounds(instance)
    >>> round(parley.bounds.expected_samples(bounds.bai, delta=0.1), 1)  # no algorithm can expect fewer draws
    29.8
    """
    instance.problem.refuse("the lower bound", frozenset(SETTINGS) - {"tolerance", "dormant"})
    try:
        regrets = regret(instance, accuracy=accuracy), regret_relaxed(instance, accuracy=accuracy)
    except TiedArms:
        if instance.problem.top == 1:
            raise
        regrets = None
    return Bounds(
        bai=bai(instance, accuracy=accuracy),
        bai_relaxed=bai_relaxed(instance, accuracy=accuracy),
        regret=regrets[0] if regrets else None,
        regret_relaxed=regrets[1] if regrets else None,
    )


def expected_samples(bound: Bound, delta: float) -> float:
    """The proven part of T* log(1 / (2.4 delta)): samples that any delta-correct algorithm must expect to draw.

    The number holds for Gaussian rewards of the problem's scale; it is 0 for delta above 1 / 2.4.
    """
    return bound.proven * max(math.log(1 / (2.4 * delta)), 0.0)


def best_arm_only(instance: Instance, *, strict: bool = True) -> Instance:
    """The same instance with `top = 1`, since regret has no top N; if `strict`, ties raise `TiedArms`."""
    single = replace(instance, problem=instance.problem.with_(top=1))
    if strict:
        single.require_distinct()
    return single


def arm_by_arm(instance: Instance, costs: FloatArray | None, accuracy: float) -> Bound:
    """The bound whose value is the sum over one program per arm, at the instance's gaps; costs are 1 unless given."""
    problem = instance.problem
    common, own = _common(instance.variances)
    rows = np.square(instance.gaps) / (2 * common)
    programs = ArmPrograms.of(problem.squared_weights, rows, costs, own)
    return Bound.of(solve(programs, accuracy=accuracy), problem)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The paper's guarantee for W-CPE, with probability at least 1 - delta (Theorem 2; Theorem 5 for the top N).

    The paper's ceil(log2(8 / gap_min)) counts one phase too few if the logarithm is an integer (phases are 0 to
    r_max). We use floor(.) + 1, which is the same otherwise.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> parley.Guarantee.of(instance).rounds
    4
    """

    rounds: int  # at most this many
    samples: float  # at most this many: the largest n with n <= 32 T rounds beta*(n) + K M minimum_cell
    samples_explicit: float  # the paper's closed form (Appendix B), which is looser

    @classmethod
    def of(cls, instance: Instance, bound: Bound | None = None) -> Guarantee:
        """The guarantee for one instance; `bound` is the instance's T*, if known.

        Proxy gaps start at `largest_gap`, not at 1. T* is computed for Gaussian rewards with the scale that W-CPE's
        intervals use: half the range for bounded and 0/1 rewards, whatever their variance. An unknown scale and a
        covariate are refused, as W-CPE refuses them.
        """
        problem = instance.problem
        problem.refuse("the guarantee of W-CPE", frozenset(SETTINGS) - {"covariate"})
        problem.noise.require_scale("the guarantee of W-CPE")
        arms, agents = problem.shape
        if instance.gaps.max() > problem.largest_gap:
            raise InvalidInput(
                "largest_gap",
                found=f"{problem.largest_gap:g} with a gap of {instance.gaps.max():g}",
                allowed="no gap above it: the guarantee of W-CPE relies on that",
                hint=why_largest_gap(float(instance.gaps[np.isfinite(instance.gaps)].max())),
            )
        rounds = math.floor(math.log2(8 * problem.largest_gap / instance.smallest_gap)) + 1
        supposed = _as_intervals_suppose(instance)
        factor = 32 * (bound if bound and supposed is instance else bai(supposed)).value * rounds
        constant = mixture_constant(problem.delta, arms, agents)
        cells = arms * agents * problem.minimum_cell  # each count exceeds what it needs by less than a minimum cell

        def most(samples: float) -> float:
            beta = 2 * (constant + 2 * agents * math.log(4 + math.log(samples)))
            return factor * beta + cells

        # `most` is increasing and concave, so iterating it converges to its largest fixed point from either side.
        a, b = cells + 2 * constant, 4 * agents
        inner = 4 + factor**2 / math.e * (a + b * (2 + math.sqrt(math.e))) ** 2
        explicit = factor * (a + b * math.log(inner))
        samples = max(explicit, float(cells))
        while abs((closer := most(samples)) - samples) > 1e-12 * samples:
            samples = closer
        return cls(rounds=rounds, samples=closer, samples_explicit=max(explicit, closer))


def _as_intervals_suppose(instance: Instance) -> Instance:
    """The instance with Gaussian rewards of the scale that W-CPE's intervals assume.

    It is returned unchanged if it already has such rewards.
    """
    model = instance.problem.noise
    if model.divergence is None and np.all(model.bound_variances(instance.means, instance.scale) == model.variance):
        return instance
    noise = Gaussian(scale=np.sqrt(model.variance).tolist())
    return Instance(problem=instance.problem.with_(noise=noise), means=instance.means)


@lru_cache(maxsize=1024)
def mixture_constant(delta: float, arms: int, agents: int) -> float:
    """g_M(delta / (K M)) of Lemma 2: `M * C(log(K M / delta) / M)`, where C is a minimum over lambda in (1/2, 1).

    K is the number of arms, and M the number of agents. Any lambda gives a valid (larger) threshold, so a numerical
    minimum errs on the safe side.
    """
    from scipy.optimize import minimize_scalar  # imported here because it is slow to import and rarely needed

    x = math.log(arms * agents / delta) / agents

    def objective(lam: float) -> float:
        g = 2 * lam - 2 * lam * math.log(4 * lam) + math.log(zeta(2 * lam)) - 0.5 * math.log(1 - lam)
        return (g + x) / lam

    best = minimize_scalar(objective, bounds=(0.5 + 1e-9, 1 - 1e-12), method="bounded", options={"xatol": 1e-12})
    return agents * float(best.fun)
