"""What a study would cost, and what is likely left of one. Nothing is decided by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parley.coordinator.answers.base import Answer

__all__ = ["Estimated", "OutlookTold"]


@dataclass(frozen=True, kw_only=True)
class Estimated(Answer):
    """What a study would cost; without scenarios where simulating would take too long, and then the reason."""

    study: str
    policy: str
    guarantee: str
    first_phase: int  # samples
    scenarios: list[dict[str, Any]]  # gap, samples, rounds, per_agent, error_rate, studies, unfinished, alone
    reason: str


@dataclass(frozen=True, kw_only=True)
class OutlookTold(Answer):
    """What is likely left. `state`: none (before the first decision), computing (ask again) or ready."""

    study: str
    state: str
    reason: str = ""
    after_phase: int | None = None
    drawn: int | None = None
    bound: float | None = None  # what no policy could do without, were the estimated means the true ones
    bound_by_arm: list[float] | None = None
    bound_draws: list[list[float]] | None = None  # [arm][agent]
    total: dict[str, float] | None = None  # samples at the end: p10, p50, p90
    money: dict[str, float] | None = None  # with prices: spent, and at the end p10, p50, p90
    days_left: dict[str, float] | None = None  # with rates: p10, p50, p90
    regret_left: dict[str, float] | None = None  # with a horizon: what draws to come are likely to cost
    rounds: dict[str, float] | None = None
    total_per_agent: list[float] | None = None
    continuations: int | None = None  # simulated
    unfinished: int | None = None  # of them stopped by a cap
