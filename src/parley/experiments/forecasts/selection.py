"""Procedures of ranking and selection, and group-sequential trials that drop losers: what a statistician would compare.

All promise what a study with a tolerance does: an arm within the tolerance of the best, with probability 1 - delta. One
agent, Gaussian rewards of one scale; rates by their normal approximation. Bechhofer (Annals of Mathematical Statistics
25, 1954) draws a fixed number of every arm; KN (Kim and Nelson, ACM TOMACS 11, 2001) looks after every draw and drops
who falls behind a line that closes; a multi-arm multi-stage trial has a few looks, whose levels are spent by Lan and
DeMets (Biometrika 70, 1983).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from parley.problem import BoolArray, FloatArray, Instance, IntArray

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(160)  # of integrals against the normal density
WIDEST = 8.0  # standard deviations to either side, where a sum may be while nothing is crossed
STEPS = 400  # of the grid in between
Spending = Callable[[float], float]  # share of the information -> share of the level


@cache
def bechhofer_constant(arms: int, confidence: float) -> float:
    """h with P(the best of `arms` means is the largest) = confidence if all others are h standard errors below.

    P = integral of Phi(x + h)^(K - 1) phi(x) dx, one integral over the best arm's mean.

    >>> round(bechhofer_constant(2, 0.95), 4), round(bechhofer_constant(4, 0.9), 4)
    (2.3262, 2.4516)
    """

    def above(h: float) -> float:
        inside = np.exp((arms - 1) * log_ndtr(NODES + h))
        return float((WEIGHTS * inside).sum() / math.sqrt(2 * math.pi)) - confidence

    return float(brentq(above, 0.0, 40.0))


def bechhofer_size(arms: int, delta: float, gap: float, scale: float) -> int:
    """Draws of every arm: the best one is found with probability 1 - delta if the others are worse by `gap`."""
    return math.ceil((bechhofer_constant(arms, 1 - delta) * scale / gap) ** 2)


def bechhofer_samples(instances: Sequence[Instance]) -> int | None:
    """Samples of Bechhofer's fixed size, with which every agent names an arm within the tolerance of its best.

    As many draws of every cell as the agent that needs most, at delta over the number of questions; the scales of these
    truths are taken to be known, and the widest counts for all. None without a tolerance, or for the best N.

    >>> from parley.problem import Problem
    >>> truth = Instance(problem=Problem(arms=4, weights=[[1.0]], tolerance=0.1, delta=0.1), means=[[0.0]] * 4)
    >>> bechhofer_samples([truth])
    2408
    """
    problem = instances[0].problem
    if not problem.tolerance or problem.top > 1 or problem.rho is not None:
        return None
    level = problem.delta / problem.question_count
    widest = 0.0
    for instance in instances:
        cells = np.broadcast_to(instance.cell_variances, instance.means.shape)
        widest = max(widest, float((cells @ problem.squared_weights).max()))
    per_cell = bechhofer_size(problem.arm_count, level, problem.tolerance, math.sqrt(widest))
    return per_cell * problem.arm_count * problem.agent_count


def kn_constants(arms: int, delta: float, first: int) -> tuple[float, float]:
    """eta and h^2 of KN with c = 1, from `first` draws of every arm: (1 + 2 eta)^(-(n - 1) / 2) / 2 = delta / (K - 1).

    >>> [round(value, 3) for value in kn_constants(10, 0.05, 10)]
    [0.859, 15.464]
    """
    eta = ((2 * delta / (arms - 1)) ** (-2 / (first - 1)) - 1) / 2
    return eta, 2 * eta * (first - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """Many runs of a procedure, `(run,)` each."""

    samples: IntArray
    rounds: IntArray
    chosen: IntArray  # the arm

    def bad(self, means: FloatArray, tolerance: float) -> float:
        """How often the arm is worse than the best by more than the tolerance."""
        return float((means.max() - means[self.chosen] > tolerance + 1e-12).mean())


def bechhofer(means: FloatArray, scale: float, gap: float, delta: float, *, runs: int, seed: int) -> Selection:
    """The largest of the means of a fixed number of draws."""
    size = bechhofer_size(len(means), delta, gap, scale)
    found = means + np.random.default_rng(seed).standard_normal((runs, len(means))) * scale / math.sqrt(size)
    ones = np.ones(runs, dtype=np.int64)
    return Selection(samples=ones * size * len(means), rounds=ones, chosen=found.argmax(axis=-1))


def kn(
    means: FloatArray,
    scale: float,
    gap: float,
    delta: float,
    *,
    first: int = 10,
    known: bool = False,
    looks: int | None = None,
    runs: int,
    seed: int,
) -> Selection:
    """KN: after every draw of the arms that are left, or at `looks` evenly spaced times up to its last.

    `first` draws of every arm estimate the variance of every difference, once; or the scale is `known`, and h^2 is what
    it tends to. An arm goes when another is ahead by `max(0, h^2 S^2 / (2 gap r) - gap / 2)` after r draws each.
    Looking less often than after every draw only makes a false drop rarer (Jennison, Johnstone and Turnbull 1982).
    """
    rng, arms = np.random.default_rng(seed), len(means)
    start = means + scale * rng.standard_normal((first, runs, arms))
    if known:
        square = -2 * math.log(2 * delta / (arms - 1))
        variances = np.full((runs, arms, arms), 2 * scale**2)
    else:
        _, square = kn_constants(arms, delta, first)
        variances = (start[..., :, None] - start[..., None, :]).var(axis=0, ddof=1)
    last = np.maximum(np.floor(square * variances.max(axis=(-2, -1)) / gap**2).astype(np.int64) + 1, first)
    sums, alive, drawn = start.sum(axis=0), np.ones((runs, arms), dtype=np.bool_), np.full(runs, first)
    samples, rounds = np.full(runs, first * arms), np.zeros(runs, dtype=np.int64)
    for time in _times(first, last, looks):
        open_ = alive.sum(axis=-1) > 1
        if not open_.any():
            break
        more = np.where(open_, time - drawn, 0)
        sums += more[:, None] * means + scale * np.sqrt(more)[:, None] * rng.standard_normal((runs, arms))
        samples += more * alive.sum(axis=-1)
        drawn += more
        rounds += open_
        ahead = (sums[:, None, :] - sums[:, :, None]) / drawn[:, None, None]  # [run, i, l]: of l over i
        width = np.maximum(square * variances / (2 * gap * drawn[:, None, None]) - gap / 2, 0.0)
        beaten = (alive[:, None, :] & (ahead > width)).any(axis=-1)
        alive &= ~(beaten & open_[:, None])
    return Selection(samples=samples, rounds=rounds, chosen=np.where(alive, sums, -np.inf).argmax(axis=-1))


def _times(first: int, last: IntArray, looks: int | None) -> Iterator[IntArray]:
    """`(run,)` each: how many draws of an arm there are at every look."""
    if looks is None:
        yield from (np.minimum(time, last) for time in range(first, int(last.max()) + 1))
        return
    for look in range(1, looks + 1):
        yield np.maximum(np.ceil(last * (look / looks)).astype(np.int64), first)


def obrien_fleming_spending(level: float) -> Spending:
    """2 - 2 Phi(z / sqrt(t)), z the quantile of half of the level: what O'Brien and Fleming spend, about."""
    return lambda share: float(2 * ndtr(ndtri(level / 2) / math.sqrt(share)))


