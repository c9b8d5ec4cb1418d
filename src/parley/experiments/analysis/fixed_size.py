"""The analysis of a finished table: every agent's mixed means and differences, with simultaneous intervals.

Estimates are as in a live study with one phase (`parley.estimates`). Intervals are Student's with Bonferroni's
correction: every mean and every pair of arms of every distinct question has an equal share of delta. So all statements
are right together with probability 1 - delta, whichever of them a reader selects, even those about the best arm.
Standard errors are Welch's: each arm of each agent has its own scale. If a mean is skewed, an end of its interval is
moved outwards, never inwards (Hall 1992, *On the removal of skewness by transformation*, J. R. Statist. Soc. B 54,
221-228). Rates of 0/1 outcomes have the intervals of Price and Bonett (2004, *An improved confidence interval for a
linear function of binomial proportions*, Comput. Stat. Data Anal. 45, 449-456), which do not collapse if an arm has no
success.

A covariate's slope is pooled within the arms of each agent, as in an analysis of covariance; the error of the slope is
part of every standard error. docs/analysis.md has the formulas and the measured coverage of these intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from parley.errors import InvalidInput
from parley.estimates import Estimate, fixed_quantile, joint_count, leading
from parley.problem import Problem
from parley.rewards import Binary, RewardModel, UnknownScale
from parley.system.once import once
from parley.text.formatting import plural
from parley.totals import Totals
from parley.validation.checks import FloatArray, IntArray
from parley.validation.tables import COVARIATE, Draws

METHOD = "Bonferroni t"
Both = Callable[..., FloatArray]
Ends = tuple[FloatArray, FloatArray, FloatArray]  # low, high, and the usual standard error
LEAST_SKEWNESS = 1e-6  # below it, the cube root would lose its precision
CONSTANT = 1e-12  # scatter smaller than this share of the sum of squares is rounding error


@dataclass(frozen=True, kw_only=True, eq=False)
class Adjustment:
    """The slope of outcome on covariate at each agent, pooled within the agent's arms; `(agent,)` unless stated."""

    name: str  # of the covariate
    slope: FloatArray
    error: FloatArray  # standard error of the slope
    center: FloatArray  # the covariate's mean, for which means are estimated
    correlation: FloatArray  # of outcome and covariate within arms
    offset: FloatArray  # (arm, agent): mean of the covariate minus the center


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Statistics of the outcomes of every arm at every agent; arrays are `(arm, agent)`."""

    counts: IntArray
    variances: FloatArray  # of a single outcome, unbiased
    thirds: FloatArray  # third central moments

    @classmethod
    def of(cls, draws: Draws, shape: tuple[int, int]) -> Cells:
        """Summarize a table with a column of arms; `shape` is (number of arms, number of agents)."""
        cell, size = _cell(draws), shape[0] * shape[1]
        counts = np.bincount(cell, minlength=size)
        means = np.bincount(cell, draws.outcome, size) / np.maximum(counts, 1)
        around = draws.outcome - means[cell]
        squares, cubes = (np.bincount(cell, np.power(around, power), size) for power in (2, 3))
        return cls(
            counts=counts.reshape(shape),
            variances=(squares / np.maximum(counts - 1, 1)).reshape(shape),
            thirds=(cubes / np.maximum(counts, 1)).reshape(shape),
        )


def _cell(draws: Draws) -> IntArray:
    assert draws.arm is not None
    return np.asarray(draws.arm * len(draws.agents) + draws.agent)


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict:
    """The conclusion about one agent's best arms.

    The verdicts of all agents are right together with probability 1 - delta.
    """

    agent: str
    chosen: tuple[str, ...]  # the arms with the best estimates, as many as the study asks for
    proven: bool  # whether it is proven that every chosen arm is better than all other arms
    contenders: tuple[str, ...]  # other arms that may be better than a chosen arm
    behind: float  # no other arm is better than a chosen arm by more than this
    tolerance: float

    @property
    def good_enough(self) -> bool:
        """Whether every chosen arm is proven to be within the tolerance of all others; False without a tolerance."""
        return self.tolerance > 0 and self.behind <= self.tolerance

    def words(self, arm: str, arms: str, shown: str) -> str:
        """The verdict as a sentence; `shown` is `behind` as text."""
        named = ", ".join(self.chosen)
        best = f"the best {arm}" if len(self.chosen) == 1 else f"the best {len(self.chosen)} {arms}"
        if self.proven:
            return f"{named} is proven to be {best}." if len(self.chosen) == 1 else f"{named} are proven to be {best}."
        verb = "has" if len(self.chosen) == 1 else "have"
        first = (
            f"{named} {verb} the best estimate, but {' or '.join(self.contenders)} may be better, by {shown} at most."
        )
        return first + (" That is within the tolerance." if self.good_enough else "")


@dataclass(frozen=True, kw_only=True, eq=False)
class Analysis:
    """The analysis of a table under stated weights; its estimates are as in a live study with one phase."""

    problem: Problem
    draws: Draws  # the rows of the table, adjusted if there is a covariate
    totals: Totals
    cells: Cells
    adjustment: Adjustment | None

    @property
    def comparisons(self) -> int:
        """The number of intervals that share delta."""
        return joint_count(self.problem)

    @property
    def _level(self) -> float:
        """The error probability of one end of one interval."""
        return self.problem.delta / (2 * self.comparisons)

    @property
    def rates(self) -> bool:
        """Whether outcomes are 0 or 1, so that means are rates."""
        return self.problem.noise.means_are_rates

    @once
    def leader(self) -> IntArray:
        """`(agent,)`: the arm with the best estimate."""
        return leading(self.problem, self.totals)

    @once
    def mean(self) -> Estimate:
        """Estimates of the mixed means."""
        return self._contrasts(None)

    @once
    def lead(self) -> Estimate:
        """Estimates of the differences to the arm with the best estimate."""
        return self.differences(self.leader)

    @once
    def control(self) -> Estimate | None:
        """Estimates of the differences to the control; None without a control."""
        named = self.problem.control
        if named is None:
            return None
        return self.differences(np.full_like(self.leader, self.problem.arms.index(named)))

    def differences(self, reference: IntArray) -> Estimate:
        """Estimates of the differences to one arm of each agent, `reference (agent,)`."""
        return self._contrasts(reference)

    def _contrasts(self, reference: IntArray | None) -> Estimate:
        """Estimates of mixed means, or of their differences to the `reference`."""

        def both(values: FloatArray, sign: float = 1.0) -> FloatArray:
            """`(arm, agent)`: the value of every arm, plus `sign` times the value of its reference if there is one."""
            return values if reference is None else values + sign * np.take_along_axis(values, reference[None], axis=0)

        value = both(self.problem.mixed(self.totals.means), -1.0)
        low, high, error = (self._of_shares if self.rates else self._of_numbers)(value, both, reference)
        itself = False if reference is None else np.arange(self.problem.arm_count)[:, None] == reference
        least, most = self.problem.noise.ends
        ends = (least, most) if reference is None else (least - most, most - least)
        return Estimate(
            value=value,
            low=np.where(itself, 0.0, np.minimum(low, value)),
            high=np.where(itself, 0.0, np.maximum(high, value)),
            error=np.where(itself, 0.0, error),
            least=ends[0],
            most=ends[1],
        )

    def _of_numbers(self, value: FloatArray, both: Both, reference: IntArray | None) -> Ends:
        """Intervals by Welch's t at Bonferroni's level, with ends moved outwards if the contrast is skewed."""
        counts, squared = self.cells.counts, self.problem.squared_weights
        each = self.cells.variances / counts
        variance = both(each @ squared) + self._slope_variance(reference)
        share = both(np.square(each) / (counts - 1) @ np.square(squared))
        degrees = np.square(variance) / np.maximum(share, np.finfo(np.float64).tiny)
        third = both((self.cells.thirds / np.square(counts)) @ np.power(self.problem.weights, 3), -1.0)
        error = np.sqrt(variance)
        skewness = np.divide(third, error**3, out=np.zeros(error.shape), where=error > 0)
        reach: FloatArray = np.asarray(-stdtrit(np.maximum(degrees, 1.0), self._level), dtype=np.float64)
        low = value - error * np.maximum(reach, unskewed(reach, skewness))
        high = value + error * np.maximum(reach, -unskewed(-reach, skewness))
        return low, high, error

    def _slope_variance(self, reference: IntArray | None) -> FloatArray | float:
        """The variance that errors of the slopes add if the covariate's means differ between arms."""
        if self.adjustment is None:
            return 0.0
        offset = self.adjustment.offset  # (arm, agent n)
        apart = offset[:, :, None]
        if reference is not None:
            apart = apart - offset[reference].T[None]
        weighed = np.square(self.problem.weights * self.adjustment.error[:, None])
        return np.asarray((np.square(apart) * weighed[None]).sum(axis=1))

    def _of_shares(self, value: FloatArray, both: Both, reference: IntArray | None) -> Ends:  # noqa: ARG002
        """Price and Bonett's intervals for rates.

        These intervals add z^2 prior draws, half of them successes. The cells of a contrast share these draws
        equally; z is the normal quantile of the interval's level.
        """
        weights, counts, hits = self.problem.weights, self.totals.counts, self.totals.sums
        z = fixed_quantile(2 * self._level)
        borrowed = z**2 / ((weights > 0).sum(axis=0) * (1 if reference is None else 2))  # (agent,)
        number = counts[:, :, None] + borrowed
        rates = (hits[:, :, None] + borrowed / 2) / number  # (arm, agent n, agent m): of n in a contrast of m
        centre = both((rates * weights).sum(axis=1), -1.0)
        spread = z * np.sqrt(both((rates * (1 - rates) / number * self.problem.squared_weights).sum(axis=1)))
        means = self.totals.means
        usual = both(means * (1 - means) / counts @ self.problem.squared_weights)
        return centre - spread, centre + spread, np.sqrt(usual)

    @once
    def verdicts(self) -> list[Verdict]:
        """The verdicts about every agent's best arms."""
        problem = self.problem
        order = np.argsort(-self.mean.value, axis=0, kind="stable")
        inside = np.zeros(problem.shape, dtype=np.bool_)
        np.put_along_axis(inside, order[: problem.top], values=True, axis=0)
        high = np.full(problem.shape, -np.inf)
        for place in range(problem.top):
            high = np.maximum(high, self.differences(order[place]).high)
        return [
            Verdict(
                agent=agent,
                chosen=tuple(problem.arms[k] for k in order[: problem.top, m]),
                proven=bool((high[~inside[:, m], m] < 0).all()),
                contenders=tuple(problem.arms[k] for k in order[problem.top :, m] if high[k, m] >= 0),
                behind=float(np.maximum(high[~inside[:, m], m].max(), 0.0)),
                tolerance=problem.tolerance,
            )
            for m, agent in enumerate(problem.agents)
        ]

    def document(self) -> dict[str, Any]:
        """All results, ready for JSON; the entries of arms have the form of a live study's estimates."""
        problem, quantile = self.problem, fixed_quantile(self.problem.delta)
        kinds = {"mean": self.mean, "to_leader": self.lead} | ({"to_control": self.control} if self.control else {})
        cells = {name: kind.cells(quantile) for name, kind in kinds.items()}
        adjustment = self.adjustment
        return {
            "level": 1 - problem.delta,
            "method": METHOD,
            "comparisons": self.comparisons,
            "adjusted_for": None if adjustment is None else adjustment.name,
            "sites": [
                {
                    "agent": agent,
                    "rows": self.totals.counts[:, m].tolist(),
                    "means": self.totals.means[:, m].tolist(),
                    "deviations": np.sqrt(self.cells.variances[:, m]).tolist(),
                }
                | ({} if adjustment is None else _slope_document(adjustment, m))
                for m, agent in enumerate(problem.agents)
            ],
            "agents": [
                {
                    "agent": agent,
                    "leader": problem.arms[int(self.leader[m])],
                    "chosen": list(verdict.chosen),
                    "proven": verdict.proven,
                    "contenders": list(verdict.contenders),
                    "behind_at_most": verdict.behind,
                    "good_enough": verdict.good_enough,
                    "arms": [
                        {"arm": arm} | {name: found[k][m] for name, found in cells.items()}
                        for k, arm in enumerate(problem.arms)
                    ],
                }
                for m, (agent, verdict) in enumerate(zip(problem.agents, self.verdicts, strict=True))
            ],
        }


