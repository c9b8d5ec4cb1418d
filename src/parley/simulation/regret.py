"""Regret of simulated play: per agent, as expected and as realised, and how it grew over time.

A draw of arm k by agent m costs the mixed gap of k for m: the *pseudo-regret*, a function of the counts. What an agent
really earned differs by the noise of its own draws: the *realised* regret has the same mean and scatters more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.policies.base import State
from parley.problem import FloatArray, Instance, IntArray

__all__ = ["Regret", "draw_losses"]

POINTS = 41  # of a curve


def draw_losses(instance: Instance) -> FloatArray:
    """`(arm, agent)`: what a draw of each arm costs each agent.

    >>> from parley.problem import Problem
    >>> problem = Problem(arms=2, weights=[[0.8, 0.3], [0.2, 0.7]])
    >>> draw_losses(Instance(problem=problem, means=[[1.0, 0.0], [0.0, 0.5]])).round(6).tolist()
    [[0.0, 0.05], [0.7, 0.0]]
    """
    return np.asarray(instance.mixed_means.max(axis=-2, keepdims=True) - instance.mixed_means)


@dataclass(frozen=True, kw_only=True, eq=False)
class Regret:
    """What R replications lost."""

    pseudo: FloatArray  # (R, agent): draws times what they cost
    realised: FloatArray  # (R, agent): the same minus the luck of the agent's own rewards
    times: IntArray  # (points,): draws per agent
    curves: FloatArray  # (R, points): pseudo-regret of all agents together, until then

    @property
    def totals(self) -> FloatArray:
        """`(R,)`: pseudo-regret of all agents together."""
        return np.asarray(self.pseudo.sum(axis=-1))

    @classmethod
    def blank(cls, instance: Instance, count: int, until: int) -> Regret:
        """Nothing played yet; curves end after `until` draws per agent."""
        agents = instance.problem.agent_count
        times = np.unique(np.geomspace(1, max(until, 1), POINTS).round().astype(np.int64))
        return cls(
            pseudo=np.zeros((count, agents)),
            realised=np.zeros((count, agents)),
            times=times,
            curves=np.zeros((count, len(times))),
        )

    def add_phase(self, members: IntArray, losses: FloatArray, played: IntArray, quotas: IntArray) -> None:
        """Draw a phase into the curves of some replications, as if its draws came in random order."""
        length = np.maximum(quotas.sum(axis=-2).max(axis=-1), 1)[:, None]
        passed = np.clip((self.times - played[:, None]) / length, 0.0, 1.0)
        self.curves[members] += (quotas * losses).sum(axis=(-2, -1))[:, None] * passed

    def enter(self, members: IntArray, losses: FloatArray, means: FloatArray, state: State) -> None:
        """What the replications that ended have lost."""
        pseudo = (state.counts * losses).sum(axis=-2)
        self.pseudo[members] = pseudo
        self.realised[members] = pseudo - (state.sums - state.counts * means).sum(axis=-2)
