"""The design to compare with: the same number of draws everywhere, fixed in advance, one test at the end (Bonferroni).

Every agent names the N best estimates if each of them beats every other arm by the normal quantile that a union over
all such pairs and all questions leaves, less the tolerance. An agent names a bad arm only if that arm beats one of its
true best by as much, so the error is at most delta; scales are taken to be known. It is sized for a gap that nobody
knows before the study: a generous comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from parley.experiments.forecasts.scenarios import standard_error
from parley.problem import BoolArray, FloatArray, Instance, IntArray

MOST = 2**40  # draws of a cell
CELLS = 4_000_000  # arms x agents x runs: what fits
RUNS = 2000


@dataclass(frozen=True, kw_only=True)
class FixedSize:
    """One size of the design, and its power by simulation."""

    per_cell: int  # draws of every arm by every agent
    samples: int
    power: float  # how often every agent's answer is named and good
    power_error: float  # the Monte Carlo error of the power


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedDesign:
    """The design under some truths, to be tried at any size.

    >>> from parley.problem import Problem
    >>> truth = Instance(problem=Problem(arms=2, weights=[[1.0]], delta=0.05), means=[[0.5], [0.0]])
    >>> design = FixedDesign.of([truth], seed=0)
    >>> found = design.smallest(0.9)
    >>> 60 < found.per_cell < 80, found.samples == 2 * found.per_cell  # by the formula 68.5
    (True, True)
    >>> design.within(found.samples + 1) == found, design.within(1).power
    (True, 0.0)
    """

    trials: list[_Trial]
    cells: int  # arms x agents

    @classmethod
    def of(cls, instances: Sequence[Instance], *, seed: int) -> FixedDesign:
        """For this very truth, or for some on average."""
        trials = [_Trial.of(instance, seed + place, len(instances)) for place, instance in enumerate(instances)]
        return cls(trials=trials, cells=instances[0].means.size)

    def at(self, per_cell: int) -> FixedSize:
        """With so many draws of every cell."""
        good = np.concatenate([trial.good(per_cell) for trial in self.trials])
        return FixedSize(
            per_cell=per_cell,
            samples=per_cell * self.cells,
            power=float(good.mean()),
            power_error=standard_error(good, len(self.trials)),
        )

    def within(self, budget: int) -> FixedSize:
        """The largest size that a budget pays for; without a draw of every cell nobody names an arm."""
        if budget < self.cells:
            return FixedSize(per_cell=0, samples=0, power=0.0, power_error=0.0)
        return self.at(budget // self.cells)

    def smallest(self, power: float) -> FixedSize | None:
        """The smallest size that has the power wanted; None where no number of draws has it."""
        low, high = 1, 2
        while self.at(high).power < power:
            low, high = high, 2 * high
            if high > MOST:
                return None
        while high - low > max(1, low // 500):
            middle = (low + high) // 2
            low, high = (low, middle) if self.at(middle).power >= power else (middle, high)
        return self.at(high)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """Many runs at once; the same errors for every size, so that more draws never look worse by chance."""

    instance: Instance
    errors: FloatArray  # (run, arm, agent): of mixed means from one draw a cell
    variances: FloatArray  # (arm, agent): theirs
    quantile: float

    @classmethod
    def of(cls, instance: Instance, seed: int, many: int) -> _Trial:
        problem, cells = instance.problem, np.broadcast_to(instance.cell_variances, instance.means.shape)
        runs = max(min(RUNS, CELLS // cells.size) // many, 100)
        drawn = np.random.default_rng(seed).standard_normal((runs, *cells.shape)) * np.sqrt(cells)
        tests = problem.question_count * problem.top * (problem.arm_count - problem.top)
        return cls(
            instance=instance,
            errors=problem.mixed(drawn),
            variances=cells @ problem.squared_weights,
            quantile=float(-ndtri(problem.delta / tests)),
        )

    def good(self, draws: int) -> BoolArray:
        """`(run,)`: whether every agent names its answer, and a good one, with so many draws of every cell."""
        leaders, named = self.answers(draws)
        good = np.take_along_axis(np.broadcast_to(self.instance.good, self.errors.shape), leaders, axis=-2)
        return np.asarray((named & good.all(axis=-2)).all(axis=-1))

    def answers(self, draws: int) -> tuple[IntArray, BoolArray]:
        """`(run, N, agent)`: the best estimates; and `(run, agent)`: whether the agent names them."""
        problem = self.instance.problem
        found = self.instance.mixed_means + self.errors / np.sqrt(draws)
        order = np.argsort(-found, axis=-2, kind="stable")
        leaders, others = order[:, : problem.top], order[:, problem.top :]
        named = np.ones((len(found), problem.agent_count), dtype=np.bool_)
        spread = np.broadcast_to(self.variances, found.shape)
        behind, wide = (np.take_along_axis(values, others, axis=-2) for values in (found, spread))
        for rank in range(problem.top):
            ahead, own = (np.take_along_axis(values, leaders[:, [rank]], axis=-2) for values in (found, spread))
            needed = self.quantile * np.sqrt((own + wide) / draws) - problem.tolerance
            named &= (ahead - behind >= needed).all(axis=-2)
        return leaders, named
