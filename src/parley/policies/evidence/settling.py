"""Settling the bets of a phase: contrasts from its fresh draws, and the payoffs of bets on them."""

from dataclasses import dataclass, replace

import numpy as np

from parley.policies.evidence.closing import KEPT
from parley.policies.evidence.wealth import Contrasts, against, both
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.rewards import Bets
from parley.totals import Totals


@dataclass(frozen=True, kw_only=True, eq=False)
class Phase:
    """A phase with its draws. Stakes may depend on everything here except the sums of `fresh`."""

    past: Totals
    fresh: Totals
    counts: IntArray  # (..., arm, agent): fresh draws where bets are placed, else 0
    means: FloatArray  # (..., arm, agent): mixed means of the fresh draws
    variances: FloatArray  # (..., arm, agent): variances of mixed means, from the counts and the past
    seen: BoolArray  # (..., 1, arm, agent): all cells of the mixed mean were drawn
    last: BoolArray  # (...): nothing follows this phase

    def contrasts(self, opponents: IntArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """`(..., opponent, arm, agent)` each: contrasts Y, their variances V, and whether both sides were drawn."""
        drawn = self.seen & np.take_along_axis(self.seen, opponents, axis=-2)
        return against(self.means, opponents), both(self.variances, opponents), drawn


def paid(problem: Problem, phase: Phase, contrasts: Contrasts, betting: BoolArray, line: float) -> FloatArray:
    """The slots' log wealth after the payoffs; stakes depend only on the past and the counts of the phase.

    A capped payoff ends on the `line`, or on the slot's own line. In the last phase of a budget every bet stakes all it
    has, if the reward model has an exact test for that: there is no later phase to save for. In a last look after which
    the study may go on, a pair keeps a part.
    """
    y, v, _ = phase.contrasts(contrasts.opponents)
    shift = problem.tolerance
    wealth = contrasts.wealth.copy()
    *replication, _, arm, agent = np.nonzero(betting)
    missing = contrasts.missing[betting]
    model = problem.noise
    bets = Bets(
        estimate=contrasts.gap[betting],
        error=contrasts.error[betting],
        missing=missing,
        contrast=y[betting] + shift if shift else y[betting],
        shift=shift,
        variance=v[betting],
        replication=tuple(replication),
        opponent=contrasts.opponents[betting],
        arm=arm,
        agent=agent,
        weights=problem.weights,
        past=phase.past,
        fresh=phase.fresh,
        horizon=None if contrasts.horizon is None else contrasts.horizon[betting],
        level=None if contrasts.log_shares is None else contrasts.log_shares[betting] - line,
    )
    won = model.payoff(bets)
    over = np.broadcast_to(phase.last[tuple(replication)], missing.shape)
    final = over if contrasts.closes is None else over | contrasts.closes[betting]
    if final.any() and (all_in := model.final_payoff(replace(bets, kept=np.where(over, 0.0, KEPT)))) is not None:
        won = np.where(final, all_in, won)
    reached = (won >= missing) & model.boosted
    goal = line if contrasts.lines is None else np.broadcast_to(contrasts.lines, wealth.shape)[betting]
    wealth[betting] = np.where(reached, goal, wealth[betting] + won)
    return wealth
