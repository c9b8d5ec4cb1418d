"""Gaussian rewards of unknown scale, with one scale per arm and agent unless the study pools them.

The t statistic of a phase is converted to a normal score, and bets on that score are fair: docs/rewards.md has the
proof.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtri, stdtr

from parley.errors import InvalidInput
from parley.rewards import intervals, sampling
from parley.rewards.base import RewardModel
from parley.rewards.bets import (
    LOG_SHARES,
    Bets,
    about_student_quantile,
    at_bets,
    boosted_stakes,
    contrast_variance,
    least_weighed,
    log_bet,
    log_boost,
    log_conditional_error,
    log_final_payoff,
)
from parley.rewards.intervals import Bound, ContrastSummary, Interval, PhaseContrasts
from parley.rewards.plausibility import LEVEL, largest_variance
from parley.rewards.sampling import Sampler, TiltedLaw
from parley.rewards.scales import Scale, squared_scale
from parley.totals import Totals
from parley.validation.checks import FloatArray, positive

SCOPES = {  # value of the key `scale` -> the axes of (arm, agent) that share a scale
    "unknown": (),
    "unknown per cell": (),
    "unknown per agent": (-2,),
    "unknown, shared": (-2, -1),
}
PRIOR = 4.0  # prior degrees of freedom, from the next wider group, in a variance estimate for planning
MOST_NEEDED = 13  # largest minimum cell: with 12 degrees of freedom a scale is nearly as good as known
WIDEST = 1e9  # largest ratio of Student's quantile to the normal quantile; beyond it, a cell is useless
TINY = 1e-280  # smallest variance estimate
# HIDDEN stands for a variance about which the data say nothing; a mixed mean that contains one exceeds HIDDEN_MIX.
HIDDEN, HIDDEN_MIX = 1e250, 1e200

SMALLEST_TAIL = 1e-290
LARGEST_EXPONENT = 600.0
ROUNDING = 1e-10  # subtracted from every score: Student's distribution function is accurate to a few units in 1e-13

BASEL = math.log(6 / math.pi**2)  # the sum of 6 / (pi t)^2 over all phases t is 1


@dataclass(frozen=True, kw_only=True)
class UnknownScale(RewardModel):
    """Gaussian rewards of unknown scale; `guess` is a rough value of the scale.

    The guess sizes the first phase and limits what a first report may contain: differences of at most a million times
    the guess. No answer depends on it. Simulations use the truth's scale, or else the guess.

    >>> UnknownScale().document()
    {'kind': 'gaussian', 'scale': 'unknown', 'guess': 1.0}
    """

    kind: ClassVar[str] = "gaussian"
    observed: ClassVar[str] = "a number, with Gaussian errors"
    adjusted_form: ClassVar[str] = "unknown scale"
    boosted: ClassVar[bool] = True
    assumes_gaussian: ClassVar[bool] = True
    bound_note: ClassVar[str] = ""
    needs_squares: ClassVar[bool] = True
    least_draws: ClassVar[int] = 2  # a single draw has no scatter
    scale: str = "unknown"
    guess: float = 1.0

    def __post_init__(self) -> None:
        if self.scale not in SCOPES:
            allowed = f"a number, a row, a matrix, or one of {', '.join(SCOPES)}"
            raise InvalidInput("noise.scale", found=repr(self.scale), allowed=allowed)
        object.__setattr__(self, "guess", positive("noise.guess", self.guess))

    @classmethod
    def describes(cls, keys: Mapping[str, Any]) -> bool:
        return "guess" in keys or isinstance(keys.get("scale"), str)

    def require_scale(self, who: str) -> None:
        raise InvalidInput(
            "noise.scale",
            found=f'"{self.scale}"',
            allowed=f"a known scale (a number, a row or a matrix): {who} has intervals of known width",
            hint='State the scale under [noise], or use the policy "evidence"',
        )

    @property
    def first_variance(self) -> float:
        return self.guess**2

    @property
    def shared_axes(self) -> tuple[int, ...]:  # type: ignore[override]
        return SCOPES[self.scale]

    def enough_draws(self, draws: FloatArray, stake: FloatArray) -> FloatArray:
        """Raise the draws where degrees of freedom are few, since Student's quantile exceeds the normal quantile.

        Either the small cells of an arm are raised to a minimum size, or its large cells get even more draws. Of all
        minimum sizes up to MOST_NEEDED, the one with the fewest draws in total is chosen, jointly for all arms that
        share a scale.
        """
        axes, drawn, u = (-2, -1) if self.shared_axes else (-1,), draws > 0, stake[:, None, None]
        best, fewest = draws, np.full(draws.sum(axis=axes, keepdims=True).shape, np.inf)
        for least in range(1, MOST_NEEDED + 1):
            whole = np.where(drawn, np.maximum(np.ceil(draws), least), 1.0)
            degrees = np.broadcast_to(_pooled(whole - 1, self.shared_axes), draws.shape)
            nu = np.where(drawn, degrees, np.inf).min(axis=axes, keepdims=True)
            wider = np.minimum(about_student_quantile(u, nu) / u, WIDEST)
            needed = np.where(drawn, np.maximum(np.ceil(draws * np.square(wider)), least), 0.0)
            total = needed.sum(axis=axes, keepdims=True)
            best, fewest = np.where(total < fewest, needed, best), np.minimum(fewest, total)
        return best

    def cell_variances(self, past: Totals) -> FloatArray:
        """The variance of each group, shrunk towards that of the next wider group; the squared guess without any draws.

        The groups are all cells, then the cells of one agent, then single cells; the last groups used are the cells
        that share a scale.
        """
        scatter, degrees = past.scatter, np.maximum(past.counts - 1, 0).astype(np.float64)
        each: FloatArray = np.full(past.counts.shape, self.first_variance)
        for axes, prior in (((-2, -1), 1e-9), ((-2,), PRIOR), ((), PRIOR)):
            pooled, nu = _pooled(scatter, axes), _pooled(degrees, axes)
            each = (pooled + prior * each) / (nu + prior)
            if axes == self.shared_axes:
                break
        return np.maximum(np.broadcast_to(each, past.counts.shape), TINY)

    def fresh_variances(self, fresh: Totals) -> tuple[FloatArray, FloatArray]:
        """Every cell's variance from this phase alone, and its degrees of freedom; `(..., arm, agent)` each.

        The variance is raised by possible rounding errors, so that no score exceeds the score of the exact rewards. If
        all of the scatter may be rounding error, the variance is HIDDEN, so that no bet can win on such a cell.
        """
        axes = self.shared_axes
        degrees = _pooled(np.maximum(fresh.counts - 1, 0).astype(np.float64), axes)
        scatter, lost = _pooled(fresh.scatter, axes), _pooled(fresh.rounding, axes)
        variances = np.where(scatter > lost, (scatter + lost) / np.maximum(degrees, 1.0), HIDDEN)
        return np.broadcast_to(variances, fresh.counts.shape), np.broadcast_to(degrees, fresh.counts.shape)

    def payoff(self, bets: Bets) -> FloatArray:
        """`(bet,)`: log payoffs of bets on normal scores of the phase's t statistics; 0 without degrees of freedom."""
        score, nu = self.scores(bets)
        tied, paid = bets.tied, np.empty(len(score))
        if not tied.all():
            far = bets.take(~tied)
            paid[~tied] = log_floored_bet(score[~tied], boosted_stakes(far, nu[~tied]), LOG_SHARES, far.missing)[0]
        if tied.any():
            near = bets.take(tied)
            paid[tied] = log_conditional_error(score[tied], near.missing, near.share, near.now, floored=True)
        return np.where(nu > 0, paid, 0.0)

    def final_payoff(self, bets: Bets) -> FloatArray:
        """`(bet,)`: the log payoff of a last look at normal scores; 0 without degrees of freedom.

        A score of 0 or below always loses: only above 0 does N(0, 1) dominate the distribution of scores.
        """
        score, nu = self.scores(bets)
        lost = log_final_payoff(np.full(score.shape, -np.inf), bets.missing, bets.kept)
        paid = np.where(score > 0, log_final_payoff(score, bets.missing, bets.kept), lost)
        return np.where(nu > 0, paid, 0.0)

    def scores(self, bets: Bets) -> tuple[FloatArray, FloatArray]:
        """Convert the phase's Student t statistics to normal scores.

        Returns the scores and the degrees of freedom, `(bet,)` each; both are 0 where the phase has no degrees of
        freedom.
        """
        variances, degrees = self.fresh_variances(bets.fresh)
        if self.shared_axes != (-2, -1):  # a side without draws contributes neither to the contrast nor to its scatter
            degrees = np.where(bets.fresh.counts > 0, degrees, np.inf)
        least = self._least(degrees, bets.weights)
        nu, lost = np.minimum(*at_bets(bets, least, least)), bets.fresh.mixed_rounding(bets.weights)
        contrast = bets.contrast - sum(at_bets(bets, lost, lost))
        return normal_score(contrast / np.sqrt(contrast_variance(bets, variances)), nu), nu

    def _fresh_mixed(self, fresh: Totals, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The variance of every mixed mean from this phase alone, and its degrees of freedom; `(..., arm, agent)` each.

        The degrees of freedom are the smallest among the agents in the mix.
        """
        variances, degrees = self.fresh_variances(fresh)
        return (variances * fresh.per_draw) @ np.square(weights), self._least(degrees, weights)

    def summary(self, past: Totals, fresh: Totals, weights: FloatArray) -> ContrastSummary:
        """The summary of a phase. The phase's weight depends on its counts alone, since the scale is unknown."""
        known = super().summary(Totals.zero(past.counts.shape), fresh, weights)
        estimated, degrees = self._fresh_mixed(fresh, weights)
        return replace(known, estimated=estimated, degrees=np.where(estimated < HIDDEN_MIX, degrees, 0.0))

    def interval(self, summary: ContrastSummary, line: float) -> Interval:
        return student_interval(summary, line)

    def difference_interval(self, summary: ContrastSummary, line: float) -> Interval:
        observed = summary.observed & (summary.degrees > 0) & (summary.variance > 0)
        return intervals.staked_interval(
            summary,
            line,
            observed=observed,
            root=np.sqrt(np.where(observed, summary.estimated, 1.0)),
            score=lambda t: student_scores(t, np.where(observed, summary.degrees, 0.0)[:, None]),
            payoff=lambda z, stake, missing: log_floored_bet(z, stake[..., None], intervals.ALL, missing)[0],
        )

    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        mixed, least = self._fresh_mixed(phase.fresh, phase.weights)
        estimated = phase.both(mixed)
        pair = np.minimum(least[..., None, :, :], np.take_along_axis(least[..., None, :, :], phase.opponents, axis=-2))
        return student_bound(
            self.rounded_down(phase), signal, information, estimated=estimated, degrees=pair.min(axis=-3)
        )

    def _least(self, degrees: FloatArray, weights: FloatArray) -> FloatArray:
        """`(..., arm, agent m)`: the smallest degrees of freedom among the agents with weight in m's mix."""
        if self.shared_axes == (-2, -1):
            return np.broadcast_to(degrees[..., :1], (*degrees.shape[:-1], weights.shape[1]))
        return least_weighed(degrees, weights)

    def estimated_scale(self, past: Totals) -> FloatArray:
        return np.sqrt(self.cell_variances(past))

    def variance_ceiling(self, past: Totals, phases: int) -> FloatArray:
        """`(arm, agent)`: upper bounds on variances from past scatter, the same for all arms of an agent.

        Each is the largest bound over the agent's arms, since an arm's rare large rewards may not have occurred yet.
        """
        axes = self.shared_axes
        scatter, lost = _pooled(past.scatter, axes), _pooled(past.rounding, axes)
        degrees = np.maximum(past.counts - phases, 0).astype(np.float64)
        most = largest_variance(scatter + lost, _pooled(degrees, axes), LEVEL / 4 / past.counts.size)
        known = (scatter > lost) & np.isfinite(most)
        largest = np.where(known, most, 0.0).max(axis=-2, keepdims=True)
        return np.broadcast_to(np.where(largest > 0, largest, np.inf), past.counts.shape)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        return squared_scale(self.guess if scale is None else scale)

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        true = np.array(self.guess if scale is None else scale)
        return {"gaussian": lambda: sampling.gaussian(means, float(true) if true.ndim == 0 else true)}

    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        return sampling.gaussian(means, scale)

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        return sampling.tilted_gaussian(means, self.true_variances(means, scale))


def _pooled(values: FloatArray, axes: tuple[int, ...]) -> FloatArray:
    return np.asarray(values.sum(axis=axes, keepdims=True)) if axes else values


def normal_score(t: FloatArray, degrees: FloatArray) -> FloatArray:
    """The normal score z with Phi(z) = P(Student's t <= t), rounded down; 0 for t <= 0 and without degrees of freedom.

    >>> normal_score(np.array([2.0, 2.0, -1.0]), np.array([10.0, 1e6, 5.0])).round(3).tolist()
    [1.79, 2.0, 0.0]
    """
    score = np.zeros(t.shape)
    observed = (t > 0) & (degrees > 0)
    tail = stdtr(degrees[observed], -t[observed])
    score[observed] = np.maximum(-ndtri(np.clip(tail, SMALLEST_TAIL, 0.5)) * (1 - ROUNDING) - ROUNDING, 0.0)
    return score


def log_floored_bet(
    z: FloatArray, stakes: FloatArray, log_shares: FloatArray, log_cap: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Boosted log payoffs for given scores, and the logs of the multipliers; payoffs are fair once capped at `log_cap`.

    All scores of 0 or below get the average payoff of such scores. The multiplier b of the plain bet keeps
    E min(b f, cap) at most 1. Averaging does not change that as long as b f is below the cap for z <= 0, so b is
    limited to cap / f(0).
    """
    at_zero = log_bet(np.zeros(z.shape), stakes, log_shares)
    average = np.logaddexp.reduce(log_shares + np.log(2.0) + log_ndtr(-stakes), axis=-1)
    boost = np.minimum(log_boost(stakes, log_shares, log_cap), log_cap - at_zero)
    return np.where(z > 0, log_bet(np.maximum(z, 0.0), stakes, log_shares), average) + boost, boost


def student_quantile_bound(log_level: FloatArray | float, degrees: FloatArray) -> FloatArray:
    """A bound c on Student's quantile, with P(t > c) <= level, in closed form; infinite without degrees of freedom.

    The tail P(t > c) is at most (1 + c^2 / nu)^(-nu / 2) / 2, because P(t > c) = E Phi(-c sqrt(chi2 / nu)) and
    Phi(-x) <= exp(-x^2 / 2) / 2.

    >>> student_quantile_bound(np.log(0.01), np.array([10.0, 1000.0, 0.0])).round(2).tolist()
    [3.44, 2.8, inf]
    """
    nu = np.maximum(degrees, 1e-300)
    excess = np.maximum(-2 * (log_level + np.log(2.0)) / nu, 0.0)
    return np.where(excess < LARGEST_EXPONENT, np.sqrt(nu * np.expm1(np.minimum(excess, LARGEST_EXPONENT))), np.inf)


def student_interval(summary: ContrastSummary, line: float) -> Interval:
    """Intervals for Gaussian rewards of unknown scale, from sums of the normal scores of all phases' t statistics."""
    observed = summary.observed & (summary.degrees > 0)
    each, first, information, centre = summary.pooled(observed)
    stakes, root = np.sqrt(each), np.sqrt(np.where(observed, summary.estimated, 1.0))
    reach = intervals.phase_reach(each.sum(axis=0), first, line)
    step = np.sqrt(np.square(each * root).sum(axis=0)) / information
    degrees = np.where(observed, summary.degrees, 0.0)

    def excess(theta: FloatArray, sign: FloatArray) -> FloatArray:
        """The weighted sum of scores at theta, on the side of `sign`, minus the value that rules theta out."""
        score = student_scores(sign * (theta - summary.contrast[:, None]) / root[:, None], degrees[:, None])
        return np.asarray((stakes[:, None] * score).sum(axis=0) - reach)

    return intervals.outer_ends(excess, centre, step, first > 0)


def student_scores(t: FloatArray, degrees: FloatArray) -> FloatArray:
    """The normal scores of positive or negative t statistics; an odd function of t."""
    return np.copysign(normal_score(np.abs(t), np.broadcast_to(degrees, t.shape)), t)


def student_bound(
    phase: PhaseContrasts, signal: FloatArray, information: FloatArray, *, estimated: FloatArray, degrees: FloatArray
) -> Bound:
    """The gap bound for Gaussian rewards of unknown scale, from a separate interval in every phase.

    The interval of phase t gets the share 6 / (pi t)^2 of the level.

    `estimated` is the variance of a contrast from the fresh draws, `degrees (..., arm, agent)` its degrees of freedom.
    The evidence of phases is not added up: signal and information are returned unchanged, and the caller keeps the best
    bound of all phases.
    """
    order = np.maximum(phase.phase, 1)[..., None, None]
    level = BASEL - 2 * np.log(order) - phase.line
    reach = np.where(phase.observed, student_quantile_bound(level, degrees), np.inf)
    root = np.sqrt(estimated.max(axis=-3))
    known = np.isfinite(reach)
    lower = phase.contrast.min(axis=-3) - np.where(known, reach, 0.0) * root
    return signal, information, np.where(known, lower, -np.inf)