def _slope_document(found: Adjustment, agent: int) -> dict[str, float]:
    names = ("slope", "error", "center", "correlation")
    return {name: float(getattr(found, name)[agent]) for name in names}


def unskewed(reach: FloatArray, skewness: FloatArray) -> FloatArray:
    """The t statistic of a skewed mean whose normal score is `reach`, by Hall's monotone cubic transformation.

    >>> unskewed(np.array([3.0, -3.0, 3.0]), np.array([0.3, 0.3, 0.0])).round(2).tolist()
    [2.35, -5.6, 3.0]
    """
    small = np.abs(skewness) < LEAST_SKEWNESS
    g = np.where(small, 1.0, skewness)
    return np.where(small, reach, 3 / g * (np.cbrt(1 + g * (reach - g / 6)) - 1))


def adjusted(draws: Draws, shape: tuple[int, int]) -> tuple[Draws, Adjustment]:
    """Adjust outcomes to each agent's mean covariate by a slope pooled within arms; return the rows and the slopes."""
    assert draws.covariate is not None
    cell, size, agents = _cell(draws), shape[0] * shape[1], shape[1]
    counts = np.maximum(np.bincount(cell, minlength=size), 1)
    x, y = (values - (np.bincount(cell, values, size) / counts)[cell] for values in (draws.covariate, draws.outcome))
    xx, xy, yy = (np.bincount(draws.agent, product, agents) for product in (x * x, x * y, y * y))
    large = np.bincount(draws.agent, np.square(draws.covariate), agents)
    if (constant := xx <= CONSTANT * large).any():
        where = draws.agents[int(np.argmax(constant))]
        name = draws.columns[COVARIATE]
        found = f"{name} is constant within the arms of {where}"
        raise InvalidInput(f"{draws.source}, column {name}", found=found, allowed="a covariate that varies")
    slope = xy / xx
    center = np.bincount(draws.agent, draws.covariate, agents) / np.bincount(draws.agent, minlength=agents)
    residual = y - slope[draws.agent] * x
    degrees = np.maximum(np.bincount(draws.agent, minlength=agents) - shape[0] - 1, 1)
    # Arms have different scales, so the error of the slope is White's, which allows for that.
    error = np.sqrt(np.bincount(draws.agent, np.square(residual * x), agents)) / xx
    # The usual correction for small samples (HC1).
    error *= np.sqrt((degrees + shape[0] + 1) / degrees)
    means = (np.bincount(cell, draws.covariate, size) / counts).reshape(shape)
    made = Adjustment(
        name=str(draws.columns[COVARIATE]),
        slope=slope,
        error=error,
        center=center,
        correlation=xy / np.sqrt(xx * np.where(yy > 0, yy, 1.0)),
        offset=means - center,
    )
    moved = draws.outcome - slope[draws.agent] * (draws.covariate - center[draws.agent])
    return replace(draws, outcome=moved), made


