"""Exact bounds for 0/1 rewards: the inner problem against CVXPY, the outer one by its own proof and by brute force."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize
from tests.support import first_quick

from parley.bounds import bai, bounds_are_exact, regret
from parley.bounds.exact import MeanContrasts, cheapest, identified, regretted
from parley.problem import Instance, Problem
from parley.rewards import Binary, Gaussian
from parley.rewards.divergences import BERNOULLI

WEIGHTS = [[0.8, 0.3], [0.2, 0.7]]


def instance(means, top=1, model=None) -> Instance:
    problem = Problem(arms=len(means), weights=WEIGHTS, noise=model or Binary(), top=top)
    return Instance(problem=problem, means=means)


RATES = [[0.4, 0.5], [0.2, 0.3], [0.1, 0.45]]


def by_cvxpy(rows: MeanContrasts, row: int, draws: np.ndarray) -> float:
    """inf of sum x kl(mu, lambda) over the rates that undo a gap."""
    used = rows.coefficients[row] != 0
    mu, x, a = rows.means[used], draws[used], rows.coefficients[row][used]
    lam = cp.Variable(used.sum())
    objective = cp.sum(cp.multiply(x * mu, np.log(mu) - cp.log(lam)))
    objective += cp.sum(cp.multiply(x * (1 - mu), np.log(1 - mu) - cp.log(1 - lam)))
    problem = cp.Problem(cp.Minimize(objective), [a @ lam <= rows.floors[row]])
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


@pytest.mark.parametrize("rows", [identified(instance(RATES)), regretted(instance(RATES))], ids=["bai", "regret"])
def test_the_rate_at_which_a_contrast_is_told_apart_is_cvxpys(rows):
    draws = np.random.default_rng(0).uniform(1, 5, len(rows.means))
    divergence, least = rows.rivals(draws)
    for row in range(len(rows.floors)):
        exact = by_cvxpy(rows, row, draws)
        assert least[row] == pytest.approx(exact, rel=1e-5)
        assert float(divergence[row] @ draws) == pytest.approx(exact, rel=1e-5)
        assert least[row] <= float(divergence[row] @ draws) * (1 + 1e-12)


def test_two_alike_arms_have_the_bound_of_the_textbooks():
    found = cheapest(
        MeanContrasts(
            coefficients=np.array([[1.0, -1.0]]), means=np.array([0.5, 0.3]), floors=np.zeros(1), divergence=BERNOULLI
        ),
        np.ones(2),
        np.ones(2),
        accuracy=1e-7,
    )

    def rate(share):  # of draws of the first arm; kl to the common rate that is hardest to tell
        common = share * 0.5 + (1 - share) * 0.3
        kl = [q * np.log(q / common) + (1 - q) * np.log((1 - q) / (1 - common)) for q in (0.5, 0.3)]
        return share * kl[0] + (1 - share) * kl[1]

    best = max(rate(share) for share in np.linspace(0.01, 0.99, 9801))
    assert found.value == pytest.approx(1 / best, rel=1e-6)
    assert found.lower <= found.value


@pytest.mark.parametrize("top", first_quick(2, 1))
def test_the_bound_is_proven_and_nobody_does_better(top):
    one = instance(RATES, top=top)
    found = bai(one)
    assert bounds_are_exact(one)
    assert 0 <= found.gap <= 1e-5
    rows = identified(one)

    def cost(logs):
        draws = np.exp(logs)
        return float(np.log(draws.sum() / rows.rivals(draws)[1].min()))

    others = (minimize(cost, np.log(found.allocation.ravel() * f), method="Nelder-Mead", options={"maxiter": 60})
              for f in (1.0, np.random.default_rng(1).uniform(0.8, 1.25, found.allocation.size)))  # fmt: skip
    assert min(np.exp(other.fun) for other in others) >= found.proven * (1 - 1e-9)


def test_near_ties_cost_what_gaussian_rewards_of_their_variances_cost():
    close = np.array([[0.31, 0.305], [0.3, 0.3], [0.295, 0.3]])
    exact = bai(instance(close)).value
    assert exact == pytest.approx(
        bai(instance(close, model=Gaussian(scale=np.sqrt(close * (1 - close))))).value, rel=0.01
    )


def test_the_regret_bound_is_proven_and_counts_only_what_can_hide_something():
    found = regret(instance(RATES))
    assert 0 <= found.gap <= 1e-5
    assert found.value > 0
    assert (found.allocation[0] == 0).all()  # best for everybody: it is played anyway
    sure = instance([[0.99, 0.99], [0.98, 0.1], [0.1, 0.2]])
    assert np.isfinite(regret(sure).value)
