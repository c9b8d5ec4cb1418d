"""Federated best-arm identification by others: written here from the papers, for Gaussian rewards of scale 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaincc

from benchmarks.peer_rules import Floats, Peer

SHORTEST = 1e-3  # of estimated gaps: a tie of estimates would leave nothing to the other arms


@dataclass(frozen=True)
class Federated(Peer):
    """What a rule did, per replication; also what it cost to talk, and to wait for the busiest client."""

    numbers: Floats  # sent by clients to the server
    time: Floats  # draws of the client that drew most


def fed_elim(means: Floats, delta: float, runs: int, seed: int, *, sparsely: bool = True) -> Federated:
    """FedElim (Reddy, Karthik and Tan 2023): the best arm of each client, and the arm that is best on average.

    `means (arm, client)`. In step n a client draws its own candidates and the server's, once each. Clients eliminate
    after every step, arms that are behind by twice sqrt(2 log(8 K M n^2 / delta) / n); the server only when n is a
    power of 2, or always unless `sparsely`, by twice sqrt(2 log(8 K n^2 / delta) / (M n)). For that the clients send
    the means of the server's candidates, one number each.
    """
    generator, (arms, clients) = np.random.default_rng(seed), means.shape
    sums, rounds, numbers = np.zeros((runs, arms, clients)), np.zeros(runs), np.zeros(runs)
    draws = np.zeros((runs, arms, clients))
    local, shared = np.ones((runs, arms, clients), dtype=bool), np.ones((runs, arms, 1), dtype=bool)
    racing = np.arange(runs)
    for step in count(1):
        own, common = local[racing], shared[racing]
        drawn = (own & (own.sum(axis=1, keepdims=True) > 1)) | (common & (common.sum(axis=1, keepdims=True) > 1))
        draws[racing] += drawn
        sums[racing] += means + generator.standard_normal((len(racing), arms, clients))
        averages = sums[racing] / step  # of what is drawn; who stopped has been drawn less, and is not looked at
        own &= _not_behind(averages, own, 2 * math.sqrt(2 * math.log(8 * arms * clients * step**2 / delta) / step))
        open_ = common.sum(axis=(1, 2)) > 1
        if not sparsely or step & (step - 1) == 0:
            wide = 2 * math.sqrt(2 * math.log(8 * arms * step**2 / delta) / (clients * step))
            rounds[racing] += open_
            numbers[racing] += np.where(open_, clients * common.sum(axis=(1, 2)), 0)
            common &= _not_behind(averages.mean(axis=2, keepdims=True), common, wide)
        local[racing], shared[racing] = own, common
        undecided = (own.sum(axis=1) > 1).any(axis=1) | (common.sum(axis=(1, 2)) > 1)
        racing = racing[undecided]
        if not racing.size:
            break
    wrong = (local != _best(means)).any(axis=(1, 2)) | (shared != _best(means.mean(axis=1, keepdims=True))).any((1, 2))
    return Federated(draws.sum(axis=(1, 2)), rounds, wrong.astype(np.float64), numbers, draws.sum(axis=1).max(axis=1))


def _not_behind(values: Floats, among: NDArray[np.bool_], wide: float) -> NDArray[np.bool_]:
    return np.asarray(values > np.where(among, values, -np.inf).max(axis=1, keepdims=True) - wide)


def _best(means: Floats) -> NDArray[np.bool_]:
    """`(arm, ...)`: the best arm of every column."""
    return np.asarray(means == means.max(axis=0))


def het_ts(means: Floats, access: NDArray[np.bool_], delta: float, step: float, runs: int, seed: int) -> Federated:
    """Track-and-Stop of Chen, Karthik, Chee and Tan (arXiv 2210.07780): clients have some of the arms, `access (arm,
    client)`, and an arm is worth its mean over those who have it; each client looks for the best of its own arms.

    All clients draw one arm at every moment and talk at the times (1 + step)^r, rounded up. The server stops when the
    likelihood ratio of the nearest other answer exceeds K' log(t^2 + t) + x, where K' counts the pairs of client and
    arm and x is the delta-quantile of a Gamma variable of shape K'. In between a client tracks the shares that the
    server sent it, and first draws what it has drawn fewer than sqrt(t / its arms) times.
    """
    generator, (arms, clients) = np.random.default_rng(seed), means.shape
    pairs = int(access.sum())
    quantile = float(brentq(lambda x: gammaincc(pairs, x) - delta, 1e-9, 100 * (pairs - math.log(delta))))
    sharing = np.where(access, 1 / access.sum(axis=1, keepdims=True), 0.0)  # (arm, client): a client's part of an arm
    truth = _best(np.where(access, (sharing * means).sum(axis=1, keepdims=True), -np.inf))
    counts, sums = np.zeros((runs, arms, clients)), np.zeros((runs, arms, clients))
    shares = np.broadcast_to(access / access.sum(axis=0), counts.shape).copy()
    samples, rounds, wrong = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    racing, moment = np.arange(runs), 0
    own_arms = access.sum(axis=0)
    for turn in count(1):
        until = math.ceil((1 + step) ** turn)
        before = counts.copy()
        for now in range(moment, until):
            fewest = np.where(access, counts, np.inf)
            starved = fewest.min(axis=1) < np.sqrt(now / own_arms)
            wanted = np.where(access, now * shares - counts, -np.inf)
            arm = np.where(starved, fewest.argmin(axis=1), wanted.argmax(axis=1))[:, None, :]
            np.put_along_axis(counts, arm, np.take_along_axis(counts, arm, axis=1) + 1, axis=1)
        fresh = counts - before
        sums += fresh * means + np.sqrt(fresh) * generator.standard_normal(counts.shape)
        if until == moment or (counts[:, access] == 0).any():
            moment = until
            continue  # nothing new, or an arm that somebody has not drawn yet
        moment = until
        worth = (sharing * sums / np.maximum(counts, 1)).sum(axis=2)
        spread = (np.square(sharing) / np.maximum(counts, 1)).sum(axis=2)
        seen = np.where(access, worth[:, :, None], -np.inf)
        leader = seen.argmax(axis=1)
        rows = np.arange(len(racing))[:, None]
        gap = np.where(access, worth[rows, leader][:, None, :] - worth[:, :, None], np.inf)
        np.put_along_axis(gap, leader[:, None, :], np.inf, axis=1)
        ratio = np.square(gap) / (2 * (spread[rows, leader][:, None, :] + spread[:, :, None]))
        stop = ratio.min(axis=(1, 2)) > pairs * math.log(until**2 + until) + quantile
        rounds[racing] += 1
        ended = racing[stop]
        samples[ended] = clients * until
        answers = np.arange(arms)[:, None] == leader[stop][:, None, :]
        wrong[ended] = (answers != truth).any(axis=(1, 2))
        racing, counts, sums, gap, leader = racing[~stop], counts[~stop], sums[~stop], gap[~stop], leader[~stop]
        if not racing.size:
            break
        np.put_along_axis(gap, leader[:, None, :], gap.min(axis=1, keepdims=True), axis=1)
        shares = balanced_shares(np.maximum(gap.min(axis=2), SHORTEST), access)
    return Federated(samples, rounds, wrong, rounds * pairs, samples / clients)


def balanced_shares(gaps: Floats, access: NDArray[np.bool_], turns: int = 60) -> Floats:
    """`(run, arm, client)`: the shares that make the smallest gap_i^2 / (variance of arm i's estimate) largest.

    `gaps (run, arm)` are to the nearest rival at any client. A client draws its arms in proportion to one vector g for
    all clients, which is the largest eigenvector of (clients who have both arms) / (gap_i^2 clients_i^2) in every group
    of arms that clients connect. Squaring a power keeps groups apart.

    >>> shares = balanced_shares(np.array([[1.0, 1.0, 2.0]]), np.ones((3, 4), dtype=bool))
    >>> shares[0, :, 0].round(6).tolist()  # everybody has every arm: in proportion to 1 / gap^2
    [0.444444, 0.444444, 0.111111]
    """
    shared = access.astype(np.float64)
    both = shared @ shared.T
    matrix = both / np.square(gaps * shared.sum(axis=1))[:, :, None]
    vector = np.ones_like(gaps)
    linked = np.linalg.matrix_power(both, len(both)) > 0  # (arm, arm): in one group
    for _ in range(turns):
        vector = np.einsum("rij,rj->ri", matrix, vector)
        vector /= np.where(linked, vector[:, None, :], 0.0).max(axis=2)
    shares = np.where(access, vector[:, :, None], 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
