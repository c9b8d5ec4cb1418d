"""Joint answers of all agents: the line of each slot, if a joint answer is rejected as a whole.

The first phase gives every arm a *share*, by which joint answers divide their wealth among the agents. A slot must also
win the shares of the other agents' leaders. docs/evidence-racing.md has the rule and the proof.
"""

from dataclasses import dataclass, replace

import numpy as np

from parley.policies.evidence.wealth import LOWEST, Wealth, chance_of_losing, log_shares, scores
from parley.problem import BoolArray, FloatArray, IntArray, Problem

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

        `variances` are those of mixed means from all draws so far; leaders of `stuck (..., agent)` may never win.
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
