"""The wealth of evidence racing: the state between phases, the contrasts before a phase, and the payoffs of its bets.

If N is at least 2, a slot represents sets of arms. The candidates have an *order*, with the N leaders first. A set bets
that its *best outsider* j beats its *worst member* k, and shares the slot (k, j) with all sets that have the same j and
k; the set of the leaders has a slot of its own. A slot's wealth is a lower bound on the wealth of all its sets. When
leaders change, new leaders come last among the leaders and former leaders first among all other arms. A slot then
starts with the least wealth that any of its sets had in the set's former slot: with more, some set would own wealth
that its bets did not win. docs/evidence-racing.md has the algorithm and the proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from parley.policies.base import State
from parley.policies.evidence.closing import kept
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.rewards import Bets
from parley.totals import Totals

LOWEST = -1e100  # stands for the estimate of an arm that is closed or new
WORK = 500_000  # array elements processed at a time
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, kw_only=True, eq=False)
class Wealth(State):
    """The state of evidence racing: the fields of every policy's state, and the evidence so far."""

    log_wealth: FloatArray  # (..., opponent, arm, agent)
    opponents: IntArray  # (..., opponent, arm, agent): of the last phase's bets, ascending; -1 before the first bets
    signal: FloatArray  # (..., arm, agent): sum over phases of smallest contrast / largest variance, for the gap bound
    information: FloatArray  # (..., arm, agent): sum over phases of 1 / largest variance
    gap_at_least: FloatArray  # (..., arm, agent): the best bound on the gap so far, at least 0
    ranks: IntArray | None = None  # (..., arm, agent): the last phase's order, -1 for arms that were out; None if N = 1
    log_shares: FloatArray | None = None  # (..., arm, agent): in joint answers; None for other answers


