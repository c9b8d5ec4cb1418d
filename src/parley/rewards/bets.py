"""The bets of a phase: their data, their payoffs, and how far payoffs may be boosted.

Every *bet* is against "arm k is among agent m's top N". Write z = Y / sqrt(V) for the standardised contrast "opponent
minus arm k" of one phase's fresh draws. The payoff of a bet is a mixture of stakes u_i >= 0 with shares p_i,
f(z) = sum_i p_i exp(u_i z - u_i^2 / 2).
Wealth beyond the line is of no use. So for exactly Gaussian z the payoff may be capped at the missing wealth and
multiplied beforehand by the largest b >= 1 with E min(b f, cap) <= 1 (sequential boosting: Fischer and Ramdas, arXiv
2410.16076). All values are logs; the mixture is the last axis. docs/evidence-racing.md has the proof.

With many agents, the logarithm of a payoff is computed as a power series in stake times weight over draws, because each
term then needs only sum_n w_n^p g[k, n] over the agents n, which is a matrix product; g depends on the cell alone. A
bound on the truncated terms is subtracted, so that a payoff never exceeds its exact value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from parley.totals import Totals
from parley.validation.checks import BoolArray, FloatArray, IntArray

LARGEST_STAKE = 40.0  # keeps the rounding error of log E below 1e-12
SAFETY = 1e-10  # a multiplier needs log E <= -SAFETY, far above that rounding error
AIM = 1e-9  # Newton's method aims at log E = -AIM, a little below -SAFETY
ROUNDING = 1e-12  # subtracted from a multiplier and from a series, to cover the rounding of the last step
BOOST_STEPS, STAKE_STEPS, HORIZON_STEPS, KEEPING_STEPS = 16, 14, 6, 2
HASH = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0])  # columns with the same sum of these multiples are nearly always equal
CONVERGED = 1e-8  # Newton's method ends after a step this small: the next one would be its square
# Limits on a phase's share of the information remaining until the horizon: a larger phase, if lost, would end the bet.
LEAST_SHARE, MOST_SHARE, MOST_OF_PLANNED = 1e-3, 0.6, 0.9
MOST_KEPT = 0.9  # most that a lost bet can keep, as a share of what its test has not spent in this phase
MOST_SPENT, LARGEST_SCORE = 0.3, 8.0  # a phase's largest share of the remaining level; largest score it may require
LEAST_REJECTED = 1e-280
LARGEST_EXPONENT = 600.0
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)
UNIT_NODES, UNIT_WEIGHTS = (1 + NODES) / 2, NODE_WEIGHTS / 2  # quadrature on [0, 1]
NEGLIGIBLE = 36.0  # terms below exp(-NEGLIGIBLE) are omitted from sums
LOG_TWO_PI = math.log(2 * math.pi)
NOTHING = -700.0  # log wealth of a lost bet: JSON has no minus infinity; a quantile's margin exceeds exp(-700)

# A bet spreads its stakes over the posterior of the gap, in three Gauss-Hermite points, so that a wrong estimate costs
# little.
POINTS = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
LOG_SHARES = np.log(np.array([1.0, 4.0, 1.0]) / 6) - 1e-15  # shares that add up to no more than 1
# Payoffs are capped, so only reaching the line counts. If the expected score is within WITHIN_REACH standard deviations
# of the line, the stake is BOLDNESS times the log-optimal one. Farther from the line, such a stake would cost a share
# (BOLDNESS - 1)^2 of the growth.
BOLDNESS, WITHIN_REACH = 1.2, 1.0

NEAR_TIE = 1.5  # in tolerances: a pair whose estimated gap plus tolerance is smaller than this may be a tie
BEYOND = 0.1  # a horizon allows this many standard deviations more than a tie needs

SIGNS = np.array([1.0, -1.0])[:, None]
PART = 2**17  # cells processed together: their arrays fit a cache

MANY_AGENTS = 64  # from this number on, matrix products are faster than going cell by cell
TERMS = 9  # largest power in the series
REACH = 0.5  # largest stake times weight over draws at which the series may be used
NORM = 16  # a maximum is bounded by the sixteenth root of the sum of sixteenth powers


def _log_sum_exp(values: FloatArray) -> FloatArray:
    """Log-sum-exp over the last axis, which is short; it loops over columns, which is faster and bit-reproducible."""
    top = values[..., 0]
    if values.shape[-1] == 1:
        return top
    for place in range(1, values.shape[-1]):
        top = np.maximum(top, values[..., place])
    summed = np.exp(values[..., 0] - top)
    for place in range(1, values.shape[-1]):
        summed = summed + np.exp(values[..., place] - top)
    return np.asarray(top + np.log(summed))


def log_bet(z: FloatArray, stakes: FloatArray, log_shares: FloatArray) -> FloatArray:
    """Log payoff of a bet, log f(z), before boosting and capping; stakes are `(..., mixture)`.

    >>> log_bet(np.array(1.0), np.array([0.0, 2.0]), np.log([0.5, 0.5])).round(6).tolist()
    0.0
    """
    return _log_sum_exp(log_shares + stakes * z[..., None] - 0.5 * stakes**2)


def log_boost(stakes: FloatArray, log_shares: FloatArray, log_cap: FloatArray) -> FloatArray:
    """The log of the boost b: just below the largest b >= 1 with E min(b f(z), cap) <= 1 for z ~ N(0, 1).

    Let y be the point where b f reaches the cap. Then b = cap / f(y) and E = b sum_i p_i Phi(y - u_i) + cap Phi(-y),
    which decreases in y. Newton's method runs between a y with E >= 1 and a y with b <= 1. A point is accepted only if
    its computed E is below 1 by more than rounding error. The fallback b = 1 is always valid.
    """
    boost = np.zeros(log_cap.shape)
    betting = (stakes.max(axis=-1) > 1e-9) & (log_cap > 1e-12)
    if not betting.any():
        return boost
    u, cap = stakes[betting], log_cap[betting]
    low = -ndtri_exp(-cap)
    high = np.maximum(((cap[:, None] - log_shares + 0.5 * u**2) / np.maximum(u, 1e-9)).min(axis=-1), low)
    accepted = high.copy()
    y = low + 0.15 * np.minimum(high - low, 1.0)
    open_ = np.arange(len(cap))  # only unconverged bets are updated, so that no bet's bits depend on the others
    for _ in range(BOOST_STEPS):
        at = y[open_]
        value, slope = _log_expectation(at, u[open_], log_shares, cap[open_])
        safe = value <= -SAFETY
        best = np.where(safe, np.minimum(accepted[open_], at), accepted[open_])
        least = np.where(safe, low[open_], np.maximum(low[open_], at))
        newton = at - (value + AIM) / np.minimum(slope, -1e-12)
        astray = ~((newton > least) & (newton <= best))
        accepted[open_], low[open_], y[open_] = best, least, np.where(astray, (least + best) / 2, newton)
        open_ = open_[np.abs(value + AIM) >= AIM / 2]
        if not open_.size:
            break
    boost[betting] = np.maximum(cap - log_bet(accepted, u, log_shares) - ROUNDING, 0.0)
    return boost


def _log_expectation(
    y: FloatArray, stakes: FloatArray, log_shares: FloatArray, log_cap: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """log E min(b f, cap) for the boost b with which b f crosses the cap at y, and its derivative in y."""
    terms = log_shares + stakes * y[..., None] - 0.5 * stakes**2
    log_f = _log_sum_exp(terms)
    alone = terms.shape[-1] == 1
    growth = stakes[..., 0] if alone else (np.exp(terms - log_f[..., None]) * stakes).sum(axis=-1)  # f' / f
    below = _log_sum_exp(log_shares + log_ndtr(y[..., None] - stakes)) - log_f
    total = np.logaddexp(below, log_ndtr(-y))
    return np.asarray(log_cap + total), np.asarray(-growth * np.exp(below - total))


def log_final_payoff(z: FloatArray, log_cap: FloatArray, kept: FloatArray | float = 0.0) -> FloatArray:
    """The log payoff in a last look: the cap if z reaches the normal quantile of the staked level, else log(kept).

    With a = 1 / cap and z stochastically at most N(0, 1), P(z >= quantile) is at most (1 - kept) a, so the expectation
    is at most (1 - kept) + kept = 1. No other fair payoff reaches this cap more often.

    >>> log_final_payoff(np.array([1.7, 1.6]), np.log(20.0) * np.ones(2)).round(2).tolist()
    [3.0, -700.0]
    """
    quantile = -ndtri_exp(np.log1p(-np.asarray(kept)) - np.maximum(log_cap, SAFETY))
    rest = np.log(np.maximum(kept, math.exp(NOTHING)))
    return np.where(z >= quantile + SAFETY * (1 + np.abs(quantile)), log_cap, rest)


def log_conditional_error(
    z: FloatArray,
    log_cap: FloatArray,
    share: FloatArray,
    now: FloatArray | None = None,
    *,
    least: FloatArray | None = None,
    floored: bool = False,
) -> FloatArray:
    """The log of the conditional error of a test that ends at a horizon, divided by its level a = 1 / cap.

    `share`, called tau here, is this phase's share of the information that remains until the horizon, from LEAST_SHARE
    to MOST_SHARE. The test rejects now if z >= c1, where c1 is `now` (by default Phi(-c1) = a tau), and at the horizon
    if sqrt(tau) z + sqrt(1 - tau) z2 >= c2, where z2 is the score of all later draws; its overall level is a. So the
    payoff is 1 / a for z >= c1, and otherwise Phi((sqrt(tau) z - c2) / sqrt(1 - tau)) / a. The expected payoff for
    z ~ N(0, 1) is 1 (a Doob martingale), and the payoff does not decrease in z. The next phase plans a new test with
    the remaining level (Mueller and Schaefer 2001).

    `least` is the smallest payoff: the part of its wealth that a lost bet keeps; 0 for none. It replaces all smaller
    payoffs, and c2 is larger to pay for it; the expected payoff is then slightly below 1.

    `floored` is for scores with lighter tails than normal on both sides, such as those of Student's t: for all z <= 0
    the payoff is its average over z <= 0, and c1 is at least 0.

    >>> half = np.array([0.5, 0.5])
    >>> log_conditional_error(np.array([4.0, 1.0]), np.log([20.0, 20.0]), half, np.full(2, 1.96)).round(2).tolist()
    [3.0, 0.18]
    """
    now = -ndtri_exp(np.log(share) - log_cap) if now is None else now
    if floored:
        now = np.maximum(now, 0.0)
    spent = np.exp(log_cap + log_ndtr(-now))  # share of the level
    keeps = np.zeros(len(z), dtype=np.bool_) if least is None else least > 0
    end, loses = np.empty(len(z)), ~keeps
    end[loses] = _horizon_quantile(log_cap[loses], share[loses], now[loses], spent[loses])
    if least is not None:
        # In a first phase nearly all tests are the same: a study's pairs start alike, and so do all replications.
        tests = np.array([log_cap[keeps], share[keeps], now[keeps], spent[keeps], least[keeps]])
        one_each, place = _distinct(tests)
        end[keeps] = _quantile_that_pays(*tests[:, one_each])[place]
    later = log_cap + log_ndtr((np.sqrt(share) * z - end) / np.sqrt(1 - share))
    if least is not None:
        later[keeps] = np.maximum(later[keeps], np.log(least[keeps]))
    if floored:
        # Twice P(z < 0, S >= c2), in logs: with Owen's function, a level of 1e-16 would lose all digits.
        below = _joint_chance(end, share, np.zeros(len(end)), NEGLIGIBLE * (1 - share))[1]
        average = log_cap + math.log(2) + below - SAFETY
        later = np.where(z > 0, later, average)
    return np.where(z >= now + SAFETY * (1 + np.abs(now)), log_cap, np.clip(later, NOTHING, log_cap))


def _distinct(columns: FloatArray) -> tuple[IntArray, IntArray]:
    """Where to find one of every kind of equal `columns (row, column)`, and which of them each column is."""
    keys = HASH[: len(columns)] @ columns
    _, one_each, place = np.unique(keys, return_index=True, return_inverse=True)
    if (columns[:, one_each][:, place] == columns).all():
        return one_each, place
    every = np.arange(columns.shape[-1])  # two kinds with the same key
    return every, every


def _horizon_quantile(
    log_cap: FloatArray, share: FloatArray, now: FloatArray, spent: FloatArray, above: FloatArray | None = None
) -> FloatArray:
    """The critical value c2 of `log_conditional_error`, approached from above.

    It solves log P(z < c1, S >= c2) = log(a (1 - spent)) for the score S at the horizon. Newton's method starts at
    `above`, by default the quantile of a (1 - spent), which is too large. The left side is decreasing and concave in c2
    (Prekopa: the density is log-concave), so the method never leaves the safe side.
    """
    goal = np.log1p(-np.minimum(spent, 1 - 1e-9)) - log_cap - SAFETY
    end = -ndtri_exp(goal) if above is None else above.copy()
    open_ = np.arange(len(end))  # only unconverged tests are updated, so that no test's bits depend on the others
    for _ in range(HORIZON_STEPS):
        at, tau, score = end[open_], share[open_], now[open_]
        rejected, log_chance = _joint_chance(at, tau, score, NEGLIGIBLE)
        first = ndtr((score - np.sqrt(tau) * at) / np.sqrt(1 - tau))
        step = np.minimum(log_chance - goal[open_], 0.0) * rejected / np.maximum(first, LEAST_REJECTED)
        end[open_] = np.maximum(at + step, -LARGEST_SCORE)  # a level near 1 would lead to minus infinity
        open_ = open_[step < -CONVERGED]
        if not open_.size:
            break
    return end


def _quantile_that_pays(
    log_cap: FloatArray, share: FloatArray, now: FloatArray, spent: FloatArray, least: FloatArray
) -> FloatArray:
    """The critical value c2 of a test whose payoff is at least `least`, approached from above.

    Let z0 be the score below which the conditional error over a is smaller than `least`. The larger payoffs below z0
    cost N = least Phi(z0) - P(z < z0, S >= c2) / a, so c2 solves P(z < c1, S >= c2) = a (1 - spent - N). z0 and N grow
    with c2, so that a c2 that is too large leads to one that is closer, but not too small. The first c2 would pay for
    `least` at all scores.
    """
    root, rest = np.sqrt(share), np.sqrt(1 - share)
    keeps = np.minimum(least, MOST_KEPT * (1 - spent))
    end = -ndtri_exp(np.log1p(-spent - keeps) - log_cap)
    quantile = -ndtri_exp(np.log(keeps) - log_cap)
    for _ in range(KEEPING_STEPS):
        below = np.minimum((end - rest * quantile) / root, now)
        saved = np.exp(_joint_chance(end, share, below, NEGLIGIBLE)[1] + log_cap)
        cost = np.clip(keeps * ndtr(below) - saved * (1 - SAFETY), 0.0, keeps)
        end = _horizon_quantile(log_cap, share, now, spent + cost, end)
    return end


def _joint_chance(
    end: FloatArray, share: FloatArray, now: FloatArray, negligible: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """P(z < c1, S >= c2) / phi(c2), and log P(z < c1, S >= c2), for scores with correlation sqrt(tau).

    The ratio is the integral over x >= 0 of exp(-c2 x - x^2 / 2) Phi((c1 - sqrt(tau) (c2 + x)) / sqrt(1 - tau)),
    computed up to the x where the exponent reaches -`negligible`.
    """
    reach = 2 * negligible / (end + np.sqrt(np.square(end) + 2 * negligible))
    x = reach[:, None] * UNIT_NODES
    open_ = ndtr((now[:, None] - np.sqrt(share)[:, None] * (end[:, None] + x)) / np.sqrt(1 - share)[:, None])
    inside = np.exp(-x * (end[:, None] + x / 2)) * open_
    chance = reach * (inside * UNIT_WEIGHTS).sum(axis=-1)  # row by row, so that a bet's bits do not depend on others
    return chance, np.log(np.maximum(chance, LEAST_REJECTED)) - 0.5 * (np.square(end) + LOG_TWO_PI)


def stake_that_crosses(missing: FloatArray, margin: FloatArray, *, boosted: bool) -> FloatArray:
    """The stake u with which a single bet wins all the `missing` wealth even if z is only u - margin; for planning.

    A contrast with true gap D and variance V has z around D / sqrt(V). With enough draws for D / sqrt(V) = u, the bet
    reaches the line unless z falls short by more than `margin` standard deviations.

    >>> stake_that_crosses(np.array(2.0), np.array(0.0), boosted=False).tolist()
    2.0
    """
    plain = margin + np.sqrt(margin**2 + 2 * missing)
    if not boosted:
        return np.asarray(plain)
    low, high = np.maximum(margin - ndtri_exp(-missing), 0.0), plain
    below = log_ndtr(-margin)
    for _ in range(STAKE_STEPS):
        middle = (low + high) / 2
        log_expectation = missing + np.logaddexp(margin * middle - 0.5 * middle**2 + below, log_ndtr(margin - middle))
        low, high = np.where(log_expectation > 0, middle, low), np.where(log_expectation > 0, high, middle)
    return np.asarray(high)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bets:
    """The bets of one phase on "the opponent beats the arm", with the fresh draws that decide them.

    Arrays are `(bet,)` unless stated. A stake may depend on every field except the fresh sums and squares, and
    `contrast`, which is computed from them.
    """

    estimate: FloatArray  # estimated gap, opponent minus arm, from all data before this phase
    error: FloatArray  # standard error of the estimate
    missing: FloatArray  # log wealth that the bet's slot needs to reach the line
    contrast: FloatArray  # Y: opponent minus arm, mixed, from the fresh draws, raised by `shift`
    shift: float = 0.0  # the null is "opponent minus arm is at most -shift"; `estimate` is raised by it too
    variance: FloatArray  # V of that contrast, with cell variances estimated from the past
    replication: tuple[IntArray, ...]  # index into the leading axes of `past` and `fresh`
    opponent: IntArray  # arm indices
    arm: IntArray
    agent: IntArray
    weights: FloatArray  # (agent n, mix m): the mixes of agents, then any further mixes
    past: Totals  # (..., arm, agent)
    fresh: Totals  # (..., arm, agent): of this phase
    horizon: FloatArray | None = None  # V at which the test of a near-tie ends; nan for a bet on its estimated gap
    level: FloatArray | None = None  # log of the pair's error probability
    late: FloatArray | float = 1.0  # at the share t of all information, a test has spent the share t^late of its level
    least: FloatArray | None = None  # smallest payoff: the part of its wealth that a lost bet keeps; 0 for none
    kept: FloatArray | float = 0.0  # share of the level that survives a lost last look; 0 if no phase follows

    def take(self, some: BoolArray) -> Bets:
        """The bets for which `some (bet,)` is true."""
        names = ("estimate", "error", "missing", "contrast", "variance", "opponent", "arm", "agent")
        parts = {name: getattr(self, name)[some] for name in names}
        optional = {
            "horizon": self.horizon,
            "level": self.level,
            "least": self.least,
            "kept": self.kept,
            "late": self.late,
        }
        parts |= {name: value[some] for name, value in optional.items() if isinstance(value, np.ndarray)}
        return replace(self, **parts, replication=tuple(axis[some] for axis in self.replication))

    @property
    def tied(self) -> BoolArray:
        """`(bet,)`: whether the bet is a test that ends at a horizon."""
        return np.zeros(len(self.missing), dtype=np.bool_) if self.horizon is None else ~np.isnan(self.horizon)

    @property
    def now(self) -> FloatArray:
        """`(bet,)`: the smallest score at which a test with a horizon rejects in this phase; known before its rewards.

        After the share t of all information, the test has spent the share t^late of its level, but a phase spends at
        most MOST_SPENT of the remaining level.
        """
        assert self.horizon is not None
        assert self.level is not None
        past, phase, left = np.square(1 / self.error), 1 / self.variance, 1 / self.horizon
        t = np.minimum((past + phase) / (past + np.maximum(left, phase)), 1.0)
        boundary = -ndtri_exp(self.level + self.late * np.log(t))
        needed = (boundary * np.sqrt(past + phase) - self.estimate * past) / np.sqrt(phase)
        staked = 0.0 if self.least is None else np.log1p(-self.least)
        least = -ndtri_exp(math.log(MOST_SPENT) + staked - self.missing)
        # `least` is applied last: if little of the level remains, even LARGEST_SCORE would spend too much of it.
        return np.asarray(np.maximum(np.minimum(needed, LARGEST_SCORE), least))

    @property
    def share(self) -> FloatArray:
        """`(bet,)`: this phase's share of the information that remains until the horizon."""
        assert self.horizon is not None
        # For levels above one half the quadrature is less exact, so the share stays smaller.
        most = np.where(self.missing < math.log(2), MOST_SHARE, MOST_OF_PLANNED)
        return np.clip(self.horizon / self.variance, LEAST_SHARE, most)


