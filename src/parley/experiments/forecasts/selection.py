"""Ranking and selection procedures, and group-sequential trials that drop losers, for comparison with a study.

All have the guarantee of a study: with probability 1 - delta, every agent names an arm within the tolerance of its best
arm. Bechhofer's procedure (Annals of Mathematical Statistics 25, 1954) makes a fixed number of draws everywhere. KN
(Kim and Nelson, ACM TOMACS 11, 2001) compares arms after every draw, and drops an arm that is behind another arm by
more than a line that falls to 0. A multi-arm multi-stage trial has a few looks, which share the level by the method of
Lan and DeMets (Biometrika 70, 1983).

These procedures answer a single question. For several agents, each agent's question is answered from its own mix of the
same draws, at the level delta over the number of questions (Bonferroni); a cell is drawn while some agent that weighs
it still needs the arm. Sums are Gaussian with the true variances of the cells, even for rates, which favours these
designs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from parley.experiments.forecasts.designs import LOOKS
from parley.problem import BoolArray, FloatArray, Instance, IntArray, Problem

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(160)  # quadrature of integrals against the normal density
WIDEST = 8.0  # a grid of sums that have not crossed the line extends by this many standard deviations
STEPS = 400  # points of that grid
Spending = Callable[[float], float]  # share of the information -> level spent until then


@cache
def bechhofer_constant(arms: int, confidence: float) -> float:
    """Bechhofer's constant h, for selecting the best of K = `arms` arms.

    If all other means are h standard errors below the best mean, the best arm has the largest estimate with probability
    `confidence`, which is the integral of Phi(x + h)^(K - 1) phi(x) dx over the best arm's estimate.

    >>> round(bechhofer_constant(2, 0.95), 4), round(bechhofer_constant(4, 0.9), 4)
    (2.3262, 2.4516)
    """

    def above(h: float) -> float:
        inside = np.exp((arms - 1) * log_ndtr(NODES + h))
        return float((WEIGHTS * inside).sum() / math.sqrt(2 * math.pi)) - confidence

    return float(brentq(above, 0.0, 40.0))


def bechhofer_size(arms: int, delta: float, gap: float, scale: float) -> int:
    """Draws per arm with which Bechhofer's procedure finds the best arm with probability 1 - delta.

    This assumes that all other arms are worse by at least `gap`.
    """
    return math.ceil((bechhofer_constant(arms, 1 - delta) * scale / gap) ** 2)


def kn_limit(arms: int, delta: float) -> float:
    """The constant h^2 of KN for a known scale: the limit of `kn_constants` for many first draws.

    >>> round(kn_limit(10, 0.05), 3), round(kn_constants(10, 0.05, 100_000)[1], 3)
    (9.0, 9.0)
    """
    return -2 * math.log(min(2 * delta / (arms - 1), 1.0))


def kn_constants(arms: int, delta: float, first: int) -> tuple[float, float]:
    """The constants eta and h^2 of KN with c = 1, if scales are estimated from `first` draws of every arm.

    With n first draws of K arms, eta solves (1 + 2 eta)^(-(n - 1) / 2) / 2 = delta / (K - 1).

    >>> [round(value, 3) for value in kn_constants(10, 0.05, 10)]
    [0.859, 15.464]
    """
    eta = ((2 * delta / (arms - 1)) ** (-2 / (first - 1)) - 1) / 2
    return eta, 2 * eta * (first - 1)


def obrien_fleming_spending(level: float) -> Spending:
    """The spending function that approximates O'Brien and Fleming's looks.

    After the share t of the information, the function has spent 2 - 2 Phi(z / sqrt(t)), with z the upper quantile of
    half the level.
    """
    return lambda share: float(2 * ndtr(ndtri(level / 2) / math.sqrt(share)))


def spent_boundaries(shares: tuple[float, ...], spending: Spending) -> FloatArray:
    """`(look,)`: one-sided critical values for looks at these shares of the information, by a spending function.

    They are computed by recursion over the density of the sum while it has not crossed the line (Armitage, McPherson
    and Rowe 1969).

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


