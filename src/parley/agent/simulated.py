"""A simulated arm: rewards from a study file's truth, the very ones that `parley simulate` draws with the same seed.

The simulator draws a phase of replication 0 for all agents from one generator, seeded by (seed, block 0, phase). An
agent that knows the whole plan draws the same and keeps its own column; so three agent processes together see exactly
the rewards of one simulated study.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parley.agent.plans import AgentPlan
from parley.errors import InvalidInput
from parley.simulation import make_environment, phase_totals
from parley.study import Study
from parley.totals import Totals

__all__ = ["SimulatedSource"]


class SimulatedSource:
    """Rewards of replication 0 of a simulation."""

    repeatable = True  # the same seed gives the same rewards

    def __init__(self, study: Study, *, seed: int, whole_plan: Callable[[int], tuple[tuple[int, ...], ...]]) -> None:
        self._instance = study.require_truth()
        self._draw = make_environment(self._instance)
        self._seed, self._whole_plan = seed, whole_plan

    def __call__(self, plan: AgentPlan) -> Totals:
        problem = self._instance.problem
        if plan.arms != problem.arms or plan.agent not in problem.agents:
            raise InvalidInput("study file", found="other arms or agents than the live study's", allowed="the same")
        place = problem.agents.index(plan.agent)
        quotas = np.array(self._whole_plan(plan.phase), dtype=np.int64)
        return phase_totals(self._draw, seed=self._seed, phase=plan.phase - 1, counts=quotas)[:, place]