def staked_gaps(bets: Bets) -> FloatArray:
    """`(bet, mixture)`: the gaps over which each bet spreads its stakes; for a gap of 0 the stake is 0."""
    return np.asarray(np.maximum(bets.estimate[:, None] + bets.error[:, None] * POINTS, 0.0))


def boldness(expected: FloatArray, missing: FloatArray) -> FloatArray:
    """The factor on stakes of boosted bets: BOLDNESS where the `expected` score comes close to the line, else 1."""
    return np.where(expected + WITHIN_REACH >= np.sqrt(2 * missing), BOLDNESS, 1.0)


def boosted_stakes(bets: Bets, degrees: FloatArray | None = None) -> FloatArray:
    """`(bet, mixture)`: the stakes of boosted bets on standardised contrasts.

    With an unknown scale, contrasts divided by their estimated standard deviations are Student's t with these
    `degrees (bet,)` of freedom, whose normal scores are smaller.
    """
    plain = staked_gaps(bets) / np.sqrt(bets.variance)[:, None]
    expected = plain if degrees is None else about_normal_score(plain, degrees[:, None])
    return np.minimum(boldness(expected[:, 1], bets.missing)[:, None] * expected, LARGEST_STAKE)


def about_normal_score(t: FloatArray, degrees: FloatArray) -> FloatArray:
    """The normal score z with Phi(z) = P(Student's t <= t), for t >= 0, to about 4 % (Wallace 1959); for stakes only.

    >>> about_normal_score(np.array([2.0, 4.3, 50.0]), np.array([1e6, 2.0, 2.0])).round(2).tolist()
    [2.0, 1.93, 3.38]
    """
    nu = np.maximum(degrees, 1.0)
    return np.asarray(np.sqrt(nu * np.log1p(np.square(t) / nu)) * (8 * nu + 1) / (8 * nu + 3))


