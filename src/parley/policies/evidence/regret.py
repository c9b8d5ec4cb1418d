"""Evidence racing for regret: the costs of draws and of wrong answers decide what to draw and when to stop.

Bets, opponents and wealth are as in `evidence`. Four things differ. The line follows from what a wrong answer would
cost until the horizon. In plans, a draw costs its expected regret. A contrast is explored only while exploring it is
worth the cost. A phase lasts until the agent with the most exploration is done, and all other agents play their leaders
meanwhile. docs/regret.md has the proofs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from parley.costs import CostModel
from parley.policies.base import Explanation, State
from parley.policies.evidence.plan import Temper, cheapest, require_possible, whole_cells
from parley.policies.evidence.racing import EvidenceRacing
from parley.policies.evidence.wealth import Contrasts, Wealth, both
from parley.policies.playing import Playing
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.system.once import once
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import above_zero

LEAST_LINE = math.log(2)  # keeps the probability that the best arm is dropped at most 1/2, even close to the horizon
LARGEST_LOSS = 100.0  # limit on eps (`_stakes_of_error`), in units of K * variance / largest_gap
FIRST_LINE = 11.5  # the line that sizes the first phase
USUAL_HORIZON = 10**6  # longer horizons are worth another round or two
FIRST_SHARE = 0.25  # largest share of the horizon for the first phase
BOUNDED_REGRET = Translatable("the expected regret of wrong answers is bounded, whatever the gaps are")

# Option `rounds` -> precision, growth (of the cost of exploration), optimism and caution; TIME_GROWTH has the growth of
# the time played.
REGRET_TEMPERS = {
    4: (0.165, 4.0, 1.7, 0.7),
    5: (0.175, 3.3, 2.0, 0.65),
    6: (0.2, 2.4, 2.5, 0.4),
    7: (0.215, 1.9, 2.8, 0.3),
    8: (0.23, 1.6, 3.2, 0.2),
}
TIME_GROWTH = {4: 20.0, 5: 20.0, 6: 15.0, 7: 10.0, 8: 10.0}

ACCURACIES = (0.05, 0.05)  # relative gaps of the solves, each of which starts from the previous solution
LEADER_COST = 2.0  # factor on the expected loss of a leader's draw, as leaders are played for long phases
SURPRISE = 1.25  # gaps are assumed smaller by this factor, since a wrong leader would be played for a long time
RARE = 2.0  # a cell's variance may be underestimated by this many squared ranges, divided by its draws
LEAST_COST = 1e-4  # assumed cost of a draw without regret, relative to the most expensive draw
# `planned_line`: its first stake, its number of steps, and the margin of stakes in standard deviations.
FIRST_STAKE, STAKE_STEPS, PLANNED_MARGIN = 4.0, 4, 0.5
LEAST_MISSING = 0.05  # least missing wealth to plan for, in nats: a contrast that lacks less is nearly decided


@dataclass(frozen=True, kw_only=True, eq=False)
class Lined(Wealth):
    """Wealth, with the line that each arm had to reach in the last phase."""

    line: FloatArray  # (..., arm, agent)


@dataclass(frozen=True, kw_only=True)
class EvidenceRegret(Playing, EvidenceRacing):
    """Evidence racing while playing. No option can break the guarantee; options trade regret for rounds.

    `rounds`: about how many rounds you can afford, 4 to 8 (7 by default); sets `precision`, `growth` (here of the
    cost of exploration, not of samples), `optimism` and `caution`, as in `evidence`, and how fast phases get longer.
    `smallest_growth`: the smallest factor by which a phase multiplies the time played so far.
    `loss`: the regret that wrong answers may cost, in units of the cost of one more nat of evidence.
    `worth`: a contrast is explored only while exploring it costs at most `worth` times the loss expected without it.
    """

    name: ClassVar[str] = "evidence-regret"
    proven: ClassVar[bool] = True
    tempers: ClassVar[Mapping[int, tuple[float, float, float, float]]] = REGRET_TEMPERS
    plays_open: ClassVar[bool] = True
    rounds: int | None = 7
    loss: float = 4.0
    worth: float = 1.0

    def __post_init__(self) -> None:
        Playing.__post_init__(self)
        EvidenceRacing.__post_init__(self)
        for key, value in (("loss", self.loss), ("worth", self.worth)):
            above_zero(f"policy.{key}", value)

    def claim(self, probability: float) -> str:  # noqa: ARG002
        return self._noted(BOUNDED_REGRET)

    @property
    def line(self) -> float:
        """The line that sizes the first phase, the same for all horizons. Later phases set lines per arm (`weigh`)."""
        return FIRST_LINE

    @property
    def patience(self) -> float:
        horizon = self.problem.horizon
        return max(math.log(horizon) / math.log(USUAL_HORIZON), 1.0) if isinstance(horizon, int) else 1.0

    def start(self, batch: tuple[int, ...] = ()) -> Lined:
        blank = super().start(batch)
        kept = {field.name: getattr(blank, field.name) for field in fields(blank)}
        return Lined(**kept, line=np.zeros((*batch, *self.problem.shape)))

    @once
    def first_phase(self) -> IntArray:
        """The first phase of `evidence`, limited to a share of the horizon."""
        usual = super().first_phase
        most = FIRST_SHARE * self.horizon(np.zeros(self.problem.shape, dtype=np.int64))
        fits = np.minimum(most / np.maximum(usual.sum(axis=0), 1), 1.0)
        return np.where(usual > 0, np.maximum(np.floor(usual * fits), 1), 0).astype(np.int64)

    def explored(self, state: State) -> tuple[IntArray, IntArray]:
        assert isinstance(state, Lined)
        explored = np.where((state.phase == 0)[..., None, None], self.first_phase, 0)
        length = np.where(state.phase == 0, explored.sum(axis=-2).max(axis=-1), self.remaining(state.counts).max(-1))
        racing = (state.phase > 0) & ~state.finished & ~self._decided(state)
        if racing.any():
            batch = state.take(racing)  # a single study becomes a batch of one
            contrasts, costs = self.contrasts(batch), draw_costs(self.problem, batch)
            line = planned_line(contrasts, self._stakes_of_error(batch), self.temper, LEAST_LINE)
            plan = replace(contrasts, missing=np.maximum(line - contrasts.wealth, LEAST_MISSING))
            explored[racing], length[racing] = exploration(
                self.problem, plan, self._worth(batch, plan), batch, costs, self.temper, TIME_GROWTH[self._rounds]
            )
        return explored, length

    def _worth(self, state: State, contrasts: Contrasts) -> FloatArray:
        """`(..., opponent, arm, agent)`: the most that exploring a contrast may cost.

        This is `worth` times the loss expected if the leader is played to the horizon instead. With few draws, means of
        rewards in a range are not normal, because rare rewards may be missed: at a rate of 0.03, 100 draws show no
        success in one of 20 studies. So variances are raised by `RARE` squared ranges, divided by the draws.
        """
        problem, counts, square = self.problem, np.maximum(state.counts, 1), np.square(contrasts.error)
        low, high = problem.noise.low, problem.noise.high
        if low is not None and high is not None:
            rare = problem.mixed_variances(counts, RARE * (high - low) ** 2 / counts)
            square = square + both(rare, contrasts.opponents)
        excess = expected_excess(np.maximum(contrasts.gap, 0.0) / SURPRISE, np.sqrt(square))
        return np.asarray(self.worth * self.remaining(state.counts)[..., None, None, :] * excess)

    def contrasts(self, state: Wealth) -> Contrasts:
        """The contrasts of `evidence`, except that bets against an arm go on until it is ruled out.

        Bets go on even after the arm has reached an earlier, lower line.
        """
        usual = super().contrasts(state)
        undecided = state.active.sum(axis=-2, keepdims=True) > 1
        live = np.broadcast_to((state.active & undecided)[..., None, :, :], usual.live.shape)
        return replace(usual, live=live, losing=live & ~self.leaders(state)[..., None, :, :])

    def _stakes_of_error(self, state: State) -> FloatArray:
        """`(...)`: the weight w = (T - t) sqrt(2 log T) / eps in the lines log(w sqrt(V)) of contrasts with variance V.

        T is the horizon, and t is an agent's number of draws so far. eps is what wrong answers may cost an agent: a
        share of what exploring has cost, so that both costs stay in proportion.
        """
        problem = self.problem
        logs = np.log(np.maximum(self.horizon(state.counts), 3))
        variance = float(np.max(problem.noise.first_variance))
        largest = LARGEST_LOSS * problem.arm_count * variance / problem.largest_gap
        spent = draw_costs(problem, state).spent
        eps = np.clip(self.loss * spent / (problem.agent_count * logs), 1e-9 * largest, largest)
        return np.asarray(self.remaining(state.counts).max(axis=-1) * np.sqrt(2 * logs) / eps)

    def weigh(self, state: Wealth, fresh: Totals, contrasts: Contrasts) -> Wealth:
        """Settle the bets of a phase as in `evidence`, with the lines of this phase.

        A phase may rule an arm out only if the phase's own draws are evidence against the arm: the second case in the
        proof of Theorem 1 (docs/regret.md) needs this.
        """
        assert isinstance(state, Lined)
        y, v, drawn = self.phase(state, fresh).contrasts(contrasts.opponents)
        weight = np.maximum(self._stakes_of_error(state), 1e-300)[..., None, None, None]
        line = np.maximum(np.log(weight * np.sqrt(v)), LEAST_LINE)
        contrasts = replace(contrasts, missing=np.maximum(line - contrasts.wealth, 1e-3), lines=line)
        after, racing = super().weigh(state, fresh, contrasts), self.racing(state)
        assert isinstance(after, Lined)
        against_it = contrasts.live & drawn & (y > 0)
        wealth = np.where(against_it, after.log_wealth, np.minimum(after.log_wealth, line - 1e-9))
        return replace(
            after,
            log_wealth=np.where(racing, wealth, after.log_wealth),
            line=np.where(racing, line, state.line[..., None, :, :]).min(axis=-3),
        )

    def keep(self, before: State, after: State) -> BoolArray:  # noqa: ARG002
        """Drop the arms that have reached their line.

        If the leader is one of them, drop only the leader in this phase.
        """
        assert isinstance(before, Lined)
        undecided = before.active.sum(axis=-2, keepdims=True) > 1
        out = before.active & undecided & (before.phase > 0)[..., None, None]
        out &= before.log_wealth.min(axis=-3) >= before.line
        fallen = (out & self.leaders(before)).any(axis=-2, keepdims=True)
        return np.asarray(before.active & ~(out & (self.leaders(before) | ~fallen)))

    def decide(self, before: State, after: State) -> State:
        """Decide as in `evidence`, and bring dropped arms back with their wealth when an open horizon is extended.

        Over a longer horizon a wrong answer costs more, so the lines at which arms were dropped are now too low.
        """
        decided = super().decide(before, after)
        longer = (self.horizon(decided.counts) > self.horizon(before.counts))[..., None, None]
        return replace(decided, active=decided.active | longer, dropped_in=np.where(longer, 0, decided.dropped_in))

    def explain(self, state: State) -> Explanation:
        assert isinstance(state, Lined)
        usual = super().explain(state)
        wealth, line = state.log_wealth.min(axis=-3), np.maximum(state.line, LEAST_LINE)
        return replace(
            usual,
            score=np.minimum(wealth / line, 1.0),
            line=1.0,
            words=Translatable(
                "log evidence against the arm as a share of its threshold, which grows with the cost of a wrong "
                "answer; bars are two standard errors"
            ),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Costs:
    """The costs of draws by current estimates, all `(..., arm, agent)` except `spent`."""

    draws: FloatArray  # cost of a draw in the plan, also for the leader
    losses: FloatArray  # expected regret of a draw; 0 for the leader
    leading: BoolArray
    spent: FloatArray  # (...): expected regret of all draws so far


def draw_costs(problem: Problem, state: State) -> Costs:
    """Estimate the costs of draws.

    A draw costs the arm's estimated gap to the leader; for candidates, the standard error of the gap is added in
    quadrature.

    A draw of the leader costs its expected loss to candidates that may be better: the sum over candidates of E max(gap,
    0), with the gap normal around its estimate. This expected loss is added to the cost of all other arms too, and so
    are stated prices (`parley.bounds.prices.regret_and_money`).
    """
    mixed = problem.mixed(state.means)
    variances = problem.mixed_variances(np.maximum(state.counts, 1), problem.noise.cell_variances(state.totals))
    first = np.where(state.active, mixed, -np.inf).argmax(axis=-2)[..., None, :]
    leading = first == np.arange(problem.arm_count)[:, None]
    gap = np.maximum(np.take_along_axis(mixed, first, axis=-2) - mixed, 0.0)
    square = np.take_along_axis(variances, first, axis=-2) + variances
    behind = state.active & ~leading
    doubt = np.where(behind, expected_excess(gap, np.sqrt(square)), 0.0).sum(axis=-2, keepdims=True)
    losses = np.sqrt(gap**2 + np.where(state.active, square, 0.0))
    if "price" in problem.non_default():
        losses = losses + problem.price
    losses = np.where(leading, 0.0, losses)
    draws = np.where(leading, LEADER_COST * doubt, losses + doubt)
    least = LEAST_COST * draws.max(axis=(-2, -1), keepdims=True)
    spent = np.asarray((state.counts * losses).sum(axis=(-2, -1)))
    return Costs(draws=np.maximum(draws, least), losses=losses, leading=leading, spent=spent)


def planned_line(contrasts: Contrasts, weight: FloatArray, temper: Temper, least: float) -> FloatArray:
    """`(..., opponent, arm, agent)`: the expected line log(weight * sqrt(V)), at least `least`.

    V, the variance of the contrast, depends on the line itself: a contrast with gap D that just reaches the line has
    sqrt(V) = D / u, with a stake u of about sqrt(2 * missing). A few steps of fixed-point iteration find the line.
    """
    gap = np.sqrt(np.square(np.maximum(contrasts.gap, 0.0)) + np.square(temper.optimism * contrasts.error))
    stake = np.full(gap.shape, FIRST_STAKE)
    for _ in range(STAKE_STEPS):
        line = np.maximum(np.log(weight[..., None, None, None] * gap / stake), least)
        stake = np.sqrt(2 * np.maximum(line - contrasts.wealth, LEAST_MISSING)) + PLANNED_MARGIN
    return np.asarray(line)


def expected_excess(gap: FloatArray, error: FloatArray) -> FloatArray:
    """E max(X, 0) for X ~ N(-gap, error^2): the expected amount by which the trailing arm is better.

    >>> expected_excess(np.array([0.0, 2.0]), np.array([1.0, 1.0])).round(4).tolist()
    [0.3989, 0.0085]
    """
    z = gap / error
    return np.asarray(error * (np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) - z * ndtr(-z)))


def exploration(
    problem: Problem,
    contrasts: Contrasts,
    worth: FloatArray,
    state: State,
    costs: Costs,
    temper: Temper,
    time_growth: float,
) -> tuple[IntArray, IntArray]:
    """Plan a phase: the draws to explore, `(batch, arm, agent)`, and its length in draws per agent, `(batch,)`.

    The leader's own draws are part of the cheapest plan but need not be requested: agents with time left play the
    leader anyway. The leader's draws only make the phase longer, until the time played has grown by the factor
    `time_growth`. If nothing is worth exploring, the phase has this largest length, and the next phase decides again
    with the data from playing.
    """
    plan, touched = worthwhile(problem, contrasts, worth, state, costs, temper)
    wanted = (plan * costs.losses).sum(axis=(-2, -1))
    most = (temper.growth - 1) * costs.spent
    most = np.maximum(most, np.sqrt(most * wanted))  # if the plan wants far more, growth is faster
    plan = plan * (np.minimum(wanted, most) / np.maximum(wanted, 1e-300))[:, None, None]
    require_possible(float(plan.sum(axis=(-2, -1)).max()))
    explored = whole_cells(problem, contrasts, np.where(touched & ~costs.leading, np.maximum(plan, 1e-9), 0.0))
    played = state.counts.sum(axis=-2).max(axis=-1)
    shortest, longest = (temper.smallest_growth - 1) * played, (time_growth - 1) * played
    length = np.clip(plan.sum(axis=-2).max(axis=-1), shortest, longest)
    length = np.ceil(np.where(touched.any(axis=(-2, -1)), length, longest))
    return explored, np.maximum(explored.sum(axis=-2).max(axis=-1) + 1, length).astype(np.int64)


def worthwhile(
    problem: Problem, contrasts: Contrasts, worth: FloatArray, state: State, costs: Costs, temper: Temper
) -> tuple[FloatArray, BoolArray]:
    """The cheapest plan in which no contrast costs more than its worth.

    Returns the plan's draws, and which cells the plan draws, `(batch, arm, agent)` each.

    Contrasts whose share of the cost exceeds their `worth (..., opponent, arm, agent)` are dropped. Fewer contrasts
    then share the cost of the plan, so this repeats until every share is within its worth.
    """
    losing, plan = contrasts.losing.copy(), np.zeros(costs.draws.shape)
    touched = np.zeros(plan.shape, dtype=np.bool_)
    unsettled = np.arange(len(plan))
    while unsettled.size:
        part = replace(contrasts.take(unsettled), losing=losing[unsettled])
        priced = CostModel(prices=costs.draws[unsettled], pace=None)
        solution, cells, shares = cheapest(problem, part, state.take(unsettled).totals, temper, priced, ACCURACIES)
        plan[unsettled], touched[unsettled] = solution.allocation, cells
        dear = part.losing & (shares * solution.value[:, None, None, None] > worth[unsettled])
        losing[unsettled] &= ~dear
        unsettled = unsettled[dear.any(axis=(-3, -2, -1))]
    return plan, touched
