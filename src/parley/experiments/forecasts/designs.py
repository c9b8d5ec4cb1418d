"""Textbook designs for comparison: a fixed size, and group-sequential looks by O'Brien and Fleming.

Both draw every cell equally often, up to a size fixed in advance. Every agent names the arms with its N best estimates
if each of them beats every other arm by a critical value times the standard error, less the tolerance. The agent names
them at the end, or at the first of a few looks (at equal shares of the draws) that allows it. An agent names a bad arm
only if that arm beats one of the agent's true best arms by as much. Each such pair, for each question, is a one-sided
test at the level delta over the number of tests (Bonferroni), so the error probability is at most delta; scales are
taken to be known. A study stops at the look at which the last agent names its answer. The size is computed for a gap
that is unknown before a real study, which favours these designs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from parley.experiments.forecasts.scenarios import standard_error
from parley.problem import BoolArray, FloatArray, Instance, IntArray

MOST = 2**40  # largest number of draws of a cell
CELLS = 4_000_000  # arms x agents x runs x looks that fit in memory
RUNS = 2000  # simulated runs of a design
LOOKS = 5  # looks of a group-sequential design; most real designs have no more
NODES, SHARES = np.polynomial.legendre.leggauss(96)  # quadrature of `crossing_probabilities`
WIDEST = 9.0  # the quadrature extends this many standard deviations downwards


def crossing_probabilities(line: float, looks: int, drift: float = 0.0) -> FloatArray:
    """`(look,)`: the probability that a sum of N(drift, 1) steps exceeds `line` for the first time at a look.

    It is computed by recursive integration over the density of the sum while it has not crossed the line (Armitage,
    McPherson and Rowe 1969).

    >>> crossing_probabilities(1.959964, 1).round(6).tolist()
    [0.025]
    """
    low = min(0.0, drift * looks) - WIDEST * math.sqrt(looks)
    places, weights = low + (line - low) * (NODES + 1) / 2, SHARES * (line - low) / 2
    step, beyond = _normal(places[:, None] - places - drift), ndtr(places + drift - line)
    density, found = _normal(places - drift), [float(ndtr(drift - line))]
    for _ in range(looks - 1):
        found.append(float((weights * density * beyond).sum()))
        density = step @ (weights * density)
    return np.array(found)


def _normal(values: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-np.square(values) / 2) / math.sqrt(2 * math.pi))


@cache
def obrien_fleming(looks: int, level: float) -> FloatArray:
    """`(look,)`: O'Brien and Fleming's critical values of a one-sided test with looks at equal shares of information.

    The line for the sums is the same at all looks, so a critical value is inversely proportional to the root of the
    information.

    >>> obrien_fleming(2, 0.025).round(3).tolist(), obrien_fleming(1, 0.025).round(3).tolist()
    ([2.797, 1.977], [1.96])
    """
    single = math.sqrt(looks) * float(-ndtri(level))
    # Looks share the level, so the line is above the line of a single test and below Bonferroni's line for all looks.
    highest = math.sqrt(looks) * float(-ndtri(level / looks)) + 1e-6
    line = brentq(lambda at: math.log(crossing_probabilities(at, looks).sum() / level), single - 1e-6, highest)
    return np.asarray(line / np.sqrt(np.arange(1, looks + 1)))


@dataclass(frozen=True, kw_only=True)
class DesignSize:
    """The results of a design at one size: its samples, looks, power and errors, by simulation."""

    per_cell: int  # largest number of draws of every arm by every agent
    samples: int  # largest number of samples
    mean: float  # mean number of samples; smaller than `samples` for designs with several looks
    mean_error: float  # the Monte Carlo error of the mean
    rounds: float  # mean number of looks
    power: float  # how often every agent names a good answer or, with a control, proves that some arm beats it
    power_error: float  # the Monte Carlo error of the power
    wrong: float  # how often some agent names a bad arm


NOTHING = DesignSize(per_cell=0, samples=0, mean=0.0, mean_error=0.0, rounds=0.0, power=0.0, power_error=0.0, wrong=0.0)


def smallest_size(at: Callable[[int], DesignSize], power: float) -> DesignSize | None:
    """The smallest size of a design with the wanted power; None if no size has it."""
    low, high = 1, 2
    while at(high).power < power:
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > max(1, low // 500):
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle).power >= power else (middle, high)
    return at(high)


@dataclass(frozen=True, kw_only=True, eq=False)
class TextbookDesign:
    """A design under one or more truths, to be simulated at any size; `looks` is 1 for a fixed size.

    >>> from parley.problem import Problem
    >>> truth = Instance(problem=Problem(arms=2, weights=[[1.0]], delta=0.05), means=[[0.5], [0.0]])
    >>> design = TextbookDesign.of([truth], seed=0)
    >>> found = design.smallest(0.9)
    >>> 60 < found.per_cell < 80, found.samples == 2 * found.per_cell == found.mean  # by the formula 68.5
    (True, True)
    >>> design.within(found.samples + 1) == found, design.within(1).power
    (True, 0.0)
    >>> sequential = TextbookDesign.of([truth], seed=0, looks=5).smallest(0.9)
    >>> sequential.samples > 0.98 * found.samples, sequential.mean < 0.85 * found.samples
    (True, True)
    """

    trials: list[_Trial]
    cells: int  # arms x sites

    @classmethod
    def of(
        cls,
        instances: Sequence[Instance],
        *,
        seed: int,
        looks: int = 1,
        runs: int = RUNS,
        control: int | None = None,
    ) -> TextbookDesign:
        """A design under one truth, or averaged over several.

        With a control, agents only have to prove that some arm beats it.
        """
        each = min(runs, CELLS // (instances[0].means.size * looks)) // len(instances)
        trials = [_Trial.of(instance, seed + place, each, looks, control) for place, instance in enumerate(instances)]
        return cls(trials=trials, cells=instances[0].problem.cell_count)

    def at(self, per_cell: int) -> DesignSize:
        """Simulate the design with at most `per_cell` draws of every cell."""
        runs = zip(*(trial.run(per_cell) for trial in self.trials), strict=True)
        good, bad, shares = (np.concatenate(parts) for parts in runs)
        samples = per_cell * self.cells
        return DesignSize(
            per_cell=per_cell,
            samples=samples,
            mean=float(shares.mean()) * samples,
            mean_error=standard_error(shares, len(self.trials)) * samples,
            rounds=float(shares.mean()) * len(self.trials[0].quantiles),
            power=float(good.mean()),
            power_error=standard_error(good, len(self.trials)),
            wrong=float(bad.mean()),
        )

    def within(self, budget: int) -> DesignSize:
        """Simulate the largest size within a budget of samples.

        If the budget does not allow a draw of every cell, no agent names an arm.
        """
        if budget < self.cells:
            return NOTHING
        return self.at(budget // self.cells)

    def smallest(self, power: float) -> DesignSize | None:
        """The smallest size with the wanted power; None if no size has it."""
        return smallest_size(self.at, power)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """Many runs of a design under one truth, with the same errors for every size.

    With the same errors, more draws never look worse by chance.
    """

    instance: Instance
    errors: FloatArray  # (look, run, arm, agent): errors of mixed sums up to a look, for one draw per cell and look
    variances: FloatArray  # (arm, agent): variances of mixed means, for one draw per cell
    noise: FloatArray | None  # (look, run, arm, agent): noise of private reports up to a look, one per look and cell
    noise_variances: FloatArray  # (agent,): variances of the noise of one report
    quantiles: FloatArray  # (look,): critical values
    control: int | None  # the arm to beat; None if agents name their best arms

    @classmethod
    def of(cls, instance: Instance, seed: int, runs: int, looks: int, control: int | None = None) -> _Trial:
        problem, cells = instance.problem, np.broadcast_to(instance.cell_variances, instance.means.shape)
        rng, private = np.random.default_rng(seed), problem.noise_variance
        drawn = rng.standard_normal((looks, max(runs, 100), *cells.shape)) * np.sqrt(cells)
        noise = rng.standard_normal(drawn.shape) * math.sqrt(private) if private else None
        pairs = problem.top * (problem.arm_count - problem.top) if control is None else problem.arm_count - 1
        tests = problem.question_count * pairs
        return cls(
            instance=instance,
            errors=problem.mixed(drawn.cumsum(axis=0)),
            variances=cells @ problem.squared_weights,
            noise=None if noise is None else problem.mixed(noise.cumsum(axis=0)),
            noise_variances=private * problem.squared_weights.sum(axis=0),
            quantiles=obrien_fleming(looks, problem.delta / tests),
            control=control,
        )

    def run(self, draws: int) -> tuple[BoolArray, BoolArray, FloatArray]:
        """Whether all agents name a good answer, whether some agent names a bad answer, and the share of draws spent.

        Each is `(run,)`.
        """
        looks, (runs, *_, agents) = len(self.quantiles), self.errors.shape[1:]
        open_, good, spent = np.ones((runs, agents), dtype=np.bool_), np.ones(runs, dtype=np.bool_), np.ones(runs)
        required = np.ones(agents, dtype=np.bool_) if self.control is None else ~self.instance.best[self.control]
        for look in range(looks):
            if self.control is None:
                leaders, named = self.answers(draws, look)
                best = np.broadcast_to(self.instance.good, self.errors.shape[1:])
                right = np.take_along_axis(best, leaders, axis=-2).all(axis=-2)
            else:
                named, right = self.beaten(self.control, draws, look), np.broadcast_to(required, open_.shape)
            # An agent keeps its first answer.
            good &= (right | ~(named & open_)).all(axis=-1)
            spent = np.where((open_ & required).any(axis=-1), (look + 1) / looks, spent)
            open_ &= ~named
        return good & ~(open_ & required).any(axis=-1) & required.any(), ~good, spent

    def beaten(self, control: int, draws: int, look: int = 0) -> BoolArray:
        """`(run, agent)`: whether some arm is proven better than the control at a look, counted from 0."""
        found, spread = self.estimates(draws, look)
        width = self.quantiles[look] * np.sqrt(spread + spread[control])
        return np.asarray((found - found[:, control, None] >= width).any(axis=-2))

    def estimates(self, draws: int, look: int) -> tuple[FloatArray, FloatArray]:
        """The estimated mixed means at a look, `(run, arm, agent)`, and their variances, `(arm, agent)`."""
        each, past = draws / len(self.quantiles), look + 1
        found = self.instance.mixed_means + self.errors[look] / (past * math.sqrt(each))
        if self.noise is not None:
            found = found + self.noise[look] / (past * each)
        return found, (self.variances + self.noise_variances / each) / (past * each)

    def answers(self, draws: int, look: int = 0) -> tuple[IntArray, BoolArray]:
        """The arms with the best estimates at a look, `(run, N, agent)`, and whether an agent names them then.

        The latter is `(run, agent)`.
        """
        problem, (found, variances) = self.instance.problem, self.estimates(draws, look)
        order = np.argsort(-found, axis=-2, kind="stable")
        leaders, others = order[:, : problem.top], order[:, problem.top :]
        named = np.ones((len(found), problem.agent_count), dtype=np.bool_)
        spread = np.broadcast_to(variances, found.shape)
        behind, wide = (np.take_along_axis(values, others, axis=-2) for values in (found, spread))
        for rank in range(problem.top):
            ahead, own = (np.take_along_axis(values, leaders[:, [rank]], axis=-2) for values in (found, spread))
            needed = self.quantiles[look] * np.sqrt(own + wide) - problem.tolerance
            named &= (ahead - behind >= needed).all(axis=-2)
        return leaders, named
