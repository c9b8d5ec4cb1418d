"""Base class of policies that play: every agent draws until the horizon, and plays its leader when it does not explore.

A phase lasts as long as any agent explores. Meanwhile the other agents play their *leader*, the candidate with the best
estimate; these draws are data like any others. The study ends after exactly T draws per agent. If an agent still has
several candidates then, its leader is the best guess.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.errors import InvalidInput
from parley.policies.base import Elimination, State, raise_cells
from parley.problem import BoolArray, FloatArray, IntArray

FIRST_OPEN, OPEN_GROWTH = 200, 10  # draws per arm in the first open horizon, and the factor from each to the next


@dataclass(frozen=True, kw_only=True, eq=False)
class Standing:
    """The regret so far and the arms that are played, for display only: no decision depends on them."""

    regret: FloatArray  # (..., agent): estimated regret of all draws so far
    error: FloatArray  # (...): standard error of the regret of all agents together
    leading: BoolArray  # (..., arm, agent): the arm that each agent plays
    left: IntArray  # (..., agent): draws that remain until the horizon


@dataclass(frozen=True, kw_only=True)
class Playing(Elimination):
    """Base class of policies that play until the horizon.

    Subclasses define which draws are `explored` and which arms to `keep`.
    """

    supports: ClassVar[frozenset[str]] = Elimination.supports | {"horizon"}
    plays_open: ClassVar[bool] = False  # whether the policy works without a known horizon

    def __post_init__(self) -> None:
        horizon = self.problem.horizon
        if horizon is None or (horizon == "open" and not self.plays_open):
            allowed = "a number of draws per agent" + (', or "open"' if self.plays_open else "")
            raise InvalidInput("horizon", found=horizon or "none", allowed=f"{allowed}, with the policy {self.name}")
        if self.problem.top != 1:
            raise InvalidInput("top", found=self.problem.top, allowed="1 with a horizon: one arm is played at a time")

    @property
    def bounds_errors(self) -> bool:
        return False  # its guarantee is about regret, not about errors

    def horizon(self, counts: IntArray) -> IntArray:
        """`(...)`: the horizon to play for, given the draws so far; an open horizon is extended when it is reached.

        >>> from parley.policies import make_policy
        >>> from parley.problem import Problem
        >>> policy = make_policy("evidence-regret", Problem(arms=2, weights=[[1.0]], horizon="open"))
        >>> [int(policy.horizon(np.array([[n], [n]]))) for n in (0, 150, 200, 2000)]
        [400, 400, 4000, 40000]
        """
        played = np.asarray(counts.sum(axis=-2).min(axis=-1))
        if not isinstance(self.problem.horizon, str):
            return np.full(played.shape, self.problem.horizon)
        first = FIRST_OPEN * self.problem.arm_count
        passed = np.floor(np.log(np.maximum(played, 1) / first) / np.log(OPEN_GROWTH) + 1 + 1e-9)
        return np.asarray(first * OPEN_GROWTH ** np.maximum(passed, 0)).astype(np.int64)

    def remaining(self, counts: IntArray) -> IntArray:
        """`(..., agent)`: draws that every agent has left until the horizon."""
        return np.asarray(np.maximum(self.horizon(counts)[..., None] - counts.sum(axis=-2), 0))

    def leaders(self, state: State) -> BoolArray:
        """`(..., arm, agent)`: the arm that every agent plays when it is not exploring."""
        mixed = np.where(state.active, self.problem.mixed(state.means), -np.inf)
        return np.asarray(mixed.argmax(axis=-2)[..., None, :] == np.arange(self.problem.arm_count)[:, None])

    def wanted(self, state: State) -> IntArray:
        """The draws that explore and, for the rest of the phase, the draws that play; all are fixed before the phase.

        With a minimum cell, the last phase may exceed the horizon by less than one cell per agent.
        """
        explored, length = self.explored(state)
        explored = raise_cells(explored, self.problem.minimum_cell)
        asked = explored.sum(axis=-2)
        length = np.maximum(length, np.maximum(asked.max(axis=-1), 1))[..., None]
        time = np.minimum(length, self.remaining(state.counts)) * ~state.finished[..., None]
        # An agent with too little time left explores all of its arms proportionally less.
        fits = np.where(asked > time, time / np.maximum(asked, 1), 1.0)
        explored = np.floor(explored * fits[..., None, :] + 1e-9).astype(np.int64)
        explored = np.where(explored < self.problem.minimum_cell, 0, explored)
        return explored + self.played(state, (time - explored.sum(axis=-2))[..., None, :], time[..., None, :])

    def played(self, state: State, idle: IntArray, time: IntArray) -> IntArray:
        """Spend the `idle (..., 1, agent)` draws on the leader or, in the first phase, equally on all arms.

        `time (..., 1, agent)` are all draws of the phase.
        """
        arms = np.clip(time // self.problem.minimum_cell, 1, self.problem.arm_count)  # arms that can have a cell each
        place = np.arange(self.problem.arm_count)[:, None]
        even = np.where(place < arms, idle // arms + (place < idle % arms), 0)
        return np.where((state.phase > 0)[..., None, None], np.where(self.leaders(state), idle, 0), even)

    @abstractmethod
    def explored(self, state: State) -> tuple[IntArray, IntArray]:
        """The draws that explore, `(..., arm, agent)`, and the length of the phase for every agent, `(...)`."""

    def ended(self, state: State) -> BoolArray:
        """Whether every agent has reached the horizon; with an open horizon, an administrator ends the study."""
        return np.asarray((self.remaining(state.counts) == 0).all(axis=-1))

    def rounds_of(self, state: State) -> IntArray:
        """Rounds of communication so far, without the last phase, whose reports come too late to change any draw."""
        return np.asarray(np.maximum(state.phase - state.finished, 0))

    def _decided(self, state: State) -> BoolArray:
        """`(...)`: whether every agent has one candidate left, so that nothing more will be explored."""
        return np.asarray((state.active.sum(axis=-2) <= 1).all(axis=-1))

    def standing(self, state: State) -> Standing:
        """The regret so far by current estimates, with its standard error, and the arm that each agent plays."""
        problem, mixed, leading = self.problem, self.problem.mixed(state.means), self.leaders(state)
        best = np.where(leading, mixed, -np.inf).max(axis=-2, keepdims=True)
        others = np.where(leading, 0, state.counts)
        # The regret is linear in the local means: every draw of another arm could have been a draw of the leader.
        shares = np.where(leading, others.sum(axis=-2, keepdims=True), -others) @ problem.weights.T
        variances = problem.noise.cell_variances(state.totals) / np.maximum(state.counts, 1)
        return Standing(
            regret=np.asarray((others * np.maximum(best - mixed, 0.0)).sum(axis=-2)),
            error=np.sqrt((np.square(shares) * variances).sum(axis=(-2, -1))),
            leading=leading,
            left=self.remaining(state.counts),
        )
