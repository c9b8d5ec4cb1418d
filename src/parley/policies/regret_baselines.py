"""PF-UCB and its enhanced form (Shi, Shen, Yang, AISTATS 2021): the published baseline for personalized weights.

With a horizon T and M agents, phase p has the effort f(p) = 2^p log T. Every agent draws an arm (1 - alpha) f(p) times
if the arm is still a candidate of any agent, and M alpha f(p) times more if the arm is still its own candidate. Agents
that finish exploring earlier play their leader. An arm is ruled out when its estimate is two radii below the best;
`RADII` has the radii, with F(p) = f(1) + ... + f(p). Draws made while playing count as data here: the radius needs at
least the draws of the effort, and stays valid with more.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.bounds import regret
from parley.errors import UnknownName
from parley.policies.base import Explanation, State, nth_largest, whole_counts
from parley.policies.evidence.racing import EvidenceRacing
from parley.policies.oracle import require_truth
from parley.policies.pf_ucb_bai import personalization, phase_lengths
from parley.policies.playing import Playing
from parley.problem import BoolArray, FloatArray, Instance, IntArray
from parley.system.once import once
from parley.text.translation import Translatable

RADII = {
    "proven": (4.0, "sqrt(4 log T / (M F(p))), for which its authors prove a logarithmic regret"),
    "released": (1.0, "sqrt(log T / (M F(p))), as in its authors' released code: NO GUARANTEE"),
}
CLAIMS = {name: Translatable(f"radius {words}") for name, (_, words) in RADII.items()}
RIGHT_IN_TIME = Translatable(
    "all answers right with probability at least 1 - 1 / T, unless the horizon is reached first"
)
LAST_EFFORT = 60  # most doublings of the effort: no horizon is that long


@dataclass(frozen=True, kw_only=True)
class PfUcb(Playing):
    """The policy PF-UCB, for personalized weights with one alpha.

    `radius`: "proven" is from the authors' theorem; "released" is from their code and guarantees nothing.
    """

    name: ClassVar[str] = "pf-ucb"
    proven: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = True
    radius: str = "proven"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius not in RADII:
            raise UnknownName("radius", self.radius, RADII)
        personalization(self.problem, self.name)

    def claim(self, probability: float) -> str:  # noqa: ARG002
        return CLAIMS[self.radius]

    @property
    def alpha(self) -> float:
        """The alpha of the personalized weights."""
        return personalization(self.problem, self.name)

    @property
    def _log_horizon(self) -> float:
        assert isinstance(self.problem.horizon, int)
        return math.log(max(self.problem.horizon, 2))

    def explored(self, state: State) -> tuple[IntArray, IntArray]:
        """The draws of a phase of fixed length; a minimum cell only adds to the draws that the radius needs."""
        effort = (np.exp2(np.minimum(state.phase + 1.0, LAST_EFFORT)) * self._log_horizon)[..., None, None]
        wanted = self.scaled_draws(state, phase_lengths(self.problem, state, self.alpha, effort))
        remaining = self.remaining(state.counts)
        explored = whole_counts(np.minimum(wanted, np.maximum(remaining, 1)[..., None, :].astype(np.float64)))
        length = explored.sum(axis=-2).max(axis=-1)
        return explored, np.where(self._decided(state), remaining.max(axis=-1), length)

    def scaled_draws(self, state: State, wanted: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the wanted draws unchanged; the enhanced form overrides this method."""
        return wanted

    def _radius(self, phase: IntArray) -> FloatArray:
        """`(..., 1, 1)`: the radius; an arm is ruled out when its estimate is two radii below the best."""
        effort = np.exp2(np.minimum(phase, LAST_EFFORT) + 1.0) - 2  # F(p) / log T
        square = RADII[self.radius][0] / (self.problem.agent_count * effort)
        return np.asarray(self.problem.noise.largest_scale * np.sqrt(square))[..., None, None]

    def keep(self, before: State, after: State) -> BoolArray:
        mixed, half = self.problem.mixed(after.means), self._radius(np.maximum(after.phase, 1))
        drawn = before.active & self.problem.drawn(after.counts)
        return np.asarray((mixed + half >= nth_largest(mixed - half, 1, drawn)) | ~drawn)

    def explain(self, state: State) -> Explanation:
        mixed, half = self.problem.mixed(state.means), self._radius(np.maximum(state.phase, 1))
        known = (state.phase > 0)[..., None, None]
        return Explanation(
            mixed_means=mixed,
            score=np.where(known, (nth_largest(mixed, 1, state.active) - half - mixed) / half, 0.0),
            line=1.0,
            words="distance below the best lower confidence bound, in half-widths of the phase's interval",
        )


