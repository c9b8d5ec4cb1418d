"""Intervals where rewards lie in a range: one wealth from many stakes, both sides and the range alone.

Wealth is a mixture, so that it pays for the choice of a stake once and little; as a function of the contrast its
logarithm is convex, and Newton's method from outside finds the ends without ever stepping over them.
`docs/estimates.md` has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.checks import FloatArray
from parley.rewards.intervals import Interval, Seen, gaussian_reach

__all__ = ["range_interval"]

STAKES = 2.0 * 4.0 ** np.arange(5)  # times the first phase's information: for which ends the stakes are good
PLAIN = 0.1  # of the wealth goes to the bound by the range alone
LONGER = 1.5  # what the mixture adds to the line, about
STEPS = 14


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bets:
    """Wealth against "the contrast is theta": exp(won - rate theta) for each stake and side, and a parabola."""

    won: FloatArray  # (stake and side, ...): with the share of the wealth that was put on it
    rate: FloatArray  # (stake and side, ...)
    signal: FloatArray  # (...): of the bound by the range alone
    information: FloatArray
    prior: FloatArray

    def log_wealth(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its logarithm, and the slope of that."""
        total, rest = self.information + self.prior, self.signal - self.information * theta
        plain = np.log(PLAIN) + 0.5 * np.log(self.prior / total) + np.square(rest) / (2 * total)
        logs = np.concatenate([self.won - self.rate * theta, plain[None]])
        slopes = np.concatenate([-self.rate, (-self.information * rest / total)[None]])
        most = logs.max(axis=0)
        parts = np.exp(logs - most)
        whole = parts.sum(axis=0)
        return most + np.log(whole), (parts * slopes).sum(axis=0) / whole


def range_interval(seen: Seen, line: float, *, cubes: bool = False) -> Interval:
    """Where contrasts lie; `cubes` says that third and fourth powers are known, and with them how bets really grow."""
    each, first = seen.weights(seen.told)
    known = first > 0
    bets = _bets(seen, line, each, np.where(known, first, 1.0), cubes=cubes)
    divisor = np.where(known, bets.information, 1.0)
    centre = bets.signal / divisor
    radius = gaussian_reach(bets.information, bets.prior, line - np.log(PLAIN)) / divisor
    ends = []
    for sign in (-1.0, 1.0):
        side = bets.rate * sign < 0  # a bet on "larger" rules out what is small
        lone = np.where(side, (bets.won - line) / np.where(side, bets.rate, 1.0), sign * np.inf)
        nearest = lone.max(axis=0) if sign < 0 else lone.min(axis=0)
        end = np.maximum(centre - radius, nearest) if sign < 0 else np.minimum(centre + radius, nearest)
        for _ in range(STEPS):
            wealth, slope = bets.log_wealth(end)
            outside = (slope * sign > 0) & (wealth > line)
            end = np.where(outside, end - (wealth - line) / np.where(outside, slope, 1.0), end)
        ends.append(np.where(known, end, sign * np.inf))
    return ends[0], ends[1]


def _bets(seen: Seen, line: float, each: FloatArray, first: FloatArray, *, cubes: bool) -> _Bets:
    share, won, rate = np.log((1 - PLAIN) / (2 * len(STAKES))), [], []
    for stake in STAKES:
        wished = each * np.sqrt(2 * (line + LONGER) / (stake * first))
        stakes = wished / (1 + wished * seen.reach)
        for sign in (-1.0, 1.0):
            paid = _exact_toll(seen, stakes, sign) if cubes else _toll(seen, stakes)
            won.append(share + (sign * stakes * seen.contrast - paid).sum(axis=0))
            rate.append(sign * stakes.sum(axis=0))
    plain = np.where(seen.told, 1 / np.where(seen.told, seen.estimated, 1.0), 0.0)
    prior = np.take_along_axis(plain, np.argmax(seen.told, axis=0)[None], axis=0)[0]
    return _Bets(
        won=np.stack(won),
        rate=np.stack(rate),
        signal=(plain * seen.contrast).sum(axis=0),
        information=plain.sum(axis=0),
        prior=np.where(prior > 0, prior, 1.0),
    )


def _toll(seen: Seen, stakes: FloatArray) -> FloatArray:
    """What a bet pays for its scatter, from second powers alone: log(1 + y) >= y - y^2 psi(r) / r^2 for |y| <= r."""
    return np.asarray(np.square(stakes) * psi_rate(stakes * seen.reach) * seen.toll)


def _exact_toll(seen: Seen, stakes: FloatArray, sign: float) -> FloatArray:
    """The same to the fourth power: log(1 + y) >= y - y^2 / 2 + y^3 / 3 - y^4 times the rest's largest rate."""
    square = np.square(stakes)
    odd = sign * square * stakes * seen.third / 3
    return np.asarray(square * seen.toll / 2 - odd + np.square(square) * rest_rate(stakes * seen.reach) * seen.fourth)


def psi_rate(y: FloatArray) -> FloatArray:
    """(-log(1 - y) - y) / y^2, which rises with y from 1/2; rounded up."""
    plain = np.maximum(y, 1e-3)
    return np.where(y > 1e-3, -(np.log1p(-plain) + plain) / np.square(plain) * (1 + 1e-9), 1 / (2 * (1 - y)))


def rest_rate(y: FloatArray) -> FloatArray:
    """(-log(1 - y) - y - y^2 / 2 - y^3 / 3) / y^4, which rises with y from 1/4; rounded up."""
    plain = np.maximum(y, 0.05)
    rest = -(np.log1p(-plain) + plain + np.square(plain) / 2 + plain**3 / 3) / plain**4
    return np.where(y > 0.05, rest * (1 + 1e-8), 0.25 + 0.2 * y / (1 - y))
