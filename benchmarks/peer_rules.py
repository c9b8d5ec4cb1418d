"""Published algorithms for best-arm identification by one agent, implemented from the papers, one draw at a time.

All replications advance together by one draw each, so that every algorithm makes exactly the draws that its rule asks
for. An algorithm returns its samples, its rounds, and whether its answer was wrong.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri, rel_entr, zeta

from parley.bounds.paper import mixture_constant

Floats = NDArray[np.float64]
Threshold = Callable[[Floats, Floats, Floats], Floats]  # (total, draws of the leader, draws of the other) -> threshold
HALVINGS, NEWTON = 14, 5


class Family(ABC):
    """The distribution of rewards: a one-parameter exponential family, given by its mean."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, means: Floats, count: NDArray[np.int64] | int = 1) -> Floats:
        """Sums of `count` rewards for each mean."""

    @abstractmethod
    def divergence(self, first: Floats, second: Floats) -> Floats:
        """The Kullback-Leibler divergence between two means."""

    @abstractmethod
    def quantile(self, level: float) -> float:
        """c such that the mean of n rewards exceeds its expectation by c / sqrt(n) with probability at most `level`."""

    @abstractmethod
    def threshold(self, arms: int, delta: float) -> Threshold:
        """The anytime threshold for the generalised likelihood ratio of two arms (Kaufmann and Koolen 2021)."""

    def upper(self, means: Floats, budget: Floats, sign: int = 1) -> Floats:
        """The largest q with d(mean, q) <= budget; with sign -1 the smallest."""
        far = means + sign * self.reach(means, budget, sign)
        near = means.copy()
        for _ in range(HALVINGS):
            middle = (near + far) / 2
            inside = self.divergence(means, middle) <= budget
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        return far

    def inside(self, means: Floats) -> Floats:
        """Means, moved minimally away from the ends of the range."""
        return means

    @abstractmethod
    def reach(self, means: Floats, budget: Floats, sign: int) -> Floats:
        """An upper bound on the distance of such a q from the mean, on one side."""


@dataclass(frozen=True)
class Bernoulli(Family):
    def draw(self, generator: np.random.Generator, means: Floats, count: NDArray[np.int64] | int = 1) -> Floats:
        if isinstance(count, int) and count == 1:
            return (generator.random(means.shape) < means).astype(np.float64)
        return generator.binomial(count, means).astype(np.float64)

    def divergence(self, first: Floats, second: Floats) -> Floats:
        return np.asarray(rel_entr(first, second) + rel_entr(1 - first, 1 - second))

    def quantile(self, level: float) -> float:
        return 0.5 * math.sqrt(-2 * math.log(level))  # Hoeffding

    def threshold(self, arms: int, delta: float) -> Threshold:
        constant = 2 * calibration(math.log((arms - 1) / delta) / 2)
        return lambda _total, one, two: constant + 3 * (np.log1p(np.log(one)) + np.log1p(np.log(two)))

    def inside(self, means: Floats) -> Floats:
        return np.clip(means, 1e-4, 1 - 1e-4)

    def reach(self, means: Floats, budget: Floats, sign: int) -> Floats:
        return np.minimum(1 - means if sign > 0 else means, np.sqrt(budget / 2))  # Pinsker


@dataclass(frozen=True)
class Normal(Family):
    scale: float

    def draw(self, generator: np.random.Generator, means: Floats, count: NDArray[np.int64] | int = 1) -> Floats:
        return means * count + self.scale * np.sqrt(count) * generator.standard_normal(means.shape)

    def divergence(self, first: Floats, second: Floats) -> Floats:
        return np.asarray(np.square((first - second) / self.scale) / 2)

    def quantile(self, level: float) -> float:
        return float(-self.scale * ndtri(level))

    def threshold(self, arms: int, delta: float) -> Threshold:
        constant = mixture_constant(2 * delta / (arms - 1), 1, 2)
        return lambda _total, one, two: constant + 2 * (np.log(4 + np.log(one)) + np.log(4 + np.log(two)))

    def reach(self, means: Floats, budget: Floats, sign: int) -> Floats:  # noqa: ARG002
        return self.scale * np.sqrt(2 * budget)


def calibration(x: float) -> float:
    """The function T(x) of Kaufmann and Koolen 2021 (Mixture martingales revisited, JMLR 22), one-parameter families.

    >>> round(calibration(2.25), 2) > 2.25
    True
    """

    def inverse(value: float) -> float:  # of h(u) = u - log(u), u >= 1
        return float(brentq(lambda u: u - math.log(u) - value, 1.0, 10 * value + 10))

    z, u = 1.5, (inverse(1 + x) + math.log(2 * zeta(2))) / 2
    edge = 1 / math.log(z)
    if u >= edge - math.log(edge):
        root = inverse(u)
        return 2 * math.exp(1 / root) * root
    return 2 * z * (u - math.log(math.log(z)))