def usual_model(outcome: FloatArray) -> RewardModel:
    """The default reward model for outcomes: binary if all are 0 or 1, else Gaussian of unknown scale."""
    if np.isin(outcome, (0.0, 1.0)).all():
        return Binary()
    spread = float(outcome.std())
    return UnknownScale(guess=spread if spread > 0 else 1.0)


def analysed(problem: Problem, draws: Draws) -> Analysis:
    """Analyse a table with the problem's arms and agents; outcomes are adjusted if the table has a covariate."""
    if draws.arm is None:
        raise InvalidInput(draws.source, found="no column of arms", allowed="the arm of every row")
    counts = np.bincount(_cell(draws), minlength=problem.arm_count * problem.agent_count).reshape(problem.shape)
    _require_rows(problem, counts, draws.source)
    adjustment = None
    if draws.covariate is not None:
        draws, adjustment = adjusted(draws, problem.shape)
        problem = problem.with_(noise=usual_model(draws.outcome))  # adjusted outcomes are no longer 0 or 1
    totals = _totals(draws, problem.shape)
    cells = Cells.of(draws, problem.shape)
    if not problem.noise.means_are_rates:
        cells = _with_scatter(problem, cells, draws)
    if adjustment is not None:
        # The estimated slope costs every agent one degree of freedom.
        number = counts.sum(axis=0) - problem.arm_count
        cells = replace(cells, variances=cells.variances * (number / np.maximum(number - 1, 1)))
    return Analysis(
        problem=problem,
        draws=draws,
        totals=totals,
        cells=cells,
        adjustment=adjustment,
    )


