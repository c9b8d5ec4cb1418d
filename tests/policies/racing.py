"""What the tests of evidence racing share."""

from __future__ import annotations

import numpy as np

from parley.policies import make_policy
from parley.policies.evidence.racing import EvidenceRacing
from parley.policies.evidence.wealth import Wealth
from parley.problem import Instance, Problem
from parley.totals import Totals


def racing(problem: Problem, **options: object) -> EvidenceRacing:
    policy = make_policy("evidence", problem, options)
    assert isinstance(policy, EvidenceRacing)
    return policy


def tie(arms: int = 3, top: int = 1, **changes: object) -> Instance:
    return Instance(problem=Problem(arms=arms, weights=[[1.0]], top=top, **changes), means=np.zeros((arms, 1)))


def after_first_phase(policy: EvidenceRacing, mixed: list[float]) -> Wealth:
    """One agent that looks as `mixed` says after 100 draws of everything."""
    state = policy.start()
    counts = np.full_like(state.counts, 100)
    state = policy.update(state, Totals(counts=counts, sums=100 * np.array(mixed)[:, None]))
    assert isinstance(state, Wealth)
    return state
