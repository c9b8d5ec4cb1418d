"""Whether a study's answers would be the same under other weights, on the same data.

Weights are a judgement, and readers may judge otherwise. So the recorded phases are replayed under the weights of a
path (`parley.weights.WeightPath`), as when a study is re-weighed. The bets of a phase are made from what was known
before it, and counts were fixed before their rewards. So the policy's error is at most its delta under any weights that
a reader would have chosen in advance: such an answer is `proven`. With delta divided by the number of steps, all steps
together are wrong with probability at most delta: such an answer `holds` for every reader at once. An answer that is
right at two steps is right between them if weights are linear there, since a difference of mixed means is linear too.
So a range of weights follows from its steps. `docs/weights.md` has the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from operator import add

import numpy as np

from parley.policies import Policy
from parley.problem import BoolArray, FloatArray, Problem
from parley.protocol.lost_sites import folded
from parley.text.status import OutcomeStatus
from parley.totals import Totals
from parley.weights import WeightPath

WORDS = (
    "holds: right for all of these weights at once with probability at least the level, in addition to that of the "
    "answer; "
    "proven: right with at least this probability for a reader who would have chosen these weights before the study; "
    "leads: the best estimate, and not proven; other: another arm has the best estimate"
)


class Robustness(StrEnum):
    """How robust an answer is to other weights, from most to least."""

    HOLDS = "holds"
    PROVEN = "proven"
    LEADS = "leads"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True, eq=False)
class Sensitivity:
    """The robustness of every agent's answer at each step of a path of weights.

    For an agent without an answer, the arms with the best estimates are examined instead.
    """

    path: WeightPath
    arms: BoolArray  # (arm, agent): the answers, or the best estimates of agents without an answer
    leading: BoolArray  # (step, arm, agent): the N best estimates
    standing: list[list[Robustness]]  # [step][agent]

    def range_of(self, agent: int) -> tuple[float, float] | None:
        """The range of the path in which the agent's answer holds for all readers at once.

        Returns None if the answer holds at no step, or if it does not hold at a corner of the path.
        """
        steps = zip(self.path.values, self.standing, strict=True)
        values = [value for value, row in steps if row[agent] is Robustness.HOLDS]
        # The path may have a corner at the stated weights, value 0. Weights are not linear across a corner, so steps on
        # both sides of it prove nothing between them unless the answer holds at the corner itself.
        joined = self.path.straight or 0.0 in values
        return (values[0], values[-1]) if values and joined else None


def sensitivity(policy: Policy, phases: Sequence[Totals], arms: BoolArray, *, prove: bool = True) -> Sensitivity:
    """Examine the answers `arms (arm, agent)` at every step of the path through the policy's weights.

    For an agent without an answer, the arms with the best estimates are examined. With `prove`, the phases are replayed
    at every step to see which answers are proven; a study may be too large for that.

    >>> from parley.policies import make_policy
    >>> problem = Problem(arms=2, weights=[[0.75, 0.25], [0.25, 0.75]])
    >>> phase = Totals(counts=np.full((2, 2), 400), sums=np.array([[360.0, 240.0], [40.0, 200.0]]))
    >>> found = sensitivity(make_policy("evidence", problem), [phase, phase], np.array([[True, True], [False, False]]))
    >>> found.range_of(0), found.range_of(1), found.standing[-1][1].value
    ((0.0, 1.0), (0.0, 0.7), 'leads')
    """
    problem, past = policy.problem, reduce(add, phases)
    path, top = WeightPath.through(problem.weights, problem.draws), problem.top
    leading = np.stack([_best(past, path.at(value), top, _open(policy.problem)) for value in path.values])
    own = _best(past, policy.problem.weights, top, _open(policy.problem))
    answered = arms.sum(axis=0) <= top
    arms = np.where(answered, arms, own)
    prove = prove and foldable(policy)
    shares = (1.0, 1.0 / len(path.values))
    standing = []
    for value, ahead in zip(path.values, leading, strict=True):
        same = (arms == ahead).all(axis=0)
        found = np.where(same, Robustness.LEADS, Robustness.OTHER)
        if np.allclose(path.at(value), policy.problem.weights, rtol=0, atol=1e-9):
            found = np.where(answered, Robustness.PROVEN, found)  # proven by the study itself
        for share, word in zip(shares, (Robustness.PROVEN, Robustness.HOLDS), strict=True):
            # An answer that is not proven with all of delta cannot hold with a share of it: skip the second replay.
            if prove and (share == 1.0 or (found == Robustness.PROVEN).any()):
                found = np.where(_answered(policy, path.at(value), share, phases, arms), word, found)
        standing.append([Robustness(word) for word in found])
    return Sensitivity(path=path, arms=arms, leading=leading, standing=standing)


def foldable(policy: Policy) -> bool:
    """Whether the phases may be replayed under other weights.

    The policy's guarantee must allow counts that it did not plan, and the study must have no horizon.
    """
    return "site_counts" in policy.supports and policy.problem.horizon is None


def _open(problem: Problem) -> BoolArray:
    return ~np.isin(problem.arms, problem.dormant)[:, None]


def _best(past: Totals, weights: FloatArray, top: int, open_: BoolArray) -> BoolArray:
    """`(arm, agent)`: the arms with the N best estimates of mixed means, among arms that are open and drawn."""
    known = open_ & ((past.counts == 0) @ (weights > 0) == 0)
    order = np.argsort(-np.where(known, past.means @ weights, -np.inf), axis=0, kind="stable")
    return np.asarray(np.argsort(order, axis=0, kind="stable") < top)


def _answered(
    policy: Policy, weights: FloatArray, share: float, phases: Sequence[Totals], arms: BoolArray
) -> BoolArray:
    """`(agent,)`: whether a study with these weights and this share of delta would have ended with these arms."""
    problem = policy.problem
    # Prices and rates only matter for plans, and all draws are made already.
    unpriced = {"rate": None, "day_cost": 0.0, "round_days": 0.0, "delay": 0.0, "price": 1.0}
    asked = problem.with_(weights=weights, delta=problem.delta * share, answers="each", **unpriced)
    anew = replace(policy, problem=asked)
    state = folded(anew, phases)[-1]
    ends = [OutcomeStatus(end).answered for end in anew.statuses(state)]
    return np.asarray((np.asarray(state.answers) == arms).all(axis=0) & ends)
