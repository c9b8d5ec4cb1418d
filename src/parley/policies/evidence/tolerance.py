"""Tolerance: an agent answers with N arms once no other arm can be better than any of them by more than the tolerance.

Every ordered pair (l, j) of an agent's arms has the wealth of bets on "j is not better than l by the tolerance or
more". The first phase divides the agent's error probability among the pairs. An agent answers with the set L when the
pairs (l, j) of all l in L and all j outside have reached the line M / delta, where M is the number of questions.

Why this is sound: an arm l of a bad answer is worse than some true top arm j outside it by more than the tolerance. The
bets of this pair (l, j) have expected payoffs of at most 1, so by Ville's inequality its wealth reaches the line with
probability at most delta / M times its initial wealth. All pairs of an arm outside the true top N and an arm inside
start with at most 1 in total, so each agent errs with probability at most delta / M. docs/tolerance.md has the proof,
and the proof for closed studies (`plan.is_closed`), in which shares move after the start.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from parley.policies.base import nth_largest
from parley.policies.evidence.closing import MOST_CONTENDERS, SURE_AT_LAST, Closing, manner, of_all
from parley.policies.evidence.closing import closing as closing_of
from parley.policies.evidence.plan import RESERVE, closing_quantile, ends_surely, is_closed, is_tight
from parley.policies.evidence.spread import Spread
from parley.policies.evidence.wealth import LOWEST, Contrasts, Phase, Wealth, against, both, paid
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.text.translation import Translatable

EVENLY = 0.1  # share of an agent's error probability that pairs divide equally, whatever the estimates are
SET_ASIDE = 0.2  # share of delta reserved for the finer steps of weights in doubt
MOST_ARMS = 128  # with more arms, only some may be answers, since the number of pairs is quadratic in the arms
ROWS, FREE = 32, 8  # rows (arms that may be answers) in that case, and how many of them stay free for late leaders
AHEAD = 0.5  # in tolerances: how far a leader whose pairs have reached the line may be below another arm's estimate
# In a tight budget, a test has spent only these powers of the share of all information, in the first phase and later.
# Pairs that are `Manner.near` to a tie within so many standard errors are near-ties, up to so many tolerances.
LATE_FIRST, LATE, IN_DOUBT, NEAR_IN_BUDGET = 1.5, 1.75, 1.2, 4.0
# `_possible` is 1/2 this many standard errors below the best estimate minus the tolerance, and falls this much faster
# than a normal distribution function.
SURELY, STEEPER = 1.65, 4.0
LEAST_CHANCE = 1e-4  # least probability that an arm is an answer, so that sums keep their precision
MOST_HELD = math.log(0.999)  # log of the largest part of its wealth that a pair does not stake
LEAST_SHARE = 1e-4  # smallest share with which a pair's bet is planned
# When shares move: the part of its wealth that a pair keeps, a divisor instead of 0, and a margin for rounding in logs.
KEEPS, TINY, MOVING = 1e-3, 1e-300, 1e-12
ROUNDING = 1e-9  # subtracted from the log of every share, so that rounding never makes shares sum to more than 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs(Wealth):
    """The state with a tolerance: adds the wealth of all ordered pairs; `log_wealth` holds only the leaders' pairs."""

    log_pairs: FloatArray  # (..., row, arm, agent): bets on "the arm does not beat the row's arm by the tolerance"
    rows: IntArray | None = None  # (..., row, agent): the arms that may be answers; None if all may
    shares: FloatArray | None = None  # (..., row, arm, agent): what a pair may give away; None if shares do not move


def log_stated(problem: Problem) -> float:
    """log M of the line M / delta, where M is the number of distinct questions.

    With weights in doubt, the finer weight steps are not counted. M is enlarged instead, to reserve a share of delta
    for all of them.
    """
    stated = problem.question_count - int(problem.finer.sum())
    return math.log(stated / (1 - SET_ASIDE) if problem.weight_refine else stated)


