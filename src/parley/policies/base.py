"""What a policy is: three pure functions over `(..., arm, agent)` arrays, and the state that survives between them.

    state  = policy.start(batch=())        () for a live study, (R,) for R replications
    quotas = policy.plan(state)            integers: fresh draws wanted this phase, all 0 once finished
    state  = policy.update(state, totals)  what the phase brought, a `Totals`

A policy never samples, sleeps, logs or opens a socket; the simulator, a live coordinator, a planner and an audit that
replays a finished study all drive the same code. `plan` is a function of the state alone.
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
from parley.text.translation import Translatable, joined, phrase
from parley.totals import Totals
from parley.validation.checks import LARGEST_COUNT
from parley.weight_map import halfway

ARRAYS = {IntArray: np.int64, FloatArray: np.float64, BoolArray: np.bool_}
OPTIONAL = {array | None: dtype for array, dtype in ARRAYS.items()}
DTYPES: dict[Any, type[np.generic]] = {**ARRAYS, **OPTIONAL}  # of the fields of a state
# Guarantees of a special kind, by which a page tells them from others.
NO_GUARANTEE, NOTED = "NO GUARANTEE: {0}", "{0}, {1}"
CLAIM = "all answers {0} with probability at least {1:g}"
RIGHT, RIGHT_WITHIN = phrase("right", of=CLAIM), phrase("right within {0}", of=CLAIM)


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """What must survive between phases; policies that remember more extend it. Never changed in place.

    >>> import parley
    >>> policy = parley.make_policy("evidence", parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]]))
    >>> state = policy.start()
    >>> state.active.tolist(), policy.restore(state.to_json()).phase.tolist()
    ([[True, True], [True, True]], 0)
    """

    phase: IntArray  # (...): phases completed, which is also the rounds of communication
    counts: IntArray  # (..., arm, agent): draws so far
    sums: FloatArray  # (..., arm, agent): their rewards, added up
    squares: FloatArray | None = None  # (..., arm, agent): their squares, where the reward model needs them
    active: BoolArray  # (..., arm, agent): still a candidate of this agent
    dropped_in: IntArray  # (..., arm, agent): the phase (from 1) that ruled it out or set it aside, 0 while active
    finished: BoolArray  # (...): the policy asks for nothing more
    accepted: BoolArray | None = None  # (..., agent): answered within the tolerance, where there is one

    @property
    def totals(self) -> Totals:
        """All that was drawn so far."""
        return Totals(counts=self.counts, sums=self.sums, squares=self.squares)

    @property
    def means(self) -> FloatArray:
        """Local means `(..., arm, agent)`, 0 without data."""
        return np.asarray(self.sums / np.maximum(self.counts, 1))

    @property
    def answers(self) -> BoolArray:
        """`(..., arm, agent)`: the arms that remain; each agent's top N where finished."""
        return self.active

    def take(self, chosen: IntArray | BoolArray | slice) -> Self:
        """Some replications of a batch."""
        return replace(self, **{name: value[chosen] for name, value in self._kept()})

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers of what is kept; `from_json` gives back the same state to the last bit."""
        return {name: value.tolist() for name, value in self._kept()}

    def _kept(self) -> list[tuple[str, NDArray[Any]]]:
        every = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, value) for name, value in every if value is not None]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The state that `to_json` wrote; a missing or unknown key is an error."""
        hints = get_type_hints(cls)  # whether the module of a state postpones annotations or not
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
    """Why arms are in or out, for people to look at; nothing decides by it."""

    mixed_means: FloatArray  # (..., arm, agent)
    score: FloatArray  # (..., arm, agent): how far the case against the arm has come; out at `line`
    line: float
    words: str  # what the score is, in a sentence


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """A problem and the options of an algorithm. Subclasses say what is `wanted`, and what to make of a phase.

    Guarantees every policy gives: quotas are never negative, 0 for finished replications, and never between 0 and the
    problem's `minimum_cell`; replications of a batch do not influence each other; an agent whom nobody weighs draws an
    arm at most once, unless agents play, and one that only asks draws nothing.

    >>> import parley
    >>> policy = parley.make_policy("uniform", parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]]))
    >>> state = policy.start()  # what a live study begins with; `start((1000,))` begins a thousand simulated ones
    >>> counts = policy.plan(state)
    >>> state = policy.update(state, parley.Totals(counts=counts, sums=0.5 * counts, squares=0.5 * counts))
    >>> int(state.phase), bool(state.finished)
    (1, False)
    """

    name: ClassVar[str]
    # The settings that affect decisions and that it takes into account; budgets and estimates are everybody's.
    supports: ClassVar[frozenset[str]] = frozenset({"max_samples", "max_rounds", "control"})
    plans_by_price: ClassVar[bool] = False  # whether prices and rates move its plans
    needs_scale: ClassVar[bool] = False  # intervals of a known width: an unknown scale is refused
    draws_everything: ClassVar[bool] = False  # also of agents whom nobody weighs
    # Whether what `claim` says is proven. A class says it for itself: another rule that inherits from it claims nothing
    # unless it says so too.
    proven: ClassVar[bool] = False
    allows_drift: ClassVar[bool] = False  # whether its guarantee holds if a site's arms all move alike between phases
    problem: Problem
    idle: tuple[int, ...] = ()  # places of agents that draw no more: frozen by an administrator
    unasked: tuple[int, ...] = ()  # of them, who left: the others were re-weighed, and their own question rests
    within_phase: bool = False  # updates are of a stratum of a phase that is not over with it

    @property
    def values_per_pair(self) -> int:
        """Numbers held per (arm, agent) of a run at the peak, to size chunks by."""
        return 16

    @property
    def guarantee(self) -> str:
        """What may be claimed of the answer, in words a user reads: nothing unless the class says it is proven."""
        if self.claims:
            return self.claim(1 - self.problem.delta)
        return Translatable(NO_GUARANTEE, Translatable("the policy {0} claims none", self.name))

    @property
    def claims(self) -> bool:
        """Whether the class itself says that its guarantee is proven."""
        return bool(vars(type(self)).get("proven", False))

    def claim(self, probability: float) -> str:
        """The guarantee, with this probability where it has one; only asked where the class says that it is proven."""
        right = RIGHT_WITHIN.format(f"{self.problem.tolerance:g}") if self.problem.tolerance else RIGHT
        return Translatable(CLAIM, right, probability)

    @property
    def bounds_errors(self) -> bool:
        """Whether the guarantee is that every answer is right, but for the study's delta."""
        return self.claims

    @property
    def drift(self) -> str:
        """What of the guarantee holds if means move between phases, in words a user reads."""
        if self.allows_drift:
            return Translatable(
                "the same if means move between phases, all arms of a site alike: arms are compared within phases"
            )
        return Translatable(
            "none if means move between phases: rewards of all phases are added up, and a trend biases their means"
        )

    @property
    def largest_size(self) -> int | None:
        """The most samples that the study takes, known before it starts; None where nothing limits it."""
        return self.problem.max_samples

    @property
    def planned_looks(self) -> int | None:
        """The phases that are planned for; a study may take fewer, or a few more. None where the policy plans none."""
        return self.problem.max_rounds

    @property
    def extent(self) -> str:
        """How many looks and samples the study may take, as far as that is known before it starts; or nothing."""
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
                    "{0}, the first phase included, and further looks follow where the last planned one does not "
                    "suffice",
                    one if looks == 1 else many,
                )
            )
        if size is not None:
            parts.append(Translatable("never more than {0:,} samples, whatever the truth", size))
        return joined("; ", parts) if parts else ""

    def start(self, batch: tuple[int, ...] = ()) -> State:
        """Nothing drawn, everything possible."""
        return State(**self._blank(batch))

    def restore(self, document: Mapping[str, Any]) -> State:
        """The state that `to_json` wrote, checked to be one of this policy for this problem."""
        state = type(self.start()).from_json(document)
        blank = self.start(state.phase.shape)
        for field in fields(blank):
            found, allowed = (getattr(getattr(one, field.name), "shape", None) for one in (state, blank))
            if found != allowed:
                raise InvalidInput(f"state.{field.name}", found=f"shape {found}", allowed=f"{allowed}")
        return state

    @final
    def plan(self, state: State, between: IntArray | None = None) -> IntArray:
        """Fresh draws wanted this phase, `(..., arm, agent)`: every cell 0 or at least the problem's minimum.

        `between (..., arm, agent)` are people who were assigned before the phase and belong to it. Everybody who needs
        a plan gets it here, so this is the one place that enforces the minimum and the budget. It is decided before the
        rewards of the phase; why each guarantee stays is said at each `wanted`.
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
        return (
            quotas if left is None else cut_to(quotas, np.maximum(left - between.sum(axis=(-2, -1)), left // 4), least)
        )

    def most_ahead(self, state: State, quotas: IntArray, between: IntArray | None = None) -> IntArray:
        """`(..., agent)`: how many people may be assigned for the next phase while this one, with these `quotas`, waits
        for outcomes: a share of its draws. Nobody in a last round; with a budget half of what this phase leaves.
        """
        problem = self.problem
        most = np.floor(problem.most_between * quotas.sum(axis=-2)).astype(np.int64)
        if problem.max_rounds is not None:
            most = np.where((state.phase + 1 >= problem.max_rounds)[..., None], 0, most)
        if self.largest_size is not None:
            spent = quotas.sum(axis=(-2, -1)) + (0 if between is None else between.sum(axis=(-2, -1)))
            left, total = np.maximum(self._left(state) - spent, 0) // 2, np.maximum(most.sum(axis=-1), 1)
            most = np.where((total > left)[..., None], most * left[..., None] // total[..., None], most)
        return np.asarray(most)

    def blocked(self, state: State) -> BoolArray:
        """`(..., agent)`: who has no answer and waits for draws that nobody will make: its mix weighs an idle agent."""
        undecided = np.asarray(state.active.sum(axis=-2) > self.problem.top)
        if not self.idle or self.problem.horizon is not None:
            return np.zeros_like(undecided)
        return np.asarray(undecided & (self.problem.weights[list(self.idle)] > 0).any(axis=0))

    def settled(self, state: State) -> BoolArray:
        """`(..., agent)`: whose answer stands if no other agent's leaders change, and is final when all are settled."""
        return np.zeros(state.active.shape[:-2] + state.active.shape[-1:], dtype=np.bool_)

    def _without_idle(self, state: State, quotas: IntArray) -> IntArray:
        """Nothing of whom nobody draws, and nothing at all once all that is open is blocked: the study ends there."""
        asked = quotas.copy()
        asked[..., self.undrawn] = 0
        if self.problem.horizon is None:
            asked[~self._open(state).any(axis=-1)] = 0
        return asked

    def _open(self, state: State) -> BoolArray:
        """`(..., agent)`: who has no answer, asks for one, and may still get it."""
        return np.asarray((state.active.sum(axis=-2) > self.problem.top) & ~self.blocked(state) & self._asked)

    @once
    def candidates(self) -> BoolArray:
        """`(arm, 1)`: the arms that are open: not dormant, nor withdrawn since, which is the same to a policy."""
        return ~np.isin(self.problem.arms, self.problem.dormant)[:, None]

    @once
    def undrawn(self) -> list[int]:
        """Places of agents at which nobody draws: frozen ones, and questions."""
        return sorted({*self.idle, *np.flatnonzero(~self.problem.draws).tolist()})

    @once
    def _asked(self) -> BoolArray:
        """`(agent,)`: whose question is asked."""
        asked = self.problem.asks.copy()
        asked[list(self.unasked)] = False
        return asked

    def _left(self, state: State) -> IntArray:
        """`(...)`: samples that the largest size still allows."""
        assert self.largest_size is not None
        return np.asarray(np.maximum(self.largest_size - state.counts.sum(axis=(-2, -1)), 0))

    def exhausted(self, state: State) -> BoolArray:
        """`(...)`: whether the budget of samples or rounds is used up."""
        over = np.zeros(state.phase.shape, dtype=np.bool_)
        if self.within_phase:
            return over
        if self.largest_size is not None:
            over |= self._left(state) < self.problem.minimum_cell
        if self.problem.max_rounds is not None:
            over |= state.phase >= self.problem.max_rounds
        return over

    def statuses(self, state: State) -> NDArray[np.str_]:
        """`(..., agent)`: how the study ended for every agent, as values of `OutcomeStatus`."""
        answered = state.active.sum(axis=-2) <= self.problem.top
        accepted = np.zeros_like(answered) if state.accepted is None else state.accepted
        over = np.broadcast_to(state.finished[..., None], answered.shape)
        left = np.broadcast_to(~self._asked, answered.shape)
        end = OutcomeStatus
        mute = np.broadcast_to(~self.problem.asks, answered.shape)
        words = [end.UNASKED, end.ACCEPTED, end.DECIDED, end.LEFT, end.EXHAUSTED, end.SETTLED]
        cases = [mute, answered & accepted, answered, left, over, self.settled(state)]
        return np.select(cases, [word.value for word in words], default=end.OPEN.value)

    def ends(self, state: State, stopped: OutcomeStatus | None = None) -> list[OutcomeStatus]:
        """Of one study, agent by agent: its status; how the study was `stopped`, for an agent without an answer."""
        final = (OutcomeStatus.UNASKED, OutcomeStatus.DECIDED, OutcomeStatus.ACCEPTED, OutcomeStatus.LEFT)
        statuses = map(OutcomeStatus, self.statuses(state).tolist())
        return [stopped if stopped is not None and status not in final else status for status in statuses]

    def rounds_of(self, state: State) -> IntArray:
        """`(...)`: rounds of communication so far: phases whose reports could still change something."""
        return state.phase

    @abstractmethod
    def wanted(self, state: State) -> IntArray:
        """The draws that the algorithm asks for this phase, whatever the minimum cell."""

    @abstractmethod
    def explain(self, state: State) -> Explanation:
        """The case against every arm so far."""

    def certificate(self, state: State) -> dict[str, Any]:
        """Why the answers of one study may be believed, ready for JSON: per agent and arm, what decided."""
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
                            # Nothing was said for or against an arm that nobody may choose.
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
        """`(..., arm, agent)`: what may be said of every arm of every agent, as values of `ArmStatus`.

        The `case` is that of the state, if it is at hand. Only an agent with an answer has chosen arms.
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
        """`(..., arm, agent)`: out, and not proven worse: its agent answered with arms within the tolerance.

        An answer within the tolerance comes in one phase. An arm that went then, short of the line, was set aside.
        """
        if state.accepted is None:
            return np.zeros(state.active.shape, dtype=np.bool_)
        last = state.dropped_in.max(axis=-2, keepdims=True)
        went = (state.dropped_in == last) & ~state.active
        return np.asarray(state.accepted[..., None, :] & went & (case.score < case.line))

    def certified(self, state: State, case: Explanation, arm: int, agent: int) -> dict[str, Any]:  # noqa: ARG002
        """What a policy adds to the certificate of one arm for one agent."""
        return {}

    def update(self, state: State, totals: Totals) -> State:
        """The state after a phase; finished replications stay as they are."""
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
        """Finer questions whose two neighbours have the same answer have it too: it is right there if it is right at
        both, whatever the data. So they are asked only while their neighbours may differ, and where they do.
        """
        assert state.accepted is not None
        active, accepted, top = state.active.copy(), state.accepted.copy(), self.problem.top
        for places, one, other in (level.T for level in self._halfway):
            found, open_ = active[..., one], active[..., places]
            follows = (found == active[..., other]).all(axis=-2) & (found.sum(axis=-2) <= top)
            # An arm that the question's own data ruled out stays out: then it is asked on.
            follows &= (open_ | ~found).all(axis=-2) & (open_.sum(axis=-2) > top) & live[..., None]
            active[..., places] = np.where(follows[..., None, :], found, open_)
            accepted[..., places] |= follows
        dropped_in = np.where(state.active & ~active, state.phase[..., None, None], state.dropped_in)
        return replace(state, active=active, accepted=accepted, dropped_in=dropped_in)

    def _before_neighbours(self, state: State) -> BoolArray:
        """`(..., agent)`: finer questions with a neighbour that has no answer yet."""
        undecided = np.asarray(state.active.sum(axis=-2) > self.problem.top)
        waits = np.zeros(undecided.shape, dtype=np.bool_)
        for places, one, other in (level.T for level in self._halfway):
            waits[..., places] = undecided[..., one] | undecided[..., other]
        return waits

    @once
    def _halfway(self) -> list[IntArray]:
        return halfway(self.problem)

    def _update_by_strata(self, state: State, early: Totals, own: Totals) -> State:
        """The state after a phase with people who came before it.

        They are a phase of their own: their counts were fixed before their rewards, and the stakes on them are what was
        known then. Those on the phase's own draws may know them, who came first. The other order would not do: means of
        the phase may depend on what came before. Only the phase itself can be the last one, or end the study.
        """
        first = self._for_strata.update(state, early)
        return self.update(replace(first, phase=state.phase, finished=state.finished), own)

    @once
    def _for_strata(self) -> Self:
        return replace(self, within_phase=True)

    @abstractmethod
    def decide(self, before: State, after: State) -> State:
        """What follows from a phase: `after` has its totals already. Nothing may change where `before` is finished."""

    @abstractmethod
    def ended(self, state: State) -> BoolArray:
        """`(...)`: whether nothing more is wanted: the policy's own word."""

    def _blank(self, batch: tuple[int, ...]) -> dict[str, Any]:
        """The fields of `State` at the start."""
        shape = (*batch, *self.problem.shape)
        return {
            "phase": np.zeros(batch, dtype=np.int64),
            "counts": np.zeros(shape, dtype=np.int64),
            "sums": np.zeros(shape),
            "squares": np.zeros(shape) if self.problem.noise.needs_squares else None,
            "active": np.broadcast_to(self.candidates, shape).copy(),
            "dropped_in": np.zeros(shape, dtype=np.int64),
            # With as many open arms as an answer has there is nothing to find out.
            "finished": np.full(batch, self.candidates.sum() <= self.problem.top),
            "accepted": np.zeros((*batch, shape[-1]), dtype=np.bool_) if self.problem.tolerance else None,
        }


