"""Tolerance: an agent may also answer with its leaders, once it is sure that no arm beats one of them by more.

Before a phase an agent's *leaders* are fixed: the N best estimates among its candidates, and who leads stays unless
another is better by a quarter of the tolerance (any choice by the past alone will do). For every leader l and every
other candidate j a second wealth bets on "j is not better than l by the tolerance or more": the contrast l minus j,
raised by the tolerance, settled by fresh draws only. When all of them stand on their line, the agent answers with its
leaders. The wealths begin anew with every change of leaders, and the t-th *reign* has the share 6 / (pi^2 t^2) of half
of delta; the other half is the exact race's, which goes on beside it and takes arms out of the question for good.
`docs/tolerance.md` has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.policies.base import State, accept, leading
from parley.policies.evidence.wealth import Contrasts, Reign
from parley.problem import BoolArray, FloatArray, IntArray, Problem

__all__ = ["SHARE", "Claims", "accept_leaders", "acceptance_line", "claims", "nobody", "standing"]

SHARE = 0.5  # of delta, for accepting; the exact race has the rest
LOYALTY = 0.25  # of the tolerance: by which another arm must be better to end a reign


def acceptance_line(problem: Problem, reign: IntArray) -> FloatArray:
    """`(..., agent)`: what every wealth of a reign (from 1) must reach.

    >>> acceptance_line(Problem(arms=2, weights=[[1.0]], delta=0.1), np.array([1, 2])).round(3).tolist()
    [3.493, 4.88]
    """
    times = np.maximum(reign, 1).astype(np.float64)
    share = math.log(problem.question_count) - math.log(SHARE * problem.delta)
    return np.asarray(share + math.log(math.pi**2 / 6) + 2 * np.log(times))


def standing(problem: Problem, state: State) -> FloatArray:
    """`(..., arm, agent)`: estimates by which arms are ranked. Who leads has a quarter of the tolerance in advance.

    At a tie the best estimate changes with every phase, and each change would end a reign and what it had won.
    """
    mixed = problem.mixed(state.means)
    if not isinstance(state, Reign):
        return mixed
    return mixed + np.where(state.leaders, LOYALTY * problem.tolerance, 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Claims:
    """The bets that the leaders begin or go on with, before a phase."""

    bets: Contrasts
    leaders: BoolArray  # (..., arm, agent)
    reign: IntArray  # (..., agent)
    line: FloatArray  # (..., 1, 1, agent)
    made: BoolArray  # (..., agent): who still asks

    def settled(self, state: Reign, log_wealth: FloatArray) -> Reign:
        """The state after the bets were paid; who does not ask stays as it is."""
        return replace(
            state,
            leaders=np.where(self.made[..., None, :], self.leaders, state.leaders),
            reign=np.where(self.made, self.reign, state.reign),
            log_acceptance=np.where(self.made[..., None, None, :], log_wealth, state.log_acceptance),
        )


def nobody(problem: Problem, batch: tuple[int, ...]) -> dict[str, Any]:
    """The fields of a `Reign` before anybody leads."""
    return {
        "leaders": np.zeros((*batch, *problem.shape), dtype=np.bool_),
        "reign": np.zeros((*batch, problem.agent_count), dtype=np.int64),
        "log_acceptance": np.zeros((*batch, problem.top, *problem.shape)),
    }


def claims(problem: Problem, state: Reign, contrasts: Contrasts) -> Claims:
    """What the past fixes before a phase.

    A candidate that does not lead has the leaders as its opponents in the exact race; so a claim about it is that
    contrast, raised by the tolerance.
    """
    leaders = leading(standing(problem, state), state.active, problem.top)
    same = (leaders == state.leaders).all(axis=-2)
    reign = np.asarray(state.reign + ~same)
    line = acceptance_line(problem, reign)[..., None, None, :]
    wealth = np.where(same[..., None, None, :], state.log_acceptance, 0.0)
    made = (state.active.sum(axis=-2) > problem.top) & ((state.phase > 0) & ~state.finished)[..., None]
    live = (state.active & made[..., None, :] & ~leaders)[..., None, :, :] & (wealth < line)
    bets = replace(
        contrasts,
        gap=contrasts.gap + problem.tolerance,
        wealth=wealth,
        missing=np.maximum(line - wealth, 0.0),
        live=live,
        losing=live,
    )
    return Claims(bets=bets, leaders=leaders, reign=reign, line=line, made=made)


def accept_leaders(problem: Problem, before: State, after: Reign) -> Reign:
    """The state with the answers of those agents whose every claim stands on the line."""
    line = acceptance_line(problem, after.reign)[..., None, None, :]
    settled = np.asarray((after.log_acceptance >= line).all(axis=-3))
    return accept(before, after, after.leaders, settled, problem.top)