def log_parts(problem: Problem) -> FloatArray:
    """`(agent,)`: the log of the share of wealth that a question's pairs divide: 0, or less for a finer weight step.

    With the line M / delta, a question that divides the share p errs with probability at most p delta / M. Over all
    questions, whether a finer step is needed or not, this adds up to delta.
    """
    parts = np.zeros(problem.agent_count)
    if problem.weight_refine:
        parts[problem.finer] = log_stated(problem) + math.log(SET_ASIDE / problem.finer.sum())
    return parts


def no_pairs(problem: Problem, batch: tuple[int, ...]) -> dict[str, Any]:
    """The fields of `Pairs` before the first phase."""
    arms, agents = problem.shape
    if is_closed(problem):
        even = np.where(np.eye(arms, dtype=np.bool_), 1.0, 1 / (arms - 1))[..., None] * (1 - ROUNDING)
        even = even * np.exp(log_parts(problem))
        shares = np.broadcast_to(even, (*batch, arms, arms, agents)).copy()
        return {"log_pairs": np.log(shares), "shares": shares}
    if arms <= MOST_ARMS:
        return {"log_pairs": np.zeros((*batch, arms, arms, agents))}
    count = min(max(ROWS, 2 * problem.top + FREE), arms)
    rows = np.zeros((*batch, count, agents), dtype=np.int64)
    return {"log_pairs": np.zeros((*batch, count, arms, agents)), "rows": rows}


def moved(state: Pairs, wished: FloatArray, line: float, now: BoolArray, reserve: FloatArray | float = 0.0) -> Pairs:
    """The state with shares of the agents `now (..., agent)` moved towards `wished (..., row, arm, agent)`.

    A pair gives away at most its share and at most its wealth, never what it has won or its `reserve`. A pair that has
    reached the line stays there.
    """
    assert state.shares is not None
    # A pair's share and wealth change by the same amount, and the shares of all pairs (l, j) with the same j keep their
    # sum. So a transfer does not change the sum of wealth minus share over the pairs of a true best arm j, on which the
    # proof for closed studies rests (docs/tolerance.md). A pair that has reached the line no longer needs its share and
    # gives all of it away.
    shares, on = state.shares, state.log_pairs >= line
    wealth = np.exp(np.minimum(state.log_pairs, line))
    itself = np.eye(shares.shape[-2], dtype=np.bool_)[..., None]
    wished = np.where(itself, shares, np.where(on, 0.0, wished))
    most = np.minimum((1 - KEEPS) * wealth, np.maximum(wealth - reserve, 0.0))
    given = np.minimum(np.maximum(shares - wished, 0.0), np.where(on, shares, most))
    wants = np.maximum(wished - shares, 0.0)
    total = given.sum(axis=-3, keepdims=True)
    needed = wants.sum(axis=-3, keepdims=True)
    given = given * np.where(total > 0, np.minimum(needed / np.maximum(total, TINY), 1.0), 0.0)
    taken = wants * np.minimum(total / np.maximum(needed, TINY), 1.0)
    change = np.where(now[..., None, None, :], taken - given, 0.0)
    logs = np.where(change == 0, state.log_pairs, np.log(np.maximum(wealth + change, TINY)) - MOVING)
    return replace(state, shares=shares + change, log_pairs=np.where(on, state.log_pairs, np.minimum(logs, line)))


def _rows(problem: Problem, state: Pairs) -> IntArray:
    """`(..., row, agent)`: the arm l of each row, which holds the pairs (l, j)."""
    if state.rows is not None:
        return state.rows
    return np.broadcast_to(np.arange(problem.arm_count)[:, None], state.counts.shape)


def _estimates(problem: Problem, state: Pairs) -> FloatArray:
    """`(..., arm, agent)`: estimated mixed means, with LOWEST for closed arms."""
    mixed = problem.mixed(state.means)
    return np.where(closed(problem), LOWEST, mixed) if problem.dormant else mixed


def closed(problem: Problem) -> BoolArray:
    """`(arm, 1)`: whether an arm is dormant or withdrawn; no answer contains such an arm or is compared with it."""
    return np.isin(problem.arms, problem.dormant)[:, None]


