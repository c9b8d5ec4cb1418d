import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import random_weights

from parley.bounds import oracle
from parley.errors import InvalidInput
from parley.policies.wcpe import make_threshold, smallest_counts
from parley.problem import Problem


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


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 12), st.sampled_from([2, 5, 50, 10_000]))
def test_with_a_minimum_cell_counts_are_feasible_and_no_smaller_ones_are(seed, agents, halvings, cell):
    rng = np.random.default_rng(seed)
    problem = Problem(arms=3, weights=random_weights(rng, agents))
    beta = make_threshold("paper", problem)
    allocation = oracle(problem, np.sqrt(2) * np.exp2(-rng.integers(0, halvings + 1, problem.shape).astype(float)))
    before = rng.integers(0, 10 ** rng.integers(1, 6), problem.shape)
    counts = smallest_counts(before, allocation, beta, cell)
    draws = counts - before
    assert ((draws == 0) | (draws >= cell)).all()
    assert (counts >= allocation * beta(counts)).all(), "intervals as narrow as their proxy gaps, cells and all"
    assert (counts >= 1).all()
    for arm, agent in np.argwhere(draws > 0):
        fewer = counts.copy()
        fewer[arm, agent] = before[arm, agent] if draws[arm, agent] == cell else counts[arm, agent] - 1
        short = fewer[arm, agent] < (allocation * beta(np.maximum(fewer, 1)))[arm, agent]
        assert short or fewer[arm, agent] == 0, "the next smaller draws that are allowed must violate its constraint"


def test_impossible_counts_are_an_error_not_an_overflow():
    with pytest.raises(InvalidInput, match=r"at most 2\^53"):
        smallest_counts(np.ones((1, 1), dtype=np.int64), np.array([[1e20]]), lambda _: np.ones((1, 1)))
    with pytest.raises(InvalidInput, match="finite numbers of at least 0"):
        smallest_counts(np.ones((1, 1), dtype=np.int64), np.array([[np.nan]]), lambda _: np.ones((1, 1)))
