"""Estimates of every mixed mean and of the differences between arms, with intervals that hold simultaneously.

The intervals hold for all agents, arms, differences and phases at once with probability at least 1 - delta, whatever
policy chose the draws and whenever it stopped (docs/estimates.md). Every estimate also has the usual interval, which
holds for a fixed number of draws.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc, ndtri

from parley.problem import Problem
from parley.rewards.intervals import ContrastSummary, Interval, stack_phases
from parley.system.once import once
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import BoolArray, FloatArray, IntArray

EVERY = slice(None)
PART = 10_000  # contrasts processed together, to bound memory
SUSPICIOUS = 0.01  # p-values below this count as a sign of change

WORDS = (
    "the intervals from low to high hold simultaneously for all agents, arms, differences and phases with probability "
    "at least the level; "
    "differences are taken within phases, so means may drift as long as differences do not; "
    "fixed_low to fixed_high is the usual interval for one number alone and a number of draws fixed in advance, which "
    "this study does not have"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Estimates of the means, or of their differences from the mean of a reference arm: `(..., arm, agent)` each."""

    value: FloatArray  # from all draws
    low: FloatArray  # ends of the interval that holds jointly at all phases; infinite without data
    high: FloatArray
    error: FloatArray  # the usual standard error, for fixed-time intervals
    least: float = -math.inf  # the smallest possible value, by the range of the rewards
    most: float = math.inf

    def __post_init__(self) -> None:
        # Clipping to the possible values loses no coverage: the true value is possible.
        for name in ("low", "high"):
            object.__setattr__(self, name, self.possible(getattr(self, name)))

    def possible(self, values: FloatArray) -> FloatArray:
        """Values clipped to the possible range, which privacy noise or an approximation can exceed."""
        return np.clip(values, self.least, self.most)

    def cells(self, quantile: float) -> list[list[dict[str, float | None]]]:
        """The numbers of every arm and agent, ready for JSON, with None where there are no data.

        `quantile` is the half-width of the usual interval in standard errors.
        """
        known = np.isfinite(self.error)
        spread = np.where(known, quantile * self.error, 0.0)
        numbers = {
            "estimate": np.where(known, self.possible(self.value), np.nan),
            "low": self.low,
            "high": self.high,
            "fixed_low": np.where(known, self.possible(self.value - spread), np.nan),
            "fixed_high": np.where(known, self.possible(self.value + spread), np.nan),
        }
        rows = finite(np.stack(list(numbers.values()), axis=-1))
        return [[dict(zip(numbers, cell, strict=True)) for cell in row] for row in rows]