def about_student_quantile(z: FloatArray, degrees: FloatArray) -> FloatArray:
    """The inverse of `about_normal_score`: t for z >= 0, infinite without degrees of freedom; for planning only.

    >>> about_student_quantile(np.array([2.0, 1.92, 2.0]), np.array([1e6, 2.0, 0.0])).round(2).tolist()
    [2.0, 4.24, inf]
    """
    nu = np.clip(degrees, 1e-9, 1e9)
    exponent = np.square(z * (8 * nu + 3) / (8 * nu + 1)) / nu
    return np.where(exponent < LARGEST_EXPONENT, np.sqrt(nu * np.expm1(np.minimum(exponent, LARGEST_EXPONENT))), np.inf)


def faster_growing(
    logs: FloatArray, expected: FloatArray, contrast: FloatArray, gaps: FloatArray, variance: FloatArray
) -> FloatArray:
    """`(bet, mixture)`: whichever log payoff should grow faster, `logs` or the sub-Gaussian one with this `variance`.

    `expected` is the expected growth of `logs`. The choice depends on expectations only, never on the fresh draws.
    """
    stakes = gaps / variance[:, None]
    plain = stakes * contrast[:, None] - np.square(stakes) * variance[:, None] / 2
    return np.where((np.square(gaps[:, 1]) / (2 * variance) > expected)[:, None], plain, logs)