def _with_scatter(problem: Problem, cells: Cells, draws: Draws) -> Cells:
    """Give arms whose rows are all equal a variance: the largest variance of the agent's other arms.

    Equal rows say nothing about the scatter. Raise if no arm of an agent with weight has any scatter.
    """
    size = np.bincount(_cell(draws), np.square(draws.outcome), cells.counts.size).reshape(problem.shape)
    equal = cells.variances * np.maximum(cells.counts - 1, 1) <= CONSTANT * size
    widest = np.where(equal, 0.0, cells.variances).max(axis=0)
    silent = (widest <= 0) & np.asarray(problem.weights.any(axis=1))
    if silent.any():
        found = f"no two different outcomes in any arm of {problem.agents[int(np.argmax(silent))]}"
        raise InvalidInput(draws.source, found=found, allowed="outcomes that vary")
    return replace(cells, variances=np.where(equal, widest, cells.variances))


def _totals(draws: Draws, shape: tuple[int, int]) -> Totals:
    """`(arm, agent)`: totals, added up as sites add them, so that estimates equal a live study's to the last bit."""
    cell = _cell(draws)
    order = np.argsort(cell, kind="stable")
    ends = np.cumsum(np.bincount(cell, minlength=shape[0] * shape[1]))
    parts: Sequence[FloatArray] = np.split(draws.outcome[order], ends[:-1])
    made = Totals.of([part.tolist() for part in parts])
    squares = made.require_squares().reshape(shape)
    return Totals(counts=made.counts.reshape(shape), sums=made.sums.reshape(shape), squares=squares)


def _require_rows(problem: Problem, counts: IntArray, source: str) -> None:
    """Raise if an arm has fewer than two rows at an agent with weight."""
    weighed = np.asarray(problem.weights.any(axis=1))
    few = (counts < 2) & weighed
    if few.any():
        arm, agent = np.argwhere(few)[0]
        found = f"{plural(int(counts[arm, agent]), 'row')} of {problem.arms[arm]} at {problem.agents[agent]}"
        raise InvalidInput(source, found=found, allowed="at least 2 rows of every arm at every site")
