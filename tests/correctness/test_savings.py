"""The short version of `make savings`."""

import numpy as np
import pytest
from tools.correctness.savings import DELTA, LEAST_GAP, TOPS, Case, geometric_mean

pytestmark = pytest.mark.simulations

CASES = [Case(number=number, seed=1, replications=8) for number in range(12)]


def test_cases_are_what_they_say_and_the_same_every_time():
    for case in CASES:
        instance, again = case.instance, case.instance
        arms, agents = instance.problem.shape
        assert 3 <= arms <= 20
        assert 2 <= agents <= 10
        assert instance.smallest_gap >= LEAST_GAP
        assert (instance.means == again.means).all()
        assert not np.allclose(instance.problem.weights, instance.problem.weights.T)


def test_evidence_is_cheaper_on_every_instance_and_by_far_on_average():
    savings = [case.run() for case in CASES]
    assert all(saving.factor > 4 for saving in savings)
    for top, least in zip(TOPS, (12, 8, 8), strict=True):
        assert geometric_mean([saving for saving in savings if saving.top == top]) >= least
    assert np.median([saving.rounds for saving in savings]) <= np.median([saving.wcpe_rounds for saving in savings]) + 1
    assert np.mean([saving.mistaken for saving in savings]) <= DELTA