def endowment(problem: Problem, mixed: FloatArray, variances: FloatArray, rows: IntArray) -> FloatArray:
    """`(..., row, arm, agent)`: log p[l, j]; p[l, j] is the initial wealth of the pair of a row's arm l and arm j.

    Most of the wealth goes to the pairs that matter by the estimates after the first phase: if N = 1, those whose l
    could be an answer; otherwise, those whose arms are both close to the edge of the top N. For every set T of N arms,
    the sum of p[l, j] over l outside T and j in T is at most 1, as the proof needs. For l = j the log is 0.

    >>> problem = Problem(arms=3, weights=[[1.0]])
    >>> rows, mixed = np.arange(3)[:, None], np.array([[0.5], [0.4], [0.0]])
    >>> p = np.exp(endowment(problem, mixed, np.full((3, 1), 0.01), rows))[..., 0]
    >>> p.round(3).tolist()
    [[1.0, 0.95, 0.658], [0.949, 1.0, 0.342], [0.051, 0.05, 1.0]]
    """
    arms, top = problem.arm_count, problem.top
    inside = _chance(mixed, variances, top)
    if is_closed(problem):
        inside = (_leads if manner(problem).learns else _possible)(problem, mixed, variances)
    if top == 1:  # if j is the true top arm, all other arms divide its share
        others = inside.sum(axis=-2, keepdims=True) - inside
        share = np.take_along_axis(inside, rows, axis=-2)[..., :, None, :] / others[..., None, :, :]
    else:  # an arm close to the edge of the top N may be a wrong member of an answer, or a member that it misses
        edge = np.maximum(inside * _chance(-mixed, variances, arms - top), LEAST_CHANCE)
        taken = np.take_along_axis(edge / _largest(edge, arms - top), rows, axis=-2)
        place = np.argsort(np.argsort(-edge, axis=-2, kind="stable"), axis=-2, kind="stable")
        first, next_ = _largest(edge, top), _largest(edge, top + 1)
        without = np.where(place < top, next_ - edge, first)  # the largest sum over N arms other than this one
        missed = edge[..., None, :, :] / np.take_along_axis(without, rows, axis=-2)[..., :, None, :]
        share = taken[..., :, None, :] * missed
    itself = rows[..., :, None, :] == np.arange(arms)[:, None]
    logs = np.log(np.where(itself, 1.0, (1 - EVENLY) * share + _evenly(problem))) - ROUNDING
    return np.where(itself, 0.0, logs + log_parts(problem))


def _chance(mixed: FloatArray, variances: FloatArray, top: int) -> FloatArray:
    """`(..., arm, agent)`: rough probability that an arm is among the `top` best, at least LEAST_CHANCE."""
    last = nth_largest(mixed, top, np.ones(mixed.shape, dtype=np.bool_))
    at_last = np.argmax(mixed == last, axis=-2)[..., None, :]
    error = np.sqrt(variances + np.take_along_axis(variances, at_last, axis=-2))
    return np.maximum(ndtr((mixed - last) / error), LEAST_CHANCE)


def _possible(problem: Problem, mixed: FloatArray, variances: FloatArray) -> FloatArray:
    """`(..., arm, agent)`: how plausible an arm is as an answer: about 1 if within the tolerance of the best."""
    best = mixed.max(axis=-2, keepdims=True)
    error = np.sqrt(variances + np.take_along_axis(variances, mixed.argmax(axis=-2)[..., None, :], axis=-2))
    behind = np.minimum(mixed - best + problem.tolerance, 0.0) / error
    return np.asarray(np.maximum(ndtr(STEEPER * (SURELY + behind)), LEAST_CHANCE))


def _leads(problem: Problem, mixed: FloatArray, variances: FloatArray) -> FloatArray:
    """`(..., arm, agent)`: about the probability that an arm leads when a closed study closes, above 0."""
    quantile = closing_quantile(problem, log_stated(problem) - math.log(problem.delta))
    found = Spread.of(mixed, variances, mixed > LOWEST, problem.tolerance)
    last = (problem.tolerance / quantile) ** 2 / 2
    return np.maximum(found.leads(mixed, variances, last, manner(problem).odds), LEAST_CHANCE)


def _largest(values: FloatArray, count: int) -> FloatArray:
    """`(..., 1, agent)`: the sum of the `count` largest values over the arms."""
    ordered = np.sort(values, axis=-2)
    return np.asarray(ordered[..., values.shape[-2] - count :, :].sum(axis=-2, keepdims=True))


