"""People who arrive while a phase waits for outcomes: sites assign them to the next phase, as the current plan says.

docs/changes.md has the proof that these people may be counted, and how many draws they save.
"""

import numpy as np

from parley.problem import FloatArray, IntArray, Problem

MOST_SAVED = 0.75  # largest share of a plan that these people may cover, so that the phase has draws of its own


def without_share(quotas: IntArray, between: IntArray, least: int) -> IntArray:
    """Reduce a plan `(..., arm, agent)` by the part that the people `between` already cover.

    These people cover some share of every planned cell. Let s be the smallest of these shares, limited to `MOST_SAVED`;
    the whole plan is reduced by s. Contrasts are taken within strata: the stratum of these people has at least the
    share s of the plan's information, and the phase's own draws have 1 - s. If a planned cell has no such people, s is
    0. Every planned cell keeps at least `least` draws, but gets no more than planned.

    >>> without_share(np.array([[40, 20], [10, 0]]), np.array([[12, 6], [4, 9]]), 1).tolist()
    [[28, 14], [7, 0]]
    """
    wanted = quotas > 0
    shares: FloatArray = np.divide(between, quotas, out=np.full(quotas.shape, np.inf), where=wanted)
    share = np.minimum(shares.min(axis=(-2, -1), keepdims=True), MOST_SAVED)
    # 40 * (1 - 0.3) is slightly above 28 in floating point, which must not become 29 draws.
    rest = np.ceil(np.round(quotas * (1 - share), 9)).astype(np.int64)
    return np.where(wanted, np.minimum(np.maximum(rest, least), quotas), 0)


def asked_with(quotas: IntArray, between: IntArray) -> IntArray:
    """`(..., arm, agent)`: the people `between` at agents that draw in this phase, and 0 at other agents.

    An agent that draws nothing does not report, so the people whom it assigned are not reported either.
    """
    return np.where(quotas.any(axis=-2, keepdims=True), between, 0)


def people_ahead(problem: Problem, quotas: IntArray, most: IntArray) -> IntArray:
    """`(..., arm, agent)`: people expected to be assigned to the next phase while this phase waits for outcomes.

    Per agent these are `most (..., agent)` people, or fewer if fewer arrive in that time at the stated rates.

    >>> problem = Problem(arms=2, weights=np.eye(2), rate=[2.0, 1.0], delay=[3.0, 30.0])
    >>> people_ahead(problem, np.array([[8, 8], [4, 8]]), np.array([9, 9])).tolist()
    [[4, 5], [2, 4]]
    """
    come = most if problem.rate is None else np.minimum(most, np.floor(problem.rate * problem.delay).astype(np.int64))
    whole = quotas.sum(axis=-2)
    exact = quotas * (np.minimum(come, whole) / np.maximum(whole, 1))[..., None, :]
    ahead = np.floor(np.round(exact, 9)).astype(np.int64)
    # People lost to rounding down go to the largest remainders.
    places = np.argsort(np.argsort(ahead - exact, axis=-2, kind="stable"), axis=-2, kind="stable")
    return np.asarray(ahead + (places < (np.minimum(come, whole) - ahead.sum(axis=-2))[..., None, :]))
