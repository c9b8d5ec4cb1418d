"""The costs and rounds that an independent implementation measured, within Monte Carlo error.

Figures: mean cost, its standard deviation over runs, rounds; 20,000 replications there, as in `make reproduction`.
"""

import math

import pytest
from tests.support import paper_study

from parley.bounds import bai, expected_samples
from parley.policies import make_policy
from parley.simulation import simulate

pytestmark = pytest.mark.simulations

THEIRS, COUNT = 20_000, 4_000
ERROR = math.sqrt(1 / THEIRS + 1 / COUNT)  # of a difference of means, in standard deviations
WCPE = {
    0.4: (150_857, 38_007, 5.87),
    0.5: (93_969, 31_159, 5.27),
    0.6: (97_054, 31_238, 5.29),
    0.7: (96_403, 33_028, 5.27),
}
# The reference for PF-UCB-BAI is off by up to 0.9 % where its 20,000 replications would allow 0.2 %; a hand-written
# loop agrees with ours. We hold both to 2 %.
PF_UCB = {0.4: 42_276, 0.5: 32_969, 0.6: 30_862, 0.7: 29_299}
BY_DELTA = {  # delta: cost, rounds, ratio to the lower bound
    0.1: (93_596, 5.27, 85.4),
    0.05: (96_335, 5.26, 59.2),
    0.01: (102_229, 5.26, 35.7),
    0.001: (111_216, 5.25, 24.0),
    0.0001: (119_367, 5.24, 18.7),
    0.00001: (127_614, 5.23, 15.6),
}


def run(policy: str, alpha: float, delta: float = 0.1):
    study = paper_study(alpha, delta=delta)
    return study, simulate(make_policy(policy, study.problem), study.instance, replications=COUNT, seed=2026)


@pytest.mark.parametrize("alpha", WCPE)
def test_wcpe_by_alpha(alpha):
    cost, deviation, rounds = WCPE[alpha]
    study, outcome = run("wcpe", alpha)
    assert outcome.costs.mean() == pytest.approx(cost, abs=4 * deviation * ERROR)
    assert outcome.costs.std() == pytest.approx(deviation, rel=0.05)
    assert outcome.rounds.mean() == pytest.approx(rounds, abs=0.005 + 4 * outcome.rounds.std() * ERROR)
    assert outcome.error_rate <= study.problem.delta


@pytest.mark.parametrize("delta", BY_DELTA)
def test_wcpe_by_delta(delta):
    cost, rounds, ratio = BY_DELTA[delta]
    study, outcome = run("wcpe", 0.5, delta)
    assert outcome.costs.mean() == pytest.approx(cost, abs=4 * outcome.costs.std() * ERROR)
    assert outcome.rounds.mean() == pytest.approx(rounds, abs=0.005 + 4 * outcome.rounds.std() * ERROR)
    assert outcome.costs.mean() / expected_samples(bai(study.instance), delta) == pytest.approx(ratio, rel=0.02)
    assert outcome.error_rate <= delta


@pytest.mark.parametrize("alpha", PF_UCB)
def test_pf_ucb_bai_by_alpha(alpha):
    study, outcome = run("pf-ucb-bai", alpha)
    assert outcome.costs.mean() == pytest.approx(PF_UCB[alpha], rel=0.02)
    assert outcome.error_rate <= study.problem.delta


def test_the_oracle_keeps_its_word():
    study = paper_study()
    policy = make_policy("oracle", study.problem, {}, study.instance)
    outcome = simulate(policy, study.instance, replications=COUNT, seed=1)
    assert 0 < outcome.error_rate <= study.problem.delta
    assert (outcome.rounds == 1).all()
