"""Evidence racing (W-CER), Parley's own policy: an arm is ruled out when the wealth of bets against it reaches a line.

Before a phase, N *opponents* are fixed for every arm k of agent m, each with a *slot* that holds the wealth of bets on
"this opponent beats k"; only the phase's fresh draws settle these bets. A slot's wealth is evidence against sets of N
arms (`wealth`) and rejects these sets when it reaches the line M / delta. When all sets that contain k are rejected, k
is ruled out.

Why this is sound: take the set that is the true top N of agent m. Every bet against it says that an arm outside beats
an arm inside, so given the past and the counts, its expected payoff is at most 1. The wealth against the set is
therefore a nonnegative supermartingale from 1, and by Ville's inequality ever reaches M / delta with probability at
most delta / M. Over all agents this adds up to delta; phases, arms and counts cost nothing extra. Joint answers avoid
even the factor M (`joint`). `docs/evidence-racing.md` has the proof. The error probability of the whole answer is at
most delta whatever the options, which only trade samples for rounds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from parley.errors import InvalidInput
from parley.policies.base import NOTED, Elimination, Explanation, State, best_estimates, cut_to
from parley.policies.evidence import plan, tolerance
from parley.policies.evidence.closing import SURE_IN_ROUNDS, Closing, manner
from parley.policies.evidence.joint import Joint
from parley.policies.evidence.plan import TEMPERS, Temper
from parley.policies.evidence.spread import ODDS_OF_GROWTH
from parley.policies.evidence.tolerance import Pairs
from parley.policies.evidence.wealth import LOWEST, Contrasts, Phase, Wealth, against, both, carried, paid, scores
from parley.problem import BoolArray, FloatArray, IntArray
from parley.rewards import PhaseContrasts
from parley.system.once import once
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import above_zero

# Factor on optimism with a tolerance or joint answers, which makes phases smaller (docs/policies.md); closed studies
# have `Manner.finer` unless they state their rounds.
FINER = 1.15
NO_SET = 1e9  # log wealth of a slot that represents no set, if answers are joint: above every slot's own line
ALL_IN = 0.8  # a plan that wants more than this share of the remaining budget takes all of it
LOG_EVIDENCE = Translatable("log evidence ")


@dataclass(frozen=True, kw_only=True)
class EvidenceRacing(Elimination):
    """Evidence racing. No option can break the guarantee; options trade samples for rounds.

    `rounds`: about how many rounds you can afford, 3 to 8; sets the defaults of `precision`, `growth`, `optimism` and
    `caution`. If stated, phases grow as fast as that number of rounds requires. By default it follows from what a
    round costs in days (`round_days`, `delay`), and is 5 if that is unknown.
    `precision`: standard error of every mixed mean after the first phase, as a share of `largest_gap`.
    `growth`: the largest factor by which a phase multiplies the samples spent so far.
    `smallest_growth`: the smallest factor by which a phase multiplies the samples spent so far; 1.03 by default, less
    in long studies.
    `optimism`: plan as if gaps were this many standard errors larger than estimated (added in quadrature).
    `caution`: what saving a round is worth; a larger value makes phases larger and rounds fewer.
    `gap_scale`: a gap you expect, as a share of `largest_gap`; tunes the bounds on gaps and the default of `rounds`.
    """

    name: ClassVar[str] = "evidence"
    proven: ClassVar[bool] = True
    plans_by_price: ClassVar[bool] = True
    allows_drift: ClassVar[bool] = True  # pooled means only choose opponents, stakes and counts: bets stay fair
    supports: ClassVar[frozenset[str]] = Elimination.supports | {
        "tolerance",
        "site_counts",
        "rho",
        "dormant",
        "covariate",
        "between",
    }
    tempers: ClassVar[Mapping[int, tuple[float, float, float, float]]] = TEMPERS
    rounds: int | None = None
    precision: float | None = None
    growth: float | None = None
    optimism: float | None = None
    caution: float | None = None
    smallest_growth: float | None = None
    gap_scale: float = 0.2

    # ---- options and parameters: what the options mean on this problem, and the line that wealth has to reach

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds not in self.tempers:
            allowed = f"a whole number from {min(self.tempers)} to {max(self.tempers)}"
            raise InvalidInput("policy.rounds", found=self.rounds, allowed=allowed)
        for key in ("precision", "optimism", "caution", "gap_scale"):
            value = getattr(self, key)
            if value is not None:
                above_zero(f"policy.{key}", value)
        least, most = self.temper.smallest_growth, self.temper.growth
        if not 1 < least <= most < math.inf:
            found = f"smallest_growth {least:g}, growth {most:g}"
            raise InvalidInput("policy.growth", found=found, allowed="1 < smallest_growth <= growth, finite")

    @once
    def _rounds(self) -> int:
        return self.rounds or plan.affordable_rounds(self.problem, self._study_line, self.gap_scale)

    @property
    def looks(self) -> int:
        """The planned number of phases: `max_rounds`, or one more than `rounds`."""
        return self.problem.max_rounds or self._rounds + 1

    @property
    def planned_looks(self) -> int | None:
        return self.looks if self.problem.horizon is None else None

    @property
    def states_rounds(self) -> bool:
        """Whether `rounds` or `max_rounds` is stated; if so, phases are sized so that this many rounds suffice."""
        return self.rounds is not None or self.problem.max_rounds is not None

    @once
    def temper(self) -> Temper:
        """The parameters of plans: the given options, and defaults for all other options.

        Some reward models, mostly those without boosted bets, gain wealth in smaller steps and need more rounds, so
        they have factors on the default optimism and caution. Stated rounds turn these factors off, except in play and
        for boosted bets with a tolerance.
        """
        given = (self.precision, self.growth, self.optimism, self.caution)
        precision, growth, optimism, caution = (
            usual if own is None else own for own, usual in zip(given, self.tempers[self._rounds], strict=True)
        )
        # Long studies take smaller steps, by the fourth root of the line: paper/cost-theorem.md needs planning errors
        # that vanish as delta goes to 0. Play counts draws differently and is not part of the theorem.
        longer = min(math.log(30) / self.line, 1.0) ** 0.25 if self.problem.horizon is None else 1.0
        noise = self.problem.noise
        identified = self.problem.horizon is None and not (self.problem.tolerance > 0 and noise.boosted)
        small_steps = not (self.states_rounds and identified)
        return Temper(
            precision=precision,
            growth=growth * (min(longer**-0.05, plan.MOST_FASTER) if self.growth is None else 1.0),
            longer=longer,
            smallest_growth=1 + plan.SMALLEST * longer if self.smallest_growth is None else self.smallest_growth,
            optimism=optimism * self.patience * (noise.optimism if self.optimism is None and small_steps else 1.0),
            caution=caution * (noise.caution if self.caution is None and small_steps else 1.0),
        )

    @property
    def patience(self) -> float:
        """Factor on optimism: above 1 in long studies, and more with a tolerance or joint answers.

        More optimism makes phases smaller, so that more of the study is planned with better estimates.
        """
        longer = float(max(math.log(1 / self.problem.delta) / math.log(10), 1.0) ** 0.1)
        if plan.is_closed(self.problem) and not self.states_rounds:
            return longer * manner(self.problem).finer
        return longer * (FINER if self.problem.tolerance or self.together else 1.0)

    @property
    def together(self) -> bool:
        """Whether all agents give one joint answer, so that no union bound over agents is needed (`_joint_lines`).

        False with a tolerance: each agent may then have several right answers, so there is no single true joint answer.
        """
        problem = self.problem
        joint = problem.answers == "together" and not problem.tolerance and problem.horizon is None
        return joint and problem.question_count > 1

    @property
    def line(self) -> float:
        """The log wealth that every slot (or pair, with a tolerance) needs: log(M / delta), or log(1 / delta) if joint.

        Agents with the same weights have the same evidence and err together, so M counts distinct columns of weights.
        Finer weight steps (`weight_refine`) do not count: a share of delta is reserved for all of them together, and
        their wealth starts lower (`tolerance.log_parts`).
        """
        return (0.0 if self.together else self._log_questions) - math.log(self.problem.delta)

    @property
    def _study_line(self) -> float:
        """Roughly the log wealth that slots need in the end, from which the size of the study is estimated."""
        return self.line + (self._log_questions if self.together else 0.0)

    @property
    def _log_questions(self) -> float:
        return tolerance.log_stated(self.problem) if self.problem.tolerance else math.log(self.problem.question_count)

    @once
    def largest_size(self) -> int | None:
        """The smaller of `max_samples` and, with a tolerance, the largest size of a tie; None if neither is known."""
        stated = self.problem.max_samples
        if not self.problem.tolerance:
            return stated
        named = plan.size_of_ties(self.problem, self.line - float(tolerance.log_parts(self.problem).min()))
        return min((size for size in (stated, named) if size is not None), default=None)

    @property
    def values_per_pair(self) -> int:
        return 80 + (12 * min(self.problem.arm_count, tolerance.MOST_ARMS) if self.problem.tolerance else 0)

    # ---- planning: the draws of the next phase

    @once
    def first_phase(self) -> IntArray:
        """`(arm, agent)`: the cheapest first draws that give all mixed means the wanted standard error."""
        problem, model = self.problem, self.problem.noise
        allocation = plan.first_draws(problem, self.temper.precision, self._study_line, together=self.together)
        if self.precision is None and self.largest_size is not None:
            allocation = plan.guarded_draws(problem, allocation, self.largest_size)
        least = np.where(allocation > 0, model.least_draws, 0)
        quotas = np.broadcast_to(np.maximum(np.ceil(allocation), least), problem.shape)
        plan.require_possible(quotas.sum())
        return np.where(self.candidates, quotas, 0).astype(np.int64)

    def wanted(self, state: State) -> IntArray:
        """`(..., arm, agent)`: the cheapest draws that should end the study.

        The guarantee holds for these draws because it holds for all counts that depend on the past alone.
        """
        assert isinstance(state, Wealth)
        quotas = np.where((state.phase == 0)[..., None, None], self.first_phase, 0)
        wants = (state.phase > 0) & ~state.finished & self.open_questions(state).any(axis=-1)
        if wants.any():
            batch = state.take(wants)  # a single study becomes a batch of one
            contrasts = self._worth_drawing(batch, self._contrasts(batch, self._stuck))
            # A new arm is planned alone, as all arms were in the first phase: it is not known yet which arm will lead.
            drawn = np.where(self.new_arms(batch) & self.candidates, self.first_phase, 0)
            racing = np.flatnonzero(contrasts.losing.any(axis=(-3, -2, -1)) & ~drawn.any(axis=(-2, -1)))
            if racing.size:
                some = batch.take(racing)
                contrasts, looks = contrasts.take(racing), self.looks - some.phase
                drawn[racing] = plan.further_draws(
                    self.problem,
                    contrasts,
                    some.totals,
                    self.temper,
                    looks,
                    self._closing(some),
                    stated=self.states_rounds,
                    tight=plan.is_tight(self.problem, self.line),
                )
                drawn[racing] = self._with_end(some, contrasts, drawn[racing])
            quotas[wants] = drawn
        return quotas if self.largest_size is None else self._all_in(state, quotas)

    def _worth_drawing(self, state: State, contrasts: Contrasts) -> Contrasts:
        """Exclude from the plan the contrasts of agents that repeat a question, do not ask, have left or are blocked.

        A finer weight step waits for its two neighbours, which have larger shares of delta: if their answers agree, the
        step needs no draws.
        """
        idle = ~(self.problem.questions & self._asked) | self.blocked(state)
        if self.problem.weight_refine:
            idle = idle | self._before_neighbours(state)
        return replace(contrasts, losing=contrasts.losing & ~idle[..., None, None, :]) if idle.any() else contrasts

    @once
    def _stuck(self) -> BoolArray | None:
        """`(agent,)`: agents that cannot be settled: an idle agent has weight in their mix, or they do not ask.

        None if no agent is idle or has left, or if answers are not joint.
        """
        if not (self.idle or self.unasked) or not self.together:
            return None
        return np.asarray((self.problem.weights[list(self.idle)] > 0).any(axis=0) | ~self._asked)

    def _closing(self, state: Wealth) -> Closing | None:
        """The plan to close all questions with a last look, and its rough cost; None if no such look is planned."""
        problem = self.problem
        if not (isinstance(state, Pairs) and (plan.is_closed(problem) or problem.max_rounds is not None)):
            return None
        sure = SURE_IN_ROUNDS if self.rounds is not None and problem.max_rounds is None else None
        found = tolerance.closing(problem, state, self.line, self.past_variances(state), sure)
        if found is None:
            return None
        size, quantile = self._closing_size
        # `size` is the cost of closing all arms with equal shares: scale it by the information that closing still needs
        # and by how far rewards scatter, as observed.
        undecided = state.active.sum(axis=-2) > problem.top
        share = found.information * np.square(problem.tolerance / quantile) / (2 * problem.arm_count)
        scatter = problem.noise.cell_variances(state.totals) / problem.noise.first_variance
        usual = np.broadcast_to(scatter, state.counts.shape).mean(axis=(-2, -1))
        cost = size * usual * np.where(undecided, share, 0.0).max(axis=-1)
        alike = None
        if plan.is_closed(problem):
            spread = tolerance.spread(problem, state, self.past_variances(state))
            chance = spread.alike(ODDS_OF_GROWTH)
            alike = np.where(undecided, chance, 0.0).max(axis=-1)  # the slowest agent's
        return replace(found, looks=self.looks - state.phase, cost=cost, alike=alike)

    def _with_end(self, state: Wealth, contrasts: Contrasts, draws: IntArray) -> IntArray:
        """The draws with a look that is sure to end the study, where it would have no room after them."""
        if not isinstance(state, Pairs) or self._room is None:
            return draws
        late = np.flatnonzero((state.counts + draws).sum(axis=(-2, -1)) > self._room)
        if not late.size:
            return draws
        some = state.take(late)
        found = tolerance.closing_of_all(self.problem, some, self.line)
        draws = draws.copy()
        draws[late] = plan.ending_draws(self.problem, contrasts.take(late), some.totals, self.temper, found)
        return draws

    @once
    def _room(self) -> float | None:
        """The most samples after which the largest size still has room for a look that is sure to end the study."""
        problem = self.problem
        if problem.max_rounds is not None or not plan.ends_surely(problem):
            return None
        line = self.line - float(tolerance.log_parts(problem).min())
        largest, end = plan.size_of_ties(problem, line), plan.size_of_end(problem, line)
        return None if largest is None or end is None or largest != self.largest_size else largest - end

    @once
    def _closing_size(self) -> tuple[float, float]:
        return plan.closing_size(self.problem, self.line)

    def _all_in(self, state: State, quotas: IntArray) -> IntArray:
        """Raise quotas to the whole remaining budget, if the plan wants most of it or this is the last round."""
        left, total = self._left(state), quotas.sum(axis=(-2, -1))
        last = total >= ALL_IN * left
        if self.problem.max_rounds is not None and self.problem.max_samples is not None:
            last |= state.phase + 1 >= self.problem.max_rounds
        more = np.ceil(quotas * (left / np.maximum(total, 1))[..., None, None]).astype(np.int64)
        raised = cut_to(more, left, self.problem.minimum_cell)
        # If no cell would reach the minimum, leave the quotas to `plan`, which gives the remaining budget to the
        # largest cell: without draws the study would not end.
        takes = last & (total > 0) & (state.phase > 0) & raised.any(axis=(-2, -1))
        return np.where(takes[..., None, None], raised, quotas)

    # ---- evidence: bets that are fixed before a phase, and what its draws make of their wealth

    def start(self, batch: tuple[int, ...] = ()) -> Wealth:
        slots = (*batch, self.problem.top, *self.problem.shape)
        blank = self.blank(batch)
        wealth = blank | {
            "log_wealth": np.zeros(slots),
            "opponents": np.full(slots, -1, dtype=np.int64),
            "signal": np.zeros_like(blank["sums"]),
            "information": np.zeros_like(blank["sums"]),
            "gap_at_least": np.zeros_like(blank["sums"]),
        }
        if self.problem.tolerance:
            return Pairs(**wealth, **tolerance.no_pairs(self.problem, batch))
        return Wealth(
            **wealth,
            ranks=np.full((*batch, *self.problem.shape), -1) if self.problem.top > 1 else None,
            log_shares=np.zeros_like(blank["sums"]) if self.together else None,
        )

    def contrasts(self, state: Wealth) -> Contrasts:
        """Opponents, estimates and wealth, fixed before a phase from the past alone.

        With a tolerance, the slots of an arm that does not lead hold the wealth of its pairs with the leaders.
        """
        return self._contrasts(state, None)

    def _contrasts(self, state: Wealth, stuck: BoolArray | None) -> Contrasts:
        """The contrasts before a phase.

        With joint answers, the leaders of the agents `stuck (..., agent)` may never win.
        """
        top = self.problem.top
        mixed, new = self.problem.mixed(state.means), self.new_arms(state)
        order, place = self._rank(state)
        rank = place[..., None, :, :]
        slot = np.arange(top)[:, None, None]
        # The opponents of an arm are the N best-ranked others. A true top arm is at least as good as one of them, so
        # the wealth of that slot is unlikely to reach the line. `slot >= rank` skips the arm itself.
        opponents = np.take_along_axis(order[..., None, :, :], slot + (slot >= rank), axis=-2)
        opponents = np.sort(opponents, axis=-3)  # by index, since the order of opponents does not matter
        if isinstance(state, Pairs):
            wealth, ranks = tolerance.at_opponents(state, opponents), None
        else:
            wealth, ranks = carried(state, place, opponents, NO_SET if self.together else self.line)
        undecided = state.active.sum(axis=-2, keepdims=True) > top
        lines, needed = self._joint_lines(state, place, stuck) if self.together else (None, self.line)
        goal = self.line if lines is None else lines
        live = (state.active & undecided)[..., None, :, :] & (wealth < goal)
        if new.any():
            # A new arm has no estimate, so a stake against it or on it would be a blind guess.
            newer = np.broadcast_to(new, state.active.shape)[..., None, :, :]
            live &= ~(newer | np.take_along_axis(newer, opponents, axis=-2))
        return Contrasts(
            opponents=opponents,
            gap=against(mixed, opponents) + self.problem.tolerance,
            error=np.sqrt(both(self.past_variances(state), opponents)),
            wealth=wealth,
            missing=np.maximum(goal - wealth, 0.0),
            live=live,
            losing=live & (rank >= top) & (wealth < needed),
            ranks=ranks,
            lines=lines,
        )

    def new_arms(self, state: State) -> BoolArray:
        """`(..., arm, 1)`: arms without draws after the first phase; the first draws of such an arm are no evidence."""
        return np.asarray((state.counts.sum(axis=-1, keepdims=True) == 0) & (state.phase > 0)[..., None, None])

    def _rank(self, state: Wealth) -> tuple[IntArray, IntArray]:
        """Order the arms: candidates by estimate, then new arms, then all other arms.

        Returns the arms in order and the rank of each arm, `(..., arm, agent)` both.
        """
        mixed = self.problem.mixed(state.means)
        ranking = tolerance.standing(self.problem, state, self.line) if isinstance(state, Pairs) else mixed
        known = np.where(self.new_arms(state), -LOWEST, -ranking)
        order = np.argsort(np.where(state.active, known, np.inf), axis=-2, kind="stable")
        return order, np.argsort(order, axis=-2, kind="stable")

    @once
    def _joint(self) -> Joint:
        return Joint(self.problem, self.line)

    def _joint_lines(self, state: Wealth, rank: IntArray, stuck: BoolArray | None) -> tuple[FloatArray, FloatArray]:
        return self._joint.lines(state, rank, self.past_variances(state), self.new_arms(state), stuck)

    def variances(self, counts: IntArray, past: Totals, releases: IntArray | int = 1) -> FloatArray:
        """Variances of mixed means, with cell variances estimated from the past; 0 draws count as 1."""
        return self.problem.mixed_variances(np.maximum(counts, 1), self.problem.noise.cell_variances(past), releases)

    def past_variances(self, state: State) -> FloatArray:
        """Variances of the mixed means so far, with the privacy noise of reports of every cell in every phase."""
        return self.variances(state.counts, state.totals, np.asarray(state.phase)[..., None, None])

    def update(self, state: State, totals: Totals) -> State:
        assert isinstance(state, Wealth)
        same_shape = totals.counts.shape == state.counts.shape  # otherwise the base class raises
        same_shape &= totals.between is None  # the base class passes strata one by one
        return super().update(self.weigh(state, totals, self.contrasts(state)) if same_shape else state, totals)

    def phase(self, state: Wealth, fresh: Totals) -> Phase:
        """Gather what is needed to settle the bets of a phase: its draws and the estimates from before it."""
        betting = self._betting(state)
        counts = np.where(betting, fresh.counts, 0)
        return Phase(
            past=state.totals,
            fresh=fresh,
            counts=counts,
            means=self.problem.mixed(np.where(counts > 0, fresh.means, 0.0)),
            variances=self.variances(counts, state.totals),
            seen=self.problem.drawn(counts)[..., None, :, :] & betting[..., None, :, :],
            last=self._last(state, counts),
        )

    def _last(self, state: State, counts: IntArray) -> BoolArray:
        """`(...)`: whether no phase follows one with these counts; this does not depend on the phase's rewards."""
        if self.problem.horizon is not None:
            return np.zeros(state.phase.shape, dtype=np.bool_)
        return self.exhausted(replace(state, phase=state.phase + 1, counts=state.counts + counts))

    def weigh(self, state: Wealth, fresh: Totals, contrasts: Contrasts) -> Wealth:
        """Settle the bets of a phase, which `contrasts` fixed before the phase. Subclasses may add to the result."""
        phase = self.phase(state, fresh)
        y, v, drawn = phase.contrasts(contrasts.opponents)  # if a side was not drawn, the payoff is 1
        stuck = np.asarray((contrasts.losing & ~drawn).any(axis=(-3, -2)))
        # An agent whose draws did not arrive must not hold up all other agents: for this phase it counts as stuck.
        # Lines may depend on which cells were drawn, since that does not depend on their rewards.
        if self.together and stuck.any():
            contrasts = self._contrasts(state, stuck)
        if isinstance(state, Pairs):
            state = tolerance.settled(self.problem, state, phase, self.line, self.past_variances(state))
            wealth = tolerance.at_opponents(state, contrasts.opponents)
        else:
            wealth = paid(self.problem, phase, contrasts, contrasts.live & drawn, self.line)
        # The bound on the gap: one of the N opponents is no better than the N-th best arm, so the smallest contrast
        # with the largest variance can only understate the gap to that arm. The bound is updated even after the arm is
        # ruled out. With a tolerance it holds for true top arms too: one of their opponents is no better than they
        # are.
        later = PhaseContrasts(
            contrast=y,
            variance=v,
            observed=np.asarray(drawn.all(axis=-3)) & (state.phase > 0)[..., None, None],
            opponents=contrasts.opponents,
            phase=state.phase,
            weights=self.problem.weights,
            past=state.totals,
            fresh=fresh,
            line=self._gap_line,
            scale=self.gap_scale * self.problem.largest_gap,
        )
        signal, information, bound = self.problem.noise.gap_bound(later, state.signal, state.information)
        if self._counts_first and (state.phase == 0).any():
            bound = np.maximum(bound, self._first_bound(phase, later, state.phase == 0))
        racing = self.racing(state)
        return replace(
            state,
            log_wealth=np.where(racing, wealth, state.log_wealth),
            opponents=np.where(racing, contrasts.opponents, state.opponents),
            signal=signal,
            information=information,
            gap_at_least=np.maximum(state.gap_at_least, bound),
            ranks=contrasts.ranks,
        )

    @property
    def _gap_line(self) -> float:
        """The log of 1 / level of a bound on a gap; half of all levels are for a first phase that is evidence."""
        asked = self.problem.arm_count - (0 if self.problem.tolerance else self.problem.top)
        parts = 2 if self._counts_first else 1
        return math.log(parts * asked * self.problem.agent_count) - math.log(self.problem.delta)

    def _first_bound(self, phase: Phase, later: PhaseContrasts, first: BoolArray) -> FloatArray:
        """`(..., arm, agent)`: bounds on gaps from the `first (...)` phase of a closed study; -inf in later phases.

        No arm leads yet, so every arm is compared with each of the others; the bounds share their level.
        """
        arms, best = self.problem.arm_count, np.full(later.observed.shape, -np.inf)
        nothing = np.zeros(best.shape)
        for step in range(1, arms):
            others = np.broadcast_to(((np.arange(arms) + step) % arms)[:, None], later.opponents.shape)
            y, v, drawn = phase.contrasts(others)
            alone = replace(
                later,
                contrast=y,
                variance=v,
                observed=np.asarray(drawn.all(axis=-3)) & first[..., None, None],
                opponents=others,
                phase=np.ones_like(later.phase),
                line=later.line + math.log(arms - 1),
            )
            best = np.maximum(best, self.problem.noise.gap_bound(alone, nothing, nothing)[2])
        return best

    def racing(self, state: State) -> BoolArray:
        """`(..., 1, arm, agent)`: whether the slots of an arm bet.

        Once an arm is ruled out or its agent has an answer, the arm's wealth and opponents no longer change, since the
        certificate reports them.
        """
        undecided = state.active.sum(axis=-2, keepdims=True) > self.problem.top
        return np.asarray(self._betting(state) & state.active & undecided)[..., None, :, :]

    def _betting(self, state: State) -> BoolArray:
        """`(..., 1, 1)`: whether the next phase bets. The first usually does not: its data choose the opponents."""
        return np.asarray((((state.phase > 0) | self._counts_first) & ~state.finished)[..., None, None])

    @property
    def _counts_first(self) -> bool:
        """Whether the first phase is evidence."""
        return bool(self.problem.tolerance) and plan.is_closed(self.problem)

    # ---- decision: which arms are ruled out, and whose question is still open

    def keep(self, before: State, after: State) -> BoolArray:
        assert isinstance(after, Wealth)
        undecided = before.active.sum(axis=-2, keepdims=True) > self.problem.top
        beyond = self._joint.beyond(after) if self.together else scores(after) - self.line
        out = before.active & undecided & (beyond >= 0)
        keep = before.active & ~out
        # If fewer than N arms would remain, the true top N was rejected, an event that delta already covers. The answer
        # still needs N arms: keep the best estimates.
        short = keep.sum(axis=-2, keepdims=True) < self.problem.top
        best = best_estimates(self.problem.mixed(before.means), before.active, self.problem.top)
        return np.where(short, best, keep)

    def decide(self, before: State, after: State) -> State:
        assert isinstance(after, Wealth)
        if isinstance(before, Pairs):
            assert isinstance(after, Pairs)
            over = self.exhausted(after) & ~before.finished & (before.phase > 0)
            return tolerance.decided(self.problem, before, after, self.line, self.past_variances(after), over)
        decided = super().decide(before, after)
        assert isinstance(decided, Wealth)
        if not self.together:
            return decided
        assert isinstance(before, Wealth)
        variances, new = self.past_variances(decided), self.new_arms(decided)
        return self._joint.with_shares(before, decided, variances, new, self.candidates)

    def settled(self, state: State) -> BoolArray:
        """`(..., agent)`: whether an agent's question needs no more draws as long as no agent's leaders change."""
        assert isinstance(state, Wealth)
        undecided = np.asarray(state.active.sum(axis=-2) > self.problem.top)
        if not self.together or not ((state.phase > 0) & ~state.finished).any():
            return np.zeros_like(undecided)
        racing = ((state.phase > 0) & ~state.finished)[..., None]
        opened = (self.new_arms(state) & state.active).any(axis=-2)
        return undecided & racing & ~opened & ~self._contrasts(state, self._stuck).losing.any(axis=(-3, -2))

    def open_questions(self, state: State) -> BoolArray:
        return super().open_questions(state) & ~self.settled(state)

    def blocked(self, state: State) -> BoolArray:
        blocked = super().blocked(state)
        return blocked & ~self.settled(state) if blocked.any() else blocked

    # ---- what people read: the guarantee, the evidence and the certificate

    def claim(self, probability: float) -> str:
        return self._noted(super().claim(probability))

    def _noted(self, sentence: str) -> str:
        """Append the reward model's note to a guarantee, if its evidence is approximate."""
        note = self.problem.noise.guarantee_note
        return Translatable(NOTED, sentence, note) if note else sentence

    def explain(self, state: State) -> Explanation:
        assert isinstance(state, Wealth)
        score = np.minimum(self._shown(state), self.line)
        words: str = Translatable("against the arm, the smallest over all its opponents")
        if isinstance(state, Pairs):
            score, words = tolerance.shown(self.problem, state, score, self.line)
        return Explanation(
            mixed_means=self.problem.mixed(state.means),
            score=score,
            line=self.line,
            words=LOG_EVIDENCE + words,
        )

    def _shown(self, state: Wealth) -> FloatArray:
        """`(..., arm, agent)`: the evidence against an arm, for people to read.

        With joint answers, it is the evidence against the joint answer of this arm and the other agents' leaders, so
        all losers of a settled agent have reached the line. The score of a dropped arm is never below the line.
        """
        if not self.together:
            return scores(state)
        needed = self._joint_lines(state, self._rank(state)[1], self._stuck)[1]
        score = scores(replace(state, log_wealth=state.log_wealth - needed)) + self.line
        return np.where(state.active, score, np.maximum(score, self.line))

    def set_aside(self, state: State, case: Explanation) -> BoolArray:
        """Arms set aside: with a tolerance, all dropped arms except those that a bound on the gap proves worse."""
        if not isinstance(state, Pairs):
            return super().set_aside(state, case)
        return tolerance.set_aside(state)

    def certified(self, state: State, case: Explanation, arm: int, agent: int) -> dict[str, Any]:
        assert isinstance(state, Wealth)
        own, score = float(state.log_wealth[:, arm, agent].min()), float(case.score[arm, agent])
        ruled_out = score >= case.line
        bound = state.gap_at_least[arm, agent] if state.dropped_in[arm, agent] else 0.0  # only for dropped arms
        return {
            "log_wealth": own if not self.together and (ruled_out or state.ranks is None) else score,
            "opponents": [self.problem.arms[place] for place in state.opponents[:, arm, agent] if place >= 0],
            "gap_at_least": float(bound),
        }
