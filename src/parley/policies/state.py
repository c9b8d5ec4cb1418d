"""What must survive between the phases of a policy, and what only explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from parley.errors import InvalidInput
from parley.problem import BoolArray, FloatArray, IntArray
from parley.totals import Totals

__all__ = ["Explanation", "State"]

DTYPES: dict[str, type[np.generic]] = {
    "IntArray": np.int64,
    "FloatArray": np.float64,
    "BoolArray": np.bool_,
    "FloatArray | None": np.float64,
    "IntArray | None": np.int64,
    "BoolArray | None": np.bool_,
}


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
    eliminated_in: IntArray  # (..., arm, agent): the phase that ruled it out (from 1), 0 while active
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

    def take(self, chosen: IntArray | BoolArray) -> Self:
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
        types = {field.name: cast(str, field.type) for field in fields(cls)}
        optional = {name for name, kind in types.items() if kind.endswith("None")}
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
    radius: FloatArray  # (..., arm, agent): half-width to draw around the mixed mean
    score: FloatArray  # (..., arm, agent): how far the case against the arm has come; out at `line`
    line: float
    words: str  # what the score is, in a sentence
