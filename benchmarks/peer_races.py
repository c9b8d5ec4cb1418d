"""More published algorithms for one agent: KL-LUCB, successive elimination (also in batches), Tri-BBAI, Opt-BBAI."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Self

import numpy as np

from benchmarks.peer_rules import Family, Floats, Peer, Runs, likelihood_ratios, optimal_shares

POWER, FACTOR = 1.1, 405.5  # alpha and k1 of Kaufmann and Kalyanakrishnan's Theorem 1, as in their experiments


def kl_lucb(family: Family, means: Floats, delta: float, runs: int, seed: int) -> Peer:
    """KL-LUCB (Kaufmann and Kalyanakrishnan 2013, Theorem 1): draws the leader and its likeliest rival in every round.

    With x = log(k1 K t^alpha / delta), the exploration rate is x + log(x); alpha is 1.1 and k1 is 405.5.
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
    """Looks of successive elimination, as draws per arm: after every draw."""
    yield from count(1)


def geometric(first: int, growth: float) -> Iterator[int]:
    """Looks of successive elimination, as draws per arm: at the ends of geometrically growing batches.

    >>> from itertools import islice
    >>> list(islice(geometric(20, 2.5), 3))
    [20, 50, 125]
    """
    size = float(first)
    while True:
        yield math.ceil(size)
        size *= growth


def elimination(family: Family, means: Floats, delta: float, looks: Iterator[int], runs: int, seed: int) -> Peer:
    """Successive elimination (Even-Dar, Mannor and Mansour 2006), with looks after `looks` draws of every arm.

    At the b-th look an arm is eliminated if another is ahead by the quantile of a difference at level delta / ((K - 1)
    b (b + 1)). These levels add up to delta over looks and rivals, so the best arm is ever eliminated with probability
    at most delta.
    """
    generator, arms = np.random.default_rng(seed), len(means)
    sums, active = np.zeros((runs, arms)), np.ones((runs, arms), dtype=bool)
    samples, rounds = np.zeros(runs), np.zeros(runs)
    racing, before = np.arange(runs), 0
    for look, draws in enumerate(looks, start=1):
        live = active[racing]
        fresh = family.draw(generator, np.broadcast_to(means, live.shape), np.int64(draws - before))
        sums[racing] += np.where(live, fresh, 0.0)
        samples[racing] += (draws - before) * live.sum(axis=1)
        rounds[racing] += 1
        wide = math.sqrt(2 / draws) * family.quantile(delta / ((arms - 1) * look * (look + 1)))
        behind = np.where(live, sums[racing] / draws, -np.inf)
        active[racing] = live & (behind > behind.max(axis=1, keepdims=True) - wide)
        racing, before = racing[active[racing].sum(axis=1) > 1], draws
        if not racing.size:
            break
    return Peer(samples, rounds, (~active[:, np.argmax(means)]).astype(np.float64))


@dataclass(frozen=True)
class Batches:
    """The constants of Tri-BBAI and Opt-BBAI (Jin, Yang, Tang, Xiao and Xu 2023)."""

    first: float  # L1: draws of every arm in the first batch
    most: float  # L2: largest number of draws of an arm in the second batch
    last: float  # L3: draws of every arm in the last batch, which decides if the test has failed
    shift: float  # epsilon: for planning, the leader counts as worse by this much and the others as better
    power: float  # alpha: the second batch has alpha T* log(1 / delta) draws

    @classmethod
    def as_proven(cls, delta: float, arms: int, power: float = math.e / 2) -> Self:
        """The constants of the theorem of Tri-BBAI, which allows any alpha between 1 and e / 2."""
        nats = -math.log(delta)
        return cls(math.sqrt(nats), nats * math.log(nats) / arms, nats**2, 1 / math.log(nats), power)

    def kinder(self, first: int) -> Self:
        """Our more favourable choice: a well-sized first batch, no shift, and no limit on the second batch."""
        return replace(self, first=first, most=math.inf, shift=0.0)


def batched(
    family: Family, means: Floats, delta: float, constants: Batches, runs: int, seed: int, *, eliminating: bool
) -> Peer:
    """Tri-BBAI, or Opt-BBAI if `eliminating`: proportions from a short first batch, then a test, then a fallback.

    After the second batch the leader is the answer if its likelihood ratio against every other arm reaches
    log(log(2 / delta) t^alpha 2 / delta). Otherwise Tri-BBAI draws every arm up to L3 times and takes the best mean.
    Opt-BBAI eliminates instead, from fresh draws, in rounds r whose precision 2^-r / 4 halves, with delta / 2 spread
    over arms and rounds. Its check whether the best arm was eliminated bounds the cost of an event rarer than delta,
    and is left out.
    """
    state, arms = Runs(family, means, runs, seed), len(means)
    state.draw_to(np.full((runs, arms), math.ceil(constants.first)))
    estimates, rows = state.means, np.arange(runs)
    planned, leader = estimates + constants.shift, np.argmax(estimates, axis=1)
    planned[rows, leader] -= 2 * constants.shift
    shares, _ = optimal_shares(family, planned)
    _, rate = likelihood_ratios(family, shares, shares * planned)  # information per draw in these proportions: 1 / T*
    wanted = constants.power * -math.log(delta) / np.maximum(rate.min(axis=1, keepdims=True), 1e-9) * shares
    state.draw_to(np.ceil(np.minimum(np.minimum(wanted, constants.most), 2.0**40)))
    leader, ratio = likelihood_ratios(family, state.counts, state.sums)
    total = state.counts.sum(axis=1, keepdims=True)
    line = math.log(math.log(2 / delta)) + constants.power * np.log(total) + math.log(2 / delta)
    failed, rounds = ~(ratio >= line).all(axis=1), np.full(runs, 2.0)
    if not eliminating:
        state.draw_to(np.where(failed, math.ceil(constants.last), 0)[:, None])
        leader = np.where(failed, np.argmax(state.means, axis=1), leader)
        samples, rounds = state.counts.sum(axis=1), rounds + failed
    else:
        fresh, active = Runs(family, means, runs, seed + 1), np.repeat(failed[:, None], arms, axis=1)
        for turn in count(1):
            racing = active.sum(axis=1) > 1
            if not racing.any():
                break
            precision, level = 2.0**-turn / 4, delta / (2 * arms * turn * (turn + 1))
            enough = math.ceil((family.quantile(level) / precision) ** 2)
            fresh.draw_to(np.where(active & racing[:, None], enough, 0))
            behind = np.where(active, fresh.means, -np.inf)
            leader = np.where(racing, np.argmax(behind, axis=1), leader)
            active &= behind >= behind.max(axis=1, keepdims=True) - 2 * precision
            rounds += racing
        samples = state.counts.sum(axis=1) + failed * fresh.counts.sum(axis=1)
    return Peer(samples, rounds, (leader != np.argmax(means)).astype(np.float64))
