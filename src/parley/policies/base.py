"""The interface of policies: three pure functions over `(..., arm, agent)` arrays, and the state that they pass along.

    state  = policy.start(batch=())        () for a live study, (R,) for R replications
    quotas = policy.plan(state)            integers: draws wanted in this phase, all 0 once finished
    state  = policy.update(state, totals)  the phase's results, a `Totals`

A policy never samples, sleeps, logs or opens a socket. The simulator, a live coordinator, a planner and an audit that
replays a finished study all run the same code. `plan` is a function of the state alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, final, get_type_hints

import numpy as np
from numpy.typing import NDArray

from parley.errors import InvalidInput
from parley.policies.between import without_share
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.system.once import once
from parley.text.status import ArmStatus, OutcomeStatus
from parley.text.translation import Translatable, joined, numeral
from parley.totals import Totals
from parley.validation.checks import LARGEST_COUNT
from parley.weight_map import halfway

ARRAYS = {IntArray: np.int64, FloatArray: np.float64, BoolArray: np.bool_}
OPTIONAL = {array | None: dtype for array, dtype in ARRAYS.items()}
DTYPES: dict[Any, type[np.generic]] = {**ARRAYS, **OPTIONAL}  # field type of a state -> dtype of its array
# Templates of special guarantees, by which pages recognize them.
NO_GUARANTEE, NOTED = "NO GUARANTEE: {0}", "{0}, {1}"
CLAIM = "all answers {0} with probability at least {1:g}"
RIGHT, RIGHT_WITHIN = "right", "right to within {0}"


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state that a policy keeps between phases. It is never changed in place; subclasses add fields.

    >>> import parley
    >>> policy = parley.make_policy("evidence", parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]]))
    >>> state = policy.start()
    >>> state.active.tolist(), policy.restore(state.to_json()).phase.tolist()
    ([[True, True], [True, True]], 0)
    """

    phase: IntArray  # (...): completed phases, which are also rounds of communication
    counts: IntArray  # (..., arm, agent): draws so far
    sums: FloatArray  # (..., arm, agent): sums of the rewards of these draws
    squares: FloatArray | None = None  # (..., arm, agent): sums of squared rewards, if the reward model needs them
    active: BoolArray  # (..., arm, agent): the arm is still a candidate for the agent
    dropped_in: IntArray  # (..., arm, agent): number of the phase that ruled out or set aside the arm; 0 if active
    finished: BoolArray  # (...): the policy wants no more draws
    accepted: BoolArray | None = None  # (..., agent): the agent answered within the tolerance; None without a tolerance

    @property
    def totals(self) -> Totals:
        """The totals of all draws so far, as one `Totals`."""
        return Totals(counts=self.counts, sums=self.sums, squares=self.squares)

    @property
    def means(self) -> FloatArray:
        """Local means `(..., arm, agent)`, 0 without data."""
        return np.asarray(self.sums / np.maximum(self.counts, 1))

    @property
    def answers(self) -> BoolArray:
        """`(..., arm, agent)`: the arms that remain candidates; once an agent has its answer, they are its top N."""
        return self.active

    def take(self, chosen: IntArray | BoolArray | slice) -> Self:
        """Select some of the replications in a batch."""
        return replace(self, **{name: value[chosen] for name, value in self._kept()})

    def to_json(self) -> dict[str, Any]:
        """Convert the state to plain lists and numbers; `from_json` restores it to the last bit."""
        return {name: value.tolist() for name, value in self._kept()}

    def _kept(self) -> list[tuple[str, NDArray[Any]]]:
        every = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, value) for name, value in every if value is not None]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read a state that `to_json` wrote; a missing or unknown key raises."""
        hints = get_type_hints(cls)  # the types themselves, even if the class's module postpones annotations
        types = {field.name: hints[field.name] for field in fields(cls)}
        optional = {name for name, kind in types.items() if kind in OPTIONAL}
        wrong = sorted((set(document) ^ set(types)) - (optional - set(document)))
        if wrong:
            found = f"missing or unknown keys: {', '.join(wrong)}"
            raise InvalidInput("state", found=found, allowed=", ".join(types))
        try:
            arrays: dict[str, NDArray[Any]] = {
                name: np.array(values, dtype=DTYPES[types[name]]) for name, values in document.items()
            }
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput("state", found=str(error), allowed="what to_json wrote") from None
        return cls(**arrays)


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanation:
    """The evidence against every arm, for display only: no decision depends on it."""

    mixed_means: FloatArray  # (..., arm, agent)
    score: FloatArray  # (..., arm, agent): the evidence against the arm, which is ruled out at `line`
    line: float
    words: str  # what the score means, as a sentence


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """Base class of policies: a problem, and the options of an algorithm.

    Subclasses define which draws are `wanted` in a phase, and what to `decide` after it.

    Every policy guarantees: quotas are never negative, are 0 for finished replications, and are never strictly between
    0 and the problem's `minimum_cell`; replications of a batch do not influence each other; an agent whose rewards have
    no weight draws each arm at most once (unless the study has a horizon), and an agent that only asks draws nothing.

    >>> import parley
    >>> policy = parley.make_policy("uniform", parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]]))
    >>> state = policy.start()  # what a live study begins with; `start((1000,))` begins a thousand simulated ones
    >>> counts = policy.plan(state)
    >>> state = policy.update(state, parley.Totals(counts=counts, sums=0.5 * counts, squares=0.5 * counts))
    >>> int(state.phase), bool(state.finished)
    (1, False)
    """

    name: ClassVar[str]
    # Settings that affect decisions and that the policy supports; every policy supports budgets and estimates.
    supports: ClassVar[frozenset[str]] = frozenset({"max_samples", "max_rounds", "control"})
    plans_by_price: ClassVar[bool] = False  # whether the policy's plans depend on prices and rates
    needs_scale: ClassVar[bool] = False  # whether its intervals need a known scale; an unknown scale is refused
    draws_everything: ClassVar[bool] = False  # whether the policy also draws at agents without weight
    # Whether the guarantee in `claim` is proven. This is not inherited: a subclass may change the rule, so it must
    # state itself that its guarantee is proven.
    proven: ClassVar[bool] = False
    allows_drift: ClassVar[bool] = False  # whether its guarantee holds if the means of all arms of a site move together
    problem: Problem
    idle: tuple[int, ...] = ()  # indices of agents that no longer draw, because an administrator froze them
    unasked: tuple[int, ...] = ()  # indices of idle agents whose own question was dropped
    within_phase: bool = False  # whether an update covers only one stratum of the phase

    @property
    def values_per_pair(self) -> int:
        """Peak memory of a run per (arm, agent) pair, in float64 numbers; the simulator sizes its chunks by it."""
        return 16

    @property
    def guarantee(self) -> str:
        """A sentence with the guarantee of the answers; it says that there is none if the class is not `proven`."""
        if self.claims:
            return self.claim(1 - self.problem.delta)
        return Translatable(NO_GUARANTEE, Translatable("the policy {0} claims no guarantee", self.name))

    @property
    def claims(self) -> bool:
        """Whether the class itself, not only a base class, sets `proven`."""
        return bool(vars(type(self)).get("proven", False))

    def claim(self, probability: float) -> str:
        """The guarantee at this probability, as a sentence. Called only for a class that sets `proven`."""
        within = self.problem.tolerance
        right = Translatable(RIGHT_WITHIN, numeral(within, "g")) if within else Translatable(RIGHT)
        return Translatable(CLAIM, right, probability)

    @property
    def bounds_errors(self) -> bool:
        """Whether the policy guarantees that all answers are right with probability 1 - delta."""
        return self.claims

    @property
    def drift(self) -> str:
        """A sentence on what remains of the guarantee if means move between phases."""
        if self.allows_drift:
            return Translatable(
                "the same if means change between phases by the same amount for all arms of a site, because arms are "
                "compared within phases"
            )
        return Translatable(
            "none if means change between phases: rewards of all phases are pooled, so a trend biases their means"
        )

    @property
    def largest_size(self) -> int | None:
        """The most samples that the study can take, known before it starts; None if nothing limits it."""
        return self.problem.max_samples

    @property
    def planned_looks(self) -> int | None:
        """The planned number of phases; a study may take fewer or a few more. None if the policy plans no number."""
        return self.problem.max_rounds

    @property
    def together(self) -> bool:
        """Whether all agents give one joint answer: no agent's answer is final before every agent is settled."""
        return False

    @property
    def extent(self) -> str:
        """A sentence on how many looks and samples the study may take; empty if neither is known before it starts."""
        looks, size = self.planned_looks, self.largest_size
        parts: list[str] = []
        if self.problem.max_rounds is not None:
            most = self.problem.max_rounds
            parts.append(
                Translatable("at most {0:,} look", most) if most == 1 else Translatable("at most {0:,} looks", most)
            )
        elif looks is not None:
            one, many = Translatable("{0:,} look is planned", looks), Translatable("{0:,} looks are planned", looks)
            parts.append(
                Translatable(
                    "{0}, including the first phase; further looks follow if the planned ones do not suffice",
                    one if looks == 1 else many,
                )
            )
        if size is not None:
            # A stated budget limits the whole study; the limit that follows from the tolerance is for one question.
            parts.append(
                Translatable("never more than {0:,} samples, whatever the truth", size)
                if size == self.problem.max_samples
                else Translatable(
                    "never more than {0:,} samples, whatever the truth, unless the question changes (other arms or "
                    "weights)",
                    size,
                )
            )
        return joined("; ", parts) if parts else ""

    def start(self, batch: tuple[int, ...] = ()) -> State:
        """The initial state: nothing is drawn, and every open arm is a candidate of every agent."""
        return State(**self.blank(batch))

    def restore(self, document: Mapping[str, Any]) -> State:
        """Read a state that `to_json` wrote, and check that it fits this policy and problem."""
        state = type(self.start()).from_json(document)
        blank = self.start(state.phase.shape)
        for field in fields(blank):
            found, allowed = (getattr(getattr(one, field.name), "shape", None) for one in (state, blank))
            if found != allowed:
                raise InvalidInput(f"state.{field.name}", found=f"shape {found}", allowed=f"{allowed}")
        return state

    @final
    def plan(self, state: State, between: IntArray | None = None) -> IntArray:
        """Plan a phase: draws `(..., arm, agent)`, where every cell is 0 or at least the problem's minimum.

        `between (..., arm, agent)` are people who were assigned before the phase but count in it. All callers plan
        through this method, which alone enforces the minimum and the budget. Counts are fixed before the phase's
        rewards are seen; each policy's docstring of `wanted` says why the guarantee holds for these counts.
        """
        least = self.problem.minimum_cell
        quotas = raise_cells(self.wanted(state), least)
        if self.undrawn:
            quotas = self._without_idle(state, quotas)
        left = None if self.largest_size is None else self._left(state)
        quotas = quotas if left is None else cut_to(quotas, left, least)
        if between is None:
            return quotas
        quotas = without_share(quotas, between, max(least, self.problem.noise.least_draws))
        # The people of `between` count against the budget too, but the phase may always have a quarter of what is left.
        return (
            quotas if left is None else cut_to(quotas, np.maximum(left - between.sum(axis=(-2, -1)), left // 4), least)
        )

    def most_ahead(self, state: State, quotas: IntArray, between: IntArray | None = None) -> IntArray:
        """`(..., agent)`: how many people may be assigned to the next phase while this phase waits for outcomes.

        This is at most a share of this phase's `quotas` and, with a budget, half of what this phase leaves of the
        budget. In the last round it is 0.
        """
        problem = self.problem
        most = np.floor(problem.most_between * quotas.sum(axis=-2)).astype(np.int64)
        if problem.max_rounds is not None:
            most = np.where((state.phase + 1 >= problem.max_rounds)[..., None], 0, most)
        if self.largest_size is not None:
            spent = quotas.sum(axis=(-2, -1)) + (0 if between is None else between.sum(axis=(-2, -1)))
            rest, total = self._left(state) - spent, np.maximum(most.sum(axis=-1), 1)
            # Enough must be left for a cell of the next plan: an empty plan would stall a live study.
            left = np.maximum(np.minimum(rest // 2, rest - problem.minimum_cell), 0)
            most = np.where((total > left)[..., None], most * left[..., None] // total[..., None], most)
        return np.asarray(most)

    def blocked(self, state: State) -> BoolArray:
        """`(..., agent)`: whether the agent has no answer and cannot get one, since its mix includes an idle agent."""
        undecided = np.asarray(state.active.sum(axis=-2) > self.problem.top)
        if not self.idle or self.problem.horizon is not None:
            return np.zeros_like(undecided)
        return np.asarray(undecided & (self.problem.weights[list(self.idle)] > 0).any(axis=0))

    def settled(self, state: State) -> BoolArray:
        """`(..., agent)`: whether the agent's answer can change only if other agents' leaders change.

        Answers are final once all agents are settled.
        """
        return np.zeros(state.active.shape[:-2] + state.active.shape[-1:], dtype=np.bool_)

    def _without_idle(self, state: State, quotas: IntArray) -> IntArray:
        """Remove the quotas of agents that do not draw, or all quotas once no question is open.

        A plan without draws ends the study, or stalls a live one.
        """
        asked = quotas.copy()
        asked[..., self.undrawn] = 0
        if self.problem.horizon is None:
            asked[~self.open_questions(state).any(axis=-1)] = 0
        return asked

    def open_questions(self, state: State) -> BoolArray:
        """`(..., agent)`: whether the agent asks, has no answer yet, and may still get one.

        A policy that gives answers before one arm is left excludes the agents that have theirs.
        """
        return np.asarray((state.active.sum(axis=-2) > self.problem.top) & ~self.blocked(state) & self._asked)

    @once
    def candidates(self) -> BoolArray:
        """`(arm, 1)`: whether the arm is open. To a policy, dormant and withdrawn arms are both closed."""
        return ~np.isin(self.problem.arms, self.problem.dormant)[:, None]

    @once
    def undrawn(self) -> list[int]:
        """Indices of agents that do not draw: frozen agents, and agents that only ask."""
        return sorted({*self.idle, *np.flatnonzero(~self.problem.draws).tolist()})

    @once
    def _asked(self) -> BoolArray:
        """`(agent,)`: whether the agent asks a question and has not left."""
        asked = self.problem.asks.copy()
        asked[list(self.unasked)] = False
        return asked

    def _left(self, state: State) -> IntArray:
        """`(...)`: how many samples may still be drawn until `largest_size`."""
        assert self.largest_size is not None
        return np.asarray(np.maximum(self.largest_size - state.counts.sum(axis=(-2, -1)), 0))

    def exhausted(self, state: State) -> BoolArray:
        """`(...)`: whether the budget of samples or rounds is spent."""
        over = np.zeros(state.phase.shape, dtype=np.bool_)
        if self.within_phase:  # only the whole phase can end a study, not one stratum of it
            return over
        if self.largest_size is not None:
            over |= self._left(state) < self.problem.minimum_cell
        if self.problem.max_rounds is not None:
            over |= state.phase >= self.problem.max_rounds
        return over

    def statuses(self, state: State) -> NDArray[np.str_]:
        """`(..., agent)`: the status of every agent's question, as values of `OutcomeStatus`."""
        answered = state.active.sum(axis=-2) <= self.problem.top
        accepted = np.zeros_like(answered) if state.accepted is None else state.accepted
        over = np.broadcast_to(state.finished[..., None], answered.shape)
        left = np.broadcast_to(~self._asked, answered.shape)
        end = OutcomeStatus
        mute = np.broadcast_to(~self.problem.asks, answered.shape)
        # The first case that applies gives the status, so an answer stays an answer even if the budget is spent.
        words = [end.UNASKED, end.ACCEPTED, end.DECIDED, end.LEFT, end.EXHAUSTED, end.SETTLED]
        cases = [mute, answered & accepted, answered, left, over, self.settled(state)]
        return np.select(cases, [word.value for word in words], default=end.OPEN.value)

    def ends(self, state: State, stopped: OutcomeStatus | None = None) -> list[OutcomeStatus]:
        """The status of every agent of one study; an agent whose status is not final gets `stopped`, if given."""
        final = (OutcomeStatus.UNASKED, OutcomeStatus.DECIDED, OutcomeStatus.ACCEPTED, OutcomeStatus.LEFT)
        statuses = map(OutcomeStatus, self.statuses(state).tolist())
        return [stopped if stopped is not None and status not in final else status for status in statuses]

    def rounds_of(self, state: State) -> IntArray:
        """`(...)`: rounds of communication so far.

        These are the phases whose reports could change a later draw or decision.
        """
        return state.phase

    @abstractmethod
    def wanted(self, state: State) -> IntArray:
        """`(..., arm, agent)`: the draws that the algorithm wants in this phase, before the minimum is enforced."""

    @abstractmethod
    def explain(self, state: State) -> Explanation:
        """The evidence against every arm in a state."""

    def certificate(self, state: State) -> dict[str, Any]:
        """The evidence for the answers of one study, per agent and arm, ready for JSON."""
        case = self.explain(state)
        statuses = self.arm_statuses(state, case)
        return {
            "policy": self.name,
            "delta": self.problem.delta,
            "guarantee": self.guarantee,
            "score": case.words,
            "line": case.line,
            "agents": [
                {
                    "agent": agent,
                    "chosen": [arm for k, arm in enumerate(self.problem.arms) if statuses[k, m] == ArmStatus.CHOSEN],
                    "arms": [
                        {
                            "arm": arm,
                            "status": str(statuses[k, m]),
                            "dropped_in": int(state.dropped_in[k, m]),
                            "draws": int(state.counts[k, m]),
                            "mixed_mean": float(case.mixed_means[k, m]),
                            # A closed arm cannot be chosen, so there is no evidence about it.
                            "score": None if statuses[k, m] == ArmStatus.CLOSED else float(case.score[k, m]),
                        }
                        | self.certified(state, case, k, m)
                        for k, arm in enumerate(self.problem.arms)
                    ],
                }
                for m, agent in enumerate(self.problem.agents)
            ],
        }

    def arm_statuses(self, state: State, case: Explanation | None = None) -> NDArray[np.str_]:
        """`(..., arm, agent)`: the status of every agent's arms, as values of `ArmStatus`.

        `case` is the explanation of the state, computed if not given. Only agents with an answer have chosen arms.
        """
        ends = self.statuses(state)[..., None, :]
        answered = np.isin(ends, [end.value for end in OutcomeStatus if end.answered])
        aside = self.set_aside(state, case or self.explain(state))
        closed = np.broadcast_to(~self.candidates, aside.shape)
        words = [ArmStatus.CLOSED, ArmStatus.LEFT, ArmStatus.SET_ASIDE, ArmStatus.RULED_OUT, ArmStatus.CHOSEN]
        gone = np.isin(ends, [OutcomeStatus.LEFT.value, OutcomeStatus.UNASKED.value])
        return np.select(
            [closed, gone, aside, ~state.active, answered],
            [word.value for word in words],
            default=ArmStatus.OPEN.value,
        )

    def set_aside(self, state: State, case: Explanation) -> BoolArray:
        """`(..., arm, agent)`: arms that an answer within the tolerance dropped although they were not proven worse.

        Such an answer drops all other arms in one phase. Dropped arms whose score was below the line were set aside.
        """
        if state.accepted is None:
            return np.zeros(state.active.shape, dtype=np.bool_)
        last = state.dropped_in.max(axis=-2, keepdims=True)
        went = (state.dropped_in == last) & ~state.active
        return np.asarray(state.accepted[..., None, :] & went & (case.score < case.line))

    def certified(self, state: State, case: Explanation, arm: int, agent: int) -> dict[str, Any]:  # noqa: ARG002
        """Keys that the policy adds to the certificate's entry about one arm and agent; none by default."""
        return {}

    def update(self, state: State, totals: Totals) -> State:
        """The state after a phase with these totals; finished replications do not change."""
        if totals.between is not None:
            return self._update_by_strata(state, *totals.strata)
        if totals.counts.shape != state.counts.shape:
            raise InvalidInput("totals", found=f"shape {totals.counts.shape}", allowed=f"{state.counts.shape}")
        live = ~state.finished[..., None, None]
        squares = None
        if state.squares is not None:
            kept = self.problem.noise.kept_squares(state.totals, totals)
            squares = np.where(live, kept, state.squares)
        after = self.decide(
            state,
            replace(
                state,
                phase=state.phase + ~state.finished,
                counts=state.counts + np.where(live, totals.counts, 0),
                sums=state.sums + np.where(live, totals.sums, 0.0),
                squares=squares,
            ),
        )
        if self.problem.weight_refine:
            after = self._with_halfway(after, ~state.finished)
        return replace(after, finished=state.finished | self.ended(after) | self.exhausted(after))

    def _with_halfway(self, state: State, live: BoolArray) -> State:
        """Give a finer question the answer of its two neighbours if these agree.

        The weights of a finer question lie halfway between its neighbours' weights, and an answer that is right at both
        neighbours is right between them. So a finer question needs data of its own only if its neighbours differ.
        """
        assert state.accepted is not None
        active, accepted, top = state.active.copy(), state.accepted.copy(), self.problem.top
        for places, one, other in (level.T for level in self._halfway):
            found, open_ = active[..., one], active[..., places]
            follows = (found == active[..., other]).all(axis=-2) & (found.sum(axis=-2) <= top)
            # If the question's own data ruled one of these arms out, it stays out and the question stays open.
            follows &= (open_ | ~found).all(axis=-2) & (open_.sum(axis=-2) > top) & live[..., None]
            active[..., places] = np.where(follows[..., None, :], found, open_)
            accepted[..., places] |= follows
        dropped_in = np.where(state.active & ~active, state.phase[..., None, None], state.dropped_in)
        return replace(state, active=active, accepted=accepted, dropped_in=dropped_in)

    def _before_neighbours(self, state: State) -> BoolArray:
        """`(..., agent)`: whether the agent is a finer question with an unanswered neighbour."""
        undecided = np.asarray(state.active.sum(axis=-2) > self.problem.top)
        waits = np.zeros(undecided.shape, dtype=np.bool_)
        for places, one, other in (level.T for level in self._halfway):
            waits[..., places] = undecided[..., one] | undecided[..., other]
        return waits

    @once
    def _halfway(self) -> list[IntArray]:
        return halfway(self.problem)

    def _update_by_strata(self, state: State, early: Totals, own: Totals) -> State:
        """The state after a phase that counts people assigned before it; `early` are the totals of these people.

        These people are treated as a separate, earlier phase: their counts and the stakes on them were fixed before
        their rewards were seen. The stakes on the phase's `own` draws may depend on the rewards of these people, who
        came first. The reverse order would not be valid, since the phase's means may depend on what came before. Only
        the update with the phase's own draws counts as a phase, and only it can end the study.
        """
        first = self._for_strata.update(state, early)
        return self.update(replace(first, phase=state.phase, finished=state.finished), own)

    @once
    def _for_strata(self) -> Self:
        return replace(self, within_phase=True)

    @abstractmethod
    def decide(self, before: State, after: State) -> State:
        """Decide after a phase: `after` is the state with the phase's totals added, and `before` the state before it.

        Returns `after` with the decisions made. Finished replications must not change.
        """

    @abstractmethod
    def ended(self, state: State) -> BoolArray:
        """`(...)`: whether the policy wants no more draws, apart from any budget."""

    def blank(self, batch: tuple[int, ...]) -> dict[str, Any]:
        """The values of the fields of `State` at the start.

        A policy with a state of its own adds its fields to these, and makes its state of both in `start`.
        """
        shape = (*batch, *self.problem.shape)
        return {
            "phase": np.zeros(batch, dtype=np.int64),
            "counts": np.zeros(shape, dtype=np.int64),
            "sums": np.zeros(shape),
            "squares": np.zeros(shape) if self.problem.noise.needs_squares else None,
            "active": np.broadcast_to(self.candidates, shape).copy(),
            "dropped_in": np.zeros(shape, dtype=np.int64),
            # If there are no more open arms than an answer names, there is nothing to find out.
            "finished": np.full(batch, self.candidates.sum() <= self.problem.top),
            "accepted": np.zeros((*batch, shape[-1]), dtype=np.bool_) if self.problem.tolerance else None,
        }


def whole_counts(values: FloatArray) -> IntArray:
    """Round up to whole draws. Numbers that are too large for any study raise an error instead of overflowing.

    >>> whole_counts(np.array([0.0, 1.2])).tolist()
    [0, 2]
    """
    largest = float(np.max(values, initial=0.0))
    if not largest <= LARGEST_COUNT:
        raise InvalidInput(
            "planned draws",
            found=f"{largest:.3g} of one arm by one agent",
            allowed="at most 2^53",
            hint="No study could distinguish gaps this small; set max_samples",
        )
    return np.ceil(values).astype(np.int64)


def raise_cells(quotas: IntArray, minimum: int) -> IntArray:
    """Raise cells with fewer than `minimum` draws to `minimum`; a cell of 0 stays 0.

    >>> raise_cells(np.array([0, 1, 4, 9]), 5).tolist()
    [0, 5, 5, 9]
    """
    return np.where(quotas > 0, np.maximum(quotas, minimum), quotas)


def cut_to(quotas: IntArray, left: IntArray, minimum: int = 1) -> IntArray:
    """Scale quotas `(..., arm, agent)` down to at most `left (...)` draws in total, keeping their proportions.

    A cell below the minimum becomes 0. If no cell would remain, the largest cell alone gets up to `left` draws,
    provided that they reach the minimum.

    >>> cut_to(np.array([[10, 20], [30, 0]]), np.array(7)).tolist()
    [[1, 2], [4, 0]]
    >>> cut_to(np.array([[10, 20], [30, 0]]), np.array(7), minimum=5).tolist()
    [[0, 0], [7, 0]]
    """
    total = quotas.sum(axis=(-2, -1))
    over = total > left
    if not over.any():
        return quotas
    share = np.minimum(left / np.maximum(total, 1), 1.0)[..., None, None]
    flat = np.floor(quotas * share).astype(np.int64).reshape(*total.shape, -1)
    rest = (quotas * share).reshape(flat.shape) - flat
    # Draws lost to rounding down go to the largest remainders.
    places = np.argsort(np.argsort(-rest, axis=-1, kind="stable"), axis=-1, kind="stable")
    flat = flat + (places < np.maximum(left - flat.sum(axis=-1), 0)[..., None]) * (rest > 0)
    flat = np.where(flat >= minimum, flat, 0)
    largest = np.argmax(quotas.reshape(flat.shape), axis=-1)[..., None]
    lone = np.minimum(np.take_along_axis(quotas.reshape(flat.shape), largest, axis=-1), left[..., None])
    single = np.zeros_like(flat)
    np.put_along_axis(single, largest, np.where(lone >= minimum, lone, 0), axis=-1)
    flat = np.where(flat.any(axis=-1, keepdims=True), flat, single)
    return np.where(over[..., None, None], flat.reshape(quotas.shape), quotas)


def nth_largest(values: FloatArray, n: int, among: BoolArray) -> FloatArray:
    """`(..., 1, agent)`: the n-th largest value over the arms `among`; -inf if fewer than n arms are among them.

    >>> nth_largest(np.array([[3.0], [9.0], [5.0]]), 2, np.array([[True], [False], [True]])).tolist()
    [[3.0]]
    """
    masked = np.where(among, values, -np.inf)
    place = masked.shape[-2] - n
    return np.partition(masked, place, axis=-2)[..., place : place + 1, :]


def best_estimates(mixed: FloatArray, among: BoolArray, top: int) -> BoolArray:
    """`(..., arm, agent)`: the `top` arms of `among` with the best estimates; ties go to the arm listed first."""
    order = np.argsort(np.where(among, -mixed, np.inf), axis=-2, kind="stable")
    return np.asarray(among & (np.argsort(order, axis=-2, kind="stable") < top))


@dataclass(frozen=True, kw_only=True)
class Elimination(Policy):
    """Base class of policies that rule arms out; subclasses define `keep`, which must keep at least N arms per agent.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> *_, last = parley.phases(parley.make_policy("evidence", problem), instance, seed=0)
    >>> last.after.active.tolist(), last.after.dropped_in.tolist()  # the second arm, for both, in phase 2
    ([[True, True], [False, False]], [[0, 0], [2, 2]])
    """

    @abstractmethod
    def keep(self, before: State, after: State) -> BoolArray:
        """`(..., arm, agent)`: which active arms stay candidates, from the states before and after the phase."""

    def decide(self, before: State, after: State) -> State:
        active = before.active & (self.keep(before, after) | before.finished[..., None, None])
        ruled_out = before.active & ~active
        return replace(
            after,
            active=active,
            dropped_in=np.where(ruled_out, after.phase[..., None, None], before.dropped_in),
        )

    def ended(self, state: State) -> BoolArray:
        """`(...)`: whether every agent that asks has its top N."""
        return np.asarray(((state.active.sum(axis=-2) <= self.problem.top) | ~self._asked).all(axis=-1))