def pocock_spending(level: float) -> Spending:
    """level log(1 + (e - 1) t)."""
    return lambda share: level * math.log(1 + (math.e - 1) * share)


def spent_boundaries(shares: tuple[float, ...], spending: Spending) -> FloatArray:
    """`(look,)`: one-sided critical values at these shares of the information; each look spends what is new by then.

    By recursion over where the sum is while it has not crossed (Armitage, McPherson and Rowe 1969).

    >>> spent_boundaries((0.2, 0.4, 0.6, 0.8, 1.0), obrien_fleming_spending(0.025)).round(2).tolist()
    [4.88, 3.36, 2.68, 2.29, 2.03]
    """
    found, before, spent = [], 0.0, 0.0
    places = weights = density = np.zeros(0)
    for place, share in enumerate(shares):
        step, root = share - before, math.sqrt(share)
        new = spending(share) - spent
        if place == 0:
            line = -float(ndtri(new)) * root
        else:
            beyond = _crossed(places, weights * density, math.sqrt(step))
            line = brentq(lambda at, beyond=beyond, new=new: beyond(at) - new, -WIDEST, WIDEST * root + 1)
        at, width = np.polynomial.legendre.leggauss(STEPS)
        low = -WIDEST * root
        next_places, next_weights = low + (line - low) * (at + 1) / 2, width * (line - low) / 2
        if place == 0:
            density = _normal(next_places / root) / root
        else:
            kernel = _normal((next_places[:, None] - places) / math.sqrt(step)) / math.sqrt(step)
            density = kernel @ (weights * density)
        places, weights, before, spent = next_places, next_weights, share, spent + new
        found.append(line / root)
    return np.array(found)


def _crossed(places: FloatArray, mass: FloatArray, step: float) -> Callable[[float], float]:
    return lambda line: float((mass * ndtr((places - line) / step)).sum())


def _normal(values: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-np.square(values) / 2) / math.sqrt(2 * math.pi))


def dropping(
    means: FloatArray,
    scales: FloatArray,
    per_arm: int,
    delta: float,
    *,
    tolerance: float = 0.0,
    looks: int = 5,
    runs: int,
    seed: int,
) -> tuple[Selection, BoolArray]:
    """A multi-arm multi-stage trial of at most `per_arm` draws an arm; and which runs end with a proven answer.

    Looks at even shares, levels spent as by O'Brien and Fleming, Bonferroni over the pairs of one arm. An arm is
    dropped when another is proven better; the leader is the answer when no other is better by the tolerance.
    """
    arms, rng = len(means), np.random.default_rng(seed)
    lines = spent_boundaries(
        tuple((look + 1) / looks for look in range(looks)), obrien_fleming_spending(delta / (arms - 1))
    )
    each = max(per_arm // looks, 1)
    sums, alive = np.zeros((runs, arms)), np.ones((runs, arms), dtype=np.bool_)
    samples, rounds = np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=np.int64)
    open_, chosen = np.ones(runs, dtype=np.bool_), np.zeros(runs, dtype=np.int64)
    for look in range(looks):
        sums += each * means + math.sqrt(each) * scales * rng.standard_normal((runs, arms))
        samples += np.where(open_, each * alive.sum(axis=-1), 0)
        rounds += open_
        drawn = (look + 1) * each
        ahead = (sums[:, None, :] - sums[:, :, None]) / drawn
        width = lines[look] * np.sqrt(np.square(scales)[:, None] + np.square(scales)) / math.sqrt(drawn)
        beaten = (alive[:, None, :] & (ahead >= width)).any(axis=-1)
        chosen = np.where(open_, np.where(alive, sums, -np.inf).argmax(axis=-1), chosen)
        covered = np.take_along_axis(-ahead + tolerance >= width, chosen[:, None, None], axis=1)[:, 0]
        alone = (covered | ~alive | (np.arange(arms) == chosen[:, None])).all(axis=-1)
        alive &= ~(beaten & open_[:, None])
        open_ &= ~(alone | (alive.sum(axis=-1) == 1))
    return Selection(samples=samples, rounds=rounds, chosen=chosen), ~open_