def whole_counts(values: FloatArray) -> IntArray:
    """Round up to whole draws. A number that no study could draw is an error, never an overflow.

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
    """Raise cells of 1 to `minimum` - 1 draws to `minimum`; a cell of 0 stays 0.

    >>> raise_cells(np.array([0, 1, 4, 9]), 5).tolist()
    [0, 5, 5, 9]
    """
    return np.where(quotas > 0, np.maximum(quotas, minimum), quotas)


def cut_to(quotas: IntArray, left: IntArray, minimum: int = 1) -> IntArray:
    """Cut quotas `(..., arm, agent)` to `left (...)` draws in total, in the same proportions.

    A cell that falls below the minimum becomes 0. If no cell would remain, the largest takes what is left.

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
    # The draws lost by rounding down go to the largest remainders.
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
    """The n-th largest over the arm axis among the marked arms, kept as `(..., 1, agent)`; -inf with fewer than n.

    >>> nth_largest(np.array([[3.0], [9.0], [5.0]]), 2, np.array([[True], [False], [True]])).tolist()
    [[3.0]]
    """
    masked = np.where(among, values, -np.inf)
    place = masked.shape[-2] - n
    return np.partition(masked, place, axis=-2)[..., place : place + 1, :]


def best_estimates(mixed: FloatArray, among: BoolArray, top: int) -> BoolArray:
    """`(..., arm, agent)`: the N best estimates among some arms; equal ones by position, so never more than N."""
    order = np.argsort(np.where(among, -mixed, np.inf), axis=-2, kind="stable")
    return np.asarray(among & (np.argsort(order, axis=-2, kind="stable") < top))


@dataclass(frozen=True, kw_only=True)
class Elimination(Policy):
    """Subclasses say which arms to keep. An arm is only dropped on data; an agent always keeps at least N arms.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> *_, last = parley.phases(parley.make_policy("evidence", problem), instance, seed=0)
    >>> last.after.active.tolist(), last.after.dropped_in.tolist()  # the second arm, for both, in phase 2
    ([[True, True], [False, False]], [[0, 0], [2, 2]])
    """

    @abstractmethod
    def keep(self, before: State, after: State) -> BoolArray:
        """Which active arms stay candidates, given the state before the phase and the totals after it."""

    def decide(self, before: State, after: State) -> State:
        active = before.active & (self.keep(before, after) | before.finished[..., None, None])
        ruled_out = before.active & ~active
        return replace(
            after,
            active=active,
            dropped_in=np.where(ruled_out, after.phase[..., None, None], before.dropped_in),
        )

    def ended(self, state: State) -> BoolArray:
        """Every agent that asks has its top N."""
        return np.asarray(((state.active.sum(axis=-2) <= self.problem.top) | ~self._asked).all(axis=-1))