def optimal_shares(
    family: Family, means: Floats, start: Floats | None = None, turns: int = 40
) -> tuple[Floats, Floats]:
    """`(run, arm)`: the optimal shares of draws for these means (Garivier and Kaufmann 2016, Theorem 5); and s below.

    Let x_a be the draws of arm a over those of the best arm. Then g_a(x) = d(best, m) + x d(a, m) must have the same
    value y for all a, and F = sum_a d(best, m_a) / d(a, m_a) must be 1, where m_a is the weighted mean of both arms.
    g_a is concave with slope d(a, m), so Newton's method from the left finds x_a(y). With s = y / (largest y - y), F is
    about s^2 (exactly, for two Gaussian arms), so s is divided by sqrt(F) until it converges. After another draw,
    `start` may be the previous s. If the best arm is not unique, shares are equal.

    >>> optimal_shares(Normal(1.0), np.array([[1.0, 0.0]]))[0].round(9).tolist()
    [[0.5, 0.5]]
    """
    runs, arms = means.shape
    order = np.argsort(-means, axis=1, kind="stable")
    ranked = np.take_along_axis(means, order, axis=1)
    best, rest = ranked[:, :1], ranked[:, 1:]
    best, rest = family.inside(best), family.inside(rest)
    unique = (rest[:, 0] < best[:, 0] - 1e-9)[:, None]
    best, rest = np.where(unique, best, 0.6), np.where(unique, rest, 0.4)  # any values: they get equal shares below
    largest, steepest = family.divergence(best[:, 0], rest[:, 0]), family.divergence(rest, best)
    s = np.ones(runs) if start is None else start
    for _ in range(turns):
        y = (largest * s / (1 + s))[:, None]
        x = y / steepest
        for _ in range(NEWTON):
            middle = (best + x * rest) / (1 + x)
            slope = np.maximum(family.divergence(rest, middle), 1e-300)
            short = y - family.divergence(best, middle) - x * slope
            x = x + np.maximum(short, 0.0) / slope
        total = ((y - x * slope) / slope).sum(axis=1)  # F, at the step before
        s = np.clip(s / np.sqrt(np.maximum(total, 1e-6)), 1e-6, 1e6)
    shares = np.concatenate([np.ones((runs, 1)), x], axis=1)
    shares = np.where(unique, shares / shares.sum(axis=1, keepdims=True), 1 / arms)
    placed = np.empty_like(shares)
    np.put_along_axis(placed, order, shares, axis=1)
    return placed, np.where(unique[:, 0], s, 1.0)


@dataclass(frozen=True)
class Peer:
    """The results of an algorithm, per replication."""

    samples: Floats
    rounds: Floats
    wrong: Floats


class Runs:
    """The replications that still draw."""

    def __init__(self, family: Family, means: Floats, runs: int, seed: int) -> None:
        self.family, self.truth, self.generator = family, means, np.random.default_rng(seed)
        self.members = np.arange(runs)
        self.counts = np.ones((runs, len(means)))
        self.sums = family.draw(self.generator, np.tile(means, (runs, 1)))

    @property
    def means(self) -> Floats:
        return self.sums / self.counts

    def draw(self, arms: NDArray[np.int64]) -> None:
        """Draw one reward of the arm `(run,)` in each replication."""
        rows = np.arange(len(arms))
        self.sums[rows, arms] += self.family.draw(self.generator, self.truth[arms])
        self.counts[rows, arms] += 1

    def draw_to(self, wanted: NDArray[np.int64] | Floats) -> None:
        """Draw every arm until it has at least `wanted (run, arm)` draws."""
        missing = np.maximum(wanted - self.counts, 0).astype(np.int64)
        self.sums += self.family.draw(self.generator, np.broadcast_to(self.truth, missing.shape), missing)
        self.counts += missing

    def keep(self, on: NDArray[np.bool_]) -> None:
        self.members, self.counts, self.sums = self.members[on], self.counts[on], self.sums[on]


def likelihood_ratios(family: Family, counts: Floats, sums: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The leader `(run,)`, and its likelihood ratios against all arms `(run, arm)`; inf against itself."""
    means, rows = sums / counts, np.arange(len(counts))
    leader = np.argmax(means, axis=1)
    n, top = counts[rows, leader][:, None], means[rows, leader][:, None]
    pooled = (n * top + counts * means) / (n + counts)
    ratio = n * family.divergence(np.broadcast_to(top, means.shape), pooled)
    ratio = ratio + counts * family.divergence(means, pooled)
    ratio[rows, leader] = np.inf
    return leader, ratio


def track_and_stop(
    family: Family, means: Floats, thresholds: Mapping[str, Threshold], runs: int, seed: int
) -> dict[str, Peer]:
    """Track-and-Stop (Garivier and Kaufmann 2016) with D-tracking and Chernoff's stopping rule; a Peer per threshold.

    The threshold does not affect the draws before a run stops, so one run serves all thresholds.
    """
    state, arms = Runs(family, means, runs, seed), len(means)
    samples = {name: np.zeros(runs) for name in thresholds}
    wrong = {name: np.zeros(runs) for name in thresholds}
    guess, turns = np.ones(runs), 40
    while state.members.size:
        leader, ratio = likelihood_ratios(family, state.counts, state.sums)
        total = state.counts.sum(axis=1)
        ahead = np.take_along_axis(state.counts, leader[:, None], axis=1)
        on = np.zeros(len(leader), dtype=bool)
        for name, threshold in thresholds.items():
            over = (ratio >= threshold(total[:, None], ahead, state.counts)).all(axis=1)
            first = over & (samples[name][state.members] == 0)
            samples[name][state.members[first]] = total[first]
            wrong[name][state.members[first]] = leader[first] != np.argmax(means)
            on |= samples[name][state.members] == 0
        state.keep(on)
        if not state.members.size:
            break
        total = total[on]
        shares, guess = optimal_shares(family, state.means, guess[on], turns)
        turns = 2  # one draw changes the shares little
        starved = state.counts.min(axis=1) < np.sqrt(total) - arms / 2
        wanted = total[:, None] * shares - state.counts
        state.draw(np.where(starved, np.argmin(state.counts, axis=1), np.argmax(wanted, axis=1)))
    return {name: Peer(samples[name], samples[name] - arms + 1, wrong[name]) for name in thresholds}
