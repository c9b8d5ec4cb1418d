"""How large a gap is at least, at all phases at once: one bound for each thing that may be known of the variance.

Arm k loses to the N-th best arm of an agent by s. Among its N opponents of a phase one, fixed before the data, is no
better than that arm; so the smallest contrast, with the largest toll, can only understate s. `docs/rewards.md` has the
proofs. A bound goes on after the arm is out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from parley.checks import BoolArray, FloatArray, IntArray
from parley.confidence.evidence import gap_lower_bound
from parley.confidence.student import student_quantile_bound
from parley.totals import Totals

__all__ = ["Look", "betting_bound", "known_variance_bound", "student_bound"]

POWER = 8  # the largest of many numbers is at most the eighth root of the sum of their eighth powers
BASEL = math.log(6 / math.pi**2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """What a phase showed of every gap; `(..., opponent, arm, agent)` unless told."""

    contrast: FloatArray  # Y, opponent minus arm
    variance: FloatArray  # of it, as the past has it
    told: BoolArray  # (..., arm, agent): everything it needs was drawn
    opponents: IntArray
    phase: IntArray  # (...): betting phases so far, with this one
    weights: FloatArray
    past: Totals
    fresh: Totals
    line: float  # log of one over the level of a single pair
    scale: float  # a gap that may be expected

    def both(self, values: FloatArray) -> FloatArray:
        """Opponent plus arm, from `(..., arm, agent)`."""
        return np.take_along_axis(values[..., None, :, :], self.opponents, axis=-2) + values[..., None, :, :]


Bound = tuple[FloatArray, FloatArray, FloatArray]


def known_variance_bound(look: Look, signal: FloatArray, information: FloatArray) -> Bound:
    """Signal, information and bound after the phase, where a contrast is sub-Gaussian with known variance."""
    widest = look.variance.max(axis=-3)
    signal = signal + np.where(look.told, look.contrast.min(axis=-3) / widest, 0.0)
    information = information + np.where(look.told, 1 / widest, 0.0)
    return signal, information, gap_lower_bound(signal, information, line=look.line, scale=look.scale)


def betting_bound(
    look: Look, signal: FloatArray, information: FloatArray, *, around: FloatArray, width: float
) -> Bound:
    """Where rewards lie in a range of this `width`; `around (..., arm, agent)` is the sum of (x - r)^2 of each cell.

    exp(lam (Y - s) - lam^2 U / (2 (1 - lam B))) is fair for the gap s, with U = sum a^2 around and B at least every
    |a| times the width, since psi(y) <= y^2 / (2 (1 - y)). Its stake lam is fixed by the past. `signal` adds up
    logarithms, `information` stakes.
    """
    reciprocals = np.divide(1.0, look.fresh.counts, out=np.zeros(around.shape), where=look.fresh.counts > 0)
    toll = look.both((around * reciprocals**2) @ look.weights**2)
    reach = width * look.both(reciprocals**POWER @ look.weights**POWER) ** (1 / POWER)
    widest, farthest = look.variance.max(axis=-3, keepdims=True), reach.max(axis=-3, keepdims=True)
    wished = np.sqrt(2 * look.line / np.maximum(widest, 1e-300))
    stake = wished / (1 + wished * farthest)
    won = stake * look.contrast - stake**2 * toll / (2 * (1 - stake * farthest))
    signal = signal + np.where(look.told, won.min(axis=-3), 0.0)
    information = information + np.where(look.told, stake[..., 0, :, :], 0.0)
    none = np.full(signal.shape, -np.inf)
    return signal, information, np.divide(signal - look.line, information, out=none, where=information > 0)


def student_bound(
    look: Look, signal: FloatArray, information: FloatArray, *, estimated: FloatArray, degrees: FloatArray
) -> Bound:
    """Gaussian rewards of unknown scale: the phase's own interval, the t-th at the share 6 / (pi t)^2 of the level.

    `estimated` is the variance of a contrast from the fresh draws, `degrees (..., arm, agent)` its degrees of freedom.
    Nothing adds up; the best of all phases is kept.
    """
    order = np.maximum(look.phase, 1)[..., None, None]
    level = BASEL - 2 * np.log(order) - look.line
    reach = np.where(look.told, student_quantile_bound(level, degrees), np.inf)
    root = np.sqrt(estimated.max(axis=-3))
    known = np.isfinite(reach)
    lower = look.contrast.min(axis=-3) - np.where(known, reach, 0.0) * root
    return signal, information, np.where(known, lower, -np.inf)
