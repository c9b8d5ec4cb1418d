"""How evidence racing for regret plans a phase: what draws cost, how much to explore, how long to play.

Nothing here touches what is proven: any counts that depend on the past alone keep it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from parley.currency import Currency
from parley.policies.base import State
from parley.policies.evidence_plan import Contrasts, Temper, cheapest, require_possible
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.totals import Totals

__all__ = ["LEAST_MISSING", "REGRET_TEMPERS", "TIME_GROWTH", "Costs", "draw_costs", "exploration", "planned_line"]

# What `rounds` stands for: precision, growth (of what exploration costs), optimism, caution; and the growth in time.
REGRET_TEMPERS = {
    4: (0.165, 4.0, 1.7, 0.7),
    5: (0.175, 3.3, 2.0, 0.65),
    6: (0.2, 2.4, 2.5, 0.4),
    7: (0.215, 1.9, 2.8, 0.3),
    8: (0.23, 1.6, 3.2, 0.2),
}
TIME_GROWTH = {4: 20.0, 5: 20.0, 6: 15.0, 7: 10.0, 8: 10.0}

ACCURACIES = (0.05, 0.05)  # of the two solves
DOUBT = 2.0  # times its expected loss is what a leader's draw is taken to cost: few, long phases rest on it
LEAST_COST = 1e-4  # of the dearest draw: what a draw that loses nothing is taken to cost
FIRST_STAKE, STAKE_STEPS, PLANNED_MARGIN = 4.0, 4, 0.5
LEAST_MISSING = 0.05  # nats: a contrast that is all but over


@dataclass(frozen=True, kw_only=True, eq=False)
class Costs:
    """What draws cost by present estimates, all `(..., arm, agent)` but for `spent`."""

    draws: FloatArray  # for the plan: the leader's too
    losses: FloatArray  # the expected regret of a draw of any other arm than the leader, 0 for the leader
    leading: BoolArray
    spent: FloatArray  # (...): the expected regret of all draws so far of arms that do not lead


def draw_costs(problem: Problem, state: State) -> Costs:
    """A draw costs its estimated gap to the leader, with one standard error added in squares while it is a candidate.

    The leader costs what it is expected to lose to the candidates that may be better: the sum over them of
    E max(gap, 0), their gap being normal around its estimate. Where prices are stated they stand beside the gaps: a
    draw of another arm than the leader costs both (`parley.bounds.prices.regret_and_money`).
    """
    mixed = problem.mixed(state.means)
    variances = problem.mixed_variances(np.maximum(state.counts, 1), problem.noise.cell_variances(state.totals))
    first = np.where(state.active, mixed, -np.inf).argmax(axis=-2)[..., None, :]
    leading = first == np.arange(problem.arm_count)[:, None]
    gap = np.maximum(np.take_along_axis(mixed, first, axis=-2) - mixed, 0.0)
    square = np.take_along_axis(variances, first, axis=-2) + variances
    error = np.sqrt(square)
    z = gap / error
    behind = state.active & ~leading
    doubt = error * (np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) - z * ndtr(-z))
    doubt = np.where(behind, doubt, 0.0).sum(axis=-2, keepdims=True)
    losses = np.sqrt(gap**2 + np.where(state.active, square, 0.0))
    if "price" in problem.unusual():
        losses = losses + problem.price
    losses = np.where(leading, 0.0, losses)
    draws = np.where(leading, DOUBT * doubt, losses + doubt)
    least = LEAST_COST * draws.max(axis=(-2, -1), keepdims=True)
    spent = np.asarray((state.counts * losses).sum(axis=(-2, -1)))
    return Costs(draws=np.maximum(draws, least), losses=losses, leading=leading, spent=spent)


def planned_line(contrasts: Contrasts, weight: FloatArray, temper: Temper, least: float) -> FloatArray:
    """`(..., opponent, arm, agent)`: the line to expect, log(weight * sqrt(V)), where V follows from the line itself.

    A contrast with gap D that just crosses has sqrt(V) = D / u with a stake u of about sqrt(2 * missing).
    """
    gap = np.sqrt(np.square(np.maximum(contrasts.gap, 0.0)) + np.square(temper.optimism * contrasts.error))
    stake = np.full(gap.shape, FIRST_STAKE)
    for _ in range(STAKE_STEPS):
        line = np.maximum(np.log(weight[..., None, None, None] * gap / stake), least)
        stake = np.sqrt(2 * np.maximum(line - contrasts.wealth, LEAST_MISSING)) + PLANNED_MARGIN
    return np.asarray(line)


def exploration(
    problem: Problem, contrasts: Contrasts, past: Totals, costs: Costs, temper: Temper, time_growth: float
) -> tuple[IntArray, IntArray]:
    """`(batch, arm, agent)` draws to explore and `(batch,)` the length of the phase.

    The leader's own draws are part of the cheapest plan, but need not be asked for: whoever has time plays it anyway.
    They only make the phase longer, up to `time_growth` times what was played before.
    """
    priced = Currency(prices=costs.draws, pace=None)
    solution, touched = cheapest(problem, contrasts, past, temper, None, priced, ACCURACIES)
    allocation = solution.allocation
    wanted = (allocation * costs.losses).sum(axis=(-2, -1))
    most = (temper.growth - 1) * costs.spent
    most = np.maximum(most, np.sqrt(most * wanted))  # whoever is far from the end need not come there so slowly
    total = np.clip(wanted, (temper.smallest_growth - 1) * costs.spent, most)
    allocation = allocation * (total / np.maximum(wanted, 1e-300))[:, None, None]
    require_possible(float(allocation.sum(axis=(-2, -1)).max()))
    explored = np.where(touched & ~costs.leading, np.maximum(np.ceil(allocation), problem.noise.least_draws), 0).astype(
        np.int64
    )
    played = past.counts.sum(axis=-2).max(axis=-1)
    longest = np.minimum(allocation.sum(axis=-2).max(axis=-1), (time_growth - 1) * played)
    length = np.maximum(explored.sum(axis=-2).max(axis=-1) + 1, np.ceil(longest).astype(np.int64))
    return explored, length
