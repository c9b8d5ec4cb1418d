"""Adjust an agent's rewards for a covariate, between its source and its report.

The slope theta of a phase, and the covariate's value x0 at which the adjustment is 0, are estimated from earlier phases
and stored in the outbox before the source draws the phase. So no outcome of the phase can affect them. After a crash,
both are read from the outbox, so the same report is sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from parley.agent.outbox import Outbox
from parley.agent.plans import AgentPlan, Delivery
from parley.agent.sources import Source
from parley.covariates import Covariate, Pairs, Slopes, adjusted_rewards, checked_x, fixed_for, left_after
from parley.errors import InvalidInput
from parley.protocol.messages import BetweenTotals
from parley.totals import Totals

KEPT = [field.name for field in fields(Pairs) if field.name not in ("totals", "between")]


class AdjustedSource:
    """A source that adjusts the rewards of another source for a covariate.

    `warn` gets a message if the covariate does not vary within any arm, since rewards are then not adjusted for it.
    """

    def __init__(
        self, source: Source, rule: Covariate, memory: Outbox, warn: Callable[[str], None] = lambda _: None
    ) -> None:
        self.repeatable = source.repeatable
        self._source, self._rule, self._memory, self._warn = source, rule, memory, warn

    def __call__(self, plan: AgentPlan) -> Delivery:
        fixed = self._memory.fixed_slope(plan.phase, lambda: self._fixed(plan.phase))
        theta, x0 = fixed["theta"], fixed["x0"]
        drawn = self._source(plan)
        if not isinstance(drawn, Delivery) or not (drawn.covariates or drawn.pairs):
            raise InvalidInput(
                "source",
                found="rewards alone",
                allowed=f"rewards with {self._rule.name}, the study's covariate",
            )
        if drawn.pairs is not None:
            pairs, missing = drawn.pairs, 0
            given = replace(drawn, totals=_adjusted(pairs, fixed), pairs=None)
            if pairs.between is not None and drawn.between is not None:
                # People assigned in advance came during the previous phase. They are adjusted with that phase's theta
                # and x0, which were fixed before their first outcome.
                then = self._memory.fixed_slope(plan.phase - 1, lambda: self._fixed(plan.phase - 1))
                early = BetweenTotals.of(_adjusted(pairs.between, then), outcomes=drawn.between.outcomes)
                given = replace(given, between=early)
        else:
            xs = clipped(self._rule, drawn.covariates)
            pairs, missing = Pairs.of(drawn.rewards, xs).column, sum(x is None for own in xs for x in own)
            rewards = adjusted_rewards(drawn.rewards, xs, theta, x0)
            given = replace(drawn, totals=Totals.of(rewards), rewards=rewards, covariates=())
        self._note_constant(plan.phase, pairs)
        self._memory.keep_pairs(plan.phase, _kept(pairs))
        left = left_after(self._rule, self._earlier(plan.phase), pairs[:, 0], theta)
        return replace(given, theta=theta, x0=x0, left=left, missing_x=missing)

    def _fixed(self, phase: int) -> dict[str, float | None]:
        theta, x0 = fixed_for(self._rule, self._earlier(phase))
        return {"theta": theta, "x0": x0}

    def _earlier(self, phase: int) -> list[Pairs]:
        return [_read(found) for found in self._memory.pairs_before(phase)]

    def _note_constant(self, phase: int, pairs: Pairs) -> None:
        slopes = Slopes.none((1,))
        for earlier in self._earlier(phase):
            slopes = slopes.added(earlier.column)
        if slopes.added(pairs).constant[0]:
            self._warn(
                f"{self._rule.name} has been the same for everybody in an arm so far: rewards are not adjusted for it"
            )


def _adjusted(pairs: Pairs, fixed: dict[str, float | None]) -> Totals:
    theta, x0 = fixed["theta"], fixed["x0"]
    return pairs.adjusted(np.array([theta]), np.array([np.nan if x0 is None else x0]))[:, 0]


def _kept(pairs: Pairs) -> dict[str, Any]:
    """Convert sums to the JSON that the outbox stores; `between` has the sums of people assigned in advance."""
    early = {} if pairs.between is None else {"between": _kept(pairs.between)}
    return {name: getattr(pairs, name)[:, 0].tolist() for name in KEPT} | early


def _read(found: dict[str, Any]) -> Pairs:
    """Restore sums from the outbox's JSON. Their `totals` are 0, since the slope is estimated without totals."""
    arrays: dict[str, Any] = {
        name: np.array(found[name], dtype=np.int64 if name == "known" else np.float64) for name in KEPT
    }
    early = _read(found["between"]) if "between" in found else None
    return Pairs(totals=Totals.zero(arrays["known"].shape), between=early, **arrays)


def clipped(rule: Covariate, xs: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Check covariate values and clip them to the covariate's range; None stays None."""
    return [[None if x is None else rule.clipped(checked_x(rule.name, x)) for x in own] for own in xs]