def _evenly(problem: Problem) -> float:
    """The equal part of the initial wealth, which every pair gets whatever the estimates are."""
    return EVENLY / ((problem.arm_count - problem.top) * problem.top)


def pairs(
    problem: Problem, state: Pairs, line: float, variances: FloatArray, plan_to_close: Closing | None
) -> Contrasts:
    """The bets of all pairs before a phase, `(..., row, arm, agent)`; a pair's opponent is the arm of its row.

    `plan_to_close` is that of a closed study, or None. There are no bets for agents with an answer, for pairs whose
    wealth has reached `line`, or for pairs with an arm that is closed or not drawn yet.
    """
    opponents = np.broadcast_to(_rows(problem, state)[..., :, None, :], state.log_pairs.shape)
    undecided = state.active.sum(axis=-2, keepdims=True) > problem.top
    distinct = opponents != np.arange(problem.arm_count)[:, None]
    live = distinct & undecided[..., None, :, :] & (state.log_pairs < line)
    unknown = np.broadcast_to(closed(problem) | _new(state), state.counts.shape)
    if unknown.any():  # new arms have no data yet, and closed ones cannot be compared
        unknown = unknown[..., None, :, :]
        live &= ~(unknown | np.take_along_axis(unknown, opponents, axis=-2))
    gap = against(problem.mixed(state.means), opponents) + problem.tolerance
    return Contrasts(
        opponents=opponents,
        gap=gap,
        error=np.sqrt(both(variances, opponents)),
        wealth=state.log_pairs,
        missing=np.maximum(line - state.log_pairs, 0.0),
        live=live,
        losing=live,
        horizon=_horizons(problem, state, line, variances, opponents, plan_to_close),
        log_shares=None if state.shares is None else np.log(np.maximum(state.shares, LEAST_SHARE)),
    )


def _new(state: Pairs) -> BoolArray:
    """`(..., arm, 1)`: whether an arm was opened after the study began and is not drawn yet."""
    return np.asarray((state.counts.sum(axis=-1, keepdims=True) == 0) & (state.phase > 0)[..., None, None])


def closing(
    problem: Problem, state: Pairs, line: float, variances: FloatArray, sure: float | None = None
) -> Closing | None:
    """Find the cheapest way to close all questions; `sure` as in `parley.policies.evidence.closing`.

    Return None if the reward model has no exact test for a last look, if N > 1, or if there are too many arms.
    """
    if not problem.noise.boosted or problem.top > 1 or problem.arm_count > MOST_CONTENDERS:
        return None
    among, ranked = _open(problem, state), standing(problem, state, line)
    if sure is None:
        sure = manner(problem).sure if problem.max_rounds is None else SURE_AT_LAST
    return closing_of(problem, state.log_pairs - line, among, problem.mixed(state.means), variances, ranked, sure)


def closing_of_all(problem: Problem, state: Pairs, line: float) -> Closing:
    """Close all questions among all open arms, whichever of them wins."""
    return of_all(problem, state.log_pairs - line, _open(problem, state))


def spread(problem: Problem, state: Pairs, variances: FloatArray) -> Spread:
    """How far apart the arms are that are open and have been drawn."""
    return Spread.of(problem.mixed(state.means), variances, ~(closed(problem) | _new(state)), problem.tolerance)


def _open(problem: Problem, state: Pairs) -> BoolArray:
    """`(..., arm, agent)`: the arms that may be answers and have been drawn."""
    return np.asarray(state.active & ~closed(problem) & ~_new(state))


def _log_reserve(problem: Problem) -> FloatArray:
    """`(agent,)`: the log of the wealth that a pair stakes in no look but its last."""
    return math.log(RESERVE / (problem.arm_count - problem.top)) + log_parts(problem)