def contrast_payoff(bets: Bets, *, boosted: bool) -> FloatArray:
    """`(bet,)`: the log payoff of sub-Gaussian contrasts of known variance; `boosted` needs Gaussian contrasts."""
    root = np.sqrt(bets.variance)
    if boosted:
        return gaussian_payoff(bets, bets.contrast / root)
    return log_bet(bets.contrast / root, staked_gaps(bets) / root[:, None], LOG_SHARES)


def gaussian_payoff(bets: Bets, scores: FloatArray) -> FloatArray:
    """`(bet,)`: the log payoff of contrasts with Gaussian `scores (bet,)`.

    Most bets pay a boosted mixture. A near-tie whose information is limited, by a tolerance or by the end of the study,
    pays the conditional error of a test that ends at that limit. Both the horizon and the choice between these
    payoffs depend only on the past and the phase's counts.
    """
    near_tie = bets.horizon is None and bets.shift > 0
    tied = bets.estimate < NEAR_TIE * bets.shift if near_tie else bets.tied
    paid = np.empty(len(scores))
    if not tied.all():
        far = bets.take(~tied)
        stakes = boosted_stakes(far)
        paid[~tied] = log_bet(scores[~tied], stakes, LOG_SHARES) + log_boost(stakes, LOG_SHARES, far.missing)
    if tied.any():
        near = bets.take(tied)
        if near_tie:
            # A tied pair just reaches the line at the information 1 / V where shift / sqrt(V) equals the quantile.
            quantile = np.maximum(-ndtri_exp(-near.missing), 0.0) + BEYOND
            share = np.clip(np.square(near.shift / quantile) / near.variance, LEAST_SHARE, MOST_SHARE)
            paid[tied] = log_conditional_error(scores[tied], near.missing, share)
        else:
            paid[tied] = log_conditional_error(scores[tied], near.missing, near.share, near.now, least=near.least)
    return paid


