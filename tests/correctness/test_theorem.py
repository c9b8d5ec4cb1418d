"""Evidence racing comes near the lower bound as delta goes to 0; `make theorem` has the whole table."""

import pytest
from tests.support import first_quick, paper_study
from tools.correctness.theorem import MOST_ROUNDS, PROMISED, Ratio


@pytest.mark.parametrize("delta", first_quick(*sorted(PROMISED)))
def test_the_ratio_to_the_lower_bound_falls_to_1(delta):
    found = Ratio.of(paper_study().instance, delta, 300, 7)
    assert 1 < found.ratio <= PROMISED[delta] + 3 * found.error
    assert found.rounds <= MOST_ROUNDS + 0.2
