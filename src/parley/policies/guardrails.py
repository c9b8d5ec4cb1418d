"""Guardrails: evidence that an arm harms more than is allowed, and evidence that it does not.

Let h be the harm of arm k in agent m's mix beyond what the guardrail allows: the arm's harm minus the control's harm
minus the margin, or the arm's harm minus the limit. Every pair of arm and agent has two wealths, which
grow or shrink with each phase's draws by the payoffs of the outcome's reward model: the *alarm* bets against "h <= 0",
and the *clearing* against "h > 0". Under its null, each wealth is a nonnegative supermartingale that starts at 1, so
the probability that it ever reaches c is at most 1 / c (Ville).

An alarm stops the arm for everybody, so its null is "h <= 0 in every mix". Then h <= 0 also holds for the mean of all
mixes. One more wealth bets against that, with the draws of all sites, and a weighted mean of all these wealths is a
supermartingale too. The alarm is raised when this mean reaches arms / delta. A pair is *named* in an alarm, or cleared,
when its own wealth reaches pairs / delta.

If an arm harms nobody, only an alarm can be false, with probability at most delta / arms. If an arm harms the agents in
S, no alarm is false; clearing the arm for an agent in S may be false, and so may naming an agent outside S, with
probability at most delta / pairs each. So the probability that a guardrail says anything false in the whole study is at
most its delta (docs/outcomes.md).

Stakes depend on the past and on the counts of the phase. The first draws of an arm are bet on too: without an estimate,
the bet is on the smallest harm that they can prove. Simulator, coordinator and replay all call `update`. Arrays are
`(..., arm, agent)`, or `(..., arm, mix)` where the mean of all mixes comes after the agents' mixes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from parley.outcomes import Outcome
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.rewards import Bets
from parley.system.once import once
from parley.totals import Totals

TOGETHER = 0.75  # weight of the mean of all mixes in the evidence for an alarm, if there are several mixes
# Relative standard error assumed for the harm that is bet on without an estimate, so that the bet also wins if the true
# harm is half as large.
DOUBT = 0.3
ROUNDING = 1e-9  # bets aim this far beyond a line, so that one mix can suffice alone despite rounding
# To set stakes, an arm without draws is given imagined ones: their number, and the least distance of their mean from
# the ends of the range, as a share of the range.
IMAGINED, EDGE = 500, 0.01
# The excess harm that a first phase should find, and by how much the expected score should then exceed its line, both
# in standard deviations.
LARGE_HARM, FOUND = 0.5, 1.55
HOPELESS = 2.0  # no bet is placed if the estimate is this many standard errors on the losing side


@dataclass(frozen=True, kw_only=True, eq=False)
class GuardState:
    """The state of a guardrail between phases; each array is `(..., arm, agent)` unless stated."""

    log_alarm: FloatArray  # (..., arm, mix): log evidence that the harm exceeds what is allowed
    log_clear: FloatArray  # log evidence that the harm does not exceed what is allowed
    raised_in: IntArray  # (..., arm): the phase that raised the alarm; 0 if none
    alarmed_in: IntArray  # the phase that proved harm in this agent's mix alone; 0 if none
    cleared_in: IntArray  # the phase that cleared the arm; 0 if none
    past: Totals  # totals of the outcome over all phases
    phase: int = 0  # number of phases so far

    @property
    def alarmed(self) -> BoolArray:
        """`(..., arm)`: whether an alarm was raised for the arm."""
        return np.asarray(self.raised_in > 0)

    @property
    def cleared(self) -> BoolArray:
        """`(..., arm)`: whether the arm is cleared for every mix."""
        return np.asarray((self.cleared_in > 0).all(axis=-1))

    def take(self, some: Any) -> Self:
        """Select some of the replications in a batch."""
        kept = {field.name: getattr(self, field.name)[some] for field in fields(self) if field.name != "phase"}
        return replace(self, **kept)


@dataclass(frozen=True, kw_only=True)
class Guardrail:
    """A guardrail of a study: an outcome, and the tests of whether an arm does more harm than allowed.

    >>> from parley.rewards import Binary
    >>> harm = Outcome(name="harm", noise=Binary(), better="lower", role="guardrail", margin=0.02, delta=0.05)
    >>> problem = Problem(arms=["c", "a"], weights=[[1.0]], control="c", outcomes=(harm,))
    >>> guard = Guardrail.of(problem, harm)
    >>> fresh = Totals(counts=np.full((2, 1), 200), sums=np.array([[10.0], [60.0]]))
    >>> guard.update(guard.start(), fresh).alarmed.tolist()
    [False, True]
    """

    problem: Problem  # the study's problem with the outcome's reward model and delta
    outcome: Outcome

    @classmethod
    def of(cls, problem: Problem, outcome: Outcome, share: float = 1.0) -> Self:
        """Make the guardrail of an outcome.

        The guardrail may spend `share` of the outcome's delta; changes of weights make this share smaller.
        """
        assert outcome.delta is not None
        expected = replace(outcome, noise=outcome.expected_noise)
        return cls(problem=problem.of_outcome(expected, outcome.delta * share), outcome=outcome)

    @property
    def _arms(self) -> int:
        """The number of arms that are tested: all, or all but the control."""
        return self.problem.arm_count - (self.outcome.limit is None)

    @once
    def line(self) -> float:
        """The log evidence needed to name or clear a pair: log(pairs / delta)."""
        return self.alarm_line + math.log(self.problem.question_count)

    @once
    def alarm_line(self) -> float:
        """The log evidence needed for an alarm, from all mixes together: log(arms / delta)."""
        return math.log(self._arms) - math.log(self.problem.delta)

    @once
    def mixes(self) -> FloatArray:
        """`(agent, mix)`: the weights, with the mean of all mixes appended if there are several questions."""
        weights = self.problem.weights
        if self.problem.question_count == 1:
            return weights
        return np.column_stack([weights, weights[:, self.problem.asks].mean(axis=-1)])

    @once
    def _log_shares(self) -> FloatArray:
        """`(mix,)`: the log of every mix's share in the evidence for an alarm."""
        agents, count = self.problem.agent_count, self.problem.question_count
        if count == 1:
            return np.zeros(agents)
        return np.asarray(np.log(np.append(np.full(agents, (1 - TOGETHER) / count), TOGETHER)))

    def evidence(self, state: GuardState, waiting: BoolArray | None = None) -> FloatArray:
        """`(..., arm)`: the log evidence that an arm harms somebody. A question that is asked repeatedly counts once.

        Before the end of a phase, mixes with an agent that has not reported yet (`waiting (agent,)`) do not count. The
        order of reports may depend on their outcomes, so within a phase the evidence must only grow.
        """
        counts = np.append(self.problem.questions, True)[: self.mixes.shape[1]]
        if waiting is not None:
            counts = counts & ~(self.mixes[waiting] > 0).any(axis=0)
        return np.asarray(np.logaddexp.reduce((state.log_alarm + self._log_shares)[..., counts], axis=-1))

    @property
    def allowed(self) -> float:
        """The allowed harm: relative to the control if the outcome has a margin, otherwise absolute."""
        bound = self.outcome.margin
        return bound if bound is not None else self.outcome.sign * float(self.outcome.limit or 0.0)

    @property
    def settles_alone(self) -> bool:
        """Whether an agent's bets depend only on the agents in its mix, so that those agents' reports can settle them.

        False if all agents share an unknown scale, which other reports change, or if reports are private, because then
        rates are estimated from all agents together.
        """
        return -1 not in self.problem.noise.shared_axes and self.problem.rho is None

    def first_look(self, draws: IntArray) -> float:
        """The factor by which to multiply the first `draws (arm, agent)` to find a large harm in the mean of all mixes.

        With this factor, 15 studies in 16 find such a harm if scores are normal, and nine in ten if evidence is exact.
        """
        problem, model, sign = self.problem, self.problem.noise, self.outcome.sign
        usual = np.full(problem.shape, model.usual_mean)
        deviation = np.sqrt(model.true_variances(usual).max())
        tested = np.array([self.outcome.margin is None or arm != problem.control for arm in problem.arms])[:, None]
        base = usual if self.outcome.limit is None else 0.0
        low, high = model.ends
        harmed = np.where(tested, np.clip(base + sign * (self.allowed + LARGE_HARM * deviation), low, high), usual)
        cells, mean = model.true_variances(harmed), self.mixes[:, -1:]
        variance = problem.mixed_variances(draws, cells, weights=mean)[:, 0]
        if self.outcome.limit is None:
            variance = variance + variance[problem.arms.index(problem.control or "")]
        found = math.sqrt(2 * self.alarm_line) + FOUND
        return float(variance[tested[:, 0]].max() * (found / (LARGE_HARM * deviation)) ** 2)

    def start(self, batch: tuple[int, ...] = ()) -> GuardState:
        """The initial state, without any evidence."""
        shape = (*batch, *self.problem.shape)
        return GuardState(
            log_alarm=np.zeros((*shape[:-1], self.mixes.shape[1])),
            log_clear=np.zeros(shape),
            raised_in=np.zeros(shape[:-1], dtype=np.int64),
            alarmed_in=np.zeros(shape, dtype=np.int64),
            cleared_in=np.zeros(shape, dtype=np.int64),
            past=Totals.zero(shape),
        )

    def update(
        self, state: GuardState, fresh: Totals, *, alarms_only: bool = False, waiting: BoolArray | None = None
    ) -> GuardState:
        """The state after another phase with these totals of the outcome.

        The wealth of a pair with undrawn cells does not change.

        In mid-phase, the agents `waiting (agent,)` have not reported yet. `alarms_only` skips clearings, which take
        longer, for simulations that only count false alarms.
        """
        alarm, clear, phase = state.log_alarm.copy(), state.log_clear.copy(), state.phase + 1
        # Bets on people who came before the phase are settled first; bets on the phase's own draws then aim at the
        # evidence that is still missing. The stakes of both use the estimates from before the phase. A site reports
        # both at once, and a pair bets once all of its sites have reported, so a bet that was settled in mid-phase does
        # not change when other sites report.
        for pairs in (pairs for stratum in fresh.strata for pairs in self._pairs(stratum)):
            self._settle(alarm, 1.0, state, pairs)
            if not alarms_only:
                self._settle(clear, -1.0, state, pairs)
        moved = replace(state, log_alarm=alarm, log_clear=clear, past=state.past + fresh, phase=phase)
        # An alarm is final: the evidence may shrink again, but the phase that raised the alarm is kept.
        raised = np.where(state.alarmed | (self.evidence(moved, waiting) < self.alarm_line), state.raised_in, phase)
        named = (alarm[..., : self.problem.agent_count] >= self.line) & (raised > 0)[..., None]
        return replace(
            moved,
            raised_in=raised,
            alarmed_in=np.where((state.alarmed_in == 0) & named, phase, state.alarmed_in),
            cleared_in=np.where((state.cleared_in == 0) & (clear >= self.line), phase, state.cleared_in),
        )

    def fold(self, phases: Iterable[Totals]) -> GuardState:
        """The state after all `phases` of one study so far, given in order."""
        state = self.start()
        for fresh in phases:
            state = self.update(state, fresh)
        return state

    def _pairs(self, fresh: Totals) -> Iterator[_Pairs]:
        """Yield the arms that are tested together, each against the control or against the limit.

        A bet has two sides. Against a limit, the other side is an arm whose draws are left out, so that it does not
        affect the contrast. So the arms are tested in two halves, each half against an arm of the other half.
        """
        arms = np.arange(self.problem.arm_count)
        if self.outcome.limit is None:
            control = self.problem.arms.index(self.problem.control or "")
            yield _Pairs(arms=arms != control, other=control, fresh=fresh, control=True)
            return
        for odd in (0, 1):
            mine = arms % 2 == odd
            yield _Pairs(arms=mine, other=1 - odd, fresh=fresh.without(~mine), control=False)

    def _settle(self, wealth: FloatArray, side: float, state: GuardState, pairs: _Pairs) -> None:
        """Settle the bets on "more harm than allowed" (side 1) or "no more than allowed" (side -1), in place.

        `wealth` is the log wealth of every pair, to which the log payoffs are added.
        """
        problem, model, fresh = self.problem, self.problem.noise, pairs.fresh
        # If one mix alone proves harm, its share of the evidence must be enough for an alarm.
        enough = self.alarm_line - self._log_shares + ROUNDING
        weights, line = (self.mixes, enough) if side > 0 else (problem.weights, np.array([self.line]))
        line = np.broadcast_to(line, wealth.shape)
        cells = model.cell_variances(state.past)
        variance = pairs.both(problem.mixed_variances(np.maximum(fresh.counts, 1), cells, weights=weights))
        beyond = side * (self._harm(pairs, fresh.means @ weights) - self.allowed)
        known = pairs.all(problem.drawn(state.past.counts, weights))
        provable = np.sqrt(2 * line * variance)
        gap = side * (self._harm(pairs, state.past.means @ weights) - self.allowed)
        releases = max(state.phase, 1)
        past = np.maximum(state.past.counts, 1)
        error = np.sqrt(pairs.both(problem.mixed_variances(past, cells, releases, weights)))
        estimate, error = np.where(known, gap, provable), np.where(known, error, DOUBT * provable)
        betting = pairs.arms[:, None] & pairs.all(problem.drawn(fresh.counts, weights)) & (wealth < line)
        betting &= estimate + HOPELESS * error > 0
        *replication, arm, agent = np.nonzero(betting)
        if not arm.size:
            return
        surely = math.sqrt(2 * self.alarm_line)
        first_harm = LARGE_HARM * surely / (surely + FOUND) * np.sqrt(cells)
        missing, other = line[betting] - wealth[betting], np.full(arm.shape, pairs.other)
        above = side * self.outcome.sign > 0
        bets = Bets(
            estimate=estimate[betting],
            error=error[betting],
            missing=missing,
            contrast=beyond[betting],
            shift=-side * self.allowed,
            variance=variance[betting],
            replication=tuple(replication),
            opponent=arm if above else other,
            arm=other if above else arm,
            agent=agent,
            weights=weights,
            past=self._imagined(state.past, pairs, side * first_harm + self.allowed),
            fresh=fresh,
            # A limit must not pass for a tolerance, from which models infer how long a test of near-ties may take.
            horizon=None if pairs.control else np.full(arm.shape, np.nan),
        )
        won = model.payoff(bets)
        wealth[betting] = np.where((won >= missing) & model.boosted, line[betting], wealth[betting] + won)

    def _imagined(self, past: Totals, pairs: _Pairs, harm: FloatArray | float) -> Totals:
        """The past, with imagined draws for arms that have none.

        The mean of these draws has the `harm` that a first phase can just prove.

        Without these draws, models that use past means as references would expect no harm, and use their widest payoff.
        The harm does not depend on the counts of the phase: in mid-phase some counts are unknown, and bets that are
        settled by then must not change when these counts arrive.
        """
        new = past.counts == 0
        if not new.any() or not (self.problem.noise.in_range or self.problem.noise.whole):
            return past
        low, high = self.problem.noise.ends
        usual = np.where(past.counts > 0, past.means, self.problem.noise.usual_mean)
        base = usual[..., pairs.other, None, :] if pairs.control else 0.0
        raised = np.where(pairs.arms[:, None], base + self.outcome.sign * harm, usual)
        span = min(high, 2 * float(np.max(usual)) + 1) - low
        means = np.clip(raised, low + EDGE * span, high - EDGE * span if self.problem.noise.in_range else np.inf)
        counts = np.where(new, IMAGINED, past.counts)
        sums = np.where(new, IMAGINED * means, past.sums)
        squares = (
            None
            if past.squares is None
            else np.where(new, IMAGINED * (np.square(means) + self.problem.noise.first_variance), past.squares)
        )
        return Totals(counts=counts, sums=sums, squares=squares)

    def _harm(self, pairs: _Pairs, mixed: FloatArray) -> FloatArray:
        """`(..., arm, agent)`: the harm in mixed means, minus the control's harm if there is a margin."""
        against = mixed[..., pairs.other, None, :] if pairs.control else 0.0
        return np.asarray(self.outcome.sign * (mixed - against))


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """Arms that are tested together, and the arm on the other side of their bets."""

    arms: BoolArray  # (arm,): whether the arm is in this group
    other: int  # index of the arm on the other side
    fresh: Totals  # the totals to bet on
    control: bool  # whether the other side is the control; otherwise its draws are left out

    def both(self, variances: FloatArray) -> FloatArray:
        """`(..., arm, agent)`: variances of contrasts, from the variances of mixed means."""
        return variances + variances[..., self.other, None, :] if self.control else variances

    def all(self, drawn: BoolArray) -> BoolArray:
        """`(..., arm, agent)`: whether all cells that a contrast needs were drawn."""
        return drawn & drawn[..., self.other, None, :] if self.control else drawn


def guardrails(problem: Problem, share: float = 1.0) -> tuple[Guardrail, ...]:
    """The guardrails of a study, in the order of its outcomes; each may spend `share` of its delta."""
    return tuple(Guardrail.of(problem, outcome, share) for outcome in problem.outcomes if outcome.guards)