@dataclass(frozen=True, kw_only=True)
class PfUcbEnhanced(PfUcb):
    """`pf-ucb` in which agents with a larger expected loss from an arm draw it less often, and other agents more."""

    name: ClassVar[str] = "pf-ucb-enhanced"
    proven: ClassVar[bool] = True

    def scaled_draws(self, state: State, wanted: FloatArray) -> FloatArray:
        mixed = self.problem.mixed(state.means)
        gap = nth_largest(mixed, 1, state.active) - mixed
        twice = 2 * self._radius(np.maximum(state.phase, 1))
        known = (state.phase > 0)[..., None, None]
        root = np.sqrt(np.clip(np.where(known, gap + twice, 1.0) / self.problem.largest_gap, 1e-6, 1.0))
        shared = root.mean(axis=-1, keepdims=True)
        return np.asarray(np.ceil(wanted * (self.alpha * root + (1 - self.alpha) * shared) / root))


@dataclass(frozen=True, kw_only=True)
class ExploreThenCommit(Playing, EvidenceRacing):
    """Evidence racing at delta = 1 / T, for a horizon T, with the options of `evidence`.

    Agents with time left play their leader.
    """

    name: ClassVar[str] = "explore-then-commit"
    proven: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Playing.__post_init__(self)
        EvidenceRacing.__post_init__(self)

    def claim(self, probability: float) -> str:  # noqa: ARG002
        return self._noted(RIGHT_IN_TIME)

    @property
    def line(self) -> float:
        """The line of `evidence` at delta = 1 / T: log(M T), for M agents and a horizon T."""
        assert isinstance(self.problem.horizon, int)
        return math.log(self.problem.agent_count * max(self.problem.horizon, 2))

    def explored(self, state: State) -> tuple[IntArray, IntArray]:
        explored = np.zeros(state.counts.shape, dtype=np.int64)
        racing = ~state.finished & ~self._decided(state)
        if racing.any():
            explored[racing] = EvidenceRacing.wanted(self, state.take(racing))
        return explored, np.where(racing, explored.sum(axis=-2).max(axis=-1), self.remaining(state.counts).max(axis=-1))


@dataclass(frozen=True, kw_only=True)
class OracleRegret(Playing):
    """The policy that knows the true gaps: it explores as the bound on regret requires, else plays the best arms.

    `accuracy`: how close the allocation of the draws must provably be to the cheapest one.
    """

    name: ClassVar[str] = "oracle-regret"
    proven: ClassVar[bool] = True
    allows_drift: ClassVar[bool] = True  # its decisions use no rewards
    instance: Instance
    accuracy: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        require_truth(self.problem, self.instance)

    def claim(self, probability: float) -> str:  # noqa: ARG002
        return Translatable("plays the best arms (it is given the true gaps, which no real study knows)")

    @once
    def _counts(self) -> IntArray:
        assert isinstance(self.problem.horizon, int)
        allocation = regret(self.instance, accuracy=self.accuracy).allocation * math.log(self.problem.horizon)
        return np.where(self.instance.best, 0, np.floor(np.minimum(allocation, 2.0**53) + 0.5)).astype(np.int64)

    def leaders(self, state: State) -> BoolArray:
        return np.broadcast_to(self.instance.best, state.counts.shape)

    def played(self, state: State, idle: IntArray, time: IntArray) -> IntArray:  # noqa: ARG002
        return np.where(self.leaders(state), idle, 0)

    def explored(self, state: State) -> tuple[IntArray, IntArray]:
        explored = np.maximum(self._counts - state.counts, 0)
        return explored, self.remaining(state.counts).max(axis=-1)

    def keep(self, before: State, after: State) -> BoolArray:  # noqa: ARG002
        """Keep all arms until the horizon, and then only the played arms, since the oracle has nothing to learn."""
        return np.asarray(self.leaders(after) | ~self.ended(after)[..., None, None])

    def explain(self, state: State) -> Explanation:
        mixed = self.problem.mixed(state.means)
        return Explanation(
            mixed_means=mixed,
            score=np.where(state.active, 0.0, self.instance.gaps),
            line=0.0,
            words=Translatable("the true gap of the arms that are not played"),
        )