@dataclass(frozen=True, kw_only=True, eq=False)
class Sides:
    """The cells of a slice of the bets, `(bet, side, agent)`; side 0 is the opponent, side 1 the arm."""

    chosen: slice  # which bets the slice contains
    shares: FloatArray  # signed: +w / d for the opponent, -w / d for the arm; 0 without weight
    counts: FloatArray  # fresh draws; 0 without weight
    _place: tuple[IntArray, ...]

    def of(self, values: FloatArray) -> FloatArray:
        """`(bet, side, agent)`: the entries of `values (..., arm, agent)` at the bets' cells."""
        return np.asarray(values[self._place])


def in_parts(bets: Bets) -> Iterator[Sides]:
    """Yield all bets in slices whose arrays fit a cache."""
    size = max(1, PART // (2 * len(bets.weights)))
    for start in range(0, len(bets.arm), size):
        chosen = slice(start, start + size)
        arms = np.stack([bets.opponent[chosen], bets.arm[chosen]], axis=1)
        place = (*(axis[chosen, None] for axis in bets.replication), arms)
        weights = bets.weights.T[bets.agent[chosen]][:, None, :]
        counts = np.where(weights > 0, bets.fresh.counts[place], 0).astype(np.float64)
        shares = SIGNS * np.divide(weights, counts, out=np.zeros_like(counts), where=counts > 0)
        yield Sides(chosen=chosen, shares=shares, counts=counts, _place=place)


def mixture_payoff(bets: Bets, of_all: Callable[[], FloatArray], of_part: Callable[[Sides], FloatArray]) -> FloatArray:
    """`(bet,)`: log payoffs of mixtures over stakes, from the log payoffs `(bet, mixture)` of their components.

    With many agents, `of_all` computes the components by matrix products. Otherwise `of_part` computes them cell by
    cell, for a slice of the bets at a time.
    """
    if len(bets.weights) >= MANY_AGENTS:
        return np.asarray(np.logaddexp.reduce(of_all() + LOG_SHARES, axis=-1))
    paid = np.empty(len(bets.arm))
    for part in in_parts(bets):
        paid[part.chosen] = np.logaddexp.reduce(of_part(part) + LOG_SHARES, axis=-1)
    return paid


def at_bets(bets: Bets, opponents: FloatArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`(bet,)` each: the values of `opponents (..., arm, agent)` at every bet's opponent, and of `arms` at its arm."""
    return (
        np.asarray(opponents[(*bets.replication, bets.opponent, bets.agent)]),
        np.asarray(arms[(*bets.replication, bets.arm, bets.agent)]),
    )


def least_weighed(values: FloatArray, weights: FloatArray) -> FloatArray:
    """`(..., arm, agent m)`: the smallest value among the agents with weight in m's mix."""
    least, weighed = np.empty((*values.shape[:-1], weights.shape[1])), weights > 0
    if weighed.all():  # the usual case
        least[:] = values.min(axis=-1, keepdims=True)
        return least
    for arm in range(values.shape[-2]):  # one arm at a time, to save memory: (agent, agent) arrays are already large
        least[..., arm, :] = np.where(weighed, values[..., arm, :, None], np.inf).min(axis=-2)
    return least


def contrast_variance(bets: Bets, variances: FloatArray | float) -> FloatArray:
    """`(bet,)`: the variance of every bet's contrast, given the `variances` of single rewards."""
    mixed = (variances * bets.fresh.per_draw) @ np.square(bets.weights)
    opponent, arm = at_bets(bets, mixed, mixed)
    return opponent + arm


def powers(weights: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """Yield (p, weights^p) for every term of the power series, from p = 2."""
    power = weights
    for p in range(2, TERMS + 1):
        power = power * weights
        yield p, power


def farthest(bets: Bets, opponents: FloatArray, arms: FloatArray) -> FloatArray:
    """`(bet,)`: upper bound on weight times value over all agents, for values of the bet's opponent and arm."""
    weights = bets.weights**NORM
    pair = at_bets(bets, opponents**NORM @ weights, arms**NORM @ weights)
    return np.asarray(np.maximum(*pair) ** (1 / NORM))


def series_tail(stakes: FloatArray, reach: FloatArray, size: FloatArray | int) -> FloatArray:
    """Upper bound on the sum of the truncated terms of the series.

    Each term is at most stake times reach times the term before it, so the sum is bounded by a geometric series.
    """
    ratio = stakes * reach
    return np.asarray(stakes**TERMS * np.asarray(size)[:, None] / (TERMS + 1) * ratio / (1 - ratio))