def _horizons(
    problem: Problem,
    state: Pairs,
    line: float,
    variances: FloatArray,
    opponents: IntArray,
    found: Closing | None,
) -> FloatArray | None:
    """`(..., row, arm, agent)`: the variance V at which a pair's question closes; NaN for pairs that bet on a gap.

    None if the study is not closed.
    """
    if found is None:
        return None
    # A pair with a clear gap needs less than the horizon and bets on its gap. But no phase follows a stated last round,
    # so all contenders aim at it. Without a reserve (`_held`), a test would leave too little to arms that look worse.
    means = problem.mixed(state.means)
    if manner(problem).learns:
        means = spread(problem, state, variances).expected(manner(problem).odds)
    gap = against(means, opponents) + problem.tolerance
    ends = np.asarray(manner(problem).near * problem.tolerance)
    if is_tight(problem, line):
        # As long as gaps have large errors, a tie may look like a gap. What it then bets is missing in the end.
        doubtful = ends + IN_DOUBT * np.sqrt(both(variances, opponents))
        ends = np.minimum(doubtful, NEAR_IN_BUDGET * problem.tolerance)
    near = gap < ends
    ties = (near & (found.between | ends_surely(problem))) | (found.between & (problem.max_rounds is not None))
    return np.where(ties, np.square(problem.tolerance / found.horizon)[..., None, None, :], np.nan)


def settled(problem: Problem, state: Pairs, phase: Phase, line: float, variances: FloatArray) -> Pairs:
    """Pay the bets of all pairs whose arms were both drawn, no matter which arms lead."""
    found = closing(problem, state, line, variances) if is_closed(problem) else None
    bets = pairs(problem, state, line, variances, found)
    _, v, drawn = phase.contrasts(bets.opponents)
    closes = _closes(problem, state, line, found, np.where(drawn, v, np.inf))
    last = phase.last[..., None, None, None] | closes
    # A pair that is two standard errors on the losing side does not bet: it would only lose wealth. In a last look such
    # a pair bets too, since there is nothing to save for.
    betting = bets.live & drawn & ((bets.gap + 2 * bets.error > 0) | last)
    late = np.where(state.phase == 0, LATE_FIRST, LATE) if is_tight(problem, line) else np.ones(state.phase.shape)
    late = late[..., None, None, None]
    bets = replace(bets, closes=closes)
    if not ends_surely(problem):
        return replace(state, log_pairs=paid(problem, phase, bets, betting, line, late))
    first = (state.phase == 0)[..., None, None, None] & ~last & keeps_at_first(problem)
    held = np.where(last | first, 0.0, _held(problem, state))
    wealth = state.log_pairs + np.log1p(-held)
    bets = replace(bets, wealth=wealth, missing=np.maximum(line - wealth, 0.0))
    if first.any():
        bets = replace(bets, least=np.where(first, manner(problem).kept, np.zeros(wealth.shape)))
    after = paid(problem, phase, bets, betting, line, late)
    with np.errstate(divide="ignore"):
        whole = np.logaddexp(after, state.log_pairs + np.log(held))
    return replace(state, log_pairs=np.where(betting, np.where(after < line, whole, after), state.log_pairs))


def keeps_at_first(problem: Problem) -> bool:
    """Whether a pair that loses the first phase keeps a part of its wealth, to give it to other pairs.

    With two arms there are no other pairs. The payoffs of Student's t keep enough without it.
    """
    return is_closed(problem) and problem.arm_count > 2


def _closes(problem: Problem, state: Pairs, line: float, planned: Closing | None, look: FloatArray) -> BoolArray:
    """`(..., row, arm, agent)`: the pairs of contenders of agents to whom a look gives an answer whatever it draws.

    `look (..., row, arm, agent)` are the variances of contrasts in this look. These pairs stake nearly all that they
    have. Only the past and the counts decide this, so the bets stay fair.
    """
    every = closing_of_all(problem, state, line) if ends_surely(problem) else None
    closes = np.zeros(look.shape, dtype=np.bool_)
    for found in (planned, every):
        if found is not None:
            closes |= found.between & found.closed_by(problem, state.log_pairs - line, look)
    return closes


def _held(problem: Problem, state: Pairs) -> FloatArray:
    """`(..., row, arm, agent)`: the part of its wealth that a pair stakes in no look but its last: its reserve.

    A pair that has lost its last look has no reserve left.
    """
    over = _log_reserve(problem) - state.log_pairs
    return np.where(over > math.log(2), 0.0, np.exp(np.minimum(over, MOST_HELD)))


