"""Intervals for a mixed mean, or for the difference of two, at all phases at once; `docs/estimates.md` has the proofs.

A phase shows a contrast through its fresh draws, whose counts the past has fixed. Each interval is what a bet against
"the contrast is theta" leaves standing: by Ville's inequality the truth is ever ruled out with probability at most the
level, whatever number of phases and whatever counts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from parley.checks import BoolArray, FloatArray, IntArray
from parley.confidence.student import normal_score

__all__ = ["Interval", "Seen", "gaussian_interval", "gaussian_reach", "in_range", "stacked", "student_interval"]

FIRST = 0.25  # of the first phase's information: where the mixture over stakes is best is some 10 to 100 times that
DOUBLINGS, TURNS = 120, 16
FAR = 1e3  # steps to the other side of the centre, where no end is

Interval = tuple[FloatArray, FloatArray]  # ends, of one shape; infinite without data


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What phases show of contrasts, of one shape: `(phase, ..., arm, agent)` once stacked."""

    contrast: FloatArray  # its value by the fresh draws
    variance: FloatArray  # of it, by the past; the weight of the phase is one over it
    told: BoolArray  # everything it needs was drawn
    toll: FloatArray  # sum of a^2 (x - r)^2, where rewards lie in a range
    third: FloatArray  # sum of a^3 (x - r)^3, where that is known
    fourth: FloatArray  # sum of a^4 (x - r)^4, likewise
    reach: FloatArray  # at least every |a (x - r)|
    estimated: FloatArray  # its variance otherwise: by the fresh draws alone, or by the range alone
    degrees: FloatArray  # its degrees of freedom

    def of(self, agents: slice) -> Seen:
        """Of some agents alone."""
        return replace(self, **{field.name: getattr(self, field.name)[..., agents] for field in fields(self)})

    def against(self, reference: IntArray) -> Seen:
        """Every arm minus the arm `reference (..., agent)`."""
        place = np.broadcast_to(reference[..., None, :], (*self.contrast.shape[:-2], 1, self.contrast.shape[-1]))

        def other(values: FloatArray) -> FloatArray:
            return np.take_along_axis(values, place, axis=-2)

        return Seen(
            contrast=self.contrast - other(self.contrast),
            variance=self.variance + other(self.variance),
            told=self.told & np.take_along_axis(self.told, place, axis=-2),
            toll=self.toll + other(self.toll),
            third=self.third - other(self.third),
            fourth=self.fourth + other(self.fourth),
            reach=np.maximum(self.reach, other(self.reach)),
            estimated=self.estimated + other(self.estimated),
            degrees=np.minimum(self.degrees, other(self.degrees)),
        )

    def weights(self, told: BoolArray) -> tuple[FloatArray, FloatArray]:
        """`(phase, ...)` of every phase: one over its variance, 0 where nothing is told; and that of the first told."""
        each = np.where(told, 1 / np.where(told, self.variance, 1.0), 0.0)
        first = np.take_along_axis(each, np.argmax(told, axis=0)[None], axis=0)[0]
        return each, first


def stacked(seen: list[Seen]) -> Seen:
    """Phases one after the other, as a first axis."""
    parts = {field.name: np.stack([getattr(one, field.name) for one in seen]) for field in fields(Seen)}
    return replace(seen[0], **parts)


def in_range(
    seen: Seen, around: FloatArray, depth: FloatArray, counts: IntArray, weights: FloatArray, variance: float
) -> Seen:
    """With toll and reach: `around (..., arm, agent)` is the sum of (x - r)^2 of each cell, no |x - r| exceeds
    `depth`, and `variance` is what the range alone allows.
    """
    reciprocals = np.divide(1.0, counts, out=np.zeros(counts.shape), where=counts > 0)
    reach, squared = np.zeros(counts.shape), np.square(weights)
    for agent, row in enumerate(weights):
        np.maximum(reach, (depth * reciprocals)[..., agent, None] * row, out=reach)
    toll = (around * np.square(reciprocals)) @ squared
    return replace(seen, toll=toll, reach=reach, estimated=variance * (reciprocals @ squared))


def _reach(information: FloatArray, first: FloatArray, line: float) -> FloatArray:
    return gaussian_reach(information, FIRST * np.where(first > 0, first, 1.0), line)


def gaussian_reach(information: FloatArray, prior: FloatArray, line: float) -> FloatArray:
    """How far a martingale with this quadratic variation strays: the boundary of a Gaussian mixture of stakes."""
    return np.asarray(np.sqrt((information + prior) * (2 * line + np.log1p(information / prior))))


def _between(centre: FloatArray, radius: FloatArray, known: BoolArray) -> Interval:
    return np.where(known, centre - radius, -np.inf), np.where(known, centre + radius, np.inf)


def gaussian_interval(seen: Seen, line: float) -> Interval:
    """Sub-Gaussian contrasts of known variance; `line` is the log of one over the level."""
    each, first = seen.weights(seen.told)
    information = each.sum(axis=0)
    divisor = np.where(first > 0, information, 1.0)
    centre = (each * seen.contrast).sum(axis=0) / divisor
    return _between(centre, _reach(information, first, line) / divisor, first > 0)


def student_interval(seen: Seen, line: float) -> Interval:
    """Gaussian rewards of unknown scale: normal scores of every phase's own Student's t, added up."""
    told = seen.told & (seen.degrees > 0) & (seen.estimated > 0)
    each, first = seen.weights(told)
    stakes, root = np.sqrt(each), np.sqrt(np.where(told, seen.estimated, 1.0))
    reach = _reach(each.sum(axis=0), first, line)
    divisor = np.where(first > 0, each.sum(axis=0), 1.0)
    centre = (each * seen.contrast).sum(axis=0) / divisor
    step = np.sqrt(np.square(each * root).sum(axis=0)) / divisor
    degrees = np.where(told, seen.degrees, 0.0)

    def excess(theta: FloatArray, sign: float) -> FloatArray:
        """How far the bet is beyond ruling out the contrast theta on the side of `sign`; it rises outwards."""
        t = sign * (theta - seen.contrast) / root
        score = np.copysign(normal_score(np.abs(t), degrees), t)
        return np.asarray((stakes * score).sum(axis=0) - reach)

    ends = []
    for sign in (-1.0, 1.0):
        out, above = step, excess(centre + sign * step, sign)
        within, below = np.zeros(first.shape), excess(centre, sign)
        # The score at the centre need not be 0: where it is already beyond, the end lies on the other side of it.
        within, below = np.where(below < 0, within, -FAR * step), np.where(below < 0, below, -reach)
        for _ in range(DOUBLINGS):
            short = (above < 0) & (first > 0)
            if not short.any():
                break
            within, below = np.where(short, out, within), np.where(short, above, below)
            out = np.where(short, 2 * out, out)
            above = np.where(short, excess(centre + sign * out, sign), above)
        known = (above >= 0) & (first > 0)
        for turn in range(TURNS):  # false position by Illinois, and now and then by halves: the end stays in between
            slope = np.where(known, above - below, 1.0)
            middle = (within + out) / 2 if turn % 4 == 3 else out - np.where(known, above / slope, 0.0) * (out - within)
            found = excess(centre + sign * middle, sign)
            over = found >= 0
            below = np.where(over, below / 2, found)
            above = np.where(over, found, above / 2)
            within, out = np.where(over, within, middle), np.where(over, middle, out)
        ends.append(np.where(known, centre + sign * out, sign * np.inf))
    return ends[0], ends[1]