FIRST = 10  # draws of every cell from which KN estimates a scale
MOST_LOOKS = 400  # largest number of KN's looks: with more draws than this, it looks at evenly spaced times


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """The results of many runs of a selection procedure."""

    samples: IntArray | FloatArray  # (run,)
    rounds: IntArray  # (run,): number of looks
    chosen: IntArray  # (run, agent): index of the named arm; -1 if the agent names none

    def bad(self, instance: Instance) -> BoolArray:
        """`(run,)`: whether some agent names a bad arm."""
        good = instance.good[self.chosen, np.arange(instance.problem.agent_count)]
        return np.asarray((~good & (self.chosen >= 0)).any(axis=-1))

    def power(self, instance: Instance) -> BoolArray:
        """`(run,)`: whether every agent names a good arm."""
        return np.asarray((self.chosen >= 0).all(axis=-1) & ~self.bad(instance))


def cell_variances(instance: Instance) -> FloatArray:
    """`(arm, agent)`: variances of a single reward."""
    return np.broadcast_to(instance.cell_variances, instance.means.shape)


def bechhofer_draws(instances: Sequence[Instance], zone: float) -> int:
    """Draws per cell of Bechhofer's procedure, if all arms but the best are worse by at least `zone`.

    The agent that needs the most draws decides. Scales are taken as known, and the largest is used for all agents.
    """
    problem = instances[0].problem
    widest = max(float((cell_variances(instance) @ problem.squared_weights).max()) for instance in instances)
    return bechhofer_size(problem.arm_count, problem.delta / problem.question_count, zone, math.sqrt(widest))


def bechhofer_samples(instances: Sequence[Instance]) -> int | None:
    """The samples of Bechhofer's fixed size; None without a tolerance, for several best arms, or for private reports.

    >>> truth = Instance(problem=Problem(arms=4, weights=[[1.0]], tolerance=0.1, delta=0.1), means=[[0.0]] * 4)
    >>> bechhofer_samples([truth])
    2408
    """
    problem = instances[0].problem
    if not problem.tolerance or problem.top > 1 or problem.rho is not None:
        return None
    return bechhofer_draws(instances, problem.tolerance) * problem.cell_count


def bechhofer(instance: Instance, draws: int, *, runs: int, seed: int) -> Selection:
    """Simulate Bechhofer's procedure: after `draws` draws per cell, each agent names the arm with its best estimate."""
    errors = np.random.default_rng(seed).standard_normal((runs, *instance.means.shape))
    found = instance.problem.mixed(instance.means + errors * np.sqrt(cell_variances(instance) / draws))
    ones = np.ones(runs, dtype=np.int64)
    return Selection(samples=ones * draws * instance.problem.cell_count, rounds=ones, chosen=found.argmax(axis=-2))


def kn(
    instance: Instance,
    zone: float,
    *,
    estimated: bool = False,
    looks: int | None = None,
    runs: int,
    seed: int,
) -> Selection:
    """Simulate KN with c = 1: a look after every draw of the needed cells, or `looks` evenly spaced looks.

    The variance S^2 of every difference of an agent's mixed rewards is known, or `estimated` once from the first draws.
    After r draws of each cell, an agent drops an arm when another is ahead by
    `max(0, h^2 S^2 / (2 zone r) - zone / 2)`, with h^2 from `kn_limit` or `kn_constants`; `zone` is the
    smallest difference that matters.
    Less frequent looks only make false drops rarer (Jennison, Johnstone and Turnbull 1982).
    """
    problem, rng, scales = instance.problem, np.random.default_rng(seed), np.sqrt(cell_variances(instance))
    (arms, agents), level = problem.shape, problem.delta / problem.question_count
    sums, drawn = np.zeros((runs, arms, agents)), np.zeros(runs)
    if estimated:
        start = instance.means + scales * rng.standard_normal((FIRST, runs, arms, agents))
        mixed = problem.mixed(start)
        spread = (mixed[..., :, None, :] - mixed[..., None, :, :]).var(axis=0, ddof=1)
        square, sums, drawn = kn_constants(arms, level, FIRST)[1], start.sum(axis=0), drawn + FIRST
    else:
        each = np.square(scales) @ problem.squared_weights
        spread = np.broadcast_to(each[:, None] + each, (runs, arms, arms, agents))
        square = kn_limit(arms, level)
    # After this many draws the line is 0, so at most one arm remains.
    last = np.maximum(np.floor(square * spread.max(axis=(1, 2, 3)) / zone**2) + 1, drawn)
    samples, rounds = drawn * problem.cell_count, np.zeros(runs, dtype=np.int64)
    alive, steps = np.ones((runs, arms, agents), dtype=np.bool_), looks or min(int(last.max()), MOST_LOOKS)
    for step in range(1, steps + 1):
        open_ = alive.sum(axis=1) > 1
        live = np.flatnonzero(open_.any(axis=-1))
        if not live.size:
            break
        time = np.maximum(np.ceil(last[live] * (step / steps)), drawn[live])
        more = (time - drawn[live])[:, None, None]
        noise = rng.standard_normal((len(live), arms, agents))
        sums[live] += more * instance.means + np.sqrt(more) * scales * noise
        samples[live] += more[:, 0, 0] * _needed(problem, alive[live], open_[live])
        drawn[live], rounds[live] = time, rounds[live] + 1
        means = problem.mixed(sums[live]) / time[:, None, None]
        line = np.maximum(square * spread[live] / (2 * zone * time[:, None, None, None]) - zone / 2, 0.0)
        beaten = (alive[live][:, None] & (means[:, None] - means[:, :, None] > line)).any(axis=2)
        alive[live] &= ~(beaten & open_[live][:, None])
    return Selection(samples=samples, rounds=rounds, chosen=alive.argmax(axis=1))