def standing(problem: Problem, state: Pairs, line: float) -> FloatArray:
    """`(..., arm, agent)`: the ranking that decides which arms lead; -inf for arms that may not be answers.

    Arms are ranked by their estimate, plus or minus up to half the tolerance depending on the wealth of the arm's
    pairs. So in a tie, the arm with the most evidence leads, not whichever arm has the best estimate now. The proof
    holds for every ranking that depends on the past alone.
    """
    rows, mixed = _rows(problem, state), problem.mixed(state.means)
    itself = rows[..., :, None, :] == np.arange(problem.arm_count)[:, None]
    others = np.where(itself | closed(problem), np.inf, state.log_pairs)
    # The N-th least wealth, since an arm need not beat the N - 1 other leaders.
    least = np.partition(others, problem.top - 1, axis=-2)[..., problem.top - 1, :]
    ranked = np.full(mixed.shape, -np.inf)
    # `ahead` is bounded below too: otherwise, after one lost bet, the best arm would stay behind an arm that can never
    # win.
    ahead = AHEAD * problem.tolerance * np.clip(least / line, -1.0, 1.0)
    np.put_along_axis(ranked, rows, np.take_along_axis(mixed, rows, axis=-2) + ahead, axis=-2)
    return ranked


def at_opponents(state: Pairs, opponents: IntArray) -> FloatArray:
    """`(..., opponent, arm, agent)`: the wealth of the pairs (opponent, arm)."""
    if state.rows is None:
        return np.take_along_axis(state.log_pairs, opponents, axis=-3)
    places = np.zeros(state.counts.shape, dtype=np.int64)
    np.put_along_axis(places, state.rows, np.arange(state.rows.shape[-2])[:, None], axis=-2)
    rows = np.take_along_axis(places[..., None, :, :], opponents, axis=-2)
    return np.take_along_axis(state.log_pairs, rows, axis=-3)


def with_rows(
    problem: Problem, state: Pairs, variances: FloatArray, first: BoolArray, betting: BoolArray, line: float
) -> Pairs:
    """Update rows, initial wealth and shares after a phase, in which the pairs of the agents `betting` have bet.

    `first (...)` marks replications that finished their first phase.

    The first phase fixes the initial wealth of every pair; in closed studies, shares move after every phase instead.
    With many arms, only the best estimates after the first phase get rows. Free rows are copies of the first row. If an
    arm without a row is among the N best later, it gets a free row. Its pairs start with the equal part (`_evenly`),
    which was reserved for them.
    """
    mixed, fresh = _estimates(problem, state), first[..., None, None, None]
    rows = _rows(problem, state)
    if state.rows is not None:
        count = rows.shape[-2]
        order = np.argsort(-mixed, axis=-2, kind="stable")
        place = np.arange(count)[:, None]
        rows = np.where(first[..., None, None], order[..., np.where(place < count - FREE, place, 0)[:, 0], :], rows)
    if state.shares is not None:
        wished = np.exp(endowment(problem, mixed, variances, rows))
        reserve = np.exp(_log_reserve(problem)) if ends_surely(problem) else 0.0
        return moved(state, wished, line, betting, reserve)
    if first.any():
        wealth = np.where(fresh, endowment(problem, mixed, variances, rows), state.log_pairs)
        state = replace(state, log_pairs=wealth)
    if state.rows is None:
        return state
    free = (rows == rows[..., :1, :]) & (place > 0)
    best = order[..., : problem.top, :]
    seated = (rows[..., None, :, :] == best[..., :, None, :]).any(axis=-2)
    late = np.take_along_axis(best, np.argmin(seated, axis=-2)[..., None, :], axis=-2)
    joins = free & (free.cumsum(axis=-2) == 1) & ~seated.all(axis=-2, keepdims=True)
    joins &= ~(first | state.finished)[..., None, None]
    itself = late[..., None, :, :] == np.arange(problem.arm_count)[:, None]
    start = np.where(itself, 0.0, math.log(_evenly(problem)) + log_parts(problem))
    return replace(
        state,
        rows=np.where(joins, late, rows),
        log_pairs=np.where(joins[..., :, None, :], start, state.log_pairs),
    )


