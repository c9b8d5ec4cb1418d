"""The ties at which a policy errs most: where a true top arm is no better than one that is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.problem import Instance, Problem

__all__ = ["Tie", "hardest_ties"]


@dataclass(frozen=True, kw_only=True)
class Tie:
    """A truth in which `arm` is among everybody's top N and ties with an arm that need not be."""

    words: str
    instance: Instance
    arm: int


def hardest_ties(problem: Problem) -> list[Tie]:
    """N - 1 arms clearly better, two that tie at the boundary, and the rest clearly worse, or tied as well.

    >>> [tie.words for tie in hardest_ties(Problem(arms=3, weights=[[1.0]]))]
    ['two arms tie', 'all arms below the top tie']
    """
    model, top = problem.noise, problem.top
    centre, step = model.usual_mean, problem.largest_gap / 2
    if model.low is not None and model.high is not None:
        step = min(step, (centre - model.low) / 2, (model.high - centre) / 2)
    levels = np.full(problem.arm_count, centre - step)
    levels[: top - 1], levels[top - 1 : top + 1] = centre + step, centre
    kinds = {"two arms tie": levels}
    if problem.arm_count > top + 1:
        kinds["all arms below the top tie"] = np.maximum(levels, centre)
    agents = np.ones(problem.agent_count)
    return [
        Tie(words=words, instance=Instance(problem=problem, means=np.outer(means, agents)), arm=top - 1)
        for words, means in kinds.items()
    ]
