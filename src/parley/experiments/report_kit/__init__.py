"""What all reports share: tables, pages, charts, and how the size of a problem is said."""

from __future__ import annotations

from parley.formatting import plural
from parley.problem import Problem

__all__ = ["problem_size"]


def problem_size(problem: Problem) -> str:
    """How large the question is.

    >>> problem_size(Problem(arms=3, weights=[[1.0]]))
    '3 arms, 1 agent'
    """
    return f"{plural(problem.arm_count, 'arm')}, {plural(problem.agent_count, 'agent')}"
