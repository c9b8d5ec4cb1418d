"""The options of evidence racing, and what they come to."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from parley.errors import InvalidInput
from parley.once import once
from parley.policies.elimination import Elimination
from parley.policies.evidence_plan import TEMPERS, Temper
from parley.policies.evidence_rounds import affordable_rounds

__all__ = ["Tempered"]


@dataclass(frozen=True, kw_only=True)
class Tempered(Elimination):
    """No option can break the guarantee; they trade samples for rounds.

    `rounds`: about how many rounds you can afford, 3 to 8; sets the four options after it. Unless told it follows from
    what a round costs in days (`round_days`), and is 5 where that is not known.
    `precision`: standard error of every mixed mean after the first phase, as a share of `largest_gap`.
    `growth`: a phase multiplies the samples spent so far by at most this. `smallest_growth`: and by at least this.
    `optimism`: plan as if gaps were larger than they look by this many standard errors (added in squares).
    `caution`: what a further round is worth; more of it makes phases larger and rounds fewer.
    `gap_scale`: a gap you expect, as a share of `largest_gap`; tunes the bounds on gaps, never the answer.
    """

    tempers: ClassVar[Mapping[int, tuple[float, float, float, float]]] = TEMPERS
    rounds: int | None = None
    precision: float | None = None
    growth: float | None = None
    optimism: float | None = None
    caution: float | None = None
    smallest_growth: float = 1.03
    gap_scale: float = 0.2

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds not in self.tempers:
            allowed = f"a whole number from {min(self.tempers)} to {max(self.tempers)}"
            raise InvalidInput("policy.rounds", found=self.rounds, allowed=allowed)
        for key in ("precision", "optimism", "caution", "gap_scale"):
            value = getattr(self, key)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InvalidInput(f"policy.{key}", found=value, allowed="a finite number above 0")
        if not 1 < self.smallest_growth <= self._temper.growth < math.inf:
            found = f"smallest_growth {self.smallest_growth:g}, growth {self._temper.growth:g}"
            raise InvalidInput("policy.growth", found=found, allowed="1 < smallest_growth <= growth, finite")

    @once
    def _rounds(self) -> int:
        return self.rounds or affordable_rounds(self.problem, self.line, self.gap_scale)

    @once
    def _temper(self) -> Temper:
        given = (self.precision, self.growth, self.optimism, self.caution)
        precision, growth, optimism, caution = (
            usual if own is None else own for own, usual in zip(given, self.tempers[self._rounds], strict=True)
        )
        return Temper(
            precision=precision,
            growth=growth,
            smallest_growth=self.smallest_growth,
            optimism=optimism * self._longer * (self.problem.noise.optimism if self.optimism is None else 1.0),
            caution=caution * (self.problem.noise.caution if self.caution is None else 1.0),
        )

    @property
    def _longer(self) -> float:
        """Long studies can learn longer: what optimism is multiplied by."""
        return float(max(math.log(1 / self.problem.delta) / math.log(10), 1.0) ** 0.1)

    @property
    @abstractmethod
    def line(self) -> float:
        """What the evidence against an arm must reach."""