def _covered(problem: Problem, state: Pairs, line: float) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Find the N arms closest to an answer: those with the most pairs that have reached the line.

    Returns these arms and the other arms that they have yet to beat, `(..., arm, agent)` each, and whether there are no
    arms left to beat, `(..., agent)`. An arm is yet to be beaten if its pair with one of the N arms is below the line.
    """
    rows, mixed = _rows(problem, state), _estimates(problem, state)
    itself = rows[..., :, None, :] == np.arange(problem.arm_count)[:, None]
    on = itself | closed(problem) | (state.log_pairs >= line)
    estimate = np.take_along_axis(mixed, rows, axis=-2)
    # Free rows repeat the arm of the first row, and closed arms cannot be answers: both are ordered last.
    free = (rows == rows[..., :1, :]) & (np.arange(rows.shape[-2]) > 0)[:, None]
    free |= np.isin(rows, np.flatnonzero(closed(problem)))
    order = np.lexsort((-estimate, np.where(free, 1, -on.sum(axis=-2))), axis=-2)[..., : problem.top, :]
    chosen = np.zeros(mixed.shape, dtype=np.bool_)
    np.put_along_axis(chosen, np.take_along_axis(rows, order, axis=-2), True, axis=-2)
    whole = np.take_along_axis(on, order[..., :, None, :], axis=-3).all(axis=-3)
    missing = ~whole & ~chosen
    return chosen, missing, np.asarray(~missing.any(axis=-2))


def decided(
    problem: Problem, before: Pairs, after: Pairs, line: float, variances: FloatArray, over: BoolArray
) -> Pairs:
    """Decide after a phase: give answers, update rows and shares, and narrow candidates where the budget is spent."""
    found = answered(problem, before, after, line)
    betting = (before.active.sum(axis=-2) > problem.top) & ~before.finished[..., None]
    found = with_rows(problem, found, variances, (before.phase == 0) & ~before.finished, betting, line)
    return narrowed(problem, found, over, line)


def answered(problem: Problem, before: Pairs, after: Pairs, line: float) -> Pairs:
    """Give the answer of every agent for whom N arms have reached the line against all other arms."""
    assert before.accepted is not None
    chosen, _, whole = _covered(problem, after, line)
    undecided = before.active.sum(axis=-2) > problem.top
    started = (before.phase > 0) | is_closed(problem)
    now = whole & undecided & (started & ~before.finished)[..., None]
    return _kept(after, chosen, now, before.accepted | now)


def narrowed(problem: Problem, state: Pairs, over: BoolArray, line: float) -> Pairs:
    """Where the budget is spent, keep the N arms closest to an answer and the arms that these have yet to beat."""
    assert state.accepted is not None
    chosen, missing, _ = _covered(problem, state, line)
    undecided = state.active.sum(axis=-2) > problem.top
    return _kept(state, chosen | missing, undecided & over[..., None], state.accepted)


def _kept(state: Pairs, arms: BoolArray, who: BoolArray, accepted: BoolArray) -> Pairs:
    """Keep only these `arms (..., arm, agent)` as candidates of the agents `who (..., agent)`."""
    active = np.where(who[..., None, :], state.active & arms, state.active)
    out_in = np.where(state.active & ~active, state.phase[..., None, None], state.dropped_in)
    return replace(state, active=active, dropped_in=out_in, accepted=accepted)


def shown(problem: Problem, state: Pairs, score: FloatArray, line: float) -> tuple[FloatArray, str]:
    """The evidence against arms as pages display it, and its description.

    Only the score of an arm that is proven worse may reach the line; any other score stays just below it.
    """
    score = np.where(state.gap_at_least > 0, score, np.minimum(score, np.nextafter(line, 0.0)))
    return score, Translatable("that the arm is not better than the leaders by {0:g} or more", problem.tolerance)


def set_aside(state: Pairs) -> BoolArray:
    """`(..., arm, agent)`: whether an arm was dropped although no bound on its gap proves it worse."""
    return np.asarray((state.dropped_in > 0) & (state.gap_at_least <= 0))
