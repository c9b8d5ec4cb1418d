"""Other rules for one agent: KL-LUCB, and successive elimination one by one or in batches."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from benchmarks.peer_rules import Family, Floats, Peer, Runs

POWER, FACTOR = 1.1, 405.5  # alpha and k1 of Kaufmann and Kalyanakrishnan's Theorem 1, the values of their experiments


def kl_lucb(family: Family, means: Floats, delta: float, runs: int, seed: int) -> Peer:
    """Kaufmann and Kalyanakrishnan 2013 (Theorem 1): the leader and its likeliest rival are drawn in every round.

    Exploration rate log(k1 K t^alpha / delta) + log of the same; alpha 1.1, k1 405.5.
    """
    state, arms = Runs(family, means, runs, seed), len(means)
    samples, rounds, wrong = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    turn = 1
    while True:
        rate = math.log(FACTOR * arms * turn**POWER / delta)
        budget = (rate + math.log(rate)) / state.counts
        estimates, rows = state.means, np.arange(len(state.members))
        leader = np.argmax(estimates, axis=1)
        upper = family.upper(estimates, budget)
        upper[rows, leader] = -np.inf
        rival = np.argmax(upper, axis=1)
        own = estimates[rows, leader]
        lower = family.upper(own, budget[rows, leader], sign=-1)
        over = upper[rows, rival] <= lower
        ended = state.members[over]
        samples[ended], rounds[ended] = state.counts[over].sum(axis=1), turn
        wrong[ended] = leader[over] != np.argmax(means)
        state.keep(~over)
        if not state.members.size:
            return Peer(samples, rounds, wrong)
        state.draw(leader[~over])
        state.draw(rival[~over])
        turn += 1


def every_draw() -> Iterator[int]:
    """Draws of an arm at which successive elimination looks: all."""
    count = 0
    while True:
        count += 1
        yield count


def geometric(first: int, growth: float) -> Iterator[int]:
    """Draws of an arm at the ends of batches.

    >>> from itertools import islice
    >>> list(islice(geometric(20, 2.5), 3))
    [20, 50, 125]
    """
    size = float(first)
    while True:
        yield math.ceil(size)
        size *= growth


def elimination(family: Family, means: Floats, delta: float, looks: Iterator[int], runs: int, seed: int) -> Peer:
    """Successive elimination (Even-Dar, Mannor and Mansour 2006), looking after `looks` draws of every arm in the race.

    At its b-th look an arm goes when another is ahead by the quantile of a difference at delta / ((K - 1) b (b + 1)):
    these add up to delta over looks and rivals, so the best arm ever goes with probability at most delta.
    """
    generator, arms = np.random.default_rng(seed), len(means)
    sums, active = np.zeros((runs, arms)), np.ones((runs, arms), dtype=bool)
    samples, rounds = np.zeros(runs), np.zeros(runs)
    racing, before = np.arange(runs), 0
    for look, count in enumerate(looks, start=1):
        live = active[racing]
        fresh = family.draw(generator, np.broadcast_to(means, live.shape), np.int64(count - before))
        sums[racing] += np.where(live, fresh, 0.0)
        samples[racing] += (count - before) * live.sum(axis=1)
        rounds[racing] += 1
        wide = math.sqrt(2 / count) * family.quantile(delta / ((arms - 1) * look * (look + 1)))
        behind = np.where(live, sums[racing] / count, -np.inf)
        active[racing] = live & (behind > behind.max(axis=1, keepdims=True) - wide)
        racing, before = racing[active[racing].sum(axis=1) > 1], count
        if not racing.size:
            break
    return Peer(samples, rounds, (~active[:, np.argmax(means)]).astype(np.float64))
