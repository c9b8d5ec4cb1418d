"""Yes or no: what a bet on a weighted sum of 0/1 rewards pays, with no scale to state.

Draw i of a contrast has the coefficient a_i = +w / d (opponent) or -w / d (arm), so that Y = sum a_i x_i estimates the
gap theta. For reference rates r fixed by the past and a stake lam >= 0 that keeps every factor positive,

    f = exp(lam theta_r) prod_i (1 + lam a_i (x_i - r_i)),   theta_r = sum a_i r_i,

has expectation exp(lam theta_r) prod (1 + lam a_i (mu_i - r_i)) <= exp(lam theta), which is at most 1 where the
opponent is no better. A cell needs only its count d and its number of ones s. Any r is fair; the best one is the past
estimate moved onto theta_r = 0 by the least Kullback-Leibler divergence: f is then the likelihood ratio of the estimate
against its projection. Arrays are `(bet, side, agent)`, the opponent first, `shares` signed; a mixture of stakes is the
last axis.
"""

from __future__ import annotations

import numpy as np

from parley.checks import FloatArray

__all__ = ["log_ratios", "null_reference", "stake_limit"]

NEWTON_STEPS = 2  # towards the projection; any reference is fair, so none of them needs to be exact
LIMIT = 0.9  # of the stake at which a factor would vanish
SMALLEST_RATE = 1e-9
ROUNDING = 4e-16  # taken off per draw: logarithms of factors near 1 are rounded in the last place


def null_reference(
    shares: FloatArray, counts: FloatArray, rates: FloatArray, shift: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """The reference `(bet, side, agent)` nearest to `rates` with no gap left, and the multiplier that leads there.

    It solves (q - r) / (r (1 - r)) = kappa a with theta_r + shift = 0; where the rates see no gap they are the
    reference. With a `shift` the bet is on "the gap is more than -shift".

    >>> shares = np.array([[[0.1], [-0.1]]])
    >>> rates, multiplier = null_reference(shares, np.full((1, 2, 1), 10.0), np.array([[[0.5], [0.3]]]))
    >>> rates.round(3).ravel().tolist(), multiplier.round(2).tolist()
    ([0.4, 0.4], [4.17])
    """
    weighed = counts * shares
    gap = (weighed * rates).sum(axis=(1, 2)) + shift
    variance = (weighed * shares * rates * (1 - rates)).sum(axis=(1, 2))
    ahead = gap > 0
    multiplier = np.where(ahead, gap / variance, 0.0)
    for _ in range(NEWTON_STEPS):
        reference, root = _moved(shares, rates, multiplier)
        left = (weighed * reference).sum(axis=(1, 2)) + shift
        slope = (weighed * shares * reference * (1 - reference) / root).sum(axis=(1, 2))
        multiplier = np.where(ahead, np.maximum(multiplier + left / np.maximum(slope, 1e-300), 0.0), 0.0)
    reference, _ = _moved(shares, rates, multiplier)
    return np.clip(reference, SMALLEST_RATE, 1 - SMALLEST_RATE), multiplier


def _moved(shares: FloatArray, rates: FloatArray, multiplier: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The root r in [0, 1] of q - r = c r (1 - r) with c = kappa a, and the discriminant's root."""
    step = multiplier[:, None, None] * shares
    root = np.sqrt(np.maximum(np.square(1 + step) - 4 * step * rates, 1e-12))
    return 2 * rates / np.maximum(1 + step + root, 1e-12), root


def stake_limit(shares: FloatArray, reference: FloatArray) -> FloatArray:
    """`(bet,)`: the stake that leaves every factor at least 1 - LIMIT, whatever the rewards."""
    worst = np.where(shares > 0, shares * reference, -shares * (1 - reference)).max(axis=(1, 2))
    return np.asarray(LIMIT / np.maximum(worst, 1e-300))


def log_ratios(
    shares: FloatArray,
    counts: FloatArray,
    ones: FloatArray,
    expected: FloatArray,
    reference: FloatArray,
    stakes: FloatArray,
    shift: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """log f `(bet, mixture)` for the `ones` that came, and for those `expected` before: the growth to choose by.

    With a `shift` times exp(lam shift), which is fair where theta is at most -shift.

    >>> shares, counts = np.array([[[0.5], [-0.5]]]), np.full((1, 2, 1), 2.0)
    >>> rates, stakes = np.full((1, 2, 1), 0.5), np.array([[1.0]])
    >>> chances = {0.0: 0.25, 1.0: 0.5, 2.0: 0.25}  # at a tie: f is fair, to the last outcome
    >>> pays = lambda j, k: log_ratios(shares, counts, np.array([[[j], [k]]]), counts, rates, stakes)[0]
    >>> float(sum(p * q * np.exp(pays(j, k))[0, 0] for j, p in chances.items() for k, q in chances.items()).round(12))
    1.0
    """
    scaled = stakes[:, None, None, :] * shares[..., None]
    up, down = np.log(1 + scaled * (1 - reference[..., None])), np.log(1 - scaled * reference[..., None])
    level = stakes * ((counts * shares * reference).sum(axis=(1, 2)) + shift)[:, None]
    base = level + np.einsum("bsn,bsni->bi", counts, down) - ROUNDING * counts.sum(axis=(1, 2))[:, None]
    up -= down
    return (
        np.asarray(base + np.einsum("bsn,bsni->bi", ones, up)),
        np.asarray(base + np.einsum("bsn,bsni->bi", expected, up)),
    )
