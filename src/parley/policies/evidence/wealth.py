"""What evidence racing remembers between phases, and what the past fixes before one."""

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from scipy.special import logit, ndtr

from parley.policies.base import State
from parley.problem import BoolArray, FloatArray, IntArray

STEEPNESS = 0.7  # of the shares: 0 is the union over agents; more bets on the first phase's leaders being right
LOWEST = -1e100  # stands for the estimate of an arm that is none, or of which nothing is known
LEAST_CHANCE = 1e-3  # that an arm is taken for a loser, or for none: no first phase is surer than that


@dataclass(frozen=True, kw_only=True, eq=False)
class Wealth(State):
    """A state with the evidence so far; `opponents` is -1 before the first bets."""

    log_wealth: FloatArray  # (..., opponent, arm, agent)
    opponents: IntArray  # (..., opponent, arm, agent): arms of the last phase's bets, ascending
    signal: FloatArray  # (..., arm, agent): sum of smallest contrast / largest variance, for the bound on the gap
    information: FloatArray  # (..., arm, agent): sum of 1 / largest variance
    gap_at_least: FloatArray  # (..., arm, agent): the best such bound so far, at least 0
    ranks: IntArray | None = None  # (..., arm, agent): the last phase's order (see `sets`); -1 for who was out
    log_shares: FloatArray | None = None  # (..., arm, agent): of arms in a joint answer, where all answer together


@dataclass(frozen=True, kw_only=True)
class Contrasts:
    """What the past says before a phase, all `(..., opponent, arm, agent)`."""

    opponents: IntArray
    gap: FloatArray  # estimated from all data so far: opponent minus arm
    error: FloatArray  # its standard error
    wealth: FloatArray  # log, carried over from the last phase
    missing: FloatArray  # log wealth still needed
    live: BoolArray  # bets are placed
    losing: BoolArray  # live, and the arm looks like a loser: worth drawing for
    ranks: IntArray | None = None  # (..., arm, agent): the order by which slots speak for sets, where they do
    lines: FloatArray | None = None  # (..., 1, arm, agent): what bets aim at, where slots have lines of their own

    def take(self, chosen: IntArray) -> Self:
        """Some replications of a batch."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value[chosen] for name, value in kept.items() if value is not None})


def against(values: FloatArray, opponents: IntArray) -> FloatArray:
    """Opponent minus arm, `(..., opponent, arm, agent)`."""
    own = values[..., None, :, :]
    return np.asarray(np.take_along_axis(own, opponents, axis=-2) - own)


def both(values: FloatArray, opponents: IntArray) -> FloatArray:
    """Opponent plus arm, `(..., opponent, arm, agent)`."""
    own = values[..., None, :, :]
    return np.asarray(np.take_along_axis(own, opponents, axis=-2) + own)


def chance_of_losing(mixed: FloatArray, variances: FloatArray, top: int) -> FloatArray:
    """`(..., arm, agent)`: about the chance that an arm is not among the `top` best, by estimates and their variances.

    An arm inside is compared with the best one outside, an arm outside with the last one inside.

    >>> chance_of_losing(np.array([[0.5], [0.4], [0.0]]), np.full((3, 1), 0.01), 1).round(2).ravel().tolist()
    [0.24, 0.76, 1.0]
    """
    order = np.argsort(-mixed, axis=-2, kind="stable")
    inside = np.argsort(order, axis=-2, kind="stable") < top
    rival = np.where(inside, order[..., top : top + 1, :], order[..., top - 1 : top, :])
    error = np.sqrt(variances + np.take_along_axis(variances, rival, axis=-2))
    return np.asarray(ndtr((np.take_along_axis(mixed, rival, axis=-2) - mixed) / error))


def log_shares(mixed: FloatArray, variances: FloatArray, top: int, new: BoolArray | bool = False) -> FloatArray:
    """`(..., arm, agent)`: the log share of every arm in a joint answer, up to a common factor; by the first phase.

    A joint answer that is wrong is wrong where it looks wrong, most likely: there it should bet. Of a `new` arm the
    first phase says nothing: each of them, and the best of the others, is as likely to win.

    >>> log_shares(np.array([[0.5], [0.4], [0.0]]), np.full((3, 1), 0.01), 1).round(2).ravel().tolist()
    [-0.81, 0.81, 4.83]
    """
    rivals = 1 + np.sum(new, axis=-2, keepdims=True) if np.any(new) else 1
    loses = 1 - np.where(new, 1.0, 1 - chance_of_losing(mixed, variances, top)) / rivals
    loses = np.clip(loses, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return np.asarray(STEEPNESS * logit(loses))
