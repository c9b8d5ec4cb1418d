"""A re-weighing for reasons that are not in the rewards keeps the error below delta; others do not."""

import pytest
from tools.correctness.lost_sites import CELLS, lose
from tools.correctness.near_ties import allowance

pytestmark = pytest.mark.simulations


@pytest.mark.parametrize("name", ["one question", "the lost site disagreed"])
def test_a_lost_site_and_a_re_weighing_keep_the_error_below_delta(name):
    loss, size = CELLS[name][0], 1200
    assert 0.03 < lose(loss, "re-weighed", replications=size, seed=5) <= allowance(loss.delta, size)


def test_going_on_from_the_old_state_is_found_out():
    loss, size = CELLS["the lost site disagreed"][0], 120
    assert lose(loss, "from the old state", replications=size, seed=5) > allowance(loss.delta, size, deviations=6)


def test_re_weighing_because_of_the_rewards_is_found_out():
    loss, size = CELLS["four sites, one question"][0], 400
    assert lose(loss, "because of the rewards", replications=size, seed=5) > allowance(loss.delta, size, deviations=4)