@dataclass(frozen=True, kw_only=True)
class Change:
    """Test of whether differences change from phase to phase (Cochran's Q), for the pair whose phases agree least.

    The test is a diagnostic: it uses the usual approximations and is not part of the guarantee. `p` is adjusted for the
    number of pairs (Holm).
    """

    p: float
    agent: str
    arm: str
    other: str

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"words": self.words}

    @property
    def words(self) -> str:
        """The result of the test as a sentence, with its caveats."""
        values = {"arm": self.arm, "other": self.other, "agent": self.agent, "p": self.p}
        if self.p > SUSPICIOUS:
            return Translatable(
                "No sign that differences change between phases: the smallest p-value, that of {arm} and {other} for "
                "{agent}, is {p:.2g} (Cochran's Q, not part of the guarantee).",
                **values,
            )
        return Translatable(
            "The difference between {arm} and {other} for {agent} seems to change from phase to phase, p = {p:.2g} "
            "(Cochran's Q, not part of the guarantee). The interval of the difference assumes that it does not "
            "change.",
            **values,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Estimates of all means and, computed on demand, of their differences from the leader and from the control."""

    problem: Problem
    agents: tuple[str, ...]  # the agents whose mixed means are estimated
    leader: IntArray  # (..., agent): the arm with which the others are compared
    mean: Estimate
    every: ContrastSummary  # (phase, ..., arm, agent): summary of each phase's means
    scatter: FloatArray  # (phase, ..., arm, agent): variances of the phases' mixed means, from all draws
    rounding: FloatArray  # (..., arm, agent): upper bound on the rounding error of a phase's sums

    @once
    def lead(self) -> Estimate:
        """Differences of all arms from the leader."""
        return self._against(self.leader)

    @once
    def control(self) -> Estimate | None:
        """Differences of all arms from the control arm; None if the problem has no control."""
        named = self.problem.control
        return None if named is None else self._against(np.full_like(self.leader, self.problem.arms.index(named)))

    def _against(self, reference: IntArray) -> Estimate:
        place = reference[..., None, :]
        itself = np.arange(self.problem.arm_count)[:, None] == place

        def both(values: FloatArray) -> FloatArray:
            whole = np.broadcast_to(place, (*values.shape[:-2], *place.shape[-2:]))
            return values + np.take_along_axis(values, whole, axis=-2)

        # Contrasts are taken within phases, since means may drift together from phase to phase. The intervals of two
        # means say nothing about their difference.
        pairs = self.every.against(reference)
        ends = _in_parts(self.problem.noise.difference_interval, pairs, joint_line(self.problem))
        # Ends that have crossed prove that the difference changed between phases; the interval then spans both ends.
        low, high = _widened((np.minimum(*ends), np.maximum(*ends)), both(self.rounding))
        weights, first, information, value = pairs.pooled(pairs.observed & (pairs.variance > 0))
        squares = (np.square(weights) * np.where(weights > 0, both(self.scatter), 0.0)).sum(axis=0)
        return Estimate(
            value=np.where(itself, 0.0, value),
            low=np.where(itself, 0.0, low),
            high=np.where(itself, 0.0, high),
            error=np.where(itself, 0.0, np.where(first > 0, np.sqrt(squares) / information, np.inf)),
            least=-self.mean.most + self.mean.least,
            most=self.mean.most - self.mean.least,
        )

    @once
    def change(self) -> Change | None:
        """Test whether differences change from phase to phase in one study; None if no pair of arms has two phases."""
        if not self.agents:
            return None
        problem, found = self.problem, []
        tests = problem.question_count * problem.arm_count * (problem.arm_count - 1) // 2
        for k in range(1, problem.arm_count):
            pairs = self.every.against(np.full(len(self.agents), k))
            known, contrast = pairs.observed[:, :k], pairs.contrast[:, :k]
            weights = np.where(known, 1 / (self.scatter[:, :k] + self.scatter[:, k, None]), 0.0)
            middle = (weights * contrast).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
            q, phases = (weights * np.square(contrast - middle)).sum(axis=0), known.sum(axis=0)
            p = np.where(phases > 1, chdtrc(np.maximum(phases - 1, 1), q), np.inf)
            arm, agent = np.unravel_index(np.argmin(p), p.shape)
            found.append((float(p[arm, agent]), self.agents[agent], problem.arms[arm], problem.arms[k]))
        p_value, agent_name, arm_name, other = min(found, default=(math.inf, "", "", ""))
        if not math.isfinite(p_value):
            return None
        return Change(p=min(1.0, tests * p_value), agent=agent_name, arm=arm_name, other=other)

    def document(self, claimed: float | None = None) -> dict[str, Any]:
        """All estimates per agent and arm, ready for JSON.

        `claimed` is the delta to state, by default the problem's. After a change of arms or weights, the problem has
        only a share of the study's delta.
        """
        problem, delta = self.problem, self.problem.delta if claimed is None else claimed
        quantile = fixed_quantile(delta)
        kinds = {"mean": self.mean, "to_leader": self.lead} | ({"to_control": self.control} if self.control else {})
        cells = {name: kind.cells(quantile) for name, kind in kinds.items()}
        return {
            "level": 1 - delta,
            "words": WORDS,
            "change": None if self.change is None else self.change.document(),
            "agents": [
                {
                    "agent": agent,
                    "leader": problem.arms[int(self.leader[m])],
                    "arms": [
                        {"arm": arm} | {name: found[k][m] for name, found in cells.items()}
                        for k, arm in enumerate(problem.arms)
                    ],
                }
                for m, agent in enumerate(self.agents)
            ],
        }


def finite(values: FloatArray) -> list[Any]:
    """An array as nested lists, with None for NaN and infinity, which JSON cannot represent.

    >>> finite(np.array([[0.5, np.inf]]))
    [[0.5, None]]
    """
    shown = values.astype(object)
    shown[~np.isfinite(values)] = None
    return list(shown.tolist())


def fixed_quantile(delta: float) -> float:
    """Half-width of the usual interval at level 1 - delta, in standard errors."""
    return float(-ndtri(delta / 2))


def joint_count(problem: Problem) -> int:
    """The number of intervals that share delta: all means and all pairs of arms, for every distinct question."""
    return problem.question_count * (problem.arm_count * (problem.arm_count + 1) // 2)


def joint_line(problem: Problem) -> float:
    """The threshold of a single interval: log(1 / share), where share is its part of delta."""
    return math.log(joint_count(problem)) - math.log(problem.delta)


def leading(problem: Problem, totals: Totals, among: BoolArray | None = None) -> IntArray:
    """`(..., agent)`: index of the arm with the best estimate, among the arms in `among` if given; 0 without data."""
    known = problem.drawn(totals.counts) if among is None else problem.drawn(totals.counts) & among
    return np.asarray(np.argmax(np.where(known, problem.mixed(totals.means), -np.inf), axis=-2))


def estimates(
    problem: Problem, phases: Sequence[Totals], leader: IntArray | None = None, some: slice = EVERY
) -> Estimates:
    """Estimates from the totals of every phase's own draws, `(..., arm, agent)` each.

    Unless given, the leader is the arm with the best estimate. `some` selects the agents to estimate for; it does not
    change their intervals.

    >>> problem = Problem(arms=2, weights=[[1.0]])
    >>> phase = Totals(counts=np.array([[50], [50]]), sums=np.array([[40.0], [10.0]]))
    >>> found = estimates(problem, [phase, phase])
    >>> found.lead.low.round(2).tolist(), found.lead.high.round(2).tolist()
    ([[0.0], [-1.0]], [[0.0], [-0.2]])
    """
    phases = [part for phase in phases for part in phase.strata]  # contrasts stay within strata
    past, seen = Totals.zero(phases[0].counts.shape), []
    for fresh in phases:
        seen.append(problem.noise.summary(past, fresh, problem.weights))
        past = past + fresh
    every, line = stack_phases(seen).of(some), joint_line(problem)
    value, cells = problem.mixed(past.means)[..., some], problem.noise.cell_variances(past)
    releases = np.sum([fresh.counts > 0 for fresh in phases], axis=0)
    errors = problem.mixed_variances(past.counts, cells, releases)
    variance = np.where(problem.drawn(past.counts), errors, np.inf)[..., some]
    leader = (leading(problem, past) if leader is None else leader)[..., some]
    # Intervals of means are widened by the largest rounding error of any phase's sums.
    lost = [problem.noise.mixed_rounding(fresh, problem.weights) for fresh in phases]
    rounding = np.max([np.zeros(value.shape), *(each[..., some] for each in lost if each is not None)], axis=0)
    low, high = _widened(_in_parts(problem.noise.interval, every, line), rounding)
    least, most = problem.noise.ends
    return Estimates(
        problem=problem,
        agents=problem.agents[some],
        leader=leader,
        mean=Estimate(value=value, low=low, high=high, error=np.sqrt(variance), least=least, most=most),
        every=every,
        scatter=np.stack([problem.mixed_variances(fresh.counts, cells)[..., some] for fresh in phases]),
        rounding=rounding,
    )


def _in_parts(
    interval: Callable[[ContrastSummary, float], Interval], summary: ContrastSummary, line: float
) -> Interval:
    """Compute intervals for a few agents at a time.

    Computing them all at once would take 100 MB in a large study, and every interval would iterate as often as the
    slowest one.
    """
    *others, agents = summary.contrast.shape
    width = max(1, PART // math.prod(others))
    parts = [interval(summary.of(slice(start, start + width)), line) for start in range(0, max(1, agents), width)]
    low, high = zip(*parts, strict=True)
    return np.concatenate(low, axis=-1), np.concatenate(high, axis=-1)


def _widened(ends: Interval, by: FloatArray) -> Interval:
    return ends[0] - by, ends[1] + by
