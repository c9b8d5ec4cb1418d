"""Joint answers of all agents: the line of each slot when joint answers are rejected as a whole.

A joint answer v names a set of N arms for every agent, and exactly one joint answer is true. Testing each v as a whole
therefore needs no union bound over agents. The first phase gives every arm a *share*. Let E_m be the wealth of v's set
for agent m, and p_m the share of that set: v is rejected when W(v) = sum_m p_m E_m / sum_m p_m reaches 1 / delta. A
leader's set may have next to no wealth, so the slot of a loser must make up for the shares of the other agents' leaders
too. docs/evidence-racing.md has the rule and the proof.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit, ndtr

from parley.policies.evidence.wealth import LOWEST, Wealth, scores
from parley.problem import BoolArray, FloatArray, IntArray, Problem

STEEPNESS = 0.7  # exponent of the shares: 0 is the union bound; larger values trust the first phase's leaders more
LEAST_CHANCE = 1e-3  # least probability, after the first phase, that an arm loses, and that it does not
ROUNDING = 1e-9  # bets aim this far beyond the line, since the line is computed from rounded sums


@dataclass(frozen=True)
class Joint:
    """Shares and lines of the joint answers to a problem; `line` is log(1 / delta)."""

    problem: Problem
    line: float

    def lines(
        self, state: Wealth, rank: IntArray, variances: FloatArray, new: BoolArray, stuck: BoolArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the lines that slots' bets aim at and the lines that slots need, `(..., 1, arm, agent)` each.

        Given the present leaders, a slot of arm k needs log(1 / delta) + log(1 + s / p), where p is the share of k, and
        s is the sum of the shares of the other agents' leaders. Bets aim higher, and more so if a change of leaders is
        likely: an arm that may become leader has a larger share.

        `variances` are the variances of the mixed means of all draws so far. The leaders of the agents in
        `stuck (..., agent)` may never win, so for such an agent the largest remaining share counts instead.
        """
        assert state.log_shares is not None
        top, shares = self.problem.top, np.exp(state.log_shares)
        leading = state.active & (rank < top)
        lead = np.where(leading, shares, 0.0).max(axis=-2)
        among = np.where(state.active & ~new, self.problem.mixed(state.means), LOWEST)
        next_ = np.where(rank == top, shares, 0.0).max(axis=-2)
        chance = np.where(leading, chance_of_losing(among, variances, top), 0.0).max(axis=-2)
        # The leaders of an agent are one set, and the share of a set is the largest share of its arms.
        held = np.where(leading, lead[..., None, :], shares)
        aims = np.maximum(lead, lead + chance * (next_ - lead))
        if stuck is not None:
            lead, aims = (np.where(stuck, self.widest(state), usual) for usual in (lead, aims))
        return self.beside(aims, held) + ROUNDING, self.beside(lead, held)

    def beside(self, held_by: FloatArray, shares: FloatArray) -> FloatArray:
        """`(..., 1, arm, agent)`: the lines of slots with these `shares (..., arm, agent)`.

        `held_by (..., agent)` is the share of every agent's set in the joint answer; an agent's lines do not count its
        own share.
        """
        # Agents with equal weights ask the same question, which has a single share in a joint answer.
        total = np.where(self.problem.questions, held_by, 0.0).sum(axis=-1, keepdims=True)
        others = np.maximum(total - held_by, 0.0)[..., None, :]
        return np.asarray(self.line + np.log1p(others / shares))[..., None, :, :]

    def widest(self, state: Wealth) -> FloatArray:
        """`(..., agent)`: the largest share of a set whose own wealth has not reached 1 / delta.

        Joint answers with any other set of the agent are already rejected.
        """
        assert state.log_shares is not None
        top, shares = self.problem.top, np.exp(state.log_shares)
        decided = state.active.sum(axis=-2, keepdims=True) <= top
        below = state.active & (state.log_wealth.min(axis=-3) < self.line)
        if state.ranks is None:
            return np.asarray(np.where(below, shares, 0.0).max(axis=-2))
        # With N > 1 a slot of a loser serves many sets, so any candidate may belong to a set below the line, unless the
        # slots of all losers have reached it: then only the leaders' own set is left.
        led = (state.ranks >= 0) & (state.ranks < top)
        others = (below & ~led).any(axis=-2, keepdims=True) | decided
        return np.asarray(np.where(np.where(others, state.active, led), shares, 0.0).max(axis=-2))

    def beyond(self, state: Wealth) -> FloatArray:
        """`(..., arm, agent)`: the evidence against an arm minus the evidence needed to rule it out.

        At 0 or more, every joint answer that contains the arm is rejected, whatever the other agents' arms are.
        """
        assert state.log_shares is not None
        lines = self.beside(self.widest(state), np.exp(state.log_shares))
        return scores(replace(state, log_wealth=state.log_wealth - lines))

    def with_shares(
        self, before: Wealth, after: Wealth, variances: FloatArray, new: BoolArray, candidates: BoolArray
    ) -> Wealth:
        """Set the shares of joint answers after the first phase; later phases do not change them.

        Shares may depend on the draws of the first phase because those draws are not evidence.
        """
        first = ((before.phase == 0) & ~before.finished)[..., None, None]
        assert after.log_shares is not None
        if not first.any():
            return after
        new = new & candidates
        known = np.where(candidates & ~new, self.problem.mixed(after.means), LOWEST)
        made = log_shares(known, variances, self.problem.top, new)
        return replace(after, log_shares=np.where(first, made, after.log_shares))


def chance_of_losing(mixed: FloatArray, variances: FloatArray, top: int) -> FloatArray:
    """`(..., arm, agent)`: rough probability that an arm is not among the `top` best, given its estimate and variance.

    An arm among the `top` best estimates is compared with the best of the other arms, and every other arm with the last
    of the `top` best.

    >>> chance_of_losing(np.array([[0.5], [0.4], [0.0]]), np.full((3, 1), 0.01), 1).round(2).ravel().tolist()
    [0.24, 0.76, 1.0]
    """
    order = np.argsort(-mixed, axis=-2, kind="stable")
    inside = np.argsort(order, axis=-2, kind="stable") < top
    rival = np.where(inside, order[..., top : top + 1, :], order[..., top - 1 : top, :])
    error = np.sqrt(variances + np.take_along_axis(variances, rival, axis=-2))
    return np.asarray(ndtr((np.take_along_axis(mixed, rival, axis=-2) - mixed) / error))


def log_shares(mixed: FloatArray, variances: FloatArray, top: int, new: BoolArray | bool = False) -> FloatArray:
    """`(..., arm, agent)`: the log, up to a constant, of every arm's share in joint answers, set by the first phase.

    A wrong joint answer is most likely wrong for the agent whose arm has the worst estimate, so bets on that agent get
    the largest share of the joint answer's wealth. The first phase has no data about a `new` arm: each new arm is
    assumed to be as likely to win as all other arms together.

    >>> log_shares(np.array([[0.5], [0.4], [0.0]]), np.full((3, 1), 0.01), 1).round(2).ravel().tolist()
    [-0.81, 0.81, 4.83]
    """
    rivals = 1 + np.sum(new, axis=-2, keepdims=True) if np.any(new) else 1
    loses = 1 - np.where(new, 1.0, 1 - chance_of_losing(mixed, variances, top)) / rivals
    loses = np.clip(loses, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return np.asarray(STEEPNESS * logit(loses))
