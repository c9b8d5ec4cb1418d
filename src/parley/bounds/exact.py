"""Exact lower bounds, with a certificate, for rewards whose mean determines their distribution (docs/rewards.md).

A contrast has coefficients a_i of the cells' means, whose true values are mu_i. Means lambda close its gap if
sum_i a_i lambda_i <= floor. Draws x resolve the contrast at the rate g(x) = inf sum_i x_i kl(mu_i, lambda_i) over all
means lambda that close its gap. The cheapest x that resolves all contrasts solves a linear program whose constraints
are cuts; new cuts are made at a point between the program's solution and the best feasible point. For a multiplier
kappa each lambda_i minimises kl(mu_i, lambda_i) + (kappa a_i / x_i) lambda_i (`parley.rewards.divergences`). The dual
value sum x kl + kappa (sum a lambda - floor) never exceeds g, so an allocation divided by this value is feasible.
"""

from dataclasses import dataclass

import numpy as np

from parley.errors import NotConverged
from parley.problem import Instance
from parley.rewards.divergences import SMALLEST, Divergence
from parley.validation.checks import FloatArray

BISECTIONS, ROUNDS = 90, 120
DRAWN_BACK = 0.6  # cuts are made at this fraction of the way from the best feasible point to the program's solution


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanContrasts:
    """Contrasts of cell means: coefficients `(contrast, cell)`, true means `(cell,)` and floors `(contrast,)`."""

    coefficients: FloatArray
    means: FloatArray
    floors: FloatArray
    divergence: Divergence

    def rivals(self, draws: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Find the nearest means that close each gap, given the draws of every cell.

        Returns kl to these means, `(contrast, cell)`, and a lower bound on each rate g, `(contrast,)`.
        """
        means = self.divergence.inside(self.means)[None, :]
        per = self.coefficients / np.maximum(draws, SMALLEST)[None, :]
        low, high = np.zeros(len(self.floors)), np.full(len(self.floors), 1e-12)
        for _ in range(200):  # until the multipliers close every gap
            short = (self.coefficients * self.divergence.moved(means, high[:, None] * per)).sum(axis=1) > self.floors
            if not short.any():
                break
            high = np.where(short, high * 4, high)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            short = (self.coefficients * self.divergence.moved(means, middle[:, None] * per)).sum(axis=1) > self.floors
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        moved = self.divergence.moved(means, high[:, None] * per)
        divergence = self.divergence.between(means, moved)
        divergence = np.where(self.coefficients != 0, np.maximum(divergence, 0.0), 0.0)
        slack = (self.coefficients * moved).sum(axis=1) - self.floors  # at most 0: the gap is closed
        return divergence, np.asarray(divergence @ draws + high * slack)


@dataclass(frozen=True, kw_only=True, eq=False)
class Proven:
    """A feasible allocation, its cost, and the lower bound that the cuts prove on the cost of any allocation."""

    value: float
    lower: float
    allocation: FloatArray  # (cell,)


def cheapest(contrasts: MeanContrasts, costs: FloatArray, start: FloatArray, *, accuracy: float) -> Proven:
    """Find the cheapest draws that resolve every contrast, from a positive `start`, to a proven relative `accuracy`.

    >>> from parley.rewards.divergences import BERNOULLI
    >>> row, means = np.array([[1.0, -1.0]]), np.array([0.6, 0.4])
    >>> two = MeanContrasts(coefficients=row, means=means, floors=np.zeros(1), divergence=BERNOULLI)
    >>> found = cheapest(two, np.ones(2), np.ones(2), accuracy=1e-6)
    >>> round(found.value, 3), bool(found.lower <= found.value <= found.lower * (1 + 1e-5))
    (49.663, True)
    """
    from scipy.optimize import linprog  # imported here because it is slow to import and rarely needed

    used = (contrasts.coefficients != 0).any(axis=0)
    start = np.where(used, np.maximum(start, SMALLEST), 0.0)
    best, value, lower = start, np.inf, 0.0
    point, cuts = start, np.zeros((0, len(costs)))
    for _ in range(ROUNDS):
        divergence, rate = contrasts.rivals(point)
        least = float(rate.min())
        # All rates scale with the draws, so the point divided by its smallest rate is feasible.
        if least > 0 and (cost := float(costs @ point) / least) < value:
            value, best = cost, point / least
        cuts = np.concatenate([cuts, divergence])
        cuts = cuts[cuts.max(axis=1) > 0]
        scale = cuts.max(axis=1, keepdims=True)
        solved = linprog(
            costs[used], A_ub=-(cuts / scale)[:, used], b_ub=-1 / scale[:, 0], bounds=(0, None), method="highs"
        )
        if solved.status != 0:
            break
        # Scaled until they are feasible, the multipliers prove a lower bound, whatever the tolerance of linprog.
        multipliers = np.maximum(-solved.ineqlin.marginals, 0.0) / scale[:, 0]
        excess = float(((cuts.T @ multipliers)[used] / costs[used]).max())
        lower = max(lower, float(multipliers.sum()) / max(excess, SMALLEST))
        if value - lower <= accuracy * value:
            break
        solution = np.zeros(len(costs))
        solution[used] = solved.x
        # Every used cell gets some draws, since `rivals` divides by them.
        point = np.where(used, np.maximum((1 - DRAWN_BACK) * best + DRAWN_BACK * solution, 1e-9 * best.max()), 0.0)
        kept = cuts @ solution < 3.0  # drop old cuts that are far from tight
        cuts = cuts[kept] if len(cuts) > 40 * len(contrasts.floors) else cuts
    if not np.isfinite(value):
        raise NotConverged("no number of draws can distinguish these means", None)
    return Proven(value=value, lower=min(lower, value), allocation=best)


def identified(instance: Instance) -> MeanContrasts:
    """The contrasts of top-N identification: every arm outside an agent's top N against every arm inside."""
    problem, best = instance.problem, instance.best
    rows = []
    for agent in range(problem.agent_count):
        for inside in np.flatnonzero(best[:, agent]):
            for outside in np.flatnonzero(~best[:, agent]):
                row = np.zeros(problem.shape)
                row[inside], row[outside] = problem.weights[:, agent], -problem.weights[:, agent]
                rows.append(row.ravel())
    return _contrasts(instance, rows, np.zeros(len(rows)))


def regretted(instance: Instance) -> MeanContrasts:
    """The contrasts of regret minimisation, over draws of an arm by agents for whom it is not best.

    An agent plays its own best arm all the time and so learns the arm's mean without exploring. So only the draws of
    other agents count. A gap that even the largest possible means of those agents could not close needs no draws.
    """
    problem, gaps, best = instance.problem, instance.gaps, instance.best
    rows, floors, largest = [], [], _divergence(instance).largest
    for arm, agent in np.argwhere(~best):
        weights = np.where(best[arm], 0.0, problem.weights[:, agent])
        floor = -(weights @ instance.means[arm] + gaps[arm, agent])
        if weights.any() and -floor < weights.sum() * largest * (1 - 1e-9):
            row = np.zeros(problem.shape)
            row[arm] = -weights
            rows.append(row.ravel())
            floors.append(floor)
    return _contrasts(instance, rows, np.array(floors))


def _contrasts(instance: Instance, rows: list[FloatArray], floors: FloatArray) -> MeanContrasts:
    coefficients, means = np.array(rows).reshape(len(rows), instance.means.size), instance.means.ravel()
    return MeanContrasts(coefficients=coefficients, means=means, floors=floors, divergence=_divergence(instance))


def _divergence(instance: Instance) -> Divergence:
    found = instance.problem.noise.divergence
    assert found is not None, "asked only where bounds are exact"
    return found
