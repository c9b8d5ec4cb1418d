"""Published algorithms for federated best-arm identification, implemented from the papers for Gaussian rewards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaincc

from benchmarks.peer_rules import Floats, Peer

SHORTEST = 1e-3  # least estimated gap: tied estimates would leave no draws for the other arms


@dataclass(frozen=True)
class Federated(Peer):
    """The results of an algorithm per replication, with its communication and the draws of the busiest client."""

    numbers: Floats  # sent by clients to the server
    time: Floats  # draws of the client with the most draws


def fed_elim(means: Floats, delta: float, runs: int, seed: int, *, sparsely: bool = True) -> Federated:
    """FedElim (Reddy, Karthik and Tan 2023): the best arm of each client, and the arm that is best on average.

    `means` are `(arm, client)`. In step n a client draws its own candidates and the server's, once each. After every
    step clients eliminate arms that are behind by twice sqrt(2 log(8 K M n^2 / delta) / n). The server eliminates by
    twice sqrt(2 log(8 K n^2 / delta) / (M n)), only when n is a power of 2 or, unless `sparsely`, after every step. For
    that, clients send the means of the server's candidates, one number each.
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
        averages = sums[racing] / step  # only of arms still drawn; eliminated arms have fewer draws and are not used
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
    """Track-and-Stop of Chen, Karthik, Chee and Tan (arXiv 2210.07780), in which clients have only some of the arms.

    `access (arm, client)` says who has an arm. The value of an arm is its mean over the clients that have it, and each
    client looks for the best of its own arms. All clients draw one arm per time step and communicate at the times (1 +
    step)^r, rounded up. The server stops when the likelihood ratio of the nearest other answer exceeds K' log(t^2 + t)
    + x, where K' is the number of pairs of client and arm, and x is the delta-quantile of a Gamma variable of shape K'.
    In between, a client tracks the shares that the server sent, but first draws arms that it has drawn fewer than
    sqrt(t / its arms) times.
    """
    generator, (arms, clients) = np.random.default_rng(seed), means.shape
    pairs = int(access.sum())
    quantile = float(brentq(lambda x: gammaincc(pairs, x) - delta, 1e-9, 100 * (pairs - math.log(delta))))
    sharing = np.where(access, 1 / access.sum(axis=1, keepdims=True), 0.0)  # (arm, client): weight of a client
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
            continue  # no communication now, or some client has not drawn an arm yet
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
    """`(run, arm, client)`: the shares that maximise the smallest gap_i^2 / (variance of arm i's estimate).

    `gaps (run, arm)` are to the nearest rival at any client. All clients draw their arms in proportion to the same
    vector g. Within every group of arms connected by clients, g is the top eigenvector of the matrix (clients that have
    both arms) / (gap_i^2 clients_i^2). Repeated squaring finds it and keeps groups apart.

    >>> shares = balanced_shares(np.array([[1.0, 1.0, 2.0]]), np.ones((3, 4), dtype=bool))
    >>> shares[0, :, 0].round(6).tolist()  # everybody has every arm: in proportion to 1 / gap^2
    [0.444444, 0.444444, 0.111111]
    """
    shared = access.astype(np.float64)
    both = shared @ shared.T
    matrix = both / np.square(gaps * shared.sum(axis=1))[:, :, None]
    vector = np.ones_like(gaps)
    linked = np.linalg.matrix_power(both, len(both)) > 0  # (arm, arm): whether both are in one group
    for _ in range(turns):
        vector = np.einsum("rij,rj->ri", matrix, vector)
        vector /= np.where(linked, vector[:, None, :], 0.0).max(axis=2)
    shares = np.where(access, vector[:, :, None], 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
