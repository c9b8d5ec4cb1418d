"""Joint answers of all agents: the line of each slot, if a joint answer is rejected as a whole.

The first phase gives every arm a *share*, by which joint answers divide their wealth among the agents. A slot must also
win the shares of the other agents' leaders. docs/evidence-racing.md has the rule and the proof.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit, ndtr

from parley.policies.evidence.wealth import LOWEST, Wealth, scores
from parley.problem import BoolArray, FloatArray, IntArray, Problem

STEEPNESS = 0.7  # exponent of the shares: 0 is the union bound; a larger one trusts the first phase's leaders more
LEAST_CHANCE = 1e-3  # least probability that an arm is, or is not, a loser after the first phase
ROUNDING = 1e-9  # bets aim this far beyond a line that is a sum of shares


@dataclass(frozen=True)
class Joint:
    """The joint answers of a problem; `line` is log(1 / delta)."""

    problem: Problem
    line: float

    def lines(
        self, state: Wealth, rank: IntArray, variances: FloatArray, new: BoolArray, stuck: BoolArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """The lines of slots given the present leaders, `(..., 1, arm, agent)`: what bets aim at, and what is needed.

        A slot of arm k needs log(1 / delta) + log(1 + shares of the other agents' leaders / share of k). Bets aim a
        little higher the more likely leaders are to change, since an arm that may take over has a larger share.

        `variances` are those of mixed means from all draws so far. Leaders of `stuck (..., agent)` may never win, so
        the largest remaining share of such an agent counts instead.
        """
        assert state.log_shares is not None
        top, shares = self.problem.top, np.exp(state.log_shares)
        leading = state.active & (rank < top)
        lead = np.where(leading, shares, 0.0).max(axis=-2)
        among = np.where(state.active & ~new, self.problem.mixed(state.means), LOWEST)
        next_ = np.where(rank == top, shares, 0.0).max(axis=-2)
        chance = np.where(leading, chance_of_losing(among, variances, top), 0.0).max(axis=-2)
        held = np.where(leading, lead[..., None, :], shares)
        aims = np.maximum(lead, lead + chance * (next_ - lead))
        if stuck is not None:
            lead, aims = (np.where(stuck, self.widest(state), usual) for usual in (lead, aims))
        return self.beside(aims, held) + ROUNDING, self.beside(lead, held)

    def beside(self, held_by: FloatArray, shares: FloatArray) -> FloatArray:
        """`(..., 1, arm, agent)`: the lines of slots with these `shares` if the others hold `held_by (..., agent)`."""
        total = np.where(self.problem.questions, held_by, 0.0).sum(axis=-1, keepdims=True)
        others = np.maximum(total - held_by, 0.0)[..., None, :]
        return np.asarray(self.line + np.log1p(others / shares))[..., None, :, :]

    def widest(self, state: Wealth) -> FloatArray:
        """`(..., agent)`: the largest share of a set whose own wealth has not reached 1 / delta.

        Joint answers with any other set are rejected already.
        """
        assert state.log_shares is not None
        top, shares = self.problem.top, np.exp(state.log_shares)
        decided = state.active.sum(axis=-2, keepdims=True) <= top
        below = state.active & (state.log_wealth.min(axis=-3) < self.line)
        if state.ranks is None:
            return np.asarray(np.where(below, shares, 0.0).max(axis=-2))
        led = (state.ranks >= 0) & (state.ranks < top)
        others = (below & ~led).any(axis=-2, keepdims=True) | decided
        return np.asarray(np.where(np.where(others, state.active, led), shares, 0.0).max(axis=-2))

    def beyond(self, state: Wealth) -> FloatArray:
        """`(..., arm, agent)`: the evidence against an arm minus what rules it out.

        At 0 every joint answer that contains the arm is rejected, whatever the other agents' arms are.
        """
        assert state.log_shares is not None
        lines = self.beside(self.widest(state), np.exp(state.log_shares))
        return scores(replace(state, log_wealth=state.log_wealth - lines))

    def with_shares(
        self, before: Wealth, after: Wealth, variances: FloatArray, new: BoolArray, candidates: BoolArray
    ) -> Wealth:
        """Fix the shares of joint answers for the whole study, from the first phase, whose draws are not evidence."""
        first = ((before.phase == 0) & ~before.finished)[..., None, None]
        assert after.log_shares is not None
        if not first.any():
            return after
        new = new & candidates
        known = np.where(candidates & ~new, self.problem.mixed(after.means), LOWEST)
        made = log_shares(known, variances, self.problem.top, new)
        return replace(after, log_shares=np.where(first, made, after.log_shares))


def chance_of_losing(mixed: FloatArray, variances: FloatArray, top: int) -> FloatArray:
    """`(..., arm, agent)`: rough probability that an arm is not among the `top` best.

    From estimates and their variances: an arm inside is compared with the best outside, an arm outside with the last
    inside.

    >>> chance_of_losing(np.array([[0.5], [0.4], [0.0]]), np.full((3, 1), 0.01), 1).round(2).ravel().tolist()
    [0.24, 0.76, 1.0]
    """
    order = np.argsort(-mixed, axis=-2, kind="stable")
    inside = np.argsort(order, axis=-2, kind="stable") < top
    rival = np.where(inside, order[..., top : top + 1, :], order[..., top - 1 : top, :])
    error = np.sqrt(variances + np.take_along_axis(variances, rival, axis=-2))
    return np.asarray(ndtr((np.take_along_axis(mixed, rival, axis=-2) - mixed) / error))


def log_shares(mixed: FloatArray, variances: FloatArray, top: int, new: BoolArray | bool = False) -> FloatArray:
    """`(..., arm, agent)`: the log share of every arm in a joint answer, up to a common factor, by the first phase.

    A wrong joint answer is most likely wrong for the agent whose arm has the worst estimate, so it should bet there.
    The first phase says nothing about a `new` arm: each new arm, and the best of the others, is equally likely to win.

    >>> log_shares(np.array([[0.5], [0.4], [0.0]]), np.full((3, 1), 0.01), 1).round(2).ravel().tolist()
    [-0.81, 0.81, 4.83]
    """
    rivals = 1 + np.sum(new, axis=-2, keepdims=True) if np.any(new) else 1
    loses = 1 - np.where(new, 1.0, 1 - chance_of_losing(mixed, variances, top)) / rivals
    loses = np.clip(loses, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return np.asarray(STEEPNESS * logit(loses))
