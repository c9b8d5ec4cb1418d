"""The plan of a phase, as the policy wants it and a log can tell it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parley.errors import InvalidInput
from parley.policies import Policy, State
from parley.problem import IntArray
from parley.protocol.codec import LARGEST_INTEGER
from parley.protocol.messages import Plan, Rows

__all__ = ["make_plan", "next_plan", "rows"]


def rows(array: IntArray) -> Rows:
    """A matrix as messages hold it."""
    return tuple(map(tuple, array.tolist()))


def make_plan(policy: Policy, state: State, study: str, phase: int, frozen: Iterable[str]) -> Plan:
    """The policy's plan, without what it asks of frozen agents."""
    quotas = policy.plan(state).copy()
    for name in frozen:
        quotas[:, policy.problem.agents.index(name)] = 0
    _require_countable(state, quotas)
    return Plan(study=study, phase=phase, quotas=rows(quotas))


def next_plan(policy: Policy, state: State, study: str, phase: int, frozen: Iterable[str]) -> Plan | None:
    """The same, or None where there is no next phase: all is answered, or nobody may be asked for what is missing."""
    if state.finished:
        return None
    plan = make_plan(policy, state, study, phase, frozen)
    return plan if plan.array.any() else None


def _require_countable(state: State, quotas: IntArray) -> None:
    """Raise where the draws of the study, all together, would be more than a log can tell (and any study can make)."""
    total = float(state.counts.sum(dtype=np.float64) + quotas.sum(dtype=np.float64))
    if total > LARGEST_INTEGER or (quotas < 0).any():
        raise InvalidInput(
            "plan",
            found=f"about {abs(total):.3g} draws in all",
            allowed="up to 2^53, what a log can tell",
            hint="The noise is too large for the gaps that are to be told apart",
        )