@dataclass(frozen=True, kw_only=True)
class Contrasts:
    """Estimates and wealth of contrasts before a phase, all `(..., opponent, arm, agent)`."""

    opponents: IntArray
    gap: FloatArray  # estimated from all data so far: opponent minus arm
    error: FloatArray  # standard error of the gap
    wealth: FloatArray  # log wealth, carried over from the last phase
    missing: FloatArray  # log wealth still needed
    live: BoolArray  # whether a bet is placed
    losing: BoolArray  # live, and the arm does not lead, so that the plan draws to rule it out
    ranks: IntArray | None = None  # (..., arm, agent): the order that assigns sets to slots, if N > 1
    lines: FloatArray | None = None  # (..., 1, arm, agent): what bets aim at, if slots have lines of their own
    horizon: FloatArray | None = None  # with a tolerance, V at which the question closes; NaN to bet on the gap
    log_shares: FloatArray | None = None  # (..., row, arm, agent): log shares of pairs, if shares move
    least: FloatArray | None = None  # (..., row, arm, agent): the part of its wealth that a pair keeps if it loses
    closes: BoolArray | None = None  # whether this is the pair's last look, in which it stakes nearly all it has

    def take(self, chosen: IntArray) -> Self:
        """Select some of the replications in a batch."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value[chosen] for name, value in kept.items() if value is not None})


def against(values: FloatArray, opponents: IntArray) -> FloatArray:
    """`(..., opponent, arm, agent)`: the value of every opponent minus the value of the arm."""
    own = values[..., None, :, :]
    return np.asarray(np.take_along_axis(own, opponents, axis=-2) - own)


def both(values: FloatArray, opponents: IntArray) -> FloatArray:
    """`(..., opponent, arm, agent)`: the value of every opponent plus the value of the arm."""
    own = values[..., None, :, :]
    return np.asarray(np.take_along_axis(own, opponents, axis=-2) + own)


@dataclass(frozen=True, kw_only=True, eq=False)
class Phase:
    """A phase with its draws. Stakes may depend on every field except `means` and the sums of `fresh`."""

    past: Totals
    fresh: Totals
    counts: IntArray  # (..., arm, agent): fresh draws where bets are placed, else 0
    means: FloatArray  # (..., arm, agent): mixed means of the fresh draws
    variances: FloatArray  # (..., arm, agent): variances of mixed means, from the counts and the past
    seen: BoolArray  # (..., 1, arm, agent): whether all cells of the mixed mean were drawn
    last: BoolArray  # (...): whether no phase follows

    def contrasts(self, opponents: IntArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """`(..., opponent, arm, agent)` each: contrasts Y, their variances V, and whether both sides were drawn."""
        drawn = self.seen & np.take_along_axis(self.seen, opponents, axis=-2)
        return against(self.means, opponents), both(self.variances, opponents), drawn


def carried(state: Wealth, rank: IntArray, opponents: IntArray, line: float) -> tuple[FloatArray, IntArray | None]:
    """The slots' log wealth before a phase `(..., slot, arm, agent)`, and the order of arms `(..., arm, agent)`.

    `rank` orders arms by estimate. The wealth of slots that represent no set is set to the line. With N = 1 the order
    is None: each arm is its own set and has a single slot, which keeps its wealth whichever arm the opponent is.
    """
    if state.ranks is None:
        return state.log_wealth, None
    top = state.log_wealth.shape[-3]
    old, new, active = _rows(state.ranks), _rows(rank), _rows(state.active)
    wealth, before, now = _rows(state.log_wealth, 3), _rows(state.opponents, 3), _rows(opponents, 3)
    known, arms = (old >= 0).any(axis=-1, keepdims=True), old.shape[-1]
    led, leads = (old >= 0) & (old < top), active & (new < top)
    # Leaders that stay come first, then new leaders, then former leaders, then all other arms in their old order.
    stays, comes, goes, rest = old, arms + new, 2 * arms + new, 3 * arms + old
    key = np.where(leads, np.where(led, stays, comes), np.where(led, goes, rest))
    order = _ranked(np.where(active, np.where(known, key, new), 4 * arms))
    leaders = led | ~known
    own = np.where(leaders[:, None], wealth, np.inf).min(axis=(-2, -1))
    betting = ((state.phase > 0) & ~state.finished)[..., None] & (state.active.sum(axis=-2) > top)
    racing = betting.reshape(-1, 1)
    moved = np.flatnonzero(racing & known & (led != leads).any(axis=-1, keepdims=True))
    for some in _parts(moved, arms**2):
        table = _by_rank(wealth[some], before[some], old[some])
        slots, own[some] = _inherited(old[some], order[some], table, own[some], line)
        at = np.take_along_axis(order[some][:, None], now[some], axis=-1)
        mine = np.take_along_axis(slots, np.broadcast_to(order[some][:, None], slots.shape), axis=-1)
        wealth[some] = np.take_along_axis(mine, np.minimum(at, top - 1), axis=1)
    # The leaders' own set bets that the best loser beats the worst leader. All other slots of leaders represent no set.
    hat = (new == top - 1)[:, None] & (np.take_along_axis(new[:, None], now, axis=-1) == top)
    of_leaders = np.where(hat, own[:, None, None], line)
    wealth = np.where(leads[:, None], of_leaders, wealth)
    ranks = np.where(racing, np.where(active, order, -1), old)
    return _back(wealth, state.log_wealth.shape), _back(ranks, state.ranks.shape)


def paid(
    problem: Problem,
    phase: Phase,
    contrasts: Contrasts,
    betting: BoolArray,
    line: float,
    late: FloatArray | float = 1.0,
) -> FloatArray:
    """The slots' log wealth after the payoffs; stakes depend only on the past and the counts of the phase.

    A payoff that reaches its cap raises the slot's wealth to the `line`, or to the slot's own line. In the last phase
    of a budget every bet stakes all it has, if the reward model has an exact test for that: no later phase needs the
    wealth. In a last look after which the study may go on, a pair keeps a small part. `late` is as in `Bets`.
    """
    y, v, _ = phase.contrasts(contrasts.opponents)
    shift = problem.tolerance
    wealth = contrasts.wealth.copy()
    *replication, _, arm, agent = np.nonzero(betting)
    missing = contrasts.missing[betting]
    model = problem.noise
    bets = Bets(
        estimate=contrasts.gap[betting],
        error=contrasts.error[betting],
        missing=missing,
        contrast=y[betting] + shift if shift else y[betting],
        shift=shift,
        variance=v[betting],
        replication=tuple(replication),
        opponent=contrasts.opponents[betting],
        arm=arm,
        agent=agent,
        weights=problem.weights,
        past=phase.past,
        fresh=phase.fresh,
        horizon=None if contrasts.horizon is None else contrasts.horizon[betting],
        level=None if contrasts.log_shares is None else contrasts.log_shares[betting] - line,
        late=np.broadcast_to(late, betting.shape)[betting],
        least=None if contrasts.least is None else contrasts.least[betting],
    )
    won = model.payoff(bets)
    over = np.broadcast_to(phase.last[tuple(replication)], missing.shape)
    final = over if contrasts.closes is None else over | contrasts.closes[betting]
    if final.any():
        all_in = model.final_payoff(replace(bets, kept=np.where(over, 0.0, kept(problem))))
        won = won if all_in is None else np.where(final, all_in, won)
    reached = (won >= missing) & model.boosted
    # The wealth is set to the goal, since a sum could miss the line by rounding.
    goal = line if contrasts.lines is None else np.broadcast_to(contrasts.lines, wealth.shape)[betting]
    wealth[betting] = np.where(reached, goal, wealth[betting] + won)
    return wealth


def scores(state: Wealth) -> FloatArray:
    """`(..., arm, agent)`: the least wealth of any set with the arm or, once the arm is ruled out, of its slots."""
    least = np.asarray(state.log_wealth.min(axis=-3))
    if state.ranks is None:
        return least
    top, arms = state.log_wealth.shape[-3:-1]
    wealth, order, mine = _rows(state.log_wealth, 3), _rows(state.ranks), _rows(least)
    racing = order >= 0
    own = np.where(racing & (order < top), mine, np.inf).min(axis=-1, keepdims=True)
    table = _by_rank(wealth, _rows(state.opponents, 3), order)
    beyond = np.minimum.accumulate(table[..., ::-1], axis=-1)[..., ::-1]  # the least from this rank on
    beyond = np.concatenate([beyond[..., 1:], np.full((*table.shape[:2], 1), np.inf)], axis=-1)
    place, outsider = np.arange(arms), np.arange(top)[:, None]
    holds = (outsider > place) | ((outsider < place) & (outsider < top - 1))
    others = np.where(holds, beyond, np.inf).min(axis=1)
    rest = np.where(place < top, own, np.inf)
    others = np.take_along_axis(np.minimum(others, rest), np.maximum(order, 0), axis=-1)
    return _back(np.where(racing, np.where(order < top, others, np.minimum(mine, others)), mine), state.ranks.shape)


def slot_of(
    ranks: IntArray, opponents: IntArray, log_wealth: FloatArray, members: IntArray
) -> tuple[IntArray, IntArray]:
    """`(run,)` each: the slot and the arm that hold the wealth of the set `members` of candidates.

    `ranks` are `(run, arm)`, `opponents` and `log_wealth` are `(run, slot, arm)`. All slots of leaders stay on the
    line, except the slot of the leaders' own set.
    """
    rows, top, arms = log_wealth.shape
    row, rivals = np.arange(rows), ranks >= 0
    rivals[:, members] = False
    last = members[np.argmax(ranks[:, members], axis=-1)]
    first = np.argmin(np.where(rivals, ranks, arms), axis=-1)
    slot = np.argmax(opponents[row, :, last] == first[:, None], axis=-1)
    leaders = ((ranks >= 0) & (ranks < top))[:, None]
    own = np.argmin(np.where(leaders, log_wealth, np.inf).reshape(rows, -1), axis=-1)
    leading = ranks[row, last] < top
    return np.where(leading, own // arms, slot), np.where(leading, own % arms, last)


def _inherited(
    old: IntArray, new: IntArray, table: FloatArray, own: FloatArray, line: float
) -> tuple[FloatArray, FloatArray]:
    """Find the least former wealth of any set of each slot, and the former wealth of the new leaders' set.

    The first result is by new ranks, `(row, outsider, member)`; the second is `(row,)`.

    A set of the slot (r, b) contains all arms ranked before r, not r itself, b as its last arm, and N - 1 - r *free*
    arms in between. Such a set was in the slot (o, i) if its last member formerly had rank i and its first outsider
    had rank o; so the set contains i and all arms that were ranked before o. Counting tells whether such a set exists.
    """
    rows, arms = old.shape
    top = table.shape[1]
    row, every = np.arange(rows)[:, None], np.arange(arms)
    was = np.full((rows, arms), arms)  # the old rank of the arm at a new rank; arms ruled out earlier have none
    was[row, new] = np.where(old >= 0, old, arms)
    now = np.full((rows, arms + 1), 2 * arms)  # the new rank of the arm at an old rank
    now[row, was] = every
    now = now[:, :arms]
    live, own = np.where(table >= line, np.inf, table), np.where(own >= line, np.inf, own)
    below = np.zeros((rows, arms + 1, arms), dtype=np.int64)  # [b, i]: how many arms ranked before b now were before i
    below[:, 1:] = np.cumsum(was[..., None] < every, axis=1)
    tail = np.full((rows, arms), arms)  # the smallest old rank of the arms after b
    tail[:, :-1] = np.minimum.accumulate(was[:, :0:-1], axis=-1)[:, ::-1]
    least = np.full((rows, top, arms), np.inf)
    for r in range(top):
        free = top - 1 - r
        last = np.maximum(was[:, :r].max(axis=-1, initial=-1)[:, None], was)
        first = np.minimum(was[:, r : r + 1], tail)
        inside = below[:, :arms] - below[:, r + 1 : r + 2]
        place, end = now[:, None, :], every[:, None]
        chosen = (place > r) & (place < end)
        member = (place <= end) & (place != r) & (last[..., None] <= every)
        for o in range(top):
            at = now[:, o : o + 1]
            between = (at > r) & (at < every)
            outsider = (at >= r) & (at != every) & (first >= o)
            forced = inside[..., o : o + 1] + chosen
            most = inside - inside[..., o : o + 1] - between[..., None] + forced
            there = member & outsider[..., None] & (forced <= free) & (most >= free)
            least[:, r] = np.minimum(least[:, r], np.where(there, live[:, o, None, :], np.inf).min(axis=-1))
        led = (last < top) & (first >= top)  # the set of the former leaders
        least[:, r] = np.minimum(least[:, r], np.where(led, own[:, None], np.inf))
    last, first = was[:, :top].max(axis=-1), was[:, top:].min(axis=-1)
    leading = np.where(last < top, own, live[row[:, 0], np.minimum(first, top - 1), last])
    return np.minimum(least, line), np.minimum(leading, line)


def _by_rank(wealth: FloatArray, opponents: IntArray, order: IntArray) -> FloatArray:
    """Rearrange wealth `(row, slot, arm)` by rank: `(row, outsider, member)`, inf where there is no set."""
    rows, top, arms = wealth.shape
    at = np.take_along_axis(order[:, None], np.maximum(opponents, 0), axis=-1)
    sorted_ = np.take_along_axis(wealth, np.argsort(at, axis=1, kind="stable"), axis=1)
    table = np.full((rows, top, arms + 1), np.inf)
    place = np.where(order >= top, order, arms)
    np.put_along_axis(table, np.broadcast_to(place[:, None], wealth.shape), sorted_, axis=-1)
    return table[..., :arms]


def _ranked(keys: IntArray) -> IntArray:
    return np.argsort(np.argsort(keys, axis=-1, kind="stable"), axis=-1, kind="stable")


def _rows(values: NDArray[Scalar], axes: int = 2) -> NDArray[Scalar]:
    """Reshape `(..., arm, agent)` to `(row, arm)`; with `axes` 3, `(..., slot, arm, agent)` to `(row, slot, arm)`."""
    moved = np.moveaxis(values, -1, -axes)
    return moved.reshape(-1, *moved.shape[1 - axes :]).copy()


def _back(rows: NDArray[Scalar], shape: tuple[int, ...]) -> NDArray[Scalar]:
    """Reshape rows to `shape`, as the inverse of `_rows`."""
    axes = rows.ndim
    return np.moveaxis(rows.reshape(*shape[:-axes], shape[-1], *shape[-axes:-1]), -axes, -1)


def _parts(places: IntArray, each: int) -> Iterator[IntArray]:
    size = max(WORK // each, 1)
    return (places[first : first + size] for first in range(0, len(places), size))
