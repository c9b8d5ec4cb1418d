"""People who come while outcomes of a phase are awaited: assigned for the next phase, by the plan in progress.

docs/changes.md has the proof that they may be counted, and what they save.
"""

import numpy as np

from parley.problem import FloatArray, IntArray, Problem

MOST_SAVED = 0.75  # of a plan: the phase has some people of its own, whoever came before it


def without_share(quotas: IntArray, between: IntArray, least: int) -> IntArray:
    """What a plan `(..., arm, agent)` still asks for, besides the people `between`: all of it, less the share that they
    have of *every* cell.

    Contrasts are within strata. With the share s of all counts a stratum has at least the share s of the information of
    the whole plan, and the rest 1 - s: together at least what the plan wants. An arm or a site that nobody between was
    given makes s = 0. A cell that is drawn has at least `least` draws.

    >>> without_share(np.array([[40, 20], [10, 0]]), np.array([[12, 6], [4, 9]]), 1).tolist()
    [[28, 14], [7, 0]]
    """
    wanted = quotas > 0
    shares: FloatArray = np.divide(between, quotas, out=np.full(quotas.shape, np.inf), where=wanted)
    share = np.minimum(shares.min(axis=(-2, -1), keepdims=True), MOST_SAVED)
    # 40 * (1 - 0.3) is a little more than 28 in floating point, and that is no 29th draw.
    rest = np.ceil(np.round(quotas * (1 - share), 9)).astype(np.int64)
    return np.where(wanted, np.minimum(np.maximum(rest, least), quotas), 0)


def asked_with(quotas: IntArray, between: IntArray) -> IntArray:
    """`(..., arm, agent)`: of the people `between`, those of agents whom the phase asks for something. The others do
    not report, and so not of these either.
    """
    return np.where(quotas.any(axis=-2, keepdims=True), between, 0)


def people_ahead(problem: Problem, quotas: IntArray, most: IntArray) -> IntArray:
    """`(..., arm, agent)`: who is expected to be assigned for the next phase at the stated rates, while a phase with
    these `quotas` waits for its last outcomes: `most (..., agent)` people, or fewer where fewer come in that time.

    >>> problem = Problem(arms=2, weights=np.eye(2), rate=[2.0, 1.0], delay=[3.0, 30.0])
    >>> people_ahead(problem, np.array([[8, 8], [4, 8]]), np.array([9, 9])).tolist()
    [[4, 5], [2, 4]]
    """
    come = most if problem.rate is None else np.minimum(most, np.floor(problem.rate * problem.delay).astype(np.int64))
    whole = quotas.sum(axis=-2)
    exact = quotas * (np.minimum(come, whole) / np.maximum(whole, 1))[..., None, :]
    ahead = np.floor(np.round(exact, 9)).astype(np.int64)
    # Who is lost by rounding down goes to the largest remainders.
    places = np.argsort(np.argsort(ahead - exact, axis=-2, kind="stable"), axis=-2, kind="stable")
    return np.asarray(ahead + (places < (np.minimum(come, whole) - ahead.sum(axis=-2))[..., None, :]))