def _needed(problem: Problem, alive: BoolArray, open_: BoolArray) -> IntArray:
    """`(run,)`: the number of cells to draw.

    A cell is drawn if its arm remains for an undecided agent with weight on the site.
    """
    wanted = (alive & open_[:, None]).astype(np.float64) @ (problem.weights > 0).T.astype(np.float64)
    return np.asarray((wanted > 0).sum(axis=(1, 2)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DroppingTrial:
    """A multi-arm multi-stage trial under one truth, to be run at any size with the same random errors.

    Looks are at even shares of the information, and spend the level as O'Brien and Fleming's do. With K arms,
    Bonferroni's correction counts K - 1 comparisons per question. An agent drops an arm when another is proven better.
    The agent's leader becomes its answer once no other arm can be better by the tolerance.
    """

    instance: Instance
    errors: FloatArray  # (look, run, arm, agent): errors of cells' sums up to a look, for one draw between looks
    lines: FloatArray  # (look,): critical values

    @classmethod
    def of(cls, instance: Instance, *, seed: int, runs: int, looks: int = LOOKS) -> DroppingTrial:
        """A trial of an instance, with all random errors drawn now, so that every size uses the same errors."""
        problem = instance.problem
        tests = problem.question_count * (problem.arm_count - 1)
        drawn = np.random.default_rng(seed).standard_normal((looks, runs, *instance.means.shape))
        return cls(
            instance=instance,
            errors=(drawn * np.sqrt(cell_variances(instance))).cumsum(axis=0),
            lines=even_boundaries(looks, problem.delta / tests),
        )

    def run(self, draws: float) -> Selection:
        """Run the trial with at most `draws` draws per cell; agents without proof at the last look name no arm."""
        problem, (looks, runs, arms, agents) = self.instance.problem, self.errors.shape
        variances, each = cell_variances(self.instance) @ problem.squared_weights, draws / looks
        alive, open_ = np.ones((runs, arms, agents), dtype=np.bool_), np.ones((runs, agents), dtype=np.bool_)
        samples, rounds = np.zeros(runs), np.zeros(runs, dtype=np.int64)
        chosen = np.full((runs, agents), -1)
        for look in range(looks):
            live = np.flatnonzero(open_.any(axis=-1))
            if not live.size:
                break
            samples[live] += each * _needed(problem, alive[live], open_[live])
            rounds[live] += 1
            past = (look + 1) * each
            means = problem.mixed(self.instance.means + self.errors[look][live] * (math.sqrt(each) / past))
            ahead = means[:, None] - means[:, :, None]  # [run, i, l, agent]: of l over i
            width = self.lines[look] * np.sqrt((variances[:, None] + variances) / past)
            left = alive[live]
            leader = np.where(left, means, -np.inf).argmax(axis=1)
            lead = np.take_along_axis(-ahead + problem.tolerance >= width, leader[:, None, None], axis=1)[:, 0]
            itself = np.arange(arms)[:, None] == leader[:, None]
            left &= ~((left[:, None] & (ahead >= width)).any(axis=2) & open_[live][:, None])
            proven = (lead | ~left | itself).all(axis=1) & open_[live]
            chosen[live] = np.where(proven, leader, chosen[live])
            alive[live], open_[live] = left, open_[live] & ~proven
        return Selection(samples=samples, rounds=rounds, chosen=chosen)


@cache
def even_boundaries(looks: int, level: float) -> FloatArray:
    """`(look,)`: critical values of looks at even shares of the information, by O'Brien and Fleming's spending."""
    return spent_boundaries(tuple((look + 1) / looks for look in range(looks)), obrien_fleming_spending(level))
