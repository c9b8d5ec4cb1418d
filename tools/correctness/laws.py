"""Rewards that are not Gaussian although the model assumes it: `python -m tools.correctness laws` (make laws).

One agent has two arms with the same mean, so ruling out either one is an error. Every distribution is compared with
itself, its mirror image, and a Gaussian of the same mean and variance, with a guess of the scale that is about right
and with one that is far too small. Rewards are drawn one by one. Rewrites a table of docs/appendix; results of this
size are not run again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from tools.correctness.common import APPENDIX, DOCS, SEED, in_parallel
from tools.pages import fill, table

from parley.policies import make_policy
from parley.problem import Problem
from parley.rewards import UnknownScale
from parley.rewards.plausibility import skew_product, skewed
from parley.totals import Totals
from parley.validation.checks import FloatArray, IntArray

DELTA, MOST, CHUNK = 0.05, 16_000, 500
SCALE = 12.0  # standard deviation of every law, so that a guess of 1 is far too small
PAGE, KNOWN = APPENDIX / "rewards.md", DOCS / "laws.json"
Draw = Callable[[np.random.Generator, int], FloatArray]


def _revenue(generator: np.random.Generator, count: int) -> FloatArray:
    """Revenue per visitor: one in twenty buys, for a lognormal amount."""
    return np.asarray((generator.random(count) < 0.05) * generator.lognormal(0.0, 1.0, count))


def _contaminated(generator: np.random.Generator, count: int) -> FloatArray:
    """Gaussian rewards, one in twenty with ten times the standard deviation."""
    return np.asarray(generator.standard_normal(count) * np.where(generator.random(count) < 0.05, 10.0, 1.0))


def _standard(draw: Draw, mean: float, variance: float) -> Draw:
    return lambda generator, count: (draw(generator, count) - mean) / math.sqrt(variance)


_BUY = (0.05 * math.exp(0.5), 0.05 * math.exp(2.0) - (0.05 * math.exp(0.5)) ** 2)
LAWS: dict[str, Draw] = {  # all scaled to mean 0 and variance 1
    "Gaussian": lambda generator, count: generator.standard_normal(count),
    "exponential": _standard(lambda generator, count: generator.exponential(size=count), 1.0, 1.0),
    "Student's t, 3 degrees": _standard(lambda generator, count: generator.standard_t(3, count), 0.0, 3.0),
    "contaminated: 5 % scatter ten times as much": _standard(_contaminated, 0.0, 0.95 + 0.05 * 100),
    "revenue: 5 % buy, lognormal amounts": _standard(_revenue, *_BUY),
    "revenue, mirrored": lambda generator, count: -LAWS["revenue: 5 % buy, lognormal amounts"](generator, count),
}
AGAINST = ("itself", "its mirror", "a Gaussian")
GUESSES = (SCALE, 1.0)


def totals(laws: tuple[Draw, Draw], generator: np.random.Generator, counts: IntArray) -> Totals:
    """`(run, arm, 1)`: totals of rewards drawn one by one."""
    sums, squares = np.zeros(counts.shape), np.zeros(counts.shape)
    for arm, law in enumerate(laws):
        some = np.flatnonzero(counts[:, arm, 0])
        if len(some):
            starts = np.concatenate([[0], np.cumsum(counts[some, arm, 0])[:-1]])
            values = SCALE * law(generator, int(counts[some, arm, 0].sum()))
            sums[some, arm, 0] = np.add.reduceat(values, starts)
            squares[some, arm, 0] = np.add.reduceat(np.square(values), starts)
    return Totals(counts=counts, sums=sums, squares=squares)


def measured(law: str, against: str, guess: float, runs: int) -> dict[str, float]:
    """How many of `runs` studies rule out the arm that is ruled out more often, and how many warn about skew."""
    own = LAWS[law]
    others = {"itself": own, "its mirror": lambda *drawn: -own(*drawn), "a Gaussian": LAWS["Gaussian"]}
    pair = own, others[against]
    problem = Problem(arms=2, weights=np.eye(1), delta=DELTA, noise=UnknownScale(guess=guess), largest_gap=SCALE)
    policy = make_policy("evidence", problem)
    wrong, warned = np.zeros(2, dtype=np.int64), 0
    for first in range(0, runs, CHUNK):
        generator = np.random.default_rng([SEED, first])
        count = min(CHUNK, runs - first)
        state, shape = policy.start((count,)), (count, *problem.shape)
        degrees, scatter, leans, squares, turns = (np.zeros(shape) for _ in range(5))
        alarmed = np.zeros(count, dtype=bool)
        while True:
            going = ~state.finished & (state.counts.sum(axis=(-2, -1)) < MOST)
            if not going.any():
                break
            fresh = totals(pair, generator, np.where(going[:, None, None], policy.plan(state), 0))
            leaning = skew_product(fresh, state.counts, state.sums, degrees, scatter)
            leans, squares, turns = (sum(pair) for pair in zip((leans, squares, turns), leaning, strict=True))
            degrees, scatter = degrees + np.maximum(fresh.counts - 1, 0), scatter + fresh.scatter
            state = policy.update(state, fresh)
            alarmed |= skewed(leans, squares, turns, state.counts)[1].any(axis=(-2, -1))
        wrong += (~state.active[..., 0]).sum(axis=0)
        warned += int(alarmed.sum())
    likelier = wrong.mean() if against == "itself" else wrong.max()
    return {"runs": runs, "wrong": float(likelier), "warned": warned}


def laws(runs: int, workers: int) -> bool:
    """Run every law; returns whether Gaussian rewards err at most as often as delta and hardly ever warn."""
    known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    tasks = [(law, against, guess) for law in LAWS for against in AGAINST for guess in GUESSES]
    names = {task: f"{task[0]}, against {task[1]}, guess {task[2]:g}" for task in tasks}
    missing = [task for task in tasks if known.get(names[task], {}).get("runs") != runs]
    for task, found in in_parallel(partial(_measured, runs=runs), missing, workers):
        known[names[task]] = found
        KNOWN.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    columns = [f"against {against}, guess {guess:g}" for against in AGAINST for guess in GUESSES]
    rows = [[law, *(_shown(known[names[law, a, guess]]) for a in AGAINST for guess in GUESSES)] for law in LAWS]
    fill(PAGE, "laws", table(["rewards", *columns], rows))
    right = [known[names["Gaussian", "itself", guess]] for guess in GUESSES]
    most = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / runs)
    return all(cell["wrong"] <= most * runs and cell["warned"] <= 0.02 * runs for cell in right)


def _measured(task: tuple[str, str, float], runs: int) -> dict[str, float]:
    return measured(*task, runs)


def _shown(cell: dict[str, float]) -> str:
    share, runs = cell["wrong"] / cell["runs"], cell["runs"]
    error = math.sqrt(share * (1 - share) / runs)
    return f"{share / DELTA:.2f} ± {error / DELTA:.2f} ({100 * cell['warned'] / runs:.0f})"
