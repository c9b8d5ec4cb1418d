"""PF-UCB-BAI (Algorithm 3 of the paper): the baseline for personalized weights, with phases of fixed length.

Phases r are counted from 1, so that `log r` is defined. Phase p has the effort `f(p) = 2^p log(1 / delta)`, and `F(r)`
is the sum of `f(1)` to `f(r)`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import zeta

from parley.errors import InvalidInput
from parley.policies.base import Elimination, Explanation, State, nth_largest, whole_counts
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.system.once import once


def personalization(problem: Problem, policy: str) -> float:
    """The alpha of M agents' weights `alpha * identity + (1 - alpha) / M`; other weights raise an error.

    >>> personalization(Problem(arms=2, weights=[[0.75, 0.25], [0.25, 0.75]]), "pf-ucb")
    0.5
    """
    weights, agents = problem.weights, problem.agent_count
    alpha = 1.0 if agents == 1 else float(weights[0, 0] - weights[1, 0])
    expected = alpha * np.eye(agents) + (1 - alpha) / agents
    if alpha < -1e-9 or not np.allclose(weights, expected, rtol=0, atol=1e-9):
        raise InvalidInput(
            "weights",
            found="a matrix that is not alpha * identity + (1 - alpha) / M",
            allowed=f"personalized weights with one alpha between 0 and 1, with the policy {policy}",
            hint="Use a policy of evidence racing for general weights",
        )
    return alpha


def phase_lengths(problem: Problem, state: State, alpha: float, effort: FloatArray) -> FloatArray:
    """`(..., arm, agent)`: draws of a phase with this `effort (..., 1, 1)`.

    An agent that has its answer draws only for the mixes of other agents.
    """
    contested = state.active & (state.active.sum(axis=-2, keepdims=True) > 1)
    everyone = np.ceil((1 - alpha) * effort) * contested.any(axis=-1, keepdims=True)
    return np.asarray(everyone + np.ceil(alpha * problem.agent_count * effort) * contested)


@dataclass(frozen=True, kw_only=True)
class PfUcbBai(Elimination):
    """The policy PF-UCB-BAI, without options. The radius needs personalized weights with one alpha, and `top = 1`."""

    name: ClassVar[str] = "pf-ucb-bai"
    proven: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = True
    draws_everything: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.problem.top != 1:
            raise InvalidInput("top", found=self.problem.top, allowed="1 with the policy pf-ucb-bai")
        personalization(self.problem, self.name)

    @property
    def alpha(self) -> float:
        """The alpha of the personalized weights."""
        return personalization(self.problem, self.name)

    @once
    def _log_delta(self) -> float:
        return math.log(1 / self.problem.delta)

    def wanted(self, state: State) -> IntArray:
        """The draws of a phase of fixed length. The radius stays valid if a rule fixed in advance adds draws."""
        effort = (np.exp2(state.phase + 1.0) * self._log_delta)[..., None, None]
        return whole_counts(phase_lengths(self.problem, state, self.alpha, effort))

    def explain(self, state: State) -> Explanation:
        mixed, half, bar = self._intervals(state, state.active)
        known = np.isfinite(bar) & (state.phase[..., None, None] > 0)
        return Explanation(
            mixed_means=mixed,
            score=np.where(known, (np.where(known, bar, 0.0) - mixed) / half, 0.0),
            line=1.0,
            words="distance below the best lower confidence bound, in half-widths of the phase's interval",
        )

    def keep(self, before: State, after: State) -> BoolArray:
        mixed, half, bar = self._intervals(after, before.active)
        return np.asarray((mixed + half >= bar) | ~self._drawn(after))

    def _intervals(self, state: State, among: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        phase = np.maximum(state.phase, 1)
        half = pf_ucb_radius(self.problem, self._effort(phase), phase)[..., None, None]
        mixed = self.problem.mixed(state.means)
        return mixed, half, nth_largest(mixed - half, 1, among & self._drawn(state))

    def _effort(self, phase: IntArray) -> FloatArray:
        """The effort of all phases so far: F(phase) = f(1) + ... + f(phase)."""
        return np.asarray((np.exp2(phase + 1.0) - 2) * self._log_delta)

    def _drawn(self, state: State) -> BoolArray:
        """Which cells have the draws that the radius assumes: the radius depends on the phase, not on actual counts."""
        # The factor allows for rounding, in case the counts are exactly those that the radius assumes.
        effort = self._effort(state.phase)[..., None, None] * (1 - 1e-12)
        everyone = (state.counts >= (1 - self.alpha) * effort).all(axis=-1, keepdims=True)
        own = state.counts >= (1 - self.alpha + self.alpha * self.problem.agent_count) * effort
        return np.asarray(everyone & own & (state.counts > 0))


def pf_ucb_radius(problem: Problem, effort: FloatArray, phase: IntArray) -> FloatArray:
    """B_r of PF-UCB-BAI (Appendix E) with beta = 2, for K arms, M agents and phases r counted from 1.

    It is `sqrt(2 log(K M zeta(2) r^2 / delta) / (M F(r)))`, times the scale of rewards.
    """
    arms, agents = problem.shape
    logs = np.log(arms * agents * zeta(2) * np.square(phase.astype(np.float64)) / problem.delta)
    return np.asarray(problem.noise.largest_scale * np.sqrt(2 * logs / (agents * effort)))
