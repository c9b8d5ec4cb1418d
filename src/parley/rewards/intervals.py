"""Intervals for mixed means and their differences, and lower bounds on gaps, valid at all phases at once.

Every phase observes a contrast through fresh draws, whose counts were fixed before the phase. An interval contains all
theta that bets against "the contrast is theta" have not ruled out (Ville's inequality). docs/estimates.md has the
proofs, and docs/rewards.md the proofs for bounds on gaps. For rewards in a range, the wealth is a mixture of bets on
both sides, with many stakes, and of a bet that uses only the range. The log wealth is convex in theta, so Newton's
method from outside finds the ends of the interval without stepping over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from parley.totals import Totals
from parley.validation.checks import BoolArray, FloatArray, IntArray

FIRST = 0.25  # ratio of the prior to the first phase's information; a mixture is best at 10 to 100 times its prior
# Information at which a stake is best, in units of the study's expected information -> the stake's share of the wealth.
STAKES = {0.125: 0.1, 0.5: 0.4, 2.0: 0.35, 8.0: 0.1, 32.0: 0.05}
PLAIN = 0.05  # share of the wealth for the bet that uses only the range
LONGER = 1.5  # roughly how much the mixture adds to the line
STEPS = 14  # of Newton's method
# Stakes for Gaussian differences, by information in units of the first phase's: most studies have few phases, and the
# first is a large part of them.
FEW_PHASES = {2.5: 0.85, 15.0: 0.09, 90.0: 0.03, 540.0: 0.02, 3240.0: 0.01}
DOUBLINGS, TURNS = 120, 16  # limits on the search for an end: steps outwards, and steps of false position
FARTHEST = 8.0  # standard deviations: larger scores do not happen
CLOSE = 1e-7  # accuracy of an end, in steps
FAR = 1e3  # distance from the centre, in steps, beyond which no end can lie
ALL = np.zeros(1)  # log share of a single stake that holds all the wealth
ROUNDED_UP = 1e-6  # relative safety margin of `noise_toll`, more than that of `rest_rate`
POWER = 8  # a maximum is bounded by the eighth root of the sum of eighth powers

Interval = tuple[FloatArray, FloatArray]  # lower and upper ends, of equal shape; infinite without data
Bound = tuple[FloatArray, FloatArray, FloatArray]  # signal, information, and the lower bound on the gap


@dataclass(frozen=True, kw_only=True, eq=False)
class ContrastSummary:
    """Statistics of contrasts in a phase, `(..., arm, agent)`; `(phase, ..., arm, agent)` once stacked."""

    contrast: FloatArray  # the contrast's value in the fresh draws
    variance: FloatArray  # its variance, from the past; the weight of the phase is 1 / variance
    noise: FloatArray  # the part of the variance due to the noise of private reports
    observed: BoolArray  # whether all cells that the contrast needs were drawn
    second: FloatArray  # sum of a^2 (x - r)^2, for rewards in a range
    third_up: FloatArray  # upper bound on the sum of a^3 (x - r)^3, for rewards in a range
    third_down: FloatArray  # upper bound on minus that sum
    fourth_up: FloatArray  # upper bound on the sum of a^4 (x - r)^4, for a bet on "larger"
    fourth_down: FloatArray  # the same for a bet on "smaller"
    reach_up: FloatArray  # upper bound on every a (r - x), which is what a bet on "larger" can lose
    reach_down: FloatArray  # upper bound on every a (x - r), which is what a bet on "smaller" can lose
    estimated: FloatArray  # the contrast's variance from the fresh draws alone, or from the range alone
    degrees: FloatArray  # degrees of freedom of `estimated`

    def of(self, agents: slice) -> ContrastSummary:
        """The summary restricted to some agents."""
        return replace(self, **{field.name: getattr(self, field.name)[..., agents] for field in fields(self)})

    def first(self, phases: int) -> ContrastSummary:
        """The summary restricted to the first `phases` phases."""
        return replace(self, **{field.name: getattr(self, field.name)[:phases] for field in fields(self)})

    def against(self, reference: IntArray) -> ContrastSummary:
        """The summary of differences: every arm minus the agent's reference arm, given by `reference (..., agent)`."""
        place = np.broadcast_to(reference[..., None, :], (*self.contrast.shape[:-2], 1, self.contrast.shape[-1]))

        def other(values: FloatArray) -> FloatArray:
            return np.take_along_axis(values, place, axis=-2)

        return ContrastSummary(
            contrast=self.contrast - other(self.contrast),
            variance=self.variance + other(self.variance),
            noise=self.noise + other(self.noise),
            observed=self.observed & np.take_along_axis(self.observed, place, axis=-2),
            second=self.second + other(self.second),
            # The reference arm enters with a minus sign, so up and down are swapped for it.
            third_up=self.third_up + other(self.third_down),
            third_down=self.third_down + other(self.third_up),
            fourth_up=self.fourth_up + other(self.fourth_down),
            fourth_down=self.fourth_down + other(self.fourth_up),
            reach_up=np.maximum(self.reach_up, other(self.reach_down)),
            reach_down=np.maximum(self.reach_down, other(self.reach_up)),
            estimated=self.estimated + other(self.estimated),
            degrees=np.minimum(self.degrees, other(self.degrees)),
        )

    def pooled(self, observed: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Pool contrasts over phases by their information.

        Returns four arrays. The first is the information `(phase, ...)` of every phase: 1 / variance, or 0 where
        nothing was observed. The others are `(...)`: the information of the first phase that has any (0 if no phase
        has), the information of all phases (1 if no phase has any), and the pooled contrast.
        """
        each = np.where(observed, 1 / np.where(observed, self.variance, 1.0), 0.0)
        first = np.take_along_axis(each, np.argmax(observed, axis=0)[None], axis=0)[0]
        information = np.where(first > 0, each.sum(axis=0), 1.0)
        return each, first, information, (each * self.contrast).sum(axis=0) / information


def stack_phases(phases: list[ContrastSummary]) -> ContrastSummary:
    """Stack the summaries of several phases along a new first axis."""
    parts = {field.name: np.stack([getattr(one, field.name) for one in phases]) for field in fields(ContrastSummary)}
    return replace(phases[0], **parts)


def in_range(
    summary: ContrastSummary,
    fresh: Totals,
    around: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    variance: float,
) -> ContrastSummary:
    """Add higher powers and reaches to the summary, for rewards in a range.

    For rewards x and their reference r, `around (..., arm, agent)` is the sum of (x - r)^2 of each cell, r - x is at
    most `below`, and x - r is at most `above`. `variance` is the largest variance that the range allows. Reports
    contain no third powers, so third and fourth powers are bounded by the squares times the reach of their cell.
    """
    each, squared = fresh.per_draw, np.square(weights)
    squares = around * np.square(each)
    sides: dict[str, Any] = {}
    for side, depth in (("up", below), ("down", above)):
        most, reach = depth * each, np.zeros(each.shape)
        for agent, row in enumerate(weights):
            np.maximum(reach, most[..., agent, None] * row, out=reach)
        sides[f"third_{side}"] = -(squares * most) @ (squared * weights)
        sides[f"fourth_{side}"] = (squares * np.square(most)) @ np.square(squared)
        sides[f"reach_{side}"] = reach
    estimated = variance * (each @ squared) + summary.noise
    return replace(summary, second=squares @ squared, estimated=estimated, **sides)


def phase_reach(information: FloatArray, first: FloatArray, line: float) -> FloatArray:
    """`gaussian_reach` with a prior in proportion to the information of the `first` phase."""
    return gaussian_reach(information, FIRST * np.where(first > 0, first, 1.0), line)


def gaussian_reach(information: FloatArray, prior: FloatArray, line: float) -> FloatArray:
    """The boundary that a martingale crosses with probability at most exp(-line), by a Gaussian mixture of stakes.

    `information` is the quadratic variation of the martingale, `prior` the precision of the mixture.
    """
    return np.asarray(np.sqrt((information + prior) * (2 * line + np.log1p(information / prior))))


def _between(centre: FloatArray, radius: FloatArray, known: BoolArray) -> Interval:
    return np.where(known, centre - radius, -np.inf), np.where(known, centre + radius, np.inf)


def gaussian_interval(summary: ContrastSummary, line: float) -> Interval:
    """Intervals for sub-Gaussian contrasts of known variance, at level exp(-line)."""
    each, first, information, centre = summary.pooled(summary.observed)
    return _between(centre, phase_reach(each.sum(axis=0), first, line) / information, first > 0)


def staked_interval(
    summary: ContrastSummary,
    line: float,
    *,
    observed: BoolArray,
    root: FloatArray,
    score: Callable[[FloatArray], FloatArray],
    payoff: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
) -> Interval:
    """Intervals for differences that are the same in all phases: the values that no bet has ever ruled out.

    `score` takes the distance of a phase's contrast from theta, divided by the standard error `root`, and returns a
    score to bet on. `payoff(scores, stakes, missing)` is the log payoff of a stake before it is capped at the `missing`
    wealth. The log wealth increases with the score and with earlier gains, so every theta beyond an end is ruled out,
    and no theta between the ends.
    """
    each, first, information, centre = summary.pooled(observed)
    horizons, shares = (np.array(list(part)) for part in (FEW_PHASES, FEW_PHASES.values()))
    shape = (len(horizons), 2, *first.shape)  # (stake, side, ...)
    start = np.broadcast_to(np.log(shares / 2).reshape(-1, *(1,) * (first.ndim + 1)), shape)
    sharpest = np.sqrt(2 * (line + np.log(2.0)) / horizons).reshape(-1, *(1,) * (first.ndim + 1))
    sizes = np.sqrt(each / np.where(first > 0, first, 1.0))

    def excess(theta: FloatArray, sign: FloatArray) -> FloatArray:
        """The largest log wealth over all phases minus the line; theta is ruled out where this is at least 0."""
        won, most = start, np.full(shape[1:], -np.inf)
        for size, z in zip(sizes, score(sign * (theta - summary.contrast[:, None]) / root[:, None]), strict=True):
            stakes, missing = np.broadcast_to(sharpest * size, shape), line - won
            # Where only a score beyond FARTHEST could win the missing wealth, no boost is needed. Setting the missing
            # wealth to 0 skips its computation, which is most of the work.
            missing = np.where(missing < FARTHEST * stakes, missing, 0.0)
            won = won + payoff(np.broadcast_to(z, shape), stakes, missing)
            most = np.maximum(most, np.logaddexp.reduce(won, axis=0))
            won = np.minimum(won, line)
        return most - line

    step = np.sqrt(2 * line * np.square(each * root).sum(axis=0)) / information
    return outer_ends(excess, centre, step, first > 0)


def outer_ends(
    excess: Callable[[FloatArray, FloatArray], FloatArray], centre: FloatArray, step: FloatArray, known: BoolArray
) -> Interval:
    """The ends of intervals: the points on both sides of the centre where `excess(theta, sign)` reaches 0.

    `excess` increases outwards on the side given by `sign`. Both sides are computed at once, `(side, ...)`. `step` is
    roughly the distance of an end from the centre. Ends are approached from outside, so intervals are never too short.
    """
    sign = np.array([-1.0, 1.0]).reshape(2, *(1,) * centre.ndim)
    step = np.broadcast_to(step, (2, *step.shape))
    out, above = step, excess(centre + sign * step, sign)
    within, below = np.zeros(step.shape), excess(centre + 0 * sign, sign)
    # If the centre is ruled out already, the end lies on its other side.
    within, below = np.where(below < 0, within, -FAR * step), np.where(below < 0, below, -1.0)
    for _ in range(DOUBLINGS):
        short = (above < 0) & known
        if not short.any():
            break
        within, below = np.where(short, out, within), np.where(short, above, below)
        out = np.where(short, 2 * out, out)
        above = np.where(short, excess(centre + sign * out, sign), above)
    found = (above >= 0) & known
    for turn in range(TURNS):  # false position (Illinois), with occasional bisection: the end stays bracketed
        # Converged entries no longer change, so that the bits of an entry do not depend on the others.
        open_ = found & (out - within > CLOSE * step)
        if not open_.any():
            break
        slope = np.where(open_, above - below, 1.0)
        middle = (within + out) / 2 if turn % 4 == 3 else out - np.where(open_, above / slope, 0.0) * (out - within)
        value = excess(centre + sign * middle, sign)
        # Illinois: the value at the end that did not move is halved, since false position alone could stall there.
        over, under = open_ & (value >= 0), open_ & (value < 0)
        below = np.where(over, below / 2, np.where(under, value, below))
        above = np.where(under, above / 2, np.where(over, value, above))
        within, out = np.where(under, middle, within), np.where(over, middle, out)
    ends = np.where(found, centre + sign * out, sign * np.inf)
    return ends[0], ends[1]


def lasting_interval(
    interval: Callable[[ContrastSummary, float], Interval], summary: ContrastSummary, line: float
) -> Interval:
    """Intervals for contrasts that are the same in all phases: the intersection of the intervals after every phase."""
    after = [interval(summary.first(phases + 1), line) for phases in range(len(summary.contrast))]
    return np.max([low for low, _ in after], axis=0), np.min([high for _, high in after], axis=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bets:
    """The wealth of bets against "the contrast is theta", as a function of theta.

    The wealth is the sum of exp(won - rate theta) over stakes and sides, plus the wealth of a bet that uses only the
    range.
    """

    won: FloatArray  # (stake and side, ...): includes the log of the bet's share of the wealth
    rate: FloatArray  # (stake and side, ...): the slope of the bet's log wealth in theta, with reversed sign
    signal: FloatArray  # (...): for the bet that uses only the range, like the next two
    information: FloatArray
    prior: FloatArray

    def log_wealth(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logarithm of the total wealth at theta, and its derivative in theta."""
        total, rest = self.information + self.prior, self.signal - self.information * theta
        plain = np.log(PLAIN) + 0.5 * np.log(self.prior / total) + np.square(rest) / (2 * total)
        logs = np.concatenate([self.won - self.rate * theta, plain[None]])
        slopes = np.concatenate([-self.rate, (-self.information * rest / total)[None]])
        most = logs.max(axis=0)
        parts = np.exp(logs - most)
        whole = parts.sum(axis=0)
        return most + np.log(whole), (parts * slopes).sum(axis=0) / whole


def range_interval(summary: ContrastSummary, line: float, horizon: float) -> Interval:
    """Intervals for contrasts of rewards in a range.

    `horizon` is the information to expect from the whole study, and it sets the stakes. Its unit is the first phase's
    information.
    """
    each, first, *_ = summary.pooled(summary.observed)
    known = first > 0
    bets = _bets(summary, line, each, horizon * np.where(known, first, 1.0))
    ranged = bets.information > 0  # without a range, only the other bets can rule anything out
    divisor = np.where(ranged, bets.information, 1.0)
    centre = bets.signal / divisor
    radius = gaussian_reach(bets.information, bets.prior, line - np.log(PLAIN)) / divisor
    radius = np.where(known & ~ranged, np.inf, radius)
    ends = []
    for sign in (-1.0, 1.0):
        side = bets.rate * sign < 0  # a bet on "larger" rules out small values
        # The total wealth is at least the wealth of any single bet, so the end that a bet proves alone lies outside the
        # true end. Newton's method starts at the innermost of these ends.
        lone = np.where(side, (bets.won - line) / np.where(side, bets.rate, 1.0), sign * np.inf)
        nearest = lone.max(axis=0) if sign < 0 else lone.min(axis=0)
        end = np.maximum(centre - radius, nearest) if sign < 0 else np.minimum(centre + radius, nearest)
        for _ in range(STEPS):
            wealth, slope = bets.log_wealth(end)
            outside = (slope * sign > 0) & (wealth > line)
            end = np.where(outside, end - (wealth - line) / np.where(outside, slope, 1.0), end)
        ends.append(np.where(known, end, sign * np.inf))
    return ends[0], ends[1]


def _bets(summary: ContrastSummary, line: float, each: FloatArray, horizon: FloatArray) -> _Bets:
    won, rate, private = [], [], bool(summary.noise.any())
    sides = (
        (-1.0, summary.third_down, summary.fourth_down, summary.reach_down),
        (1.0, summary.third_up, summary.fourth_up, summary.reach_up),
    )
    for stake, share in STAKES.items():
        wished = each * np.sqrt(2 * (line + LONGER) / (stake * horizon))
        for sign, third, fourth, reach in sides:
            stakes = wished / (1 + wished * reach)
            # log(1 + y) >= y - y^2 / 2 + y^3 / 3 - y^4 times the largest `rest_rate`
            powers = np.square(stakes) * (summary.second / 2 - stakes * third / 3)
            powers = powers + stakes**4 * rest_rate(stakes * reach) * fourth
            if private:
                powers = powers + noise_toll(stakes, summary.noise, stakes * reach)
            won.append(np.log((1 - PLAIN) * share / 2) + (sign * stakes * summary.contrast - powers).sum(axis=0))
            rate.append(sign * stakes.sum(axis=0))
    plain = np.where(summary.observed, 1 / np.where(summary.observed, summary.estimated, 1.0), 0.0)
    prior = np.take_along_axis(plain, np.argmax(summary.observed, axis=0)[None], axis=0)[0]
    return _Bets(
        won=np.stack(won),
        rate=np.stack(rate),
        signal=(plain * summary.contrast).sum(axis=0),
        information=plain.sum(axis=0),
        prior=np.where(prior > 0, prior, 1.0),
    )


def noise_toll(stakes: FloatArray, noise: FloatArray, reach: FloatArray) -> FloatArray:
    """Upper bound on a bet's gain from noise in private reports: the sum over cells of c^2 s^2 / 2 (docs/privacy.md).

    s^2 is the variance of the noise. The coefficient c is at most y times -log(1 - reach) / reach, where y is the
    product of the stake, the cell's share and the width of the range. `noise` is s^2 times the sum of squared shares.
    """
    steeper = -np.log1p(-reach) / np.maximum(reach, 1e-300)
    return np.asarray(np.square(stakes * np.where(reach > 1e-9, steeper, 1 + reach)) * noise * (0.5 + ROUNDED_UP))


def rest_rate(y: FloatArray) -> FloatArray:
    """The terms after y^3 / 3 in the series of -log(1 - y), divided by y^4 and rounded up; increasing, and 1/4 at 0."""
    plain = np.maximum(y, 0.05)
    rest = -(np.log1p(-plain) + plain + np.square(plain) / 2 + plain**3 / 3) / plain**4
    return np.where(y > 0.05, rest * (1 + 1e-8), 0.25 + 0.2 * y / (1 - y))


@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseContrasts:
    """A phase's contrasts, for bounds on gaps; `(..., opponent, arm, agent)` unless stated."""

    contrast: FloatArray  # Y, opponent minus arm
    variance: FloatArray  # the variance of Y, from the past
    observed: BoolArray  # (..., arm, agent): whether all cells that the contrasts need were drawn
    opponents: IntArray  # arm indices
    phase: IntArray  # (...): number of betting phases so far, including this phase
    weights: FloatArray  # (agent n, agent m)
    past: Totals
    fresh: Totals
    line: float  # log(1 / level) of a single pair
    scale: float  # an expected gap

    def both(self, values: FloatArray) -> FloatArray:
        """`(..., opponent, arm, agent)`: the opponent's value plus the arm's value, from `(..., arm, agent)`."""
        return np.take_along_axis(values[..., None, :, :], self.opponents, axis=-2) + values[..., None, :, :]


def betting_bound(
    phase: PhaseContrasts,
    signal: FloatArray,
    information: FloatArray,
    *,
    around: FloatArray,
    width: float,
    noise: float = 0.0,
) -> Bound:
    """Add a phase to the evidence about gaps, for rewards in a range of this `width`.

    Returns signal, information and lower bound after the phase. `around (..., arm, agent)` is the sum of (x - r)^2 of
    each cell, for rewards x and their reference r. Let lam be the stake on the contrast Y, and a the coefficient of a
    reward in Y. Let U be the sum of a^2 (x - r)^2, and B a bound on width times |a|. Then
    exp(lam (Y - s) - lam^2 U / (2 (1 - lam B))) is fair for the gap s (docs/rewards.md). `signal` adds up log payoffs,
    `information` adds up stakes. With privacy noise of variance `noise`, the coefficient of a sum is at most
    lam |a| (1 + lam B / (2 (1 - lam B))).
    """
    each = phase.fresh.per_draw
    penalty = phase.both((around * each**2) @ phase.weights**2)
    reach = width * phase.both(each**POWER @ phase.weights**POWER) ** (1 / POWER)
    widest, farthest = phase.variance.max(axis=-3, keepdims=True), reach.max(axis=-3, keepdims=True)
    wished = np.sqrt(2 * phase.line / np.maximum(widest, 1e-300))
    stake = wished / (1 + wished * farthest)
    won = stake * phase.contrast - stake**2 * penalty / (2 * (1 - stake * farthest))
    if noise:
        steepest = stake * (1 + stake * farthest / (2 * (1 - stake * farthest)))
        won = won - np.square(steepest) * noise * phase.both(each**2 @ phase.weights**2) / 2
    signal = signal + np.where(phase.observed, won.min(axis=-3), 0.0)
    information = information + np.where(phase.observed, stake[..., 0, :, :], 0.0)
    none = np.full(signal.shape, -np.inf)
    return signal, information, np.divide(signal - phase.line, information, out=none, where=information > 0)
