"""Evidence racing for regret: the same race, planned and ended by what a draw and a wrong answer cost.

Until T draws per agent are made, a draw of arm k by agent m costs its mixed gap. Bets, opponents and wealth are those
of `evidence`. Three things differ, and `docs/regret.md` proves what follows from them:

* *The line.* Ruling out the best arm at time t costs at most (T - t) times its gap to the arm played instead. So
  arm k is out for m in a phase when its wealth reaches

      (T - t) * sqrt(2 log T) * sqrt(V) / eps,

  V the variance of the phase's contrast. The regret of wrong answers is then about eps at most in expectation, for
  any gaps. `eps` is a share of what exploration has cost so far.
* *The plan.* Draws cost what they are expected to lose; the leader's cost next to nothing, once it is sure to lead.
* *Time.* A phase is as long as the one who explores most needs; everybody else plays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from parley.errors import InvalidInput
from parley.once import once
from parley.policies.base import Explanation, State
from parley.policies.evidence_plan import Contrasts
from parley.policies.evidence_racing import EvidenceRacing
from parley.policies.playing import Playing
from parley.policies.regret_plan import (
    LEAST_MISSING,
    REGRET_TEMPERS,
    TIME_GROWTH,
    draw_costs,
    exploration,
    planned_line,
)
from parley.policies.wealth import Wealth
from parley.problem import BoolArray, FloatArray, IntArray
from parley.totals import Totals

__all__ = ["EvidenceRegret", "Lined"]

LEAST_LINE = math.log(2)  # the best arm goes with a chance of one in two at most, however little is left to lose
LARGEST_LOSS = 100.0  # eps is at most this many times K * variance / largest_gap, whatever was spent
FIRST_LINE = 11.5
USUAL_HORIZON = 10**6  # longer ones are worth another round or two
FIRST_SHARE = 0.25  # of the horizon: the first phase takes no more


@dataclass(frozen=True, kw_only=True, eq=False)
class Lined(Wealth):
    """Wealth, and the line that it had to reach in the last phase."""

    line: FloatArray  # (..., arm, agent)


@dataclass(frozen=True, kw_only=True)
class EvidenceRegret(Playing, EvidenceRacing):
    """No option can break what is proven; they trade regret for rounds.

    `rounds`: about how many rounds you can afford, 4 to 8 (7 unless told); sets `precision`, `growth` (here of what
    exploration costs, not of samples), `optimism` and `caution`, as in `evidence`, and how fast phases get longer.
    `loss`: what wrong answers may cost, in units of what one more nat of evidence costs.
    """

    name: ClassVar[str] = "evidence-regret"
    tempers: ClassVar[Mapping[int, tuple[float, float, float, float]]] = REGRET_TEMPERS
    plays_open: ClassVar[bool] = True
    rounds: int | None = 7
    loss: float = 4.0

    def __post_init__(self) -> None:
        Playing.__post_init__(self)
        EvidenceRacing.__post_init__(self)
        if not (math.isfinite(self.loss) and self.loss > 0):
            raise InvalidInput("policy.loss", found=self.loss, allowed="a finite number above 0")

    @property
    def guarantee(self) -> str:
        return "the expected regret of wrong answers is bounded, whatever the gaps are"

    @property
    def line(self) -> float:
        """Only sizes the first phase, for any horizon alike; every arm of every phase has its own, see `_at_line`."""
        return FIRST_LINE

    @property
    def _longer(self) -> float:
        horizon = self.problem.horizon
        return max(math.log(horizon) / math.log(USUAL_HORIZON), 1.0) if isinstance(horizon, int) else 1.0

    def start(self, batch: tuple[int, ...] = ()) -> Lined:
        blank = super().start(batch)
        kept = {field.name: getattr(blank, field.name) for field in fields(blank)}
        return Lined(**kept, line=np.zeros((*batch, *self.problem.shape)))

    @once
    def _first_phase(self) -> IntArray:
        """As in `evidence`, within a share of the horizon."""
        usual = super()._first_phase
        most = FIRST_SHARE * self.horizon(np.zeros(self.problem.shape, dtype=np.int64))
        fits = np.minimum(most / np.maximum(usual.sum(axis=0), 1), 1.0)
        return np.where(usual > 0, np.maximum(np.floor(usual * fits), 1), 0).astype(np.int64)

    def _explored(self, state: State) -> tuple[IntArray, IntArray]:
        assert isinstance(state, Lined)
        explored = np.where((state.phase == 0)[..., None, None], self._first_phase, 0)
        length = np.where(state.phase == 0, explored.sum(axis=-2).max(axis=-1), self.remaining(state.counts).max(-1))
        racing = (state.phase > 0) & ~state.finished & ~self._decided(state)
        if racing.any():
            batch = state.take(racing)  # also a single study becomes a batch of one
            contrasts, costs = self.contrasts(batch), draw_costs(self.problem, batch)
            line = planned_line(contrasts, self._stakes_of_error(batch), self._temper, LEAST_LINE)
            plan = replace(contrasts, missing=np.maximum(line - contrasts.wealth, LEAST_MISSING))
            explored[racing], length[racing] = exploration(
                self.problem, plan, batch.totals, costs, self._temper, TIME_GROWTH[self._rounds]
            )
        return explored, length

    def contrasts(self, state: Wealth) -> Contrasts:
        """As in `evidence`; but an arm races on until it is out, whatever line it has passed before."""
        usual = super().contrasts(state)
        undecided = state.active.sum(axis=-2, keepdims=True) > 1
        live = np.broadcast_to((state.active & undecided)[..., None, :, :], usual.live.shape)
        return replace(usual, live=live, losing=live & ~self.leaders(state)[..., None, :, :])

    def _stakes_of_error(self, state: State) -> FloatArray:
        """`(...)`: (T - t) sqrt(2 log T) / eps, by which sqrt(V) is multiplied under the line."""
        problem = self.problem
        logs = np.log(np.maximum(self.horizon(state.counts), 3))
        variance = float(np.max(problem.noise.first_variance))
        largest = LARGEST_LOSS * problem.arm_count * variance / problem.largest_gap
        spent = draw_costs(problem, state).spent
        eps = np.clip(self.loss * spent / (problem.agent_count * logs), 1e-9 * largest, largest)
        return np.asarray(self.remaining(state.counts).max(axis=-1) * np.sqrt(2 * logs) / eps)

    def _at_line(self, state: Wealth, contrasts: Contrasts, v: FloatArray) -> tuple[Contrasts, FloatArray | None]:
        weight = np.maximum(self._stakes_of_error(state), 1e-300)[..., None, None, None]
        line = np.maximum(np.log(weight * np.sqrt(v)), LEAST_LINE)
        return replace(contrasts, missing=np.maximum(line - contrasts.wealth, 1e-3)), line

    def _paid(
        self,
        contrasts: Contrasts,
        y: FloatArray,
        v: FloatArray,
        betting: BoolArray,
        past: Totals,
        fresh: Totals,
        line: FloatArray | None = None,
    ) -> FloatArray:
        paid = super()._paid(contrasts, y, v, betting, past, fresh, line)
        assert line is not None
        # Only a phase that itself speaks against the arm may rule it out: the second case of the proof.
        return np.where(betting & (y > 0), paid, np.minimum(paid, line - 1e-9))

    def _remembered(self, state: Wealth, line: FloatArray | None, racing: BoolArray) -> dict[str, Any]:
        assert isinstance(state, Lined)
        assert line is not None
        return {"line": np.where(racing, line, state.line[..., None, :, :]).min(axis=-3)}

    def _keep(self, before: State, after: State) -> BoolArray:  # noqa: ARG002
        """Arms on their line go; but not together with the leader that they lost to: somebody who beat them stays."""
        assert isinstance(before, Lined)
        undecided = before.active.sum(axis=-2, keepdims=True) > 1
        out = before.active & undecided & (before.phase > 0)[..., None, None]
        out &= before.log_wealth.min(axis=-3) >= before.line
        fallen = (out & self.leaders(before)).any(axis=-2, keepdims=True)
        return np.asarray(before.active & ~(out & (self.leaders(before) | ~fallen)))

    def _decide(self, before: State, after: State) -> State:
        """When an open horizon has moved on, more is at stake: arms come back and race on from the wealth they had."""
        decided = super()._decide(before, after)
        longer = (self.horizon(decided.counts) > self.horizon(before.counts))[..., None, None]
        return replace(
            decided, active=decided.active | longer, eliminated_in=np.where(longer, 0, decided.eliminated_in)
        )

    def explain(self, state: State) -> Explanation:
        assert isinstance(state, Lined)
        usual = super().explain(state)
        wealth, line = state.log_wealth.min(axis=-3), np.maximum(state.line, LEAST_LINE)
        return replace(
            usual,
            score=np.minimum(wealth / line, 1.0),
            line=1.0,
            words="log evidence against the arm as a share of its line, which is what a wrong answer would cost; "
            "bars are two standard errors",
        )
