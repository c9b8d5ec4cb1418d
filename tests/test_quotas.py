import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import random_weights

from parley.bounds import oracle
from parley.confidence.thresholds import make_threshold
from parley.errors import InvalidInput
from parley.problem import Problem
from parley.quotas import smallest_counts


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 5), st.integers(0, 20), st.floats(1e-6, 0.5))
def test_counts_are_feasible_and_minimal_down_to_tiny_proxy_gaps(seed, arms, agents, halvings, delta):
    rng = np.random.default_rng(seed)
    problem = Problem(arms=arms, weights=random_weights(rng, agents), delta=delta)
    beta = make_threshold("paper", problem)
    proxies = np.exp2(-rng.integers(0, halvings + 1, (arms, agents)).astype(float))
    allocation = oracle(problem, np.sqrt(2) * proxies, accuracy=1e-6)
    before = rng.integers(1, 10 ** rng.integers(1, 9), (arms, agents))
    counts = smallest_counts(before, allocation, beta)
    assert (counts >= before).all()
    assert (counts >= allocation * beta(counts)).all()
    for arm, agent in np.argwhere(counts > before):
        fewer = counts.copy()
        fewer[arm, agent] -= 1
        assert fewer[arm, agent] < (allocation * beta(fewer))[arm, agent], "one draw less must violate its constraint"


def test_impossible_counts_are_an_error_not_an_overflow():
    with pytest.raises(InvalidInput, match=r"at most 2\^53"):
        smallest_counts(np.ones((1, 1), dtype=np.int64), np.array([[1e20]]), lambda _: np.ones((1, 1)))
    with pytest.raises(InvalidInput, match="finite numbers of at least 0"):
        smallest_counts(np.ones((1, 1), dtype=np.int64), np.array([[np.nan]]), lambda _: np.ones((1, 1)))
